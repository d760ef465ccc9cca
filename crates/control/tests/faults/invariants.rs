//! What must hold, whatever happens.

use crate::world::World;
use muster_model::{JobId, JobState, State};
use muster_store::{HistoryQuery, HistoryRow};
use std::collections::BTreeMap;

/// After every commit.
pub(crate) fn after_commit(state: &State) {
    let found = muster_plan_check::recount(state);
    assert!(found.is_empty(), "resources are given twice: {found:?}");
}

/// Once all is over.
pub(crate) fn at_the_end(world: &World) {
    let state = world.state();
    let rows = world.store_reader().history(&HistoryQuery::default()).unwrap().rows;
    let mut last: BTreeMap<JobId, &HistoryRow> = BTreeMap::new();
    for row in &rows {
        last.insert(row.job.id, row);
    }
    for id in &world.acknowledged {
        let ended = match state.job(*id) {
            Some(job) => job.state.is_over(),
            None => last.contains_key(id),
        };
        assert!(ended, "job {id} was acknowledged and did not end: {:?}", state.job(*id));
        assert!(last.get(id).is_some_and(|row| !row.requeued), "job {id} has no last row");
    }
    attempts(world, &rows);
    exits(world, &rows);
    assert!(world.engine_is_empty(), "the engine still holds something");
}

/// No attempt ran that was not decided, none ran twice, and what may not be requeued ran once.
fn attempts(world: &World, rows: &[HistoryRow]) {
    let mut begun: BTreeMap<JobId, u32> = BTreeMap::new();
    for (job, attempt) in world.engine.all_begun() {
        assert_eq!(world.engine.times_begun(job, attempt), 1, "job {job} attempt {attempt}");
        let decided = rows.iter().any(|r| r.job.id == job && r.job.attempt == attempt);
        assert!(decided, "attempt {attempt} of job {job} ran and nothing is known of it");
        *begun.entry(job).or_default() += 1;
    }
    for (job, count) in begun {
        let requeues = rows.iter().any(|r| r.job.id == job && r.job.spec.requeue);
        assert!(requeues || count == 1, "job {job} ran {count} times and may not be requeued");
    }
}

/// Every exit that the engine reported is in the history as it was reported.
fn exits(world: &World, rows: &[HistoryRow]) {
    for ((job, attempt), report) in &world.exits {
        let row = rows.iter().find(|r| r.job.id == *job && r.job.attempt == *attempt);
        let Some(row) = row else { panic!("the exit of job {job} attempt {attempt} is lost") };
        assert_eq!(row.job.exit, Some(report.status), "job {job} attempt {attempt}");
        if report.cause == muster_model::EndCause::OutOfMemory
            && !row.requeued
            && row.job.het.is_none()
        {
            let cancelled = row.job.state == JobState::Cancelled;
            assert!(cancelled || row.job.state == JobState::OutOfMemory, "{:?}", row.job.state);
        }
    }
}
