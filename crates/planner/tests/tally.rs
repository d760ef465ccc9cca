//! What keeps a job from each node: the counts add up, and no node that would do is left out.

use muster_model::{NodeCause, Reason};
use muster_planner::{Budget, Planner};
use muster_test_kit::arbitrary::{act, cluster, story};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(300),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Every node of the job's partitions is counted once. Where a job on one node waits for what
    /// others use, and for nothing else, no node could take it.
    #[test]
    fn counts_add_up_and_a_waiting_job_has_no_free_node(
        cluster in cluster(),
        story in story(16),
    ) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for deed in &story {
                act(lab, deed);
            }
            let mut planner = Planner::new(&lab.state);
            planner.plan(&lab.state, lab.now, Budget::UNLIMITED);
            for id in lab.state.index.pending.clone() {
                let job = lab.state.jobs[&id].clone();
                let found = planner.explain(&lab.state, id, lab.now);
                if found.reasons == [Reason::NotPlannedYet] {
                    continue;
                }
                let of_job = job.spec.partitions.iter().filter_map(|p| lab.state.partitions.get(p));
                let nodes: BTreeSet<_> =
                    of_job.flat_map(|p| lab.state.partition_nodes(p)).map(|node| node.id).collect();
                let sum: u32 = found.tally.iter().map(|row| row.count).sum();
                prop_assert_eq!(sum as usize, nodes.len(), "{:?}", found.tally);
                for row in &found.tally {
                    prop_assert!(row.nodes.iter().all(|node| nodes.contains(node)));
                    prop_assert!(row.count as usize >= row.nodes.len());
                }
                let waits = matches!(found.reasons[..], [Reason::Resources { .. }]);
                let free = found.tally.iter().any(|row| row.cause == NodeCause::Free);
                let one = lab.state.reservations.is_empty()
                    && (job.spec.request.nodes.as_ref().is_some_and(|n| n.most() == 1));
                prop_assert!(!(waits && one && free), "{} {:?}\n{:?}", id, found, job.spec.request);
            }
            Ok(())
        })?;
    }
}

/// What the round starts may bar a node by a rule, not only by what it takes.
#[test]
fn a_start_of_the_round_keeps_the_next_from_a_node_by_its_rule() {
    let mut lab = Lab::new(
        "node n1 cpus=4 mem=4G labels=zone:a\nnode n2 cpus=4 gpus=2xa100 mem=4G labels=zone:b",
    );
    let first = lab.submit("a nodes=1 gpus=1 mem=1G time=10 label=app:web even=zone:1:app=web");
    let second = lab.submit("b nodes=1 gpus=1 mem=1G time=10 label=app:web even=zone:1:app=web");
    let mut planner = Planner::new(&lab.state);
    assert_eq!(planner.explain(&lab.state, first, lab.now).reasons, [Reason::NotPlannedYet]);
    let found = planner.explain(&lab.state, second, lab.now);
    assert_eq!(found.reasons[0].code(), "SPREAD", "{found:?}");
    assert!(found.tally.iter().all(|row| row.cause != NodeCause::Free), "{found:?}");
}

/// The place of a gang's first member is kept from its second, which is the one that is short.
#[test]
fn a_member_of_a_gang_is_beside_those_before_it() {
    let mut lab = Lab::new("node n1 cpus=1 mem=2G");
    let first = lab.submit("a nodes=1 mem=256M time=10 gang=g:2");
    let second = lab.submit("b nodes=1 mem=256M time=10 gang=g:2");
    let mut planner = Planner::new(&lab.state);
    let of = |planner: &mut Planner, job| planner.explain(&lab.state, job, lab.now);
    assert_eq!(of(&mut planner, first).reasons[0].code(), "GANG_INCOMPLETE");
    let found = of(&mut planner, second);
    assert_eq!(found.reasons[0].code(), "RESOURCES");
    assert!(matches!(found.tally[0].cause, NodeCause::Kept { .. }), "{found:?}");
}
