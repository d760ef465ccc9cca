//! The changes that are suggested, against brute force over every change that there is.
//!
//! Each change is written into the job's spec here, and a new planner says whether the job starts
//! with it: whatever smaller change would do is found by trying all of them.

use muster_model::{
    Decision, Exclusive, GpuScope, JobId, JobSpec, JobUpdate, MemoryRequest, Mib, NodeCount, Plan,
    Seconds, TimeLimit,
};
use muster_planner::{Change, Explanation, Planner};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn started(plan: &Plan) -> BTreeSet<JobId> {
    plan.decisions.iter().flat_map(Decision::starts).map(|start| start.job).collect()
}

/// What starts where the job asks for this instead.
fn starts_with(lab: &Lab, job: JobId, spec: JobSpec) -> BTreeSet<JobId> {
    let mut fork = lab.clone();
    let update = JobUpdate { spec: Some(Arc::new(spec)), ..JobUpdate::default() };
    fork.event(muster_model::EventKind::JobUpdated { job, update: Box::new(update) });
    started(&fork.unchecked_plan())
}

/// Writes a change into a spec, as its option says.
fn write(spec: &mut JobSpec, change: &Change) {
    let request = &mut spec.request;
    match change {
        Change::TimeLimit(limit) => {
            spec.time_limit = Some(TimeLimit::Of(*limit));
            spec.time_min = spec.time_min.map(|least| least.min(*limit));
        }
        Change::Gpus { to, .. } => request.gpus[0].count = *to,
        Change::GpuModel { to, .. } => request.gpus[0].model.clone_from(to),
        Change::Nodes(nodes) => request.nodes = Some(NodeCount::exactly(*nodes)),
        Change::CpusPerTask(cpus) => request.cpus_per_task = Some(*cpus),
        Change::Memory(memory) => request.memory = MemoryRequest::PerNode(*memory),
        Change::Partition(name) => spec.partitions = vec![name.clone()],
        Change::NoConstraint => request.constraint = None,
        Change::NoNodeList => request.node_list.clear(),
        Change::Shared => request.exclusive = Exclusive::No,
        Change::NoExclude => request.exclude.clear(),
        Change::Tasks(tasks) => request.tasks = Some(*tasks),
        Change::NoReservation => request.reservation = None,
        Change::TopologyPreferred(level) => {
            request.topology.required = None;
            request.topology.preferred = Some(level.clone());
        }
        Change::Both(a, b) => {
            write(spec, a);
            write(spec, b);
        }
        other => panic!("these requests have nothing to change like that: {other:?}"),
    }
}

/// Every change of every kind, each kind from the smallest change on.
fn all(lab: &Lab, spec: &JobSpec) -> Vec<Vec<Change>> {
    let request = &spec.request;
    let down = |from: u32| (1..from).rev();
    let only = |there: bool, change: Change| if there { vec![change] } else { Vec::new() };
    let minutes = spec.time_limit.and_then(TimeLimit::seconds).map_or(0, |limit| limit.0 / 60);
    let minutes = (1..minutes).rev().map(|n| Change::TimeLimit(Seconds::minutes(n)));
    let gpus = request.gpus.first();
    let (model, scope) = gpus.map_or((None, GpuScope::Job), |g| (g.model.clone(), g.scope));
    let from = gpus.map_or(0, |g| g.count);
    let fewer = down(from).map(|to| Change::Gpus { model: model.clone(), from, to, scope });
    let models = [Some("a100"), Some("h100"), None].map(|to| to.map(str::to_owned));
    let other = |to: &Option<String>| model.is_some() && *to != model;
    let models = models.iter().filter(|to| other(to)).map(|to| {
        let (from, to) = (model.clone().unwrap_or_default(), to.clone());
        Change::GpuModel { from, to, count: gpus.map_or(0, |g| g.count), scope }
    });
    let least = request.nodes.as_ref().map_or(0, NodeCount::least);
    let asked = match request.memory {
        MemoryRequest::PerNode(memory) => memory.0,
        _ => 0,
    };
    let memory = (1..asked.div_ceil(64)).rev().map(|n| Change::Memory(Mib(n * 64)));
    let tasks = down(request.tasks.unwrap_or(0)).filter(|to| *to >= least.max(1));
    let partitions = lab.state.partitions.keys().filter(|name| !spec.partitions.contains(name));
    vec![
        minutes.collect(),
        fewer.collect(),
        models.collect(),
        down(least).map(Change::Nodes).collect(),
        down(request.cpus_per_task.unwrap_or(1)).map(Change::CpusPerTask).collect(),
        memory.collect(),
        partitions.map(|name| Change::Partition(name.clone())).collect(),
        only(request.constraint.is_some(), Change::NoConstraint),
        only(request.exclusive != Exclusive::No, Change::Shared),
        only(!request.node_list.is_empty(), Change::NoNodeList),
        only(!request.exclude.is_empty(), Change::NoExclude),
        tasks.map(Change::Tasks).collect(),
        only(request.reservation.is_some(), Change::NoReservation),
    ]
}

