//! The checker finds what it is for: a good plan, broken in one way, breaks exactly that rule.

use muster_model::{
    Availability, CpuSet, Decision, Drain, EventKind, JobId, Mib, NodeId, Plan, Promise, Reason,
    Seconds, Start, TimeLimit, Timestamp,
};
use muster_plan_check::Rule;
use muster_test_kit::Lab;
use std::collections::BTreeSet;
use std::sync::Arc;

const CLUSTER: &str = "
    node n[1-4] cpus=4 gpus=2xa100:40G mem=8G gres=fpga:1 features=red scratch=10G
    node n5 cpus=4 gpus=2xa100:80G mem=8G partition=other
    licence sim 2
    partition main max-time=200
    partition shut nodes=n[1-4] state=down
";

/// A cluster with these jobs waiting and the planner's plan for them.
fn planned(jobs: &[&str]) -> (Lab, Plan) {
    let mut lab = Lab::new(CLUSTER);
    for line in jobs {
        if line.contains(" : ") {
            lab.submit_het(line)
        } else {
            lab.submit(line)
        };
    }
    let plan = lab.plan();
    (lab, plan)
}

fn starts(plan: &mut Plan) -> Vec<&mut Start> {
    let starts = plan.decisions.iter_mut().filter_map(|d| match d {
        Decision::Start(starts) => Some(starts),
        _ => None,
    });
    starts.flatten().collect()
}

fn first(plan: &mut Plan) -> &mut Start {
    starts(plan).into_iter().next().expect("the plan starts something")
}

fn placement(plan: &mut Plan) -> &mut muster_model::Placement {
    Arc::make_mut(&mut first(plan).placement)
}

/// The rules broken, by the checker's full scope.
fn broken(lab: &Lab, plan: &Plan) -> BTreeSet<Rule> {
    let found = muster_plan_check::check_full(&lab.state, plan);
    assert!(found.iter().all(|v| !v.jobs.is_empty() && !v.detail.is_empty()), "{found:?}");
    found.iter().map(|v| v.rule).collect()
}

fn drain() -> Drain {
    Drain { reason: "x".to_owned(), by: "root".to_owned(), since: Timestamp::from_secs(0) }
}

/// Breaks a plan for one gang of two nodes in the way named; says whether the rule is covered here.
fn break_gang(rule: Rule, lab: &mut Lab, plan: &mut Plan) -> bool {
    let share = |plan: &mut Plan| placement(plan).nodes[0].clone();
    match rule {
        Rule::NotWaiting => lab.cancel(JobId(1)),
        Rule::WrongAttempt => first(plan).attempt = 7,
        Rule::DecidedTwice => {
            let again = plan.decisions[0].clone();
            let Decision::Start(mut starts) = again else { return false };
            // On other nodes, so that nothing else is wrong.
            let placement = Arc::make_mut(&mut starts[0].placement);
            placement.nodes[0].node = NodeId(2);
            placement.nodes[1].node = NodeId(3);
            plan.decisions.push(Decision::Start(starts));
        }
        Rule::NotEligible => {
            let hold = muster_model::Hold::User;
            lab.event(EventKind::JobHeld { job: JobId(1), hold });
        }
        Rule::TimeLimit => first(plan).time_limit = TimeLimit::Of(Seconds(3601)),
        Rule::GroundlessReject => {
            let reason = Reason::Deadline { at: Timestamp::from_secs(0) };
            plan.decisions = vec![Decision::Reject { job: JobId(1), reason }];
        }
        Rule::Partition => "shut".clone_into(&mut placement(plan).partition),
        Rule::PartitionLimit => lab.set_up("partition main max-time=30"),
        Rule::NodeUnusable => {
            lab.event(EventKind::NodeDrain { node: NodeId(0), drain: Some(drain()) });
        }
        Rule::NotInPartition => lab.set_up("partition main nodes=n[2-4]"),
        Rule::SeveralEngines => {
            let mut node = lab.state.nodes[&NodeId(0)].as_ref().clone();
            node.engine = muster_model::EngineName("another".to_owned());
            lab.event(EventKind::NodeSet { node: Box::new(node) });
        }
        Rule::NodeCount => {
            let mut third = share(plan);
            third.node = NodeId(2);
            third.tasks = 1;
            third.cpus = CpuSet::first(1);
            let nodes = &mut placement(plan).nodes;
            nodes[0].tasks = 1;
            nodes[0].cpus = CpuSet::first(1);
            nodes.push(third);
        }
        Rule::UnknownNode => {
            placement(plan).nodes[0].node = NodeId(77);
        }
        Rule::Tasks => {
            let nodes = &mut placement(plan).nodes;
            nodes[0].tasks = 3;
            nodes[0].cpus = CpuSet::first(3);
        }
        Rule::Cpus => placement(plan).nodes[0].cpus = CpuSet::first(3),
        Rule::Memory => placement(plan).nodes[0].memory = Mib(1),
        Rule::Gpus => placement(plan).nodes[0].devices.clear(),
        Rule::Gres => placement(plan).nodes[0].gres.clear(),
        Rule::Licences => placement(plan).licences.clear(),
        Rule::GpuMemory => {
            let device = &mut placement(plan).nodes[0].devices[0];
            device.share = muster_model::DeviceMilli(500);
        }
        Rule::CpusOverallocated => {
            placement(plan).nodes[0].cpus = [8, 9].into_iter().collect();
        }
        Rule::MemoryOverallocated => {
            let foreign = muster_model::ForeignUse { memory: Mib(7500), ..Default::default() };
            lab.event(EventKind::NodeForeign { node: NodeId(0), foreign: vec![foreign] });
        }
        Rule::GpuOverallocated => placement(plan).nodes[0].devices[0].index = 5,
        Rule::LicencesOverallocated => lab.set_up("licence sim 0"),
        Rule::Exclusive => placement(plan).nodes[0].exclusive = true,
        _ => return false,
    }
    true
}

