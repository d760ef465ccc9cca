//! A round that was saved is planned again and comes out the same.

use muster_model::{Decision, Reason};
use muster_planner::{Budget, Planner};
use muster_sim::{Cycle, CycleError};
use muster_test_kit::Lab;
use muster_test_kit::arbitrary::{act, cluster, story};
use proptest::prelude::*;

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

#[test]
fn names_are_replaced_and_the_plan_stays() {
    let mut lab = Lab::new(
        "node secret-n[1-4] cpus=8 gpus=2xSecretChip features=secret-fast\n\
         licence secret-tool 3\nqos secret-qos priority=5",
    );
    lab.submit("secret-a nodes=2 exclusive time=60 constraint=secret-fast");
    lab.submit("secret-b qos=secret-qos gpus=3xsecretchip licences=secret-tool:2 time=10");
    lab.submit("secret-c nodelist=secret-n3 exclude=secret-n1 time=5");
    lab.submit("secret-d nodes=4 exclusive time=5");
    let cycle = Cycle::read(saved(&lab, Budget::UNLIMITED).as_slice()).unwrap();
    let renamed = cycle.without_names().unwrap();
    assert!(renamed.replay().same);
    let starts = |cycle: &Cycle| -> Vec<_> {
        let promises = cycle.plan.promises.iter().map(|p| (p.job, p.start, p.nodes.clone()));
        promises.collect()
    };
    assert_eq!(starts(&cycle), starts(&renamed));
    assert_eq!(cycle.plan.decisions.len(), renamed.plan.decisions.len());
    let mut file = Vec::new();
    renamed.write(&mut file).expect("a vector takes all");
    let text = String::from_utf8(file).unwrap().to_lowercase();
    // The planner reads sizes of MIG instances from a GPU's model, so that stays.
    let text = text.replace("secretchip", "");
    assert!(!text.contains("secret"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.min(60),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Made-up rounds plan the same when they were saved, and with their names replaced.
    #[test]
    fn made_up_rounds_come_out_the_same(cluster in cluster(), story in story(16)) {
        let mut lab = Lab::new(&cluster);
        for deed in &story {
            act(&mut lab, deed);
        }
        let cycle = Cycle::read(saved(&lab, Budget::UNLIMITED).as_slice()).unwrap();
        prop_assert!(cycle.replay().same);
        let renamed = cycle.without_names();
        prop_assert!(renamed.is_ok(), "{:?}", renamed.err());
        prop_assert!(renamed.unwrap().replay().same);
    }
}
