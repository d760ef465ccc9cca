//! How nodes are joined, from lines of text.

use crate::text::{field, names, number};
use muster_model::{EventKind, LinkSpeed, Span, State, Topology, TopologyDomain, TopologyLevel};

/// The topology with one line more: `level NAME ...`, `domain NAME level=NAME ...` or
/// `topology span=WORD`.
pub(crate) fn event(state: &State, first: &str, words: &[String]) -> EventKind {
    let mut topology = Topology::clone(&state.topology);
    let name = words.first().cloned().unwrap_or_default();
    match first {
        "level" => {
            let mut level = TopologyLevel { name, ..TopologyLevel::default() };
            for (key, value) in words[1..].iter().map(|w| field(w)) {
                match key {
                    "label" => level.label = Some(value.to_owned()),
                    "link" => level.link = LinkSpeed(number(value)),
                    "uplink" => level.uplink = LinkSpeed(number(value)),
                    "size" => level.size = number(value),
                    _ => panic!("a level has no {key:?}"),
                }
            }
            topology.levels.push(level);
        }
        "domain" => {
            let mut domain = TopologyDomain::default();
            for (key, value) in words[1..].iter().map(|w| field(w)) {
                match key {
                    "level" => {
                        let at = topology.levels.iter().position(|l| l.name == value);
                        domain.level = at.unwrap_or_else(|| panic!("no level {value:?}")) as u32;
                    }
                    "in" => domain.parent = Some(value.to_owned()),
                    "nodes" => domain.nodes = names(value).into_iter().collect(),
                    "link" => domain.link = LinkSpeed(number(value)),
                    _ => panic!("a domain has no {key:?}"),
                }
            }
            topology.domains.insert(name, domain);
        }
        _ => {
            for (key, value) in words.iter().map(|w| field(w)) {
                match (key, value) {
                    ("span", "connected") => topology.span = Span::Connected,
                    ("span", "blocks") => topology.span = Span::SmallestBlock,
                    ("span", "anywhere") => topology.span = Span::Anywhere,
                    _ => panic!("a topology has no {key}={value}"),
                }
            }
        }
    }
    EventKind::TopologySet { topology: Box::new(topology) }
}
