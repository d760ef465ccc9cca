//! Reservations: nodes, parts of nodes and licences set aside for some people and a time.
//!
//! What was asked for ([`Want`]) and what was found for it ([`Reservation::nodes`]) are both part of
//! the state: nodes are chosen once, by the writer, and change only by an event that says so. The
//! same holds for time: a repeated reservation carries its present window and the next ones, worked
//! out by the writer from [`Repeat`]; nothing that decides reads a calendar.
//!
//! Facts of the rules: SchedMD's reservations page and the scontrol manual.

use crate::{CpuSet, NodeId, Owner, Request, Seconds, Timestamp, is_default};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Resources set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reservation {
    /// Its name, unique.
    pub name: String,
    /// What was asked for.
    pub want: Want,
    /// Its present or next occurrence. Where it floats, only the length counts.
    pub window: Window,
    /// The occurrences after that one that are worked out so far, ascending.
    #[serde(skip_serializing_if = "is_default")]
    pub later: Vec<Window>,
    /// The rule by which it comes again.
    #[serde(skip_serializing_if = "is_default")]
    pub repeat: Option<Repeat>,
    /// It begins always so long from now (`TIME_FLOAT`).
    #[serde(skip_serializing_if = "is_default")]
    pub float: Option<Seconds>,
    /// Who may use it.
    pub access: Access,
    /// What else holds of it.
    #[serde(skip_serializing_if = "is_default")]
    pub flags: BTreeSet<ReservationFlag>,
    /// The nodes that it has, by ascending index.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: Vec<ReservedNode>,
    /// The licences that it has.
    #[serde(skip_serializing_if = "is_default")]
    pub licences: BTreeMap<String, u32>,
    /// Removed once it was idle for so long (`PURGE_COMP`).
    #[serde(skip_serializing_if = "is_default")]
    pub purge: Option<Seconds>,
    /// The zone by whose clock its times were read.
    #[serde(skip_serializing_if = "is_default")]
    pub zone: Option<String>,
    /// The section of the configuration that it stands in, as text; absent where it was made by a
    /// command.
    #[serde(skip_serializing_if = "is_default")]
    pub standing: Option<String>,
    /// Since when it has begun and no job of its runs or waits.
    #[serde(skip_serializing_if = "is_default")]
    pub idle_since: Option<Timestamp>,
    /// Free text.
    #[serde(skip_serializing_if = "is_default")]
    pub comment: String,
    /// Who made it.
    pub by: String,
    /// When.
    pub made: Timestamp,
}

/// What a reservation was asked to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Want {
    /// Nodes, GPUs, CPUs, features and licences, as a job would ask for them. Whole nodes where
    /// `exclusive` says so.
    pub request: Request,
    /// Only nodes of this partition.
    #[serde(skip_serializing_if = "is_default")]
    pub partition: Option<String>,
    /// Every node there is, or every node of the partition (`Nodes=ALL`, `PART_NODES`).
    #[serde(skip_serializing_if = "is_default")]
    pub all_nodes: bool,
    /// The GPUs on each node are joined to each other by NVLink.
    #[serde(skip_serializing_if = "is_default")]
    pub nvlink: bool,
    /// No nodes at all: licences only (`ANY_NODES`).
    #[serde(skip_serializing_if = "is_default")]
    pub no_nodes: bool,
}

/// A half-open stretch of time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Window {
    /// When it begins.
    pub start: Timestamp,
    /// When it is over; [`Timestamp::NEVER`] is without an end.
    pub end: Timestamp,
}

/// When a reservation comes again: a recurrence rule in a time zone (RFC 5545, 3.3.10).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// The rule's value: `FREQ=WEEKLY;BYDAY=MO`.
    pub rule: String,
    /// The zone's name in the IANA database: `Asia/Seoul`.
    pub zone: String,
    /// The first occurrence (`DTSTART`).
    pub first: Timestamp,
}

/// What a reservation has on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedNode {
    /// The node.
    pub node: NodeId,
    /// What of it; `None` is all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub part: Option<ReservedPart>,
}

/// A part of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedPart {
    /// Its CPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpus: CpuSet,
    /// Its devices, by ascending index.
    #[serde(default, skip_serializing_if = "is_default")]
    pub devices: Vec<u32>,
}

/// Who may use a reservation. A job has to be admitted by every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Access {
    /// Users.
    #[serde(skip_serializing_if = "is_default")]
    pub users: Names,
    /// Accounts.
    #[serde(skip_serializing_if = "is_default")]
    pub accounts: Names,
    /// Groups: who is in one is known by the primary group, or by the members written down here.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Vec<Group>,
}

