//! Who is where, looked up by what selectors see.

use super::{apart, selects};
use crate::free::{Span, effective_end};
use muster_model::{JobId, JobSpec, JobTerm, Term, Timestamp};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Jobs with what others see of them, and where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Social {
    jobs: BTreeMap<JobId, There>,
    looks: BTreeMap<Look, BTreeSet<JobId>>,
    /// The terms by which some of them keep others away.
    apart: BTreeMap<JobTerm, BTreeSet<JobId>>,
    /// What was promised, the last last.
    promised: Vec<(Expected, Timestamp)>,
    /// The places in that list of those that want to be away from others.
    promised_apart: Vec<usize>,
}

/// What a selector sees of a job, but its name.
#[derive(Clone, Debug)]
struct Look(Arc<JobSpec>);

impl Ord for Look {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&*self.0, &*other.0);
        (&a.labels, &a.owner.user, &a.account).cmp(&(&b.labels, &b.owner.user, &b.account))
    }
}

impl PartialOrd for Look {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Look {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Look {}

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

impl Social {
    pub(crate) fn enter(
        &mut self,
        job: JobId,
        spec: &Arc<JobSpec>,
        nodes: Vec<usize>,
        until: Timestamp,
    ) {
        self.leave(job);
        for term in &apart(spec).required {
            self.apart.entry(term.clone()).or_default().insert(job);
        }
        self.looks.entry(Look(Arc::clone(spec))).or_default().insert(job);
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
        let Some(there) = self.jobs.remove(&job) else { return };
        for term in &apart(&there.spec).required {
            take_from(&mut self.apart, term, job);
        }
        take_from(&mut self.looks, &Look(there.spec), job);
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

    /// The jobs that are there when a span begins and that a selector picks.
    pub(crate) fn picked<'a>(
        &'a self,
        selector: &'a Term,
        span: Span,
    ) -> impl Iterator<Item = (JobId, &'a There)> {
        // Names differ where all else is the same.
        let by_name = selector.all.iter().any(|expression| expression.key == "name");
        let looks =
            self.looks.iter().filter(move |(look, _)| by_name || selects(selector, &look.0));
        let there = looks.flat_map(|(_, jobs)| jobs).filter_map(move |job| self.at(*job, span));
        there.filter(move |(_, there)| !by_name || selects(selector, &there.spec))
    }

    /// The jobs that are there when a span begins and that keep this one away, with the term.
    pub(crate) fn keeping_away<'a>(
        &'a self,
        who: &'a JobSpec,
        span: Span,
    ) -> impl Iterator<Item = (&'a JobTerm, JobId, &'a There)> {
        let terms = self.apart.iter().filter(|(term, _)| selects(&term.selector, who));
        terms.flat_map(move |(term, jobs)| {
            let there = jobs.iter().filter_map(move |job| self.at(*job, span));
            there.map(move |(job, there)| (term, job, there))
        })
    }

    /// A job where it is, if it is there when a span begins.
    fn at(&self, job: JobId, span: Span) -> Option<(JobId, &There)> {
        let there = self.jobs.get(&job)?;
        let is_there = span.from == span.now || effective_end(there.until, span.now) > span.from;
        is_there.then_some((job, there))
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

fn take_from<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<JobId>>, key: &K, job: JobId) {
    if let Some(jobs) = sets.get_mut(key) {
        jobs.remove(&job);
        if jobs.is_empty() {
            sets.remove(key);
        }
    }
}
