//! Reservations from lines of text, as their resolved selves.
//!
//! ```text
//! reservation demo start=30 end=60 nodes=n[1-2] users=mara flags=FLEX,MAGNETIC
//! reservation part start=0 end=never nodes=n1 cpus=2 gpus=0,1 licences=sim:2
//! reservation weekly start=0 end=10 later=100-110,200-210 nodes=n1
//! reservation away float=60 length=30 nodes=n1
//! ```
//! Times are minutes; `cpus` takes the first of each node, `gpus` lists indices. `users` and
//! `accounts` begin with `-` to keep the names out.

use crate::text::{field, names, number};
use muster_model::{
    CpuSet, EventKind, Names, Reservation, ReservationFlag, ReservedNode, ReservedPart, Seconds,
    State, Timestamp, Window,
};

/// The event that a line `reservation …` or `unreserve NAME` stands for, without its first word.
pub fn event(state: &State, verb: &str, words: &[String]) -> EventKind {
    let (name, fields) = words.split_first().unwrap_or_else(|| panic!("{verb} NAME ..."));
    if verb == "unreserve" {
        return EventKind::ReservationRemoved { name: name.clone() };
    }
    EventKind::ReservationSet { reservation: Box::new(reservation(state, name, fields)) }
}

fn instant(text: &str) -> Timestamp {
    match text {
        "never" => Timestamp::NEVER,
        n => Timestamp::from_secs(number::<i64>(n) * 60),
    }
}

fn reservation(state: &State, name: &str, fields: &[String]) -> Reservation {
    let mut made = Reservation { name: name.to_owned(), ..Reservation::default() };
    let mut part: Option<ReservedPart> = None;
    let mut on = Vec::new();
    for (key, value) in fields.iter().map(|w| field(w)) {
        match key {
            "start" => made.window.start = instant(value),
            "end" => made.window.end = instant(value),
            "later" => {
                let window = |text: &str| {
                    let (start, end) = text.split_once('-').unwrap_or((text, text));
                    Window { start: instant(start), end: instant(end) }
                };
                made.later = value.split(',').map(window).collect();
            }
            "float" => {
                made.float = Some(Seconds::minutes(number(value)));
                made.flags.insert(ReservationFlag::TimeFloat);
            }
            "length" => made.window.end = instant(value),
            "nodes" => on = names(value),
            "cpus" => part.get_or_insert_default().cpus = CpuSet::first(number(value)),
            "gpus" => {
                let devices = value.split(',').map(number).collect();
                part.get_or_insert_default().devices = devices;
            }
            "users" => made.access.users = listed(value),
            "accounts" => made.access.accounts = listed(value),
            "licences" => {
                for (licence, count) in value.split(',').filter_map(|l| l.split_once(':')) {
                    made.licences.insert(licence.to_owned(), number(count));
                }
            }
            "flags" => {
                for word in value.split(',') {
                    let flag = ReservationFlag::of_word(word);
                    made.flags.insert(flag.unwrap_or_else(|| panic!("no flag {word:?}")));
                }
            }
            _ => panic!("a reservation has no {key:?}"),
        }
    }
    made.want.no_nodes = on.is_empty();
    for name in on {
        let node = state.node_named(&name).unwrap_or_else(|| panic!("no node {name:?}"));
        let mut part = part.clone();
        if let Some(part) = &mut part {
            part.devices.retain(|index| (*index as usize) < node.devices.len());
        }
        made.nodes.push(ReservedNode { node: node.id, part });
    }
    made
}

fn listed(text: &str) -> Names {
    let excluded = text.starts_with('-');
    let names = text.split(',').map(|name| name.trim_start_matches('-').to_owned()).collect();
    Names { names, excluded }
}
