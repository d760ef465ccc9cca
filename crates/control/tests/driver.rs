//! The loop with all its threads: a scripted engine, a memory store, the real clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::{Command, CommandError, JobRef, Reply};
use muster_control::{
    Alarm, Clock, Controller, Handle, Parts, Planning, Settings, SystemClock, spawn,
};
use muster_engine::{Pace, ScriptedEngine};
use muster_model::{
    ArraySpec, Decision, EngineName, Event, Hold, IndexRanges, JobId, JobState, Plan, Reason,
    State, Timestamp,
};
use muster_store::memory::{Failure, MemoryDisk};
use muster_store::{Batch, Loaded, MemoryStore, Reader, Snapshotter, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use support::{CpuCheck, FirstFit, job, nodes, root, site, user};

/// How long a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bed {
    disk: MemoryDisk,
    engine: Arc<ScriptedEngine>,
    controller: Controller,
}

fn engine(pace: Pace) -> Arc<ScriptedEngine> {
    let now = || SystemClock.now();
    Arc::new(ScriptedEngine::new(EngineName::local(), nodes(2, 4), pace, now))
}

fn bed(pace: Pace) -> Bed {
    let bed = start(MemoryDisk::default(), engine(pace));
    bed.configure();
    bed
}

fn start(disk: MemoryDisk, engine: Arc<ScriptedEngine>) -> Bed {
    let store = Box::new(disk.open());
    start_with(disk, engine, store, Box::new(FirstFit), Settings::default())
}

fn start_with(
    disk: MemoryDisk,
    engine: Arc<ScriptedEngine>,
    store: Box<dyn Store>,
    planner: Box<dyn Planning>,
    settings: Settings,
) -> Bed {
    let parts = Parts {
        store,
        planner,
        checker: Arc::new(CpuCheck),
        engines: vec![Arc::clone(&engine) as _],
        clock: Arc::new(SystemClock),
    };
    let controller = spawn(parts, settings).unwrap();
    Bed { disk, engine, controller }
}

impl Bed {
    fn handle(&self) -> Handle {
        self.controller.handle()
    }

    fn configure(&self) {
        let site = Box::new(site(&nodes(2, 4)));
        let configured = self.handle().call(root(), Command::Configure(site));
        assert!(matches!(configured, Ok(Reply::Changed { .. })), "{configured:?}");
    }

