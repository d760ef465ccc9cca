//! The loop's own parts on a virtual clock, with a scripted engine, start a log's jobs when the twin
//! says, to the second: there is no second scheduler in the simulator. The loop's node has its CPUs
//! by number, the twin's is a pool.
//!
//! The log is no part of this repository; without it the test says so and passes. Some of its jobs
//! are run; with `MUSTER_TEST_LONG` set all of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the log is the test's data

mod support;

use muster_control::command::{Command, Reply, Site, Submission};
use muster_control::{Clock, ManualClock, Open, Outgoing, Planning, StandardPlanner, Writer};
use muster_engine::{Engine, Pace, ScriptedEngine};
use muster_model::{
    CpuSet, Decision, EndCause, EngineName, ExitStatus, JobId, JobSpec, JobState, Node, Owner,
    Partition, Payload, Policy, Request, Seconds, TimeLimit, Timestamp,
};
use muster_sim::trace::{Cleaned, Cleaning, Swf, SwfJob, unpacked};
use muster_sim::twin::{Estimates, Finished, PolicyName, Rounds, Setting, replay};
use muster_store::memory::MemoryDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use support::{root, user};

/// So many jobs of the log in the ordinary run.
const SOME: usize = 1500;

fn log() -> Option<(u32, Vec<SwfJob>)> {
    let file = muster_test_kit::trace("kth-sp2.swf.gz")?;
    let swf = Swf::new(unpacked(std::fs::File::open(file).unwrap()).unwrap()).unwrap();
    let jobs = Cleaned::new(swf, Cleaning::default()).unwrap();
    let machine = jobs.machine();
    let most = if std::env::var_os("MUSTER_TEST_LONG").is_some() { usize::MAX } else { SOME };
    Some((machine, jobs.take(most).collect::<Result<_, _>>().unwrap()))
}

/// Start times by job number, by the twin.
fn foreseen(machine: u32, jobs: &[SwfJob], policy: Policy) -> BTreeMap<i64, i64> {
    let setting = Setting {
        processors: machine,
        policy,
        estimates: Estimates::Requested,
        faults: None,
        rounds: Rounds::Each,
    };
    let mut starts = BTreeMap::new();
    let note = |done: &Finished| {
        starts.insert(done.job.number, done.start);
        Ok(())
    };
    replay(&setting, jobs.iter().map(|job| Ok(*job)), note).unwrap();
    starts
}

/// The writer, its planner and an engine, stepped by hand.
struct Desk {
    clock: Arc<ManualClock>,
    engine: Arc<ScriptedEngine>,
    writer: Writer,
    planner: StandardPlanner,
    jobs: BTreeMap<JobId, SwfJob>,
    starts: BTreeMap<i64, i64>,
    /// Ends to come: when, in which order they were started, which.
    ends: BTreeSet<(i64, usize, JobId)>,
}

