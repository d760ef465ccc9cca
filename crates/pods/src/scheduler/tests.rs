#![allow(clippy::needless_pass_by_value)] // values are written in place

mod claims;

use super::*;
use muster_engine_k8s::mirror::Kind;
use muster_engine_k8s::read::{GangName, Group, GroupKind};
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::from_secs(1000);

fn scheduler(nodes: &[(&str, &str, u32)]) -> Scheduler {
    let mut scheduler = Scheduler::new("muster");
    for (name, cpu, gpus) in nodes {
        take(&mut scheduler, node(name, cpu, *gpus, &json!({})));
    }
    scheduler
}

fn take(scheduler: &mut Scheduler, change: Change) {
    scheduler.take(change, NOW).expect("taken");
}

fn node(name: &str, cpu: &str, gpus: u32, labels: &Value) -> Change {
    let told = json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable":
        {"cpu": cpu, "memory": "8Gi", "pods": "4", "nvidia.com/gpu": gpus.to_string()}}});
    Change::Node(serde_json::from_value(told).expect("a node"))
}

/// A pod that asks for this, made so many seconds after the others.
fn pod(name: &str, seconds: u32, requests: &Value, more: &Value) -> Change {
    let mut told = json!({
        "metadata": {"name": name, "namespace": "blue", "uid": format!("uid-{name}"),
            "creationTimestamp": format!("2026-01-01T00:00:{seconds:02}Z")},
        "spec": {"schedulerName": "muster", "containers": [{"name": "c", "resources":
            {"requests": requests}}]},
        "status": {}});
    for (part, fields) in more.as_object().expect("an object") {
        let fields = fields.as_object().expect("an object").clone();
        told[part].as_object_mut().expect("one").extend(fields);
    }
    Change::Pod(serde_json::from_value(told).expect("a pod"))
}

fn gpu(name: &str, seconds: u32, more: &Value) -> Change {
    pod(name, seconds, &json!({"cpu": "1", "nvidia.com/gpu": "1"}), more)
}

/// Plans, and gives what is bound, as `pod node`.
fn bound(scheduler: &mut Scheduler) -> Vec<String> {
    let turn = scheduler.turn(NOW).expect("a turn");
    assert!(turn.broken.is_empty(), "{:?}", turn.broken);
    turn.bind.iter().map(|bind| format!("{} {}", bind.pod.name, bind.node)).collect()
}

fn told(scheduler: &mut Scheduler) -> BTreeMap<String, String> {
    scheduler.tell(NOW).into_iter().map(|tell| (tell.pod.name, tell.message)).collect()
}

#[test]
fn pods_are_bound_where_they_fit_the_more_important_first() {
    let mut scheduler = scheduler(&[("n1", "4", 1)]);
    take(&mut scheduler, gpu("a", 0, &json!({})));
    take(&mut scheduler, gpu("b", 1, &json!({"spec": {"priority": 10}})));
    assert_eq!(bound(&mut scheduler), ["b n1"]);
    assert!(bound(&mut scheduler).is_empty(), "what is on its way is not bound again");
    take(&mut scheduler, Change::Gone(Kind::Pod, "blue".to_owned(), "b".to_owned()));
    assert_eq!(bound(&mut scheduler), ["a n1"]);
}

#[test]
fn a_pod_that_asks_for_nothing_fits_where_there_is_no_cpu_left() {
    let mut scheduler = scheduler(&[("n1", "1", 0)]);
    take(&mut scheduler, pod("a", 0, &json!({"cpu": "1"}), &json!({})));
    take(&mut scheduler, pod("b", 1, &json!({}), &json!({})));
    take(&mut scheduler, pod("c", 2, &json!({"cpu": "1m"}), &json!({})));
    assert_eq!(bound(&mut scheduler), ["a n1", "b n1"]);
    assert_eq!(told(&mut scheduler)["c"], "0/1 nodes are available: 1 Insufficient cpu.");
}

