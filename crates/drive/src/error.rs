//! What can go wrong while a Slurm is driven.

use muster_engine_slurm::SlurmError;
use thiserror::Error;

/// Why partitions are not driven, or not any longer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DriveError {
    /// Slurm cannot be asked or told.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// There is no such partition.
    #[error("Slurm has no partition {partition}: it has {has}")]
    Unknown {
        /// The one that was named.
        partition: String,
        /// Those that there are.
        has: String,
    },
    /// Nodes of the partition are those of others too, whose jobs would wait behind the lease.
    #[error(
        "{nodes} of partition {partition} belong to {others} too, whose jobs would wait: hand \
         {others} over with it, or give it nodes of its own"
    )]
    Shared {
        /// The partition to be driven.
        partition: String,
        /// Its nodes that it shares.
        nodes: String,
        /// The partitions that have them too.
        others: String,
    },
    /// Somebody else drives it.
    #[error(
        "partition {partition} is driven already: its lease is being extended; end that with \
         `muster drive stop`"
    )]
    Held {
        /// The partition.
        partition: String,
    },
    /// Slurm did not make the lease.
    #[error("Slurm does not hand over partition {partition}: {said}")]
    Refused {
        /// The partition.
        partition: String,
        /// What it said.
        said: String,
    },
    /// Somebody ended the lease.
    #[error("partition {partition} was handed back: its lease was ended by another hand")]
    HandedBack {
        /// The partition.
        partition: String,
    },
}

impl DriveError {
    /// The partition that it is about; `None` where it is about Slurm.
    pub fn partition(&self) -> Option<&str> {
        match self {
            Self::Slurm(_) => None,
            Self::Unknown { partition, .. }
            | Self::Shared { partition, .. }
            | Self::Held { partition }
            | Self::Refused { partition, .. }
            | Self::HandedBack { partition } => Some(partition),
        }
    }

    /// Its stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Slurm(error) => error.code(),
            Self::Unknown { .. } => "E_DRIVE_PARTITION",
            Self::Shared { .. } => "E_DRIVE_SHARED",
            Self::Held { .. } => "E_DRIVE_HELD",
            Self::Refused { .. } => "E_DRIVE_REFUSED",
            Self::HandedBack { .. } => "E_DRIVE_HANDED_BACK",
        }
    }
}