    fn submit(&self, script: &str) -> JobId {
        let command = Command::Submit(Box::new(job(&user(1000), script)));
        match self.handle().call(user(1000), command) {
            Ok(Reply::Submitted { id, .. }) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the state satisfies a condition.
    fn wait(&self, what: &str, mut holds: impl FnMut(&State) -> bool) -> Arc<State> {
        let deadline = Instant::now() + PATIENCE;
        let handle = self.handle();
        let mut changes = handle.subscribe();
        loop {
            let state = handle.state();
            if holds(&state) {
                return state;
            }
            assert!(Instant::now() < deadline, "no {what} in time");
            // Lagging does not matter: the state is read anew.
            drop(changes.wait(usize::MAX, Duration::from_millis(200)));
        }
    }

    fn wait_for(&self, id: JobId, wanted: JobState) {
        self.wait("state", |state| state.job(id).is_some_and(|job| job.state == wanted));
    }
}

#[test]
fn a_job_runs_from_submission_to_its_end() {
    let bed = bed(Pace::AtOnce);
    let good = bed.submit("exit 0");
    let bad = bed.submit("exit 3");
    bed.wait_for(good, JobState::Completed);
    bed.wait_for(bad, JobState::Failed);
    assert_eq!(bed.engine.times_begun(good, 1), 1);
    bed.controller.stop().unwrap();
}

#[test]
fn an_array_is_one_submission_and_all_its_tasks_run() {
    let bed = bed(Pace::AtOnce);
    let mut array = job(&user(1000), "exit 0");
    let indices = IndexRanges::from_ranges([(0, 499)]);
    array.specs[0].array = Some(ArraySpec { indices, throttle: Some(3) });
    let reply = bed.handle().call(user(1000), Command::Submit(Box::new(array)));
    assert_eq!(reply, Ok(Reply::Submitted { id: JobId(1), count: 500 }));
    bed.wait("end of the array", |state| {
        state.jobs.values().all(|job| job.state == JobState::Completed)
    });
    bed.controller.stop().unwrap();
}

#[test]
fn a_cancelled_job_ends_and_another_user_may_not_cancel_it() {
    let bed = bed(Pace::Stepped);
    let id = bed.submit("sleep 1000");
    bed.wait_for(id, JobState::Starting);
    let cancel = Command::Cancel { jobs: vec![JobRef::Id(id)], hurry: false };
    let refused = bed.handle().call(user(2000), cancel.clone());
    assert!(matches!(refused, Err(CommandError::NotYours { .. })), "{refused:?}");
    assert_eq!(
        bed.handle().call(user(1000), cancel),
        Ok(Reply::Jobs { done: vec![id], refused: Vec::new() })
    );
    bed.wait_for(id, JobState::Cancelled);
    let payload = bed.handle().payload(&user(1000), id).unwrap();
    assert_eq!(payload.script, "sleep 1000");
    assert!(bed.handle().payload(&user(2000), id).is_err());
    bed.controller.stop().unwrap();
}

#[test]
fn running_jobs_are_found_again_after_a_restart() {
    let bed = bed(Pace::Stepped);
    let id = bed.submit("sleep 1000");
    bed.wait_for(id, JobState::Starting);
    let engine = Arc::clone(&bed.engine);
    bed.wait("launch", |_| {
        engine.step();
        !engine.all_begun().is_empty()
    });
    bed.controller.stop().unwrap();
    engine.end(
        id,
        1,
        muster_model::ExitStatus { code: 9, signal: 0 },
        muster_model::EndCause::Exited,
    );
    let bed = start(bed.disk, engine);
    bed.wait_for(id, JobState::Failed);
    assert_eq!(bed.handle().state().job(id).unwrap().exit.unwrap().code, 9);
    assert_eq!(bed.engine.times_begun(id, 1), 1);
    bed.controller.stop().unwrap();
}

#[test]
fn a_full_disk_refuses_commands_and_loses_nothing() {
    let bed = bed(Pace::AtOnce);
    let before = bed.submit("exit 0");
    bed.wait_for(before, JobState::Completed);
    bed.disk.fail(Some(Failure::Full));
    let refused =
        bed.handle().call(user(1000), Command::Submit(Box::new(job(&user(1000), "exit 0"))));
    assert!(
        matches!(refused, Err(CommandError::Store { code: "E_STORE_FULL", .. })),
        "{refused:?}"
    );
    bed.disk.fail(None);
    let after = bed.submit("exit 0");
    assert_eq!(after, JobId(before.0 + 1));
    bed.wait_for(after, JobState::Completed);
    bed.controller.stop().unwrap();
}

#[test]
fn readers_follow_changes_in_order() {
    let bed = bed(Pace::AtOnce);
    let mut changes = bed.handle().subscribe();
    let first = changes.position();
    let id = bed.submit("exit 0");
    bed.wait_for(id, JobState::Completed);
    let events = changes.try_next(1000).unwrap();
    let numbers: Vec<u64> = events.iter().map(|e| e.0).collect();
    let expected: Vec<u64> = (first + 1..=first + events.len() as u64).collect();
    assert_eq!(numbers, expected);
    bed.controller.stop().unwrap();
}

/// A store whose appends wait for a word each, once it is shut.
struct Gated {
    inner: MemoryStore,
    shut: Arc<AtomicBool>,
    entered: Sender<usize>,
    words: Receiver<()>,
}

impl Store for Gated {
    fn fence(&self) -> u64 {
        self.inner.fence()
    }

    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.shut.load(Ordering::SeqCst) {
            // A test that is over listens and speaks no more.
            let _heard = self.entered.send(batch.events.len()).is_ok();
            let _spoken = self.words.recv().is_ok();
        }
        self.inner.append(batch)
    }

    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Event)>, StoreError> {
        self.inner.events_after(seq, limit)
    }

    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError> {
        self.inner.snapshotter()
    }

