//! Nodes.

use super::record::Record;
use muster_model::{
    Availability, CpuSet, Device, Drain, EngineName, Mib, Node, NodeId, NumaDomain, Timestamp,
};
use muster_slurm_syntax::gres;
use std::collections::BTreeMap;

/// Words of a node's state that say that it cannot be used at all (scontrol manual, node states).
const DOWN: [&str; 9] = [
    "DOWN",
    "ERROR",
    "FAIL",
    "FUTURE",
    "INVAL",
    "NOT_RESPONDING",
    "POWERED_DOWN",
    "POWERING_DOWN",
    "UNKNOWN",
];

/// The nodes of `scontrol -o show node`, numbered in the order in which they are told.
pub(super) fn all(text: &str) -> Result<Vec<Node>, String> {
    (0..).zip(Record::all(text)).map(|(id, record)| node(NodeId(id), &record)).collect()
}

fn node(id: NodeId, record: &Record) -> Result<Node, String> {
    let name = record.need("NodeName")?.to_owned();
    let of = |why: String| format!("node {name}: {why}");
    let count = |key: &str| record.number::<u32>(key).map_err(of);
    let total = count("CPUTot")?.unwrap_or(1);
    let sockets = count("Sockets")?.unwrap_or(1).max(1);
    let threads = count("ThreadsPerCore")?.unwrap_or(1).max(1);
    // Cores kept for the system are the last ones.
    let cpus = count("CPUEfctv")?.unwrap_or(total).min(total);
    let real: u64 = record.number("RealMemory").map_err(of)?.unwrap_or(0);
    let kept: u64 = record.number("MemSpecLimit").map_err(of)?.unwrap_or(0);
    let memory = Mib(real.saturating_sub(kept));
    let (devices, others) = gres_of(record.get("Gres").unwrap_or_default()).map_err(of)?;
    let (availability, drain) = standing(record);
    Ok(Node {
        id,
        name: name.clone(),
        engine: EngineName("slurm".to_owned()),
        cpus: CpuSet::first(cpus),
        threads_per_core: threads,
        numa: sockets_of(total, cpus, sockets, memory),
        memory,
        scratch: Mib(record.number("TmpDisk").map_err(of)?.unwrap_or(0)),
        devices,
        gres: others,
        features: record.words("ActiveFeatures").map(str::to_owned).collect(),
        weight: count("Weight")?.unwrap_or(1),
        availability,
        drain,
        ..Node::default()
    })
}

/// One domain a socket: Slurm numbers CPUs socket by socket.
fn sockets_of(total: u32, usable: u32, sockets: u32, memory: Mib) -> Vec<NumaDomain> {
    let each = (total / sockets).max(1);
    let domain = |id: u32| NumaDomain {
        id,
        socket: id,
        cpus: (id * each..((id + 1) * each).min(usable)).collect(),
        memory: Mib(memory.0 / u64::from(sockets)),
    };
    (0..sockets).map(domain).collect()
}

/// GPUs by index, and what else can be counted. `Gres=gpu:a100:2(S:0),gpu:h100:2(S:1),fpga:1`:
/// devices are numbered in this order.
fn gres_of(text: &str) -> Result<(Vec<Device>, BTreeMap<String, u64>), String> {
    let (mut devices, mut others) = (Vec::new(), BTreeMap::new());
    for entry in entries(text) {
        let (plain, sockets) = entry.split_once('(').unwrap_or((entry, ""));
        // One socket is a place; several say nothing.
        let numa = sockets.strip_prefix("S:").and_then(|s| s.trim_end_matches(')').parse().ok());
        for one in gres::parse(plain).map_err(|problem| problem.what)? {
            if one.name != "gpu" {
                *others.entry(one.name).or_default() += one.count;
                continue;
            }
            if devices.len() as u64 + one.count > 128 {
                return Err(format!("more than 128 GPUs in {text}"));
            }
            let model = one.kind.unwrap_or_else(|| "gpu".to_owned()).to_ascii_lowercase();
            for _ in 0..one.count {
                let index = devices.len() as u32;
                devices.push(Device { index, model: model.clone(), numa, ..Device::default() });
            }
        }
    }
    Ok((devices, others))
}