#[test]
fn one_broken_thing_is_one_rule_broken() {
    let gang = "gang nodes=2 tasks=4 gpus-per-node=1 mem=1G gres=fpga:1 licences=sim:1 time=60";
    let mut covered = 0;
    for rule in Rule::ALL {
        let (mut lab, mut plan) = planned(&[gang]);
        if !break_gang(rule, &mut lab, &mut plan) {
            continue;
        }
        covered += 1;
        let mut found = broken(&lab, &plan);
        // A node that is not there has no tasks, and so on.
        match rule {
            Rule::UnknownNode => {
                found.remove(&Rule::NodeCount);
                found.remove(&Rule::Tasks);
                found.remove(&Rule::NotInPartition);
                found.remove(&Rule::LeftWaiting);
            }
            Rule::GpuOverallocated => {
                // A GPU that is not there has no model and no memory either.
                found.remove(&Rule::Gpus);
                found.remove(&Rule::GpuMemory);
            }
            _ => {}
        }
        assert_eq!(found, BTreeSet::from([rule]), "{rule:?}");
    }
    assert_eq!(covered, 25);
}

#[test]
fn a_throttle_is_counted_with_what_runs() {
    let (mut lab, plan) = planned(&["a array=0-3%3 time=60"]);
    lab.event(EventKind::JobUpdated {
        job: JobId(1),
        update: Box::new(muster_model::JobUpdate {
            array_throttle: Some(Some(2)),
            ..Default::default()
        }),
    });
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::ArrayThrottle]));
}

#[test]
fn components_start_together() {
    let (lab, mut plan) = planned(&["a tasks=1 time=60 : b tasks=2 time=60"]);
    let Decision::Start(starts) = &mut plan.decisions[0] else { panic!("{plan:?}") };
    starts.pop();
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::HetNotWhole]));
}

#[test]
fn a_reservation_that_is_not_there_starts_nothing() {
    let (mut lab, plan) = planned(&["a time=60"]);
    let mut spec = lab.state.jobs[&JobId(1)].spec.as_ref().clone();
    spec.request.reservation = Some("demo".to_owned());
    let update = muster_model::JobUpdate { spec: Some(Arc::new(spec)), ..Default::default() };
    lab.event(EventKind::JobUpdated { job: JobId(1), update: Box::new(update) });
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Reservation]));
}

/// A job on one node whose request is changed after it was planned.
fn changed(job: &str, change: &str) -> BTreeSet<Rule> {
    let (mut lab, plan) = planned(&[job]);
    let spec = lab.spec(&format!("{job} {change}"));
    let update = muster_model::JobUpdate { spec: Some(Arc::new(spec)), ..Default::default() };
    lab.event(EventKind::JobUpdated { job: JobId(1), update: Box::new(update) });
    broken(&lab, &plan)
}

