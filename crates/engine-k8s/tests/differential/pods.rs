//! Made-up pods, as their authors write them.

use crate::dice::Dice;
use crate::nodes::{CLAIMS, NAMESPACES, ZONE, ZONES};
use serde_json::{Map, Value, json};

const APPS: [&str; 3] = ["web", "db", "cache"];
const PLACES: [&str; 5] = ["zone", "rack", "kubernetes.io/hostname", "node", ZONE];

/// A pod without a node.
pub(crate) fn pod(dice: &mut Dice, name: &str) -> Value {
    let namespace = NAMESPACES[dice.below(NAMESPACES.len())].0;
    let mut labels = json!({"app": dice.pick(&APPS)});
    if dice.percent(60) {
        labels["track"] = json!(dice.pick(&["stable", "canary"]));
    }
    // A word of muster's own.
    if dice.percent(30) {
        labels["name"] = json!(dice.pick(&["p", "q"]));
    }
    let mut spec = json!({});
    containers(dice, &mut spec);
    if dice.percent(10) {
        spec["nodeSelector"] = match dice.below(3) {
            0 => json!({"zone": dice.pick(&ZONES)}),
            1 => json!({"disk": "ssd", "node": dice.pick(&["x", "y"])}),
            _ => json!({"disk": dice.pick(&["ssd", "hdd"])}),
        };
    }
    let mut affinity = Map::new();
    if dice.percent(14) {
        affinity.insert("nodeAffinity".to_owned(), node_affinity(dice));
    }
    for (kind, often) in [("podAffinity", 8), ("podAntiAffinity", 18)] {
        if dice.percent(often) {
            let terms: Vec<Value> = (0..dice.between(1, 2)).map(|_| term(dice)).collect();
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            affinity.insert(kind.to_owned(), json!({required: terms}));
        }
    }
    if !affinity.is_empty() {
        spec["affinity"] = Value::Object(affinity);
    }
    if dice.percent(40) {
        let tolerations: Vec<Value> = (0..dice.between(1, 3)).map(|_| toleration(dice)).collect();
        spec["tolerations"] = json!(tolerations);
    }
    if dice.percent(25) {
        spread(dice, &mut spec);
    }
    if dice.percent(10) {
        let all = if dice.percent(25) { &CLAIMS[..1] } else { &CLAIMS[..] };
        let claims = dice.some(all, 1, 2);
        let volume =
            |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        spec["volumes"] = json!(claims.iter().map(volume).collect::<Vec<_>>());
    }
    if dice.percent(2) {
        spec["schedulingGates"] = json!([{"name": "made.up/gate"}]);
    }
    if dice.percent(10) {
        spec["activeDeadlineSeconds"] = json!(dice.between(10, 1000));
    }
    json!({"metadata": {"name": name, "namespace": namespace, "labels": labels,
        "uid": format!("uid-{name}")}, "spec": spec})
}

/// Containers, init containers, overhead, and what the pod asks for as a whole.
fn containers(dice: &mut Dice, spec: &mut Value) {
    let count = dice.between(1, 3);
    let mut containers: Vec<Value> =
        (0..count).map(|at| container(dice, &format!("c{at}"))).collect();
    if dice.percent(15) {
        let ports: Vec<Value> = (0..dice.between(1, 2)).map(|_| port(dice)).collect();
        containers[0]["ports"] = json!(ports);
    }
    spec["containers"] = json!(containers);
    if dice.percent(25) {
        let mut init = Vec::new();
        for at in 0..dice.between(1, 3) {
            let mut one = container(dice, &format!("i{at}"));
            if dice.percent(50) {
                one["restartPolicy"] = json!("Always");
                if dice.percent(20) {
                    one["ports"] = json!([port(dice)]);
                }
            }
            init.push(one);
        }
        spec["initContainers"] = json!(init);
    }
    if dice.percent(8) {
        spec["overhead"] = json!({"cpu": "250m", "memory": "64Mi"});
    }
    if dice.percent(8) {
        let mut whole = json!({"cpu": dice.pick(&["3", "5"])});
        if dice.percent(50) {
            whole["memory"] = json!("3Gi");
        }
        spec["resources"] = json!({"requests": whole});
    }
    if dice.percent(4) {
        spec["hostNetwork"] = json!(true);
        for container in spec["containers"].as_array_mut().into_iter().flatten() {
            container["ports"] = json!([{"containerPort": dice.between(8080, 8082)}]);
        }
    }
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    if dice.percent(70) {
        let cpu = dice.pick(&["0", "1m", "100m", "0.5", "1", "1500m"]);
        requests.insert("cpu".to_owned(), json!(cpu));
    }
    if dice.percent(60) {
        let memory = dice.pick(&["64Mi", "256Mi", "512Mi", "1Gi"]);
        requests.insert("memory".to_owned(), json!(memory));
    }
    if dice.percent(8) {
        requests.insert("ephemeral-storage".to_owned(), json!("1Gi"));
    }
    let mut extended = |name: &str, amount: &str| {
        limits.insert(name.to_owned(), json!(amount));
    };
    if dice.percent(12) {
        extended("nvidia.com/gpu", dice.pick(&["0", "1", "1", "2", "4"]));
    }
    if dice.percent(3) {
        extended("amd.com/gpu", "1");
    }
    if dice.percent(6) {
        extended("example.com/nic", dice.pick(&["1", "2"]));
    }
    if dice.percent(5) {
        extended("hugepages-2Mi", dice.pick(&["64Mi", "256Mi"]));
        requests.entry("memory").or_insert(json!("64Mi"));
    }
    json!({"name": name, "image": "made-up", "resources": {"requests": requests, "limits": limits}})
}

