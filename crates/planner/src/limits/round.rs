//! Limits in a round: whom they hold, before nodes are tried and once they are found.

use super::{Limits, Started, seconds_left};
use crate::ask::Ask;
use crate::round::{Round, Walk};
use crate::start::AskAt;
use muster_model::{Holder, Job, Placement, Reason, TimeLimit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a round had counted, to go back to.
pub(crate) struct Counted(Option<BTreeMap<Holder, Started>>);

impl Limits<'_> {
    /// What is counted so far, where what comes may have to be taken back: a copy, so not else.
    pub(crate) fn counted(&self, may_go_back: bool) -> Counted {
        Counted((may_go_back && !self.is_idle()).then(|| self.started.clone()))
    }

    /// Goes back to what was counted.
    pub(crate) fn restore(&mut self, counted: &Counted) {
        if let Some(started) = &counted.0 {
            self.started.clone_from(started);
        }
    }

    /// Counts a job that the state has at work no more, until it is put back.
    pub(crate) fn take_back(&mut self, job: &Job) {
        if self.is_idle() {
            return;
        }
        let left = u128::from(seconds_left(job, self.now));
        for holder in self.state.holders(job) {
            let taken = self.taken_back.entry(holder).or_default();
            taken.jobs += 1;
            taken.tres.add(&job.charge, 1);
            for (kind, amount) in job.charge.iter() {
                let sum = taken.time.entry(kind.clone()).or_default();
                *sum = sum.saturating_add(u128::from(amount) * left);
            }
        }
    }

    /// Counts a job again that was taken back.
    pub(crate) fn put_back(&mut self, job: &Job) {
        if self.is_idle() {
            return;
        }
        let left = u128::from(seconds_left(job, self.now));
        for holder in self.state.holders(job) {
            let Some(taken) = self.taken_back.get_mut(&holder) else { continue };
            taken.jobs = taken.jobs.saturating_sub(1);
            taken.tres.take(&job.charge, 1);
            for (kind, amount) in job.charge.iter() {
                if let Some(sum) = taken.time.get_mut(kind) {
                    *sum = sum.saturating_sub(u128::from(amount) * left);
                }
            }
        }
    }

    /// Takes up a start.
    pub(crate) fn count_placement(&mut self, job: &Job, placement: &Placement, limit: TimeLimit) {
        if !self.is_idle() {
            let tres = self.state.charge(placement);
            self.count(job, &placement.partition, &tres, limit);
        }
    }
}

impl Round<'_> {
    /// The limit that keeps a component from starting in any of its partitions, beside those of
    /// the group that come before it.
    pub(crate) fn limit_on(&mut self, asks: &[Vec<Ask>], group: &[&Arc<Job>]) -> Option<Reason> {
        if self.limits.is_idle() {
            return None;
        }
        let counted = self.limits.counted(group.len() > 1);
        let mut found = None;
        for (part, job) in asks.iter().zip(group) {
            found = self.limit_on_part(part, job);
            if found.is_some() {
                break;
            }
            // Where it goes is certain: the next ones find it counted.
            if let ([ask], true) = (part.as_slice(), group.len() > 1) {
                let tres = super::least(self.state, &job.spec, &ask.partition);
                self.limits.count(job, &ask.partition.name, &tres, shortest(ask));
            }
        }
        self.limits.restore(&counted);
        found
    }

    fn limit_on_part(&self, part: &[Ask], job: &Job) -> Option<Reason> {
        let mut reasons = part.iter().map(|ask| self.limit_on_ask(job, ask));
        let first = reasons.next()??;
        reasons.all(|reason| reason.is_some()).then_some(first)
    }

    fn limit_on_ask(&self, job: &Job, ask: &Ask) -> Option<Reason> {
        self.limits.before_placement(job, &ask.partition, shortest(ask)).into_iter().next()
    }

    /// A place for a component now, where limits allow it.
    pub(crate) fn place_within_limits(
        &mut self,
        walk: &mut Walk,
        at: AskAt,
        job: &Job,
        ask: &Ask,
    ) -> Option<(Placement, TimeLimit)> {
        if !self.limits.is_idle() && self.limit_on_ask(job, ask).is_some() {
            walk.limited.insert(at.0);
            return None;
        }
        let found = self.place_now(walk, at, ask)?;
        let fewer = (at.0, at.1, usize::MAX);
        let within =
            self.within_limits(job, ask, found, |round, ask| round.place_now(walk, fewer, ask));
        match within {
            Ok(found) => Some(found),
            Err(reason) => {
                walk.limited.insert(at.0);
                walk.held.insert(at.0, reason);
                walk.held_by_choice.insert(at.0);
                None
            }
        }
    }

    /// A place as limits allow it, given the one that was found: on fewer nodes, where any number
    /// would do, the job may be within its limits. `again` finds a place for such an ask.
    pub(crate) fn within_limits(
        &mut self,
        job: &Job,
        ask: &Ask,
        found: (Placement, TimeLimit),
        mut again: impl FnMut(&mut Self, &Ask) -> Option<(Placement, TimeLimit)>,
    ) -> Result<(Placement, TimeLimit), Reason> {
        let (mut placement, mut limit) = found;
        loop {
            let broken = self.limits.after_placement(job, &placement, limit);
            let Some(reason) = broken.into_iter().next() else { return Ok((placement, limit)) };
            let fewer = ask.with_fewer_nodes(placement.nodes.len() as u32);
            match fewer.and_then(|ask| again(self, &ask)) {
                Some((p, l)) if p.nodes.len() < placement.nodes.len() => {
                    (placement, limit) = (p, l);
                }
                _ => return Err(reason),
            }
        }
    }

    /// True where no QOS of the group asks for a higher priority to be promised a start.
    pub(crate) fn may_be_promised(&self, asks: &[Vec<Ask>], group: &[&Arc<Job>]) -> bool {
        if self.limits.is_idle() {
            return true;
        }
        let below = |job: &Job, ask: &Ask| {
            let least = self.limits.priority_for_promise(job, &ask.partition.name);
            least.is_some_and(|least| self.keys.priority(job) < i64::from(least))
        };
        asks.iter().zip(group).all(|(part, job)| part.iter().all(|ask| !below(job, ask)))
    }
}

/// With a least limit the job may be cut to fit.
fn shortest(ask: &Ask) -> TimeLimit {
    ask.time_min.map_or(ask.limit, |least| TimeLimit::Of(muster_model::Seconds(least.max(1))))
}