#[test]
fn nodes_are_those_asked_for() {
    let job = "a nodes=1 mem=1G time=60";
    for (change, rule) in [
        ("nodelist=n4", Rule::NodeList),
        ("exclude=n1", Rule::NodeList),
        ("constraint=blue", Rule::Constraint),
        ("constraint=blue*1", Rule::Constraint),
        ("constraint=[blue|green]", Rule::Constraint),
        ("scratch=20G", Rule::Scratch),
        ("gpus=1", Rule::Gpus),
        ("mem=2G", Rule::Memory),
        ("cpus=2", Rule::Cpus),
        ("nodes=2", Rule::NodeCount),
        ("partition=other", Rule::Partition),
    ] {
        let mut found = changed(job, change);
        if rule == Rule::NodeCount {
            // Two nodes would have had two tasks.
            found.remove(&Rule::Tasks);
        }
        assert_eq!(found, BTreeSet::from([rule]), "{change}");
    }
    assert_eq!(
        changed("a nodes=1 gpus-per-node=1 mem=1G time=60", "gpu-memory=80G"),
        BTreeSet::from([Rule::GpuMemory])
    );
}

#[test]
fn neighbours_are_neighbours() {
    let (lab, mut plan) = planned(&["a nodes=2 contiguous mem=1G time=60"]);
    placement(&mut plan).nodes[1].node = NodeId(3);
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Contiguous]));
}

#[test]
fn switches_are_few_while_the_job_waits_for_that() {
    let mut lab = Lab::new("node n[1-2] cpus=1 switch=s1\nnode n[3-4] cpus=1 switch=s2");
    lab.submit("a nodes=2 switches=1@10 time=60");
    let mut plan = lab.plan();
    placement(&mut plan).nodes[1].node = NodeId(3);
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Switches]));
    plan.now = Timestamp::from_secs(600);
    assert_eq!(broken(&lab, &plan), BTreeSet::new());
}

#[test]
fn nodes_are_as_near_as_asked() {
    let cluster = "
        node n[1-4] cpus=1
        level leaf size=2
        domain l1 level=leaf nodes=n[1-2]
        domain l2 level=leaf nodes=n[3-4]
    ";
    for (span, job) in [
        ("anywhere", "a nodes=2 topology=required:leaf time=60"),
        ("blocks", "a nodes=2 time=60"),
        ("connected", "a nodes=2 time=60"),
    ] {
        let mut lab = Lab::new(cluster);
        lab.set_up(&format!("topology span={span}"));
        lab.submit(job);
        let mut plan = lab.plan();
        placement(&mut plan).nodes[1].node = NodeId(3);
        assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Topology]), "{span}");
    }
    let mut lab = Lab::new(cluster);
    lab.set_up("node n5 cpus=1");
    lab.submit("a nodes=4 segment=2 time=60");
    let mut plan = lab.plan();
    placement(&mut plan).nodes[3].node = NodeId(4);
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Topology]));
}

#[test]
fn labels_taints_and_other_jobs_are_heeded() {
    let cluster = "
        node n1 cpus=4 labels=rack:r,hot:1
        node n2 cpus=4 labels=rack:s
        node n3 cpus=4 labels=rack:s taints=dirty
    ";
    for (job, node, rule) in [
        ("a time=60", 2, Rule::Taint),
        ("a require=hot time=60", 1, Rule::NodeAffinity),
        ("a near=rack:app=db time=60", 1, Rule::JobAffinity),
        ("a apart=rack:app=db time=60", 0, Rule::AntiAffinity),
        ("a label=app:web time=60", 0, Rule::AntiAffinity),
        ("a label=app:db even=rack:1:app=db time=60", 0, Rule::Spread),
    ] {
        let mut lab = Lab::new(cluster);
        lab.submit("db label=app:db apart=rack:app=web mem=1G nodelist=n1 time=60");
        lab.submit("db label=app:db mem=1G nodelist=n1 time=60");
        let first = lab.plan();
        lab.carry_out(&first);
        lab.submit(&format!("{job} mem=1G"));
        let mut plan = lab.plan();
        let share = &mut placement(&mut plan).nodes[0];
        share.node = NodeId(node);
        share.cpus = [3].into_iter().collect();
        assert_eq!(broken(&lab, &plan), BTreeSet::from([rule]), "{job}");
    }
}

