//! Who holds what a job waits for, and the next event that would let it go on.

use crate::free::effective_end;
use muster_model::{Holder, Job, JobId, LimitHit, LimitName, Reason, State, Timestamp};

/// At most so many jobs are named.
const NAMED_MAX: usize = 8;

/// Who holds what a reason is about, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unblock {
    /// Jobs, the one that ends first first, at most eight.
    pub held_by: Vec<JobId>,
    /// When enough is free, if jobs take their whole limits; `None` where that depends on people or
    /// is not known.
    pub until: Option<Timestamp>,
}

/// Who holds what this reason is about. Work: for a limit one pass over the running jobs, else none.
pub(crate) fn unblock(state: &State, job: &Job, reason: &Reason, now: Timestamp) -> Unblock {
    let at = |until: Timestamp| Some(until).filter(|at| *at != Timestamp::NEVER);
    let alone = |until| Unblock { held_by: Vec::new(), until };
    match reason {
        Reason::Resources { held_by, start, .. } => {
            Unblock { held_by: held_by.clone(), until: start.and_then(at) }
        }
        Reason::Rules { held_by, .. } => Unblock { held_by: held_by.clone(), ..Unblock::default() },
        Reason::Priority { behind, .. } => Unblock { held_by: vec![*behind], ..Unblock::default() },
        Reason::HetPeer { peer } => Unblock { held_by: vec![*peer], ..Unblock::default() },
        Reason::MakingRoom { victims: held_by, until } => {
            Unblock { held_by: held_by.clone(), until: at(*until) }
        }
        Reason::BeginTime { at: until } | Reason::Requeued { until } => alone(at(*until)),
        Reason::ReservationWaits { start, .. } => alone(at(*start)),
        Reason::Reserved { end, .. } => alone(at(*end)),
        Reason::AssociationLimit(hit) | Reason::QosLimit(hit) => of_limit(state, job, hit, now),
        _ => Unblock::default(),
    }
}

/// Those whose jobs use a limit that the ends of jobs set free.
pub(crate) struct Users<'a> {
    state: &'a State,
    hit: &'a LimitHit,
    holder: Holder,
}

impl<'a> Users<'a> {
    /// `None` where the ends of jobs do not set the limit free.
    pub(crate) fn of(state: &'a State, job: &Job, hit: &'a LimitHit) -> Option<Self> {
        let is_freed = matches!(
            hit.limit,
            LimitName::GrpJobs
                | LimitName::MaxJobs
                | LimitName::MaxJobsPerAccount
                | LimitName::GrpTres
                | LimitName::MaxTresPerUser
                | LimitName::MaxTresPerAccount
        );
        let holder = state.holders(job).into_iter().find(|holder| named(holder) == hit.whose);
        Some(Self { state, hit, holder: holder.filter(|_| is_freed)? })
    }

    /// True where a job is one of theirs.
    pub(crate) fn has(&self, job: &Job) -> bool {
        self.state.holders(job).contains(&self.holder)
    }

    /// What runs of them: until when at the latest, which job, and how much it uses.
    pub(crate) fn running(&self, now: Timestamp) -> Vec<(Timestamp, JobId, u64)> {
        let running = self.state.index.active.iter().filter_map(|id| self.state.jobs.get(id));
        let uses = |job: &Job| match &self.hit.tres {
            Some(kind) => job.charge.get(kind),
            None => 1,
        };
        let mut users: Vec<(Timestamp, JobId, u64)> = running
            .filter(|job| uses(job) > 0 && self.has(job))
            .map(|job| {
                let end = job.ends_at_latest().unwrap_or(Timestamp::NEVER);
                (effective_end(end, now), job.id, uses(job))
            })
            .collect();
        users.sort_unstable();
        users
    }
}

/// The jobs that use a limit up, and the end after which there is room under it.
fn of_limit(state: &State, job: &Job, hit: &LimitHit, now: Timestamp) -> Unblock {
    let Some(users) = Users::of(state, job, hit) else { return Unblock::default() };
    let users = users.running(now);
    let mut over = hit.used.saturating_add(hit.asked).saturating_sub(hit.most);
    let mut until = None;
    for (end, _, part) in &users {
        over = over.saturating_sub(*part);
        if over == 0 {
            until = Some(*end).filter(|at| *at != Timestamp::NEVER);
            break;
        }
    }
    let held_by = users.into_iter().map(|(_, id, _)| id).take(NAMED_MAX).collect();
    Unblock { held_by, until }
}

/// A holder as limits name it.
fn named(holder: &Holder) -> String {
    match holder {
        Holder::Account(name) => format!("account {name}"),
        Holder::User { account, user } => format!("user {user} in account {account}"),
        Holder::Qos(name) => format!("QOS {name}"),
        Holder::QosUser { qos, user } => format!("user {user} in QOS {qos}"),
        Holder::QosAccount { qos, account } => format!("account {account} in QOS {qos}"),
    }
}