/// Names that are let in, or that are kept out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// The names; none is everybody.
    pub names: BTreeSet<String>,
    /// The names are those kept out (`-alice`).
    #[serde(skip_serializing_if = "is_default")]
    pub excluded: bool,
}

/// A group of the operating system, as it was when the reservation was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its number.
    pub gid: u32,
    /// Names of the users who have it as a further group.
    pub members: BTreeSet<String>,
}

/// What else holds of a reservation (scontrol manual, `Flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationFlag {
    /// For maintenance: its nodes are shown so, and no other reservation stands in its way.
    Maint,
    /// Running jobs that outlast its start do not stand in its way.
    IgnoreJobs,
    /// May lie over other reservations.
    Overlap,
    /// Its jobs may begin before it, end after it and use nodes outside it.
    Flex,
    /// Its start is always the same time away.
    TimeFloat,
    /// Nodes that fail or are in use are replaced by idle ones.
    Replace,
    /// Nodes that fail are replaced.
    ReplaceDown,
    /// Removed when idle.
    PurgeComp,
    /// Takes admitted jobs that do not name it.
    Magnetic,
    /// Licences without nodes.
    AnyNodes,
    /// Its waiting jobs become ordinary ones when it ends; else they are held.
    NoHoldJobsAfter,
    /// Named nodes were asked for.
    SpecNodes,
    /// Its nodes never change.
    StaticAlloc,
    /// All nodes of its partition.
    PartNodes,
    /// Its users may delete it.
    UserDelete,
    /// Every hour.
    Hourly,
    /// Every day.
    Daily,
    /// Every week.
    Weekly,
    /// Monday to Friday.
    Weekday,
    /// Saturday and Sunday.
    Weekend,
}

impl ReservationFlag {
    /// Every flag, in Slurm's spelling.
    pub const WORDS: [(Self, &'static str); 20] = [
        (Self::Maint, "MAINT"),
        (Self::IgnoreJobs, "IGNORE_JOBS"),
        (Self::Overlap, "OVERLAP"),
        (Self::Flex, "FLEX"),
        (Self::TimeFloat, "TIME_FLOAT"),
        (Self::Replace, "REPLACE"),
        (Self::ReplaceDown, "REPLACE_DOWN"),
        (Self::PurgeComp, "PURGE_COMP"),
        (Self::Magnetic, "MAGNETIC"),
        (Self::AnyNodes, "ANY_NODES"),
        (Self::NoHoldJobsAfter, "NO_HOLD_JOBS_AFTER_END"),
        (Self::SpecNodes, "SPEC_NODES"),
        (Self::StaticAlloc, "STATIC_ALLOC"),
        (Self::PartNodes, "PART_NODES"),
        (Self::UserDelete, "USER_DELETE"),
        (Self::Hourly, "HOURLY"),
        (Self::Daily, "DAILY"),
        (Self::Weekly, "WEEKLY"),
        (Self::Weekday, "WEEKDAY"),
        (Self::Weekend, "WEEKEND"),
    ];

    /// Slurm's word for it.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(flag, _)| *flag == self).map_or("", |(_, word)| word)
    }

    /// The flag of this word, in any case; `NO_HOLD_JOBS_AFTER` and `IGNORE_RUNNING` too.
    pub fn of_word(word: &str) -> Option<Self> {
        let word = word.to_ascii_uppercase();
        match word.as_str() {
            "NO_HOLD_JOBS_AFTER" => Some(Self::NoHoldJobsAfter),
            "IGNORE_RUNNING" => Some(Self::IgnoreJobs),
            "LICENSE_ONLY" => Some(Self::AnyNodes),
            word => Self::WORDS.iter().find(|(_, known)| *known == word).map(|(flag, _)| *flag),
        }
    }

    /// The rule that a flag of repetition stands for. `HOURLY` has one too, though hours are
    /// counted, not read off a clock.
    pub const fn rule(self) -> Option<&'static str> {
        match self {
            Self::Hourly => Some("FREQ=HOURLY"),
            Self::Daily => Some("FREQ=DAILY"),
            Self::Weekly => Some("FREQ=WEEKLY"),
            Self::Weekday => Some("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
            Self::Weekend => Some("FREQ=WEEKLY;BYDAY=SA,SU"),
            _ => None,
        }
    }
}

impl fmt::Display for ReservationFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Window {
    /// How long it is; `None` without an end.
    pub fn length(&self) -> Option<Seconds> {
        (self.end != Timestamp::NEVER).then(|| self.end.since(self.start))
    }