#[test]
fn nothing_is_given_twice() {
    let two = ["a gpus=1 mem=1G time=60", "b gpus=1 mem=1G time=60"];
    for rule in [Rule::CpusOverallocated, Rule::GpuOverallocated] {
        let (lab, mut plan) = planned(&two);
        let mut starts = starts(&mut plan);
        let share = starts[0].placement.nodes[0].clone();
        let other = &mut Arc::make_mut(&mut starts[1].placement).nodes[0];
        match rule {
            Rule::CpusOverallocated => other.cpus = share.cpus,
            _ => other.devices = share.devices,
        }
        assert_eq!(broken(&lab, &plan), BTreeSet::from([rule]));
        // The same once both run: counted from zero.
        lab_with(&lab, &plan, rule);
    }
    let (lab, mut plan) =
        planned(&["a gres=fpga:1 mem=1G time=60", "b gres=fpga:1 mem=1G time=60"]);
    let mut both = starts(&mut plan);
    let at = both[0].placement.nodes[0].node;
    let other = &mut Arc::make_mut(&mut both[1].placement).nodes[0];
    other.node = at;
    other.cpus = [3].into_iter().collect();
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::GresOverallocated]));
    lab_with(&lab, &plan, Rule::GresOverallocated);
    let (lab, mut plan) = planned(&["a exclusive mem=1G time=60", "b mem=1G time=60"]);
    let mut both = starts(&mut plan);
    let at = both[0].placement.nodes[0].node;
    Arc::make_mut(&mut both[0].placement).nodes[0].cpus = CpuSet::first(3);
    let other = &mut Arc::make_mut(&mut both[1].placement).nodes[0];
    other.node = at;
    other.cpus = [3].into_iter().collect();
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Exclusive, Rule::Cpus]));
    lab_with(&lab, &plan, Rule::Exclusive);
}

/// Carries the plan out all the same; the recount finds the rule broken.
fn lab_with(lab: &Lab, plan: &Plan, rule: Rule) {
    let mut lab = lab.clone();
    lab.carry_out(plan);
    let found = muster_plan_check::recount(&lab.state);
    let rules: BTreeSet<Rule> = found.iter().map(|v| v.rule).collect();
    assert_eq!(rules, BTreeSet::from([rule]));
}

#[test]
fn a_promise_is_kept() {
    // The head waits for two nodes at t=60; a job of 61 minutes on one of them breaks that.
    let mut lab = Lab::new("node n[1-2] cpus=1");
    lab.submit("running time=60");
    let first_plan = lab.plan();
    lab.carry_out(&first_plan);
    lab.submit("head nodes=2 time=60");
    let late = lab.submit("late time=60");
    let mut plan = lab.plan();
    assert_eq!(plan.promises.len(), 1);
    let start = first(&mut plan);
    assert_eq!(start.job, late);
    let update = muster_model::JobUpdate {
        time_limit: Some(TimeLimit::Of(Seconds(3660))),
        ..Default::default()
    };
    start.time_limit = TimeLimit::Of(Seconds(3660));
    lab.event(EventKind::JobUpdated { job: late, update: Box::new(update) });
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::PromiseDelayed]));
    // A promise that could not hold even without any start.
    let nowhere = Promise {
        job: JobId(2),
        start: Timestamp::from_secs(60),
        nodes: vec![NodeId(0), NodeId(1)],
        ..Promise::default()
    };
    let bad = Plan { promises: vec![nowhere], complete: false, ..Plan::default() };
    assert_eq!(broken(&lab, &bad), BTreeSet::from([Rule::PromiseDelayed]));
}

#[test]
fn promises_hold_beside_each_other() {
    let mut lab =
        Lab::new("policy backfill=conservative\nnode n[1-2] cpus=2 gpus=1xa100\nlicence sim 1");
    lab.submit("running nodes=2 cpus=2 gpus-per-node=1 time=60 licences=sim:1");
    let first_plan = lab.plan();
    lab.carry_out(&first_plan);
    lab.submit("wide nodes=2 cpus=2 gpus-per-node=1 time=60");
    lab.submit("narrow cpus=1 gpus=1 time=60 licences=sim:1");
    lab.submit("later cpus=1 time=30 licences=sim:1");
    let good = lab.plan();
    let starts: Vec<i64> = good.promises.iter().map(|p| p.start.secs() / 60).collect();
    // The last one fits beside none of the first two: the licence is out until then.
    assert_eq!(starts, [60, 120, 180]);
    let delayed = BTreeSet::from([Rule::PromiseDelayed]);
    // The second promised for when the first is there.
    let mut bad = good.clone();
    bad.promises[1].start = good.promises[0].start;
    assert_eq!(broken(&lab, &bad), delayed);
    // The third for when the second has the licence.
    let mut bad = good.clone();
    bad.promises[2].start = good.promises[1].start;
    assert_eq!(broken(&lab, &bad), delayed);
    // Less than it needs.
    let mut bad = good.clone();
    bad.promises[0].shares[1].cpus = 1;
    assert_eq!(broken(&lab, &bad), delayed);
    let mut bad = good.clone();
    bad.promises[0].shares[1].gpus = 0;
    bad.promises[0].shares[0].gpus = 0;
    assert_eq!(broken(&lab, &bad), delayed);
    // In a partition that it does not name, and on one node twice.
    let mut bad = good.clone();
    bad.promises[1].partition = "other".to_owned();
    assert_eq!(broken(&lab, &bad), delayed);
    let mut bad = good;
    bad.promises[0].nodes[1] = bad.promises[0].nodes[0];
    assert_eq!(broken(&lab, &bad), delayed);
}