/// The size of a change within its kind, for those that can be compared.
fn size(change: &Change) -> Option<u64> {
    match change {
        Change::TimeLimit(limit) => Some(limit.0),
        Change::Gpus { to, .. } => Some(u64::from(*to)),
        Change::Nodes(n) | Change::CpusPerTask(n) | Change::Tasks(n) => Some(u64::from(*n)),
        Change::Memory(memory) => Some(memory.0),
        _ => None,
    }
}

/// True where a change takes away no more than another does.
fn is_no_more(a: &Change, b: &Change) -> bool {
    if size(a).is_some() { size(a) >= size(b) } else { a == b }
}

fn same_kind(a: &Change, b: &Change) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Every suggestion does what it says, and no change that is smaller, or not told, starts the job.
fn holds(lab: &Lab, job: JobId, found: &Explanation) -> Result<(), TestCaseError> {
    let spec = lab.state.jobs[&job].spec.as_ref();
    let changed = |change: &Change| {
        let mut spec = spec.clone();
        write(&mut spec, change);
        starts_with(lab, job, spec)
    };
    let now = started(&lab.unchecked_plan());
    for told in &found.suggestions {
        let then = changed(&told.change);
        prop_assert!(then.contains(&job), "{} does not start it", told.change.option());
        let displaced: Vec<JobId> = now.difference(&then).copied().collect();
        prop_assert_eq!(&told.displaces, &displaced, "{}", told.change.option());
    }
    let kinds = all(lab, spec);
    let mut single = false;
    for kind in &kinds {
        let best = kind.iter().find(|change| changed(change).contains(&job));
        single |= best.is_some();
        let Some(first) = kind.first() else { continue };
        let told = found.suggestions.iter().map(|s| &s.change).find(|c| same_kind(c, first));
        match (best, told) {
            (None, _) => {}
            (Some(best), None) => prop_assert!(false, "{} is not told", best.option()),
            (Some(best), Some(told)) => {
                prop_assert!(size(told) >= size(best), "{told:?} is more than {best:?}");
            }
        }
    }
    if single {
        let pair = found.suggestions.iter().find(|s| matches!(s.change, Change::Both(..)));
        prop_assert_eq!(pair, None, "a pair is told where one change does");
        return Ok(());
    }
    // Minutes and memory are many: pairs with them are tried at the amounts that can matter.
    let coarse = |kind: Vec<Change>| -> Vec<Change> {
        let matters = |change: &Change| match change {
            Change::TimeLimit(limit) => limit.0.is_multiple_of(600),
            Change::Memory(memory) => memory.0.is_multiple_of(256),
            _ => true,
        };
        kind.into_iter().filter(matters).collect()
    };
    let kinds: Vec<Vec<Change>> = kinds.into_iter().map(coarse).collect();
    for (at, first) in kinds.iter().enumerate() {
        for second in &kinds[at + 1..] {
            let both =
                |a: &Change, b: &Change| Change::Both(Box::new(a.clone()), Box::new(b.clone()));
            let told = found.suggestions.iter().find_map(|s| match &s.change {
                Change::Both(a, b) => {
                    let of = |kind: &Vec<Change>, c: &Change| {
                        kind.first().is_some_and(|first| same_kind(first, c))
                    };
                    (of(first, a) && of(second, b)).then_some((a.as_ref(), b.as_ref()))
                }
                _ => None,
            });
            for (a, b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
                let pair = both(a, b);
                // Only a pair of which neither part is larger than what is told matters.
                let matters = match told {
                    None => found.suggestions.is_empty(),
                    Some((x, y)) => is_no_more(a, x) && is_no_more(b, y) && (a != x || b != y),
                };
                let starts = matters && changed(&pair).contains(&job);
                prop_assert!(!starts, "{} would do, told is {told:?}", pair.option());
            }
        }
    }
    Ok(())
}

