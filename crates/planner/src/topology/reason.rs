//! Why free nodes are not near enough, in words and numbers.

use super::joint::Joint;
use super::map::NONE;
use crate::ask::Ask;
use crate::free::Span;
use crate::world::World;
use muster_model::{Reason, Segments};
use std::collections::BTreeMap;

/// What keeps a job of so many nodes from these free ones; `None` where distance is not it.
pub(crate) fn shortage(
    world: &World,
    ask: &Ask,
    span: Span,
    free: &[usize],
    wanted: u32,
) -> Option<Reason> {
    let joint = Joint::of(world, ask, span);
    let Some(joint) = joint else {
        let level = ask.request.topology.required.clone().unwrap_or_default();
        let rule = format!("in one {level}, which is no level here");
        let free = free.len() as u32;
        return Some(Reason::Topology { rule, wanted, nearest: 0, place: String::new(), free });
    };
    let unit = joint.unit(wanted);
    if !joint.parts(wanted) {
        let rule = format!("in segments of {unit}, of which that is no multiple");
        let (nearest, free) = (free.len() as u32 / unit * unit, free.len() as u32);
        return Some(Reason::Topology { rule, wanted, nearest, place: String::new(), free });
    }
    let (keys, names) = (joint.within(wanted), joint.within_names(wanted));
    if keys.is_empty() && !joint.is_segmented(wanted) {
        return None;
    }
    let mut groups: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for node in free {
        let group: Vec<u32> = keys.iter().map(|key| key[*node]).collect();
        if !group.contains(&NONE) {
            groups.entry(group).or_default().push(*node);
        }
    }
    let usable = |nodes: &Vec<usize>| whole_units(&joint, nodes, wanted);
    let best = groups.iter().map(|(group, nodes)| (usable(nodes), group)).max_by_key(|(n, _)| *n);
    let place = best.and_then(|(_, group)| {
        let (at, level) =
            names.iter().enumerate().find_map(|(at, (_, level))| Some((at, (*level)?)))?;
        Some(joint.map.domain_name(level, group[at]).to_owned())
    });
    let mut words: Vec<String> = names.into_iter().map(|(words, _)| words).collect();
    if joint.is_segmented(wanted) {
        let level = joint.map.level_names().first().map_or("leaf", String::as_str);
        let each = match ask.request.topology.segments {
            Segments::Spread => "each in another",
            _ => "each in one",
        };
        words.push(format!("in segments of {unit}, {each} {level}"));
    }
    Some(Reason::Topology {
        rule: words.join(" and "),
        wanted,
        nearest: best.map_or(0, |(n, _)| n),
        place: place.unwrap_or_default(),
        free: free.len() as u32,
    })
}

/// How many of these nodes come in whole segments.
fn whole_units(joint: &Joint<'_>, nodes: &[usize], wanted: u32) -> u32 {
    let (unit, spreads) = (joint.unit(wanted), joint.spreads(wanted));
    if !joint.is_segmented(wanted) {
        return nodes.len() as u32;
    }
    if joint.map.levels() == 0 {
        return 0;
    }
    let lowest = joint.map.domains_of(0);
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for node in nodes.iter().filter(|node| lowest[**node] != NONE) {
        *counts.entry(lowest[*node]).or_default() += 1;
    }
    let whole = |n: u32| if spreads { (n / unit * unit).min(unit) } else { n / unit * unit };
    counts.values().map(|n| whole(*n)).sum()
}
