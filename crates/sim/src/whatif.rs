//! What a change would do to everybody's start, tried on a copy of the state.

use muster_model::{ApplyError, Event, EventKind, JobId, PreemptMode, State, Timestamp};
use muster_planner::Planner;
use std::collections::{BTreeMap, BTreeSet};

/// When each waiting job would start if every running job took its whole limit and every waiting
/// job were planned in its turn (conservative backfill), and when those who make room for others
/// would start again. Jobs that cannot be foreseen are not in it: held ones, and those behind
/// something without an end.
pub type Outlook = BTreeMap<JobId, Timestamp>;

/// A job whose expected start another state moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The job.
    pub job: JobId,
    /// Its start without the change; `None` where it could not be foreseen.
    pub before: Option<Timestamp>,
    /// Its start with the change; `None` where it cannot be foreseen any more.
    pub after: Option<Timestamp>,
}

/// A running job that makes room with the change and would not without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preempted {
    /// The job.
    pub job: JobId,
    /// For whom.
    pub by: JobId,
    /// How.
    pub mode: PreemptMode,
    /// When it is gone at the latest; where it only stands still, when it goes on.
    pub until: Timestamp,
    /// When it would start again; `None` where it does not, or cannot be foreseen.
    pub again: Option<Timestamp>,
}

/// What a change would do.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The state with the change.
    pub changed: State,
    /// The expected starts with the change.
    pub after: Outlook,
    /// Jobs that the change brings, in order of number.
    pub submitted: BTreeSet<JobId>,
    /// Jobs that start at another time, those that lose most first, ties by number. Jobs that the
    /// change brings are not among them.
    pub moved: Vec<Moved>,
    /// How many waiting jobs keep their start, to the second.
    pub unmoved: u32,
    /// Running jobs that would make room, in order of number.
    pub preempted: Vec<Preempted>,
}

/// The expected start of every waiting job: [`Planner::outlook`] of a planner of its own.
pub fn outlook(state: &State, now: Timestamp) -> Outlook {
    known(&Planner::new(state).outlook(state, now))
}

fn known(found: &muster_planner::Outlook) -> Outlook {
    found.starts.iter().map(|(job, promise)| (*job, promise.start)).collect()
}

/// Applies changes to a copy of the state and compares everybody's expected start.
///
/// # Errors
/// A change does not fit the state.
pub fn whatif(state: &State, now: Timestamp, changes: &[EventKind]) -> Result<WhatIf, ApplyError> {
    let mut changed = state.clone();
    for kind in changes {
        changed.apply(&Event { at: now, kind: kind.clone() })?;
    }
    let before = Planner::new(state).outlook(state, now);
    let after = Planner::new(&changed).outlook(&changed, now);
    Ok(compare(state, &before, changed, &after))
}

fn compare(
    before: &State,
    old: &muster_planner::Outlook,
    changed: State,
    new: &muster_planner::Outlook,
) -> WhatIf {
    let waits = |state: &State| state.index.pending.iter().copied().collect::<BTreeSet<JobId>>();
    let (already, waiting) = (waits(before), waits(&changed));
    let submitted = waiting.difference(&already).copied().collect();
    let (old_starts, after) = (known(old), known(new));
    let both = |job: &&JobId| new.evicted.contains_key(*job);
    let leaving = old.evicted.keys().filter(both);
    let mut moved: Vec<Moved> = already
        .intersection(&waiting)
        .chain(leaving)
        .map(|job| Moved {
            job: *job,
            before: old_starts.get(job).copied(),
            after: after.get(job).copied(),
        })
        .collect();
    let all = moved.len();
    moved.retain(Moved::shows);
    let unmoved = (all - moved.len()) as u32;
    moved.sort_by_key(|moved| (std::cmp::Reverse(moved.delay_ms()), moved.job));
    let preempted = new
        .evicted
        .iter()
        .filter(|(job, _)| !old.evicted.contains_key(job))
        .map(|(job, eviction)| Preempted {
            job: *job,
            by: eviction.by,
            mode: eviction.mode,
            until: eviction.until,
            again: after.get(job).copied(),
        })
        .collect();
    WhatIf { changed, after, submitted, moved, unmoved, preempted }
}

impl Moved {
    /// A second or more: what is less would be told as no change at all.
    fn shows(&self) -> bool {
        self.delay_ms().unsigned_abs() >= 1000
    }

    /// How much later it starts, milliseconds; negative is earlier. A start that cannot be foreseen
    /// is later than any other.
    pub fn delay_ms(&self) -> i64 {
        match (self.before, self.after) {
            (Some(before), Some(after)) => after.millis().saturating_sub(before.millis()),
            (Some(_), None) => i64::MAX,
            (None, Some(_)) => i64::MIN,
            (None, None) => 0,
        }
    }
}
