//! Every reason there is can come out, and the cheap answer for all jobs agrees with the full one
//! for each.

use muster_model::{Decision, EventKind, Hold, JobId, LicenceHold, Reason, Timestamp};
use muster_planner::{Budget, Planner};
use muster_test_kit::arbitrary::{act, cluster, story};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A cluster with a job for every reason; jobs are named after the code they wait for.
fn all_reasons() -> Lab {
    let mut lab = Lab::new(
        "node n[1-2] cpus=4 gpus=1xa100:40G mem=8G
         node n3 cpus=4 mem=8G
         partition main max-time=300
         partition down nodes=n1 state=down
         partition off nodes=n1 state=inactive
         partition pair nodes=n[1-2] min-nodes=2
         licence sim 2
         licence work_io 9",
    );
    for line in [
        "running nodelist=n1 cpus=4 time=100 licences=sim:1",
        "broken nodelist=n2 time=10",
        "sweep nodelist=n2 array=0-1%1 time=100",
    ] {
        lab.submit(line);
    }
    lab.round();
    let broken = lab.find("broken");
    lab.exit(broken, 1);
    lab.set_up("partition drained nodes=n3");
    let n3 = lab.state.node_named("n3").expect("the fixture has n3").id;
    let since = lab.now;
    let drain = Some(muster_model::Drain { reason: "x".to_owned(), by: "root".to_owned(), since });
    lab.event(EventKind::NodeDrain { node: n3, drain });
    for line in [
        "node n9 cpus=4 mem=8G partition=set-aside",
        "reservation theirs start=0 end=never nodes=n9 users=-ada flags=FLEX,OVERLAP",
        "reservation future start=500 end=600 nodes=n9",
        "reservation short start=0 end=30 nodes=n9",
        "reservation gone start=0 end=30 nodes=n9",
    ] {
        lab.set_up(line);
    }
    for line in [
        "HELD_BY_USER hold",
        "HELD_BY_ADMIN hold",
        "BEGIN_TIME begin=60",
        "DEPENDENCY depend=afterok:running",
        "DEPENDENCY_NEVER_SATISFIED depend=afterok:broken",
        "PARTITION_TIME_LIMIT time=301",
        "PARTITION_NODE_LIMIT partition=pair nodes=1 time=10",
        "PARTITION_DOWN partition=down time=10",
        "PARTITION_INACTIVE partition=off time=10",
        "NO_NODE_FITS cpus=64 time=10",
        "NODES_UNAVAILABLE partition=drained time=10",
        "GPU_MEMORY gpus=1 gpu-memory=80G time=10",
        "LICENCES_NEVER_ENOUGH licences=sim:3 time=10",
        "RESERVATION_ABSENT reservation=demo time=10",
        "RESERVATION_DENIED reservation=theirs time=10",
        "RESERVATION_WAITS reservation=future time=10",
        "RESERVATION_TOO_SHORT reservation=short partition=set-aside time=60",
        "RESERVATION_DELETED reservation=gone time=10",
        "RESERVED partition=set-aside time=60",
        "RESOURCES nodes=2 cpus=4 time=200",
        "PRIORITY cpus=4 time=200",
        "REQUEUED time=10",
        "RESTARTED_TOO_OFTEN time=10",
        "GPUS_IDLE time=10",
        "PLAN_REFUSED time=10",
        "DEADLINE hold deadline=5 time=10",
        "LICENCES partition=licensed licences=sim:2 time=10",
        "FILESYSTEM_BUSY licences=work_io:1 time=10",
        "NOT_PLANNED_YET partition=licensed time=10",
        "SWITCHES partition=racks nodes=2 switches=1@10 time=10",
        "TAINTS partition=social1 cpus=4 mem=1G time=10",
        "NODE_AFFINITY partition=social2 cpus=4 mem=1G tolerate=* require=hot time=10",
        "JOB_AFFINITY partition=social3 mem=1G near=node:app=db time=10",
        "ANTI_AFFINITY partition=social4 mem=1G apart=rack:name=company time=10",
        "SPREAD partition=social5 mem=1G even=rack:1:name=company+SPREAD:min=2 time=10",
        "TOPOLOGY partition=far nodes=2 topology=required:leaf time=10",
    ] {
        lab.submit(line);
    }
    lab.set_up("node n4 cpus=4 mem=8G partition=licensed");
    lab.set_up("node r1 cpus=4 mem=8G switch=s1 partition=racks");
    lab.set_up("node r2 cpus=4 mem=8G switch=s2 partition=racks");
    lab.set_up("node f[1-2] cpus=4 mem=8G switch=s3 partition=far");
    lab.set_up("node f3 cpus=4 mem=8G switch=s4 partition=far");
    lab.set_up("node p1 cpus=4 mem=8G partition=social labels=rack:r,hot:1");
    lab.set_up("node p2 cpus=4 mem=8G partition=social labels=rack:r taints=dirty");
    for n in 1..=5 {
        lab.set_up(&format!("partition social{n} nodes=p[1-2]"));
    }
    lab.submit("company partition=social nodelist=p1 mem=1G priority=9000 time=300");
    let taken = lab.submit("taken partition=far nodelist=f1 exclusive priority=9000 time=10");
    let mut only = lab.unchecked_plan();
    only.decisions
        .retain(|d| matches!(d, Decision::Start(starts) if starts[0].job.0 + 1 >= taken.0));
    lab.carry_out(&only);
    lab.submit_het("HET_PEER cpus=1 time=10 : peer hold time=10");
    lab.set_up("unreserve gone");
    lab.set_up("account tight grp-jobs=0");
    lab.submit("ASSOCIATION_LIMIT account=tight time=10");
    lab.set_up("qos tight min-tres-per-job=cpu=2");
    lab.submit("QOS_LIMIT qos=tight time=10");
    let held = [
        ("HELD_BY_ADMIN", Hold::Admin),
        ("REQUEUED", Hold::System(Reason::Requeued { until: Timestamp::from_secs(30) })),
        (
            "RESTARTED_TOO_OFTEN",
            Hold::System(Reason::RestartedTooOften { message: "no such directory".to_owned() }),
        ),
        ("GPUS_IDLE", Hold::System(Reason::GpusIdle { gpus: 2, after: muster_model::Seconds(60) })),
        ("PLAN_REFUSED", Hold::System(Reason::PlanRefused { rule: "CPUS".to_owned() })),
    ];
    let hold = LicenceHold {
        filesystem: "work".to_owned(),
        figure: "93 % busy, more than 90 %".to_owned(),
        since: Timestamp::from_secs(60),
    };
    lab.event(EventKind::LicenceHeld { name: "work_io".to_owned(), hold: Some(hold) });
    for (name, hold) in held {
        let job = lab.find(name);
        lab.event(EventKind::JobHeld { job, hold });
    }
    lab
}

