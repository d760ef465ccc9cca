//! Pods with claims of devices (`resource.k8s.io/v1`) on a real API server, whose resource claim
//! controller makes claims from templates and takes devices from claims that nobody uses any more.

use crate::{Part, from, manifest};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use muster_engine_k8s::lease::Candidate;
use muster_pods::Settings;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl Part {
    fn claims(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// A class, and so many devices on each node; a template for one of them.
    async fn with_devices(&self, nodes: u32, devices: usize) {
        let params = PostParams::default();
        let driver = format!("{}.example.com", self.name);
        let class = json!({"metadata": {"name": self.name}, "spec": {"selectors": [
            {"cel": {"expression": format!("device.driver == '{driver}'")}}]}});
        let classes: Api<DeviceClass> = Api::all(self.client.clone());
        classes.create(&params, &from(class)).await.expect("a class");
        let slices: Api<ResourceSlice> = Api::all(self.client.clone());
        for at in 0..nodes {
            let node = format!("{}-{at}", self.name);
            let devices: Vec<Value> = (0..devices)
                .map(|at| {
                    json!({"name": format!("gpu-{at}"), "attributes": {
                        "index": {"int": at}, "model": {"string": "H200"}},
                        "capacity": {"memory": {"value": "141Gi"}}})
                })
                .collect();
            let slice = json!({"metadata": {"name": node}, "spec": {"driver": driver,
                "nodeName": node, "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
            slices.create(&params, &from(slice)).await.expect("a slice");
        }
        let templates: Api<ResourceClaimTemplate> =
            Api::namespaced(self.client.clone(), &self.name);
        let template = json!({"metadata": {"name": "one"},
            "spec": {"spec": {"devices": self.asks(1, &[])}}});
        templates.create(&params, &from(template)).await.expect("a template");
    }

    fn asks(&self, count: u32, selectors: &[&str]) -> Value {
        let selectors: Vec<Value> =
            selectors.iter().map(|text| json!({"cel": {"expression": text}})).collect();
        json!({"requests": [{"name": "r", "exactly": {"deviceClassName": self.name,
            "count": count, "selectors": selectors}}]})
    }

    async fn claim(&self, name: &str, asks: &Value) {
        let claim = json!({"metadata": {"name": name}, "spec": {"devices": asks}});
        self.claims().create(&PostParams::default(), &from(claim)).await.expect("a claim");
    }

    fn user(&self, name: &str, claim: &Value) -> Pod {
        let mut one = claim.clone();
        one["name"] = json!("gpu");
        self.pod(name, 0, &json!({"spec": {"resourceClaims": [one]}}))
    }

    /// The devices of each claim that has some, as `node/device`, and who may use it.
    async fn allocated(&self) -> BTreeMap<String, (Vec<String>, Vec<String>)> {
        let all = self.claims().list(&ListParams::default()).await.expect("claims");
        let of = |claim: ResourceClaim| {
            let name = claim.name_any();
            let kept = claim.finalizers().iter().any(|f| f.ends_with("/delete-protection"));
            let status = claim.status?;
            let results = status.allocation?.devices?.results?;
            assert!(kept, "{name} has devices and no finalizer");
            let users = status.reserved_for.unwrap_or_default();
            Some((
                name,
                (
                    results.iter().map(|one| format!("{}/{}", one.pool, one.device)).collect(),
                    users.into_iter().map(|one| one.name).collect(),
                ),
            ))
        };
        all.into_iter().filter_map(of).collect()
    }

    /// No device is in two claims, and each pod's are on its node.
    async fn no_device_is_given_twice(&self) {
        let (all, nodes) = (self.allocated().await, self.nodes().await);
        let mut seen = BTreeSet::new();
        for (claim, (devices, users)) in &all {
            for device in devices {
                assert!(seen.insert(device.clone()), "{device} twice: {all:?}");
            }
            for node in users.iter().filter_map(|user| nodes.get(user)?.as_ref()) {
                let here = devices.iter().all(|d| d.starts_with(&format!("{node}/")));
                assert!(here, "{claim} is used on {node}: {devices:?}");
            }
        }
    }

    /// Gives a claim the first device of a node, as another scheduler does.
    async fn allocate(&self, claim: &str, node: &str) {
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
        let status = json!({"metadata": {"finalizers": [muster_engine_k8s::dra::FINALIZER]},
            "status": {"allocation": {
                "devices": {"results": [{"request": "r", "driver": format!("{}.example.com", self.name),
                    "pool": node, "device": "gpu-0"}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}}});
        let params = PatchParams::default();
        let finalizer = json!({"metadata": status["metadata"]});
        self.claims().patch(claim, &params, &Patch::Merge(finalizer)).await.expect("kept");
        self.claims().patch_status(claim, &params, &Patch::Merge(status)).await.expect("allocated");
    }

    async fn without_devices(&self) {
        let params = DeleteParams::default();
        let classes: Api<DeviceClass> = Api::all(self.client.clone());
        classes.delete(&self.name, &params).await.expect("no class");
        let slices: Api<ResourceSlice> = Api::all(self.client.clone());
        for slice in slices.list(&ListParams::default()).await.expect("slices") {
            if slice.name_any().starts_with(&format!("{}-", self.name)) {
                slices.delete(&slice.name_any(), &params).await.expect("no slice");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_made_from_a_template_get_devices_of_their_own_and_give_them_back() {
    let Some(part) = Part::new("template", 3, 0).await else { return };
    part.with_devices(3, 4).await;
    let running = part.run(None).await;
    let template = json!({"resourceClaimTemplateName": "one"});
    for at in 0..13 {
        part.create(&part.user(&format!("p{at}"), &template)).await;
    }
    part.wait_bound(12).await;
    part.no_device_is_given_twice().await;
    assert_eq!(part.allocated().await.len(), 12);
    let waits = part.nodes().await.into_iter().find(|pod| pod.1.is_none()).expect("one waits").0;
    let message = part.message(&waits, "0/").await;
    assert!(message.contains("3 cannot allocate all claims"), "{message}");
    // One that ends gives its device back: the controller takes it from the claim.
    let ends = part.nodes().await.into_iter().find(|pod| pod.1.is_some()).expect("one runs").0;
    let now = DeleteParams::default().grace_period(0);
    part.pods().delete(&ends, &now).await.expect("deleted");
    part.wait_bound(12).await;
    part.no_device_is_given_twice().await;
    running.end().await;
    part.without_devices().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_allocated_is_respected() {
    let Some(part) = Part::new("theirs", 2, 0).await else { return };
    part.with_devices(2, 1).await;
    part.claim("theirs", &part.asks(1, &[])).await;
    let node = format!("{}-0", part.name);
    part.allocate("theirs", &node).await;
    let running = part.run(None).await;
    part.claim("first", &part.asks(1, &[])).await;
    part.claim("second", &part.asks(1, &[])).await;
    part.create(&part.user("a", &json!({"resourceClaimName": "first"}))).await;
    part.wait_bound(1).await;
    part.create(&part.user("b", &json!({"resourceClaimName": "second"}))).await;
    part.message("b", "0/").await;
    let nodes = part.nodes().await;
    assert_eq!(nodes["a"], Some(format!("{}-1", part.name)));
    // Whoever uses what they allocated goes where it is.
    part.create(&part.user("c", &json!({"resourceClaimName": "theirs"}))).await;
    part.create(&part.user("d", &json!({"resourceClaimName": "theirs"}))).await;
    part.wait_bound(3).await;
    part.no_device_is_given_twice().await;
    let (nodes, all) = (part.nodes().await, part.allocated().await);
    assert_eq!((nodes["c"].as_ref(), nodes["d"].as_ref()), (Some(&node), Some(&node)));
    assert_eq!(all["theirs"].1.iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(all["first"].1, ["a"]);
    running.end().await;
    part.without_devices().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_killed_among_its_claims_is_followed_by_another_and_no_device_is_given_twice() {
    let Some(part) = Part::new("claims-killed", 4, 0).await else { return };
    part.with_devices(4, 8).await;
    let first = part.run(None).await;
    let mut first = Some(first);
    for at in 0..40 {
        part.claim(&format!("c{at}"), &part.asks(1, &[])).await;
        let claim = json!({"resourceClaimName": format!("c{at}")});
        part.create(&part.user(&format!("p{at}"), &claim)).await;
        if at == 20 {
            // In the midst of its writes: what it ordered may or may not arrive.
            first.take().expect("it runs").task.abort();
        }
    }
    let second = part.run(None).await;
    part.wait_bound(32).await;
    part.no_device_is_given_twice().await;
    assert_eq!(part.allocated().await.len(), 32);
    second.end().await;
    part.without_devices().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_where_their_pod_has_no_room_are_given_back_for_others_elsewhere() {
    let Some(part) = Part::new("elsewhere", 2, 1).await else { return };
    part.with_devices(2, 1).await;
    let node = format!("{}-0", part.name);
    // As one leaves it that was killed between the claim and the binding: nobody else may use it.
    part.claim("left", &part.asks(1, &[])).await;
    part.allocate("left", &node).await;
    let running = part.run(None).await;
    let there = json!({"spec": {"nodeSelector": null, "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}}});
    part.create(&part.pod("first", 1, &there)).await;
    part.wait_bound(1).await;
    let mut user = part.user("user", &json!({"resourceClaimName": "left"}));
    let gpu = part.pod("gpu", 1, &json!({}));
    user.spec.as_mut().expect("a spec").containers = gpu.spec.expect("a spec").containers;
    part.create(&user).await;
    part.wait_bound(2).await;
    assert_eq!(part.nodes().await["user"], Some(format!("{}-1", part.name)));
    part.no_device_is_given_twice().await;
    running.end().await;
    part.without_devices().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_manifest_are_enough_for_claims() {
    let Some(part) = Part::new("claims-rights", 1, 0).await else { return };
    part.with_devices(1, 2).await;
    manifest::install(&part.client, "muster.yaml").await;
    let own = part.kubeconfig.with_file_name("kubeconfig-muster");
    let settings =
        Settings { name: part.name.clone(), lease: None::<Candidate>, ..Settings::default() };
    let running = part.run_as(&own, settings).await;
    part.claim("one", &part.asks(1, &[])).await;
    part.create(&part.user("a", &json!({"resourceClaimName": "one"}))).await;
    part.wait_bound(1).await;
    let all = part.allocated().await;
    let node = format!("{}-0", part.name);
    assert_eq!(all["one"], (vec![format!("{node}/gpu-0")], vec!["a".to_owned()]));
    part.create(&part.user("b", &json!({"resourceClaimName": "none"}))).await;
    let message = part.message("b", "").await;
    assert_eq!(message, "resourceclaim \"none\" not found");
    running.end().await;
    part.without_devices().await;
    part.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alternatives_and_constraints_are_taken_by_the_api_server() {
    let Some(part) = Part::new("claims-forms", 1, 0).await else { return };
    part.with_devices(1, 3).await;
    let running = part.run(None).await;
    let domain = format!("{}.example.com", part.name);
    let none = format!("device.attributes['{domain}'].model == 'H100'");
    let class = &part.name;
    let either = json!({"requests": [{"name": "r", "firstAvailable": [
            {"name": "big", "deviceClassName": class,
             "selectors": [{"cel": {"expression": none}}]},
            {"name": "small", "deviceClassName": class, "count": 2,
             "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}]}],
        "constraints": [{"requests": ["r"], "matchAttribute": format!("{domain}/model")}],
        "config": [
            {"requests": ["r/small"], "opaque": {"driver": domain, "parameters": {"a": 1}}},
            {"requests": ["r/big"], "opaque": {"driver": domain, "parameters": {"a": 2}}}]});
    part.claim("either", &either).await;
    part.create(&part.user("a", &json!({"resourceClaimName": "either"}))).await;
    part.wait_bound(1).await;
    let claim = part.claims().get("either").await.expect("the claim");
    let devices = claim.status.and_then(|s| s.allocation?.devices).expect("devices");
    let results = devices.results.expect("results");
    assert!(results.iter().all(|one| one.request == "r/small" && one.tolerations.is_some()));
    assert_eq!(results.len(), 2);
    let config = devices.config.expect("a configuration");
    let requests: Vec<_> = config.into_iter().filter_map(|one| one.requests).flatten().collect();
    assert_eq!(requests, ["r/small"]);
    running.end().await;
    part.without_devices().await;
    part.end().await;
}