#[test]
fn who_comes_first_is_not_overtaken() {
    let mut lab = Lab::new("node n[1-2] cpus=1");
    lab.submit("running time=60");
    let first_plan = lab.plan();
    lab.carry_out(&first_plan);
    lab.submit("head nodes=2 time=60");
    lab.submit("late time=60");
    let mut plan = lab.plan();
    plan.promises.clear();
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Overtaken]));
}

#[test]
fn nobody_is_left_waiting() {
    let (lab, mut plan) = planned(&["a time=60", "b nodes=2 time=60"]);
    plan.decisions.pop();
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::LeftWaiting]));
    // A round whose budget ended may leave somebody.
    plan.complete = false;
    assert_eq!(broken(&lab, &plan), BTreeSet::new());
}

#[test]
fn a_down_node_takes_nothing() {
    let (mut lab, plan) = planned(&["a time=60"]);
    let since = Timestamp::from_secs(0);
    let availability = Availability::Down { reason: "gone".to_owned(), since };
    lab.event(EventKind::NodeAvailability { node: NodeId(0), availability });
    assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::NodeUnusable]));
}

#[test]
fn limits_are_kept() {
    for (job, limit) in [
        ("a gpus=2 time=60", "account default grp-tres=gres/gpu=1"),
        ("a array=1-2 time=60", "account default grp-jobs=1"),
        ("a array=1-2 time=60", "account root max-jobs=1\naccount default parent=root"),
        ("a cpus=2 time=60", "qos normal max-tres-per-user=cpu=1"),
        ("a nodes=1 tasks=2 time=60", "qos normal max-tres-per-node=cpu=1"),
        ("a time=60", "qos normal max-wall=30"),
        ("a time=60", "qos normal min-tres-per-job=cpu=2"),
        ("a cpus=2 time=60", "account default grp-tres-run-mins=cpu=100"),
        ("a cpus=2 time=60", "account default grp-tres-mins=cpu=100"),
        ("a cpus=2 time=60", "user ada account=default max-tres-mins=cpu=100"),
        ("a gpus=1 time=60", "qos pq grp-tres=billing=3\npartition main qos=pq billing=gres/gpu=4"),
        ("a licences=sim:2 time=60", "qos normal max-tres-per-account=license/sim=1"),
    ] {
        let (mut lab, plan) = planned(&[job]);
        for line in limit.lines() {
            lab.set_up(line);
        }
        assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Limit]), "{limit}");
    }
}

#[test]
fn who_is_more_important_now_is_not_overtaken() {
    let site = "node n[1-2] cpus=1\npolicy order=multifactor fair-share=1000\n\
                account lab shares=2\naccount shop";
    for policy in ["", "policy fair-share-mode=classic"] {
        let mut lab = Lab::new(&format!("{site}\n{policy}"));
        lab.submit("running account=lab time=60");
        let first_plan = lab.plan();
        lab.carry_out(&first_plan);
        lab.at_minute(10);
        lab.submit("late account=lab time=30");
        lab.submit("head account=shop nodes=2 time=60");
        let mut plan = lab.plan();
        // What the account used puts it behind, though it was there first.
        assert_eq!(plan.promises[0].job, JobId(3));
        assert_eq!(first(&mut plan).job, JobId(2));
        plan.promises.clear();
        assert_eq!(broken(&lab, &plan), BTreeSet::from([Rule::Overtaken]));
    }
}
