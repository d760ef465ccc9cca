//! How nodes are joined, from words.

use crate::error::{Fault, Read, ScenarioError};
use crate::text::{Word, choice, count, fields, named, names, number};
use muster_model::{EventKind, LinkSpeed, Span, State, Topology, TopologyDomain, TopologyLevel};

/// Levels of a topology.
const LEVELS_MAX: usize = 16;

fn set(topology: Topology) -> EventKind {
    EventKind::TopologySet { topology: Box::new(topology) }
}

/// `level NAME label=KEY link=N uplink=N size=N`.
pub(crate) fn level(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "level NAME ...")?;
    let mut topology = Topology::clone(&state.topology);
    if topology.levels.len() == LEVELS_MAX {
        return Err(ScenarioError::large("levels", LEVELS_MAX));
    }
    let mut level = TopologyLevel { name: name.to_owned(), ..TopologyLevel::default() };
    fields(rest, |key, value| {
        match key {
            "label" => level.label = Some(value.to_owned()),
            "link" => level.link = LinkSpeed(speed(value)?),
            "uplink" => level.uplink = LinkSpeed(speed(value)?),
            "size" => level.size = count(value)?,
            _ => {
                let known = ["label", "link", "uplink", "size"];
                return Err(ScenarioError::option("a level", key, &known));
            }
        }
        Ok(())
    })?;
    topology.levels.push(level);
    Ok(set(topology))
}

/// MB/s.
fn speed(text: &str) -> Read<u64> {
    number::<u32>(text).map(u64::from)
}

/// `domain NAME level=LEVEL in=DOMAIN nodes=NAMES link=N ring`.
pub(crate) fn domain(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "domain NAME level=LEVEL nodes=NAMES ...")?;
    let mut topology = Topology::clone(&state.topology);
    let mut domain = TopologyDomain::default();
    fields(rest, |key, value| {
        match key {
            "level" => {
                let levels = &topology.levels;
                let at = levels.iter().position(|l| l.name == value);
                let known = levels.iter().map(|l| l.name.as_str());
                let at = at.ok_or_else(|| ScenarioError::name("level", value, known))?;
                domain.level = at as u32;
            }
            "in" => domain.parent = Some(value.to_owned()),
            "nodes" => domain.nodes = names(value)?.into_iter().collect(),
            "link" => domain.link = LinkSpeed(speed(value)?),
            "ring" => domain.ring = true,
            _ => {
                let known = ["level", "in", "nodes", "link", "ring"];
                return Err(ScenarioError::option("a domain", key, &known));
            }
        }
        Ok(())
    })?;
    topology.domains.insert(name.to_owned(), domain);
    let above = |name: &str| topology.domains.get(name).and_then(|d| d.parent.clone());
    if is_above_itself(name, above) {
        let message = format!("domain {name} would be above itself");
        return Err(ScenarioError::new(Fault::Order, message).hint("name another domain in in="));
    }
    Ok(set(topology))
}

/// Whether who goes up from here comes back.
pub(crate) fn is_above_itself(name: &str, above: impl Fn(&str) -> Option<String>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut here = Some(name.to_owned());
    while let Some(name) = here {
        here = above(&name);
        if !seen.insert(name) {
            return true;
        }
    }
    false
}

/// `topology span=connected`.
pub(crate) fn span(state: &State, words: &[Word]) -> Read<EventKind> {
    let mut topology = Topology::clone(&state.topology);
    fields(words, |key, value| {
        if key != "span" {
            return Err(ScenarioError::option("a topology", key, &["span"]));
        }
        let among = [
            ("connected", Span::Connected),
            ("blocks", Span::SmallestBlock),
            ("anywhere", Span::Anywhere),
        ];
        topology.span = choice("a span", value, &among)?;
        Ok(())
    })?;
    Ok(set(topology))
}
