//! Reservations.

use super::record::Record;
use muster_model::{
    Access, Names, NodeId, Reservation, ReservationFlag, ReservedNode, Timestamp, Window,
};
use muster_slurm_syntax::hostlist;
use std::collections::{BTreeMap, BTreeSet};

/// A reservation with its nodes by name: a node that is in the list only by some of its cores
/// counts as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRecord {
    /// As muster has it, without nodes.
    pub reservation: Reservation,
    /// Its nodes.
    pub nodes: Vec<String>,
}

impl ReservationRecord {
    /// As muster has it. `ids` numbers the nodes; one that is not there is left out.
    pub(super) fn with_nodes(&self, ids: &BTreeMap<&str, NodeId>) -> Reservation {
        let nodes = self.nodes.iter().filter_map(|name| ids.get(name.as_str()).copied());
        let nodes: BTreeSet<NodeId> = nodes.collect();
        let nodes = nodes.into_iter().map(|node| ReservedNode { node, part: None }).collect();
        Reservation { nodes, ..self.reservation.clone() }
    }
}

/// The reservations of `scontrol -o show reservation`, with times as seconds since 1970.
pub(super) fn all(text: &str) -> Result<Vec<ReservationRecord>, String> {
    let records = Record::all(text).filter(|record| record.get("ReservationName").is_some());
    records.map(|record| reservation(&record)).collect()
}

fn instant(record: &Record, key: &str) -> Result<Timestamp, String> {
    Ok(record.number(key)?.map_or(Timestamp::NEVER, Timestamp::from_secs))
}

fn reservation(record: &Record) -> Result<ReservationRecord, String> {
    let name = record.need("ReservationName")?.to_owned();
    let of = |why: String| format!("reservation {name}: {why}");
    let nodes = hostlist::expand(record.get("Nodes").unwrap_or_default(), hostlist::HOSTS_MAX);
    let nodes = nodes.map_err(|problem| of(problem.what))?;
    let words: BTreeSet<&str> = record.words("Flags").collect();
    let flag = |(flag, word): &(ReservationFlag, &str)| words.contains(word).then_some(*flag);
    let access = Access {
        users: names(record, "Users"),
        accounts: names(record, "Accounts"),
        ..Access::default()
    };
    let licences = record.words("Licenses").map(|entry| {
        let (licence, count) = entry.split_once(':').unwrap_or((entry, "1"));
        let count = count.parse().map_err(|_| of(format!("licences {entry}")))?;
        Ok((licence.to_owned(), count))
    });
    let reservation = Reservation {
        window: Window {
            start: instant(record, "StartTime").map_err(of)?,
            end: instant(record, "EndTime").map_err(of)?,
        },
        access,
        flags: ReservationFlag::WORDS.iter().filter_map(flag).collect(),
        licences: licences.collect::<Result<_, String>>()?,
        name: name.clone(),
        ..Reservation::default()
    };
    Ok(ReservationRecord {
        reservation,
        nodes: nodes.into_iter().filter(|n| !n.is_empty()).collect(),
    })
}

/// Names let in, or kept out where each begins with a minus.
fn names(record: &Record, key: &str) -> Names {
    let words: Vec<&str> = record.words(key).collect();
    let excluded = words.iter().any(|word| word.starts_with('-'));
    let names = words.iter().map(|word| word.trim_start_matches('-').to_owned()).collect();
    Names { names, excluded }
}
