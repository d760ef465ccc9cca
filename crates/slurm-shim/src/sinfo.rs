//! `sinfo`: partitions and nodes as a table (sinfo manual).

mod fields;

use std::collections::BTreeMap;

use muster_api::{NodeState, NodeView, PartitionView};
use muster_client::Client;
use muster_slurm_syntax::hostlist;
use serde_json::{Value, json};

use crate::columns::{self, Column, Layout, Width};
use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, Takes, alias, flag, value};
use crate::{clock, out};
use fields::{Field, Group, Level};

const DEFAULT: &str = "%9P %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
const SUMMARY: &str = "%9P %.5a %.10l %.16F %N";
const REASONS: &str = "%20E %9u %19H %N";

const TABLE: &[Opt] = &[
    flag("all", 'a'),
    value("clusters", 'M'),
    value("cluster", NO_SHORT),
    flag("dead", 'd'),
    flag("exact", 'e'),
    flag("federation", NO_SHORT),
    value("format", 'o'),
    value("Format", 'O'),
    flag("future", 'F'),
    flag("help", NO_SHORT),
    flag("hide", NO_SHORT),
    value("iterate", 'i'),
    getopt::maybe("json", NO_SHORT),
    flag("list-reasons", 'R'),
    flag("local", NO_SHORT),
    flag("long", 'l'),
    flag("Node", 'N'),
    flag("noconvert", NO_SHORT),
    flag("noheader", 'h'),
    value("nodes", 'n'),
    value("partition", 'p'),
    alias("partitions", "partition", Takes::Value),
    flag("reservation", 'T'),
    flag("responding", 'r'),
    value("sort", 'S'),
    value("states", 't'),
    alias("state", "states", Takes::Value),
    flag("summarize", 's'),
    flag("usage", NO_SHORT),
    flag("verbose", 'v'),
    flag("version", 'V'),
    getopt::maybe("yaml", NO_SHORT),
];

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let parsed = getopt::parse("sinfo", TABLE, args, Order::Mixed)
        .map_err(|message| Failure::usage("sinfo", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") || parsed.has("usage") {
        return crate::help("sinfo", TABLE);
    }
    if parsed.has("reservation") {
        let failed = |error: muster_client::ClientError| Failure::client("sinfo", &error);
        let all = muster_client::Client::connect().and_then(|client| client.reservations());
        let all = all.map_err(failed)?;
        let text = match all.is_empty() {
            true => "No reservations in the system\n".to_owned(),
            false => crate::scontrol::reservation::table(&all, !parsed.has("noheader")),
        };
        out::print(&text);
        return Ok(0);
    }
    let Some(seconds) = parsed.last("iterate") else { return once(&parsed) };
    let seconds: u64 =
        seconds.parse().ok().filter(|s| *s > 0).ok_or_else(|| {
            Failure::error("sinfo", &format!("{seconds} is not a number of seconds"))
        })?;
    loop {
        out::print(&format!("{}\n", clock::sentence(clock::now())));
        once(&parsed)?;
        std::thread::sleep(std::time::Duration::from_secs(seconds));
    }
}

fn once(parsed: &Parsed) -> Outcome {
    let failed = |error: muster_client::ClientError| Failure::client("sinfo", &error);
    let client = Client::connect().map_err(failed)?;
    let nodes = client.nodes().map_err(failed)?;
    let partitions = client.partitions().map_err(failed)?;
    let nodes = wanted(parsed, nodes)?;
    if parsed.has("json") {
        let nodes: Vec<_> = nodes.iter().map(json_node).collect();
        out::print_json(&crate::squeue::json::envelope("nodes", &nodes));
        return Ok(0);
    }
    let partitions: Vec<PartitionView> = match parsed.last("partition") {
        Some(names) => {
            partitions.into_iter().filter(|p| names.split(',').any(|n| n == p.name)).collect()
        }
        None => partitions,
    };
    if parsed.has("long") && !parsed.has("noheader") {
        out::print(&format!("{}\n", clock::sentence(clock::now())));
    }
    let layout = layout(parsed, &nodes)?;
    let groups = groups(&layout, &partitions, &nodes, parsed.has("Node"));
    out::print(&table(&layout, &groups, parsed.has("noheader")));
    Ok(0)
}

