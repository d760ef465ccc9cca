//! The loop: commands and observations in, events stored, plans checked and carried out.
//!
//! The daemon starts it with [`spawn`], gets a [`Handle`], and hands in [`command::Command`]s.
//! Readers take [`Handle::state`] and follow [`Handle::subscribe`]; neither makes the writer wait.
//! Tests step the [`Writer`] by themselves.

pub mod clock;
pub mod command;
mod decide;
mod dispatch;
mod driver;
pub mod failpoint;
mod feed;
mod handle;
mod inventory;
mod looping;
mod message;
mod metrics;
pub mod need;
mod observe;
pub mod orders;
mod payload;
mod preempt;
pub mod reservations;
mod round;
mod settings;
mod standard;
mod timers;
mod turn;
mod writer;

pub use clock::{Clock, ManualClock, SystemClock};
pub use decide::Outcome;
pub use driver::{Controller, Parts, spawn};
pub use feed::{FEED_MAX, Lagged, Numbered, Subscription};
pub use handle::{Handle, ReplyTo, Ticket};
pub use metrics::{Counter, Counters};
pub use muster_planner::topology::{Cost, cost, cost_instead};
pub use muster_planner::{
    Choice, Comparison, Explanation, NodeAnswer, RoomMakers, RunningJobs, ScorePart, Standing,
    StartWindow, Suggestion, TurnView, Unblock, Verdict,
};
pub use orders::Outgoing;
pub use round::{Breach, Checking, Planning, Round};
pub use settings::{Alarm, Settings};
pub use standard::{Advisor, StandardChecker, StandardPlanner};
pub use writer::{Committed, Open, SNAPSHOT_EVENTS, Writer};
