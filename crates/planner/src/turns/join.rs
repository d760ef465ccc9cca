//! Waiting jobs that join others on their CPUs and GPUs.

use super::rotate::{groups, over};
use super::{Taken, take_off, whole};
use crate::ask::Ask;
use crate::free::Span;
use crate::order::OrderKey;
use crate::preempt::on_the_world;
use crate::promised::take_off as take_promises_off;
use crate::queue::group;
use crate::round::{Round, Walk};
use muster_model::{
    BackfillMode, CpuSet, Decision, Exclusive, Job, JobId, JobState, NodeId, Placement, Start,
    TimeLimit, Timestamp, Turn, TurnChange,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A round tries to let so many jobs join; the next one goes on.
const TRIES_MAX: u32 = 256;

/// What a round found: jobs that join others, and whose turn it is.
#[derive(Default)]
pub(crate) struct Joined {
    /// In the order in which they joined.
    starts: Vec<Start>,
    changes: BTreeMap<JobId, TurnChange>,
    /// There may be more to join.
    pub(crate) has_more: bool,
}

/// One that may be joined, or has joined in this round.
struct Sharer {
    job: Arc<Job>,
    placement: Arc<Placement>,
    limit_left: Option<u64>,
    /// What it has on the world, until when.
    held: Placement,
    end: Timestamp,
    runs: bool,
    /// Its place among the starts of this round.
    start: Option<usize>,
}

/// The sharers of one partition.
struct Company {
    most: u32,
    sharers: Vec<Sharer>,
}

/// A place among others.
struct Found {
    placement: Placement,
    limit: TimeLimit,
    /// Those it shares with, directly or through others.
    fellows: Vec<usize>,
    until: Timestamp,
}

impl Joined {
    /// The jobs that are over later than the state says, with their new ends.
    pub(crate) fn put_off<'s>(
        &'s self,
        state: &'s muster_model::State,
    ) -> impl Iterator<Item = (&'s Arc<Job>, Timestamp)> {
        self.changes.values().filter_map(|change| {
            let job = state.jobs.get(&change.job)?;
            let until = change.turn?.until;
            (Some(until) > job.ends_at_latest()).then_some((job, until))
        })
    }

    /// The jobs that join.
    pub(crate) fn jobs(&self) -> BTreeSet<JobId> {
        self.starts.iter().map(|start| start.job).collect()
    }

    /// The decisions, starts first.
    pub(crate) fn into_decisions(self) -> Vec<Decision> {
        let mut decisions: Vec<Decision> =
            self.starts.into_iter().map(|start| Decision::Start(vec![start])).collect();
        let changes: Vec<TurnChange> = self.changes.into_values().collect();
        if !changes.is_empty() {
            decisions.push(Decision::Turns(changes));
        }
        decisions
    }
}

impl Company {
    /// How many sharers a CPU or GPU has.
    fn counts(&self) -> BTreeMap<(NodeId, bool, u32), u32> {
        let mut counts = BTreeMap::new();
        for share in self.sharers.iter().flat_map(|sharer| &sharer.placement.nodes) {
            for cpu in share.cpus.iter() {
                *counts.entry((share.node, false, cpu)).or_default() += 1;
            }
            for index in whole(share) {
                *counts.entry((share.node, true, index)).or_default() += 1;
            }
        }
        counts
    }

    /// GPU memory that sharers have of each GPU that one of them has as a whole.
    fn device_memory(&self) -> BTreeMap<(NodeId, u32), u64> {
        let mut sums: BTreeMap<(NodeId, u32), u64> = BTreeMap::new();
        for share in self.sharers.iter().flat_map(|sharer| &sharer.placement.nodes) {
            for grant in share.devices.iter().filter(|grant| grant.is_whole()) {
                let sum = sums.entry((share.node, grant.index)).or_default();
                *sum = sum.saturating_add(grant.memory.0);
            }
        }
        sums
    }
}

