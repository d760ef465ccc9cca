//! What deciding alone costs: a queue planned on made-up nodes, with no cluster and no write.

use crate::queue::{NAMESPACE, Queue};
use crate::{SCHEDULER, used};
use muster_engine_k8s::dra::{self, Told};
use muster_engine_k8s::mirror::{Change, Kind};
use muster_engine_k8s::read::{GangName, GroupKind, PodKey, group};
use muster_model::{Labels, Timestamp};
use muster_pods::Scheduler;
use serde::Serialize;
use serde_json::{Value, json};
use std::error::Error;

/// Nodes of a rack, and racks' zones in turn: as the bed has them.
const RACK: u32 = 8;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// A queue and the nodes for it.
#[derive(clap::Args)]
pub(crate) struct Decide {
    #[command(flatten)]
    queue: Queue,
    /// So many nodes
    #[arg(long, default_value_t = 1000)]
    nodes: u32,
    /// GPUs of a node
    #[arg(long, default_value_t = 8)]
    gpus: u32,
    /// One resource claim a pod in place of a GPU
    #[arg(long)]
    claims: bool,
    /// GPUs of a waiting pod
    #[arg(long, default_value_t = 1)]
    each: u32,
    /// So many pods of a GPU, or of a CPU where all GPUs are taken, run already and may be preempted
    #[arg(long, default_value_t = 0)]
    below: u32,
}

/// What came of it.
#[derive(Serialize)]
struct Outcome {
    /// Pods that found a node.
    bound: usize,
    /// Pods that made room.
    evicted: usize,
    /// Turns that it took.
    turns: u32,
    /// CPU for a pod to take it in, in milliseconds.
    read_ms: f64,
    /// CPU for a pod to decide on it, in milliseconds.
    decide_ms: f64,
    /// The most memory, in MiB.
    peak_mib: f64,
}

impl Decide {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let now = Timestamp::from_secs(1);
        let mut scheduler = Scheduler::new(SCHEDULER);
        scheduler.take(Change::Namespace(NAMESPACE.to_owned(), Labels::default()), now)?;
        for at in 0..self.nodes {
            let told = serde_json::from_value(node(at, self.gpus))?;
            scheduler.take(Change::Node(Box::new(told)), now)?;
        }
        if self.claims {
            self.devices(&mut scheduler, now)?;
        }
        for (name, told) in self.queue.groups() {
            let namespace = NAMESPACE.to_owned();
            let name = GangName { namespace, kind: GroupKind::Upstream, name };
            scheduler.take(Change::Group(name, group(&told["spec"])), now)?;
        }
        for at in 0..self.below {
            let told = serde_json::from_value(self.running(at))?;
            scheduler.take(Change::Pod(Box::new(told)), now)?;
        }
        // Nobody is preempted in the moment in which it starts.
        let now = Timestamp::from_secs(2);
        let begun = cpu_s();
        for at in 0..self.queue.pods {
            let mut told = self.queue.pod(at);
            told["spec"]["priority"] = json!(10);
            // As the API server's defaults make them: what is limited is requested.
            let requests = &mut told["spec"]["containers"][0]["resources"]["requests"];
            requests["nvidia.com/gpu"] = json!(self.each.to_string());
            told["metadata"]["namespace"] = json!(NAMESPACE);
            told["metadata"]["uid"] = json!(format!("uid-{at}"));
            told["status"] = json!({});
            // As the API server's admission makes them.
            told["spec"]["tolerations"] = ["not-ready", "unreachable"]
                .map(|taint| {
                    json!({"key": format!("node.kubernetes.io/{taint}"), "operator": "Exists",
                        "effect": "NoExecute", "tolerationSeconds": 300})
                })
                .into();
            if self.claims {
                told["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1m"}});
                told["spec"]["resourceClaims"] =
                    json!([{"name": "gpu", "resourceClaimName": format!("c-{at}")}]);
                let claim = dra::resource_claim(&serde_json::from_value(claim(at))?);
                scheduler.take(Change::Devices(Told::Claim(Box::new(claim))), now)?;
            }
            let told = serde_json::from_value(told)?;
            scheduler.take(Change::Pod(Box::new(told)), now)?;
        }
        let read = cpu_s();
        let (mut bound, mut evicted, mut turns) = (0, 0, 0);
        loop {
            let turn = scheduler.turn(now)?;
            (bound, turns) = (bound + turn.bind.len(), turns + 1);
            evicted += turn.evict.len();
            if !turn.more && turn.evict.is_empty() {
                break;
            }
            for evict in turn.evict {
                let PodKey { namespace, name } = evict.pod;
                scheduler.take(Change::Gone(Kind::Pod, namespace, name), now)?;
            }
        }
        let a_pod = |seconds: f64| 1000.0 * seconds / f64::from(self.queue.pods.max(1));
        let outcome = Outcome {
            bound,
            evicted,
            turns,
            read_ms: a_pod(read - begun),
            decide_ms: a_pod(cpu_s() - read),
            peak_mib: used::of(std::process::id()).peak_mib,
        };
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }

    /// A pod that runs, on the nodes in turn: with a GPU as long as there are any.
    fn running(&self, at: u32) -> Value {
        let gpus = u32::from(at / self.nodes.max(1) < self.gpus);
        json!({"metadata": {"name": format!("low-{at}"), "namespace": NAMESPACE,
                "uid": format!("low-{at}")},
            "spec": {"nodeName": format!("node-{}", at % self.nodes.max(1)), "priority": 1,
                "containers": [{"name": "main", "resources": {
                    "requests": {"cpu": "1", "nvidia.com/gpu": gpus.to_string()}}}]},
            "status": {"phase": "Running"}})
    }
}

impl Decide {
    /// A class, and a slice of each node with its devices.
    fn devices(&self, scheduler: &mut Scheduler, now: Timestamp) -> Result<(), Box<dyn Error>> {
        let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [
            {"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}});
        let class = Box::new(dra::class(&serde_json::from_value(class)?));
        scheduler.take(Change::Devices(Told::Class("gpu".to_owned(), class)), now)?;
        for at in 0..self.nodes {
            let name = node(at, 0)["metadata"]["name"].clone();
            let devices: Vec<Value> = (0..self.gpus)
                .map(
                    |at| json!({"name": format!("gpu-{at}"), "attributes": {"index": {"int": at}}}),
                )
                .collect();
            let slice = json!({"metadata": {"name": name}, "spec": {"driver": "gpu.example.com",
                "nodeName": name, "devices": devices,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}});
            let slice = dra::slice(&serde_json::from_value(slice)?);
            scheduler.take(Change::Devices(Told::Slice(Box::new(slice))), now)?;
        }
        Ok(())
    }
}

/// A claim for one device.
fn claim(at: u32) -> Value {
    json!({"metadata": {"name": format!("c-{at}"), "namespace": NAMESPACE,
            "uid": format!("uid-c-{at}"), "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "r",
            "exactly": {"deviceClassName": "gpu", "count": 1}}]}}})
}

fn cpu_s() -> f64 {
    used::of(std::process::id()).cpu_s
}

fn node(at: u32, gpus: u32) -> Value {
    let (name, rack) = (format!("node-{at}"), at / RACK);
    let has = json!({"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110",
        "nvidia.com/gpu": gpus.to_string()});
    json!({"metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": ZONES[rack as usize % ZONES.len()],
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "rack": format!("rack-{rack}")}},
        "status": {"allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]}})
}