fn table(layout: &Layout<Field>, groups: &[Group<'_>], plain: bool) -> String {
    let mut text = String::new();
    if !plain {
        text.push_str(&layout.line(|field| field.title.to_owned()));
        text.push('\n');
    }
    for group in groups {
        text.push_str(&layout.line(|field| (field.text)(group)));
        text.push('\n');
    }
    text
}

/// The nodes that the options keep.
fn wanted(parsed: &Parsed, nodes: Vec<NodeView>) -> Result<Vec<NodeView>, Failure> {
    let names = match parsed.last("nodes") {
        Some(list) => Some(
            hostlist::expand(list, 65_536)
                .map_err(|problem| Failure::error("sinfo", &problem.to_string()))?,
        ),
        None => None,
    };
    let states: Option<Vec<String>> = parsed
        .last("states")
        .filter(|text| !text.eq_ignore_ascii_case("all"))
        .map(|text| text.to_ascii_lowercase().split(',').map(str::to_owned).collect());
    let keeps = |node: &NodeView| {
        names.as_ref().is_none_or(|names| names.contains(&node.name))
            && states.as_ref().is_none_or(|states| states.iter().any(|word| is_in(node, word)))
            && (!parsed.has("list-reasons") || !node.reason.is_empty())
            && (!parsed.has("dead") || node.state == NodeState::Down)
            && (!parsed.has("responding") || node.state != NodeState::Down)
    };
    Ok(nodes.into_iter().filter(keeps).collect())
}

/// True where a node is in the state that a word names.
fn is_in(node: &NodeView, word: &str) -> bool {
    match word {
        "drain" => node.drain,
        "drng" | "draining" => state(node).0 == "drng",
        "drained" => state(node).1 == "drained",
        _ => word == state(node).0 || word == state(node).1,
    }
}

/// The short and the long word for a node's state.
pub(crate) fn state(node: &NodeView) -> (&'static str, &'static str) {
    let busy = matches!(node.state, NodeState::Mixed | NodeState::Allocated);
    match (node.drain, node.state) {
        (true, _) if busy => ("drng", "draining"),
        (true, _) => ("drain", "drained"),
        (false, NodeState::Idle) if node.maintenance => ("maint", "maint"),
        (false, NodeState::Idle) if node.reservation.is_some() => ("resv", "reserved"),
        (false, NodeState::Idle) => ("idle", "idle"),
        (false, NodeState::Mixed) => ("mix", "mixed"),
        (false, NodeState::Allocated) => ("alloc", "allocated"),
        (false, NodeState::Down) => ("down*", "down*"),
    }
}

fn layout(parsed: &Parsed, nodes: &[NodeView]) -> Result<Layout<Field>, Failure> {
    if let Some(format) = parsed.last("Format") {
        let mut layout = Layout { before: String::new(), columns: Vec::new() };
        for item in columns::named(format) {
            let field = fields::by_name(item.name).ok_or_else(|| {
                Failure::error(
                    "sinfo",
                    &format!("Invalid node format specification: {}", item.name),
                )
            })?;
            layout.columns.push(Column { field, width: item.width, after: item.after.to_owned() });
        }
        return Ok(layout);
    }
    let variable = std::env::var("SINFO_FORMAT").ok().filter(|text| !text.is_empty());
    let by_node = match (parsed.has("Node"), parsed.has("long")) {
        (true, true) => Some("%N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"),
        (true, false) => Some("%N %.6D %.9P %6t"),
        _ => None,
    };
    let format = match (parsed.last("format"), by_node) {
        (Some(format), _) => format,
        (None, _) if parsed.has("list-reasons") => REASONS,
        (None, _) if parsed.has("summarize") => SUMMARY,
        (None, Some(format)) => format,
        (None, None) if parsed.has("long") => LONG,
        (None, None) => variable.as_deref().unwrap_or(DEFAULT),
    };
    let (mut layout, unknown) = columns::percent(format, fields::by_letter);
    for letter in unknown {
        out::say(&format!("Invalid node format specification: {letter}"));
    }
    // The first column of a list of nodes is as wide as the longest name asks for.
    if by_node.is_some()
        && parsed.last("format").is_none()
        && let Some(first) = layout.columns.first_mut()
    {
        let longest = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
        first.width = Some(Width { chars: (longest + 1).max(9), right: false });
    }
    Ok(layout)
}

/// The lines of the table: nodes alike in everything that the columns show, within a partition.
fn groups<'a>(
    layout: &Layout<Field>,
    partitions: &'a [PartitionView],
    nodes: &'a [NodeView],
    by_node: bool,
) -> Vec<Group<'a>> {
    let has = |level: Level| layout.columns.iter().any(|column| column.field.level == level);
    let by_partition = by_node || has(Level::Partition);
    let key = |node: &NodeView| -> Vec<String> {
        let alone = Group { partition: None, nodes: vec![node] };
        let mut key: Vec<String> = Vec::new();
        if by_node {
            key.push(node.name.clone());
        }
        let of_nodes = layout.columns.iter().filter(|column| column.field.level == Level::Node);
        key.extend(of_nodes.map(|column| (column.field.text)(&alone)));
        key
    };
    let mut result = Vec::new();
    let mut add = |partition: Option<&'a PartitionView>, members: Vec<&'a NodeView>| {
        let mut alike: BTreeMap<(u8, Vec<String>), Vec<&NodeView>> = BTreeMap::new();
        for node in members {
            alike.entry((rank(node), key(node))).or_default().push(node);
        }
        if alike.is_empty() && partition.is_some() && !by_node {
            result.push(Group { partition, nodes: Vec::new() });
        }
        // Ranks only order the lines; what looks alike shares one.
        let mut lines: Vec<(Vec<String>, Vec<&NodeView>)> = Vec::new();
        for ((_, key), nodes) in alike {
            match lines.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => known.extend(nodes),
                None => lines.push((key, nodes)),
            }
        }
        result.extend(lines.into_iter().map(|(_, mut nodes)| {
            nodes.sort_by_key(|node| node.id);
            Group { partition, nodes }
        }));
    };
    if by_partition {
        for partition in partitions {
            add(
                Some(partition),
                nodes.iter().filter(|n| partition.nodes.contains(&n.name)).collect(),
            );
        }
    } else {
        let shown = |node: &&NodeView| partitions.iter().any(|p| p.nodes.contains(&node.name));
        add(None, nodes.iter().filter(shown).collect());
    }
    if by_node {
        result.sort_by_key(|group| group.nodes.first().map_or(0, |node| node.id));
    }
    result
}