#[test]
fn a_waiting_pod_is_told_counts_by_reason_and_what_would_help() {
    let mut scheduler = scheduler(&[("n1", "4", 2), ("n2", "4", 1)]);
    let taints = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let mut tainted = json!({"metadata": {"name": "n3"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "4"}}});
    tainted["spec"] = taints["spec"].clone();
    take(&mut scheduler, Change::Node(serde_json::from_value(tainted).expect("a node")));
    let wants = json!({"cpu": "1", "nvidia.com/gpu": "4"});
    take(&mut scheduler, pod("a", 0, &wants, &json!({})));
    assert!(bound(&mut scheduler).is_empty());
    let message = told(&mut scheduler).remove("a").expect("told");
    assert!(
        message.starts_with(
            "0/3 nodes are available: 1 node(s) had untolerated taint {k:NoSchedule}, 2 \
             Insufficient nvidia.com/gpu."
        ),
        "{message}"
    );
    assert!(message.contains("It would start now with limits of nvidia.com/gpu: 2"), "{message}");
    assert!(told(&mut scheduler).is_empty(), "nothing is said twice");
}

#[test]
fn a_pod_behind_one_that_ends_is_told_when() {
    let mut scheduler = scheduler(&[("n1", "4", 1)]);
    take(&mut scheduler, gpu("a", 0, &json!({"spec": {"activeDeadlineSeconds": 600}})));
    assert_eq!(bound(&mut scheduler), ["a n1"]);
    take(&mut scheduler, gpu("b", 1, &json!({})));
    assert!(bound(&mut scheduler).is_empty());
    assert_eq!(
        told(&mut scheduler)["b"],
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. \
         Expected to start by 1970-01-01T00:26:40Z (blue/a end)."
    );
}

fn member(name: &str, seconds: u32, group: &str) -> Change {
    gpu(name, seconds, &json!({"spec": {"schedulingGroup": {"podGroupName": group}}}))
}

fn group(name: &str, least: u32) -> Change {
    let (namespace, name) = ("blue".to_owned(), name.to_owned());
    Change::Group(
        GangName { namespace, kind: GroupKind::Upstream, name },
        Group { least, whole: None },
    )
}

/// Case C-12: two gangs of five, eight GPUs, pods created in turn.
#[test]
fn of_two_gangs_that_do_not_fit_together_one_starts_whole() {
    let mut scheduler = scheduler(&[("n1", "8", 4), ("n2", "8", 4)]);
    take(&mut scheduler, group("a", 5));
    take(&mut scheduler, group("b", 5));
    for at in 0..5 {
        take(&mut scheduler, member(&format!("a{at}"), 2 * at, "a"));
        take(&mut scheduler, member(&format!("b{at}"), 2 * at + 1, "b"));
    }
    let mut names: Vec<String> = bound(&mut scheduler);
    names.sort();
    let names: Vec<&str> = names.iter().map(|name| &name[..2]).collect();
    assert_eq!(names, ["a0", "a1", "a2", "a3", "a4"]);
    assert!(bound(&mut scheduler).is_empty());
    assert!(!told(&mut scheduler).is_empty());
    take(&mut scheduler, Change::Gone(Kind::Pod, "blue".to_owned(), "a0".to_owned()));
    take(&mut scheduler, Change::Gone(Kind::Pod, "blue".to_owned(), "a1".to_owned()));
    assert_eq!(bound(&mut scheduler).len(), 5, "all of b");
}

#[test]
fn pods_beyond_the_least_of_a_gang_follow_one_by_one() {
    let mut scheduler = scheduler(&[("n1", "8", 4)]);
    take(&mut scheduler, group("a", 3));
    for at in 0..5 {
        take(&mut scheduler, member(&format!("a{at}"), at, "a"));
    }
    assert_eq!(bound(&mut scheduler).len(), 3);
    assert_eq!(bound(&mut scheduler), ["a3 n1"]);
    let told = told(&mut scheduler);
    assert!(told["a4"].starts_with("0/1 nodes are available"), "{told:?}");
}

#[test]
fn a_member_that_was_not_bound_is_tried_again_alone() {
    let mut scheduler = scheduler(&[("n1", "8", 4)]);
    take(&mut scheduler, group("a", 3));
    for at in 0..3 {
        take(&mut scheduler, member(&format!("a{at}"), at, "a"));
    }
    let turn = scheduler.turn(NOW).expect("a turn");
    assert_eq!(turn.bind.len(), 3);
    scheduler.not_bound(turn.bind[1].job, NOW).expect("back");
    assert_eq!(bound(&mut scheduler), [format!("{} n1", turn.bind[1].pod.name)]);
}

