//! Each reason as one sentence.

use super::RuleTally;
use crate::{JobId, Mib, Reason, TimeLimit};
use std::fmt;

fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// An amount with its resource's word: `2 cpus`, `1 gpu`, `64G of memory`.
fn amount(resource: &str, n: u64) -> String {
    match resource {
        "memory" => format!("{} of memory", Mib(n)),
        _ => plural(n, resource.strip_suffix('s').unwrap_or(resource)),
    }
}

/// A free amount with its verb, without the resource's word: `2 are`, `64G is`.
fn shown(resource: &str, n: u64) -> String {
    match (resource, n) {
        ("nodes", n) => n.to_string(),
        ("memory", n) => format!("{} is", Mib(n)),
        (_, 1) => "1 is".to_owned(),
        (_, n) => format!("{n} are"),
    }
}

/// Jobs with their noun: `job 3`, `jobs 3, 4`.
fn named(noun: &str, jobs: &[JobId]) -> String {
    format!("{noun}{} {}", if jobs.len() == 1 { "" } else { "s" }, ids(jobs))
}

fn ids(jobs: &[JobId]) -> String {
    jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Reason {
    /// One sentence for people, lower case, no full stop. Instants are left to the caller, who
    /// knows the reader's time zone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPlannedYet => f.write_str("no planning round has looked at it yet"),
            Self::HeldByUser => f.write_str("held by its owner"),
            Self::HeldByAdmin => f.write_str("held by an admin"),
            Self::BeginTime { .. } => f.write_str("its begin time has not come"),
            Self::Dependency { waiting_for } => {
                write!(f, "waits for {}", waiting_for.join(", "))
            }
            Self::DependencyNeverSatisfied { term } => {
                write!(f, "{term} can never be met")
            }
            Self::ArrayTaskLimit { limit } => {
                write!(f, "its array runs at most {} at once", plural(u64::from(*limit), "task"))
            }
            Self::PartitionTimeLimit { partition, limit } => match limit {
                TimeLimit::Of(s) => write!(
                    f,
                    "asks for more time than partition {partition} gives ({} minutes)",
                    s.0 / 60
                ),
                TimeLimit::Unlimited => {
                    write!(f, "asks for more time than partition {partition} gives")
                }
            },
            Self::PartitionNodeLimit { partition, wanted } => write!(
                f,
                "asks for {}, which partition {partition} does not give",
                plural(u64::from(*wanted), "node")
            ),
            Self::PartitionDown { partition } => {
                write!(f, "partition {partition} is down and starts no jobs")
            }
            Self::PartitionInactive { partition } => {
                write!(f, "partition {partition} is inactive")
            }
            Self::NoNodeFits { partition, lacking, .. } => {
                write!(f, "can never run in partition {partition}: {lacking}")
            }
            Self::NodesUnavailable { nodes } => {
                write!(f, "needs nodes that are down or drained: {}", nodes.join(", "))
            }
            Self::Resources { resource, wanted, free, nodes, held_by, .. } => {
                let (needs, has) = (amount(resource, *wanted), shown(resource, *free));
                match (resource.as_str(), *nodes) {
                    ("nodes", _) if free >= wanted => write!(
                        f,
                        "needs {needs}; {has} could take a part of it now, but not all of it"
                    )?,
                    ("nodes", _) => write!(f, "needs {needs}; {has} could take it now")?,
                    (_, 0) => write!(f, "needs {needs} in total; {has} free")?,
                    (_, 1) => write!(f, "needs {needs} on one node; at most {has} free")?,
                    (_, n) => {
                        write!(f, "needs {needs} on {n} nodes; at most {has} free on so many")?;
                    }
                }
                if !held_by.is_empty() {
                    write!(f, " (held by {})", ids(held_by))?;
                }
                Ok(())
            }
            Self::Priority { behind, ahead } => write!(
                f,
                "{} before it; starting it now would delay job {behind}",
                plural(u64::from(*ahead), "waiting job")
            ),
            Self::Licences { name, wanted, free } => {
                write!(f, "needs {} {name}; {free} are free", plural(u64::from(*wanted), "licence"))
            }
            Self::FilesystemBusy { licence, filesystem, figure, .. } => {
                write!(f, "licence {licence} is held back: filesystem {filesystem} is {figure}")
            }
            Self::LicencesNeverEnough { name, wanted, total } => {
                write!(f, "needs {wanted} of licence {name}; there are {total}")
            }
            Self::ReservationAbsent { name } => write!(f, "reservation {name} is not there"),
            Self::ReservationDeleted { name } => {
                write!(f, "its reservation {name} is over; held until released")
            }
            Self::ReservationDenied { name } => {
                write!(f, "its user or account may not use reservation {name}")
            }
            Self::ReservationWaits { name, .. } => {
                write!(f, "its reservation {name} has not begun")
            }
            Self::ReservationTooShort { name, .. } => {
                write!(f, "could not end before its reservation {name} is over")
            }
            Self::Reserved { name, maintenance: true, .. } => {
                write!(f, "could run into maintenance ({name})")
            }
            Self::Reserved { name, .. } => write!(f, "could run into reservation {name}"),
            Self::GpuMemory { wanted, largest } => write!(
                f,
                "needs {wanted} free on each GPU; the largest GPU that it may use has {largest}"
            ),
            Self::Switches { count, wait } => write!(
                f,
                "waits up to {} s for nodes under {}",
                wait.0,
                plural(u64::from(*count), "switch")
            ),
            Self::Topology { rule, wanted, nearest, place, free } => {
                let at = if place.is_empty() { String::new() } else { format!(" ({place})") };
                write!(
                    f,
                    "needs {} {rule}; at most {nearest} are free so{at}, {free} in all",
                    plural(u64::from(*wanted), "node")
                )
            }
            Self::Rules { kind, rule, tally, held_by, .. } => {
                let left = |t: &RuleTally| format!("{} {}", t.rule, t.left);
                let tally = tally.iter().map(left).collect::<Vec<_>>().join(", ");
                write!(f, "{} {rule} leaves too few nodes: {tally}", kind.word())?;
                if !held_by.is_empty() {
                    write!(f, " (because of {})", ids(held_by))?;
                }
                Ok(())
            }
            Self::Deadline { .. } => f.write_str("cannot end by its deadline"),
            Self::HetPeer { peer } => {
                write!(f, "component {peer} of its heterogeneous job has to wait")
            }
            Self::Requeued { .. } => f.write_str("was put back in the queue a moment ago"),
            Self::RestartedTooOften { message } => {
                write!(f, "is held after too many restarts: {message}")
            }
            Self::PlanRefused { rule } => {
                write!(f, "the plan that would start it broke a rule ({rule}); held, please report")
            }
            Self::MakingRoom { victims, .. } => {
                write!(f, "room is being made for it by {}", named("job", victims))
            }
            Self::GpusIdle { gpus, after } => {
                write!(f, "{} and were taken back", crate::idle::did_nothing(*gpus, *after))
            }
            Self::GangIncomplete { gang, size, submitted, ready, not_free } => {
                write!(f, "waits for members of gang {gang}: ")?;
                let missing = size.saturating_sub(*submitted);
                if missing > 0 {
                    write!(f, "{submitted} of {size} submitted, missing {missing}")?;
                }
                let later = submitted.saturating_sub(*ready);
                if later > 0 {
                    let more = if later as usize > not_free.len() { ", ..." } else { "" };
                    let comma = if missing > 0 { "; " } else { "" };
                    write!(f, "{comma}{}{more} cannot start yet", named("job", not_free))?;
                }
                Ok(())
            }
            Self::BudgetEnded => f.write_str("the planning round ended before its turn"),
            Self::AssociationLimit(hit) | Self::QosLimit(hit) => hit.fmt(f),
        }
    }
}
