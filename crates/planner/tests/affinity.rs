//! Affinity, spread, taints: the cases of `cases/cluster.md` that the core can hold, by number.

use muster_test_kit::{Lab, started};

fn runs(lab: &mut Lab, job: &str) {
    let id = lab.submit(&format!("{job} time=600"));
    lab.round();
    assert!(lab.state.jobs[&id].placement.is_some(), "{job} does not start");
}

#[test]
fn c01_selector_terms_are_alternatives_and_an_empty_term_matches_nothing() {
    let mut lab = Lab::new(
        "
        node n1 labels=zone:a,gpu:h100
        node n2 labels=zone:b,gpu:t4
        node n3 labels=zone:c
        node n4
        ",
    );
    let all = ["n1", "n2", "n3", "n4"];
    assert_eq!(lab.places(&all, "a require=-|gpu!=t4&zone"), ["n1", "n3"]);
    assert!(lab.places(&all, "b require=-").is_empty());
    assert!(lab.places(&all, "c require=zone=a&gpu=t4").is_empty());
    let id = lab.submit("never require=zone=d time=10");
    assert_eq!(
        lab.why(id),
        "NO_NODE_FITS can never run in partition main: no node has the labels that it requires, \
         node(zone=d); without that 4 nodes would do"
    );
}

#[test]
fn c02_gt_and_lt() {
    let mut lab = Lab::new(
        "
        node a labels=gpu-mem:80000
        node b labels=gpu-mem:80001
        node c labels=gpu-mem:80GB
        node d labels=gpu-mem:9
        node e
        ",
    );
    let all = ["a", "b", "c", "d", "e"];
    assert_eq!(lab.places(&all, "big require=gpu-mem>80000"), ["b"]);
    assert_eq!(lab.places(&all, "small require=gpu-mem<80000"), ["d"]);
}

#[test]
fn c03_the_first_of_a_self_affine_group() {
    let mut lab = Lab::new(
        "
        node na cpus=4 labels=zone:a
        node nb cpus=4 labels=zone:b
        node nx cpus=4
        ",
    );
    runs(&mut lab, "q label=app:ring nodelist=na");
    let p = "p label=app:ring,tier:gold near=zone:app=ring near=zone:tier=gold";
    assert_eq!(lab.places(&["na", "nb", "nx"], p), ["na", "nb"]);
    // Once one of them runs, the others go where it is.
    runs(&mut lab, &format!("{p} nodelist=nb"));
    assert_eq!(lab.places(&["na", "nb", "nx"], p), ["nb"]);
    // One that does not select itself waits for somebody to be near.
    let id = lab.submit("lone near=zone:app=db time=10");
    assert_eq!(
        lab.why(id),
        "JOB_AFFINITY job affinity near(zone, app=db) leaves too few nodes: nodes 3, job affinity 0"
    );
}

#[test]
fn c04_anti_affinity_works_backwards_too() {
    let mut lab = Lab::new(
        "
        node a[1-2] cpus=4 labels=zone:a
        node b1 cpus=4 labels=zone:b
        ",
    );
    runs(&mut lab, "e apart=zone:app=web nodelist=a1");
    let all = ["a1", "a2", "b1"];
    assert_eq!(lab.places(&all, "w label=app:web"), ["b1"]);
    assert_eq!(lab.places(&all, "other label=app:db"), all);
    runs(&mut lab, "full nodelist=b1 cpus=4");
    let id = lab.submit("w label=app:web time=10");
    assert_eq!(
        lab.why(id),
        "ANTI_AFFINITY anti-affinity of other jobs leaves too few nodes: nodes 3, anti-affinity 1, \
         free 0 (because of 1)"
    );
}

#[test]
fn array_tasks_that_keep_apart_take_a_node_each() {
    let mut lab = Lab::new("node n[1-3] cpus=4");
    lab.submit("web label=app:web apart=node:app=web array=0-4 time=60");
    lab.round();
    let on: Vec<String> = lab
        .state
        .index
        .active
        .iter()
        .map(|id| lab.nodes_of(lab.state.jobs[id].placement.as_ref().unwrap()))
        .collect();
    assert_eq!(on, ["n1", "n2", "n3"]);
}

#[test]
fn c05_whose_job_it_is_may_be_ruled_out() {
    // A namespace is an owner here: whoever is labelled and not one's own is kept away from.
    let mut lab = Lab::new("node n1 cpus=4 mem=8G\nnode n2 cpus=4 mem=8G");
    runs(&mut lab, "own user=ada label=team:a nodelist=n1");
    runs(&mut lab, "other user=mara label=team:b nodelist=n2");
    let job = "new user=ada apart=node:team&user!=ada";
    assert_eq!(lab.places(&["n1", "n2"], job), ["n1"]);
}

#[test]
fn c06_spread_with_a_least_number_of_places() {
    let mut lab = Lab::new(
        "
        node a1 cpus=8 labels=zone:a
        node b1 cpus=8 labels=zone:b
        ",
    );
    for node in ["a1", "b1"] {
        runs(&mut lab, &format!("s label=app:s nodelist={node}"));
    }
    let all = ["a1", "b1"];
    assert_eq!(lab.places(&all, "s label=app:s even=zone:1:app=s"), all);
    let three = "s label=app:s even=zone:1:app=s:min=3";
    assert!(lab.places(&all, three).is_empty());
    let id = lab.submit(&format!("{three} time=60"));
    assert!(lab.why(id).starts_with("SPREAD spread zone, skew 1, app=s leaves too few nodes"));
    lab.cancel(id);
    lab.set_up("node c1 cpus=8 labels=zone:c");
    assert_eq!(lab.places(&["a1", "b1", "c1"], three), ["c1"]);
}