/// Case C-06.
#[test]
fn fewer_places_than_wanted_count_as_one_that_is_empty() {
    let spread = |least: Value| {
        json!({"metadata": {"labels": {"app": "s"}}, "spec": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": "s"}}, "minDomains": least}]}})
    };
    let run = |least: Value| {
        let mut scheduler = Scheduler::new("muster");
        for zone in ["a", "b"] {
            take(&mut scheduler, node(&format!("n-{zone}"), "8", 0, &json!({"zone": zone})));
            let there = json!({"metadata": {"labels": {"app": "s"}},
                "spec": {"nodeName": format!("n-{zone}")}});
            take(&mut scheduler, pod(&format!("p-{zone}"), 0, &json!({}), &there));
        }
        take(&mut scheduler, pod("new", 1, &json!({}), &spread(least)));
        let bound = bound(&mut scheduler).len();
        (bound, told(&mut scheduler).remove("new"))
    };
    assert_eq!(run(json!(null)), (1, None));
    let text = "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.";
    assert_eq!(run(json!(3)), (0, Some(text.to_owned())));
}

#[test]
fn host_ports_are_taken_once_on_a_node() {
    let port = json!({"spec": {"containers": [{"name": "c",
        "ports": [{"containerPort": 80, "hostPort": 80}]}]}});
    let mut scheduler = scheduler(&[("n1", "8", 0)]);
    take(&mut scheduler, pod("a", 0, &json!({}), &port));
    take(&mut scheduler, pod("b", 1, &json!({}), &port));
    assert_eq!(bound(&mut scheduler), ["a n1"]);
    assert_eq!(
        told(&mut scheduler)["b"],
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    );
}

/// A budget over the pods with this label.
fn budget(name: &str, app: &str, allowed: u32) -> Change {
    let told = json!({"metadata": {"name": name, "namespace": "blue"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1}});
    let told = serde_json::from_value(told).expect("a budget");
    Change::Budget(muster_engine_k8s::read::budget(&told))
}

/// A pod that runs on a node with one GPU.
fn running(name: &str, node: &str, priority: i32, labels: &Value) -> Change {
    gpu(
        name,
        0,
        &json!({"spec": {"nodeName": node, "priority": priority}, "metadata": {"labels": labels}}),
    )
}

fn leaving(name: &str, node: &str, priority: i32) -> Change {
    let at = "2026-01-01T00:01:00Z";
    gpu(
        name,
        0,
        &json!({"spec": {"nodeName": node, "priority": priority},
            "metadata": {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}}),
    )
}

/// What is decided once those that run have run a while.
fn later(scheduler: &mut Scheduler) -> Turn {
    let turn = scheduler.turn(Timestamp::from_secs(1060)).expect("a turn");
    assert!(turn.broken.is_empty(), "{:?}", turn.broken);
    turn
}

fn bound_later(scheduler: &mut Scheduler) -> Vec<String> {
    let turn = later(scheduler);
    turn.bind.iter().map(|bind| format!("{} {}", bind.pod.name, bind.node)).collect()
}

fn gone(name: &str) -> Change {
    Change::Gone(Kind::Pod, "blue".to_owned(), name.to_owned())
}

fn evicted(turn: &Turn) -> Vec<&str> {
    turn.evict.iter().map(|evict| evict.pod.name.as_str()).collect()
}

#[test]
fn a_pod_of_lower_priority_makes_room_and_nobody_else_gets_it() {
    let mut scheduler = scheduler(&[("n1", "4", 1), ("n2", "4", 1)]);
    take(&mut scheduler, running("low", "n1", 5, &json!({})));
    take(&mut scheduler, running("lower", "n2", 4, &json!({})));
    take(&mut scheduler, gpu("high", 1, &json!({"spec": {"priority": 10}})));
    let turn = later(&mut scheduler);
    assert!(turn.bind.is_empty(), "{turn:?}");
    assert_eq!(evicted(&turn), ["lower"]);
    assert_eq!((turn.evict[0].by.as_str(), turn.evict[0].node.as_str()), ("uid-high", "n2"));
    assert_eq!(turn.nominate.len(), 1);
    assert_eq!(turn.nominate[0].node.as_deref(), Some("n2"));
    // It takes its time to end; meanwhile nobody else is told to, and a smaller one gets nothing.
    take(&mut scheduler, leaving("lower", "n2", 4));
    take(&mut scheduler, gpu("small", 2, &json!({"spec": {"priority": 3}})));
    let turn = later(&mut scheduler);
    assert_eq!((turn.evict, turn.nominate, turn.bind), (vec![], vec![], vec![]));
    let told = told(&mut scheduler);
    assert!(told["high"].contains("blue/lower"), "{told:?}");
    take(&mut scheduler, gone("lower"));
    assert_eq!(bound_later(&mut scheduler), ["high n2"]);
}

#[test]
fn who_never_preempts_or_is_equal_waits_and_budgets_are_kept_where_they_can_be() {
    let mut scheduler = scheduler(&[("n1", "4", 1), ("n2", "4", 1)]);
    take(&mut scheduler, budget("web", "web", 0));
    take(&mut scheduler, running("web", "n1", 1, &json!({"app": "web"})));
    take(&mut scheduler, running("batch", "n2", 5, &json!({"app": "batch"})));
    let never = json!({"spec": {"priority": 7, "preemptionPolicy": "Never"}});
    take(&mut scheduler, gpu("meek", 1, &never));
    take(&mut scheduler, gpu("equal", 2, &json!({"spec": {"priority": 1}})));
    assert_eq!(later(&mut scheduler), Turn::default());
    take(&mut scheduler, gpu("high", 3, &json!({"spec": {"priority": 9}})));
    assert_eq!(evicted(&later(&mut scheduler)), ["batch"]);
    // A second one finds only who is guarded by the budget.
    take(&mut scheduler, gpu("next", 4, &json!({"spec": {"priority": 8}})));
    assert_eq!(evicted(&later(&mut scheduler)), ["web"]);
}

#[test]
fn a_gang_makes_room_whole_and_has_room_made_whole() {
    let mut scheduler = scheduler(&[("n1", "4", 1), ("n2", "4", 1), ("n3", "4", 1)]);
    let gang = |name: &str, size: u32| json!({"muster.dev/gang": name, "muster.dev/gang-size": size.to_string()});
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        let more = json!({"spec": {"nodeName": node, "priority": 2},
            "metadata": {"annotations": gang("old", 2)}});
        take(&mut scheduler, gpu(name, 0, &more));
    }
    take(&mut scheduler, running("c", "n3", 3, &json!({})));
    // One more than a and b: the cheapest is to take one of less priority, but that has company.
    for (name, second) in [("x", 1), ("y", 2)] {
        let more = json!({"spec": {"priority": 9}, "metadata": {"annotations": gang("new", 2)}});
        take(&mut scheduler, gpu(name, second, &more));
    }
    let turn = later(&mut scheduler);
    assert_eq!((evicted(&turn), turn.nominate.len()), (vec!["a", "b"], 2));
    take(&mut scheduler, gone("a"));
    assert!(bound_later(&mut scheduler).is_empty(), "half of it does not start");
    take(&mut scheduler, gone("b"));
    assert_eq!(bound_later(&mut scheduler).len(), 2);
}

#[test]
fn a_pod_that_was_not_told_to_end_stays_and_the_other_looks_again() {
    let mut scheduler = scheduler(&[("n1", "4", 1)]);
    take(&mut scheduler, running("low", "n1", 1, &json!({})));
    take(&mut scheduler, gpu("high", 1, &json!({"spec": {"priority": 10}})));
    let turn = later(&mut scheduler);
    assert_eq!(evicted(&turn), ["low"]);
    scheduler.stays(turn.evict[0].job, NOW).expect("taken back");
    // It is tried again, as long as there is no better way.
    let again = later(&mut scheduler);
    assert_eq!(evicted(&again), ["low"]);
    scheduler.stays(again.evict[0].job, NOW).expect("taken back");
    take(&mut scheduler, node("n2", "4", 1, &json!({})));
    let turn = later(&mut scheduler);
    let bound: Vec<&str> = turn.bind.iter().map(|bind| bind.node.as_str()).collect();
    assert_eq!((bound, evicted(&turn)), (vec!["n2"], vec![]));
}
