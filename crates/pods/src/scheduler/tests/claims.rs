//! Pods with claims of devices.

use super::*;
use muster_engine_k8s::dra::{self, Told, Written};
use std::collections::BTreeSet;

const DRIVER: &str = "gpu.example.com";

fn devices(told: Told) -> Change {
    Change::Devices(told)
}

/// A slice of a node with so many devices, that is the whole pool of its node.
fn slice(node: &str, count: usize, more: &Value) -> Change {
    let devices: Vec<Value> = (0..count)
        .map(|at| json!({"name": format!("gpu-{at}"), "attributes": {"index": {"int": at}}}))
        .collect();
    let mut spec = json!({"driver": DRIVER, "nodeName": node, "devices": devices,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}});
    spec.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    let told = json!({"metadata": {"name": format!("slice-{node}")}, "spec": spec});
    self::devices(Told::Slice(Box::new(dra::slice(
        &serde_json::from_value(told).expect("a slice"),
    ))))
}

fn class(name: &str, selector: &str) -> Change {
    let told = json!({"metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": selector}}]}});
    let class = dra::class(&serde_json::from_value(told).expect("a class"));
    devices(Told::Class(name.to_owned(), Box::new(class)))
}

fn claim_of(name: &str, spec: &Value, more: &Value) -> Change {
    let mut told = json!({"metadata": {"name": name, "namespace": "blue",
        "uid": format!("uid-{name}"), "resourceVersion": "10"}, "spec": {"devices": spec}});
    told.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    let claim = dra::resource_claim(&serde_json::from_value(told).expect("a claim"));
    devices(Told::Claim(Box::new(claim)))
}

fn asks(count: u32, selectors: &[&str]) -> Value {
    let selectors: Vec<Value> =
        selectors.iter().map(|text| json!({"cel": {"expression": text}})).collect();
    json!({"requests": [{"name": "r", "exactly":
        {"deviceClassName": "gpu", "count": count, "selectors": selectors}}]})
}

fn claim(name: &str, count: u32) -> Change {
    claim_of(name, &asks(count, &[]), &json!({}))
}

