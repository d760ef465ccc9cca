//! What holds for every small cluster, every queue and every story.

use muster_model::{Decision, Event, EventKind, JobId, Plan, State};
use muster_planner::{Budget, Planner};
use muster_test_kit::arbitrary::{Deed, act, cluster, job, story};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The plan as it would be stored: equal plans are equal bytes.
fn bytes(plan: &Plan) -> String {
    format!("{plan:#?}")
}

fn free_to_start(lab: &Lab) -> BTreeSet<JobId> {
    let jobs = lab.state.index.pending.iter().filter_map(|id| lab.state.jobs.get(id));
    let free =
        jobs.filter(|j| j.eligible.is_some_and(|at| at <= lab.now) || j.dependency_is_hopeless());
    free.map(|j| j.id).collect()
}

/// No rule is broken; what was carried out leaves nothing to do.
fn plan_and_carry_out(lab: &mut Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let found = muster_plan_check::check_full(&lab.state, plan);
    prop_assert!(found.is_empty(), "{:#?}\n{:#?}", found, plan);
    let free_before = free_to_start(lab);
    lab.carry_out(plan);
    let found = muster_plan_check::recount(&lab.state);
    prop_assert!(found.is_empty(), "recount: {:#?}", found);
    // A start or an end may set others free (`after:`): those may go on. Room that is made at once
    // is there for the next round.
    let makes_room = plan.decisions.iter().any(|d| {
        matches!(d, Decision::Preempt(_) | Decision::Resume { .. } | Decision::Evict { .. })
    });
    if !makes_room && free_to_start(lab).is_subset(&free_before) {
        let again = lab.unchecked_plan();
        prop_assert!(again.decisions.is_empty(), "not a fixed point: {:#?}", again);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(300),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A planner kept over a story plans as a new one does, breaks no rule, and explains every wait.
    #[test]
    fn a_kept_planner_is_a_cache_and_nothing_more(cluster in cluster(), story in story(24)) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            let mut kept = Planner::new(&State::default());
            for deed in &story {
                act(lab, deed);
                if !matches!(deed, Deed::Plan) {
                    continue;
                }
                let plan = kept.plan(&lab.state, lab.now, Budget::UNLIMITED);
                let new = lab.unchecked_plan();
                prop_assert_eq!(bytes(&plan), bytes(&new));
                plan_and_carry_out(lab, &plan)?;
                let reasons = kept.reasons(&lab.state, lab.now);
                for id in &lab.state.index.pending {
                    prop_assert!(reasons.contains_key(id), "no reason for {}", id);
                }
                prop_assert_eq!(reasons, lab.reasons());
            }
            Ok(())
        })?;
    }

    /// What a job's factors come to is the number that orders it, and the checker, which knows the
    /// rules on its own, comes to the same, at any instant.
    #[test]
    fn factors_add_up_and_are_counted_again(
        cluster in cluster(),
        story in story(20),
        later in 0u32..400,
    ) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for deed in &story {
                act(lab, deed);
                if matches!(deed, Deed::Plan) {
                    let plan = lab.unchecked_plan();
                    lab.carry_out(&plan);
                }
            }
            let now = lab.now.plus(muster_model::Seconds::minutes(u64::from(later)));
            let priorities = muster_model::Priorities::new(&lab.state, now);
            for id in &lab.state.index.pending {
                let job = &lab.state.jobs[id];
                let used = muster_planner::priority(&lab.state, job, now);
                prop_assert_eq!(used, muster_plan_check::priority(&lab.state, now, job), "job {}", id);
                if lab.state.policy.order == muster_model::OrderMode::Multifactor {
                    let f = priorities.factors(job);
                    let tres: i64 = f.tres.values().map(|(_, term)| term).sum();
                    let terms = f.site + f.age.1 + f.association.1 + f.fair_share.1;
                    let terms = terms + f.job_size.1 + f.partition.1;
                    let sum = f.by_hand.map_or(terms + f.qos.1 + tres - f.nice, i64::from);
                    prop_assert_eq!(used, sum);
                }
            }
            // Counts made anew from the jobs are those that were kept.
            let counts = |state: &State| -> Vec<_> {
                let all = state.usage.iter();
                all.map(|(holder, t)| {
                    (holder.clone(), t.running, t.submitted, t.in_use.clone(), t.rate.clone(), t.clocks)
                })
                .collect()
            };
            let mut again = lab.state.clone();
            let kind = EventKind::QosRemoved { name: "never there".to_owned() };
            again.apply(&Event { at: lab.now, kind }).unwrap();
            prop_assert_eq!(counts(&again), counts(&lab.state));
            Ok(())
        })?;
    }

    /// One job on a cluster in use starts where any placement is allowed at all: the checker's search
    /// over all sets of nodes finds nothing that was left waiting.
    #[test]
    fn what_can_be_placed_is_placed(
        cluster in cluster(),
        before in prop::collection::vec(job(), 0..4),
        last in job(),
    ) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for line in before {
                lab.submit(&line);
            }
            let plan = lab.unchecked_plan();
            plan_and_carry_out(lab, &plan)?;
            for id in lab.state.index.pending.clone() {
                lab.cancel(id);
            }
            lab.submit(&last);
            let plan = lab.unchecked_plan();
            plan_and_carry_out(lab, &plan)?;
            Ok(())
        })?;
    }

    /// The order in which things came to be known decides nothing.
    #[test]
    fn shuffled_inputs_give_the_same_bytes(
        cluster in cluster(),
        jobs in prop::collection::vec(job(), 1..8),
        turn in 0usize..8,
    ) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            let set_up = lab.log.len();
            for line in jobs {
                lab.submit(&line);
            }
            let mut events = lab.log.clone();
            // Nodes and rules in another order; the last description of a partition has to stay last.
            events[..set_up].rotate_left(turn % set_up);
            let mut shuffled = State::default();
            for event in &events {
                let _ = shuffled.apply(event);
            }
            for event in &lab.log[..set_up] {
                let _ = shuffled.apply(event);
            }
            shuffled.seq = lab.state.seq;
            let plan = Planner::new(&shuffled).plan(&shuffled, lab.now, Budget::UNLIMITED);
            prop_assert_eq!(bytes(&lab.unchecked_plan()), bytes(&plan));
            Ok(())
        })?;
    }

    /// Rounds that end early break no rule, and going on from where they ended reaches everybody.
    #[test]
    fn a_budget_ends_a_round_and_the_next_goes_on(
        cluster in cluster(),
        jobs in prop::collection::vec(job(), 1..12),
        steps in 1u64..12,
    ) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for line in jobs {
                lab.submit(&line);
            }
            let mut kept = Planner::new(&lab.state);
            let mut budget = Budget::steps(steps);
            for _ in 0..200 {
                let plan = kept.plan(&lab.state, lab.now, budget.clone());
                let found = muster_plan_check::check(&lab.state, &plan);
                prop_assert!(found.is_empty(), "{:#?}", found);
                lab.carry_out(&plan);
                budget.resume.clone_from(&plan.resume);
                if plan.resume.is_none() {
                    break;
                }
            }
            prop_assert!(budget.resume.is_none(), "the end of the queue was never reached");
            Ok(())
        })?;
    }
}
