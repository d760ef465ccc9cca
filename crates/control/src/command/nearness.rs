//! Whether the nodes of a partition could ever be as near, and have such labels, as a job requires.

use super::CommandError;
use super::shapes::Kind;
use muster_model::affinity::{BARRING, untolerated};
use muster_model::{Affinity, JobSpec, Node, Partition, Request, State};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Refuses what no domain of the required level could hold, were all its nodes empty and up.
///
/// Work: the partition's nodes once, and only for jobs that require a level or segments.
pub(super) fn check(
    state: &State,
    spec: &JobSpec,
    partitions: &[Arc<Partition>],
) -> Result<(), CommandError> {
    let asked = &spec.request.topology;
    let wanted = spec.request.nodes_min();
    if asked.required.is_none() && asked.segment_for(wanted).is_none() {
        return Ok(());
    }
    let mut refusal = None;
    for partition in partitions {
        let nodes: Vec<&Node> = state.partition_nodes(partition).map(AsRef::as_ref).collect();
        if nodes.len() < partition.nodes.len() {
            return Ok(());
        }
        let Some(lacking) = lacking(state, &spec.request, &nodes, wanted) else { return Ok(()) };
        let (partition, change) = (partition.name.clone(), None);
        refusal = Some(CommandError::NeverFits { partition, lacking, change });
    }
    refusal.map_or(Ok(()), Err)
}

fn lacking(state: &State, request: &Request, nodes: &[&Node], wanted: u32) -> Option<String> {
    let asked = &request.topology;
    let levels = state.topology.level_count(state.nodes.values().map(AsRef::as_ref));
    let names: Vec<String> = (0..levels).map(|l| state.topology.level_name(l)).collect();
    let paths = state.topology.paths(nodes);
    let sizes = |level: usize| {
        let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
        for name in paths.values().filter_map(|path| path.get(level).copied().flatten()) {
            *sizes.entry(name).or_default() += 1;
        }
        sizes
    };
    if let Some(required) = &asked.required {
        let Some(level) = state.topology.level_named(required, levels) else {
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Some(format!("there is no level {required}; levels: {known}"));
        };
        let largest = sizes(level).values().copied().max().unwrap_or(0);
        if largest < wanted {
            return Some(format!(
                "needs {wanted} nodes in one {required}; the largest has {largest} (with \
                 preferred:{required} it could run)"
            ));
        }
    }
    if let Some(segment) = asked.segment_for(wanted) {
        let room: u32 = if levels == 0 { 0 } else { sizes(0).values().map(|n| n / segment).sum() };
        if room * segment < wanted {
            let level = names.first().map_or("block", String::as_str);
            return Some(format!(
                "needs {} segments of {segment} nodes, each in one {level}; there is room for {room}",
                wanted / segment
            ));
        }
    }
    None
}

/// What keeps a request from a node that it names: its taints or its labels; with the change that
/// would do.
pub(super) fn barred(request: &Request, name: &str, node: &Node) -> Option<String> {
    let none = Affinity::default();
    let affinity = request.affinity.as_deref().unwrap_or(&none);
    let taints: Vec<String> =
        untolerated(node, &affinity.tolerations, &BARRING).map(ToString::to_string).collect();
    if !taints.is_empty() {
        let taints = taints.join(",");
        return Some(format!(
            "names node {name}, whose taints {taints} it does not tolerate (with \
             --toleration={taints} it would)"
        ));
    }
    // A kind stands for nodes of several names.
    let by_name = affinity.node.required.iter().flat_map(|t| &t.all).any(|e| e.key == ".name");
    (!by_name && !affinity.admits(node))
        .then(|| format!("names node {name}, whose labels are not those that it requires"))
}

/// What keeps a request from all but too few nodes: labels that they lack, or taints that it does
/// not tolerate; with the change that would do.
pub(super) fn unsuited(request: &Request, kinds: &[Kind<'_>], wanted: u32) -> Option<String> {
    let none = Affinity::default();
    let affinity = request.affinity.as_deref().unwrap_or(&none);
    let count = |suits: &dyn Fn(&Node) -> bool| -> u32 {
        kinds.iter().filter(|(node, _)| suits(node)).map(|(_, n)| n).sum()
    };
    let open = |node: &Node| untolerated(node, &affinity.tolerations, &BARRING).next().is_none();
    // A kind stands for nodes of several names.
    let by_name = affinity.node.required.iter().flat_map(|t| &t.all).any(|e| e.key == ".name");
    let labelled = |node: &Node| by_name || affinity.admits(node);
    let both = count(&|node| open(node) && labelled(node));
    if both >= wanted {
        return None;
    }
    let (without_labels, without_taints) = (count(&open), count(&labelled));
    let terms: Vec<String> = affinity.node.required.iter().map(ToString::to_string).collect();
    if without_labels >= wanted {
        return Some(format!(
            "needs {wanted} of its nodes with node({}); there are {both} (without that rule \
             {without_labels} would do)",
            terms.join("|")
        ));
    }
    if without_taints >= wanted {
        let nodes = kinds.iter().filter(|(node, _)| labelled(node)).map(|(node, _)| *node);
        let mut taints: Vec<String> = nodes
            .flat_map(|node| untolerated(node, &affinity.tolerations, &BARRING))
            .map(ToString::to_string)
            .collect();
        taints.sort();
        taints.dedup();
        taints.truncate(4);
        return Some(format!(
            "tolerates the taints of {both} of its nodes and needs {wanted} (with \
             --toleration={} {without_taints} would do)",
            taints.join(",")
        ));
    }
    None
}
