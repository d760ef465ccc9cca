//! What must come out the same, or no worse, when the question is put otherwise.

use muster_model::{Decision, JobId, NodeId, Plan, Promise, State, Timestamp};
use muster_planner::{Budget, Planner};
use muster_test_kit::arbitrary::{cluster, job};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// When each job starts or is promised to start.
fn starts(plan: &Plan) -> BTreeMap<JobId, Timestamp> {
    let now = plan.decisions.iter().flat_map(Decision::starts).map(|s| (s.job, plan.now));
    now.chain(plan.promises.iter().map(|p| (p.job, p.start))).collect()
}

/// The jobs that run, each with its nodes.
fn running(lab: &Lab) -> BTreeMap<JobId, Vec<NodeId>> {
    let nodes = |id: &JobId| {
        let placement = lab.state.jobs[id].placement.as_ref();
        placement.map(|p| p.nodes.iter().map(|n| n.node).collect()).unwrap_or_default()
    };
    lab.state.index.active.iter().map(|id| (*id, nodes(id))).collect()
}

/// What rounds with one budget came to.
#[derive(Default)]
struct Pieces {
    ended: bool,
    made_room: bool,
}

/// Plans with this budget again and again until a round is complete; no plan breaks a rule.
fn to_the_end(lab: &mut Lab, steps: u64) -> Pieces {
    let mut planner = Planner::new(&lab.state);
    let mut budget = Budget::steps(steps);
    let mut pieces = Pieces::default();
    for _ in 0..500 {
        let plan = planner.plan(&lab.state, lab.now, budget.clone());
        assert_eq!(muster_plan_check::check(&lab.state, &plan), []);
        lab.carry_out(&plan);
        assert_eq!(muster_plan_check::recount(&lab.state), []);
        let makes_room = |d: &Decision| matches!(d, Decision::Preempt(_) | Decision::Resume { .. });
        pieces.made_room |= plan.decisions.iter().any(makes_room);
        budget.resume.clone_from(&plan.resume);
        pieces.ended = plan.complete;
        if plan.complete {
            break;
        }
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(100),
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    /// A round cut by its budget, carried on until it is through, starts what a whole one starts.
    #[test]
    fn a_round_in_pieces_starts_the_same(
        cluster in cluster(),
        before in prop::collection::vec(job(), 0..4),
        jobs in prop::collection::vec(job(), 1..12),
        steps in 1u64..12,
    ) {
        let mut whole = Lab::new(&cluster);
        proved(&mut whole, |whole| {
            for line in before {
                whole.submit(&line);
            }
            let plan = whole.unchecked_plan();
            whole.carry_out(&plan);
            whole.at_minute(7);
            for line in jobs {
                whole.submit(&line);
            }
            let mut pieces = whole.clone();
            let at_once = to_the_end(whole, u64::MAX);
            let bit_by_bit = to_the_end(&mut pieces, steps);
            prop_assert!(at_once.ended);
            prop_assert!(bit_by_bit.ended, "the pieces never end");
            // A piece that makes room ends with victims gone, which the rest of a whole round still
            // sees: then no rule is broken, but others may start.
            if !at_once.made_room && !bit_by_bit.made_room {
                prop_assert_eq!(running(whole), running(&pieces));
            }
            Ok(())
        })?;
    }

    /// The same events give the same plan, whoever folds them: a state that went through its stored
    /// form plans to the same bytes.
    #[test]
    fn a_stored_state_plans_the_same(
        cluster in cluster(),
        jobs in prop::collection::vec(job(), 1..10),
    ) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for line in jobs {
                lab.submit(&line);
            }
            let mut again = State::default();
            for event in &lab.log {
                let _ = again.apply(event);
            }
            let plan = Planner::new(&again).plan(&again, lab.now, Budget::UNLIMITED);
            prop_assert_eq!(format!("{:?}", lab.unchecked_plan()), format!("{plan:?}"));
            Ok(())
        })?;
    }

    /// Other names for the nodes, in the same order, give the same plan.
    #[test]
    fn names_decide_nothing(
        nodes in prop::collection::vec((1u32..=4, 0u32..=2), 1..=4),
        jobs in prop::collection::vec((1u32..=2, 1u32..=4, 0u32..=2, 1u32..=6), 1..10),
        mode in prop::sample::select(vec!["easy", "conservative", "mixed"]),
    ) {
        let build = |prefix: &str| {
            let mut lab = Lab::new(&format!("policy backfill={mode}"));
            for (i, (cpus, gpus)) in nodes.iter().enumerate() {
                lab.set_up(&format!("node {prefix}{} cpus={cpus} gpus={gpus}xa100", i + 1));
            }
            for (count, cpus, gpus, time) in &jobs {
                lab.submit(&format!(
                    "j nodes={count} cpus={cpus} gpus-per-node={gpus} mem=1G time={}",
                    time * 10
                ));
            }
            lab
        };
        prop_assert_eq!(build("n").unchecked_plan(), build("zz").unchecked_plan());
    }

    /// Where every job takes one whole node, one more idle node delays nobody under conservative
    /// backfill. (With jobs of several widths it can: see the test below.)
    #[test]
    fn an_idle_node_more_delays_nobody_of_equal_width(
        nodes in 1u32..5,
        jobs in prop::collection::vec(1u32..20, 1..14),
        early in 0usize..5,
    ) {
        let build = |nodes: u32| {
            let mut lab = Lab::new(&format!("policy backfill=conservative\nnode n[1-{nodes}] cpus=1"));
            for time in jobs.iter().take(early.min(nodes as usize)) {
                lab.submit(&format!("early time={}", time * 10));
            }
            let plan = lab.unchecked_plan();
            lab.carry_out(&plan);
            for time in &jobs {
                lab.submit(&format!("j time={}", time * 10));
            }
            lab
        };
        let lab = build(nodes);
        let mut more = lab.clone();
        more.set_up("node extra cpus=1");
        let (few, many) = (starts(&lab.unchecked_plan()), starts(&more.unchecked_plan()));
        for (job, start) in &few {
            let then = many.get(job);
            prop_assert!(then.is_some_and(|then| then <= start), "{job}: {start} became {then:?}");
        }
    }

    /// One more idle node never delays the first job of the queue, whatever the jobs are.
    #[test]
    fn an_idle_node_more_never_delays_the_first(
        cluster in cluster(),
        jobs in prop::collection::vec(job(), 1..8),
    ) {
        // Limits and preemption have rules of their own.
        let plain = |line: &&str| !["policy", "qos", "account", "limit"].iter().any(|w| line.starts_with(w));
        let mut lab = Lab::new(&cluster.lines().filter(plain).collect::<Vec<_>>().join("\n"));
        proved(&mut lab, |lab| {
            lab.set_up("policy backfill=conservative");
            for line in &jobs {
                lab.submit(line);
            }
            let plan = lab.unchecked_plan();
            lab.carry_out(&plan);
            let plan = lab.unchecked_plan();
            let Some(first) = plan.promises.first() else { return Ok(()) };
            let mut more = lab.clone();
            more.set_up("node extra cpus=4 gpus=3xa100:40G mem=4G");
            let then = starts(&more.unchecked_plan()).get(&first.job).copied();
            // A job that would have taken a place with others may count otherwise on new nodes.
            let counts = lab.state.jobs[&first.job].spec.request.nodes.is_some();
            let het = lab.state.jobs[&first.job].het.is_some();
            // One before it that could never run may now: then that one is the first.
            let ahead = lab.explain(first.job).ahead;
            prop_assume!(!counts && !het && ahead == Some(0));
            prop_assert!(then.is_some_and(|then| then <= first.start), "{first:?} became {then:?}");
            Ok(())
        })?;
    }

    /// Promises hold over time: while jobs take their whole limits and nothing else happens, nobody
    /// with a promise starts later than it was promised.
    #[test]
    fn the_first_promise_is_kept_as_time_goes_on(
        jobs in prop::collection::vec((1u32..=3, 1u32..=2, 1u32..12), 2..10),
        mode in prop::sample::select(vec!["easy", "conservative"]),
    ) {
        let mut lab = Lab::new(&format!("policy backfill={mode}\nnode n[1-3] cpus=2"));
        proved(&mut lab, |lab| {
            for (count, cpus, time) in &jobs {
                lab.submit(&format!("j nodes={count} cpus={cpus} mem=1G time={}", time * 10));
            }
            let mut promised: BTreeMap<JobId, Timestamp> = BTreeMap::new();
            for minute in (0..2000).step_by(10) {
                lab.at_minute(minute);
                let plan = lab.unchecked_plan();
                for (job, start) in starts(&plan) {
                    let first = plan.promises.first().map(|p: &Promise| p.job);
                    let before = promised.entry(job).or_insert(start);
                    if Some(job) == first || start == plan.now {
                        prop_assert!(start <= *before, "{job} was promised {before}, now {start}");
                    }
                    if Some(job) != first && start != plan.now {
                        promised.remove(&job);
                    }
                }
                lab.carry_out(&plan);
                if lab.state.index.pending.is_empty() {
                    break;
                }
            }
            prop_assert!(lab.state.index.pending.is_empty(), "somebody never started");
            Ok(())
        })?;
    }
}

