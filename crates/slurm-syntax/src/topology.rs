//! How near a job's nodes shall be, and Slurm's `topology.conf`.
//!
//! `--topology=required:LEVEL[,preferred:LEVEL]` is muster's (Kueue's words). The file is that of
//! the topology.conf manual: lines of `SwitchName=… Nodes=…|Switches=… [LinkSpeed=…]` for a tree, or
//! of `BlockName=… Nodes=…` and one `BlockSizes=…` for blocks. Levels of a tree are called `leaf`,
//! `spine`, `core`, then `level4`; those of blocks `block`, then `block` with the number of nodes.

use crate::conf::{Form, Line};
use crate::problem::{Code, Problem, quoted};
use muster_model::{LinkSpeed, Span, Topology, TopologyDomain, TopologyLevel, TopologyRequest};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::conf::FileProblem;

/// The largest file, bytes.
pub const FILE_MAX: usize = 4 << 20;

/// The names of a tree's levels, from the nodes up.
const TREE: [&str; 3] = ["leaf", "spine", "core"];

/// Reads the argument of `--topology` into a request.
///
/// # Errors
/// [`Code::TopologyBad`].
pub fn wish(text: &str, into: &mut TopologyRequest) -> Result<(), Problem> {
    (into.required, into.preferred) = (None, None);
    for piece in text.split(',') {
        let (how, level) = piece.split_once(':').unwrap_or((piece, ""));
        if !crate::scan::is_name(level) {
            let what = format!("{} names no level", quoted(piece));
            return Err(Problem::new(Code::TopologyBad, what)
                .hint("write required:LEVEL or preferred:LEVEL, for example required:rack"));
        }
        let place = match how {
            "required" => &mut into.required,
            "preferred" => &mut into.preferred,
            _ => {
                let what = format!("{} is neither required nor preferred", quoted(how));
                return Err(Problem::new(Code::TopologyBad, what));
            }
        };
        if place.replace(level.to_owned()).is_some() {
            return Err(Problem::new(Code::TopologyBad, format!("{how} is said twice")));
        }
    }
    Ok(())
}

/// Prints what [`wish`] reads back; empty where nothing is asked.
pub fn print_wish(request: &TopologyRequest) -> String {
    let said = [("required", &request.required), ("preferred", &request.preferred)];
    let words = said.into_iter().filter_map(|(how, l)| Some(format!("{how}:{}", l.as_ref()?)));
    words.collect::<Vec<_>>().join(",")
}

/// Reads a `topology.conf`.
///
/// # Errors
/// [`Code::TopologyBad`] with line and column: words that the manual does not have, switches in a
/// circle or under two others, nodes under two switches, block sizes that are no powers of two of
/// the first, blocks smaller than that.
pub fn file(text: &str) -> Result<Topology, FileProblem> {
    if text.len() > FILE_MAX {
        let problem = Problem::new(Code::TopologyBad, "the file is too large");
        return Err(FileProblem { line: 0, column: 0, problem });
    }
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        lines.extend(FORM.line(at as u32 + 1, line)?);
    }
    let blocks = lines.iter().filter(|l| l.text("blockname").is_some()).count();
    match lines.iter().find(|l| l.text("switchname").is_some()) {
        Some(line) if blocks > 0 => {
            Err(line.wrong("switchname", "switches and blocks do not stand in one file"))
        }
        Some(_) => tree(&lines),
        None => block(&lines),
    }
}

const KNOWN: [&str; 6] =
    ["switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes"];

const FORM: Form<'_> = Form { file: "topology.conf", known: &KNOWN, code: Code::TopologyBad };

/// Several names on one line are that many switches alike; a line of nodes has one.
fn tree(lines: &[Line<'_>]) -> Result<Topology, FileProblem> {
    let mut domains: BTreeMap<String, TopologyDomain> = BTreeMap::new();
    let mut children: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let mut node_of: BTreeSet<String> = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let names = line.hosts("switchname")?;
        let [name] = names.as_slice() else {
            return Err(line.wrong("switchname", "one line describes one switch"));
        };
        let (nodes, switches) = (line.hosts("nodes")?, line.hosts("switches")?);
        if nodes.is_empty() == switches.is_empty() {
            return Err(line.wrong("switchname", "a switch has either Nodes or Switches"));
        }
        if let Some(node) = nodes.iter().find(|node| !node_of.insert((*node).clone())) {
            return Err(line.wrong("nodes", format!("node {node} is under two switches")));
        }
        // Slurm's LinkSpeed has no unit; it is taken as Mbit/s, as most generators write it.
        let link = match line.text("linkspeed") {
            None => 0,
            Some(text) => {
                text.parse::<u64>().map_err(|_| line.wrong("linkspeed", "it is not a number"))? / 8
            }
        };
        let domain = TopologyDomain {
            nodes: nodes.into_iter().collect(),
            link: LinkSpeed(link),
            ..TopologyDomain::default()
        };
        if domains.insert(name.clone(), domain).is_some() {
            return Err(line.wrong("switchname", format!("switch {name} is described twice")));
        }
        children.insert(name.clone(), (at, switches));
    }
    for (name, (at, below)) in &children {
        for child in below {
            let Some(domain) = domains.get_mut(child) else {
                return Err(lines[*at].wrong("switches", format!("there is no switch {child}")));
            };
            if domain.parent.replace(name.clone()).is_some() {
                let what = format!("switch {child} is under two switches");
                return Err(lines[*at].wrong("switches", what));
            }
        }
    }
    let heights = heights(&children)
        .ok_or_else(|| lines[0].wrong("switchname", "the switches form a circle"))?;
    let top = heights.values().copied().max().unwrap_or(0);
    for (name, domain) in &mut domains {
        domain.level = heights.get(name).copied().unwrap_or(0);
    }
    let name = |level: u32| match TREE.get(level as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("level{}", level + 1),
    };
    let levels = (0..=top)
        .map(|level| TopologyLevel { name: name(level), ..TopologyLevel::default() })
        .collect();
    Ok(Topology { levels, domains, span: Span::Connected })
}

