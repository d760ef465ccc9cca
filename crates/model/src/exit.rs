//! How a job ended and what it used.

use crate::{Timestamp, is_default};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An exit code and a signal: two numbers, as `code:signal` (Slurm's job exit codes page).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ExitStatus {
    /// The code given to `exit`, 0 to 255.
    pub code: u8,
    /// The signal that ended the process, or 0.
    pub signal: u8,
}

/// Why the job's processes are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The batch script ended by itself.
    Exited,
    /// Stopped at its time limit.
    TimeLimit,
    /// Stopped as ordered (the job's stop mark says why).
    Stopped,
    /// Killed for memory.
    OutOfMemory,
    /// Never ran: the engine could not start it. The report's message says why.
    LaunchFailed,
    /// Its node started again.
    NodeReboot,
    /// Its node, or its process on the node, is gone and nothing is known of how it ended.
    NodeLost,
}

/// The engine's word on a finished attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// The batch script's status.
    pub status: ExitStatus,
    /// Why it ended.
    pub cause: EndCause,
    /// When its first process began; `None` where none did.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: Option<Timestamp>,
    /// When its last process was gone.
    pub ended: Timestamp,
    /// What it used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// A sentence for the user.
    #[serde(default, skip_serializing_if = "is_default")]
    pub message: String,
    /// Its steps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: Vec<StepRecord>,
}

impl ExitReport {
    /// The report of an attempt of which no process ever ran, as far as is known. One that could not
    /// be started has code 1, as Slurm has it.
    pub fn never_ran(cause: EndCause, message: &str, at: Timestamp) -> Self {
        let code = u8::from(cause == EndCause::LaunchFailed);
        Self {
            status: ExitStatus { code, signal: 0 },
            cause,
            started: None,
            ended: at,
            usage: Usage::default(),
            message: message.to_owned(),
            steps: Vec::new(),
        }
    }
}

/// What a job or step used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The most memory it held at once, in KiB.
    pub memory_peak_kib: u64,
    /// CPU time in user mode, milliseconds.
    pub cpu_user_ms: u64,
    /// CPU time in the kernel, milliseconds.
    pub cpu_system_ms: u64,
    /// The most memory of one GPU it held at once, in MiB; 0 where nobody measured it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu_memory_peak_mib: u64,
}

/// Which step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepId {
    /// The batch script.
    Batch,
    /// The terminal or client of an allocation.
    Interactive,
    /// A step started by `srun`, counted from 0.
    Number(u32),
}

/// A finished or running step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Which.
    pub id: StepId,
    /// Its name: the command's base name, `batch` for the script.
    pub name: String,
    /// How many tasks.
    pub tasks: u32,
    /// How many nodes.
    pub nodes: u32,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; `None` while it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended: Option<Timestamp>,
    /// How long it stood still with its job, milliseconds; counted by the state, not by engines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused_ms: u64,
    /// The highest status of its tasks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: ExitStatus,
    /// What it used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
}

impl StepRecord {
    /// True where an engine's record says nothing that this one does not.
    pub fn is_as_seen(&self, seen: &Self) -> bool {
        *self == Self { paused_ms: self.paused_ms, ..seen.clone() }
    }
}

impl ExitStatus {
    /// Code 0, no signal.
    pub const SUCCESS: Self = Self { code: 0, signal: 0 };

    /// True for code 0 and no signal.
    pub const fn success(self) -> bool {
        self.code == 0 && self.signal == 0
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.code, self.signal)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch => f.write_str("batch"),
            Self::Interactive => f.write_str("interactive"),
            Self::Number(n) => n.fmt(f),
        }
    }
}
