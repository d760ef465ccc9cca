//! Nodes, partitions, licences and rules from lines of text.
//!
//! ```text
//! node n[1-4] cpus=8 gpus=4xa100 gpumem=80G mem=64G features=fast,rack1 numa=2 gres=fpga:2
//! partition debug nodes=n1 max-time=30 tier=2
//! licence sim 4
//! qos high priority=1000 grp-tres=gres/gpu=8 flags=no-decay
//! account lab parent=faculty shares=3 grp-jobs=10
//! user ada account=lab shares=2 max-jobs=4
//! policy backfill=none
//! level leaf link=50000 uplink=100000
//! domain l1 level=leaf nodes=n[1-2] in=s1
//! topology span=connected
//! ```
//! Nodes belong to partition `main` unless they say otherwise; times are minutes.

use crate::accounts_text;
use crate::preempt_text;
use crate::text::{field, memory, names, number, words};
use muster_model::sharing::{DeviceMode, MigInstance, MigMode, Sharing};
use muster_model::{
    Availability, BackfillMode, CpuSet, Device, EngineName, EventKind, Licence, Mib, Node,
    NodeChoice, NodeId, NumaDomain, Partition, PartitionState, Policy, Seconds, State, TimeLimit,
};

/// The events that one line of a fixture stands for; `None` where it is not such a line.
pub fn line_events(state: &State, line: &str) -> Option<Vec<EventKind>> {
    let words = words(line);
    let (first, rest) = words.split_first()?;
    match first.as_str() {
        "node" => Some(nodes(state, rest)),
        "partition" => Some(vec![partition(state, rest)]),
        "licence" => {
            let [name, total] = rest else { panic!("licence NAME TOTAL") };
            let licence = Licence { name: name.clone(), total: number(total) };
            Some(vec![EventKind::LicenceSet { licence }])
        }
        "reservation" | "unreserve" => {
            Some(vec![crate::reservation_text::event(state, first, rest)])
        }
        "qos" => Some(vec![accounts_text::qos(state, rest)]),
        "account" => Some(vec![accounts_text::account(state, rest)]),
        "user" => Some(vec![accounts_text::user(state, rest)]),
        "policy" => Some(vec![policy(state, rest)]),
        "level" | "domain" | "topology" => {
            Some(vec![crate::topology_text::event(state, first, rest)])
        }
        _ => None,
    }
}

fn nodes(state: &State, words: &[String]) -> Vec<EventKind> {
    let (list, fields) = words.split_first().unwrap_or_else(|| panic!("node NAMES ..."));
    let mut partition = "main".to_owned();
    let mut events = Vec::new();
    for (name, id) in names(list).into_iter().zip(state.next_node..) {
        let machine = fields.iter().find_map(|w| w.strip_prefix("machine="));
        let mut node = match machine {
            Some(layout) => crate::machines::machine(NodeId(id), &name, layout),
            None => plain_node(NodeId(id), &name),
        };
        let mut domains = 1;
        for (key, value) in fields.iter().map(|w| field(w)) {
            match key {
                "partition" => value.clone_into(&mut partition),
                "numa" => domains = number(value),
                "machine" => {}
                _ => node_field(&mut node, key, value),
            }
        }
        if machine.is_none() {
            split_numa(&mut node, domains);
        }
        events.push(EventKind::NodeSet { node: Box::new(node) });
    }
    let mut all = state.partitions.get(&partition).map_or_else(
        || Partition {
            name: partition.clone(),
            default: partition == "main",
            ..Partition::default()
        },
        |p| p.as_ref().clone(),
    );
    all.nodes.extend(names(list));
    events.push(EventKind::PartitionSet { partition: Box::new(all) });
    events
}

/// A node of one CPU and 64 GiB that is up.
pub fn plain_node(id: NodeId, name: &str) -> Node {
    Node {
        id,
        name: name.to_owned(),
        engine: EngineName::local(),
        cpus: CpuSet::first(1),
        threads_per_core: 1,
        memory: Mib(64 * 1024),
        availability: Availability::Up,
        ..Node::default()
    }
}

