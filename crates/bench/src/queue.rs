//! The queue of a running Slurm: read, and a start planned for every job that waits.

use crate::measure::timed;
use crate::report::Report;
use muster_engine_slurm::{Commands, SlurmError, read};
use muster_model::{Job, Promise, State, Timestamp};
use muster_planner::{Budget, Planner};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A start for every job, at most so long.
const PLAN_MS: f64 = 1000.0;
/// Reading it, at most so long.
const READ_MS: f64 = 2000.0;

/// Reads the Slurm of a configuration file and plans its queue.
///
/// # Errors
/// It cannot be read.
pub(crate) fn measure(conf: &Path, report: &mut Report) -> Result<(), SlurmError> {
    let name = "Slurm's queue";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let commands = Commands::find(&path)?.with_conf(conf);
    let now = now();
    let begin = Instant::now();
    let (cluster, on_core) = timed(|| read::read(&commands, now));
    let cluster = cluster?;
    let note = format!("{:.0} ms with Slurm's commands", begin.elapsed().as_secs_f64() * 1e3);
    report.add(name, "read", (on_core, "ms"), Some(READ_MS), note);
    let (built, took) = timed(|| cluster.state());
    let (state, left_out) = built?;
    let (waiting, running) = cluster.counts();
    let note = format!("{waiting} jobs wait, {running} run, {} left out", left_out.len());
    report.add(name, "state of it", (took, "ms"), None, note);
    report.check(name, "no job is left out", left_out.is_empty());
    for left_out in left_out.iter().take(3) {
        eprintln!("job {} is left out: {}", left_out.job, left_out.why);
    }
    report.add(name, "jobs", (waiting as f64, "jobs"), None, "they wait");
    report.add(name, "pairs of shape and limit", (pairs(&state) as f64, "pairs"), None, "distinct");
    let mut planner = Planner::new(&state);
    let (outlook, took) = timed(|| planner.outlook(&state, now));
    let each = took / (waiting.max(1) as f64);
    let note = format!("{} starts, {each:.4} ms a job", outlook.starts.len());
    report.add(name, "a start for every job", (took, "ms"), Some(PLAN_MS), note);
    report.check(name, "every job has a start", outlook.starts.len() == waiting);
    let starts: Vec<Promise> = outlook.starts.into_values().collect();
    let plan = planner.plan(&state, now, Budget::UNLIMITED);
    let (broken, took) = timed(|| muster_plan_check::check_outlook(&state, &plan, &starts));
    for one in broken.iter().take(3) {
        eprintln!("{one}");
    }
    report.add(name, "full recount", (took, "ms"), None, "plan-check");
    report.check(name, "the recount finds nothing", broken.is_empty());
    Ok(())
}

fn pairs(state: &State) -> usize {
    let jobs = state.index.pending.iter().filter_map(|id| state.jobs.get(id));
    let pair = |job: &Arc<Job>| (job.spec.request.clone(), job.time_limit);
    jobs.map(pair).collect::<BTreeSet<_>>().len()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(i64::try_from(since.as_secs()).unwrap_or(0))
}
