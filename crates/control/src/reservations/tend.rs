//! What the clock and failing nodes do to reservations: ends, next occurrences, replaced nodes,
//! purging. Every step is an event, so that nothing that decides reads a calendar.

use super::resolve::{LATER, nodes_for};
use crate::turn::Turn;
use muster_model::{
    ApplyError, EventKind, JobId, Reservation, ReservationFlag, ReservedNode, Seconds, State,
    StopCause, Timestamp,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node that could not be replaced is tried again after this.
const RETRY: Seconds = Seconds(30);

/// Looks after reservations as time passes.
#[derive(Debug, Default)]
pub(crate) struct Tender {
    /// When a replacement is tried again.
    retry: BTreeMap<String, Timestamp>,
    /// Up to when begun and ended reservations have been seen.
    seen: Timestamp,
}

impl Tender {
    /// When it must look again at the latest, where nothing else happens.
    pub(crate) fn next(&self, state: &State) -> Option<Timestamp> {
        let edges = state.reservations.values().filter(|r| r.float.is_none());
        let edges = edges.flat_map(|r| {
            let purge = r.purge.zip(r.idle_since).map(|(after, since)| since.plus(after));
            [Some(r.window.start), Some(r.window.end), purge].into_iter().flatten()
        });
        edges.chain(self.retry.values().copied()).filter(|at| *at > self.seen).min()
    }

    /// Does what is due. True where planning has reason to look.
    pub(crate) fn run(&mut self, turn: &mut Turn) -> Result<bool, ApplyError> {
        if turn.state.reservations.is_empty() {
            self.retry.clear();
            return Ok(false);
        }
        let mut changed = false;
        let all: Vec<Arc<Reservation>> = turn.state.reservations.values().cloned().collect();
        for reservation in all {
            changed |= self.tend(turn, &reservation)?;
            let begins = reservation.window.start;
            changed |= self.seen < begins && begins <= turn.at;
        }
        self.seen = turn.at;
        Ok(changed)
    }

    fn tend(&mut self, turn: &mut Turn, r: &Arc<Reservation>) -> Result<bool, ApplyError> {
        if r.float.is_none() && r.window.end <= turn.at {
            end_jobs(turn, r)?;
            go_on(turn, r)?;
            return Ok(true);
        }
        if r.purge.is_some() && purge(turn, r)? {
            return Ok(true);
        }
        self.replace(turn, r)
    }

    /// Exchanges nodes that failed, or with `REPLACE` nodes that are in use.
    fn replace(&mut self, turn: &mut Turn, r: &Reservation) -> Result<bool, ApplyError> {
        let asked = r.has(ReservationFlag::Replace) || r.has(ReservationFlag::ReplaceDown);
        if !(asked || r.replaces()) || r.want.no_nodes {
            return Ok(false);
        }
        let state = &turn.state;
        let is_spent = |reserved: &ReservedNode| {
            let usable = state.nodes.get(&reserved.node).is_some_and(|n| n.is_usable());
            let jobs = || state.index.on_node.get(&reserved.node).is_some_and(|j| !j.is_empty());
            !usable || (r.has(ReservationFlag::Replace) && r.is_active(turn.at) && jobs())
        };
        if !r.nodes.iter().any(is_spent) {
            self.retry.remove(&r.name);
            return Ok(false);
        }
        if self.retry.get(&r.name).is_some_and(|at| *at > turn.at) {
            return Ok(false);
        }
        self.retry.insert(r.name.clone(), turn.at.plus(RETRY));
        let Some(nodes) = exchanged(state, turn.at, r, &is_spent) else { return Ok(false) };
        turn.apply(EventKind::ReservationNodes { name: r.name.clone(), nodes })?;
        Ok(true)
    }
}

/// Notes since when it is idle; true where it went for that.
fn purge(turn: &mut Turn, r: &Reservation) -> Result<bool, ApplyError> {
    let name = r.name.clone();
    let idle = r.is_active(turn.at) && !has_jobs(&turn.state, &r.name);
    match (idle, r.idle_since) {
        (true, None) => {
            let since = Some(turn.at);
            turn.apply(EventKind::ReservationIdle { name, since })?;
        }
        (false, Some(_)) => turn.apply(EventKind::ReservationIdle { name, since: None })?,
        (true, Some(since)) if r.purge.is_some_and(|after| since.plus(after) <= turn.at) => {
            go_on(turn, r)?;
            return Ok(true);
        }
        _ => {}
    }
    Ok(false)
}

/// The reservation's nodes with others in the place of those that are spent; `None` where there are
/// no others.
fn exchanged(
    state: &State,
    at: Timestamp,
    r: &Reservation,
    is_spent: &dyn Fn(&ReservedNode) -> bool,
) -> Option<Vec<ReservedNode>> {
    let names = |spent: bool| {
        let those = r.nodes.iter().filter(move |n| is_spent(n) == spent);
        those.map(|n| state.node_name(n.node)).collect::<std::collections::BTreeSet<String>>()
    };
    let mut draft = r.clone();
    let count = r.nodes.len() as u32;
    let request = &mut draft.want.request;
    request.nodes = Some(muster_model::NodeCount::exactly(count));
    request.exclude.extend(names(true));
    // Those that stay are kept, whatever runs on them; they must not be refused for it.
    request.node_list = names(false);
    draft.nodes.clear();
    let mut fork = state.clone();
    fork.reservations.remove(&r.name);
    for reserved in r.nodes.iter().filter(|n| !is_spent(n)) {
        for job in state.index.on_node.get(&reserved.node).into_iter().flatten() {
            fork.index.active.remove(job);
        }
    }
    let kept = request.node_list.len();
    // Nodes that are all named would be had as they are; at least one is to be chosen.
    if kept as u32 >= count {
        return None;
    }
    nodes_for(&fork, at, &draft).ok()
}

fn inside(state: &State, name: &str) -> Vec<JobId> {
    let those = state.index.active.iter().filter(|id| {
        let placement = state.jobs.get(*id).and_then(|job| job.placement.as_ref());
        placement.is_some_and(|p| p.reservation.as_deref() == Some(name))
    });
    those.copied().collect()
}

fn has_jobs(state: &State, name: &str) -> bool {
    let names = |id: &JobId| {
        let job = state.jobs.get(id);
        job.is_some_and(|job| job.spec.request.reservations().any(|named| named == name))
    };
    !inside(state, name).is_empty() || state.index.pending.iter().any(names)
}

/// What still runs in it ends with it, unless it is flexible (case S-28).
fn end_jobs(turn: &mut Turn, r: &Reservation) -> Result<(), ApplyError> {
    if r.has(ReservationFlag::Flex) {
        return Ok(());
    }
    for job in inside(&turn.state, &r.name) {
        if turn.state.jobs.get(&job).is_some_and(|job| job.stop.is_none()) {
            let cause = StopCause::ReservationOver;
            turn.apply(EventKind::JobStop { job, cause, hurry: false })?;
        }
    }
    Ok(())
}

/// To its next occurrence, or away.
fn go_on(turn: &mut Turn, r: &Reservation) -> Result<(), ApplyError> {
    let name = r.name.clone();
    let after = r.window.end.max(turn.at);
    let next = r.repeat.as_ref().zip(r.window.length()).and_then(|(repeat, length)| {
        muster_recurrence::windows(repeat, length, after, LATER + 1).ok()
    });
    let mut next = next.unwrap_or_default().into_iter();
    match next.next() {
        Some(window) => {
            let later = next.collect();
            turn.apply(EventKind::ReservationAdvanced { name, window, later })
        }
        None => turn.apply(EventKind::ReservationRemoved { name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{Availability, Event, NodeCount, Repeat, Window};

    fn state(lines: &str) -> State {
        muster_test_kit::Lab::new(lines).state.clone()
    }

    /// Lets the tender look at these minutes, one after the other.
    fn tended(mut state: State, tender: &mut Tender, minutes: &[i64]) -> State {
        for minute in minutes {
            let mut turn = Turn::new(&state, Timestamp::from_secs(minute * 60));
            tender.run(&mut turn).expect("its events fit");
            state = turn.state;
        }
        state
    }

    fn change(state: &mut State, name: &str, change: impl FnOnce(&mut Reservation)) {
        let mut reservation = state.reservations[name].as_ref().clone();
        change(&mut reservation);
        let kind = EventKind::ReservationSet { reservation: Box::new(reservation) };
        state.apply(&Event { at: state.now, kind }).expect("it fits");
    }

    #[test]
    fn one_that_comes_again_goes_on_by_its_rule_and_others_go() {
        let mut state = state(
            "node n1 cpus=1
             reservation once start=10 end=20 nodes=n1
             reservation daily start=10 end=20 nodes=n1",
        );
        change(&mut state, "daily", |r| {
            let rule = "FREQ=DAILY;COUNT=2".to_owned();
            let (zone, first) = ("UTC".to_owned(), r.window.start);
            r.repeat = Some(Repeat { rule, zone, first });
        });
        let mut tender = Tender::default();
        assert_eq!(tender.next(&state), Some(Timestamp::from_secs(600)));
        let state = tended(state, &mut tender, &[10, 20]);
        assert!(!state.reservations.contains_key("once"));
        let day = 24 * 60;
        let next = Window {
            start: Timestamp::from_secs((10 + day) * 60),
            end: Timestamp::from_secs((20 + day) * 60),
        };
        assert_eq!(state.reservations["daily"].window, next);
        let state = tended(state, &mut tender, &[20 + day]);
        assert!(state.reservations.is_empty());
    }

    #[test]
    fn an_idle_one_is_purged() {
        let mut state =
            state("node n1 cpus=1\nreservation r start=10 end=500 nodes=n1 flags=PURGE_COMP");
        change(&mut state, "r", |r| r.purge = Some(Seconds(300)));
        let mut tender = Tender::default();
        let state = tended(state, &mut tender, &[9]);
        assert_eq!(state.reservations["r"].idle_since, None);
        let state = tended(state, &mut tender, &[10, 14]);
        assert!(state.reservations["r"].idle_since.is_some());
        assert!(tended(state, &mut tender, &[15]).reservations.is_empty());
    }

    #[test]
    fn a_failed_node_is_replaced_where_nodes_were_chosen() {
        let mut state = state(
            "node n[1-3] cpus=1
             reservation chosen start=0 end=500 nodes=n[1-2]
             reservation named start=0 end=500 nodes=n1 flags=OVERLAP",
        );
        change(&mut state, "chosen", |r| {
            r.want.no_nodes = false;
            r.want.request.nodes = Some(NodeCount::exactly(2));
            r.want.request.exclusive = muster_model::Exclusive::Node;
            r.want.request.memory = muster_model::MemoryRequest::PerNode(muster_model::Mib(0));
            r.flags.insert(ReservationFlag::ReplaceDown);
        });
        change(&mut state, "named", |r| {
            r.want.request.node_list.insert("n1".to_owned());
        });
        let down = Availability::Down { reason: "x".to_owned(), since: state.now };
        let kind =
            EventKind::NodeAvailability { node: muster_model::NodeId(0), availability: down };
        state.apply(&Event { at: state.now, kind }).expect("it fits");
        let state = tended(state, &mut Tender::default(), &[1]);
        let of = |name: &str| -> Vec<u32> {
            state.reservations[name].nodes.iter().map(|n| n.node.0).collect()
        };
        assert_eq!(of("chosen"), [1, 2]);
        assert_eq!(of("named"), [0]);
    }
}
