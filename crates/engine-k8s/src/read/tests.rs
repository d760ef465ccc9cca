#![allow(clippy::needless_pass_by_value)] // values are written in place

use super::*;
use k8s_openapi::api::core::v1::{Node as ToldNode, Pod};
use muster_model::{JobSpec, Node};
use serde_json::{Value, json};
use std::sync::Arc;

fn node_of(name: &str, labels: &Value, more: &Value) -> Node {
    let told: ToldNode = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"allocatable": {"cpu": "7910m", "memory": "32780692Ki", "pods": "110",
            "nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "3", "ephemeral-storage": "100Gi"}},
    }))
    .expect("a node");
    node(&told).expect("understood")
}

fn job_in(spec: Value, context: &Context) -> Ask {
    let told: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "blue", "uid": "u", "labels": {"app": "web"}},
        "spec": spec,
    }))
    .expect("a pod");
    pod(&told, context).ask
}

/// The job of a pod that waits for nothing.
fn ready(spec: Value, context: &Context) -> Arc<JobSpec> {
    let ask = job_in(spec, context);
    assert_eq!(ask.waits, None);
    ask.job
}

/// Why a pod is not scheduled.
fn waits(spec: Value, context: &Context) -> String {
    job_in(spec, context).waits.expect("it waits")
}

fn job(spec: Value) -> Arc<JobSpec> {
    ready(spec, &Context::default())
}

fn admits(spec: Value, node: &Node) -> bool {
    job(spec).request.affinity.as_ref().is_none_or(|a| a.admits(node))
}

#[test]
fn a_node_has_what_can_be_had_of_it() {
    let node = node_of("n1", &json!({"zone": "a"}), &json!({"unschedulable": true}));
    assert_eq!((node.cpu_pool, node.memory.0, node.devices.len()), (7910, 32012, 2));
    assert_eq!(node.gres[PODS], 110);
    assert_eq!(node.gres["nvidia.com/mig-1g.10gb"], 3);
    assert_eq!(node.gres["ephemeral-storage"], 100 << 30);
    assert!(!node.gres.contains_key("cpu") && !node.gres.contains_key("nvidia.com/gpu"));
    let taints: Vec<String> = node.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["node.kubernetes.io/unschedulable:NoSchedule"]);
}

/// Case C-01.
#[test]
fn an_empty_term_matches_nothing_and_a_selector_holds_beside_every_term() {
    let nodes = [
        node_of("n1", &json!({"zone": "a", "gpu": "h100"}), &json!({})),
        node_of("n2", &json!({"zone": "b", "gpu": "t4"}), &json!({})),
        node_of("n3", &json!({"zone": "c"}), &json!({})),
        node_of("n4", &json!({}), &json!({})),
    ];
    let required = |terms: Value, selector: Value| {
        json!({"containers": [], "nodeSelector": selector, "affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let on = |spec: Value| -> Vec<bool> { nodes.iter().map(|n| admits(spec.clone(), n)).collect() };
    let other = json!({"matchExpressions": [
        {"key": "gpu", "operator": "NotIn", "values": ["t4"]},
        {"key": "zone", "operator": "Exists"}]});
    assert_eq!(on(required(json!([{}, other]), json!(null))), [true, false, true, false]);
    assert_eq!(on(required(json!([{}]), json!(null))), [false; 4]);
    assert_eq!(on(required(json!([{}]), json!({"zone": "a"}))), [false; 4]);
    let t4 = json!([{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["t4"]}]}]);
    assert_eq!(on(required(t4, json!({"zone": "a"}))), [false; 4]);
}

/// Case C-02.
#[test]
fn greater_and_less_compare_whole_numbers_only() {
    let labels = ["80000", "80001", "80GB", "9"];
    let mut nodes: Vec<Node> =
        labels.iter().map(|l| node_of("n", &json!({"gpu-mem": l}), &json!({}))).collect();
    nodes.push(node_of("n", &json!({}), &json!({})));
    let on = |operator: &str| -> Vec<bool> {
        let spec = json!({"containers": [], "affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "gpu-mem", "operator": operator,
                    "values": ["80000"]}]}]}}}});
        nodes.iter().map(|n| admits(spec.clone(), n)).collect()
    };
    assert_eq!(on("Gt"), [false, true, false, false, false]);
    assert_eq!(on("Lt"), [false, false, false, true, false]);
}

