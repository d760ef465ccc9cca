#![allow(clippy::needless_pass_by_value)] // values are written in place

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
    Change::Group(GangName { namespace, kind: GroupKind::Upstream, name }, Group { least })
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
