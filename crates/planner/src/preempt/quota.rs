//! What accounts use of their guarantees, and what is borrowed.
//!
//! A job belongs to the nearest account above it that has a guarantee. The jobs of such an owner
//! are taken in the order of their starts: as long as their sum is inside the guarantee they are
//! covered, the others are borrowed. Where no account above has one, everything is borrowed.

use muster_model::{Amounts, Job, JobId, QuotaAmount, State};
use std::collections::{BTreeMap, BTreeSet};

/// So many accounts above each other are looked at.
const DEPTH_MAX: usize = 64;

/// Use of guarantees, counted once for a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    used: BTreeMap<String, Amounts>,
    borrowed: BTreeSet<JobId>,
}

/// The nearest account above a job with a guarantee.
fn owner_of<'a>(state: &'a State, job: &Job) -> Option<(&'a str, QuotaAmount)> {
    let mut name = job.spec.account.as_str();
    for _ in 0..DEPTH_MAX {
        let account = state.accounts.get(name)?;
        if let Some(guarantee) = account.quota.guarantee {
            return Some((account.name.as_str(), guarantee));
        }
        name = account.parent.as_deref()?;
    }
    None
}

impl Quotas {
    /// `None` where no account has a guarantee.
    pub(crate) fn new(state: &State) -> Option<Self> {
        if state.accounts.values().all(|a| a.quota.guarantee.is_none()) {
            return None;
        }
        let mut jobs: Vec<&std::sync::Arc<Job>> =
            state.index.active.iter().filter_map(|id| state.jobs.get(id)).collect();
        jobs.sort_by_key(|job| (job.placed, job.id));
        let mut quotas = Self::default();
        for job in jobs {
            let Some(placement) = &job.placement else { continue };
            let amounts = Amounts::of(placement);
            match owner_of(state, job) {
                Some((owner, guarantee)) => {
                    let used = quotas.used.entry(owner.to_owned()).or_default();
                    *used = used.plus(amounts);
                    if !guarantee.holds(used) {
                        quotas.borrowed.insert(job.id);
                    }
                }
                None => {
                    quotas.borrowed.insert(job.id);
                }
            }
        }
        for job in state.index.claimants.iter().filter_map(|id| state.jobs.get(id)) {
            if let (Some(claim), Some((owner, _))) = (&job.claim, owner_of(state, job)) {
                quotas.use_of(owner, Amounts::of(&claim.placement));
            }
        }
        Some(quotas)
    }

    fn use_of(&mut self, owner: &str, amounts: Amounts) {
        let used = self.used.entry(owner.to_owned()).or_default();
        *used = used.plus(amounts);
    }

    /// Counts what this round gives to a job.
    pub(crate) fn count(&mut self, state: &State, job: &Job, amounts: Amounts) {
        if let Some((owner, _)) = owner_of(state, job) {
            self.use_of(owner, amounts);
        }
    }

    /// The account whose guarantee the job is counted to.
    pub(crate) fn owner<'a>(state: &'a State, job: &Job) -> Option<&'a str> {
        owner_of(state, job).map(|(owner, _)| owner)
    }

    pub(crate) fn is_borrowed(&self, job: JobId) -> bool {
        self.borrowed.contains(&job)
    }

    /// True where the owner of the job's guarantee may have so much more without borrowing.
    pub(crate) fn covers(&self, state: &State, job: &Job, more: Amounts) -> bool {
        owner_of(state, job).is_some_and(|(owner, guarantee)| {
            let used = self.used.get(owner).copied().unwrap_or_default();
            guarantee.holds(&used.plus(more))
        })
    }

    /// How far the owner of a running job is beyond its guarantee, in thousandths of it; the
    /// highest number where it has none.
    pub(crate) fn excess(&self, state: &State, job: &Job) -> u64 {
        let Some((owner, guarantee)) = owner_of(state, job) else { return u64::from(u32::MAX) };
        let used = self.used.get(owner).copied().unwrap_or_default();
        let ratio = |used: u64, own: Option<u64>| {
            own.map_or(0, |own| used.saturating_sub(own).saturating_mul(1000) / own.max(1))
        };
        ratio(used.gpus, guarantee.gpus)
            .max(ratio(used.cpus, guarantee.cpus))
            .max(ratio(used.memory, guarantee.memory.map(|m| m.0)))
            .min(u64::from(u32::MAX))
    }
}
