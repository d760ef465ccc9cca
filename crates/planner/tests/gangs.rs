//! Gangs: the cases of `cases/cluster.md` that the core can hold, by number.

use muster_model::{JobId, JobState};
use muster_test_kit::{Lab, started};

fn running(lab: &Lab) -> Vec<u32> {
    lab.state.index.active.iter().map(|id| id.0).collect()
}

#[test]
fn c12_of_two_gangs_that_come_mixed_one_is_whole_and_the_other_holds_nothing() {
    let mut lab = Lab::new("node n1 cpus=8 gpus=8xa100:40G mem=64G");
    for n in 0..5 {
        for gang in ["a", "b"] {
            lab.submit(&format!("{gang}{n} gang={gang}:5 gpus=1 mem=1G time=30"));
        }
        lab.round();
    }
    // The odd numbers are one gang, which was whole first.
    assert_eq!(running(&lab), [1, 3, 5, 7, 9]);
    lab.at_minute(30);
    lab.round();
    assert_eq!(running(&lab), [2, 4, 6, 8, 10]);
}

#[test]
fn c12_linked_groups_start_as_one_unit() {
    // A and B are one unit, C and D another; they come in the order A, C, B, D, with room for one.
    let mut lab = Lab::new("node n[1-2] cpus=4 mem=16G");
    for (name, gang) in [("a", "x"), ("c", "y"), ("b", "x"), ("d", "y")] {
        lab.submit(&format!("{name} gang={gang}:2 nodes=1 cpus=4 mem=1G time=30"));
        lab.round();
    }
    assert_eq!(running(&lab), [1, 3]);
    lab.at_minute(30);
    lab.round();
    assert_eq!(running(&lab), [2, 4]);
}

#[test]
fn c13_members_wait_for_the_last_of_them_and_are_told_so() {
    let mut lab = Lab::new("node n1 cpus=8 mem=64G");
    for n in 0..3 {
        lab.submit(&format!("w{n} gang=g:4 cpus=1 mem=1G time=30"));
    }
    assert!(started(&lab.round()).is_empty());
    let why = lab.why(JobId(1));
    assert!(why.starts_with("GANG_INCOMPLETE") && why.contains("3 of 4 submitted"), "{why}");
    lab.submit("w3 gang=g:4 cpus=1 mem=1G time=30");
    assert_eq!(started(&lab.round()).len(), 4);
}

#[test]
fn c14_one_that_comes_back_starts_alone_and_leaves_the_others_as_they_are() {
    let mut lab = Lab::new("node n1 cpus=8 gpus=7xa100:40G mem=64G");
    for n in 0..6 {
        lab.submit(&format!("w{n} gang=g:6 gpus=1 mem=1G time=300"));
    }
    lab.round();
    assert_eq!(running(&lab).len(), 6);
    lab.at_minute(5);
    lab.lose(JobId(4));
    assert_eq!(lab.state_of(JobId(4)), JobState::Pending);
    assert_eq!(started(&lab.round()), [JobId(4)]);
    assert!((1..=6).all(|id| lab.state_of(JobId(id)) == JobState::Running));
    let attempts: Vec<u32> = (1..=6).map(|id| lab.state.jobs[&JobId(id)].attempt).collect();
    assert_eq!(attempts, [1, 1, 1, 2, 1, 1]);
}
