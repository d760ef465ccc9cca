//! The simulated world: one step at a time, each chosen by the seed.

use crate::invariants;
use crate::random::Random;
use crate::support::{job, nodes, root, site, user};
use muster_control::command::{Command, CommandError, JobRef, Principal, Reply};
use muster_control::{
    Advisor, Checking, Clock, Committed, ManualClock, Open, Outgoing, Planning, StandardChecker,
    StandardPlanner, Writer,
};
use muster_engine::{Engine, EngineError, Inventory, Observation, Pace, ScriptedEngine};
use muster_model::{
    ArraySpec, Dependency, DependencyKind, DependencyTarget, DependencyTerm, EndCause, EngineName,
    ExitReport, ExitStatus, IndexRanges, JobId, Joiner, Mib, Payload, Plan, Seconds, SignalScope,
    State, TimeLimit, Timestamp,
};
use muster_store::memory::{Failure, MemoryDisk};
use muster_store::{Reader, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Turns that the world may take to finish once the faults have stopped.
const SETTLE_MAX: u32 = 3000;

pub(crate) struct World {
    random: Random,
    clock: Arc<ManualClock>,
    disk: MemoryDisk,
    pub(crate) engine: Arc<ScriptedEngine>,
    writer: Option<Writer>,
    planner: StandardPlanner,
    /// The engine was listed since the last start of the daemon.
    listed: bool,
    orders: Vec<Outgoing>,
    observations: Vec<Observation>,
    plan: Option<(State, Plan)>,
    listing: Option<(Timestamp, Inventory)>,
    /// Jobs whose submission was answered.
    pub(crate) acknowledged: BTreeSet<JobId>,
    /// Every exit that the engine ever reported.
    pub(crate) exits: BTreeMap<(JobId, u32), ExitReport>,
    faults: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000_000)));
        let time = Arc::clone(&clock);
        let engine =
            ScriptedEngine::new(EngineName::local(), nodes(2, 4), Pace::Stepped, move || {
                time.now()
            });
        let mut world = Self {
            random: Random::new(seed),
            clock,
            disk: MemoryDisk::default(),
            engine: Arc::new(engine),
            writer: None,
            planner: StandardPlanner::default(),
            listed: false,
            orders: Vec::new(),
            observations: Vec::new(),
            plan: None,
            listing: None,
            acknowledged: BTreeSet::new(),
            exits: BTreeMap::new(),
            faults: true,
        };
        world.restart();
        world
    }

    pub(crate) fn state(&self) -> &State {
        self.writer.as_ref().expect("the daemon runs").state()
    }

    pub(crate) fn store_reader(&self) -> Arc<dyn Reader> {
        self.writer.as_ref().expect("the daemon runs").store().reader().unwrap()
    }

    pub(crate) fn engine_is_empty(&self) -> bool {
        let inventory = self.engine.inventory().unwrap();
        inventory.running.is_empty() && inventory.exited.is_empty()
    }

    /// Starts the daemon from what the disk has.
    fn restart(&mut self) {
        let (writer, warnings) =
            Writer::open(Box::new(self.disk.open()), self.clock.now()).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        self.writer = Some(writer);
        self.planner = StandardPlanner::default();
        self.listed = false;
        self.orders.clear();
        self.plan = None;
        self.listing = None;
        let mut site = site(&nodes(2, 4));
        site.partitions[0].default_memory_per_cpu = Some(Mib(64));
        site.policy.min_job_age = Seconds(120);
        let faults = std::mem::replace(&mut self.faults, false);
        self.command(&root(), Command::Configure(Box::new(site))).unwrap();
        self.faults = faults;
    }

    /// The daemon is killed. With a power cut, what was not synced is gone too.
    fn kill(&mut self) {
        let before = self.writer.take().expect("the daemon runs").state().clone();
        if self.random.percent(40) {
            self.disk.cut_power();
        } else {
            assert_eq!(
                self.disk.open().load().unwrap().state,
                before,
                "the log tells another story"
            );
        }
        self.restart();
    }

    fn crash_here(&mut self) -> bool {
        self.faults && self.random.percent(3)
    }

    /// Stores a turn; `None` where the daemon was killed, or the store refused.
    fn commit(&mut self, open: Open) -> Option<Committed> {
        if self.crash_here() {
            drop(open);
            self.kill();
            return None;
        }
        let refuse = self.faults && self.random.percent(3);
        self.disk.fail(refuse.then_some(Failure::Full));
        let result = self.writer.as_mut().expect("the daemon runs").commit(open);
        self.disk.fail(None);
        let committed = result.ok()?;
        if self.crash_here() {
            self.kill();
            return None;
        }
        invariants::after_commit(self.state());
        Some(committed)
    }

    fn begin(&self) -> Open {
        self.writer.as_ref().expect("the daemon runs").begin(self.clock.now())
    }

    fn command(&mut self, who: &Principal, command: Command) -> Result<Reply, CommandError> {
        let mut open = self.begin();
        let writer = self.writer.as_ref().expect("the daemon runs");
        let reply = writer.command(&mut open, who, command)?;
        let committed = self.commit(open).ok_or(CommandError::GivenUp)?;
        if let Reply::Submitted { id, count } = &reply {
            self.acknowledged.extend((id.0..id.0 + count).map(JobId));
        }
        if self.crash_here() {
            self.kill();
        } else {
            self.orders.extend(committed.orders);
        }
        Ok(reply)
    }

    /// Something happens.
    pub(crate) fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => self.submit(),
            3 => self.meddle(),
            4..=6 => self.observe(),
            7..=8 => self.make_plan(),
            9..=10 => self.take_plan(),
            11..=13 => self.dispatch(),
            14..=15 => self.let_engine_run(),
            16 => self.pass_time(),
            17 => self.ask_for_listing(),
            18 => self.take_listing(),
            _ => self.mishap(),
        }
    }

    fn submit(&mut self) {
        let who = user(1000 + self.random.below(2) as u32);
        let script = ["exit 0", "exit 0", "exit 3", "sleep 100"][self.random.below(4)];
        let mut submission = job(&who, script);
        let spec = &mut submission.specs[0];
        spec.time_limit = Some(TimeLimit::Of(Seconds(60)));
        spec.requeue = self.random.percent(50);
        spec.request.cpus_per_task = Some(1 + self.random.below(4) as u32);
        let known: Vec<JobId> = self.state().jobs.keys().copied().collect();
        match self.random.below(8) {
            0 => {
                let indices = IndexRanges::from_ranges([(0, 2)]);
                let throttle = self.random.percent(50).then_some(1);
                spec.array = Some(ArraySpec { indices, throttle });
            }
            1 => {
                let second = spec.clone();
                submission.specs.push(second);
            }
            2 => "/nonexistent/dir".clone_into(&mut spec.cwd),
            3 => spec.begin = Some(self.clock.now().plus(Seconds(20))),
            4 => spec.hold = true,
            5 | 6 => {
                if let Some(target) = self.random.pick(&known) {
                    let kinds =
                        [DependencyKind::AfterAny, DependencyKind::AfterOk, DependencyKind::After];
                    let kind = kinds[self.random.below(3)];
                    let target = Some(DependencyTarget::Job(target));
                    let term = DependencyTerm { kind, target, delay: Seconds(0) };
                    spec.dependency = Some(Dependency { joiner: Joiner::All, terms: vec![term] });
                }
            }
            _ => {}
        }
        // Refused where the store refuses or the daemon is killed: then nothing was promised.
        drop(self.command(&who, Command::Submit(Box::new(submission))));
    }

    /// A person does something to a job.
    fn meddle(&mut self) {
        let known: Vec<JobId> = self.state().jobs.keys().copied().collect();
        let Some(id) = self.random.pick(&known) else { return };
        let jobs = vec![JobRef::Id(id)];
        let requeue = self.state().job(id).is_some_and(|job| job.spec.requeue);
        let command = match self.random.below(6) {
            0 => Command::Cancel { jobs, hurry: false },
            1 => Command::Hold { jobs, as_user: true },
            2 => Command::Release { jobs },
            3 if requeue => Command::Requeue { jobs, hold: self.random.percent(20) },
            4 => Command::Suspend { jobs, suspend: self.random.percent(50) },
            _ => Command::Signal { jobs, signal: 10, scope: SignalScope::All },
        };
        // Most are refused for the state that the job is in.
        drop(self.command(&root(), command));
    }

    /// What the engine saw comes in: some lost, some twice, some late, in any order.
    fn observe(&mut self) {
        self.collect();
        let mut open = self.begin();
        let mut left = Vec::new();
        for seen in std::mem::take(&mut self.observations) {
            let writer = self.writer.as_ref().expect("the daemon runs");
            let times = match self.faults.then(|| self.random.below(100)) {
                Some(0..=14) => 0,
                Some(15..=29) => 2,
                Some(30..=49) => {
                    left.push(seen.clone());
                    0
                }
                _ => 1,
            };
            for _ in 0..times {
                writer.observe(&mut open, &EngineName::local(), seen.clone()).unwrap();
            }
        }
        left.reverse();
        self.observations = left;
        if let Some(committed) = self.commit(open) {
            self.orders.extend(committed.orders);
        }
    }

    /// Takes what the engine saw, and writes down every exit before anything can be lost.
    fn collect(&mut self) {
        for seen in self.engine.take_seen() {
            if let Observation::Exited { job, attempt, report } = &seen {
                self.exits.insert((*job, *attempt), report.clone());
            }
            self.observations.push(seen);
        }
    }

    fn make_plan(&mut self) {
        if !self.listed || self.plan.is_some() {
            return;
        }
        let state = self.state().clone();
        let plan = self.planner.plan(&state, self.clock.now());
        let breaches = StandardChecker.check(&state, &plan);
        assert!(breaches.is_empty(), "{breaches:?}");
        self.plan = Some((state, plan));
    }

    fn take_plan(&mut self) {
        let Some((base, plan)) = self.plan.take() else { return };
        let mut open = self.begin();
        let writer = self.writer.as_ref().expect("the daemon runs");
        writer.decide(&mut open, &base, &plan).unwrap();
        if let Some(committed) = self.commit(open) {
            self.orders.extend(committed.orders);
        }
    }

    /// Some orders reach the engine: some twice, some not yet, some never.
    fn dispatch(&mut self) {
        let reader = self.store_reader();
        let fence = self.writer.as_ref().expect("the daemon runs").fence();
        for order in std::mem::take(&mut self.orders) {
            let fate = if self.faults { self.random.below(100) } else { 99 };
            if fate < 10 {
                continue;
            }
            if fate < 30 {
                self.orders.push(order);
                continue;
            }
            if !order.is_wanted(self.state()) {
                continue;
            }
            let payload: Payload = match &order.payload {
                Some(id) => {
                    let bytes = reader.blob(id).unwrap().expect("a launch has its payload");
                    serde_json::from_slice(&bytes).unwrap()
                }
                None => Payload::default(),
            };
            let order = order.with_payload(&Arc::new(payload));
            for _ in 0..if fate < 45 { 2 } else { 1 } {
                match self.engine.execute(fence, &order) {
                    Ok(()) | Err(EngineError::Unreachable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            if self.crash_here() {
                self.collect();
                self.kill();
                return;
            }
        }
    }

    fn let_engine_run(&mut self) {
        let random = &mut self.random;
        self.engine.step_some(|_| random.percent(60));
        self.collect();
    }

    fn pass_time(&mut self) {
        let by = if self.random.percent(10) { 60 } else { 1 + self.random.below(10) as u64 };
        self.clock.advance(Seconds(by));
        self.tick();
    }

    fn tick(&mut self) {
        let mut open = self.begin();
        self.writer.as_mut().expect("the daemon runs").tick(&mut open).unwrap();
        if let Some(committed) = self.commit(open) {
            self.orders.extend(committed.orders);
        }
    }

    /// A listing is asked for; it may be old when it is taken in.
    fn ask_for_listing(&mut self) {
        if self.listing.is_none() {
            self.collect();
            self.listing = Some((self.clock.now(), self.engine.inventory().unwrap()));
        }
    }

    fn take_listing(&mut self) {
        let Some((taken, inventory)) = self.listing.take() else { return };
        let mut open = self.begin();
        let writer = self.writer.as_mut().expect("the daemon runs");
        writer.inventory(&mut open, &EngineName::local(), taken, inventory).unwrap();
        if let Some(committed) = self.commit(open) {
            self.orders.extend(committed.orders);
            self.listed = true;
        }
    }

    fn mishap(&mut self) {
        match self.random.below(5) {
            0 => self.kill(),
            1 => {
                let state = self.state().clone();
                self.disk.open().snapshotter().unwrap().snapshot(&state).unwrap();
                // Opening counted the fence up: the daemon must be the newest again.
                self.kill();
            }
            2 => {
                let running = self.engine.inventory().unwrap().running;
                let pick = self.random.below(running.len().max(1));
                if let Some(victim) = running.get(pick).filter(|r| r.started.is_some()) {
                    let causes = [EndCause::OutOfMemory, EndCause::NodeReboot];
                    let cause = causes[self.random.below(2)];
                    let status = ExitStatus { code: 0, signal: 9 };
                    self.engine.end(victim.job, victim.attempt, status, cause);
                    self.collect();
                }
            }
            3 => {
                let running = self.engine.inventory().unwrap().running;
                let pick = self.random.below(running.len().max(1));
                if let Some(victim) = running.get(pick).filter(|r| r.started.is_some()) {
                    self.engine.forget(victim.job, victim.attempt);
                }
            }
            _ => {
                // The clock jumps back a little.
                let now = self.clock.now();
                self.clock.set(Timestamp::from_millis(now.millis() - 3000));
            }
        }
    }

    /// The faults stop: everything is let go, and all jobs finish.
    pub(crate) fn settle(&mut self) {
        self.faults = false;
        let calm = |world: &Self| {
            let index = &world.state().index;
            index.pending.is_empty() && index.active.is_empty() && world.engine_is_empty()
        };
        for _ in 0..SETTLE_MAX {
            if calm(self) {
                return;
            }
            self.let_go();
            self.ask_for_listing();
            self.take_listing();
            self.observe();
            self.make_plan();
            self.take_plan();
            self.dispatch();
            self.engine.step();
            self.collect();
            self.clock.advance(Seconds(5));
            self.tick();
        }
        let state = self.state();
        let reasons = Advisor::default().reasons(state, self.clock.now());
        for job in state.jobs.values().filter(|job| !job.state.is_over()) {
            println!(
                "{} {:?} attempt {} hold {:?} stop {:?} eligible {:?} gates {:?} het {:?}: {:?}",
                job.display_id(),
                job.state,
                job.attempt,
                job.hold,
                job.stop,
                job.eligible,
                job.gates,
                job.het,
                reasons.get(&job.id)
            );
        }
        panic!("not finished by {}: {:?}", self.clock.now(), self.engine.inventory());
    }

    /// Releases what is held, resumes what stands still, cancels what waits for ever.
    fn let_go(&mut self) {
        let state = self.state().clone();
        let hopeless = |id: &JobId| state.job(*id).is_some_and(|j| j.dependency_is_hopeless());
        // Components of a het job may not be named alone.
        let whole = |id: &JobId| {
            let het = state.job(*id).and_then(|job| job.het);
            JobRef::Id(het.map_or(*id, |part| part.leader))
        };
        let pending = || state.index.pending.iter();
        let is_held = |id: &&JobId| state.job(**id).is_some_and(|j| j.hold.is_some());
        let held: Vec<JobRef> = pending().filter(is_held).map(whole).collect();
        let doomed: Vec<JobRef> = pending().filter(|id| hopeless(id)).map(whole).collect();
        let still: Vec<JobRef> = state
            .index
            .active
            .iter()
            .filter(|id| state.job(**id).is_some_and(|j| j.suspend))
            .map(|id| JobRef::Only(*id))
            .collect();
        for (jobs, command) in [
            (held, (|jobs| Command::Release { jobs }) as fn(Vec<JobRef>) -> Command),
            (doomed, |jobs| Command::Cancel { jobs, hurry: false }),
            (still, |jobs| Command::Suspend { jobs, suspend: false }),
        ] {
            if !jobs.is_empty() {
                drop(self.command(&root(), command(jobs)));
            }
        }
    }
}
