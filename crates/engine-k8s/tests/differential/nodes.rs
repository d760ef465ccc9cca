//! Made-up nodes, namespaces and volumes.

use crate::dice::Dice;
use serde_json::{Map, Value, json};

/// The namespaces; each has its team as a label.
pub(crate) const NAMESPACES: [(&str, &str); 3] = [("blue", "x"), ("green", "y"), ("red", "x")];

pub(crate) const ZONES: [&str; 3] = ["a", "b", "c"];
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const RACKS: [&str; 4] = ["r1", "r2", "r3", "r4"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) fn namespaces() -> Vec<Value> {
    let one = |(name, team): &(&str, &str)| {
        json!({"metadata": {"name": name,
            "labels": {"kubernetes.io/metadata.name": name, "team": team}}})
    };
    NAMESPACES.iter().map(one).collect()
}

pub(crate) fn node(dice: &mut Dice, name: &str) -> Value {
    let mut labels = Map::new();
    let mut label = |key: &str, value: &str| labels.insert(key.to_owned(), json!(value));
    label("kubernetes.io/hostname", name);
    if dice.percent(85) {
        label("zone", dice.pick(&ZONES));
    }
    match dice.below(10) {
        0..6 => drop(label(ZONE, dice.pick(&ZONES))),
        6 => drop(label(BETA_ZONE, dice.pick(&ZONES))),
        _ => {}
    }
    if dice.percent(80) {
        label("rack", dice.pick(&RACKS));
    }
    if dice.percent(50) {
        label("gpu-mem", dice.pick(&["9", "80000", "80GB", "141000"]));
    }
    if dice.percent(60) {
        label("disk", dice.pick(&["ssd", "hdd"]));
    }
    // A word of muster's own.
    if dice.percent(40) {
        label("node", dice.pick(&["x", "y"]));
    }
    let (unschedulable, taints) = marks(dice);
    json!({"metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": unschedulable},
        "status": {"allocatable": allocatable(dice)}})
}

/// Whether it is cordoned, and its taints.
fn marks(dice: &mut Dice) -> (bool, Vec<Value>) {
    let mut taints = Vec::new();
    for key in ["dedicated", "spot", "gpu"] {
        if dice.percent(7) {
            taints.push(json!({"key": key, "value": dice.pick(&["", "a", "b"]),
                "effect": dice.pick(&EFFECTS)}));
        }
    }
    let unschedulable = dice.percent(5);
    // The node lifecycle controller adds it a moment later.
    if unschedulable && dice.percent(60) {
        taints.push(json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"}));
    }
    (unschedulable, taints)
}

fn allocatable(dice: &mut Dice) -> Value {
    let mut has = json!({
        "cpu": dice.pick(&["3", "6500m", "12", "16"]),
        "memory": dice.pick(&["3Gi", "7000Mi", "12Gi"]),
        "pods": dice.between(2, 14).to_string(),
    });
    if dice.percent(80) {
        has["ephemeral-storage"] = json!(dice.pick(&["2Gi", "10Gi"]));
    }
    if dice.percent(75) {
        has["nvidia.com/gpu"] = json!(dice.between(2, 8).to_string());
    }
    if dice.percent(50) {
        has["amd.com/gpu"] = json!(dice.between(1, 4).to_string());
    }
    if dice.percent(70) {
        has["example.com/nic"] = json!(dice.between(1, 4).to_string());
    }
    if dice.percent(70) {
        has["hugepages-2Mi"] = json!("512Mi");
    }
    has
}

/// Claims and volumes of a walk: every state that a claim may be in.
pub(crate) struct Volumes {
    pub(crate) classes: Vec<Value>,
    pub(crate) claims: Vec<Value>,
    pub(crate) bound: Vec<Value>,
}

/// The names of claims that pods ask for; one of them is nowhere.
pub(crate) const CLAIMS: [&str; 10] = [
    "alone",
    "zonal",
    "labelled",
    "local",
    "wide",
    "immediate",
    "lost",
    "leaving",
    "volumeless",
    "absent",
];

pub(crate) fn volumes(dice: &mut Dice, nodes: &[Value]) -> Volumes {
    let classes = vec![json!({"metadata": {"name": "now"}, "provisioner": "made.up/one",
        "volumeBindingMode": "Immediate"})];
    let mut all = Volumes { classes, claims: Vec::new(), bound: Vec::new() };
    for (namespace, _) in NAMESPACES {
        for name in CLAIMS.iter().filter(|name| **name != "absent") {
            let volume = format!("{namespace}-{name}");
            let is_bound = !matches!(*name, "immediate");
            all.claims.push(claim(namespace, name, is_bound.then_some(volume.as_str())));
            if is_bound && *name != "volumeless" {
                all.bound.push(volume_of(dice, &volume, name, nodes));
            }
        }
    }
    all
}

fn claim(namespace: &str, name: &str, volume: Option<&str>) -> Value {
    let mut claim = json!({"metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "now",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}});
    if name == "alone" {
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    }
    if let Some(volume) = volume {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = json!(volume);
        claim["status"]["phase"] = json!(if name == "lost" { "Lost" } else { "Bound" });
    }
    if name == "leaving" {
        claim["metadata"]["deletionTimestamp"] = json!("2026-12-02T18:00:00Z");
        claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    }
    claim
}

fn volume_of(dice: &mut Dice, volume: &str, kind: &str, nodes: &[Value]) -> Value {
    let mut told = json!({"metadata": {"name": volume},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "now",
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "made.up/one", "volumeHandle": volume}},
        "status": {"phase": "Bound"}});
    let is_in = |key: &str, values: Vec<&str>| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
    let terms = match kind {
        "zonal" => {
            let one = is_in("zone", dice.some(&ZONES, 1, 2));
            match dice.percent(50) {
                true => json!([one, is_in("rack", vec![dice.pick(&RACKS)])]),
                false => json!([one]),
            }
        }
        "local" => {
            let node = &nodes[dice.below(nodes.len())]["metadata"]["name"];
            json!([is_in("kubernetes.io/hostname", vec![node.as_str().unwrap_or_default()])])
        }
        "labelled" => {
            let key = dice.pick(&[ZONE, ZONE, BETA_ZONE]);
            let zones = dice.some(&ZONES, 1, 2).join("__");
            told["metadata"]["labels"] = json!({key: zones});
            return told;
        }
        _ => return told,
    };
    told["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    told
}
