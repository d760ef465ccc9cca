//! A node as `scontrol show node` has it.

use muster_api::{NodeState, NodeView};
use muster_client::Client;
use muster_model::IndexRanges;
use muster_slurm_syntax::hostlist;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Style;
use crate::clock::instant;
use crate::fail::{Failure, Outcome};
use crate::sacct::mebibytes;
use crate::{out, sinfo};

/// Shows one node, several, or all.
pub(super) fn show(client: &Client, name: Option<&str>, style: Style) -> Outcome {
    let nodes = client.nodes().map_err(|error| Failure::client("scontrol", &error))?;
    let wanted = match name {
        Some(list) => hostlist::expand(list, 65_536)
            .map_err(|_| Failure::says(format!("Node {list} not found")))?,
        None => nodes.iter().map(|node| node.name.clone()).collect(),
    };
    let mut text = String::new();
    let mut shown = Vec::new();
    for name in wanted {
        let node = nodes
            .iter()
            .find(|node| node.name == name)
            .ok_or_else(|| Failure::says(format!("Node {name} not found")))?;
        text.push_str(&record(node, style));
        shown.push(sinfo::json_node(node));
    }
    if style.json {
        out::print_json(&crate::squeue::json::envelope("nodes", &shown));
    } else {
        out::print(&text);
    }
    Ok(0)
}

fn record(node: &NodeView, style: Style) -> String {
    let features = node.features.iter().cloned().collect::<Vec<_>>().join(",");
    let features = if features.is_empty() { "(null)".to_owned() } else { features };
    let mut lines = vec![
        format!(
            "NodeName={} Arch={} CoresPerSocket={} ",
            node.name,
            std::env::consts::ARCH,
            node.cores_per_socket
        ),
        format!(
            "CPUAlloc={} CPUEfctv={} CPUTot={} CPULoad=N/A",
            node.cpus_used, node.cpus, node.cpus
        ),
        format!("AvailableFeatures={features}"),
        format!("ActiveFeatures={features}"),
        format!("Gres={}", gres(node)),
    ];
    if style.details {
        lines.push(format!("GresDrain=N/A\n   GresUsed={}", gres_used(node)));
    }
    lines.extend([
        format!("NodeAddr={} NodeHostName={} Version={}", node.name, node.name, crate::release()),
        "OS=Linux ".to_owned(),
        format!(
            "RealMemory={} AllocMem={} FreeMem=N/A Sockets={} Boards=1",
            node.memory_mib, node.memory_used_mib, node.sockets
        ),
        format!(
            "State={} ThreadsPerCore={} TmpDisk={} Weight={} Owner=N/A MCS_label=N/A",
            state(node),
            node.threads_per_core,
            node.scratch_mib,
            node.weight
        ),
        format!("Partitions={} ", node.partitions.join(",")),
        "BootTime=None SlurmdStartTime=None".to_owned(),
        "LastBusyTime=None".to_owned(),
        format!("CfgTRES={}", configured(node)),
        format!("AllocTRES={}", allocated(node)),
        "CapWatts=n/a".to_owned(),
        "CurrentWatts=0 AveWatts=0".to_owned(),
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s".to_owned(),
    ]);
    if !node.reason.is_empty() {
        let since = node.reason_since_ms.map(instant).unwrap_or_default();
        let by = if node.reason_by.is_empty() { "muster" } else { &node.reason_by };
        lines.push(format!("Reason={} [{by}@{since}]", node.reason));
    }
    if style.one_line { lines.join(" ") + "\n" } else { lines.join("\n   ") + "\n\n" }
}

/// `IDLE`, `MIXED+DRAIN`.
fn state(node: &NodeView) -> String {
    let base = match node.state {
        NodeState::Idle => "IDLE",
        NodeState::Mixed => "MIXED",
        NodeState::Allocated => "ALLOCATED",
        NodeState::Down => "DOWN",
    };
    let mut text = base.to_owned();
    for (holds, word) in [
        (node.drain, "+DRAIN"),
        (node.maintenance, "+MAINTENANCE"),
        (node.reservation.is_some(), "+RESERVED"),
    ] {
        if holds {
            text.push_str(word);
        }
    }
    text
}

/// `gpu:a100:4`, or `(null)` where there is none.
pub(crate) fn gres(node: &NodeView) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for device in &node.devices {
        let model =
            if device.model.is_empty() { String::new() } else { format!(":{}", device.model) };
        *counts.entry(format!("gpu{model}")).or_default() += 1;
    }
    let pieces: u64 = node.devices.iter().map(|d| u64::from(d.pieces)).sum();
    if pieces > 0 {
        counts.insert("shard".to_owned(), pieces);
    }
    counts.extend(node.gres.iter().map(|(name, count)| (name.clone(), *count)));
    if counts.is_empty() {
        return "(null)".to_owned();
    }
    counts.iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(",")
}

/// `gpu:a100:2(IDX:0-1)`.
pub(crate) fn gres_used(node: &NodeView) -> String {
    let mut used: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for device in &node.devices {
        let taken = used.entry(device.model.as_str()).or_default();
        if !device.jobs.is_empty() {
            taken.push(device.index);
        }
    }
    if used.is_empty() {
        return "gpu:0".to_owned();
    }
    let part = |(model, taken): (&str, Vec<u32>)| {
        let model = if model.is_empty() { String::new() } else { format!(":{model}") };
        let count = taken.len();
        let indices: IndexRanges = taken.into_iter().collect();
        let indices = if count == 0 { "N/A".to_owned() } else { indices.to_string() };
        format!("gpu{model}:{count}(IDX:{indices})")
    };
    let mut parts: Vec<String> = used.into_iter().map(part).collect();
    parts.extend(shards_used(node));
    parts.join(",")
}