    fn reader(&self) -> Result<Arc<dyn Reader>, StoreError> {
        self.inner.reader()
    }
}

#[test]
fn the_queue_is_bounded_grouped_and_can_be_left() {
    let disk = MemoryDisk::default();
    let (entered, in_append) = channel();
    let (word, words) = channel();
    let shut = Arc::new(AtomicBool::new(false));
    let store = Gated { inner: disk.open(), shut: Arc::clone(&shut), entered, words };
    let settings = Settings { commands_max: 3, ..Settings::default() };
    let bed =
        start_with(disk, engine(Pace::Stepped), Box::new(store), Box::new(FirstFit), settings);
    bed.configure();
    bed.wait("nodes", |state| state.nodes.len() == 2);
    shut.store(true, Ordering::SeqCst);
    let held = || {
        let mut held = job(&user(1000), "exit 0");
        held.specs[0].hold = true;
        Command::Submit(Box::new(held))
    };
    let (answer, answers) = channel();
    let ask = |name: &'static str| {
        let answer = answer.clone();
        bed.handle().submit(user(1000), held(), move |reply| drop(answer.send((name, reply))))
    };
    ask("first").unwrap();
    // The writer stands in the store with the first; the next ones wait in the queue.
    assert_eq!(in_append.recv_timeout(PATIENCE), Ok(1));
    let second = ask("second").unwrap();
    ask("third").unwrap();
    ask("fourth").unwrap();
    assert!(matches!(ask("fifth"), Err(CommandError::Busy { waiting: 3 })));
    second.give_up();
    word.send(()).unwrap();
    // Third and fourth are stored together.
    assert_eq!(in_append.recv_timeout(PATIENCE), Ok(2));
    shut.store(false, Ordering::SeqCst);
    word.send(()).unwrap();
    let mut told: Vec<_> = (0..4).map(|_| answers.recv_timeout(PATIENCE).unwrap()).collect();
    told.sort_by_key(|(name, _)| *name);
    let submitted = |id| Ok(Reply::Submitted { id: JobId(id), count: 1 });
    assert_eq!(
        told,
        [
            ("first", submitted(1)),
            ("fourth", submitted(3)),
            ("second", Err(CommandError::GivenUp)),
            ("third", submitted(2)),
        ]
    );
    bed.controller.stop().unwrap();
}

/// Gives the jobs named `bad` CPUs that are taken.
struct Overallocator;

impl Planning for Overallocator {
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan {
        let mut plan = FirstFit.plan(state, now);
        for decision in &mut plan.decisions {
            let Decision::Start(starts) = decision else { continue };
            for start in starts {
                let bad = state.job(start.job).is_some_and(|job| job.spec.name == "bad");
                if bad {
                    let placement = Arc::make_mut(&mut start.placement);
                    placement.nodes[0].cpus.insert(99);
                }
            }
        }
        plan
    }
}