fn node_field(node: &mut Node, key: &str, value: &str) {
    match key {
        "cpus" => node.cpus = CpuSet::first(number(value)),
        "mem" => node.memory = memory(value),
        "scratch" => node.scratch = memory(value),
        "switch" => node.switches = value.split(',').map(str::to_owned).collect(),
        "weight" => node.weight = number(value),
        "threads" => node.threads_per_core = number(value),
        "labels" => node.labels = crate::affinity_text::labels(value),
        "taints" => node.taints = value.split(',').map(crate::affinity_text::taint).collect(),
        "features" => node.features = value.split(',').map(str::to_owned).collect(),
        "gres" => {
            for (name, count) in value.split(',').filter_map(|g| g.split_once(':')) {
                node.gres.insert(name.to_owned(), number(count));
            }
        }
        "gpumem" => {
            let each = memory(value);
            node.devices.iter_mut().for_each(|d| d.memory = each);
        }
        // `gpu-mode=mps`, `gpu-mode=time-slice:5` (pieces), `gpu-mode=mig`, `gpu-mode=mig:3g@0+1g@4`,
        // for some devices `gpu-mode=0-1@mps`; several are parted by `;`.
        "gpu-mode" => value.split(';').for_each(|part| gpu_mode(node, part)),
        "gpu-reserve" => {
            let reserve = memory(value);
            for device in &mut node.devices {
                if let DeviceMode::Shared(sharing) = &mut device.mode {
                    sharing.reserve = reserve;
                }
            }
        }
        // `gpus=4xa100` or `gpus=2xa100:40G+2xh100:80G`.
        "gpus" => {
            for group in value.split('+') {
                let (count, rest) = group.split_once('x').unwrap_or((group, "gpu"));
                let (model, size) = rest.split_once(':').unwrap_or((rest, "80G"));
                for _ in 0..number::<u32>(count) {
                    node.devices.push(Device {
                        index: node.devices.len() as u32,
                        model: model.to_owned(),
                        memory: memory(size),
                        ..Device::default()
                    });
                }
            }
        }
        _ => panic!("a node has no {key:?}"),
    }
}

fn gpu_mode(node: &mut Node, text: &str) {
    let is_list = |t: &str| t.chars().all(|c| c.is_ascii_digit() || c == '-');
    let (which, mode) = match text.split_once('@') {
        Some((list, mode)) if is_list(list) => (Some(list), mode),
        _ => (None, text),
    };
    let which = which.map(|list| CpuSet::parse(list).unwrap_or_else(|e| panic!("{list}: {e}")));
    let (word, rest) = mode.split_once(':').unwrap_or((mode, ""));
    for device in &mut node.devices {
        if which.as_ref().is_some_and(|set| !set.contains(device.index)) {
            continue;
        }
        device.mode = match word {
            "whole" => DeviceMode::Whole,
            "mig" => {
                let instances = rest.split('+').filter(|t| !t.is_empty());
                let instances: Vec<_> = instances.map(|text| instance(device, text)).collect();
                DeviceMode::Mig(MigMode { carve: instances.is_empty(), instances })
            }
            class => DeviceMode::Shared(Sharing {
                isolation: class.parse().unwrap_or_else(|e| panic!("{e}")),
                pieces: if rest.is_empty() { 0 } else { number(rest) },
                reserve: Mib(0),
            }),
        };
    }
}

/// `3g@4`: the smallest profile of so many slices, at that start.
fn instance(device: &Device, text: &str) -> MigInstance {
    let (slices, start) = text.split_once("g@").unwrap_or_else(|| panic!("no instance {text:?}"));
    let (compute, start): (u8, u8) = (number(slices), number(start));
    let table = device.mig_table().unwrap_or_else(|| panic!("{} has no MIG", device.model));
    let profile = table.profiles.iter().find(|p| p.compute == compute);
    let slot = profile.and_then(|p| p.slots().find(|s| s.start == start));
    let slot = slot.unwrap_or_else(|| panic!("no instance {text:?}"));
    MigInstance { slot, uuid: format!("MIG-{}-{start}", device.index) }
}