fn port(dice: &mut Dice) -> Value {
    let mut port = json!({"containerPort": 80, "hostPort": dice.between(8080, 8082)});
    if dice.percent(30) {
        port["protocol"] = json!("UDP");
    }
    if dice.percent(40) {
        port["hostIP"] = json!(dice.pick(&["0.0.0.0", "10.0.0.1", "10.0.0.2"]));
    }
    port
}

fn node_affinity(dice: &mut Dice) -> Value {
    let terms: Vec<Value> = (0..dice.between(1, 3))
        .map(|_| {
            let few = dice.below(3);
            let expressions: Vec<Value> = (0..few).map(|_| on_node(dice)).collect();
            let mut term = json!({"matchExpressions": expressions});
            if dice.percent(20) {
                let name = format!("n{}", dice.below(8));
                term["matchFields"] = json!([{"key": "metadata.name",
                    "operator": dice.pick(&["In", "NotIn"]), "values": [name]}]);
            }
            term
        })
        .collect();
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
}

/// An expression on a node's labels.
fn on_node(dice: &mut Dice) -> Value {
    let key = dice.pick(&["zone", "rack", "disk", "node", ZONE]);
    match dice.below(6) {
        0 => json!({"key": key, "operator": "Exists"}),
        1 => json!({"key": key, "operator": "DoesNotExist"}),
        2 => {
            let operator = dice.pick(&["Gt", "Lt"]);
            let bound = dice.pick(&["9", "10", "80000", "many"]);
            json!({"key": "gpu-mem", "operator": operator, "values": [bound]})
        }
        _ => {
            let operator = dice.pick(&["In", "In", "NotIn"]);
            let values = dice.some(&["a", "b", "c", "r1", "r2", "r3", "ssd", "x"], 2, 6);
            json!({"key": key, "operator": operator, "values": values})
        }
    }
}

/// A selector of pods; some select nothing, some everything.
fn selector(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0 => json!(null),
        1 => json!({}),
        2..7 => json!({"matchLabels": {"app": dice.pick(&APPS)}}),
        7 => json!({"matchLabels": {"name": dice.pick(&["p", "q"])}}),
        8 => json!({"matchExpressions": [{"key": "track",
            "operator": dice.pick(&["Exists", "DoesNotExist"])}]}),
        _ => json!({"matchExpressions": [{"key": dice.pick(&["app", "track"]),
            "operator": dice.pick(&["In", "NotIn"]),
            "values": dice.some(&["web", "db", "stable"], 1, 2)}]}),
    }
}

/// A term on other pods.
fn term(dice: &mut Dice) -> Value {
    let mut term = json!({"topologyKey": dice.pick(&PLACES), "labelSelector": selector(dice)});
    if dice.percent(20) {
        term["namespaces"] = json!(dice.some(&["blue", "green", "gone"], 1, 2));
    }
    if dice.percent(25) {
        term["namespaceSelector"] = match dice.below(4) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": "none"}}),
            2 => json!({"matchExpressions": [{"key": "team", "operator": "NotIn",
                "values": ["x"]}]}),
            _ => json!({"matchLabels": {"team": "x"}}),
        };
    }
    if dice.percent(25) && !term["labelSelector"].is_null() {
        let keys = dice.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
        term[keys] = json!([dice.pick(&["track", "name", "nowhere"])]);
    }
    term
}

fn toleration(dice: &mut Dice) -> Value {
    let key = dice.pick(&["dedicated", "spot", "gpu", "node.kubernetes.io/unschedulable"]);
    let mut toleration = match dice.below(8) {
        0 => json!({"operator": "Exists"}),
        1..4 => json!({"key": key, "operator": "Exists"}),
        4 => json!({"key": key}),
        _ => json!({"key": key, "operator": "Equal", "value": dice.pick(&["a", "b"])}),
    };
    if dice.percent(50) {
        toleration["effect"] = json!(dice.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]));
    }
    if toleration["effect"] == "NoExecute" && dice.percent(30) {
        toleration["tolerationSeconds"] = json!(300);
    }
    toleration
}

/// Rules of even spreading, each of another place.
fn spread(dice: &mut Dice, spec: &mut Value) {
    let places = dice.some(&PLACES, 1, 2);
    let mut rules = Vec::new();
    for place in places {
        let soft = dice.percent(15);
        let mut rule = json!({"topologyKey": place, "maxSkew": dice.between(1, 2),
            "whenUnsatisfiable": if soft { "ScheduleAnyway" } else { "DoNotSchedule" },
            "labelSelector": selector(dice)});
        if !soft && dice.percent(30) {
            rule["minDomains"] = json!(dice.between(1, 4));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if dice.percent(40) {
                rule[policy] = json!(dice.pick(&["Honor", "Ignore"]));
            }
        }
        if dice.percent(20) && !rule["labelSelector"].is_null() {
            rule["matchLabelKeys"] = json!([dice.pick(&["track", "name", "nowhere"])]);
        }
        rules.push(rule);
    }
    spec["topologySpreadConstraints"] = json!(rules);
}
