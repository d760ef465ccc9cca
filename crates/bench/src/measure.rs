//! What is measured, and what it must come to.

use crate::cluster::{self, NOW, Numbers, Site, Size, apply};
use crate::report::Report;
use muster_model::{
    Availability, Decision, EndCause, EventKind, JobId, NodeId, Plan, Promise, State,
};
use muster_planner::{Budget, Planner};
use std::sync::Arc;
use std::time::Instant;

/// The aims, for 10,000 nodes and 100,000 waiting jobs, on one core.
const COLD_MS: f64 = 1000.0;
const INCREMENTAL_MS: f64 = 100.0;
const REASONS_MS: f64 = 10.0;
const EXPLAIN_MS: f64 = 1000.0;
const OUTLOOK_MS: f64 = 5000.0;
const MEMORY_MIB: f64 = 1024.0;
const SLURM_MS: f64 = 1000.0;

pub(crate) fn all(quick: bool, only: Option<&str>, report: &mut Report) {
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    let (nodes, waiting) = if quick { (1000, 10_000) } else { (10_000, 100_000) };
    let cases = [
        ("1000 shapes", Size { nodes, waiting, shapes: 1000, site: Site::Plain }),
        ("all distinct", Size { nodes, waiting, shapes: waiting, site: Site::Plain }),
    ];
    for (name, size) in cases {
        if wanted(name) {
            case(name, size, report);
        }
    }
    let sites = [
        ("multifactor order", Site::Multifactor),
        ("fair share", Site::FairShare),
        ("slowdown order", Site::Slowdown),
        ("200 reservations", Site::Reservations(200)),
    ];
    for (name, site) in sites {
        if wanted(name) {
            variant(name, Size { nodes, waiting, shapes: waiting, site }, report);
        }
    }
    if wanted("slurm") {
        like_slurm(report);
    }
    if wanted("growth") {
        growth(quick, report);
    }
    report.add(
        "all",
        "memory",
        (peak_memory_mib(), "MiB"),
        Some(MEMORY_MIB),
        "the most that the process had",
    );
}

/// Runs it; how long that took on its core, ms. Time in which others had the core does not count.
pub(crate) fn timed<T>(what: impl FnOnce() -> T) -> (T, f64) {
    let (begin, on_core) = (Instant::now(), on_core_ns());
    let done = what();
    let took = match (on_core, on_core_ns()) {
        (Some(before), Some(after)) => (after - before) as f64 / 1e6,
        _ => begin.elapsed().as_secs_f64() * 1e3,
    };
    (done, took)
}

/// How long this thread has been on a core, ns (Linux, `Documentation/scheduler/sched-stats.rst`).
fn on_core_ns() -> Option<u64> {
    let stats = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stats.split_whitespace().next()?.parse().ok()
}

fn case(name: &str, size: Size, report: &mut Report) {
    let (mut state, took) = timed(|| cluster::cluster(size));
    report.add(
        name,
        "set up",
        (took, "ms"),
        None,
        format!("{} nodes, {} jobs", size.nodes, size.waiting),
    );
    let ((mut planner, plan), took) = timed(|| {
        let mut planner = Planner::new(&state);
        let plan = planner.plan(&state, NOW, Budget::UNLIMITED);
        (planner, plan)
    });
    report.add(name, "cold round", (took, "ms"), Some(COLD_MS), told(&plan));
    carry_out(&mut state, &plan);
    planner.observe(&state);
    let (quiet, took) = timed(|| planner.plan(&state, NOW, Budget::UNLIMITED));
    report.add(name, "round without change", (took, "ms"), Some(INCREMENTAL_MS), told(&quiet));
    report.check(name, "nothing is left to start", quiet.decisions.is_empty());
    incremental(name, &mut state, &mut planner, report);
    looks(name, &state, &mut planner, report);
}

/// The rounds and reasons of a site that has more rules.
fn variant(name: &str, size: Size, report: &mut Report) {
    let mut state = cluster::cluster(size);
    let ((mut planner, plan), took) = timed(|| {
        let mut planner = Planner::new(&state);
        let plan = planner.plan(&state, NOW, Budget::UNLIMITED);
        (planner, plan)
    });
    report.add(name, "cold round", (took, "ms"), Some(COLD_MS), told(&plan));
    let found = muster_plan_check::check(&state, &plan);
    report.check(name, "the plan breaks no rule", found.is_empty());
    carry_out(&mut state, &plan);
    planner.plan(&state, NOW, Budget::UNLIMITED);
    incremental(name, &mut state, &mut planner, report);
    planner.plan(&state, NOW, Budget::UNLIMITED);
    reasons(name, &state, &mut planner, report);
}

