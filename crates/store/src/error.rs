//! What can go wrong with a store.

use muster_model::ApplyError;
use std::path::PathBuf;

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the state directory open.
    #[error(
        "the state directory {dir} is in use by process {pid}\nhint: one state directory serves one daemon; stop that one, or choose another directory with MUSTER_STATE"
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The process, `?` where the lock file does not say.
        pid: String,
    },
    /// The log was written by a newer build.
    #[error(
        "the log is of schema {found}, and this muster knows schemas up to {known}\nhint: start the newer muster that wrote it, or restore a backup of the older one into another state directory"
    )]
    NewerSchema {
        /// The log's.
        found: u32,
        /// This build's.
        known: u32,
    },
    /// Something stored cannot be what was written.
    #[error(
        "{what} is damaged: {why}\nhint: keep a copy of the state directory, then restore the last backup with `muster restore`; nothing was changed"
    )]
    Damaged {
        /// What.
        what: String,
        /// How it shows.
        why: String,
    },
    /// An event does not fit the state that the events before it make.
    #[error(
        "event {seq} of the log does not fit what came before it\nhint: keep a copy of the state directory, then restore the last backup with `muster restore`; nothing was changed"
    )]
    Unfit {
        /// Its number.
        seq: u64,
        /// Why not.
        #[source]
        source: ApplyError,
    },
    /// The numbers of events do not follow each other: in the log, or between it and a new batch.
    #[error(
        "event {expected} is missing: {got} is there in its place\nhint: keep a copy of the state directory, then restore the last backup with `muster restore`; nothing was changed"
    )]
    Gap {
        /// What came.
        got: u64,
        /// What should have come.
        expected: u64,
    },
    /// There is no room.
    #[error(
        "the file system of {path} is full\nhint: free some space; what was accepted before is safe, and new commands are taken again as soon as there is room"
    )]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// It may not be written.
    #[error(
        "{path} cannot be written\nhint: see who owns it and whether its file system is mounted read-only"
    )]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// A backup or restore would overwrite something.
    #[error(
        "{path} is there already\nhint: name a path that does not exist, or move away what is there"
    )]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The database refused.
    #[error("the database {path} refused while {doing}: {why}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        why: String,
    },
}

impl StoreError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Locked { .. } => "E_STORE_LOCKED",
            Self::NewerSchema { .. } => "E_STORE_NEWER_SCHEMA",
            Self::Damaged { .. } => "E_STORE_DAMAGED",
            Self::Unfit { .. } => "E_STORE_UNFIT_EVENT",
            Self::Gap { .. } => "E_STORE_GAP",
            Self::Full { .. } => "E_STORE_FULL",
            Self::ReadOnly { .. } => "E_STORE_READ_ONLY",
            Self::Exists { .. } => "E_STORE_EXISTS",
            Self::Io { .. } => "E_STORE_IO",
            Self::Database { .. } => "E_STORE_DATABASE",
        }
    }
}