#[test]
fn a_field_of_the_node_is_its_name() {
    let spec = json!({"containers": [], "affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}}}});
    assert!(!admits(spec.clone(), &node_of("n1", &json!({}), &json!({}))));
    assert!(admits(spec, &node_of("n2", &json!({}), &json!({}))));
}

/// Case C-04: whose pods a term counts.
#[test]
fn a_term_counts_its_own_namespace_unless_it_says_others() {
    let labels = |team: &str| Labels::from([("team".to_owned(), team.to_owned())]);
    let names = [("blue", labels("x")), ("green", labels("y")), ("red", labels("z"))];
    let context = Context {
        namespaces: names.into_iter().map(|(name, l)| (name.to_owned(), l)).collect(),
        ..Context::default()
    };
    let counts = |more: Value| -> Vec<bool> {
        let mut term = json!({"labelSelector": {"matchLabels": {"app": "web"}},
            "topologyKey": "zone"});
        term.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let spec = json!({"containers": [], "affinity": {"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
        let job = ready(spec, &context);
        let affinity = job.request.affinity.clone().expect("an affinity");
        let term = affinity.apart.required[0].clone();
        let other = |namespace: &str| {
            term.selector.selects(|key| match key {
                "app" => Some("web"),
                NAMESPACE => Some(namespace),
                _ => None,
            })
        };
        assert_eq!(term.key, "zone");
        ["blue", "green", "red"].into_iter().map(other).collect()
    };
    assert_eq!(counts(json!({})), [true, false, false]);
    assert_eq!(counts(json!({"namespaceSelector": {}})), [true, true, true]);
    let both = json!({"namespaces": ["green"],
        "namespaceSelector": {"matchLabels": {"team": "z"}}});
    assert_eq!(counts(both), [false, true, true]);
    let none = json!({"namespaceSelector": {"matchLabels": {"team": "none"}}});
    assert_eq!(counts(none), [false, false, false]);
}

#[test]
fn a_label_called_as_one_of_musters_own_words_stays_a_label() {
    let spec = json!({"containers": [], "affinity": {"podAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"name": "p"}}, "topologyKey": "node"}]}}});
    let job = job(spec);
    let affinity = job.request.affinity.clone().expect("an affinity");
    let term = &affinity.near.required[0];
    assert_eq!(term.key, "node/");
    assert!(!term.selector.selects(|key| match key {
        "name" => Some("p"),
        NAMESPACE => Some("blue"),
        _ => None,
    }));
}

#[test]
fn host_ports_keep_pods_apart_where_both_take_an_address() {
    let with = |port: Value| job(json!({"containers": [{"name": "c", "ports": [port]}]}));
    let any = with(json!({"containerPort": 80, "hostPort": 80}));
    let one = with(json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}));
    let two = with(json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}));
    let udp = with(json!({"containerPort": 80, "hostPort": 80, "protocol": "UDP"}));
    let meets = |a: &JobSpec, b: &JobSpec| {
        let affinity = a.request.affinity.as_ref().expect("an affinity");
        let labels = &b.labels;
        let mut terms = affinity.apart.required.iter();
        terms.any(|t| t.selector.selects(|key| labels.get(key).map(String::as_str)))
    };
    for (a, b, expected) in
        [(&any, &one, true), (&one, &two, false), (&one, &one, true), (&any, &udp, false)]
    {
        assert_eq!((meets(a, b), meets(b, a)), (expected, expected));
    }
}

#[test]
fn a_pod_asks_for_what_its_containers_do() {
    let job = job(json!({"priority": 7, "activeDeadlineSeconds": 90, "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1000Ki",
            "nvidia.com/gpu": "1", "example.com/nic": "2"}}}]}));
    let request = &job.request;
    assert_eq!(request.cpus_per_task(), 250);
    assert_eq!(request.memory, muster_model::MemoryRequest::PerNode(muster_model::Mib(1)));
    assert_eq!(request.gpus[0].model.as_deref(), Some("nvidia.com/gpu"));
    assert_eq!(request.gres["example.com/nic"], 2);
    assert_eq!(request.gres[PODS], 1);
    assert_eq!(job.time_limit, Some(muster_model::TimeLimit::Of(muster_model::Seconds(90))));
    assert!(job.priority > Some(priority_of(0)) && priority_of(i32::MIN) == 0);
}

