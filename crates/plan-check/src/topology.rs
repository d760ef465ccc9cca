//! Are the nodes of a job as near to each other as it asks, and as there are paths between them?

use muster_model::{Job, Node, Segments, Span, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with these nodes together, in words; `None` where nothing is.
///
/// Written from the words of the request: it looks at the names of domains and nothing else.
pub(crate) fn wrong(state: &State, job: &Job, nodes: &[&Node]) -> Option<String> {
    let asked = &job.spec.request.topology;
    let span = state.topology.span;
    let count = nodes.len() as u32;
    if span == Span::Anywhere && *asked == muster_model::TopologyRequest::default() {
        return None;
    }
    let all = state.nodes.values().map(AsRef::as_ref);
    let levels = state.topology.level_count(all);
    let paths = state.topology.paths(nodes);
    let names = |level: usize| -> Vec<Option<&str>> {
        nodes
            .iter()
            .map(|n| paths.get(&n.id).and_then(|p| p.get(level).copied().flatten()))
            .collect()
    };
    let one = |level: usize| {
        let names = names(level);
        names.first().is_some_and(|first| first.is_some() && names.iter().all(|n| n == first))
    };
    if let Some(required) = &asked.required {
        match state.topology.level_named(required, levels) {
            None => return Some(format!("there is no level {required}")),
            Some(level) if !one(level) => return Some(format!("they are not in one {required}")),
            Some(_) => {}
        }
    }
    let segment = asked.segment.filter(|size| *size > 0 && *size < count);
    if let Some(size) = segment {
        if levels == 0 {
            return Some("there is no level for segments".to_owned());
        }
        let mut counts: BTreeMap<Option<&str>, u32> = BTreeMap::new();
        for name in names(0) {
            *counts.entry(name).or_default() += 1;
        }
        let bad = |(name, n): (Option<&str>, u32)| {
            name.is_none() || n % size != 0 || (asked.segments == Segments::Spread && n != size)
        };
        if counts.into_iter().any(bad) {
            return Some(format!("they do not part into segments of {size}"));
        }
    }
    let by_size = match segment {
        Some(_) => asked.segments == Segments::Consolidate,
        None => span == Span::SmallestBlock,
    };
    let smallest = state.topology.levels.iter().position(|level| level.size >= count);
    if let Some(level) = smallest.filter(|_| by_size && count > 1)
        && !one(level)
    {
        let name = state.topology.level_name(level);
        return Some(format!("they are not in the smallest {name} that holds {count}"));
    }
    let tops: BTreeSet<Option<(usize, &str)>> = nodes
        .iter()
        .map(|n| {
            let path = paths.get(&n.id)?;
            path.iter().enumerate().rev().find_map(|(level, d)| d.map(|d| (level, d)))
        })
        .collect();
    let joined = tops.len() == 1 && !tops.contains(&None);
    (span == Span::Connected && count > 1 && levels > 0 && !joined)
        .then(|| "there is no path between them".to_owned())
}

/// True where the nodes stand under no more leaf switches than the job still waits for.
pub(crate) fn few_switches(state: &State, job: &Job, now: Timestamp, nodes: &[&Node]) -> bool {
    let (Some(wish), Some(eligible)) = (job.spec.request.switches, job.eligible) else {
        return true;
    };
    let most = state.policy.max_switch_wait;
    if now >= eligible.plus(wish.wait.map_or(most, |wait| wait.min(most))) {
        return true;
    }
    let all = state.nodes.values().map(AsRef::as_ref);
    let level = state.topology.switch_level(state.topology.level_count(all));
    let paths = state.topology.paths(nodes);
    let leaves: BTreeSet<Option<&str>> = nodes
        .iter()
        .map(|n| paths.get(&n.id).and_then(|path| path.get(level).copied().flatten()))
        .collect();
    leaves.len() <= wish.count as usize
}
