use super::*;
use muster_model::JobState;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::from_secs(1000);

fn mirror() -> Mirror {
    let mut mirror = Mirror::new("muster", Policy::default());
    for name in ["n1", "n2"] {
        take(&mut mirror, node(name, "4"));
    }
    mirror.settle(NOW).expect("settled");
    mirror
}

fn take(mirror: &mut Mirror, change: Change) {
    mirror.take(change, NOW).expect("taken");
}

fn node(name: &str, cpu: &str) -> Change {
    let told = json!({"metadata": {"name": name}, "status": {"allocatable":
        {"cpu": cpu, "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "2"}}});
    Change::Node(serde_json::from_value(told).expect("a node"))
}

/// A pod of this scheduler with one CPU and a GPU, and this beside or instead.
fn pod(name: &str, more: &Value) -> Change {
    let mut told = json!({
        "metadata": {"name": name, "namespace": "blue", "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "muster", "containers": [{"name": "c", "resources":
            {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}]},
        "status": {}});
    for (part, fields) in more.as_object().expect("an object") {
        let fields = fields.as_object().expect("an object").clone();
        told[part].as_object_mut().expect("one").extend(fields);
    }
    Change::Pod(serde_json::from_value(told).expect("a pod"))
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "blue".to_owned(), name: name.to_owned() }
}

fn job<'a>(mirror: &'a Mirror, name: &str) -> Option<&'a Job> {
    mirror.job(&key(name)).and_then(|job| mirror.state().jobs.get(&job)).map(AsRef::as_ref)
}

fn standing(mirror: &Mirror, name: &str) -> Option<JobState> {
    job(mirror, name).map(|job| job.state)
}

fn gang_of(mirror: &Mirror, name: &str) -> Option<u32> {
    job(mirror, name).map(|job| job.spec.gang.as_ref().map_or(1, |gang| gang.size))
}

#[test]
fn a_bound_pod_has_its_room_also_where_it_could_not_have_been_scheduled() {
    let mut mirror = mirror();
    let claimed = json!({"spec": {"nodeName": "n1",
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}],
        "resourceClaims": [{"name": "gpu"}]}});
    take(&mut mirror, pod("a", &claimed));
    let placement = job(&mirror, "a").and_then(|job| job.placement.clone()).expect("a place");
    assert_eq!(placement.nodes[0].cpu_pool, 1000);
    assert_eq!(placement.nodes[0].devices.len(), 1);
}