/// What a claim has: devices of a node, by name.
fn has(node: &str, names: &[&str], users: &[&str]) -> Value {
    let results: Vec<Value> = names
        .iter()
        .map(|name| json!({"request": "r", "driver": DRIVER, "pool": node, "device": name}))
        .collect();
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let users: Vec<Value> = users
        .iter()
        .map(|pod| json!({"resource": "pods", "name": pod, "uid": format!("uid-{pod}")}))
        .collect();
    json!({"status": {"reservedFor": users, "allocation": {"devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}}})
}

/// A pod with this claim, made so many seconds after the others.
fn user(name: &str, seconds: u32, claim: &str, more: &Value) -> Change {
    let mut all = more.clone();
    let spec = all.as_object_mut().expect("one").entry("spec").or_insert_with(|| json!({}));
    spec["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
    pod(name, seconds, &json!({"cpu": "1"}), &all)
}

/// Nodes with so many devices of claims.
fn cluster(nodes: &[(&str, usize)]) -> Scheduler {
    let mut scheduler = Scheduler::new("muster");
    take(&mut scheduler, Change::Listed(Kind::ResourceClaim, BTreeSet::new()));
    take(&mut scheduler, class("gpu", "device.driver == 'gpu.example.com'"));
    for (name, count) in nodes {
        take(&mut scheduler, node(name, "64", 0, &json!({})));
        take(&mut scheduler, slice(name, *count, &json!({})));
    }
    scheduler
}

/// Plans, and gives what is bound, as `pod node device+device`.
fn given(scheduler: &mut Scheduler) -> Vec<String> {
    let turn = scheduler.turn(NOW).expect("a turn");
    assert!(turn.broken.is_empty(), "{:?}", turn.broken);
    assert!(scheduler.mirror().given_twice().is_empty());
    let bind = |bind: &Bind| {
        let results = bind.claims.iter().flat_map(|one| {
            let results = one.allocation.as_ref().map(|all| all["devices"]["results"].clone());
            results.and_then(|all| all.as_array().cloned()).unwrap_or_default()
        });
        let devices: Vec<String> =
            results.map(|one| one["device"].as_str().expect("a name").to_owned()).collect();
        format!("{} {} {}", bind.pod.name, bind.node, devices.join("+"))
    };
    turn.bind.iter().map(bind).collect()
}

#[test]
fn each_claim_gets_devices_of_its_own_and_who_gets_none_is_told() {
    let mut scheduler = cluster(&[("n1", 3)]);
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        take(&mut scheduler, claim(name, 1 + u32::from(at == 1)));
        take(&mut scheduler, user(name, at as u32, name, &json!({})));
    }
    assert_eq!(given(&mut scheduler), ["a n1 gpu-0", "b n1 gpu-1+gpu-2"]);
    assert!(given(&mut scheduler).is_empty(), "what is on its way is not given again");
    let said = "0/1 nodes are available: 1 cannot allocate all claims.";
    assert_eq!(told(&mut scheduler)["c"], said);
    // What is given back is there for others.
    take(&mut scheduler, Change::Gone(Kind::Pod, "blue".to_owned(), "a".to_owned()));
    take(&mut scheduler, Change::Gone(Kind::ResourceClaim, "blue".to_owned(), "a".to_owned()));
    assert_eq!(given(&mut scheduler), ["c n1 gpu-0"]);
}

#[test]
fn what_is_written_is_what_the_api_takes() {
    let mut scheduler = cluster(&[("n1", 1)]);
    take(&mut scheduler, claim("a", 1));
    take(&mut scheduler, user("a", 0, "a", &json!({})));
    let turn = scheduler.turn(NOW).expect("a turn");
    let one = &turn.bind[0].claims[0];
    assert_eq!((one.uid.as_str(), one.version.as_str(), one.is_kept), ("uid-a", "10", false));
    let expected = json!({
        "devices": {"results": [
            {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}});
    assert_eq!(one.allocation, Some(expected));
}

#[test]
fn a_pod_waits_for_its_claim_to_be_made() {
    let mut scheduler = cluster(&[("n1", 2)]);
    take(&mut scheduler, user("a", 0, "mine", &json!({})));
    let template = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    let of = |status: Value| {
        pod("b", 1, &json!({}), &json!({"spec": {"resourceClaims": template}, "status": status}))
    };
    take(&mut scheduler, of(json!({})));
    assert!(given(&mut scheduler).is_empty());
    let said = told(&mut scheduler);
    assert_eq!(said["a"], "resourceclaim \"mine\" not found");
    assert_eq!(said["b"], "waiting for the resource claim \"gpu\" to be made from its template");
    take(&mut scheduler, claim("mine", 1));
    assert_eq!(given(&mut scheduler), ["a n1 gpu-0"]);
    let made = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "b-gpu-x"}]});
    take(&mut scheduler, of(made.clone()));
    take(&mut scheduler, claim("b-gpu-x", 1));
    assert!(given(&mut scheduler).is_empty(), "somebody else's claim of that name");
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "uid-b",
        "controller": true}]);
    let owned = json!({"metadata": {"name": "b-gpu-x", "namespace": "blue", "uid": "u",
        "resourceVersion": "11", "ownerReferences": owner}});
    take(&mut scheduler, claim_of("b-gpu-x", &asks(1, &[]), &owned));
    assert_eq!(given(&mut scheduler), ["b n1 gpu-1"]);
}