impl Desk {
    fn new(machine: u32, policy: Policy) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(0)));
        let time = Arc::clone(&clock);
        let node = Node {
            name: "pool".to_owned(),
            cpus: CpuSet::first(machine),
            threads_per_core: 1,
            ..Node::default()
        };
        let nodes = vec![node];
        let engine =
            ScriptedEngine::new(EngineName::local(), nodes, Pace::Stepped, move || time.now());
        let (writer, _) =
            Writer::open(Box::new(MemoryDisk::default().open()), clock.now()).unwrap();
        let mut desk = Self {
            clock,
            engine: Arc::new(engine),
            writer,
            planner: StandardPlanner::default(),
            jobs: BTreeMap::new(),
            starts: BTreeMap::new(),
            ends: BTreeSet::new(),
        };
        let partition = Partition {
            name: "pool".to_owned(),
            nodes: BTreeSet::from(["pool".to_owned()]),
            default: true,
            ..Partition::default()
        };
        let policy = Policy { min_job_age: Seconds(0), ..policy };
        let site = Site { partitions: vec![partition], policy, ..Site::default() };
        desk.turn(|writer, open| {
            writer.command(open, &root(), Command::Configure(Box::new(site))).unwrap();
        });
        let (now, found) = (desk.clock.now(), desk.engine.inventory().unwrap());
        desk.turn(|writer, open| writer.inventory(open, &EngineName::local(), now, found).unwrap());
        desk
    }

    /// One turn of the writer, and what comes of it at the engine until that is quiet.
    fn turn(&mut self, act: impl FnOnce(&mut Writer, &mut Open)) {
        let mut open = self.writer.begin(self.clock.now());
        act(&mut self.writer, &mut open);
        self.writer.tick(&mut open).unwrap();
        let mut orders = self.writer.commit(open).unwrap().orders;
        loop {
            self.execute(&orders);
            let seen = self.engine.take_seen();
            if seen.is_empty() {
                return;
            }
            let mut open = self.writer.begin(self.clock.now());
            for one in seen {
                self.writer.observe(&mut open, &EngineName::local(), one).unwrap();
            }
            orders = self.writer.commit(open).unwrap().orders;
        }
    }

    fn execute(&self, orders: &[Outgoing]) {
        let fence = self.writer.fence();
        let payload = Arc::new(Payload { script: "sleep".to_owned(), ..Payload::default() });
        for order in orders {
            if order.is_wanted(self.writer.state()) {
                self.engine.execute(fence, &order.with_payload(&payload)).unwrap();
            }
        }
        let state = self.writer.state();
        let begins = |id: JobId| state.job(id).is_some_and(|job| job.state == JobState::Starting);
        self.engine.step_some(|(job, _)| begins(job));
    }

    fn submit(&mut self, job: SwfJob) {
        let who = user(u32::try_from(job.user).unwrap());
        let asked = |n: i64| u32::try_from(n).unwrap();
        let limit = Seconds(u64::try_from(job.requested_time).unwrap());
        let spec = JobSpec {
            owner: Owner { uid: who.uid, gid: who.gid, user: who.user.clone() },
            cwd: "/".to_owned(),
            request: Request { cpus_per_task: Some(asked(job.requested)), ..Request::default() },
            time_limit: Some(TimeLimit::Of(limit)),
            ..JobSpec::default()
        };
        let payload = Payload { script: "sleep".to_owned(), ..Payload::default() };
        let submission = Box::new(Submission { specs: vec![spec], payload });
        let mut known = None;
        self.turn(|writer, open| {
            match writer.command(open, &who, Command::Submit(submission)).unwrap() {
                Reply::Submitted { id, .. } => known = Some(id),
                other => panic!("{other:?}"),
            }
        });
        self.jobs.insert(known.unwrap(), job);
    }

    fn round(&mut self) {
        let (base, now) = (self.writer.state().clone(), self.clock.now());
        let plan = self.planner.plan(&base, now);
        assert!(plan.complete);
        let started: Vec<JobId> =
            plan.decisions.iter().flat_map(Decision::starts).map(|s| s.job).collect();
        self.turn(|writer, open| {
            writer.decide(open, &base, &plan).unwrap();
        });
        for id in started {
            let job = self.jobs[&id];
            assert_eq!(self.writer.state().job(id).unwrap().state, JobState::Running);
            self.ends.insert((now.secs() + job.run, self.starts.len(), id));
            self.starts.insert(job.number, now.secs());
        }
    }

    /// Ends a job where it still runs.
    fn end(&mut self, id: JobId) {
        let runs = self.writer.state().job(id).is_some_and(|job| job.state == JobState::Running);
        if runs {
            self.engine.end(id, 1, ExitStatus::default(), EndCause::Exited);
            self.turn(|_, _| {});
        }
    }

    /// Runs all jobs, in the order of one instant that the twin keeps.
    fn run(mut self, jobs: &[SwfJob]) -> BTreeMap<i64, i64> {
        let mut next = jobs.iter().copied().peekable();
        loop {
            let end = self.ends.first().map(|end| end.0);
            let submit = next.peek().map(|job| job.submit);
            let Some(at) = end.into_iter().chain(submit).min() else { return self.starts };
            self.clock.set(Timestamp::from_secs(at));
            let due: Vec<JobId> =
                self.ends.iter().take_while(|end| end.0 == at).map(|end| end.2).collect();
            self.ends.retain(|end| end.0 > at);
            for id in &due {
                // One at its limit is known to be over from the beginning of the instant.
                let job = self.jobs[id];
                if job.run == job.requested_time {
                    self.end(*id);
                }
            }
            while let Some(job) = next.next_if(|job| job.submit == at) {
                self.submit(job);
                self.round();
            }
            for id in due {
                self.end(id);
                self.round();
            }
        }
    }
}

#[test]
fn a_log_runs_as_the_twin_foresees() {
    let Some((machine, jobs)) = log() else { return };
    for name in [PolicyName::Muster, PolicyName::Easy] {
        let twin = foreseen(machine, &jobs, name.policy());
        let real = Desk::new(machine, name.policy()).run(&jobs);
        assert_eq!((twin.len(), real.len()), (jobs.len(), jobs.len()));
        let wrong = twin.iter().find(|(number, at)| real[number] != **at);
        let waited = jobs.iter().filter(|job| twin[&job.number] > job.submit).count();
        assert!(waited * 5 > jobs.len(), "too few wait for a proof: {waited}");
        assert_eq!(wrong, None, "{name}: job, and its start by the twin");
    }
}
