//! Why a job that has its nodes does not run on them, or is about to have others.

use std::collections::BTreeSet;

use muster_api::StillView;
use muster_model::{Job, JobId, JobState, PreemptMode, State};

/// As many jobs as are named.
const JOBS_MAX: usize = 8;

/// What holds up a job that has its nodes; `None` where it simply runs, waits or is over.
pub(crate) fn still(state: &State, job: &Job) -> Option<StillView> {
    if !job.state.holds_resources() {
        return None;
    }
    let view = |text: String, jobs: BTreeSet<JobId>| {
        let name = |id: &JobId| state.job(*id).map_or_else(|| id.to_string(), |j| j.display_id());
        let since_ms = job.stands_since.filter(|_| job.state == JobState::Suspended);
        Some(StillView { text, jobs: jobs.iter().take(JOBS_MAX).map(name).collect(), since_ms })
    };
    match &job.eviction {
        Some(eviction) if eviction.by == job.id => {
            return view("ends here to start again on more nodes".to_owned(), BTreeSet::new());
        }
        Some(eviction) if eviction.mode == PreemptMode::Suspend => {
            let others = state.on_cpus_of(job).into_iter().chain([eviction.by]).collect();
            return view(
                "stands still for others and goes on when they are over".to_owned(),
                others,
            );
        }
        Some(eviction) if eviction.mode == PreemptMode::Shrink => {
            let text = "gives up some of its nodes and goes on with the rest";
            return view(text.to_owned(), BTreeSet::from([eviction.by]));
        }
        Some(eviction) => {
            return view("is asked to make room".to_owned(), BTreeSet::from([eviction.by]));
        }
        None => {}
    }
    if job.resumes {
        let text = "goes on as soon as nobody runs on its CPUs";
        return view(text.to_owned(), state.on_cpus_of(job));
    }
    if job.suspend {
        let text =
            format!("suspended by hand: `scontrol resume {}` lets it go on", job.display_id());
        return view(text, state.on_cpus_of(job));
    }
    if job.resize.is_some() {
        let text = "gives up some of its nodes and goes on with the rest";
        return view(text.to_owned(), BTreeSet::new());
    }
    None
}
