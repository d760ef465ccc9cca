//! The loop: commands and observations in, events stored, plans checked and carried out.
//!
//! The daemon starts it with `spawn(store, planner, checker, engines, clock, settings)`, gets a
//! [`Handle`], and hands in [`command::Command`]s. Readers take [`Handle::state`] and follow
//! [`Handle::subscribe`]; neither makes the writer wait.

pub mod clock;
pub mod command;
mod feed;
mod handle;
mod metrics;
mod payload;
mod round;

pub use clock::{Clock, ManualClock, SystemClock};
pub use feed::{FEED_MAX, Lagged, Numbered, Subscription};
pub use handle::{Handle, ReplyTo, Ticket};
pub use metrics::{Counter, Counters};
pub use round::{Breach, Checking, Planning, Round};
