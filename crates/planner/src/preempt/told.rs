//! Who could make room for a waiting job, and who is kept from it and by what.
//!
//! Cost: one look at every running job.

use super::permit::{Asker, Permits, Protection, Right};
use super::{could_help, highest, quota::Quotas, reserved_ways};
use crate::ask::Ask;
use crate::world::World;
use muster_model::{Job, JobId, State, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// At most so many jobs are named of each kind.
const NAMED_MAX: usize = 8;

/// Jobs that have something that a waiting one could use: those that may make room for it, and those
/// that may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomMakers {
    /// By the rule that puts the waiting job above them, in words.
    pub may: Vec<RunningJobs>,
    /// By what keeps them, in words. Those whom no rule puts below the waiting job come last.
    pub kept: Vec<RunningJobs>,
    /// The last round looked for room without those that may go, and found none.
    pub in_vain: bool,
}

/// Running jobs with something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningJobs {
    /// What, as a clause.
    pub what: String,
    /// How many.
    pub count: u32,
    /// Which, in order of number, at most eight.
    pub jobs: Vec<JobId>,
    /// When the first of them is not kept any more; `None` where that is not a matter of time.
    pub until: Option<Timestamp>,
}

impl RunningJobs {
    fn add(&mut self, job: JobId, until: Option<Timestamp>) {
        self.count += 1;
        if self.jobs.len() < NAMED_MAX {
            self.jobs.push(job);
        }
        self.until = match (self.until, until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Whom the group may preempt; `None` where no rule lets it preempt anybody.
pub(crate) fn room_makers(
    state: &State,
    world: &World,
    now: Timestamp,
    asks: &[Vec<Ask>],
    group: &[&Arc<Job>],
) -> Option<RoomMakers> {
    let permits = Permits::new(state, now);
    if !permits.are_any() {
        return None;
    }
    let asks: Vec<Vec<&Ask>> = asks.iter().map(|part| highest(part)).collect();
    let tier = asks.iter().filter_map(|part| Some(part.first()?.partition.tier)).min()?;
    let ways = reserved_ways(state, now, &asks);
    let askers = |inside: Option<&'_ str>| -> Vec<(Arc<Job>, Option<String>)> {
        group.iter().map(|job| (Arc::clone(job), inside.map(str::to_owned))).collect()
    };
    let all: Vec<Vec<(Arc<Job>, Option<String>)>> =
        ways.iter().map(|inside| askers(inside.as_deref())).collect();
    let may_ask = |askers: &Vec<(Arc<Job>, Option<String>)>| {
        askers
            .iter()
            .all(|(job, inside)| permits.may_ask(Asker { job, tier, inside: inside.as_deref() }))
    };
    if !all.iter().any(may_ask) {
        return None;
    }
    let mut may: BTreeMap<(Right, String), RunningJobs> = BTreeMap::new();
    let mut kept: BTreeMap<(u8, String), RunningJobs> = BTreeMap::new();
    let running = state.index.active.iter().filter_map(|id| state.jobs.get(id));
    for job in running.filter(|job| could_help(world, &asks, job)) {
        let verdicts = all.iter().map(|askers| {
            askers.iter().try_fold(None, |_, (by, inside)| {
                let asker = Asker { job: by, tier, inside: inside.as_deref() };
                permits.permit(asker, job).map(|permit| Some((permit.right, by)))
            })
        });
        let mut verdict: Option<Result<(Right, &Arc<Job>), Protection>> = None;
        for found in verdicts {
            match found {
                Ok(Some(right)) => verdict = Some(Ok(right)),
                Ok(None) => {}
                // What says most is told: that no rule speaks of it says least.
                Err(why) => match verdict {
                    None | Some(Err(Protection::Equal)) => verdict = Some(Err(why)),
                    _ => {}
                },
            }
        }
        match verdict {
            Some(Ok((right, by))) => {
                let what = right_in_words(state, right, by, job);
                may.entry((right, what)).or_default().add(job.id, None);
            }
            Some(Err(why)) => {
                let (rank, what, until) = why_in_words(state, &permits, why, job);
                kept.entry((rank, what)).or_default().add(job.id, until);
            }
            None => {}
        }
    }
    let told = |what: String, jobs: RunningJobs| RunningJobs { what, ..jobs };
    Some(RoomMakers {
        may: may.into_iter().map(|((_, what), jobs)| told(what, jobs)).collect(),
        kept: kept.into_iter().map(|((_, what), jobs)| told(what, jobs)).collect(),
        in_vain: false,
    })
}

fn right_in_words(state: &State, right: Right, by: &Job, job: &Job) -> String {
    let partition = |job: &Job| job.placement.as_ref().map(|p| p.partition.clone());
    match right {
        Right::Reservation => "on the nodes of its reservation, not in it".to_owned(),
        Right::Tier => {
            format!("in partition {}, of a lower tier", partition(job).unwrap_or_default())
        }
        Right::Qos => format!("of QOS {}, which {} may preempt", job.spec.qos, by.spec.qos),
        Right::Priority => "of a lower priority".to_owned(),
        Right::Quota => match Quotas::owner(state, job) {
            Some(owner) => format!("beyond the guarantee of account {owner}"),
            None => format!("of account {}, which has no guarantee", job.spec.account),
        },
    }
}

/// How it is sorted, the words, and until when.
fn why_in_words(
    state: &State,
    permits: &Permits<'_>,
    why: Protection,
    job: &Job,
) -> (u8, String, Option<Timestamp>) {
    match why {
        Protection::Exempt(until) => (0, "in their exempt time".to_owned(), Some(until)),
        Protection::Guaranteed => {
            let owner = Quotas::owner(state, job).unwrap_or_default();
            (1, format!("inside the guarantee of account {owner}"), None)
        }
        Protection::Off => (2, format!("protected by {}", permits.who_protects(job)), None),
        Protection::Leaving => (3, "on their way out or standing still".to_owned(), None),
        Protection::Equal => (4, "not below it by any rule".to_owned(), None),
    }
}
