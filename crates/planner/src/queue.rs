//! Waiting jobs, by shape: what one of a shape is answered holds for all of it.

use crate::ask::Ask;
use crate::order::{OrderKey, waiting_key};
use crate::outcome::First;
use crate::print::Print;
use crate::reservations::{magnetic, ways, ways_among};
use crate::shared::{SharedPartitions, SharedRequest};
use crate::terms::AllTerms;
use crate::wants::{Catalogue, Wants};
use muster_model::{
    Exclusive, Job, JobId, LicenceHold, OrderMode, Partition, Request, Seconds, State, TimeLimit,
    Timestamp,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Everything about one component that decides where and when it can start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartKey {
    request: SharedRequest,
    partitions: SharedPartitions,
    limit: Option<Seconds>,
    likely: Option<Seconds>,
    time_min: Option<Seconds>,
    deadline: Option<Timestamp>,
    /// Set where it matters who asks: beside jobs that share only with their own user.
    uid: Option<u32>,
    /// What other jobs see of it, set where some job looks: name, user, account and labels.
    seen: Option<(String, String, String, muster_model::Labels)>,
    /// Set where a partition admits only some accounts.
    account: Option<String>,
    /// Its wish for few switches still stands.
    wishes_switches: bool,
    /// The reservations that it may be in, and whether it may be in none.
    ways: Vec<Option<String>>,
    /// Its QOS lets it ask for more time than a partition gives.
    any_time: bool,
    /// Set where it decides whom the job may preempt.
    rank: Option<crate::preempt::Rank>,
}

/// Who a component runs for, where that decides when it may start: account, user and QOS.
type Association = (String, String, String);

/// For each component, the ways to ask for it.
pub(crate) type Asks = Arc<Vec<Vec<Ask>>>;

/// What parts jobs of one request further: whose limits and whose priority they have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Class {
    associations: Vec<Association>,
    /// Nice value, priority set by hand and site factor of the first component.
    terms: Option<(i64, Option<u32>, i64)>,
    /// The user of the first component, where its last runs count.
    uid: Option<u32>,
}

/// Whether jobs of one request are parted further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Classes {
    /// All are alike.
    #[default]
    None,
    /// By association, whose limits they stand under.
    Limited,
    /// By association and by what their priority rests on.
    Ranked,
    /// By those, and by user.
    Weighed,
}

impl Classes {
    pub(crate) fn of(state: &State) -> Self {
        match state.policy.order {
            OrderMode::Multifactor => Self::Ranked,
            OrderMode::Slowdown => Self::Weighed,
            OrderMode::Fifo if crate::limits::any(state) => Self::Limited,
            OrderMode::Fifo => Self::None,
        }
    }
}

/// What makes two queue entries equal for a round.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeKey {
    /// A digest of the rest, compared first: keys that differ mostly differ here.
    print: u64,
    parts: Vec<PartKey>,
    /// The array, where it is throttled: its tasks share a bound that others do not.
    array: Option<JobId>,
    class: Option<Class>,
}

impl ShapeKey {
    fn new(parts: Vec<PartKey>, array: Option<JobId>, class: Option<Class>) -> Self {
        let mut print = Print::default();
        (&parts, array, &class).hash(&mut print);
        Self { print: print.finish(), parts, array, class }
    }

    fn without_class(&self) -> Self {
        Self::new(self.parts.clone(), self.array, None)
    }
}

/// The waiting jobs of one shape that are free to start, in order.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) array: Option<JobId>,
    pub(crate) waiting: BTreeSet<OrderKey>,
    /// For each component, the ways to ask for it: one for each partition that could start it.
    pub(crate) asks: Asks,
    /// Shapes with one number here differ only in whose they are: what does not fit for one does
    /// not for the other.
    pub(crate) fit: usize,
    /// What has to be free for one of it to start, where one look tells that.
    pub(crate) gate: Option<Gate>,
}

/// So many nodes have to be open at a level for a whole limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) level: usize,
    pub(crate) nodes: usize,
    pub(crate) limit: TimeLimit,
}