/// Splits CPUs, memory and devices evenly over so many NUMA domains, one a socket.
fn split_numa(node: &mut Node, domains: u32) {
    let (cpus, devices) = (node.cpus.len(), node.devices.len() as u32);
    for id in 0..domains {
        let within = |n: u32, total: u32| n * domains / total.max(1) == id;
        node.numa.push(NumaDomain {
            id,
            socket: id,
            cpus: node.cpus.iter().filter(|cpu| within(*cpu, cpus)).collect(),
            memory: Mib(node.memory.0 / u64::from(domains)),
        });
        for device in node.devices.iter_mut().filter(|d| within(d.index, devices)) {
            device.numa = Some(id);
        }
    }
}

fn partition(state: &State, words: &[String]) -> EventKind {
    let (name, fields) = words.split_first().unwrap_or_else(|| panic!("partition NAME ..."));
    let mut partition = state.partitions.get(name).map_or_else(
        || Partition { name: name.clone(), default: name == "main", ..Partition::default() },
        |p| p.as_ref().clone(),
    );
    for (key, value) in fields.iter().map(|w| field(w)) {
        match key {
            _ if preempt_text::partition_field(&mut partition, key, value) => {}
            "nodes" => partition.nodes = names(value).into_iter().collect(),
            "max-time" => partition.max_time = minutes(value),
            "default-time" => partition.default_time = Some(minutes(value)),
            "max-nodes" => partition.max_nodes = Some(number(value)),
            "min-nodes" => partition.min_nodes = number(value),
            "mem-per-cpu" => partition.default_memory_per_cpu = Some(memory(value)),
            "mem-per-node" => partition.default_memory_per_node = Some(memory(value)),
            "max-mem-per-cpu" => partition.max_memory_per_cpu = Some(memory(value)),
            "tier" => partition.tier = number(value),
            "qos" => partition.qos = Some(value.to_owned()),
            "billing" => partition.billing = accounts_text::billing(value),
            "priority" => partition.priority = number(value),
            "accounts" => {
                partition.allow_accounts = value.split(',').map(str::to_owned).collect();
            }
            "state" => {
                partition.state = match value {
                    "up" => PartitionState::Up,
                    "down" => PartitionState::Down,
                    "drain" => PartitionState::Drain,
                    "inactive" => PartitionState::Inactive,
                    _ => panic!("no partition state {value:?}"),
                }
            }
            _ => panic!("a partition has no {key:?}"),
        }
    }
    EventKind::PartitionSet { partition: Box::new(partition) }
}

/// Minutes as a time limit; `unlimited` is none.
pub fn minutes(text: &str) -> TimeLimit {
    match text {
        "unlimited" => TimeLimit::Unlimited,
        n => TimeLimit::Of(Seconds::minutes(number(n))),
    }
}

fn policy(state: &State, words: &[String]) -> EventKind {
    let mut policy = Policy::clone(&state.policy);
    for (key, value) in words.iter().map(|w| field(w)) {
        match (key, value) {
            _ if preempt_text::policy_field(&mut policy, key, value) => {}
            ("backfill", "none") => policy.backfill = BackfillMode::None,
            ("backfill", "easy") => policy.backfill = BackfillMode::Easy,
            ("backfill", "conservative") => policy.backfill = BackfillMode::Conservative,
            ("backfill", "mixed") => policy.backfill = BackfillMode::Mixed,
            ("depth", n) => policy.backfill_depth.total = number(n),
            ("depth-partition", n) => policy.backfill_depth.per_partition = Some(number(n)),
            ("depth-user", n) => policy.backfill_depth.per_user = Some(number(n)),
            ("depth-account", n) => policy.backfill_depth.per_account = Some(number(n)),
            ("window", n) => {
                policy.backfill_depth.window = Some(Seconds::minutes(number(n)));
            }
            ("nodes", "pack") => policy.nodes = NodeChoice::Pack,
            ("nodes", "spread") => policy.nodes = NodeChoice::Spread,
            ("whole-for-parts", _) => policy.devices.whole_for_parts = value == "yes",
            ("memory-is-part", _) => policy.devices.memory_is_part = value == "yes",
            ("max-switch-wait", _) => policy.max_switch_wait = Seconds::minutes(number(value)),
            _ if accounts_text::priority(&mut policy, key, value) => {}
            ("kill-invalid-dependency", _) => policy.kill_invalid_dependency = value == "yes",
            _ => panic!("policy has no {key}={value}"),
        }
    }
    EventKind::PolicySet { policy: Box::new(policy) }
}