/// All reasons of a job right after a round.
fn reasons(name: &str, state: &State, planner: &mut Planner, report: &mut Report) {
    let job = state.index.pending.iter().nth(500).copied().unwrap_or_default();
    let (reasons, took) = timed(|| planner.reasons_of(state, job, NOW));
    let note = format!("{} of one with a promise", reasons.len());
    report.add(name, "reasons of a job", (took, "ms"), Some(REASONS_MS), note);
    let last = state.index.pending.iter().next_back().copied().unwrap_or_default();
    let (reasons, took) = timed(|| planner.reasons_of(state, last, NOW));
    let note = format!("{} of the last in the queue", reasons.len());
    report.add(name, "reasons of the last", (took, "ms"), Some(REASONS_MS), note);
}

/// The queue of the published comparison with Slurm: 10,235 waiting jobs of whole nodes on 1,000
/// nodes, with at least 1,000 distinct pairs of nodes and limit; a start for each.
fn like_slurm(report: &mut Report) {
    let name = "10,235 whole-node jobs";
    let state = cluster::whole_nodes(1000, 10_235);
    let mut planner = Planner::new(&state);
    let (outlook, took) = timed(|| planner.outlook(&state, NOW));
    let note = format!("{} starts, {:.3} ms a job", outlook.starts.len(), took / 10_235.0);
    report.add(name, "a start for every job", (took, "ms"), Some(SLURM_MS), note);
    report.check(name, "every job has a start", outlook.starts.len() == 10_235);
    let pairs = cluster::distinct_pairs(&state);
    report.check(name, "distinct pairs at least 1000", pairs >= 1000);
    let starts: Vec<Promise> = outlook.starts.into_values().collect();
    let plan = planner.plan(&state, NOW, Budget::UNLIMITED);
    let broken = muster_plan_check::check_outlook(&state, &plan, &starts);
    report.check(name, "the outlook breaks no rule", broken.is_empty());
}

/// Twice the nodes and twice the jobs, again and again: what a round then costs.
fn growth(quick: bool, report: &mut Report) {
    let scales: &[u32] = if quick { &[1, 2, 4] } else { &[1, 2, 4, 8] };
    let mut before: Option<[f64; 3]> = None;
    for scale in scales {
        let waiting = 10_000 * scale;
        let size = Size { nodes: 1000 * scale, waiting, shapes: waiting, site: Site::Plain };
        let mut state = cluster::cluster(size);
        let name = format!("growth: {} nodes", size.nodes);
        let (mut planner, cold) = timed(|| {
            let mut planner = Planner::new(&state);
            let plan = planner.plan(&state, NOW, Budget::UNLIMITED);
            (planner, plan)
        });
        carry_out(&mut state, &planner.1);
        planner.0.observe(&state);
        let (_, next) = timed(|| planner.0.plan(&state, NOW, Budget::UNLIMITED));
        let (_, outlook) = timed(|| planner.0.outlook(&state, NOW));
        let now = [cold, next, outlook];
        for (at, what) in ["cold round", "round without change", "outlook"].into_iter().enumerate()
        {
            let note = before.map_or_else(
                || format!("{} jobs, all distinct", size.waiting),
                |before| format!("{:.2} times that of half the size", now[at] / before[at]),
            );
            report.add(&name, what, (now[at], "ms"), None, note);
        }
        before = Some(now);
    }
}