    /// True where the two have an instant in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl Names {
    /// Everybody but nobody else: the names that are let in.
    pub fn only<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), excluded: false }
    }

    /// True where the list says yes to one of these names.
    pub fn admit<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        self.names.is_empty() || names.any(|name| self.names.contains(name)) != self.excluded
    }

    /// As `scontrol` writes the list: `-alice,-bob` for names kept out.
    pub fn text(&self) -> String {
        let minus = if self.excluded { "-" } else { "" };
        self.names.iter().map(|name| format!("{minus}{name}")).collect::<Vec<_>>().join(",")
    }
}

impl Reservation {
    /// True where it has this flag.
    pub fn has(&self, flag: ReservationFlag) -> bool {
        self.flags.contains(&flag)
    }

    /// What it has on a node.
    pub fn on(&self, node: NodeId) -> Option<&ReservedNode> {
        self.nodes.binary_search_by_key(&node, |n| n.node).ok().map(|at| &self.nodes[at])
    }

    /// True where it lies over this instant.
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.float.is_none() && self.window.start <= at && at < self.window.end
    }

    /// Its nodes may be exchanged when they fail: they were chosen, not named, and may change.
    pub fn replaces(&self) -> bool {
        let chosen =
            self.want.request.node_list.is_empty() && !self.want.all_nodes && !self.want.no_nodes;
        chosen && !self.has(ReservationFlag::StaticAlloc)
    }
}

impl Request {
    /// The reservations that it names, in order of preference (`--reservation=a,b`).
    pub fn reservations(&self) -> impl Iterator<Item = &str> {
        let names = self.reservation.as_deref().unwrap_or_default();
        names.split(',').map(str::trim).filter(|name| !name.is_empty())
    }
}

impl crate::State {
    /// True where a person who charges to this account may use the reservation. An account is let
    /// in by its own name or by that of one above it.
    pub fn may_use(&self, reservation: &Reservation, owner: &Owner, account: &str) -> bool {
        let access = &reservation.access;
        let user = std::iter::once(owner.user.as_str());
        let grouped = access
            .groups
            .iter()
            .any(|group| group.gid == owner.gid || group.members.contains(&owner.user));
        access.users.admit(user)
            && access.accounts.admit(self.line_of(account).into_iter())
            && (access.groups.is_empty() || grouped)
    }

    /// The account and those above it, at most 64.
    fn line_of<'a>(&'a self, account: &'a str) -> Vec<&'a str> {
        let mut line = vec![account];
        while line.len() < 64
            && let Some(above) = line.last().and_then(|name| self.accounts.get(*name))
            && let Some(parent) = above.parent.as_deref()
        {
            line.push(parent);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_word_that_leads_back() {
        for (flag, word) in ReservationFlag::WORDS {
            assert_eq!(ReservationFlag::of_word(&word.to_ascii_lowercase()), Some(flag));
            assert_eq!(flag.word(), word);
        }
        assert_eq!(
            ReservationFlag::of_word("NO_HOLD_JOBS_AFTER"),
            Some(ReservationFlag::NoHoldJobsAfter)
        );
        assert_eq!(ReservationFlag::of_word("SOMETIMES"), None);
    }

    #[test]
    fn names_let_in_or_keep_out() {
        let owner = |user: &str, gid| Owner { uid: 1, gid, user: user.to_owned() };
        let mut state = crate::State::default();
        for (name, parent) in [("lab", None), ("vision", Some("lab"))] {
            let account = crate::Account {
                name: name.to_owned(),
                parent: parent.map(str::to_owned),
                ..crate::Account::default()
            };
            state.accounts.insert(name.to_owned(), std::sync::Arc::new(account));
        }
        let mut held = Reservation::default();
        assert!(state.may_use(&held, &owner("ann", 1), "x"));
        held.access.users = Names { names: BTreeSet::from(["bob".to_owned()]), excluded: true };
        assert!(state.may_use(&held, &owner("ann", 1), "x"));
        assert!(!state.may_use(&held, &owner("bob", 1), "x"));
        held.access.accounts = Names::only(["lab"]);
        assert!(!state.may_use(&held, &owner("ann", 1), "x"));
        assert!(state.may_use(&held, &owner("ann", 1), "vision"));
        held.access.groups = vec![Group { name: "g".to_owned(), gid: 7, members: BTreeSet::new() }];
        assert!(!state.may_use(&held, &owner("ann", 1), "vision"));
        assert!(state.may_use(&held, &owner("ann", 7), "vision"));
    }
}