#[test]
fn a_plan_that_breaks_a_rule_is_not_carried_out_and_the_rest_goes_on() {
    let disk = MemoryDisk::default();
    let (raise, alarms) = channel();
    let raise = std::sync::Mutex::new(raise);
    let settings = Settings {
        alarm: Arc::new(move |alarm| drop(raise.lock().unwrap().send(alarm))),
        ..Settings::default()
    };
    let store = Box::new(disk.open());
    let bed = start_with(disk, engine(Pace::AtOnce), store, Box::new(Overallocator), settings);
    bed.configure();
    let mut bad = job(&user(1000), "exit 0");
    bad.specs[0].name = "bad".to_owned();
    let bad = match bed.handle().call(user(1000), Command::Submit(Box::new(bad))) {
        Ok(Reply::Submitted { id, .. }) => id,
        other => panic!("{other:?}"),
    };
    let good = bed.submit("exit 0");
    bed.wait_for(good, JobState::Completed);
    let state = bed.wait("hold", |state| state.job(bad).is_some_and(|job| job.hold.is_some()));
    let hold = &state.job(bad).unwrap().hold;
    let rule = "over-allocated".to_owned();
    assert_eq!(*hold, Some(Hold::System(Reason::PlanRefused { rule })));
    match alarms.recv_timeout(PATIENCE).unwrap() {
        Alarm::PlanRefused { breaches, state, plan } => {
            assert_eq!(breaches[0].jobs, [bad]);
            assert_eq!(Overallocator.plan(&state, plan.now), *plan, "the input is not the whole");
        }
        other => panic!("{other}"),
    }
    assert_eq!(bed.handle().counters().plans_refused.get(), 1);
    assert_eq!(bed.engine.times_begun(bad, 1), 0);
    bed.controller.stop().unwrap();
}

/// Plans only when it is told to.
struct Slow {
    asked: Sender<()>,
    words: Receiver<()>,
}

impl Planning for Slow {
    fn plan(&mut self, state: &State, now: Timestamp) -> Plan {
        let plan = FirstFit.plan(state, now);
        // A test that is over listens and speaks no more.
        let _heard = self.asked.send(()).is_ok();
        let _spoken = self.words.recv().is_ok();
        plan
    }
}

#[test]
fn commands_go_on_while_a_plan_is_made_and_make_its_decisions_stale() {
    let disk = MemoryDisk::default();
    let (asked, rounds) = channel();
    let (word, words) = channel();
    let planner = Box::new(Slow { asked, words });
    let store = Box::new(disk.open());
    let bed = start_with(disk, engine(Pace::AtOnce), store, planner, Settings::default());
    bed.configure();
    let cancelled = bed.submit("exit 0");
    rounds.recv_timeout(PATIENCE).unwrap();
    let later = bed.submit("exit 0");
    let cancel = Command::Cancel { jobs: vec![JobRef::Id(cancelled)], hurry: false };
    bed.handle().call(user(1000), cancel).unwrap();
    // From here on the planner does not wait any more.
    drop(word);
    bed.wait_for(later, JobState::Completed);
    assert_eq!(bed.handle().state().job(cancelled).unwrap().state, JobState::Cancelled);
    assert_eq!(bed.engine.times_begun(cancelled, 1), 0);
    assert_eq!(bed.handle().counters().decisions_stale.get(), 1);
    bed.controller.stop().unwrap();
}

#[test]
fn an_engine_that_cannot_be_reached_gets_its_orders_later() {
    let bed = bed(Pace::AtOnce);
    bed.wait("nodes", |state| state.nodes.len() == 2);
    bed.engine.set_unreachable(true);
    let id = bed.submit("exit 0");
    bed.wait_for(id, JobState::Starting);
    let handle = bed.handle();
    bed.wait("retry", |_| handle.counters().orders_retried.get() > 0);
    bed.engine.set_unreachable(false);
    bed.wait_for(id, JobState::Completed);
    bed.controller.stop().unwrap();
}

#[test]
fn a_job_that_cannot_be_launched_ends_and_says_why() {
    let bed = bed(Pace::AtOnce);
    let mut broken = job(&user(1000), "exit 0");
    broken.specs[0].cwd = "/nonexistent/dir".to_owned();
    bed.handle().call(user(1000), Command::Submit(Box::new(broken))).unwrap();
    bed.wait_for(JobId(1), JobState::Failed);
    let state = bed.handle().state();
    assert_eq!(state.job(JobId(1)).unwrap().message, "there is no directory /nonexistent/dir");
    bed.controller.stop().unwrap();
}