#[test]
fn a_gang_gets_all_its_devices_or_none() {
    let mut scheduler = cluster(&[("n1", 2), ("n2", 2)]);
    let gang = |size: u32| {
        json!({"metadata": {"annotations":
            {"muster.dev/gang": format!("g{size}"), "muster.dev/gang-size": size.to_string()}}})
    };
    for at in 0..5 {
        let name = format!("five-{at}");
        take(&mut scheduler, claim(&name, 1));
        take(&mut scheduler, user(&name, at, &name, &gang(5)));
    }
    assert!(given(&mut scheduler).is_empty());
    for at in 0..4 {
        let name = format!("four-{at}");
        take(&mut scheduler, claim(&name, 1));
        take(&mut scheduler, user(&name, 10 + at, &name, &gang(4)));
    }
    let given = given(&mut scheduler);
    let places: BTreeSet<&str> =
        given.iter().filter_map(|text| text.split_once(' ')).map(|t| t.1).collect();
    assert_eq!(
        places,
        BTreeSet::from(["n1 gpu-0", "n1 gpu-1", "n2 gpu-0", "n2 gpu-1"]),
        "{given:?}"
    );
}

#[test]
fn pods_that_share_a_claim_come_to_its_node() {
    let mut scheduler = cluster(&[("n1", 1), ("n2", 1)]);
    take(&mut scheduler, claim("shared", 1));
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        take(&mut scheduler, user(name, at as u32, "shared", &json!({})));
    }
    let mut all = given(&mut scheduler);
    all.extend(given(&mut scheduler));
    let nodes: BTreeSet<&str> = all.iter().filter_map(|text| text.split(' ').nth(1)).collect();
    assert_eq!((all.len(), nodes.len()), (3, 1), "{all:?}");
    // The other node's device is still there.
    take(&mut scheduler, claim("own", 1));
    take(&mut scheduler, user("d", 9, "own", &json!({})));
    let last = given(&mut scheduler);
    assert!(last.len() == 1 && !last[0].contains(nodes.first().expect("one")), "{last:?}");
}

#[test]
fn what_somebody_else_allocated_counts_and_decides_where_its_pods_go() {
    let mut scheduler = cluster(&[("n1", 2), ("n2", 2)]);
    take(
        &mut scheduler,
        claim_of("theirs", &asks(2, &[]), &has("n1", &["gpu-0", "gpu-1"], &["x"])),
    );
    take(&mut scheduler, claim_of("ours", &asks(1, &[]), &has("n2", &["gpu-1"], &[])));
    take(&mut scheduler, claim("new", 1));
    take(&mut scheduler, user("a", 0, "ours", &json!({})));
    take(&mut scheduler, user("b", 1, "new", &json!({})));
    let turn = scheduler.turn(NOW).expect("a turn");
    let of = |name: &str| turn.bind.iter().find(|bind| bind.pod.name == name).expect("bound");
    assert_eq!(of("a").node, "n2");
    assert_eq!(of("a").claims[0].allocation, None, "it is only reserved");
    assert_eq!(of("b").node, "n2");
    let result = &of("b").claims[0].allocation.as_ref().expect("one")["devices"]["results"][0];
    assert_eq!(result["device"], "gpu-0");
}

#[test]
fn a_claim_that_was_taken_meanwhile_is_followed_to_where_it_is() {
    let mut scheduler = cluster(&[("n1", 1), ("n2", 1)]);
    take(&mut scheduler, claim("a", 1));
    take(&mut scheduler, user("a", 0, "a", &json!({})));
    let turn = scheduler.turn(NOW).expect("a turn");
    let (bind, other) = (&turn.bind[0], if turn.bind[0].node == "n1" { "n2" } else { "n1" });
    let Change::Devices(Told::Claim(there)) =
        claim_of("a", &asks(1, &[]), &has(other, &["gpu-0"], &["someone"]))
    else {
        panic!("a claim");
    };
    scheduler.written(vec![(bind.claims[0].claim.clone(), Written::Other(there))]);
    scheduler.not_bound(bind.job, NOW).expect("it waits");
    assert_eq!(given(&mut scheduler), [format!("a {other} ")]);
    take(&mut scheduler, claim("b", 1));
    take(&mut scheduler, user("b", 1, "b", &json!({})));
    assert_eq!(given(&mut scheduler), [format!("b {} gpu-0", bind.node)], "it was given back");
}

