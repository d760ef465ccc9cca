//! Who is where, looked up by what selectors see.

use super::labelled::{Labelled, handle};
use super::{apart, selects};
use crate::free::{Span, effective_end};
use muster_model::{JobId, JobSpec, JobTerm, Term, Timestamp};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Jobs with what others see of them, and where they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Social {
    jobs: BTreeMap<JobId, There>,
    looks: BTreeMap<Look, BTreeSet<JobId>>,
    looks_by_label: Labelled<Look>,
    /// The terms by which some of them keep others away.
    apart: BTreeMap<Arc<JobTerm>, BTreeSet<JobId>>,
    /// Those terms by a label of which what they pick has one of some values.
    apart_by_label: Labelled<Arc<JobTerm>>,
    /// Those terms of which that cannot be said.
    apart_by_other: BTreeSet<Arc<JobTerm>>,
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
            self.enter_term(term, job);
        }
        let look = Look(Arc::clone(spec));
        match self.looks.get_mut(&look) {
            Some(jobs) => drop(jobs.insert(job)),
            None => {
                for (key, value) in &spec.labels {
                    self.looks_by_label.insert(key, value, look.clone());
                }
                self.looks.insert(look, BTreeSet::from([job]));
            }
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
        let Some(there) = self.jobs.remove(&job) else { return };
        for term in &apart(&there.spec).required {
            self.leave_term(term, job);
        }
        let look = Look(there.spec);
        if take_from(&mut self.looks, &look, job) {
            for (key, value) in &look.0.labels {
                self.looks_by_label.remove(key, value, &look);
            }
        }
    }

    fn enter_term(&mut self, term: &JobTerm, job: JobId) {
        if let Some(jobs) = self.apart.get_mut(term) {
            jobs.insert(job);
            return;
        }
        let shared = Arc::new(term.clone());
        match handle(&term.selector) {
            Some((key, values)) => {
                for value in values {
                    self.apart_by_label.insert(key, value, Arc::clone(&shared));
                }
            }
            None => drop(self.apart_by_other.insert(Arc::clone(&shared))),
        }
        self.apart.insert(shared, BTreeSet::from([job]));
    }

    fn leave_term(&mut self, term: &JobTerm, job: JobId) {
        if !take_from(&mut self.apart, term, job) {
            return;
        }
        match handle(&term.selector) {
            Some((key, values)) => {
                for value in values {
                    self.apart_by_label.remove(key, value, term);
                }
            }
            None => drop(self.apart_by_other.remove(term)),
        }
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
        let seen = move |look: &&Look| by_name || selects(selector, &look.0);
        let looks = self.looks_for(selector).filter(seen);
        let jobs = looks.filter_map(|look| self.looks.get(look)).flatten();
        let there = jobs.filter_map(move |job| self.at(*job, span));
        there.filter(move |(_, there)| !by_name || selects(selector, &there.spec))
    }

    /// The looks that a selector may pick.
    fn looks_for<'a>(&'a self, selector: &'a Term) -> Box<dyn Iterator<Item = &'a Look> + 'a> {
        match handle(selector) {
            Some((key, values)) => {
                let once = values.iter().enumerate().filter(|(at, v)| !values[..*at].contains(v));
                Box::new(once.flat_map(move |(_, value)| self.looks_by_label.get(key, value)))
            }
            None => Box::new(self.looks.keys()),
        }
    }

    /// The jobs that are there when a span begins and that keep this one away, with the term.
    pub(crate) fn keeping_away<'a>(
        &'a self,
        who: &'a JobSpec,
        span: Span,
    ) -> impl Iterator<Item = (&'a JobTerm, JobId, &'a There)> {
        let terms = self.apart_by_label.of(who).chain(&self.apart_by_other);
        terms.filter(|term| selects(&term.selector, who)).flat_map(move |term| {
            let jobs = self.apart.get(term).into_iter().flatten();
            let there = jobs.filter_map(move |job| self.at(*job, span));
            there.map(move |(job, there)| (&**term, job, there))
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

/// Takes a job from a set; true where it was the last of it.
fn take_from<K, Q>(sets: &mut BTreeMap<K, BTreeSet<JobId>>, key: &Q, job: JobId) -> bool
where
    K: Ord + Borrow<Q>,
    Q: Ord + ?Sized,
{
    let Some(jobs) = sets.get_mut(key) else { return false };
    jobs.remove(&job);
    let is_empty = jobs.is_empty();
    if is_empty {
        sets.remove(key);
    }
    is_empty
}

#[cfg(test)]
mod tests {
    use super::Social;
    use crate::affinity::selects;
    use crate::free::Span;
    use muster_model::{
        Affinity, Expression, JobId, JobSpec, JobTerm, Operator, Rules, Term, TimeLimit, Timestamp,
    };
    use std::sync::Arc;

    fn term(key: &str, operator: Operator, values: &[&str]) -> Term {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Term { all: vec![Expression { key: key.to_owned(), operator, values }] }
    }

    fn both(a: &Term, b: &Term) -> Term {
        Term { all: a.all.iter().chain(&b.all).cloned().collect() }
    }

    fn selectors() -> Vec<Term> {
        let one = term("app", Operator::In, &["web"]);
        let some = term("app", Operator::In, &["web", "db", "web"]);
        let by_user = term("user", Operator::In, &["ann"]);
        let other = term("tier", Operator::NotIn, &["back"]);
        let mut all = vec![
            term("app", Operator::Exists, &[]),
            term("app", Operator::DoesNotExist, &[]),
            term("name", Operator::In, &["b"]),
            term("app", Operator::In, &[]),
            both(&by_user, &some),
            both(&other, &one),
            Term::default(),
        ];
        all.extend([one, some, by_user, other]);
        all
    }

    /// Jobs with each pair of these labels, of two users, each with a selector of its own.
    fn jobs() -> Vec<Arc<JobSpec>> {
        let labels = [("app", "web"), ("app", "db"), ("tier", "back"), ("user", "ann")];
        let pairs = labels.iter().flat_map(|a| labels.iter().map(move |b| [a, b]));
        let specs = pairs.zip(selectors().into_iter().cycle()).enumerate();
        let specs = specs.map(|(at, (labels, selector))| {
            let mut spec = JobSpec { name: ["a", "b"][at % 2].to_owned(), ..JobSpec::default() };
            spec.owner.user = ["ann", "bob", "cid"][at % 3].to_owned();
            for (key, value) in labels {
                spec.labels.insert((*key).to_owned(), (*value).to_owned());
            }
            let required = vec![JobTerm { key: "node".to_owned(), selector }];
            let apart = Rules { required, preferred: Vec::new() };
            spec.request.affinity = Some(Arc::new(Affinity { apart, ..Affinity::default() }));
            Arc::new(spec)
        });
        specs.collect()
    }

    #[test]
    fn what_is_looked_up_is_what_a_look_at_all_finds() {
        let now = Timestamp::from_secs(5);
        let span = Span::of(now, now, TimeLimit::Unlimited);
        let (mut social, all) = (Social::default(), jobs());
        let ids = || (1..).map(JobId).zip(&all);
        for (id, spec) in ids() {
            social.enter(id, spec, vec![0], Timestamp::NEVER);
        }
        for gone in [JobId(3), JobId(8)] {
            social.leave(gone);
        }
        let there = || ids().filter(|(id, _)| ![JobId(3), JobId(8)].contains(id));
        for selector in selectors() {
            let mut found: Vec<JobId> = social.picked(&selector, span).map(|(id, _)| id).collect();
            found.sort_unstable();
            let right: Vec<JobId> =
                there().filter(|(_, spec)| selects(&selector, spec)).map(|(id, _)| id).collect();
            assert_eq!(found, right, "{selector}");
        }
        for who in &all {
            let mut found: Vec<JobId> =
                social.keeping_away(who, span).map(|(_, id, _)| id).collect();
            found.sort_unstable();
            let keeps = |spec: &JobSpec| {
                let affinity = spec.request.affinity.as_ref();
                affinity.is_some_and(|a| a.apart.required.iter().any(|t| selects(&t.selector, who)))
            };
            let right: Vec<JobId> =
                there().filter(|(_, spec)| keeps(spec)).map(|(id, _)| id).collect();
            assert_eq!(found, right, "{who:?}");
        }
        for (id, _) in there() {
            social.leave(id);
        }
        let left = (social.looks.len(), social.apart.len(), social.apart_by_other.len());
        assert_eq!(left, (0, 0, 0));
        assert!(social.looks_by_label.is_empty() && social.apart_by_label.is_empty());
    }
}