/// By Kubernetes' page on topology spread: a node that lacks the key of one rule is passed over, and
/// who is there counts for none of the rules.
#[test]
fn nodes_without_a_place_of_every_spread_rule_count_for_none() {
    let mut lab = Lab::new(
        "
        node a1 cpus=8 labels=zone:a,rack:1
        node b1 cpus=8 labels=zone:b,rack:2
        node c1 cpus=8 labels=zone:c
        ",
    );
    for node in ["a1", "b1"] {
        runs(&mut lab, &format!("s label=app:s nodelist={node}"));
    }
    let all = ["a1", "b1", "c1"];
    assert_eq!(lab.places(&all, "s label=app:s even=zone:1:app=s"), ["c1"]);
    let both = "s label=app:s even=zone:1:app=s even=rack:1:app=s";
    assert_eq!(lab.places(&all, both), ["a1", "b1"]);
}

#[test]
fn c07_tainted_places_count_unless_told_otherwise() {
    let mut lab = Lab::new(
        "
        node a1 cpus=8 labels=zone:a
        node b1 cpus=8 labels=zone:b
        node c1 cpus=8 labels=zone:c taints=dedicated
        ",
    );
    for node in ["a1", "b1"] {
        runs(&mut lab, &format!("s label=app:s nodelist={node}"));
    }
    let all = ["a1", "b1", "c1"];
    let job = "s label=app:s even=zone:1:app=s";
    assert!(lab.places(&all, job).is_empty());
    assert_eq!(lab.places(&all, &format!("{job}:taints")), ["a1", "b1"]);
    assert_eq!(lab.places(&all, &format!("{job} require=zone=a+b")), ["a1", "b1"]);
}

#[test]
fn taints_keep_away_who_does_not_tolerate_them() {
    let mut lab = Lab::new(
        "
        node a cpus=4 taints=gpu=h100:NoSchedule
        node b cpus=4 taints=maint:NoExecute
        node c cpus=4 taints=slow:PreferNoSchedule
        node d cpus=4
        ",
    );
    let all = ["a", "b", "c", "d"];
    assert_eq!(lab.places(&all, "plain"), ["c", "d"]);
    assert_eq!(lab.places(&all, "some tolerate=gpu=h100:NoSchedule"), ["a", "c", "d"]);
    assert_eq!(lab.places(&all, "any tolerate=*"), all);
    // A node that is only shunned comes last.
    assert_eq!(lab.placed("plain"), "d");
    runs(&mut lab, "full nodelist=d cpus=4");
    assert_eq!(lab.placed("plain"), "c");
    runs(&mut lab, "full nodelist=c cpus=4");
    let id = lab.submit("plain time=60");
    assert_eq!(
        lab.why(id),
        "TAINTS taints gpu=h100:NoSchedule; maint:NoExecute leaves too few nodes: nodes 4, taints 2, free 0"
    );
}

#[test]
fn wishes_decide_among_nodes_that_fit() {
    let mut lab =
        Lab::new("node n[1-4] cpus=4 labels=kind:old\nnode m[1-2] cpus=8 labels=kind:new");
    assert_eq!(lab.placed("a prefer=50:kind=new"), "m1");
    assert_eq!(lab.placed("b prefer=50:kind=new prefer=60:.cpus=4"), "n1");
    runs(&mut lab, "db label=app:db nodelist=n3");
    assert_eq!(lab.placed("c prefer-near=10:node:app=db"), "n3");
    assert_eq!(lab.placed("d"), "n3");
    assert_eq!(lab.placed("e prefer-apart=10:node:app=db"), "n1");
    assert_eq!(lab.placed("f even=node:1:app=db:soft"), "n1");
}

#[test]
fn who_waits_for_company_starts_with_it_in_one_round() {
    let mut lab = Lab::new("node n[1-2] cpus=4 labels=rack:r");
    let follower = lab.submit("follower near=rack:app=db time=60 priority=10");
    let db = lab.submit("db label=app:db time=60");
    let plan = lab.plan();
    assert_eq!(started(&plan), [db, follower]);
}

#[test]
fn a_gang_is_spread_evenly() {
    let mut lab = Lab::new(
        "
        node a[1-4] cpus=1 labels=zone:a
        node b[1-2] cpus=1 labels=zone:b
        node c[1-3] cpus=1 labels=zone:c
        ",
    );
    assert_eq!(lab.placed("six nodes=6 label=app:s even=zone:1:app=s"), "a[1-2],b[1-2],c[1-2]");
    assert_eq!(lab.placed("nine nodes=9 label=app:s even=zone:1:app=s"), "");
    let found = lab.placed("nine nodes=9 label=app:s even=zone:2:app=s");
    assert_eq!(found, "a[1-4],b[1-2],c[1-3]");
}

#[test]
fn a_promise_to_one_that_keeps_apart_is_kept() {
    let mut lab = Lab::new("node a cpus=2 labels=rack:r\nnode b cpus=2 labels=rack:r");
    runs(&mut lab, "old cpus=2 nodelist=a");
    lab.submit("head cpus=2 nodelist=a apart=rack:app=web time=60");
    // It would still be in the rack when the head's time comes.
    let web = lab.submit("web label=app:web time=700");
    let short = lab.submit("web label=app:web time=500");
    let plan = lab.plan();
    assert_eq!(started(&plan), [short], "{web}: {plan:#?}");
}