#[test]
fn devices_are_held_until_it_is_known_what_became_of_them() {
    let mut scheduler = cluster(&[("n1", 1)]);
    take(&mut scheduler, claim("a", 1));
    take(&mut scheduler, claim("b", 1));
    take(&mut scheduler, user("a", 0, "a", &json!({})));
    let turn = scheduler.turn(NOW).expect("a turn");
    let bind = turn.bind[0].clone();
    // The claim as it was before, told late, frees nothing.
    take(&mut scheduler, claim("a", 1));
    take(&mut scheduler, user("b", 1, "b", &json!({})));
    assert!(given(&mut scheduler).is_empty());
    scheduler.written(vec![(bind.claims[0].claim.clone(), Written::Unknown)]);
    scheduler.not_bound(bind.job, NOW).expect("it waits");
    assert_eq!(given(&mut scheduler), ["a n1 gpu-0"], "the same device, tried again");
    scheduler.written(vec![(bind.claims[0].claim.clone(), Written::Yes("20".to_owned()))]);
    let freed = json!({"metadata": {"name": "a", "namespace": "blue", "uid": "uid-a",
        "resourceVersion": "21"}});
    assert!(given(&mut scheduler).is_empty());
    take(&mut scheduler, Change::Gone(Kind::Pod, "blue".to_owned(), "a".to_owned()));
    take(&mut scheduler, claim_of("a", &asks(1, &[]), &freed));
    assert_eq!(given(&mut scheduler), ["b n1 gpu-0"], "the controller took it from a finished pod");
}

#[test]
fn claims_of_different_shapes_do_not_get_the_same_device_in_one_turn() {
    let mut scheduler = cluster(&[("n1", 2)]);
    take(&mut scheduler, claim_of("any", &asks(2, &[]), &json!({})));
    let index = "device.attributes['gpu.example.com'].index == 0";
    take(&mut scheduler, claim_of("first", &asks(1, &[index]), &json!({})));
    take(&mut scheduler, user("a", 0, "any", &json!({})));
    take(&mut scheduler, user("b", 1, "first", &json!({})));
    assert_eq!(given(&mut scheduler), ["a n1 gpu-0+gpu-1"]);
    assert!(given(&mut scheduler).is_empty());
    assert!(told(&mut scheduler)["b"].contains("cannot allocate all claims"));
    take(&mut scheduler, Change::Gone(Kind::Pod, "blue".to_owned(), "a".to_owned()));
    take(&mut scheduler, Change::Gone(Kind::ResourceClaim, "blue".to_owned(), "any".to_owned()));
    assert_eq!(given(&mut scheduler), ["b n1 gpu-0"]);
}

#[test]
fn a_gang_whose_claims_want_the_same_device_does_not_hold_up_others() {
    let mut scheduler = cluster(&[("n1", 2)]);
    let gang = json!({"metadata": {"annotations":
        {"muster.dev/gang": "g", "muster.dev/gang-size": "2"}}});
    let index = "device.attributes['gpu.example.com'].index == 0";
    let same = "device.attributes['gpu.example.com'].index < 1";
    take(&mut scheduler, claim_of("x", &asks(1, &[index]), &json!({})));
    take(&mut scheduler, claim_of("y", &asks(1, &[same]), &json!({})));
    take(&mut scheduler, user("x", 0, "x", &gang));
    take(&mut scheduler, user("y", 1, "y", &gang));
    for at in 0..2 {
        let name = format!("z{at}");
        take(&mut scheduler, claim(&name, 1));
        take(&mut scheduler, user(&name, 10 + at, &name, &json!({})));
    }
    let mut all = BTreeSet::new();
    for _ in 0..4 {
        all.extend(given(&mut scheduler).into_iter().map(|text| text[..2].to_owned()));
    }
    assert_eq!(all, BTreeSet::from(["z0".to_owned(), "z1".to_owned()]));
}