/// Who comes first goes first, also where that costs the second: on two nodes `small` slips in
/// before `wide`; on three `wide` starts at once and `small` waits for it. No planner that keeps the
/// order, and knows nothing of plans it made for another cluster, can do otherwise.
#[test]
fn a_node_more_may_delay_a_job_of_another_width() {
    let build = |nodes: u32| {
        let mut lab = Lab::new(&format!("policy backfill=conservative\nnode n[1-{nodes}] cpus=1"));
        lab.submit("running time=10");
        let plan = lab.unchecked_plan();
        lab.carry_out(&plan);
        lab.submit("wide nodes=2 time=100");
        lab.submit("small time=5");
        starts(&lab.unchecked_plan())
    };
    let minutes = |of: BTreeMap<JobId, Timestamp>| -> Vec<i64> {
        of.into_values().map(|t| t.secs() / 60).collect()
    };
    assert_eq!(minutes(build(2)), [10, 0]);
    assert_eq!(minutes(build(3)), [0, 10]);
}

/// The big job is not starved: behind a stream of narrow ones that never ends it starts when it was
/// first promised to, under every mode of backfill.
#[test]
fn a_wide_job_in_a_stream_of_narrow_ones_starts_by_its_promise() {
    for mode in ["none", "easy", "conservative", "mixed"] {
        let mut lab = Lab::new(&format!("policy backfill={mode}\nnode n[1-16] cpus=1"));
        for time in 1..=16 {
            lab.submit(&format!("narrow time={}", time * 10));
        }
        let plan = lab.unchecked_plan();
        lab.carry_out(&plan);
        let wide = lab.submit("wide nodes=16 time=60");
        let promised = lab.unchecked_plan().promises[0].start;
        assert_eq!(promised, Timestamp::from_secs(160 * 60));
        let mut started_behind = BTreeSet::new();
        let mut minute = 0;
        while lab.state.jobs[&wide].is_pending() {
            minute += 5;
            lab.at_minute(minute);
            for n in 0..3 {
                lab.submit(&format!("narrow time={}", 10 * (1 + (minute / 5 + n) % 17)));
            }
            let plan = lab.unchecked_plan();
            assert_eq!(muster_plan_check::check_full(&lab.state, &plan), []);
            started_behind.extend(plan.decisions.iter().flat_map(Decision::starts).map(|s| s.job));
            lab.carry_out(&plan);
            assert!(lab.now <= promised, "{mode}: not started by {promised}");
        }
        // And meanwhile the others used what it could not.
        let beside = started_behind.len() - 1;
        assert!(if mode == "none" { beside == 0 } else { beside > 20 }, "{mode}: {beside}");
    }
}