/// All waiting jobs: those free to start by shape, those that will be free by time, and those that
/// may have to be rejected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) shapes: Vec<Option<Shape>>,
    pub(crate) unused: Vec<usize>,
    /// Numbers of shapes that came since the last round.
    fresh: BTreeSet<usize>,
    /// By digest and key: most steps down this tree look at no key.
    by_key: BTreeMap<(u64, Arc<ShapeKey>), usize>,
    pub(crate) later: BTreeSet<(Timestamp, JobId)>,
    pub(crate) hopeless: BTreeSet<JobId>,
    /// The last instant at which a job can start and still meet its deadline.
    pub(crate) deadlines: BTreeSet<(Timestamp, JobId)>,
    /// When jobs give up their wish for few switches.
    pub(crate) patience: BTreeSet<(Timestamp, JobId)>,
    /// Jobs free to start at this instant are in their shape's set.
    pub(crate) now: Timestamp,
    pub(crate) classes: Classes,
    /// Requests that shapes of several classes share: number, shapes that have it, asks.
    fits: BTreeMap<ShapeKey, (usize, usize, Asks)>,
    unused_fits: Vec<usize>,
    /// What requests want.
    catalogue: Catalogue,
    /// The reservations that take jobs which do not name them.
    magnetic: Vec<String>,
    /// What the places of shapes rest on.
    pub(crate) terms: AllTerms,
    /// The shapes in the order that they had in the last round; of no meaning but that sorting
    /// them again is cheap.
    pub(crate) sorted: Vec<u32>,
}

/// The jobs that start together with this one: itself, or all components where it is the first.
///
/// `None` for a later component, or where a component is missing.
pub(crate) fn group<'a>(state: &'a State, job: &'a Arc<Job>) -> Option<Vec<&'a Arc<Job>>> {
    match job.het {
        None => match &job.spec.gang {
            Some(gang) => crate::together::gang(state, job, gang),
            None => Some(vec![job]),
        },
        Some(part) if part.offset > 0 => None,
        Some(part) => (0..part.size)
            .map(|offset| state.jobs.get(&JobId(part.leader.0.saturating_add(offset))))
            .collect(),
    }
}

/// From when on all jobs of a group are free to start; `None` while one is not.
pub(crate) fn group_eligible(group: &[&Arc<Job>]) -> Option<Timestamp> {
    group
        .iter()
        .map(|job| if job.is_pending() { job.eligible } else { None })
        .try_fold(Timestamp::from_millis(i64::MIN), |last, at| Some(last.max(at?)))
}

/// True where a job's dependency can never be met and the rules say to end it for that.
fn is_hopeless(state: &State, job: &Job) -> bool {
    job.dependency_is_hopeless()
        && job.spec.kill_on_invalid_dependency.unwrap_or(state.policy.kill_invalid_dependency)
}

/// The last instant at which a job can start and still end by its deadline.
pub(crate) fn latest_start(job: &Job) -> Option<Timestamp> {
    let deadline = job.spec.deadline?;
    let shortest = job.spec.time_min.or(job.time_limit.seconds()).unwrap_or(Seconds(1));
    let ms = i64::try_from(shortest.0.saturating_mul(1000)).unwrap_or(i64::MAX);
    Some(Timestamp::from_millis(deadline.millis().saturating_sub(ms)))
}

/// How many switches a job wishes for, and until when; `None` where it has no such wish.
///
/// The policy bounds the wait (slurm.conf manual, `max_switch_wait`).
pub(crate) fn switch_wish(state: &State, job: &Job) -> Option<(u32, Timestamp)> {
    let wish = job.spec.request.switches?;
    let most = state.policy.max_switch_wait;
    let until = job.eligible?.plus(wish.wait.map_or(most, |wait| wait.min(most)));
    Some((wish.count, until))
}

impl Queue {
    /// An empty queue for jobs of a state, at an instant.
    pub(crate) fn new(state: &State, now: Timestamp) -> Self {
        let (classes, magnetic) = (Classes::of(state), magnetic(state));
        Self { now, classes, magnetic, terms: AllTerms::new(state), ..Self::default() }
    }

    /// Takes up a waiting job. A component's group is taken up with its first component.
    pub(crate) fn add(&mut self, state: &State, uid_matters: bool, job: &Arc<Job>) {
        if !job.is_pending() {
            return;
        }
        if is_hopeless(state, job) {
            self.hopeless.insert(job.id);
        }
        if let Some(at) = latest_start(job) {
            self.deadlines.insert((at, job.id));
        }
        let Some(group) = group(state, job) else { return };
        let Some(eligible) = group_eligible(&group) else { return };
        if eligible > self.now {
            self.later.insert((eligible, job.id));
            return;
        }
        for job in &group {
            if let Some((_, until)) = switch_wish(state, job).filter(|wish| wish.1 > self.now) {
                self.patience.insert((until, group[0].id));
            }
        }
        let key = self.shape_key(state, uid_matters, &group);
        let at = self.shape_of(state, key, &group);
        if let Some(shape) = self.shapes.get_mut(at).and_then(Option::as_mut) {
            shape.waiting.insert(waiting_key(state, job));
        }
    }