/// Each switch's height over the nodes; `None` where switches form a circle.
fn heights(children: &BTreeMap<String, (usize, Vec<String>)>) -> Option<BTreeMap<String, u32>> {
    let mut heights: BTreeMap<String, u32> = BTreeMap::new();
    while heights.len() < children.len() {
        let known = heights.len();
        for (name, (_, below)) in children {
            let of_below: Option<Vec<u32>> =
                below.iter().map(|child| heights.get(child).copied()).collect();
            if let Some(of_below) = of_below {
                let height = of_below.into_iter().max().map_or(0, |h| h + 1);
                heights.insert(name.clone(), height);
            }
        }
        if heights.len() == known {
            return None;
        }
    }
    Some(heights)
}

fn block(lines: &[Line<'_>]) -> Result<Topology, FileProblem> {
    let mut blocks: Vec<(String, BTreeSet<String>, usize)> = Vec::new();
    let mut sizes: Option<(usize, Vec<u32>)> = None;
    let mut node_of: BTreeSet<String> = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(text) = line.text("blocksizes") {
            let list: Option<Vec<u32>> = text.split(',').map(|n| n.parse().ok()).collect();
            let list = list.filter(|l| l.iter().all(|n| *n > 0));
            let list =
                list.ok_or_else(|| line.wrong("blocksizes", "it is not a list of numbers"))?;
            sizes = Some((at, list));
        }
        let names = line.hosts("blockname")?;
        match names.as_slice() {
            [] if line.text("blocksizes").is_some() => {}
            [name] if blocks.iter().all(|b| b.0 != *name) => {
                let nodes = line.hosts("nodes")?;
                if let Some(node) = nodes.iter().find(|node| !node_of.insert((*node).clone())) {
                    return Err(line.wrong("nodes", format!("node {node} is in two blocks")));
                }
                blocks.push((name.clone(), nodes.into_iter().collect(), at));
            }
            [name] => {
                return Err(line.wrong("blockname", format!("block {name} is described twice")));
            }
            _ => return Err(line.wrong("blockname", "one line describes one block")),
        }
    }
    let smallest = blocks.iter().map(|b| b.1.len() as u32).min().unwrap_or(0);
    let sizes = block_sizes(lines, sizes, smallest, blocks.len())?;
    let base = sizes.first().copied().unwrap_or(1);
    if let Some((name, nodes, at)) = blocks.iter().find(|b| (b.1.len() as u32) < base) {
        let what = format!("block {name} has {} nodes, fewer than the base of {base}", nodes.len());
        return Err(lines[*at].wrong("nodes", what));
    }
    Ok(joined(blocks, &sizes))
}

