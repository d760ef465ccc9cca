//! `muster node`: nodes, what is used of them, and whether they get new work.

use muster_api::{NodeState, NodeView};
use muster_client::Client;
use muster_slurm_syntax::hostlist;
use serde_json::json;
use std::fmt::Write as _;

use crate::args::Node;
use crate::say::{self, Failure, Outcome, note, print, tell};
use crate::table::{Table, terminal_width};

/// Runs the command.
pub(crate) fn run(command: Node) -> Outcome {
    let client = Client::connect()?;
    match command {
        Node::List(args) => {
            let nodes = client.nodes()?;
            if args.json {
                return say::json(&json!({ "nodes": nodes }));
            }
            print(&table(&nodes).text(terminal_width()));
            Ok(0)
        }
        Node::Show { name, json } => {
            let node = client.node(&name)?;
            if json {
                return say::json(&node);
            }
            tell(&text(&node));
            Ok(0)
        }
        Node::Drain { names, reason } => {
            for name in expanded(&names)? {
                told(&name, "gets no new work", client.drain(&name, &reason)?.error)?;
            }
            Ok(0)
        }
        Node::Resume { names } => {
            for name in expanded(&names)? {
                told(&name, "gets new work again", client.resume_node(&name)?.error)?;
            }
            Ok(0)
        }
    }
}

/// The nodes that host lists stand for.
pub(crate) fn expanded(lists: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for list in lists {
        let more = hostlist::expand(list, 65_536)
            .map_err(|problem| Failure::usage(problem.to_string()))?;
        names.extend(more);
    }
    Ok(names)
}

fn told(name: &str, done: &str, error: Option<muster_api::Problem>) -> Result<(), Failure> {
    if let Some(error) = error {
        return Err(Failure::new(format!("node {name}: {error}")));
    }
    note(&format!("node {name} {done}"));
    Ok(())
}

fn state(node: &NodeView) -> String {
    let word = match node.state {
        NodeState::Idle => "idle",
        NodeState::Mixed => "mixed",
        NodeState::Allocated => "allocated",
        NodeState::Down => "down",
    };
    let reserved = match &node.reservation {
        Some(_) if node.maintenance => ", maintenance".to_owned(),
        Some(name) => format!(", reserved ({name})"),
        None => String::new(),
    };
    if node.drain { format!("{word}, drained{reserved}") } else { format!("{word}{reserved}") }
}

/// `8 h100`, `4 a100 + 2 t4`.
fn gpus(node: &NodeView) -> String {
    let mut models: std::collections::BTreeMap<&str, u32> = std::collections::BTreeMap::new();
    for device in &node.devices {
        *models.entry(device.model.as_str()).or_default() += 1;
    }
    models.iter().map(|(model, count)| format!("{count} {model}")).collect::<Vec<_>>().join(" + ")
}

fn table(nodes: &[NodeView]) -> Table {
    let mut table = Table::new(&[
        "NODE",
        "STATE",
        ">CPUS USED",
        ">MEMORY USED",
        ">GPUS USED",
        "GPUS",
        "PARTITIONS",
        "WHY",
    ]);
    for node in nodes {
        table.row(vec![
            node.name.clone(),
            state(node),
            format!("{}/{}", node.cpus_used, node.cpus),
            format!("{}/{}G", node.memory_used_mib / 1024, node.memory_mib / 1024),
            if node.devices.is_empty() {
                String::new()
            } else {
                format!("{}/{}", node.gpus_used, node.devices.len())
            },
            gpus(node),
            node.partitions.join(","),
            node.reason.clone(),
        ]);
    }
    table
}

fn text(node: &NodeView) -> String {
    let mut out = format!("{}\n", say::bold(&format!("node {}", node.name)));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(out, "  {name:<11}  {value}");
        }
    };
    line("state", state(node));
    if !node.reason.is_empty() {
        let since = node.reason_since_ms.map(say::instant).unwrap_or_default();
        line("why", format!("{} ({} {since})", node.reason, node.reason_by));
    }
    line("engine", node.engine.clone());
    line("partitions", node.partitions.join(", "));
    line(
        "CPUs",
        format!(
            "{} of {} used; {} sockets of {} cores of {} threads",
            node.cpus_used, node.cpus, node.sockets, node.cores_per_socket, node.threads_per_core
        ),
    );
    line("memory", format!("{} of {} MiB used", node.memory_used_mib, node.memory_mib));
    for device in &node.devices {
        let mut text = format!("{} {} {} MiB", device.index, device.model, device.memory_mib);
        if !device.mode.is_empty() {
            let _ = write!(text, ", given out by {}", device.mode);
            if device.instances.is_empty() && device.share_used > 0 {
                let _ = write!(
                    text,
                    ", {}.{:03} and {} MiB used",
                    device.share_used / 1000,
                    device.share_used % 1000,
                    device.memory_used_mib
                );
            } else if !device.instances.is_empty() {
                let _ = write!(text, ", {}", device.instances.join(" + "));
            }
        }
        if !device.jobs.is_empty() {
            let jobs: Vec<String> = device.jobs.iter().map(ToString::to_string).collect();
            let _ = write!(text, ", held by job {}", jobs.join(", "));
        }
        if !device.unhealthy.is_empty() {
            let _ = write!(text, ", not used: {}", device.unhealthy);
        }
        line("GPU", text);
    }
    for foreign in &node.foreign {
        let device = foreign.device.map(|index| format!("GPU {index}: ")).unwrap_or_default();
        line(
            "not muster's",
            format!("{device}{} of {}, {} MiB", foreign.what, foreign.owner, foreign.memory_mib),
        );
    }
    for job in &node.jobs {
        line("job", format!("{} of {}", job.job, job.user));
    }
    line("features", node.features.iter().cloned().collect::<Vec<_>>().join(", "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::DeviceView;

    #[test]
    fn nodes_show_what_is_used() {
        let device = |index| DeviceView { index, model: "h100".into(), ..DeviceView::default() };
        let node = NodeView {
            name: "node1".into(),
            state: NodeState::Mixed,
            drain: true,
            reason: "new disk".into(),
            cpus: 64,
            cpus_used: 7,
            memory_mib: 524_288,
            memory_used_mib: 41_460,
            devices: (0..8).map(device).collect(),
            gpus_used: 2,
            partitions: vec!["main".into()],
            ..NodeView::default()
        };
        assert_eq!(
            table(&[node]).text(None),
            "NODE   STATE           CPUS USED  MEMORY USED  GPUS USED  GPUS    PARTITIONS  WHY
node1  mixed, drained       7/64      40/512G        2/8  8 h100  main        new disk
"
        );
    }
}