    /// Takes a job out again, with the state as it was when it was taken up.
    pub(crate) fn remove(&mut self, state: &State, uid_matters: bool, job: &Arc<Job>) {
        if !job.is_pending() {
            return;
        }
        self.hopeless.remove(&job.id);
        if let Some(at) = latest_start(job) {
            self.deadlines.remove(&(at, job.id));
        }
        let Some(group) = group(state, job) else { return };
        let Some(eligible) = group_eligible(&group) else { return };
        if eligible > self.now {
            self.later.remove(&(eligible, job.id));
            return;
        }
        for (_, until) in group.iter().filter_map(|job| switch_wish(state, job)) {
            self.patience.remove(&(until, group[0].id));
        }
        let key = self.shape_key(state, uid_matters, &group);
        let key = (key.print, Arc::new(key));
        let Some(at) = self.by_key.get(&key).copied() else { return };
        let Some(shape) = self.shapes.get_mut(at).and_then(Option::as_mut) else { return };
        shape.waiting.remove(&waiting_key(state, job));
        if shape.waiting.is_empty() {
            self.shapes[at] = None;
            self.unused.push(at);
            self.by_key.remove(&key);
            self.leave_fit(&key.1);
        }
    }

    /// Lets the jobs whose time has come into their shapes, and those whose patience is over into
    /// other ones.
    pub(crate) fn advance(&mut self, state: &State, uid_matters: bool, now: Timestamp) {
        let over: BTreeSet<JobId> =
            self.patience.iter().take_while(|(until, _)| *until <= now).map(|p| p.1).collect();
        for job in over.iter().filter_map(|id| state.jobs.get(id)) {
            self.remove(state, uid_matters, job);
        }
        self.now = now;
        for job in over.iter().filter_map(|id| state.jobs.get(id)) {
            self.add(state, uid_matters, job);
        }
        while let Some((at, id)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, id));
            if let Some(job) = state.jobs.get(&id) {
                self.add(state, uid_matters, job);
            }
        }
    }

    /// Works out what the places of new shapes rest on.
    pub(crate) fn learn_terms(&mut self, state: &State) {
        let shapes = &self.shapes;
        self.terms.learn(state, |at| {
            let first = shapes.get(at)?.as_ref()?.waiting.first()?;
            state.jobs.get(&first.3)
        });
    }

    /// What is known of shapes by number, by what they are: numbers change from state to state.
    pub(crate) fn by_shape<T: Clone>(
        &self,
        by_number: &BTreeMap<usize, T>,
    ) -> BTreeMap<Arc<ShapeKey>, T> {
        let of = |((_, key), at): (&(u64, Arc<ShapeKey>), &usize)| {
            Some((Arc::clone(key), by_number.get(at)?.clone()))
        };
        self.by_key.iter().filter_map(of).collect()
    }

    /// What is known of shapes by what they are, by number.
    pub(crate) fn by_number<'a, T>(
        &self,
        by_shape: &'a BTreeMap<Arc<ShapeKey>, T>,
    ) -> BTreeMap<usize, &'a T> {
        let of = |(key, known): (&Arc<ShapeKey>, &'a T)| {
            Some((*self.by_key.get(&(key.print, Arc::clone(key)))?, known))
        };
        by_shape.iter().filter_map(of).collect()
    }

    /// Keeps the order of the shapes for the next round; who has nobody waiting comes last.
    pub(crate) fn keep_sorted(&mut self, firsts: &[First]) {
        self.sorted.clear();
        self.sorted.extend(firsts.iter().map(|first| first.at));
        if self.sorted.len() < self.shapes.len() {
            let mut rest = vec![true; self.shapes.len()];
            for first in firsts {
                rest[first.at as usize] = false;
            }
            let rest = rest.iter().enumerate().filter(|(_, rest)| **rest);
            self.sorted.extend(rest.map(|(at, _)| at as u32));
        }
    }

    /// The shapes that came since this was last called.
    pub(crate) fn fresh(&mut self) -> impl Iterator<Item = &mut Shape> {
        let fresh = std::mem::take(&mut self.fresh);
        let shapes = self.shapes.iter_mut().enumerate();
        shapes.filter(move |(at, _)| fresh.contains(at)).filter_map(|(_, shape)| shape.as_mut())
    }

    /// How many numbers of [`Shape::fit`] there are.
    pub(crate) fn fits_len(&self) -> usize {
        match self.classes {
            Classes::None => self.shapes.len(),
            _ => self.fits.len() + self.unused_fits.len(),
        }
    }

    fn enter_fit(&mut self, key: &ShapeKey, asks: impl FnOnce() -> Asks) -> (usize, Asks) {
        let key = key.without_class();
        if let Some((fit, shapes, asks)) = self.fits.get_mut(&key) {
            *shapes += 1;
            return (*fit, Arc::clone(asks));
        }
        let (fit, asks) = (self.unused_fits.pop().unwrap_or(self.fits.len()), asks());
        self.fits.insert(key, (fit, 1, Arc::clone(&asks)));
        (fit, asks)
    }

    fn leave_fit(&mut self, key: &ShapeKey) {
        if key.class.is_none() {
            return;
        }
        let key = key.without_class();
        let Some((fit, shapes, _)) = self.fits.get_mut(&key) else { return };
        *shapes -= 1;
        if *shapes == 0 {
            self.unused_fits.push(*fit);
            self.fits.remove(&key);
        }
    }

    /// What a group of jobs is at the present instant.
    pub(crate) fn shape_key(
        &self,
        state: &State,
        uid_matters: bool,
        group: &[&Arc<Job>],
    ) -> ShapeKey {
        let throttled = |job: &Arc<Job>| {
            job.array
                .map(|task| task.array)
                .filter(|id| state.index.arrays.get(id).is_some_and(|a| a.throttle.is_some()))
        };
        let part = |job: &&Arc<Job>| {
            let ways = ways_among(state, &self.magnetic, job);
            part_key(state, uid_matters, self.now, job, ways)
        };
        let parts = group.iter().map(part).collect();
        let array = group.first().and_then(|job| throttled(job));
        ShapeKey::new(parts, array, class(self.classes, group))
    }

    fn shape_of(&mut self, state: &State, key: ShapeKey, group: &[&Arc<Job>]) -> usize {
        let at = self.unused.last().copied().unwrap_or(self.shapes.len());
        let key = match self.by_key.entry((key.print, Arc::new(key))) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => {
                let key = Arc::clone(&place.key().1);
                place.insert(at);
                key
            }
        };
        if self.unused.pop().is_none() {
            self.shapes.push(None);
        }
        let now = self.now;
        let mut catalogue = std::mem::take(&mut self.catalogue);
        let policy = &state.policy.devices;
        let mut wants = |request: &_, partition: &_| catalogue.of(request, partition, policy);
        let mut asks = |(job, part): (&&Arc<Job>, &PartKey)| {
            asks_with(state, job, now, (&part.request, &part.ways), &mut wants)
        };
        let mut new = || Arc::new(group.iter().zip(&key.parts).map(&mut asks).collect());
        let (fit, asks) = match key.class {
            None => (at, new()),
            Some(_) => self.enter_fit(&key, new),
        };
        self.catalogue = catalogue;
        let waiting = BTreeSet::new();
        self.shapes[at] = Some(Shape { array: key.array, waiting, asks, fit, gate: None });
        self.terms.came(at);
        self.fresh.insert(at);
        at
    }
}