#[test]
fn what_is_wrong_with_a_claim_is_told_on_its_pod() {
    let mut scheduler = cluster(&[("n1", 1)]);
    let cases = [
        ("malformed", asks(1, &["device.driver =="]), "malformed"),
        ("fails", asks(1, &["device.attributes['gpu.example.com'].colour == 'red'"]), "fails"),
        ("many", asks(33, &[]), "many"),
        (
            "part",
            json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu",
                "capacity": {"requests": {"memory": "1Gi"}}}}]}),
            "part",
        ),
        (
            "class",
            json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}),
            "class",
        ),
    ];
    for (at, (name, spec, _)) in cases.iter().enumerate() {
        take(&mut scheduler, claim_of(name, spec, &json!({})));
        take(&mut scheduler, user(name, at as u32, name, &json!({})));
    }
    assert!(given(&mut scheduler).is_empty());
    let said = told(&mut scheduler);
    let expected = [
        ("malformed", "the selector `device.driver ==` cannot be used"),
        ("fails", "fails on device gpu.example.com/n1/gpu-0: No such key: colour"),
        ("many", "33 devices (1 to 32 can be allocated to a claim)"),
        ("part", "muster does not understand request \"r\": a part of a device's capacity"),
        ("class", "device class \"none\" does not exist"),
    ];
    for (name, part) in expected {
        assert!(said[name].contains(part), "{name}: {}", said[name]);
    }
    assert!(said["fails"].starts_with("0/1 nodes are available: 1 cannot allocate all claims."));
    take(&mut scheduler, class("none", "true"));
    assert_eq!(given(&mut scheduler), ["class n1 gpu-0"]);
}

#[test]
fn a_pool_counts_once_it_is_known_whole() {
    let mut scheduler = cluster(&[("n1", 1)]);
    let two = json!({"pool": {"name": "n1", "generation": 2, "resourceSliceCount": 2}});
    take(&mut scheduler, slice("n1", 1, &two));
    take(&mut scheduler, claim("a", 1));
    take(&mut scheduler, user("a", 0, "a", &json!({})));
    assert!(given(&mut scheduler).is_empty());
    let one = json!({"pool": {"name": "n1", "generation": 3, "resourceSliceCount": 1}});
    take(&mut scheduler, slice("n1", 1, &one));
    assert_eq!(given(&mut scheduler), ["a n1 gpu-0"]);
}

#[test]
fn devices_that_several_nodes_reach_go_to_one_claim_only() {
    let mut scheduler = cluster(&[]);
    for name in ["n1", "n2", "n3"] {
        let zone = if name == "n3" { "b" } else { "a" };
        take(&mut scheduler, node(name, "64", 0, &json!({"zone": zone})));
    }
    let terms = json!([{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["a"]}]}]);
    let wide = json!({"nodeName": null, "nodeSelector": {"nodeSelectorTerms": terms},
        "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1}});
    take(&mut scheduler, slice("net", 2, &wide));
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        take(&mut scheduler, claim(name, 1));
        take(&mut scheduler, user(name, at as u32, name, &json!({})));
    }
    let mut bound = Vec::new();
    for _ in 0..4 {
        let turn = scheduler.turn(NOW).expect("a turn");
        bound.extend(turn.bind);
    }
    assert_eq!(bound.len(), 2);
    assert!(bound.iter().all(|bind| bind.node != "n3"), "{bound:?}");
    let selector = &bound[0].claims[0].allocation.as_ref().expect("one")["nodeSelector"];
    assert_eq!(selector["nodeSelectorTerms"], terms);
    assert!(scheduler.mirror().given_twice().is_empty());
}

#[test]
fn a_gang_that_shares_a_claim_starts_on_one_node() {
    let mut scheduler = cluster(&[("n1", 1), ("n2", 1)]);
    let gang = json!({"metadata": {"annotations":
        {"muster.dev/gang": "g", "muster.dev/gang-size": "3"}}});
    take(&mut scheduler, claim("shared", 1));
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        take(&mut scheduler, user(name, at as u32, "shared", &gang));
    }
    let all = given(&mut scheduler);
    let nodes: BTreeSet<&str> = all.iter().filter_map(|text| text.split(' ').nth(1)).collect();
    assert_eq!((all.len(), nodes.len()), (3, 1), "{all:?} {:?}", told(&mut scheduler));
}