/// The free GPUs of a node are as many as it has less than all that is asked for of it, as the API
/// server counts, also where others have given out more than there are.
#[test]
fn devices_are_dealt_again_when_some_are_given_back_or_lost() {
    let mut mirror = mirror();
    let with = |gpus: &str| {
        json!({"spec": {"nodeName": "n1", "containers": [{"name": "c", "resources":
            {"requests": {"nvidia.com/gpu": gpus}}}]}})
    };
    let has = |mirror: &Mirror, name: &str| -> Vec<u32> {
        let placement = job(mirror, name).and_then(|job| job.placement.clone()).expect("a place");
        placement.nodes[0].devices.iter().map(|device| device.index).collect()
    };
    take(&mut mirror, pod("a", &with("2")));
    take(&mut mirror, pod("b", &with("1")));
    assert_eq!((has(&mirror, "a"), has(&mirror, "b")), (vec![0, 1], vec![]));
    take(&mut mirror, Change::Gone(Kind::Pod, "blue".to_owned(), "a".to_owned()));
    assert_eq!(has(&mirror, "b"), [0]);
    take(&mut mirror, pod("c", &with("1")));
    take(&mut mirror, Change::Gone(Kind::Pod, "blue".to_owned(), "b".to_owned()));
    assert_eq!(has(&mirror, "c"), [1]);
    let mut fewer = json!({"metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "pods": "10", "nvidia.com/gpu": "1"}}});
    take(&mut mirror, Change::Node(serde_json::from_value(fewer.clone()).expect("a node")));
    assert_eq!(has(&mirror, "c"), [0]);
    fewer["status"]["allocatable"]["nvidia.com/gpu"] = json!("0");
    take(&mut mirror, Change::Node(serde_json::from_value(fewer).expect("a node")));
    assert!(has(&mirror, "c").is_empty());
}

#[test]
fn pods_with_a_node_have_its_room_whoever_put_them_there() {
    let mut mirror = mirror();
    let bound = |node: &str| json!({"spec": {"nodeName": node, "schedulerName": "other"}});
    take(&mut mirror, pod("a", &bound("n1")));
    take(&mut mirror, pod("b", &bound("n1")));
    take(&mut mirror, pod("c", &json!({"spec": {"schedulerName": "other"}})));
    let devices = |name: &str| {
        let placement = job(&mirror, name).and_then(|job| job.placement.clone()).expect("one");
        placement.nodes[0].devices.iter().map(|device| device.index).collect::<Vec<_>>()
    };
    assert_eq!((devices("a"), devices("b")), (vec![0], vec![1]));
    assert_eq!(standing(&mirror, "c"), None, "another scheduler's pod is its own affair");
    take(
        &mut mirror,
        pod(
            "a",
            &json!({"spec": {"nodeName": "n1"}, "status":
        {"phase": "Succeeded"}}),
        ),
    );
    assert_eq!(standing(&mirror, "a"), None);
    assert_eq!(standing(&mirror, "b"), Some(JobState::Running));
    assert_eq!(mirror.state().jobs.len(), 1, "nothing is left of what is gone");
}

#[test]
fn a_pod_on_its_way_takes_room_and_waits_again_where_it_did_not_get_there() {
    let mut mirror = mirror();
    take(&mut mirror, pod("a", &json!({})));
    let id = mirror.job(&key("a")).expect("a job");
    let share =
        placed::share(mirror.state(), NodeId(0), &job(&mirror, "a").expect("one").spec.request);
    let placement = Arc::new(Placement { nodes: vec![share], ..Placement::default() });
    mirror.assume(id, &placement, TimeLimit::Unlimited, NOW).expect("assumed");
    assert_eq!(standing(&mirror, "a"), Some(JobState::Starting));
    let mut other = mirror.clone();
    other.not_bound(id, NOW).expect("back");
    assert_eq!(standing(&other, "a"), Some(JobState::Pending));
    take(&mut mirror, pod("a", &json!({"spec": {"nodeName": "n1"}})));
    assert_eq!(standing(&mirror, "a"), Some(JobState::Running));
    assert_eq!(mirror.job(&key("a")), Some(id), "it is the same job");
    let mut elsewhere = mirror.clone();
    take(&mut elsewhere, pod("a", &json!({"spec": {"nodeName": "n2"}})));
    let node =
        job(&elsewhere, "a").and_then(|job| job.placement.clone()).expect("one").nodes[0].node;
    assert_eq!(node, NodeId(1), "where it is counts, not where it was meant to be");
}

#[test]
fn gates_leaving_and_what_cannot_be_asked_keep_a_pod_from_the_queue() {
    let mut mirror = mirror();
    take(&mut mirror, pod("a", &json!({"spec": {"schedulingGates": [{"name": "budget"}]}})));
    take(&mut mirror, pod("b", &json!({"spec": {"resourceClaims": [{"name": "x"}]}})));
    assert_eq!((standing(&mirror, "a"), standing(&mirror, "b")), (None, None));
    let kept: Vec<String> =
        mirror.kept().map(|(record, why)| format!("{} {why}", record.key)).collect();
    assert_eq!(kept.len(), 1, "a gated pod is told of by the API server: {kept:?}");
    assert!(kept[0].starts_with("blue/b resource claims are not served here"));
    take(&mut mirror, pod("a", &json!({})));
    assert_eq!(standing(&mirror, "a"), Some(JobState::Pending));
    take(
        &mut mirror,
        pod("a", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    );
    assert_eq!(standing(&mirror, "a"), None);
}

#[test]
fn what_says_nothing_new_changes_nothing() {
    let mut mirror = mirror();
    take(&mut mirror, pod("a", &json!({})));
    let before = mirror.state().seq;
    take(&mut mirror, node("n1", "4"));
    take(
        &mut mirror,
        pod(
            "a",
            &json!({"status": {"conditions":
        [{"type": "PodScheduled", "status": "False", "message": "no room"}]}}),
        ),
    );
    assert_eq!(mirror.state().seq, before);
    let id = mirror.job(&key("a")).expect("a job");
    assert_eq!(mirror.pod(id).and_then(|pod| pod.told.as_deref()), Some("no room"));
}

#[test]
fn pods_come_before_their_node_and_stay_after_it() {
    let mut mirror = mirror();
    take(&mut mirror, pod("a", &json!({"spec": {"nodeName": "n9"}})));
    assert_eq!(standing(&mirror, "a"), None);
    take(&mut mirror, node("n9", "4"));
    assert_eq!(standing(&mirror, "a"), Some(JobState::Running));
    take(&mut mirror, Change::Gone(Kind::Node, String::new(), "n9".to_owned()));
    assert_eq!(standing(&mirror, "a"), None);
    mirror.settle(NOW).expect("settled");
    assert_eq!(mirror.state().partitions[PARTITION].nodes.len(), 2);
    take(&mut mirror, node("n9", "4"));
    assert_eq!(standing(&mirror, "a"), Some(JobState::Running));
}

#[test]
fn a_listing_tells_what_is_gone() {
    let mut mirror = mirror();
    take(&mut mirror, pod("a", &json!({})));
    take(&mut mirror, pod("b", &json!({})));
    let names = |all: &[(&str, &str)]| {
        all.iter().map(|(ns, name)| ((*ns).to_owned(), (*name).to_owned())).collect()
    };
    take(&mut mirror, Change::Listed(Kind::Pod, names(&[("blue", "b")])));
    assert_eq!((standing(&mirror, "a"), standing(&mirror, "b").is_some()), (None, true));
    take(&mut mirror, Change::Listed(Kind::Node, names(&[("", "n1")])));
    assert_eq!(mirror.state().nodes.len(), 1);
}

fn of_group(name: &str, seconds: u32) -> Change {
    pod(
        name,
        &json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:{seconds:02}Z")},
        "spec": {"schedulingGroup": {"podGroupName": "g"}}}),
    )
}

fn group(least: u32) -> Change {
    let (namespace, name) = ("blue".to_owned(), "g".to_owned());
    let name = GangName { namespace, kind: crate::read::GroupKind::Upstream, name };
    Change::Group(name, Group { least, whole: None })
}

/// Case C-13.
#[test]
fn members_wait_for_their_group_and_for_each_other() {
    let mut mirror = mirror();
    for at in 0..3 {
        take(&mut mirror, of_group(&format!("p{at}"), at));
    }
    assert_eq!(gang_of(&mirror, "p0"), None);
    let text = |mirror: &Mirror| mirror.kept().map(|kept| kept.1).next().expect("a sentence");
    assert_eq!(text(&mirror), "waiting for pod group \"g\" to be there");
    take(&mut mirror, group(4));
    assert_eq!(gang_of(&mirror, "p0"), None);
    assert_eq!(text(&mirror), "waiting for pods of gang \"g\": 3 of at least 4 are there");
    take(&mut mirror, of_group("p3", 3));
    let sizes: Vec<Option<u32>> = (0..4).map(|n| gang_of(&mirror, &format!("p{n}"))).collect();
    assert_eq!(sizes, [Some(4); 4]);
    take(&mut mirror, of_group("p4", 4));
    assert_eq!(gang_of(&mirror, "p4"), None, "one more waits for the first four");
    take(&mut mirror, group(0));
    assert_eq!(gang_of(&mirror, "p4"), Some(1), "a group without a gang is each for itself");
}

/// Case C-14.
#[test]
fn one_that_is_made_anew_starts_alone_while_the_others_run() {
    let mut mirror = mirror();
    take(&mut mirror, group(3));
    for at in 0..2 {
        take(
            &mut mirror,
            pod(
                &format!("p{at}"),
                &json!({"spec": {"nodeName": "n1",
            "schedulingGroup": {"podGroupName": "g"}}}),
            ),
        );
    }
    take(&mut mirror, of_group("p2", 2));
    assert_eq!(gang_of(&mirror, "p2"), Some(1));
    take(&mut mirror, Change::Gone(Kind::Pod, "blue".to_owned(), "p0".to_owned()));
    assert_eq!(gang_of(&mirror, "p2"), None, "two are lacking and one is there");
    take(&mut mirror, of_group("p0", 4));
    assert_eq!((gang_of(&mirror, "p0"), gang_of(&mirror, "p2")), (Some(2), Some(2)));
}
