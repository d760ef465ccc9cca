//! Switches and blocks.

use super::config::Config;
use super::record::Record;
use muster_model::{Span, Topology, TopologyDomain, TopologyLevel};
use muster_slurm_syntax::hostlist;

/// Slurm's own names of the levels of a tree of switches, from the nodes up.
const SWITCH_LEVELS: [&str; 3] = ["leaf", "spine", "core"];

/// The topology of `scontrol -o show topology`. A level of blocks has one name; switches are
/// levels of their own.
pub(super) fn of(text: &str, config: &Config) -> Result<Topology, String> {
    let mut topology = Topology::default();
    let records: Vec<Record> = Record::all(text).collect();
    for record in &records {
        let (name, level, blocks) = match (record.get("SwitchName"), record.get("BlockName")) {
            (Some(name), _) => (name, record.number("Level")?.unwrap_or(0u32), false),
            (None, Some(name)) => (name, 0, true),
            // Aggregated blocks and lines of later versions.
            (None, None) => continue,
        };
        let of = |why: String| format!("switch or block {name}: {why}");
        // A switch names the nodes of all switches beneath it; the leaves are enough.
        let nodes = match level {
            0 => hostlist::expand(record.get("Nodes").unwrap_or_default(), hostlist::HOSTS_MAX)
                .map_err(|problem| of(problem.what))?,
            _ => Vec::new(),
        };
        let nodes = nodes.into_iter().filter(|node| !node.is_empty()).collect();
        while topology.levels.len() <= level as usize {
            let at = topology.levels.len();
            let name = match SWITCH_LEVELS.get(at) {
                _ if blocks => "block".to_owned(),
                Some(name) => (*name).to_owned(),
                None => format!("level{}", at + 1),
            };
            topology.levels.push(TopologyLevel { name, ..TopologyLevel::default() });
        }
        let domain = TopologyDomain { level, nodes, ..TopologyDomain::default() };
        topology.domains.insert(name.to_owned(), domain);
    }
    for record in &records {
        let (Some(name), Some(below)) = (record.get("SwitchName"), record.get("Switches")) else {
            continue;
        };
        let below = hostlist::expand(below, hostlist::HOSTS_MAX)
            .map_err(|problem| format!("switch {name}: {}", problem.what))?;
        for switch in below {
            if let Some(domain) = topology.domains.get_mut(&switch) {
                domain.parent = Some(name.to_owned());
            }
        }
    }
    // Without TopoOptional no job spans switches that no other switch joins (topology guide).
    let is_tree = config.topology.ends_with("tree") && !config.topology_optional;
    if is_tree && !topology.domains.is_empty() {
        topology.span = Span::Connected;
    }
    Ok(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[0-1]\n\
                        SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[2-3]\n\
                        SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=leaf[0-1]\n";

    #[test]
    fn a_tree_has_its_leaves_under_their_switch() {
        let config = Config { topology: "topology/tree".to_owned(), ..Config::default() };
        let topology = of(TREE, &config).expect("a tree");
        let levels: Vec<&str> = topology.levels.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(levels, ["leaf", "spine"]);
        let leaf = &topology.domains["leaf1"];
        assert_eq!((leaf.level, leaf.parent.as_deref()), (0, Some("spine")));
        assert_eq!(leaf.nodes.iter().collect::<Vec<_>>(), ["n2", "n3"]);
        assert!(topology.domains["spine"].nodes.is_empty());
        assert_eq!(topology.span, Span::Connected);
        let optional = Config { topology_optional: true, ..config };
        assert_eq!(of(TREE, &optional).expect("a tree").span, Span::Anywhere);
    }

    #[test]
    fn a_cluster_without_switches_has_no_topology() {
        let said = "No topology information available\n";
        assert_eq!(of(said, &Config::default()), Ok(Topology::default()));
    }
}