#[test]
fn every_reason_is_produced() {
    let lab = all_reasons();
    let reasons = lab.reasons();
    let mut codes = BTreeSet::new();
    for (id, reason) in &reasons {
        let name = &lab.state.jobs[id].spec.name;
        codes.insert(reason.code());
        match name.as_str() {
            "sweep" => assert_eq!(reason.code(), "ARRAY_TASK_LIMIT"),
            "peer" => assert_eq!(reason.code(), "HELD_BY_USER"),
            name => assert_eq!(reason.code(), name, "{reason:?}"),
        }
    }
    // A round that ends early leaves the rest for that.
    let within = Planner::new(&lab.state).reasons_within(&lab.state, lab.now, Budget::steps(1));
    codes.extend(within.values().map(Reason::code));
    assert!(codes.contains("BUDGET_ENDED"), "{within:?}");
    // Those of preemption, quotas and gangs: tests/preempt.rs.
    codes.extend(["MAKING_ROOM", "GANG_INCOMPLETE"]);
    let missing: Vec<&str> =
        Reason::samples().iter().map(Reason::code).filter(|code| !codes.contains(code)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn the_shortage_is_told_in_numbers() {
    let mut lab = Lab::new("node n[1-2] cpus=8 gpus=4xa100 mem=64G");
    lab.submit("a nodelist=n1 gpus=3 time=30 mem=1G");
    lab.submit("b nodelist=n2 gpus=2 time=60 mem=1G");
    lab.round();
    let job = lab.submit("c gpus-per-node=3 time=10 mem=1G");
    let explanation = lab.explain(job);
    let expected = Reason::Resources {
        resource: "gpus".to_owned(),
        wanted: 3,
        free: 2,
        nodes: 1,
        held_by: vec![JobId(1), JobId(2)],
        start: Some(Timestamp::from_secs(1800)),
    };
    assert_eq!(explanation.reasons, [expected]);
    let start = explanation.start.unwrap();
    assert_eq!(start.not_before, Timestamp::from_secs(1800));
    assert_eq!(start.expected, Some(Timestamp::from_secs(1800)));
    let options: Vec<String> = explanation.suggestions.iter().map(|s| s.change.option()).collect();
    assert_eq!(options, ["--gpus-per-node=2"]);
}

#[test]
fn a_window_has_the_queue_before_it_in_mind() {
    let mut lab = Lab::new("node n1 cpus=1");
    for line in ["a time=10", "b time=20", "c time=30", "d time=40"] {
        lab.submit(line);
    }
    lab.round();
    let last = lab.explain(JobId(4));
    let start = last.start.unwrap();
    assert_eq!(start.not_before, Timestamp::from_secs(10 * 60));
    assert_eq!(start.expected, Some(Timestamp::from_secs(60 * 60)));
    assert_eq!(last.ahead, Some(2));
}

#[test]
fn suggestions_are_tried_before_they_are_made() {
    let mut lab = Lab::new(
        "node n[1-2] cpus=4 mem=8G
         node g1 cpus=4 gpus=1xh100 mem=8G partition=fast",
    );
    lab.submit("a nodelist=n1 cpus=4 time=60");
    lab.round();
    lab.submit("head nodes=2 cpus=4 time=60");
    let job = lab.submit("late cpus=4 time=90");
    let found = lab.explain(job).suggestions;
    let options: Vec<String> = found.iter().map(|s| s.change.option()).collect();
    // Sixty minutes end before the head starts; the other partition is empty. Fewer CPUs would
    // not do: the head needs all of both nodes.
    assert_eq!(options, ["--time=60", "--partition=fast"]);
    for suggestion in found {
        assert!(suggestion.displaces.is_empty());
        let mut fork = lab.clone();
        let words = match suggestion.change.option().as_str() {
            "--time=60" => "late cpus=4 time=60",
            _ => "late cpus=4 time=90 partition=fast",
        };
        let update = muster_model::JobUpdate {
            spec: Some(std::sync::Arc::new(fork.spec(words))),
            ..Default::default()
        };
        fork.event(EventKind::JobUpdated { job, update: Box::new(update) });
        fork.round();
        assert!(fork.state.jobs[&job].state.holds_resources());
    }
}

#[test]
fn a_reason_is_gone_when_its_cause_is() {
    let mut lab = Lab::new("node n1 cpus=1");
    let job = lab.submit("later begin=10 time=10");
    assert!(matches!(lab.reasons()[&job], Reason::BeginTime { .. }));
    lab.at_minute(10);
    assert_eq!(lab.reasons()[&job], Reason::NotPlannedYet);
    lab.round();
    assert!(lab.reasons().is_empty());
}

/// The limit that holds one member holds the gang, in the list and in the full answer.
#[test]
fn a_limit_on_one_member_holds_its_gang() {
    let mut lab = Lab::new(
        "node n1 cpus=8 mem=8G\naccount root\naccount lab parent=root grp-tres=cpu=1\nqos normal",
    );
    let first = lab.submit("a cpus=1 mem=1G time=10 gang=g:2");
    let second = lab.submit("b cpus=2 mem=1G time=10 gang=g:2 account=lab");
    let all = lab.reasons();
    for job in [first, second] {
        assert_eq!(all[&job].code(), "ASSOCIATION_LIMIT");
        assert_eq!(lab.explain(job).reasons, [all[&job].clone()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(120) / 2,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Every waiting job has a reason, and `why` begins with the one that the list shows.
    #[test]
    fn the_list_and_the_full_answer_agree(cluster in cluster(), story in story(16)) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for deed in &story {
                act(lab, deed);
            }
            lab.round();
            let mut planner = Planner::new(&lab.state);
            let all = planner.reasons(&lab.state, lab.now);
            for id in &lab.state.index.pending {
                let full = planner.explain(&lab.state, *id, lab.now);
                prop_assert_eq!(all.get(id), full.reasons.first(), "job {}: {:?}", id, full);
                // The cache is as it was: nothing of what was tried stays in it.
                prop_assert_eq!(&all, &planner.reasons(&lab.state, lab.now));
                if let Some(start) = full.start {
                    prop_assert!(start.expected.is_none_or(|at| at >= start.not_before));
                }
            }
            Ok(())
        })?;
    }
}
