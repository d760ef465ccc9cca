//! Labels, taints, and the jobs beside a job: who is where, and what that leaves to others.
//!
//! Work: a job without rules of its own is compared with each running or promised job that has a
//! required anti-affinity; one with rules with each of them, once for each search for nodes. A label as
//! a place costs one pass over the nodes. Kubernetes' rules throughout (its scheduling reference).

mod even;
mod fence;
mod keys;
mod reason;
mod wishes;

pub(crate) use even::Even;
pub(crate) use fence::{Fence, is_near_nobody};
pub(crate) use reason::{ruled_out, text, without, without_each};
pub(crate) use wishes::{order_by_wishes, wish_scores};

use crate::free::{Span, effective_end};
use muster_model::{JobId, JobSpec, JobTerm, Rules, Term, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Jobs with what others see of them, and where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Social {
    jobs: BTreeMap<JobId, There>,
    /// Those of them that want to be away from others.
    apart: BTreeSet<JobId>,
    /// What was promised, the last last.
    promised: Vec<(Expected, Timestamp)>,
    /// The places in that list of those that want to be away from others.
    promised_apart: Vec<usize>,
}

/// A job that is somewhere until some instant.
#[derive(Clone, Debug)]
pub(crate) struct There {
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) nodes: Vec<usize>,
    until: Timestamp,
}

/// A job that will be somewhere from an instant on.
#[derive(Clone, Debug)]
struct Expected {
    there: There,
    from: Timestamp,
}

/// True where a selector picks a job: by its labels, `name`, `user` or `account`.
pub(crate) fn selects(selector: &Term, spec: &JobSpec) -> bool {
    selector.selects(|key| match spec.labels.get(key) {
        Some(value) => Some(value.as_str()),
        None => match key {
            "name" => Some(spec.name.as_str()),
            "user" => Some(spec.owner.user.as_str()),
            "account" => Some(spec.account.as_str()),
            _ => None,
        },
    })
}

/// What a job keeps away from.
pub(crate) fn apart(spec: &JobSpec) -> &Rules<JobTerm> {
    static NONE: Rules<JobTerm> = Rules { required: Vec::new(), preferred: Vec::new() };
    spec.request.affinity.as_ref().map_or(&NONE, |a| &a.apart)
}

impl Social {
    pub(crate) fn enter(
        &mut self,
        job: JobId,
        spec: &Arc<JobSpec>,
        nodes: Vec<usize>,
        until: Timestamp,
    ) {
        if !apart(spec).required.is_empty() {
            self.apart.insert(job);
        }
        self.jobs.insert(job, There { spec: Arc::clone(spec), nodes, until });
    }

    /// True where some job that runs wants to be away from others.
    pub(crate) fn has_apart(&self) -> bool {
        !self.apart.is_empty()
    }

    /// True where some job that runs, or is promised a start, wants to be away from others.
    pub(crate) fn keeps_any_apart(&self) -> bool {
        self.has_apart() || !self.promised_apart.is_empty()
    }

    pub(crate) fn leave(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.apart.remove(&job);
    }

    pub(crate) fn expect(&mut self, spec: &Arc<JobSpec>, nodes: Vec<usize>, span: Span) {
        if !apart(spec).required.is_empty() {
            self.promised_apart.push(self.promised.len());
        }
        let there = There { spec: Arc::clone(spec), nodes, until: span.to };
        self.promised.push((Expected { there, from: span.from }, span.to));
    }

    pub(crate) fn expect_no_more(&mut self) {
        self.promised.pop();
        self.promised_apart.pop_if(|at| *at >= self.promised.len());
    }

    /// The jobs that are there when a span begins.
    pub(crate) fn at(&self, span: Span) -> impl Iterator<Item = (JobId, &There)> {
        let there = move |there: &&There| {
            span.from == span.now || effective_end(there.until, span.now) > span.from
        };
        self.jobs.iter().map(|(id, t)| (*id, t)).filter(move |(_, t)| there(t))
    }

    /// Those of [`Self::at`] that want to be away from others.
    pub(crate) fn apart_at(&self, span: Span) -> impl Iterator<Item = (JobId, &There)> {
        let all = self.apart.iter().filter_map(|id| Some((*id, self.jobs.get(id)?)));
        all.filter(move |(_, t)| {
            span.from == span.now || effective_end(t.until, span.now) > span.from
        })
    }

    /// The jobs that are promised a time that meets the span.
    pub(crate) fn promised_in(&self, span: Span) -> impl Iterator<Item = &There> {
        let meets = move |(e, to): &&(Expected, Timestamp)| span.meets(e.from, *to);
        self.promised.iter().filter(meets).map(|(e, _)| &e.there)
    }

    /// Those of [`Self::promised_in`] that want to be away from others.
    pub(crate) fn promised_apart_in(&self, span: Span) -> impl Iterator<Item = &There> {
        let all = self.promised_apart.iter().filter_map(|at| self.promised.get(*at));
        all.filter(move |(e, to)| span.meets(e.from, *to)).map(|(e, _)| &e.there)
    }

    /// The instants after `from` at which somebody leaves, at most so many.
    pub(crate) fn ends_after(
        &self,
        from: Timestamp,
        now: Timestamp,
        most: usize,
    ) -> Vec<Timestamp> {
        let ends = self.jobs.values().map(|t| effective_end(t.until, now)).filter(|t| *t > from);
        let mut ends: Vec<Timestamp> = ends.collect();
        ends.sort_unstable();
        ends.dedup();
        ends.truncate(most);
        ends
    }
}