/// The entries of a list, parted by commas outside of parentheses.
pub(super) fn entries(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut deep) = (Vec::new(), 0, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => deep += 1,
            ')' | ']' => deep = deep.saturating_sub(1),
            ',' if deep == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether it can be used, and whether it takes new work. `IDLE+DRAIN`, `DOWN*`, `IDLE+PLANNED`.
fn standing(record: &Record) -> (Availability, Option<Drain>) {
    let state = record.get("State").unwrap_or("UNKNOWN");
    // A mark at the end: `*` is one that does not answer, the others are about power and reboot.
    let silent = state.ends_with('*');
    let words: Vec<&str> = state
        .split('+')
        .map(|word| word.trim_end_matches(['*', '~', '#', '%', '$', '@', '^', '!', '-']))
        .collect();
    let said = record.get("Reason").unwrap_or_default();
    let (reason, by) = said.split_once(" [").unwrap_or((said, ""));
    let (by, since) = by.trim_end_matches(']').split_once('@').unwrap_or_default();
    let since = Timestamp::from_secs(since.parse().unwrap_or(0));
    let down = silent || words.iter().any(|word| DOWN.contains(word));
    let reason = if reason.is_empty() { state } else { reason }.to_owned();
    let availability = match down {
        true => Availability::Down { reason: reason.clone(), since },
        false => Availability::Up,
    };
    let drains = words.iter().any(|word| word.starts_with("DRAIN"));
    let drain = drains.then(|| Drain { reason, by: by.to_owned(), since });
    (availability, drain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Node {
        all(line).expect("a node").remove(0)
    }

    #[test]
    fn gpus_are_numbered_in_the_order_of_the_list_and_know_their_socket() {
        let node = one("NodeName=g1 CPUTot=8 Sockets=2 ThreadsPerCore=1 RealMemory=100 \
                        Gres=gpu:a100:2(S:0),gpu:H100:1(S:0-1),fpga:3 State=IDLE");
        let told: Vec<(u32, &str, Option<u32>)> =
            node.devices.iter().map(|d| (d.index, d.model.as_str(), d.numa)).collect();
        assert_eq!(told, [(0, "a100", Some(0)), (1, "a100", Some(0)), (2, "h100", None)]);
        assert_eq!(node.gres.get("fpga"), Some(&3));
        assert_eq!(node.numa[1].cpus, (4..8).collect());
    }

    #[test]
    fn states_say_whether_a_node_can_be_used() {
        let state = |text: &str| one(&format!("NodeName=x CPUTot=1 State={text}"));
        assert!(state("IDLE").is_usable());
        assert!(state("MIXED+PLANNED").is_usable());
        assert!(!state("IDLE*").is_usable());
        assert!(!state("DOWN+NOT_RESPONDING").is_usable());
        assert!(!state("IDLE~+POWERED_DOWN").is_usable());
        let drained = state("ALLOCATED+DRAIN Reason=bad disk [root@1796158396]");
        let drain = drained.drain.expect("drained");
        assert_eq!((drain.reason.as_str(), drain.by.as_str()), ("bad disk", "root"));
        assert_eq!(drain.since, Timestamp::from_secs(1_796_158_396));
        assert_eq!(drained.availability, Availability::Up);
    }

    #[test]
    fn cores_kept_for_the_system_are_not_given_out() {
        let node = one("NodeName=x CPUTot=8 CPUEfctv=6 Sockets=2 RealMemory=1000 MemSpecLimit=200");
        assert_eq!((node.cpus.len(), node.memory), (6, Mib(800)));
    }
}
