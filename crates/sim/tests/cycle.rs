//! A round that was saved is planned again and comes out the same.

use muster_model::{Decision, Reason};
use muster_planner::{Budget, Planner};
use muster_sim::{Cycle, CycleError};
use muster_test_kit::Lab;

fn busy() -> Lab {
    let mut lab = Lab::new("node n[1-4] cpus=8 gpus=2");
    lab.submit("wide nodes=3 exclusive time=60");
    lab.submit("wider nodes=4 exclusive time=60");
    lab.submit("small cpus-per-task=2 time=30");
    lab
}

fn saved(lab: &Lab, budget: Budget) -> Vec<u8> {
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, budget);
    let mut file = Vec::new();
    Cycle::new(lab.state.clone(), plan).write(&mut file).expect("a vector takes all");
    file
}

#[test]
fn the_same_input_gives_the_same_plan() {
    let lab = busy();
    for budget in [Budget::UNLIMITED, Budget::steps(2)] {
        let cycle = Cycle::read(saved(&lab, budget).as_slice()).unwrap();
        let replayed = cycle.replay();
        assert!(replayed.same, "{replayed:?}");
        assert_eq!(replayed.violations, Vec::<String>::new());
    }
    let cycle = Cycle::read(saved(&lab, Budget::UNLIMITED).as_slice()).unwrap();
    let replayed = cycle.replay();
    let wider = lab.find("wider");
    assert!(matches!(replayed.waiting[&wider], Reason::Resources { .. }), "{replayed:?}");
    assert_eq!(replayed.waiting.len(), 1);
    assert_eq!(cycle.explain(wider).reasons[0], replayed.waiting[&wider]);
}

#[test]
fn another_plan_in_the_file_is_found_out() {
    let lab = busy();
    let mut cycle = Cycle::read(saved(&lab, Budget::UNLIMITED).as_slice()).unwrap();
    cycle
        .plan
        .decisions
        .retain(|d| !matches!(d, Decision::Start(s) if s[0].job == lab.find("small")));
    assert!(!cycle.replay().same);
}

#[test]
fn what_is_no_saved_round_is_refused() {
    let text = String::from_utf8(saved(&busy(), Budget::UNLIMITED)).unwrap();
    let read = |text: &str| Cycle::read(text.as_bytes()).unwrap_err();
    assert_eq!(read("").code(), "E_CYCLE_FORMAT");
    assert_eq!(read("{\"format\":\"tea\",\"schema\":1}").code(), "E_CYCLE_FORMAT");
    assert_eq!(read(&text[..text.len() / 2]).code(), "E_CYCLE_FORMAT");
    let newer = text.replacen("\"schema\":1", "\"schema\":999", 1);
    assert!(matches!(read(&newer), CycleError::Newer { found: 999, .. }));
}