/// One job ends, one is submitted, one node fails: each taken up by the planner that was kept.
fn incremental(name: &str, state: &mut State, planner: &mut Planner, report: &mut Report) {
    let mut numbers = Numbers::new(7);
    let ended = state.index.active.iter().nth(100).copied().unwrap_or_default();
    cluster::end(state, ended, NOW, EndCause::Exited);
    round(name, "after a job's end", state, planner, Some(INCREMENTAL_MS), report);
    let (request, limit) = cluster::distinct(&mut numbers, 424_242);
    cluster::submit(state, NOW, cluster::spec(request, limit, 5));
    round(name, "after a submission", state, planner, Some(INCREMENTAL_MS), report);
    let node = NodeId(3);
    let lost: Vec<JobId> = state.index.on_node.get(&node).into_iter().flatten().copied().collect();
    let availability = Availability::Down { reason: "no answer".to_owned(), since: NOW };
    apply(state, NOW, EventKind::NodeAvailability { node, availability });
    for job in lost {
        cluster::end(state, job, NOW, EndCause::NodeLost);
    }
    round(name, "after a node's failure", state, planner, Some(INCREMENTAL_MS), report);
}

/// Plans with the planner kept and with a new one: both must say the same.
fn round(
    name: &str,
    what: &str,
    state: &mut State,
    planner: &mut Planner,
    most: Option<f64>,
    report: &mut Report,
) {
    let (plan, took) = timed(|| planner.plan(state, NOW, Budget::UNLIMITED));
    report.add(name, what, (took, "ms"), most, told(&plan));
    let fresh = Planner::new(state).plan(state, NOW, Budget::UNLIMITED);
    let same = fresh.decisions == plan.decisions && first_promises(&fresh, &plan);
    report.check(name, &format!("{what}: as cold"), same);
    carry_out(state, &plan);
}

fn first_promises(a: &Plan, b: &Plan) -> bool {
    let first = |plan: &Plan| plan.promises.iter().take(1000).cloned().collect::<Vec<Promise>>();
    first(a) == first(b)
}

/// Reasons, the smallest changes, and the whole outlook.
fn looks(name: &str, state: &State, planner: &mut Planner, report: &mut Report) {
    let plan = planner.plan(state, NOW, Budget::UNLIMITED);
    let found = muster_plan_check::check(state, &plan);
    report.check(name, "the plan breaks no rule", found.is_empty());
    reasons(name, state, planner, report);
    let job = state.index.pending.iter().nth(500).copied().unwrap_or_default();
    let (found, took) = timed(|| planner.explain(state, job, NOW));
    let told_of = format!("{} reasons, {} changes", found.reasons.len(), found.suggestions.len());
    report.add(name, "smallest changes of a job", (took, "ms"), Some(EXPLAIN_MS), told_of);
    if !name.contains("distinct") {
        // Answered once for each shape.
        let (all, took) = timed(|| planner.reasons(state, NOW));
        report.add(name, "reasons of all", (took, "ms"), None, format!("{} jobs", all.len()));
    }
    let (outlook, took) = timed(|| planner.outlook(state, NOW));
    let note = format!("{} starts, {} steps", outlook.starts.len(), outlook.work.total());
    report.add(name, "outlook of all", (took, "ms"), Some(OUTLOOK_MS), note);
    report.check(name, "every job has a start", outlook.starts.len() == state.index.pending.len());
    let starts: Vec<Promise> = outlook.starts.into_values().collect();
    let (broken, took) = timed(|| muster_plan_check::check_outlook(state, &plan, &starts));
    report.add(name, "recount of the outlook", (took, "ms"), None, "plan-check");
    for one in broken.iter().take(3) {
        eprintln!("{one}");
    }
    report.check(name, "the outlook breaks no rule", broken.is_empty());
}

fn told(plan: &Plan) -> String {
    let starts = plan.decisions.iter().filter(|d| matches!(d, Decision::Start(_))).count();
    let (promises, work) = (plan.promises.len(), plan.work);
    format!(
        "{starts} starts, {promises} promises, {} jobs + {} fits + {} slots",
        work.jobs, work.fits, work.slots
    )
}

fn carry_out(state: &mut State, plan: &Plan) {
    for decision in &plan.decisions {
        let Decision::Start(starts) = decision else { continue };
        for start in starts {
            let (job, attempt, time_limit) = (start.job, start.attempt, start.time_limit);
            let placement = Arc::clone(&start.placement);
            apply(state, NOW, EventKind::JobPlaced { job, attempt, placement, time_limit });
            apply(state, NOW, EventKind::JobStarted { job, attempt });
        }
    }
}

/// The most memory that this process had, from `/proc/self/status`; zero where that is not there.
fn peak_memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