/// A request with several things that can be less.
fn line() -> impl Strategy<Value = String> {
    let nodes = prop_oneof![
        3 => Just(String::new()),
        2 => (1u32..=3).prop_map(|n| format!(" nodes={n}")),
        1 => (2u32..=4).prop_map(|n| format!(" tasks={n}")),
    ];
    let gpus = prop_oneof![
        3 => Just(String::new()),
        2 => (1u32..=3).prop_map(|n| format!(" gpus-per-node={n}")),
        1 => (1u32..=2).prop_map(|n| format!(" gpus-per-node={n}xh100")),
        1 => (1u32..=3).prop_map(|n| format!(" gpus={n}xa100")),
    ];
    let amounts = (1u32..=3, 1u64..=4, 1u32..=4).prop_map(|(cpus, mem, time)| {
        format!(" cpus={cpus} mem={}M time={}", mem * 256, time * 10)
    });
    let rules = prop::sample::select(vec![
        "",
        "",
        "",
        " constraint=red",
        " nodelist=n1",
        " exclude=n1",
        " exclusive",
        " partition=side",
        " reservation=r",
        " constraint=blue exclude=n2",
    ]);
    (nodes, gpus, amounts, rules).prop_map(|(n, g, a, r)| format!("j{n}{g}{a}{r}"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(100) / 2,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// What is suggested to every waiting job is the least that would start it now.
    #[test]
    fn no_smaller_change_starts_the_job(
        nodes in prop::collection::vec((1u32..=3, 0u32..=2, 1u32..=2, 0usize..3), 1..=3),
        running in prop::collection::vec(line(), 0..4),
        waiting in prop::collection::vec(line(), 1..3),
        mode in prop::sample::select(vec!["easy", "conservative", "none"]),
        reserved in prop::sample::select(vec!["", "start=25 end=60", "start=0 end=60"]),
    ) {
        let mut lab = Lab::new(&format!("policy backfill={mode}"));
        for (i, (cpus, gpus, mem, features)) in nodes.iter().enumerate() {
            let model = ["a100", "h100"][i % 2];
            let features = ["red", "blue", "red,blue"][*features];
            lab.set_up(&format!(
                "node n{} cpus={cpus} gpus={gpus}x{model} mem={}M features={features}",
                i + 1,
                mem * 512
            ));
        }
        lab.set_up("partition side nodes=n1");
        proved(&mut lab, |lab| {
            for line in &running {
                lab.submit(line);
            }
            lab.round();
            for id in lab.state.index.pending.clone() {
                lab.cancel(id);
            }
            if !reserved.is_empty() {
                lab.set_up(&format!("reservation r {reserved} nodes=n1"));
            }
            for line in &waiting {
                lab.submit(line);
            }
            let mut planner = Planner::new(&lab.state);
            let now = started(&lab.unchecked_plan());
            for job in lab.state.index.pending.iter().copied().filter(|job| !now.contains(job)) {
                let found = planner.explain(&lab.state, job, lab.now);
                holds(lab, job, &found)?;
            }
            Ok(())
        })?;
    }
}

/// Where one change is not enough, two are told, and neither alone would do.
#[test]
fn two_changes_are_told_where_one_is_not_enough() {
    let mut lab = Lab::new("node n1 cpus=4 gpus=2xa100 mem=8G\nnode n2 cpus=4 mem=8G");
    lab.submit("a nodelist=n1 cpus=2 gpus=1 mem=1G time=60");
    lab.round();
    let job = lab.submit("b nodes=1 cpus=4 gpus=2 mem=1G time=10");
    let found = lab.explain(job).suggestions;
    let told: Vec<(String, String)> =
        found.iter().map(|s| (s.change.option(), s.to_string())).collect();
    let expected = (
        "--gpus=1 and --cpus-per-task=2".to_owned(),
        "with 1 GPU in place of 2 and with 2 CPUs a task it would start now".to_owned(),
    );
    assert_eq!(told, [expected]);
}

/// A change that starts the job on a part of what it asked for says how small that part is.
#[test]
fn what_a_change_takes_from_the_job_is_told_in_all() {
    let mut lab = Lab::new("node n[1-6] cpus=16 gpus=8xa100 mem=8G");
    lab.submit("a nodelist=n[2-6] nodes=5 cpus=1 gpus-per-node=1 mem=1G time=60");
    lab.round();
    let told = |lab: &Lab, job| -> Vec<String> {
        lab.explain(job).suggestions.iter().map(ToString::to_string).collect()
    };
    let job = lab.submit("b nodes=6 cpus=1 gpus-per-node=8 mem=1G time=60");
    assert_eq!(
        told(&lab, job),
        [
            "with 7 GPUs in place of 8 it would start now, with 42 GPUs instead of 48",
            "with 1 node it would start now, with 8 GPUs instead of 48",
        ]
    );
    // What the change says is not said twice, and without GPUs it is CPUs that count.
    let job = lab.submit("c nodes=1 cpus=1 gpus=9 mem=1G time=60");
    assert_eq!(told(&lab, job), ["with 8 GPUs in place of 9 it would start now"]);
    let job = lab.submit("d nodes=1 cpus=17 mem=1G time=60");
    assert_eq!(
        told(&lab, job),
        ["with 16 CPUs a task it would start now, with 16 CPUs instead of 17"]
    );
}
