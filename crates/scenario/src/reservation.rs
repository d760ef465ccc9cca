//! Reservations from words, as their resolved selves.
//!
//! ```text
//! reservation demo start=30 end=60 nodes=n[1-2] users=mara flags=FLEX,MAGNETIC
//! reservation part start=0 end=never nodes=n1 cpus=2 gpus=0,1 licences=sim:2
//! reservation weekly start=0 end=10 later=100-110,200-210 nodes=n1
//! reservation away float=60 length=30 nodes=n1
//! ```
//! Times are minutes; `cpus` takes the first of each node, `gpus` lists indices. `users` and
//! `accounts` begin with `-` to keep the names out.

use crate::error::{Fault, Read, ScenarioError};
use crate::text::{
    Word, count_or_none, counted, duration, fields, instant, named, names, node_id, number, pair,
};
use muster_model::{
    CpuSet, EventKind, Names, Reservation, ReservationFlag, ReservedNode, ReservedPart, State,
    Window,
};

const RESERVATION: &[&str] = &[
    "start", "end", "later", "float", "length", "nodes", "cpus", "gpus", "users", "accounts",
    "licences", "flags",
];

/// `unreserve NAME`.
pub(crate) fn removed(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, _) = named(words, "unreserve NAME")?;
    if !state.reservations.contains_key(name) {
        let known = state.reservations.keys().map(String::as_str);
        return Err(ScenarioError::name("reservation", name, known).at(&words[0]));
    }
    Ok(EventKind::ReservationRemoved { name: name.to_owned() })
}

/// `reservation NAME ...`.
pub(crate) fn set(state: &State, words: &[Word]) -> Read<EventKind> {
    let (name, rest) = named(words, "reservation NAME start=N end=N nodes=NAMES ...")?;
    let mut made = Reservation { name: name.to_owned(), ..Reservation::default() };
    let mut part: Option<ReservedPart> = None;
    fields(rest, |key, value| {
        if key == "cpus" {
            part.get_or_insert_default().cpus = CpuSet::first(count_or_none(value)?);
        }
        if key == "gpus" {
            let devices = value.split(',').map(number).collect::<Read<_>>()?;
            part.get_or_insert_default().devices = devices;
        }
        Ok(())
    })?;
    fields(rest, |key, value| reservation_field(state, &mut made, part.as_ref(), key, value))?;
    made.want.no_nodes = made.nodes.is_empty();
    let window = made.window;
    let ordered = |w: &Window| w.start < w.end;
    let windows = std::iter::once(&window).filter(|_| made.float.is_none()).chain(&made.later);
    if !windows.clone().all(ordered) || !windows.clone().zip(windows.skip(1)).all(in_order) {
        let message = format!("reservation {name} ends before it starts");
        return Err(ScenarioError::new(Fault::Value, message).hint("let end be after start"));
    }
    Ok(EventKind::ReservationSet { reservation: Box::new(made) })
}

fn in_order((before, after): (&Window, &Window)) -> bool {
    before.end <= after.start
}

fn reservation_field(
    state: &State,
    made: &mut Reservation,
    part: Option<&ReservedPart>,
    key: &str,
    value: &str,
) -> Read<()> {
    match key {
        "start" => made.window.start = instant(value)?,
        "end" | "length" => made.window.end = instant(value)?,
        "later" => {
            let window = |text| -> Read<Window> {
                let (start, end) = pair(text, '-', "a window such as 100-110")?;
                Ok(Window { start: instant(start)?, end: instant(end)? })
            };
            made.later = value.split(',').map(window).collect::<Read<_>>()?;
        }
        "float" => {
            made.float = Some(duration(value)?);
            made.flags.insert(ReservationFlag::TimeFloat);
        }
        "nodes" => {
            for name in names(value)? {
                let id = node_id(state, &name)?;
                let mut part = part.cloned();
                if let Some(part) = &mut part {
                    let devices = state.nodes.get(&id).map_or(0, |node| node.devices.len());
                    part.devices.retain(|index| (*index as usize) < devices);
                }
                made.nodes.push(ReservedNode { node: id, part });
            }
        }
        "cpus" | "gpus" => {}
        "users" => made.access.users = listed(value),
        "accounts" => made.access.accounts = listed(value),
        "licences" => {
            let all = counted(value)?.into_iter();
            made.licences.extend(all.map(|(name, count)| (name.to_owned(), count)));
        }
        "flags" => {
            for word in value.split(',') {
                let flag = ReservationFlag::of_word(word);
                let bad = || {
                    ScenarioError::value(word, "a flag of a reservation")
                        .hint("write Slurm's word, such as MAINT, FLEX or OVERLAP")
                };
                made.flags.insert(flag.ok_or_else(bad)?);
            }
        }
        _ => return Err(ScenarioError::option("a reservation", key, RESERVATION)),
    }
    Ok(())
}

fn listed(text: &str) -> Names {
    let excluded = text.starts_with('-');
    let names = text.split(',').map(|name| name.trim_start_matches('-').to_owned()).collect();
    Names { names, excluded }
}