/// Whom a limit holds for the GPUs that it found is not promised, in the same plan, nodes that a
/// job behind it takes for good.
#[test]
fn a_job_held_by_its_limit_is_promised_nothing_that_starts_took() {
    let mut lab = Lab::new(
        "node n1 cpus=2 gpus=1xa100\nnode n2 cpus=2 gpus=1xa100\n\
         node n3 cpus=2 gpus=2xa100+1xh100\npolicy backfill=none\n\
         qos high priority=100 max-tres-per-account=gres/gpu:a100=1",
    );
    lab.submit("j gpus=1 mem=256M time=unlimited priority=10");
    lab.submit("j gpus=3 tasks-per-gpu=2 mem=256M time=10 qos=high");
    let plan = lab.unchecked_plan();
    assert_eq!(plan.decisions.len(), 1, "{plan:?}");
    assert_eq!(muster_plan_check::check(&lab.state, &plan), []);
}

/// A job held by its limit for the nodes that it found is passed over by the rest of its round: who
/// started behind it, without an end, is in no promise's way.
#[test]
fn a_job_that_a_round_passed_over_is_promised_nothing_by_its_second_walk() {
    let mut lab = Lab::new(
        "node n1 cpus=2 gpus=2xa100+1xh100 mem=1G labels=zone:a\n\
         node n2 cpus=2 gpus=2xa100 mem=1G labels=zone:b\n\
         account team\nqos high priority=100 max-tres-per-account=gres/gpu:a100=1",
    );
    lab.submit("j nodes=1 gpus=1 mem=256M time=unlimited array=0-3%2");
    lab.submit("j gpus=4 mem=256M label=app:web even=zone:1:app=web time=10 account=team qos=high");
    let plan = lab.unchecked_plan();
    assert_eq!(plan.decisions.len(), 2, "{plan:?}");
    assert!(plan.promises.is_empty() && !plan.complete, "{plan:?}");
    assert_eq!(muster_plan_check::check(&lab.state, &plan), []);
}