#[test]
fn volumes_say_where_a_pod_may_be() {
    let mut context = Context::default();
    let spec = || {
        json!({"containers": [], "nodeSelector": {"gpu": "yes"},
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
    };
    let waits = |context: &Context| waits(spec(), context);
    assert_eq!(waits(&context), "persistentvolumeclaim \"data\" not found");
    let key = ("blue".to_owned(), "data".to_owned());
    context.claims.insert(key.clone(), Claim::default());
    assert_eq!(waits(&context), "pod has unbound immediate PersistentVolumeClaims");
    let bound = Claim { volume: Some("pv".to_owned()), ..Claim::default() };
    context.claims.insert(key.clone(), Claim { lost: true, ..bound.clone() });
    let lost = "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv\"";
    assert_eq!(waits(&context), lost);
    context.claims.insert(key.clone(), Claim { leaving: true, ..bound.clone() });
    assert_eq!(waits(&context), "persistentvolumeclaim \"data\" is being deleted");
    context.claims.insert(key, bound);
    assert_eq!(waits(&context), "persistentvolume \"pv\" not found");
    let told = serde_json::from_value(json!({"spec": {"nodeAffinity": {"required":
        {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}));
    let terms = volume(&told.expect("a volume")).expect("understood");
    context.volumes.insert("pv".to_owned(), terms);
    let job = ready(spec(), &context);
    let on = |labels: Value| {
        let node = node_of("n", &labels, &json!({}));
        job.request.affinity.as_ref().expect("an affinity").admits(&node)
    };
    assert!(on(json!({"zone": "a", "gpu": "yes"})));
    assert!(!on(json!({"zone": "b", "gpu": "yes"})) && !on(json!({"zone": "a"})));
}

#[test]
fn a_volume_for_one_pod_keeps_all_others_away_wherever_they_are() {
    let claim = |alone: bool| Claim { volume: Some("pv".to_owned()), alone, ..Claim::default() };
    let job = |alone: bool, name: &str| {
        let mut context = Context::default();
        context.volumes.insert("pv".to_owned(), Vec::new());
        context.claims.insert(("blue".to_owned(), name.to_owned()), claim(alone));
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": name}});
        ready(json!({"containers": [], "volumes": [volume]}), &context)
    };
    let meets = |a: &JobSpec, b: &JobSpec| {
        let terms = a.request.affinity.iter().flat_map(|affinity| &affinity.apart.required);
        let met = |term: &muster_model::JobTerm| {
            term.key == EVERYWHERE
                && term.selector.selects(|key| b.labels.get(key).map(String::as_str))
        };
        terms.into_iter().any(met)
    };
    assert!(meets(&job(true, "data"), &job(true, "data")));
    assert!(!meets(&job(true, "data"), &job(true, "other")));
    assert!(!meets(&job(false, "data"), &job(false, "data")));
}

/// Where a volume with these labels can be had, of nodes with these.
fn on(volume_labels: Value, nodes: &[Value]) -> Vec<bool> {
    let told = serde_json::from_value(json!({"metadata": {"labels": volume_labels}, "spec": {}}));
    let volumes = volume(&told.expect("a volume")).expect("understood");
    let affinity = muster_model::Affinity { volumes, ..muster_model::Affinity::default() };
    nodes.iter().map(|labels| affinity.admits(&node_of("n", labels, &json!({})))).collect()
}

#[test]
fn a_volume_of_a_zone_can_be_had_there_and_where_no_zones_are_named() {
    let (zone, beta) = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
    let nodes = [
        json!({zone: "a"}),
        json!({zone: "b"}),
        json!({beta: "b"}),
        json!({}),
        json!({"topology.kubernetes.io/region": "r"}),
    ];
    assert_eq!(on(json!({}), &nodes), [true; 5]);
    assert_eq!(on(json!({zone: "b"}), &nodes), [false, true, false, true, false]);
    assert_eq!(on(json!({zone: "a__b"}), &nodes), [true, true, false, true, false]);
    assert_eq!(on(json!({beta: "b"}), &nodes), [false, true, true, true, false]);
    // A value that is no list of names says nothing.
    assert_eq!(on(json!({zone: "a__"}), &nodes), [true; 5]);
}

#[test]
fn spreading_does_not_count_who_is_leaving_and_without_a_selector_nobody() {
    let counts = |selector: Value, labels: &[(&str, &str)]| {
        let job = job(json!({"containers": [], "topologySpreadConstraints": [{"maxSkew": 1,
            "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector}]}));
        let rule = job.request.affinity.as_ref().expect("an affinity").spread[0].clone();
        let find = |key: &str| {
            let own = labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            own.or((key == NAMESPACE).then_some("blue"))
        };
        rule.selector.selects(find)
    };
    let web = || json!({"matchLabels": {"app": "web"}});
    assert!(counts(web(), &[("app", "web")]));
    assert!(!counts(web(), &[("app", "web"), (".leaving", "")]));
    assert!(!counts(json!({}), &[("app", "web")]) && !counts(json!(null), &[("app", "web")]));
}

#[test]
fn what_is_not_understood_waits_with_a_sentence() {
    let text = |spec: Value| waits(spec, &Context::default());
    let quantity = json!({"containers": [{"name": "c",
        "resources": {"requests": {"cpu": "two"}}}]});
    assert!(text(quantity).contains("`two` is no quantity"));
}

#[test]
fn groups_are_read_in_every_form() {
    let of = |more: Value| -> Option<(GangName, Option<u32>)> {
        let mut told = json!({"metadata": {"name": "p", "namespace": "blue"},
            "spec": {"containers": []}});
        for (key, value) in more.as_object().expect("an object") {
            told[key].as_object_mut().expect("one").extend(value.as_object().expect("one").clone());
        }
        let told: Pod = serde_json::from_value(told).expect("a pod");
        pod(&told, &Context::default()).gang
    };
    let kind = |more: Value| of(more).map(|(name, size)| (name.kind, name.name, size));
    let upstream = json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}});
    assert_eq!(kind(upstream), Some((GroupKind::Upstream, "g".to_owned(), None)));
    let label = json!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}});
    assert_eq!(kind(label), Some((GroupKind::Coscheduling, "g".to_owned(), None)));
    let volcano = json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}});
    assert_eq!(kind(volcano), Some((GroupKind::Volcano, "g".to_owned(), None)));
    let own = json!({"metadata": {"annotations":
        {"muster.dev/gang": "g", "muster.dev/gang-size": "4"}}});
    assert_eq!(kind(own), Some((GroupKind::Annotated, "g".to_owned(), Some(4))));
    assert_eq!(of(json!({})), None);
    assert_eq!(group(&json!({"minMember": 3})).least, 3);
    assert_eq!(group(&json!({"schedulingPolicy": {"gang": {"minCount": 4}}})).least, 4);
    assert_eq!(group(&json!({"schedulingPolicy": {"basic": {}}})).least, 0);
    assert_eq!(group(&json!({"minMember": "many"})).least, 0);
}
