//! The loop with all its threads: a scripted engine, a memory store, the real clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::{Command, CommandError, JobRef, Reply};
use muster_control::{Clock, Controller, Handle, Parts, Settings, SystemClock, spawn};
use muster_engine::{Pace, ScriptedEngine};
use muster_model::{ArraySpec, EngineName, IndexRanges, JobId, JobState, State};
use muster_store::memory::{Failure, MemoryDisk};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{CpuCheck, FirstFit, job, nodes, root, site, user};

struct Bed {
    disk: MemoryDisk,
    engine: Arc<ScriptedEngine>,
    controller: Controller,
}

fn bed(pace: Pace) -> Bed {
    let engine =
        Arc::new(ScriptedEngine::new(EngineName::local(), nodes(2, 4), pace, || SystemClock.now()));
    let disk = MemoryDisk::default();
    let bed = start(disk, engine);
    let configured = bed.handle().call(root(), Command::Configure(Box::new(site(&nodes(2, 4)))));
    assert!(matches!(configured, Ok(Reply::Changed { .. })), "{configured:?}");
    bed
}

fn start(disk: MemoryDisk, engine: Arc<ScriptedEngine>) -> Bed {
    let parts = Parts {
        store: Box::new(disk.open()),
        planner: Box::new(FirstFit),
        checker: Arc::new(CpuCheck),
        engines: vec![Arc::clone(&engine) as _],
        clock: Arc::new(SystemClock),
    };
    let controller = spawn(parts, Settings::default()).unwrap();
    Bed { disk, engine, controller }
}

impl Bed {
    fn handle(&self) -> Handle {
        self.controller.handle()
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
        let deadline = Instant::now() + Duration::from_secs(30);
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
    let cancel = Command::Cancel { jobs: vec![JobRef::Id(id)] };
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