/// `shard:8(-/5,5/5,3/5,0/5)`: of each device the pieces used of those it has, `-` where one job
/// has all of it (GRES page, sharing).
fn shards_used(node: &NodeView) -> Option<String> {
    let counted = || node.devices.iter().filter(|d| d.pieces > 0);
    let used = |d: &muster_api::DeviceView| {
        let milli = u64::from(d.share_used) * u64::from(d.pieces);
        milli.div_ceil(1000)
    };
    // One who has all of the memory, the driver's own too, has it as a whole.
    let is_whole = |d: &muster_api::DeviceView| {
        d.share_used >= 1000 && d.jobs.len() == 1 && d.memory_used_mib == d.memory_mib
    };
    let one = |d: &muster_api::DeviceView| {
        if is_whole(d) { format!("-/{}", d.pieces) } else { format!("{}/{}", used(d), d.pieces) }
    };
    let total: u64 = counted().filter(|d| !is_whole(d)).map(used).sum();
    let each: Vec<String> = counted().map(one).collect();
    (!each.is_empty()).then(|| format!("shard:{total}({})", each.join(",")))
}

/// `cpu=8,mem=16000M,billing=8,gres/gpu=4`.
pub(crate) fn configured(node: &NodeView) -> String {
    let mut text =
        format!("cpu={},mem={},billing={}", node.cpus, mebibytes(node.memory_mib), node.cpus);
    if !node.devices.is_empty() {
        let _ = write!(text, ",gres/gpu={}", node.devices.len());
    }
    text
}

/// `cpu=4,mem=700M,gres/gpu=2`, empty where nothing is held.
pub(crate) fn allocated(node: &NodeView) -> String {
    let mut parts = Vec::new();
    if node.cpus_used > 0 {
        parts.push(format!("cpu={}", node.cpus_used));
    }
    if node.memory_used_mib > 0 {
        parts.push(format!("mem={}", mebibytes(node.memory_used_mib)));
    }
    if node.gpus_used > 0 {
        parts.push(format!("gres/gpu={}", node.gpus_used));
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::DeviceView;

    fn node() -> NodeView {
        let device = |index| DeviceView {
            index,
            model: "a100".into(),
            jobs: if index < 2 { vec![7] } else { Vec::new() },
            ..DeviceView::default()
        };
        NodeView {
            name: "n1".into(),
            state: NodeState::Mixed,
            partitions: vec!["main".into(), "short".into()],
            cpus: 8,
            cpus_used: 4,
            sockets: 1,
            cores_per_socket: 8,
            threads_per_core: 1,
            memory_mib: 16_000,
            memory_used_mib: 700,
            devices: (0..4).map(device).collect(),
            gpus_used: 2,
            weight: 1,
            ..NodeView::default()
        }
    }

    #[test]
    fn a_node_is_laid_out_as_slurm_does() {
        let text = record(&node(), Style::default());
        let version = crate::release();
        let arch = std::env::consts::ARCH;
        assert_eq!(
            text,
            format!(
                "NodeName=n1 Arch={arch} CoresPerSocket=8 
   CPUAlloc=4 CPUEfctv=8 CPUTot=8 CPULoad=N/A
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=gpu:a100:4
   NodeAddr=n1 NodeHostName=n1 Version={version}
   OS=Linux 
   RealMemory=16000 AllocMem=700 FreeMem=N/A Sockets=1 Boards=1
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main,short 
   BootTime=None SlurmdStartTime=None
   LastBusyTime=None
   CfgTRES=cpu=8,mem=16000M,billing=8,gres/gpu=4
   AllocTRES=cpu=4,mem=700M,gres/gpu=2
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s

"
            )
        );
    }

    #[test]
    fn drained_nodes_say_so() {
        let node =
            NodeView { drain: true, reason: "test".into(), reason_by: "root".into(), ..node() };
        assert_eq!(state(&node), "MIXED+DRAIN");
        assert!(
            record(&node, Style { one_line: true, ..Style::default() })
                .contains("Reason=test [root@]")
        );
        assert_eq!(gres_used(&node), "gpu:a100:2(IDX:0-1)");
    }

    #[test]
    fn t35_pieces_are_shown_device_by_device() {
        let device = |index, share_used, jobs: &[u32]| DeviceView {
            index,
            memory_mib: 100,
            memory_used_mib: u64::from(share_used) / 10,
            mode: "time-slice".to_owned(),
            pieces: 5,
            share_used,
            jobs: jobs.to_vec(),
            ..DeviceView::default()
        };
        let node = NodeView {
            devices: vec![
                device(0, 1000, &[1]),
                device(1, 1000, &[2, 3]),
                device(2, 600, &[4]),
                device(3, 0, &[]),
            ],
            ..NodeView::default()
        };
        assert_eq!(gres_used(&node), "gpu:3(IDX:0-2),shard:8(-/5,5/5,3/5,0/5)");
        assert_eq!(gres(&node), "gpu:4,shard:20");
    }
}
