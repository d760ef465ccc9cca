//! The REST interface.

pub(crate) mod act;
pub(crate) mod admin;
mod beside;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod extract;
pub(crate) mod filter;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod nodes;
pub(crate) mod openapi;
pub(crate) mod plan;
pub(crate) mod priority;
pub(crate) mod queue;
pub(crate) mod reservations;
pub(crate) mod router;
mod still;
pub(crate) mod watch;