/// The sizes said, or the smallest block and its doubles.
fn block_sizes(
    lines: &[Line<'_>],
    said: Option<(usize, Vec<u32>)>,
    smallest: u32,
    blocks: usize,
) -> Result<Vec<u32>, FileProblem> {
    let Some((at, mut sizes)) = said else {
        let mut sizes = vec![smallest.max(1)];
        let mut joined = 1;
        while joined * 2 <= blocks {
            joined *= 2;
            sizes.push(smallest.saturating_mul(joined as u32));
        }
        return Ok(sizes);
    };
    sizes.sort_unstable();
    sizes.dedup();
    let base = sizes[0];
    for size in &sizes {
        if size % base != 0 || !(size / base).is_power_of_two() {
            let what = format!("{size} is not {base} times a power of two");
            return Err(lines[at].wrong("blocksizes", what));
        }
    }
    Ok(sizes)
}

/// Blocks in the order written; so many of them side by side are one of the next level.
fn joined(blocks: Vec<(String, BTreeSet<String>, usize)>, sizes: &[u32]) -> Topology {
    let base = sizes.first().copied().unwrap_or(1);
    let level = |(at, size): (usize, &u32)| TopologyLevel {
        name: if at == 0 { "block".to_owned() } else { format!("block{size}") },
        size: *size,
        ..TopologyLevel::default()
    };
    let levels = sizes.iter().enumerate().map(level).collect();
    let names: Vec<String> = blocks.iter().map(|b| b.0.clone()).collect();
    // A domain of a higher level is called after its first and last block.
    let above = |level: usize, at: usize| -> Option<String> {
        let joins = (sizes.get(level)? / base) as usize;
        let first = at / joins * joins;
        let last = (first + joins).min(names.len()) - 1;
        Some(format!("{}..{}", names[first], names[last]))
    };
    let mut domains = BTreeMap::new();
    for (at, (name, nodes, _)) in blocks.into_iter().enumerate() {
        let parent = above(1, at);
        domains
            .insert(name, TopologyDomain { level: 0, parent, nodes, ..TopologyDomain::default() });
        for level in 1..sizes.len() {
            if let Some(name) = above(level, at) {
                let parent = above(level + 1, at).filter(|parent| *parent != name);
                let level = level as u32;
                domains.entry(name).or_insert(TopologyDomain {
                    level,
                    parent,
                    ..TopologyDomain::default()
                });
            }
        }
    }
    Topology { levels, domains, span: Span::SmallestBlock }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        file(text).expect_err(text).to_string()
    }

    #[test]
    fn a_tree_has_its_levels_from_the_nodes_up() {
        let text = "# two leaves under one spine
            SwitchName=l1 Nodes=n[1-2] LinkSpeed=100000
            SwitchName=l2 Nodes=n3
            switchname=s Switches=l[1-2] # all
        ";
        let topology = file(text).expect("read");
        let names: Vec<&str> = topology.levels.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["leaf", "spine"]);
        assert_eq!(topology.domains["l1"].parent.as_deref(), Some("s"));
        assert_eq!(topology.domains["l1"].link, LinkSpeed(12_500));
        assert_eq!((topology.domains["s"].level, topology.span), (1, Span::Connected));
    }

    #[test]
    fn what_is_wrong_with_a_tree_is_told_with_its_place() {
        assert_eq!(
            refused("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2]"),
            "line 2, column 14: node n1 is under two switches"
        );
        assert!(refused("SwitchName=a Switches=b\nSwitchName=b Switches=a").contains("circle"));
        assert!(refused("SwitchName=a Switches=x").contains("no switch x"));
        assert!(refused("SwitchName=a Nodes=n1 Switches=b").contains("either"));
        assert!(refused("SwitchName=a Nodes=n[1").starts_with("line 1, column 14: "));
        assert!(refused("Switch=a").contains("has no `switch`"));
        assert!(refused("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2").contains("one file"));
    }

    #[test]
    fn t46_block_sizes() {
        let of = |sizes: &str, nodes: [u32; 4]| {
            let mut next = 1;
            let mut text = format!("BlockSizes={sizes}\n");
            for (at, n) in nodes.iter().enumerate() {
                let line = format!("BlockName=b{at} Nodes=n[{next}-{}]\n", next + n - 1);
                text.push_str(&line);
                next += n;
            }
            file(&text)
        };
        let planned = of("30,120", [32; 4]).expect("120 is 30 times 4");
        assert_eq!(planned.levels.iter().map(|l| l.size).collect::<Vec<_>>(), [30, 120]);
        assert!(of("4,12", [32; 4]).expect_err("3").to_string().contains("12 is not 4 times"));
        assert!(of("18,36,72", [32; 4]).is_ok());
        let small = of("30", [32, 32, 28, 32]).expect_err("28").to_string();
        assert_eq!(small, "line 4, column 14: block b2 has 28 nodes, fewer than the base of 30");
    }

    #[test]
    fn blocks_side_by_side_are_one_of_the_next_level() {
        let text =
            "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=b3 Nodes=n[9-12]";
        let topology = file(text).expect("read");
        let names: Vec<&str> = topology.levels.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["block", "block8"]);
        assert_eq!(topology.domains["b2"].parent.as_deref(), Some("b1..b2"));
        assert_eq!(topology.domains["b3"].parent.as_deref(), Some("b3..b3"));
        assert_eq!(topology.span, Span::SmallestBlock);
    }

    #[test]
    fn a_wish_is_read_and_printed() {
        let mut request = TopologyRequest::default();
        wish("preferred:leaf,required:block", &mut request).expect("read");
        assert_eq!(print_wish(&request), "required:block,preferred:leaf");
        for bad in ["rack", "required:", "must:rack", "required:a,required:b"] {
            assert!(wish(bad, &mut TopologyRequest::default()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_the_reader_fail(text in "(SwitchName=[a-c]|BlockName=[a-c]|BlockSizes=[0-9,]{1,4}|Nodes=n\\[[1-9]-[1-9]\\]|Switches=[a-c]|\\PC|[ \n]){0,12}") {
            let _ = file(&text);
        }
    }
}
