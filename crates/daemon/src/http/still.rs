//! Why a job that has its nodes does not run on them, or is about to have others.

use std::collections::BTreeSet;

use muster_api::StillView;
use muster_model::{Job, JobId, JobState, PreemptMode, State};

/// As many jobs as are named.
const JOBS_MAX: usize = 8;

const GIVES_UP: &str = "gives up some of its nodes and goes on with the rest";

/// What holds up a job that has its nodes; `None` where it simply runs, waits or is over.
pub(crate) fn still(state: &State, job: &Job) -> Option<StillView> {
    if !job.state.holds_resources() {
        return None;
    }
    let (text, jobs) = held_up(state, job)?;
    let name = |id: &JobId| state.job(*id).map_or_else(|| id.to_string(), |j| j.display_id());
    Some(StillView {
        text,
        jobs: jobs.iter().take(JOBS_MAX).map(name).collect(),
        since_ms: job.stands_since.filter(|_| job.state == JobState::Suspended),
    })
}

/// By what, as a clause, and by whom.
fn held_up(state: &State, job: &Job) -> Option<(String, BTreeSet<JobId>)> {
    let told = |text: &str, jobs| Some((text.to_owned(), jobs));
    let by: BTreeSet<JobId> =
        job.eviction.iter().map(|e| e.by).filter(|by| *by != job.id).collect();
    match job.eviction.as_ref().map(|eviction| eviction.mode) {
        Some(PreemptMode::Shrink) => told(GIVES_UP, by),
        None if job.resize.is_some() => told(GIVES_UP, by),
        Some(_) if by.is_empty() => told("ends here to start again on more nodes", by),
        Some(PreemptMode::Suspend) => {
            let others = state.on_cpus_of(job).into_iter().chain(by).collect();
            told("stands still for others and goes on when they are over", others)
        }
        Some(_) => told("is asked to make room", by),
        None if job.resumes => {
            told("goes on as soon as nobody runs on its CPUs", state.on_cpus_of(job))
        }
        None if job.suspend => {
            let id = job.display_id();
            let text = format!("suspended by hand: `scontrol resume {id}` lets it go on");
            Some((text, state.on_cpus_of(job)))
        }
        None => None,
    }
}