/// Slurm lists nodes by state, the drained first (`-t`).
fn rank(node: &NodeView) -> u8 {
    match (node.drain, node.state) {
        (true, _) => 0,
        (false, NodeState::Mixed) => 1,
        (false, NodeState::Allocated) => 2,
        (false, NodeState::Idle) if node.maintenance => 5,
        (false, NodeState::Idle) if node.reservation.is_some() => 6,
        (false, NodeState::Idle) => 3,
        (false, NodeState::Down) => 4,
    }
}

/// A node as `sinfo --json` has it.
pub(crate) fn json_node(node: &NodeView) -> Value {
    let features: Vec<&str> = node.features.iter().map(String::as_str).collect();
    json!({
        "architecture": std::env::consts::ARCH,
        "boards": 1,
        "cores": node.cores_per_socket,
        "cpus": node.cpus,
        "features": features.join(","),
        "active_features": features.join(","),
        "gres": crate::scontrol::gres(node),
        "gres_used": crate::scontrol::gres_used(node),
        "name": node.name,
        "address": node.name,
        "hostname": node.name,
        "state": state(node).1.trim_end_matches('*'),
        "state_flags": if node.drain { vec!["DRAIN"] } else { Vec::new() },
        "partitions": node.partitions,
        "real_memory": node.memory_mib,
        "reason": node.reason,
        "reason_changed_at": node.reason_since_ms.map_or(0, muster_model::Timestamp::secs),
        "reason_set_by_user": node.reason_by,
        "sockets": node.sockets,
        "threads": node.threads_per_core,
        "temporary_disk": node.scratch_mib,
        "weight": node.weight,
        "tres": crate::scontrol::configured(node),
        "tres_used": crate::scontrol::allocated(node),
        "alloc_memory": node.memory_used_mib,
        "alloc_cpus": node.cpus_used,
        "idle_cpus": node.cpus.saturating_sub(node.cpus_used),
        "slurmd_version": crate::release(),
    })
}

#[cfg(test)]
mod tests;
