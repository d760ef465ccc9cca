//! Processes and cgroups on this machine.
//!
//! A job is looked after by a process of its own, the *supervisor*, forked by the *shepherd*, which
//! the daemon starts. Daemon, shepherd and supervisors may each die without taking another along:
//! what a supervisor knows stands in the job's directory (`directory.rs`).
//!
//! ```text
//! daemon: LocalEngine ──launch──► shepherd ──fork──► supervisor ──fork, exec──► script
//!    ▲        └────── orders over the job's step socket ──────▲       │
//!    └───────────────── poke (datagram) ◄──────────────────────────────┘ exit.json
//! ```

/// Writes a line to standard error, which is the shepherd's log; a full disk under it is no reason
/// to fail, as it is for `eprintln!`.
macro_rules! log {
    ($($word:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stderr(), $($word)*).ok();
    }};
}

mod cgroup;
mod convert;
mod directory;
mod engine;
mod environment;
mod failpoint;
mod filename;
mod machine;
mod nodes;
mod poke;
mod pool;
mod runtime;
mod shepherd;
pub mod spec;
mod supervisor;

pub use cgroup::Enforcement;
pub use engine::{LocalConfig, LocalEngine, LocalError};
pub use nodes::{PRACTICE_GPUS_MAX, PRACTICE_NODES_MAX, PracticeSpec};
pub use shepherd::{ShepherdError, shepherd_main};
