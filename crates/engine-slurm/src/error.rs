//! What can go wrong between muster and Slurm.

use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why Slurm could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlurmError {
    /// A command is nowhere.
    #[error("no {command} in {looked}: install Slurm's client commands, or name their folder")]
    Missing {
        /// Its name.
        command: String,
        /// The folders looked at, parted by colons.
        looked: String,
    },
    /// A command of that name is muster's own.
    #[error("{} is muster's own command, not Slurm's: name the folder of Slurm's", path.display())]
    Own {
        /// Where it lies.
        path: PathBuf,
    },
    /// A command cannot be run, or says that it failed.
    #[error("{command}: {said}")]
    Failed {
        /// The command with its arguments.
        command: String,
        /// What it said, or the system.
        said: String,
    },
    /// A command did not end in time.
    #[error("{command}: no answer within {} s; is slurmctld up?", limit.as_secs())]
    Late {
        /// The command with its arguments.
        command: String,
        /// The time it had.
        limit: Duration,
    },
    /// A command said more than is taken.
    #[error("{command}: more than {bytes} bytes; a Slurm this large is not read")]
    Long {
        /// The command with its arguments.
        command: String,
        /// The bound.
        bytes: u64,
    },
    /// A slurmrestd that cannot be asked.
    #[error("slurmrestd {url}: {what}")]
    Rest {
        /// As it was named.
        url: String,
        /// Why.
        what: String,
    },
    /// What a command said cannot be read.
    #[error("{command}: cannot read its answer: {what}")]
    Answer {
        /// The command with its arguments.
        command: String,
        /// What of it.
        what: String,
    },
}

impl SlurmError {
    /// Its stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } | Self::Own { .. } => "E_SLURM_COMMAND",
            Self::Failed { .. } | Self::Late { .. } => "E_SLURM_FAILED",
            Self::Rest { .. } => "E_SLURM_REST",
            Self::Long { .. } | Self::Answer { .. } => "E_SLURM_ANSWER",
        }
    }
}