impl Round<'_> {
    /// Whose turn it is, and who joins. Promises are taken off the world for it.
    pub(crate) fn take_turns(&mut self, walk: &mut Walk) {
        let any = self.state.partitions.values().any(|partition| partition.has_turns());
        if !any && self.state.index.turns.is_empty() {
            return;
        }
        let leaving = self.preempting.spared.clone();
        self.joined.changes = super::changes(self.state, self.now, &leaving);
        if !any || walk.is_cut() || self.budget.resume.is_some() {
            return;
        }
        take_promises_off(&mut self.cache.world, &walk.promises);
        walk.promises_are_off = true;
        self.join_all(walk);
    }

    /// Lets waiting jobs join in the order of the queue.
    fn join_all(&mut self, walk: &mut Walk) {
        let has_turns = |ask: &Ask| ask.partition.has_turns();
        let mut queued: Vec<(OrderKey, usize)> = Vec::new();
        for (at, shape) in self.cache.queue.shapes.iter().enumerate() {
            let Some(shape) = shape else { continue };
            if shape.asks.iter().flatten().any(has_turns) {
                let terms = self.cache.queue.terms.of(at);
                queued.extend(shape.waiting.iter().map(|key| (self.keys.live(*key, terms), at)));
            }
        }
        queued.sort_unstable();
        let mut companies: BTreeMap<String, Company> = BTreeMap::new();
        let mut failed: BTreeSet<usize> = BTreeSet::new();
        let mut closed: BTreeSet<String> = BTreeSet::new();
        let strict = self.state.policy.backfill == BackfillMode::None;
        let promised: BTreeSet<JobId> =
            walk.promises.iter().flat_map(|p| p.jobs.iter().map(|(job, _)| *job)).collect();
        // What started behind a promise needs it: who has one then joins in the next round.
        let behind = self.started.iter().flatten().any(|started| started.behind);
        // Without its promise nobody may come before those that it protected.
        let mut exposed: BTreeSet<String> = BTreeSet::new();
        let mut tries = 0;
        for (key, at) in queued {
            if self.settled.contains(&key.3) || failed.contains(&at) {
                continue;
            }
            let Some(job) = self.state.jobs.get(&key.3).map(Arc::clone) else { continue };
            let asks = self.asks(at);
            let lanes = || asks.iter().flatten().map(|ask| ask.lane().to_owned());
            if tries == TRIES_MAX {
                self.joined.has_more = true;
                break;
            }
            tries += 1;
            if lanes().any(|lane| closed.contains(&lane)) {
                continue;
            }
            let has_promise = promised.contains(&job.id);
            let stays = has_promise && behind;
            self.joined.has_more |= stays;
            let joins = !stays && self.may_join(at, &asks, &job) && {
                asks.iter().flatten().filter(|ask| has_turns(ask)).any(|ask| {
                    let company = companies
                        .entry(ask.partition.name.clone())
                        .or_insert_with(|| self.company(&ask.partition));
                    self.join(walk, company, ask, &job)
                })
            };
            if joins && has_promise {
                exposed.extend(lanes());
            }
            if !joins {
                failed.insert(at);
                closed.extend(lanes().filter(|lane| strict || exposed.contains(lane)));
            }
        }
        for company in companies.into_values() {
            for one in company.sharers.into_iter().filter(|one| one.start.is_some()).rev() {
                self.cache.world.release(one.job.id, &one.held);
            }
        }
    }

    /// True where nothing but room keeps a job from joining. Who runs together with other jobs, in
    /// a reservation or against a deadline takes no turns.
    fn may_join(&mut self, at: usize, asks: &[Vec<Ask>], job: &Arc<Job>) -> bool {
        let alone = job.het.is_none()
            && job.spec.gang.is_none()
            && job.spec.request.exclusive == Exclusive::No
            && job.spec.deadline.is_none()
            && job.claim.is_none();
        let Some(group) = group(self.state, job).filter(|_| alone) else { return false };
        !self.array_is_full(at) && self.limit_on(asks, &group).is_none()
    }

    /// Those that may be joined in a partition.
    fn company(&self, partition: &muster_model::Partition) -> Company {
        let state = self.state;
        let jobs = state.index.active.iter().filter_map(|id| state.jobs.get(id));
        let sharers = jobs.filter_map(|job| {
            let own = state.turns_of(job).is_some_and(|p| p.name == partition.name);
            let stays = job.state != JobState::Completing
                && job.eviction.is_none()
                && job.stop.is_none()
                && !self.preempting.spared.contains(&job.id)
                && job.placement.as_ref().is_some_and(|p| p.reservation.is_none());
            if !own || !stays {
                return None;
            }
            let runs = match self.joined.changes.get(&job.id) {
                Some(change) => {
                    let by_hand = !job.is_to_run() && !job.waits_for_turn();
                    !by_hand && change.turn.is_none_or(|turn| turn.runs)
                }
                None => job.is_to_run(),
            };
            Some(Sharer {
                job: Arc::clone(job),
                placement: Arc::clone(job.placement.as_ref()?),
                limit_left: job.left_ms(self.now),
                held: on_the_world(state, job)?,
                end: state.expected_end(job, self.now)?,
                runs,
                start: None,
            })
        });
        Company { most: partition.sharers, sharers: sharers.collect() }
    }

    /// Starts a job beside others, where that works.
    fn join(&mut self, walk: &Walk, company: &mut Company, ask: &Ask, job: &Arc<Job>) -> bool {
        let Some(found) = self.place_beside(walk, company, ask, job) else { return false };
        let Found { placement, limit, fellows, until } = found;
        let placement = Arc::new(placement);
        let mut running = Taken::default();
        let mut held = Placement::clone(&placement);
        for sharer in fellows.iter().map(|at| &company.sharers[*at]) {
            if sharer.runs {
                running.add(&sharer.placement);
            }
            take_off(&mut held, &sharer.placement);
        }
        let runs = !running.meets(&placement);
        let turn = (!fellows.is_empty()).then_some(Turn { runs, since: self.now, until });
        for at in fellows {
            self.note_turn(&company.sharers[at], until);
        }
        self.settled.insert(job.id);
        if let Some(task) = job.array {
            *self.tasks_started.entry(task.array).or_default() += 1;
        }
        self.limits.count_placement(job, &placement, limit);
        self.cache.world.occupy(job, &held, until, false);
        self.joined.has_more |= walk.promises.iter().any(|p| p.jobs.iter().any(|j| j.0 == job.id));
        company.sharers.push(Sharer {
            job: Arc::clone(job),
            placement: Arc::clone(&placement),
            limit_left: limit.seconds().map(|s| s.0.saturating_mul(1000)),
            held,
            end: until,
            runs,
            start: Some(self.joined.starts.len()),
        });
        let attempt = job.attempt.saturating_add(1);
        self.joined.starts.push(Start { job: job.id, attempt, placement, time_limit: limit, turn });
        true
    }

    /// All who share take longer now.
    fn note_turn(&mut self, sharer: &Sharer, until: Timestamp) {
        if let Some(at) = sharer.start {
            let turn = &mut self.joined.starts[at].turn;
            let since = self.now;
            *turn = Some(turn.map_or(Turn { runs: true, since, until }, |t| Turn { until, ..t }));
            return;
        }
        let job = &sharer.job;
        let since = job.turn.map(|turn| turn.since).or(job.placed).unwrap_or(self.now);
        let runs = !job.waits_for_turn();
        let turn = match self.joined.changes.get(&job.id) {
            Some(change) => change.turn.or(Some(Turn { runs: true, since: self.now, until })),
            None => job.turn,
        };
        let turn = turn.unwrap_or(Turn { runs, since, until });
        let change =
            TurnChange { job: job.id, attempt: job.attempt, turn: Some(Turn { until, ..turn }) };
        self.joined.changes.insert(job.id, change);
    }

    /// Where a job has room once it may share, the world being left as it was.
    fn place_beside(
        &mut self,
        walk: &Walk,
        company: &Company,
        ask: &Ask,
        job: &Arc<Job>,
    ) -> Option<Found> {
        let limit = ask.limit;
        let span = Span::of(self.now, self.now, limit);
        if ask.inside.is_some() || !self.cache.world.licences_fit(ask, span) {
            return None;
        }
        self.open(company, ask);
        let mut blank = Walk::blank(self.state, 0, self.now);
        let picks = self.picks_now(&mut blank, None, ask, span);
        let placement = picks.and_then(|picks| self.cache.world.materialise(ask, &picks, span));
        self.close(company);
        let placement = placement?;
        if !self.limits.after_placement(job, &placement, limit).is_empty() {
            return None;
        }
        let mut placements: Vec<&Placement> =
            company.sharers.iter().map(|sharer| sharer.placement.as_ref()).collect();
        placements.push(&placement);
        let groups = groups(&placements);
        let own = groups.last().copied()?;
        let fellows: Vec<usize> =
            (0..company.sharers.len()).filter(|at| groups[*at] == own).collect();
        let lefts = fellows.iter().map(|at| company.sharers[*at].limit_left);
        let own_left = limit.seconds().map(|s| s.0.saturating_mul(1000));
        let until = over(self.now, lefts.chain(std::iter::once(own_left)));
        let nodes: BTreeSet<NodeId> = fellows
            .iter()
            .map(|at| company.sharers[*at].placement.as_ref())
            .chain(std::iter::once(&placement))
            .flat_map(|placement| placement.nodes.iter().map(|share| share.node))
            .collect();
        let licensed = !placement.licences.is_empty()
            || fellows.iter().any(|at| !company.sharers[*at].placement.licences.is_empty());
        let delays = self.delays(walk, job.id, &nodes, licensed, until);
        (!delays).then_some(Found { placement, limit, fellows, until })
    }

    /// True where use of these nodes until then could delay a promise or reach into a reservation.
    fn delays(
        &self,
        walk: &Walk,
        job: JobId,
        nodes: &BTreeSet<NodeId>,
        licensed: bool,
        until: Timestamp,
    ) -> bool {
        let world = &self.cache.world;
        let promised = walk.promises.iter().any(|promise| {
            let others = || promise.jobs.iter().filter(|(id, _)| *id != job);
            let late = until > promise.start || until == Timestamp::NEVER;
            let there = |picks: &crate::gang::Picks| {
                picks.iter().any(|pick| nodes.contains(&world.view(pick.node).node.id))
            };
            let joins =
                self.joined.starts.iter().any(|s| promise.jobs.iter().any(|j| j.0 == s.job));
            late && !joins && others().any(|(_, (_, picks))| licensed || there(picks))
        });
        let reserved = self.state.reservations.values().any(|reservation| {
            licensed || reservation.nodes.iter().any(|reserved| nodes.contains(&reserved.node))
        });
        promised || reserved
    }

    /// Takes off the world what a job may share.
    fn open(&mut self, company: &Company, ask: &Ask) {
        let counts = company.counts();
        let memory = company.device_memory();
        let is_full =
            |key: &(NodeId, bool, u32)| counts.get(key).is_some_and(|count| *count >= company.most);
        for sharer in &company.sharers {
            let mut left = sharer.held.clone();
            for share in &mut left.nodes {
                let node = share.node;
                let full: CpuSet =
                    share.cpus.iter().filter(|cpu| is_full(&(node, false, *cpu))).collect();
                share.cpus = full;
                let room = |index: u32| self.device_room(ask, node, index, &memory);
                share.devices.retain(|grant| {
                    !grant.is_whole() || is_full(&(node, true, grant.index)) || !room(grant.index)
                });
            }
            self.cache.world.release(sharer.job.id, &sharer.held);
            self.cache.world.occupy(&sharer.job, &left, sharer.end, false);
        }
    }

    /// True where the GPU has the memory for one more.
    fn device_room(
        &self,
        ask: &Ask,
        node: NodeId,
        index: u32,
        memory: &BTreeMap<(NodeId, u32), u64>,
    ) -> bool {
        let device = self.state.nodes.get(&node).and_then(|n| n.devices.get(index as usize));
        let Some(device) = device else { return false };
        let more = ask.request.gpu_memory.unwrap_or(device.memory).0;
        let taken = memory.get(&(node, index)).copied().unwrap_or(0);
        taken.saturating_add(more) <= device.memory.0
    }

    fn close(&mut self, company: &Company) {
        for sharer in &company.sharers {
            self.cache.world.release(sharer.job.id, &sharer.held);
            self.cache.world.occupy(&sharer.job, &sharer.held, sharer.end, false);
        }
    }
}