/// What parts a group from others with its request.
fn class(classes: Classes, group: &[&Arc<Job>]) -> Option<Class> {
    let of = |job: &&Arc<Job>| {
        let spec = &job.spec;
        (spec.account.clone(), spec.owner.user.clone(), spec.qos.clone())
    };
    let associations = || group.iter().map(of).collect();
    let uid = group.first().map(|job| job.spec.owner.uid);
    let terms = group.first().map(|job| (job.spec.nice, job.spec.priority, job.spec.site_factor));
    match classes {
        Classes::None => None,
        Classes::Limited => Some(Class { associations: associations(), ..Class::default() }),
        Classes::Ranked => Some(Class { associations: associations(), terms, uid: None }),
        Classes::Weighed => Some(Class { associations: associations(), terms, uid }),
    }
}

fn part_key(
    state: &State,
    uid_matters: bool,
    now: Timestamp,
    job: &Arc<Job>,
    ways: Vec<Option<String>>,
) -> PartKey {
    let spec = &job.spec;
    let picky = spec
        .partitions
        .iter()
        .filter_map(|name| state.partitions.get(name))
        .any(|p| !p.allow_accounts.is_empty());
    PartKey {
        request: SharedRequest::of(spec),
        partitions: SharedPartitions::of(spec),
        limit: job.time_limit.seconds(),
        likely: state.likely_run(job).seconds(),
        time_min: spec.time_min,
        deadline: spec.deadline,
        uid: uid_matters.then_some(spec.owner.uid),
        seen: uid_matters.then(|| {
            let (name, user) = (spec.name.clone(), spec.owner.user.clone());
            (name, user, spec.account.clone(), spec.labels.clone())
        }),
        account: picky.then(|| spec.account.clone()),
        ways,
        wishes_switches: switch_wish(state, job).is_some_and(|(_, until)| until > now),
        any_time: any_time(state, job),
        rank: crate::preempt::rank_of(state, job),
    }
}

