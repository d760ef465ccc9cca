//! Turns: jobs of one partition that have the same CPUs or GPUs and run one after the other.
//!
//! This is Slurm's gang scheduling (gang_scheduling page: `OverSubscribe=FORCE:n`, `PreemptMode=GANG`,
//! `SchedulerTimeSlice`). A job that shares has a [`Turn`]: it runs or stands still. Turns change at
//! slice ends, which are the whole multiples of [`Policy::time_slice`](crate::Policy) since
//! 1970-01-01T00:00Z, so they follow from the instant alone.

use crate::{Exclusive, Job, JobId, JobState, Partition, Placement, Seconds, State, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A job's part in turns with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// It is its turn; else it stands still and its time limit does not run.
    pub runs: bool,
    /// Since when.
    pub since: Timestamp,
    /// When it is over at the latest if all that share with it take their whole limits.
    pub until: Timestamp,
}

/// A change of one job's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnChange {
    /// Which.
    pub job: JobId,
    /// Which attempt.
    pub attempt: u32,
    /// What from here on; `None` where nobody shares with it any more.
    pub turn: Option<Turn>,
}

/// The last slice end up to an instant.
pub const fn slice_begin(now: Timestamp, slice: Seconds) -> Timestamp {
    let ms = slice_ms(slice);
    Timestamp::from_millis(now.millis().div_euclid(ms).saturating_mul(ms))
}

/// The first slice end after an instant.
pub const fn slice_end(now: Timestamp, slice: Seconds) -> Timestamp {
    Timestamp::from_millis(slice_begin(now, slice).millis().saturating_add(slice_ms(slice)))
}

const fn slice_ms(slice: Seconds) -> i64 {
    let seconds = if slice.0 == 0 { 1 } else { slice.0 };
    if seconds > 1_000_000_000 { 1_000_000_000_000 } else { seconds as i64 * 1000 }
}

impl Partition {
    /// True where its jobs may take turns on the same CPUs and GPUs.
    pub const fn has_turns(&self) -> bool {
        self.sharers > 1
    }
}

impl Job {
    /// True where it may take turns with others. Who wants nodes for itself does not, nor who runs
    /// together with other jobs: Slurm leaves heterogeneous jobs out as well.
    pub fn may_take_turns(&self) -> bool {
        let whole = self.placement.iter().flat_map(|p| &p.nodes).any(|share| share.exclusive);
        self.het.is_none()
            && self.spec.gang.is_none()
            && self.spec.request.exclusive == Exclusive::No
            && !whole
    }

    /// True where it stands still until its turn comes.
    pub fn waits_for_turn(&self) -> bool {
        self.suspend && self.turn.is_some_and(|turn| !turn.runs)
    }

    /// True where it runs, or is to, as far as turns go: neither made to stand still nor at its end.
    pub fn is_to_run(&self) -> bool {
        let here =
            matches!(self.state, JobState::Starting | JobState::Running | JobState::Suspended);
        here && !self.suspend
    }

    /// Milliseconds that its limit leaves it at an instant; `None` without a limit.
    pub fn left_ms(&self, now: Timestamp) -> Option<u64> {
        let limit = self.time_limit.seconds()?.0.saturating_mul(1000);
        let Some(start) = self.started.or(self.placed).filter(|_| !self.is_pending()) else {
            return Some(limit);
        };
        let ran = now.ms_since(start).saturating_sub(self.pause_ms(now));
        Some(limit.saturating_sub(ran))
    }
}

impl State {
    /// The partition that a job runs in, where its jobs may take turns and this one with them.
    pub fn turns_of(&self, job: &Job) -> Option<&Partition> {
        let name = &job.placement.as_ref()?.partition;
        let partition = self.partitions.get(name).filter(|p| p.has_turns())?;
        (job.state.holds_resources() && job.may_take_turns()).then_some(partition)
    }

    /// True where a job leaves its CPUs to others once it stands still: by hand, as Slurm's do
    /// (scontrol manual, `suspend`), and not where jobs take turns on them.
    pub(crate) fn lends_when_still(&self, job: &Job) -> bool {
        let by_hand = job.suspend && job.eviction.is_none() && job.turn.is_none();
        by_hand && self.turns_of(job).is_none()
    }

    /// True where somebody runs on CPUs of a job that has left them to others.
    pub(crate) fn cpus_are_lent(&self, job: &Job) -> bool {
        !self.on_cpus_of(job).is_empty()
    }

    /// Who runs on CPUs of a job that stands still: it cannot go on before they are gone.
    pub fn on_cpus_of(&self, job: &Job) -> BTreeSet<JobId> {
        let mut found = BTreeSet::new();
        for share in job.placement.iter().flat_map(|p| &p.nodes) {
            let there = self.index.on_node.get(&share.node).into_iter().flatten();
            let others = there.filter_map(|id| self.jobs.get(id));
            let others = others.filter(|o| o.id != job.id && !o.lends && !o.yields_cpus());
            let meets = |other: &&std::sync::Arc<Job>| {
                let mut shares = other.placement.iter().flat_map(|p| &p.nodes);
                shares.any(|s| s.node == share.node && s.cpus.intersects(&share.cpus))
            };
            found.extend(others.filter(meets).map(|other| other.id));
        }
        found
    }

    /// A job with those that take turns with it, directly or through others: who has a CPU or GPU
    /// of one of them.
    pub fn sharing_with(&self, job: &Job) -> BTreeSet<JobId> {
        let mut found = BTreeSet::from([job.id]);
        let mut open = vec![job.id];
        while let Some(id) = open.pop() {
            let placement = self.jobs.get(&id).and_then(|job| job.placement.as_ref());
            for share in placement.into_iter().flat_map(|p| &p.nodes) {
                for other in self.index.on_node.get(&share.node).into_iter().flatten() {
                    let theirs = self.jobs.get(other).filter(|other| other.turn.is_some());
                    let theirs = theirs.and_then(|other| other.placement.as_ref());
                    let meets = |p: &Arc<Placement>| p.nodes.iter().any(|s| s.meets(share));
                    if theirs.is_some_and(meets) && found.insert(*other) {
                        open.push(*other);
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_end_at_whole_multiples() {
        let at = Timestamp::from_millis;
        assert_eq!(slice_begin(at(61_500), Seconds(30)), at(60_000));
        assert_eq!(slice_end(at(61_500), Seconds(30)), at(90_000));
        assert_eq!(slice_end(at(60_000), Seconds(30)), at(90_000));
        assert_eq!(slice_begin(at(-1), Seconds(30)), at(-30_000));
        assert_eq!(slice_end(at(5), Seconds(0)), at(1000));
    }
}