/// What starts is on record as a wait, which changes who comes first: not within a walk.
#[test]
fn a_walk_in_pieces_keeps_the_order_that_it_began_with() {
    let mut whole = Lab::new(
        "node n1 cpus=2 gpus=3xa100:40G mem=1G\npolicy backfill=easy\npolicy order=slowdown\n\
         policy preempt=requeue tiers=yes grace=5\n",
    );
    whole.at_minute(7);
    for line in [
        "j gpus=2xa100 mem=256M time=20 array=0-2%1 qos=low",
        "j mem=256M time=50",
        "j mem=256M time=10",
        "j mem=256M time=10 array=0-2%1 qos=low",
    ] {
        whole.submit(line);
    }
    let mut pieces = whole.clone();
    to_the_end(&mut whole, u64::MAX);
    to_the_end(&mut pieces, 8);
    assert_eq!(running(&pieces), running(&whole));
}

/// Jobs that start together all name who made room for them.
#[test]
fn what_an_elastic_job_keeps_is_its_own_once_whoever_it_made_room_for() {
    let mut lab = Lab::new(
        "node n1 cpus=1 mem=1G\nnode n3 cpus=2 gpus=1xa100:40G mem=1G\n\
         node n4 cpus=2 gpus=1xa100:40G mem=1G\npolicy preempt=requeue tiers=yes grace=5\n",
    );
    lab.submit("j elastic=1-3 tasks-per-node=2 gpus-per-node=1 mem-per-cpu=512M time=10");
    let plan = lab.unchecked_plan();
    lab.carry_out(&plan);
    lab.at_minute(7);
    lab.submit("j gpus-per-node=1 mem=256M time=10 gang=g:2");
    lab.submit("j mem=256M time=10 gang=g:2");
    lab.submit("j mem=256M time=10 array=0-2%1");
    assert!(to_the_end(&mut lab, 1).made_room);
}
