//! Orders for reservations, and the events that they mean.

use super::ReservationError;
use super::resolve::{made, remade};
use crate::command::{CommandError, Meaning, Principal, Reply, limits};
use muster_model::{
    Access, EventKind, Reservation, ReservationFlag, Seconds, State, Timestamp, Want,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A name is at most so long.
const NAME_MAX: usize = 64;

/// When a reservation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this instant.
    At(Timestamp),
    /// Always so long from now.
    Away(Seconds),
}

/// What is asked of a reservation. `None` is the default in a new one, and no change in one that is
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationOrder {
    /// Its name; empty makes one up for a new one.
    pub name: String,
    /// When it begins; a new one now.
    pub start: Option<Start>,
    /// When it is over.
    pub end: Option<Timestamp>,
    /// How long it is; `Some(None)` is without an end.
    pub length: Option<Option<Seconds>>,
    /// The rule of recurrence and its zone; an empty rule is none.
    pub repeat: Option<(String, String)>,
    /// The zone by whose clock its times are read.
    pub zone: Option<String>,
    /// The section of the configuration that it stands in, as text. Such a one may have begun long
    /// ago, and takes the place of the one of its name that stood there before.
    pub standing: Option<String>,
    /// What it holds.
    pub want: Option<Want>,
    /// Who may use it; a new one its maker.
    pub access: Option<Access>,
    /// Flags that it has.
    pub flags: BTreeSet<ReservationFlag>,
    /// Flags that it no longer has.
    pub without: BTreeSet<ReservationFlag>,
    /// How long it may be idle (`PURGE_COMP`).
    pub purge: Option<Seconds>,
    /// Free text.
    pub comment: Option<String>,
}

/// A new reservation.
pub(crate) fn create(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    order: &ReservationOrder,
) -> Result<Meaning, CommandError> {
    let reservation = made(state, at, principal, order)?;
    Ok(done(reservation))
}

/// A change.
pub(crate) fn update(
    state: &State,
    at: Timestamp,
    principal: &Principal,
    order: &ReservationOrder,
) -> Result<Meaning, CommandError> {
    if !principal.admin {
        return Err(CommandError::AdminOnly { what: "change reservations" });
    }
    let old = known(state, &order.name)?;
    not_standing(old)?;
    Ok(done(remade(state, at, old, order)?))
}

fn done(reservation: Reservation) -> Meaning {
    let name = reservation.name.clone();
    let events = vec![EventKind::ReservationSet { reservation: Box::new(reservation) }];
    Meaning { events, blobs: Vec::new(), reply: Reply::Reservation { name } }
}

/// The end of one: by an admin, or by one of its users where it says so. What stands in the
/// configuration goes with its section there (`standing`).
pub(crate) fn delete(
    state: &State,
    principal: &Principal,
    name: &str,
    standing: bool,
) -> Result<Meaning, CommandError> {
    let known = known(state, name)?;
    if !standing {
        not_standing(known)?;
    }
    let users = &known.access.users;
    let theirs = known.has(ReservationFlag::UserDelete)
        && !users.names.is_empty()
        && users.admit(std::iter::once(principal.user.as_str()));
    if !principal.admin && !theirs {
        return Err(CommandError::AdminOnly { what: "delete this reservation" });
    }
    let inside = |id: &&muster_model::JobId| {
        let placement = state.jobs.get(*id).and_then(|job| job.placement.as_ref());
        placement.is_some_and(|p| p.reservation.as_deref() == Some(name))
    };
    let jobs: Vec<_> = state.index.active.iter().filter(inside).copied().collect();
    if !jobs.is_empty() {
        return Err(ReservationError::Busy { name: name.to_owned(), jobs }.into());
    }
    let name = name.to_owned();
    let events = vec![EventKind::ReservationRemoved { name: name.clone() }];
    Ok(Meaning { events, blobs: Vec::new(), reply: Reply::Reservation { name } })
}

/// What stands in the configuration is changed there.
fn not_standing(reservation: &Reservation) -> Result<(), CommandError> {
    match reservation.standing {
        Some(_) => Err(ReservationError::Standing { name: reservation.name.clone() }.into()),
        None => Ok(()),
    }
}

fn known<'a>(state: &'a State, name: &str) -> Result<&'a Arc<Reservation>, CommandError> {
    state.reservations.get(name).ok_or_else(|| CommandError::UnknownName {
        kind: "reservation",
        name: name.to_owned(),
        nearest: muster_model::nearest(name, state.reservations.keys().map(String::as_str))
            .map(str::to_owned),
    })
}

/// A name that is free: the one asked for, or the maker's with a number as Slurm does.
pub(super) fn free_name(
    state: &State,
    principal: &Principal,
    order: &ReservationOrder,
) -> Result<String, CommandError> {
    let wanted = order.name.as_str();
    if wanted.is_empty() {
        let names = (1..).map(|n| format!("{}_{n}", principal.user));
        let free = names.take(100_000).find(|name| !state.reservations.contains_key(name));
        return free.ok_or_else(|| limits::bad("name", "no name is free".to_owned()));
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if wanted.len() > NAME_MAX || !wanted.chars().all(fine) {
        let why = format!("expected 1 to {NAME_MAX} letters, digits, '_', '-' or '.'");
        return Err(limits::bad("name", why));
    }
    let there = state.reservations.get(wanted);
    if there.is_some_and(|there| order.standing.is_none() || there.standing.is_none()) {
        return Err(ReservationError::Exists { name: wanted.to_owned() }.into());
    }
    Ok(wanted.to_owned())
}