/// True where who asks can decide: some unfinished job shares its nodes only with its own user,
/// or its GPU, perhaps where one user at a time is served, or looks at the jobs beside it.
pub(crate) fn makes_uid_matter(job: &Job) -> bool {
    let request = &job.spec.request;
    let in_part = request.gpu_share.is_some() || request.gpu_memory.is_some();
    let looks = request.affinity.as_ref().is_some_and(|a| a.looks_at_jobs());
    !job.state.is_over() && (request.exclusive == Exclusive::User || in_part || looks)
}

/// True where the job's QOS lets it ask for more time than a partition gives.
fn any_time(state: &State, job: &Job) -> bool {
    state.qos.get(&job.spec.qos).is_some_and(|qos| qos.flags.partition_time_limit)
}

/// The limit a job has in a partition, under its QOS.
pub(crate) fn limit_of(state: &State, partition: &Partition, job: &Job) -> Option<TimeLimit> {
    if any_time(state, job) {
        return Some(job.time_limit);
    }
    limit_in(partition, job.time_limit, job.spec.time_min)
}

/// The limit a job has in a partition; `None` where it asks for more than the partition gives.
///
/// Cut down to the partition's limit only where the job's `time_min` allows that.
pub(crate) fn limit_in(
    partition: &Partition,
    limit: TimeLimit,
    time_min: Option<Seconds>,
) -> Option<TimeLimit> {
    let TimeLimit::Of(most) = partition.max_time else { return Some(limit) };
    match limit {
        TimeLimit::Of(asked) if asked <= most => Some(limit),
        _ if time_min.is_some_and(|least| least <= most) => Some(TimeLimit::Of(most)),
        _ => None,
    }
}

/// The ways to ask for one component: each partition that starts jobs and allows this one.
///
/// They depend on the instant only in whether the job still waits for few switches.
pub(crate) fn asks(state: &State, job: &Job, now: Timestamp) -> Vec<Ask> {
    let request = SharedRequest::of(&job.spec);
    let policy = &state.policy.devices;
    let mut wants = |request: &_, partition: &_| Arc::new(Wants::new(request, partition, policy));
    asks_with(state, job, now, (&request, &ways(state, job)), &mut wants)
}

/// The licence that is asked for and not given out.
pub(crate) fn held_licence<'a>(
    state: &'a State,
    request: &Request,
) -> Option<(&'a str, &'a LicenceHold)> {
    let mut licences = request.licences.iter().filter_map(|l| state.licences.get(&l.name));
    licences.find_map(|licence| Some((licence.name.as_str(), licence.hold.as_ref()?)))
}

/// As [`asks`], given its request with the reservations that it may be in, and who tells what a
/// request wants in a partition.
fn asks_with(
    state: &State,
    job: &Job,
    now: Timestamp,
    (request, ways): (&SharedRequest, &[Option<String>]),
    wants: &mut dyn FnMut(&SharedRequest, &Arc<Partition>) -> Arc<Wants>,
) -> Vec<Ask> {
    let spec = &job.spec;
    let held = held_licence(state, &spec.request).is_some();
    let may_start = |p: &&Arc<Partition>| {
        !held
            && p.state.starts_jobs()
            && (p.allow_accounts.is_empty() || p.allow_accounts.contains(&spec.account))
    };
    let partitions = || spec.partitions.iter().filter_map(|name| state.partitions.get(name));
    ways.iter()
        .flat_map(|inside| partitions().filter(may_start).map(move |p| (inside, p)))
        .filter_map(|(inside, partition)| {
            let limit = limit_of(state, partition, job)?;
            let time_min = spec.time_min.map(|s| s.0);
            let wants = wants(request, partition);
            let ask = Ask::new(wants, spec.owner.uid, limit, time_min, spec.deadline);
            let mut ask = ask.in_reservation(inside.as_deref());
            ask.estimate = job.estimate.filter(|_| state.trusts_estimates());
            ask.likely = state.likely_run(job);
            ask.who = Some(Arc::clone(&job.spec));
            ask.spread = state.policy.nodes == muster_model::NodeChoice::Spread;
            ask.switches = switch_wish(state, job).filter(|wish| wish.1 > now).map(|wish| wish.0);
            Some(ask)
        })
        .filter(|ask| ask.node_bounds().is_some())
        .collect()
}
