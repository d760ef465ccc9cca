//! REST, authentication and the wiring of control, store and engines.
//!
//! [`run`] carries out `muster up` and its kin. A daemon is one process: the writer's threads
//! (crate `control`), the engine of this machine, and two threads that serve HTTP over a unix
//! socket. Whoever connects is known by the credentials that the kernel tells of the peer.

mod accept;
mod alarms;
mod app;
mod ask;
mod backup;
mod commands;
mod cycle;
mod doctor;
mod engines;
mod error;
mod http;
mod identity;
mod listen;
mod mail;
mod measured;
mod output;
mod patch;
mod place;
mod practice;
mod programs;
mod reasons;
mod reservation;
mod serve;
mod setup;
mod site;
mod standing;
mod start;
mod stores;
mod submit;
mod trial;
mod wait;
mod watch;
mod whatif;

pub use commands::{VERBS, command, run};
pub use error::DaemonError;
pub use setup::UpOptions;
