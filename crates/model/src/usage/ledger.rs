//! Keeping the tallies: what each event changes in them.

use super::{Holder, Spent, Tally};
use crate::decay::accrued_ms;
use crate::{EventKind, Job, JobState, State, Timestamp, Tres, TresKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is stored of a tally: the rest follows from the jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTally {
    holder: Holder,
    as_of: Timestamp,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    spent: Spent,
}

/// What one job counts for, and with whom.
#[derive(Debug, PartialEq, Eq)]
struct Weight {
    holders: BTreeSet<Holder>,
    submitted: u32,
    running: u32,
    charge: Arc<Tres>,
    /// Thousandths of the charge that meters rise by; zero while it stands still.
    rate: u64,
}

impl State {
    /// The holders that a job counts with: its association, the accounts above, its QOS, and the
    /// QOS of its partition.
    pub fn holders(&self, job: &Job) -> BTreeSet<Holder> {
        let spec = &job.spec;
        let placed = job.placement.as_ref().filter(|_| !job.is_pending());
        let partition = placed.map(|p| &p.partition).or_else(|| spec.partitions.first());
        self.holders_in(&spec.account, &spec.owner.user, &spec.qos, partition)
    }

    /// [`State::holders`] of whoever submits or runs like this.
    pub fn holders_in(
        &self,
        account: &str,
        user: &str,
        qos: &str,
        partition: Option<&String>,
    ) -> BTreeSet<Holder> {
        let mut holders: BTreeSet<Holder> =
            self.lineage(account).map(|above| Holder::Account(above.name.clone())).collect();
        // An account that is gone is still counted as itself.
        holders.insert(Holder::Account(account.to_owned()));
        holders.insert(Holder::User { account: account.to_owned(), user: user.to_owned() });
        let of_partition = partition.and_then(|name| self.partitions.get(name)?.qos.as_deref());
        for qos in std::iter::once(qos).chain(of_partition) {
            let qos = qos.to_owned();
            holders.insert(Holder::QosUser { qos: qos.clone(), user: user.to_owned() });
            holders.insert(Holder::QosAccount { qos: qos.clone(), account: account.to_owned() });
            holders.insert(Holder::Qos(qos));
        }
        holders
    }

    fn weight(&self, job: &Job) -> Weight {
        let over = job.state.is_over();
        let holds = job.state.holds_resources();
        let runs = holds && job.state != JobState::Suspended;
        Weight {
            holders: if over { BTreeSet::new() } else { self.holders(job) },
            submitted: u32::from(!over),
            running: u32::from(holds),
            charge: if holds { Arc::clone(&job.charge) } else { Arc::default() },
            rate: if runs {
                self.qos.get(&job.spec.qos).map_or(1000, |qos| qos.usage_factor())
            } else {
                0
            },
        }
    }

    /// The job that an event may make count otherwise, as it was before.
    pub(crate) fn weighed_job(&self, kind: &EventKind) -> Option<Arc<Job>> {
        self.jobs.get(&kind.job()?).cloned()
    }

    /// Takes an event up in the tallies, once it is applied.
    pub(crate) fn tally(&mut self, at: Timestamp, kind: &EventKind, before: Option<&Arc<Job>>) {
        if let EventKind::JobSubmitted { first, .. } = kind {
            self.tally_submission(at, *first);
            return;
        }
        let Some(before) = before else { return };
        let Some(after) = self.jobs.get(&before.id).cloned() else { return };
        if Arc::ptr_eq(before, &after) || same_weight(before, &after) {
            return;
        }
        let (was, is) = (self.weight(before), self.weight(&after));
        if was == is {
            return;
        }
        // What was held after the job had ended is not charged.
        let late = match kind {
            EventKind::JobExited { report, .. } => {
                u64::try_from(at.millis() - report.ended.millis()).unwrap_or(0)
            }
            _ => 0,
        };
        for holder in &was.holders {
            let half_life = self.half_life_of(holder);
            self.change(at, holder, |tally| tally.leave(&was, 1, late, half_life));
        }
        for holder in &is.holders {
            self.change(at, holder, |tally| tally.enter(&is, 1));
        }
        self.drop_idle(&was.holders);
    }

    fn tally_submission(&mut self, at: Timestamp, first: crate::JobId) {
        let mut jobs = self.jobs.range(first..=self.last_job).map(|(_, job)| Arc::clone(job));
        let mut next = jobs.next();
        let mut groups: Vec<(Weight, u32)> = Vec::new();
        while let Some(job) = next {
            let mut count = 1;
            next = jobs.next();
            // Tasks of an array share what they are.
            while next.as_ref().is_some_and(|other| Arc::ptr_eq(&other.spec, &job.spec)) {
                count += 1;
                next = jobs.next();
            }
            groups.push((self.weight(&job), count));
        }
        for (weight, count) in groups {
            for holder in &weight.holders {
                self.change(at, holder, |tally| tally.enter(&weight, count));
            }
        }
    }

    /// Brings a tally's meters up to an instant and changes it.
    fn change(&mut self, at: Timestamp, holder: &Holder, change: impl FnOnce(&mut Tally)) {
        let half_life = self.half_life_of(holder);
        let reset = self.policy.priority.usage_reset;
        let entry = self.usage.entry(holder.clone());
        let tally = Arc::make_mut(entry.or_insert_with(|| Arc::new(holder.new_tally(at))));
        if at > tally.as_of && holder.is_metered() {
            if tally.is_metered() {
                tally.spent = tally.at(at, half_life, reset);
            }
            tally.as_of = at;
        }
        change(tally);
        if !holder.is_metered() {
            tally.rate = Tres::default();
            tally.clocks = 0;
        }
    }

    fn drop_idle(&mut self, holders: &BTreeSet<Holder>) {
        for holder in holders.iter().filter(|holder| !holder.is_metered()) {
            if self.usage.get(holder).is_some_and(|tally| tally.submitted == 0) {
                self.usage.remove(holder);
            }
        }
    }

    /// True where an event changes how use is counted, so that tallies are made anew.
    pub(crate) fn changes_counting(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::AccountSet { account } => {
                self.accounts.get(&account.name).and_then(|old| old.parent.as_ref())
                    != account.parent.as_ref()
                    || (!self.accounts.contains_key(&account.name) && !self.usage.is_empty())
            }
            EventKind::AccountRemoved { .. } | EventKind::QosRemoved { .. } => true,
            EventKind::PartitionSet { partition } => {
                self.partitions.get(&partition.name).and_then(|old| old.qos.as_ref())
                    != partition.qos.as_ref()
            }
            EventKind::PartitionRemoved { name } => {
                self.partitions.get(name).is_some_and(|partition| partition.qos.is_some())
            }
            EventKind::QosSet { qos } => {
                let plain = crate::Qos::default();
                let old = self.qos.get(&qos.name).map_or(&plain, AsRef::as_ref);
                old.usage_factor() != qos.usage_factor() || old.flags.no_decay != qos.flags.no_decay
            }
            EventKind::PolicySet { policy } => {
                let counts_again = policy.count_usage && !self.policy.count_usage;
                let (old, new) = (&self.policy.priority, &policy.priority);
                counts_again || old.half_life != new.half_life || old.usage_reset != new.usage_reset
            }
            _ => false,
        }
    }

    /// Brings all meters up to an instant, under the rules as they stand.
    pub(crate) fn settle_all(&mut self, at: Timestamp) {
        let holders: Vec<Holder> = self.usage.keys().cloned().collect();
        for holder in holders {
            self.change(at, &holder, |_| {});
        }
    }

    /// Makes the counts anew from the jobs, and what accounts used from what their users did.
    pub(crate) fn recount(&mut self, at: Timestamp) {
        self.sum_accounts();
        self.count_jobs(at);
    }

    /// Makes the counts anew from the jobs; meters stay.
    pub(crate) fn count_jobs(&mut self, at: Timestamp) {
        let old = std::mem::take(&mut self.usage);
        for (holder, tally) in old.into_iter().filter(|(holder, _)| holder.is_metered()) {
            let tally =
                Tally { as_of: tally.as_of, spent: tally.spent.clone(), ..Tally::default() };
            self.usage.insert(holder, Arc::new(tally));
        }
        let ids: Vec<_> = self.index.pending.iter().chain(&self.index.active).copied().collect();
        for job in ids.iter().filter_map(|id| self.jobs.get(id).cloned()) {
            let weight = self.weight(&job);
            for holder in &weight.holders {
                let new = || Arc::new(holder.new_tally(at));
                let tally = Arc::make_mut(self.usage.entry(holder.clone()).or_insert_with(new));
                tally.enter(&weight, 1);
                if !holder.is_metered() {
                    tally.rate = Tres::default();
                    tally.clocks = 0;
                }
            }
        }
    }

    /// An account's meters are the sum of its users' and of the accounts beneath.
    fn sum_accounts(&mut self) {
        let mut users: Vec<(String, Timestamp, Spent)> = Vec::new();
        for (holder, tally) in &self.usage {
            if let Holder::User { account, .. } = holder {
                users.push((account.clone(), tally.as_of, tally.spent.clone()));
            }
        }
        let accounts: Vec<Holder> =
            self.usage.keys().filter(|h| matches!(h, Holder::Account(_))).cloned().collect();
        for holder in &accounts {
            if let Some(tally) = self.usage.get_mut(holder) {
                Arc::make_mut(tally).spent = Spent::default();
            }
        }
        for (account, as_of, spent) in users {
            let mut names: Vec<String> = self.lineage(&account).map(|a| a.name.clone()).collect();
            if names.is_empty() {
                names.push(account);
            }
            for name in names {
                let new = || Arc::new(Tally { as_of, ..Tally::default() });
                let entry = self.usage.entry(Holder::Account(name)).or_insert_with(new);
                Arc::make_mut(entry).spent.add(&spent);
            }
        }
    }

    /// What is stored of the tallies.
    pub(crate) fn stored_usage(&self) -> Vec<StoredTally> {
        let metered = self.usage.iter().filter(|(holder, _)| holder.is_metered());
        metered
            .map(|(holder, tally)| StoredTally {
                holder: holder.clone(),
                as_of: tally.as_of,
                spent: tally.spent.clone(),
            })
            .collect()
    }

    /// Takes stored tallies up; with `None`, from before there were any, what runs begins to count.
    pub(crate) fn restore_usage(&mut self, stored: Option<Vec<StoredTally>>) {
        if stored.is_none() {
            let ids: Vec<_> = self.index.active.iter().copied().collect();
            for id in ids {
                let placement = self.jobs.get(&id).and_then(|job| job.placement.clone());
                let charge = placement.map(|placement| Arc::new(self.charge(&placement)));
                if let (Some(charge), Some(job)) = (charge, self.jobs.get_mut(&id)) {
                    Arc::make_mut(job).charge = charge;
                }
            }
        }
        for StoredTally { holder, as_of, spent } in stored.unwrap_or_default() {
            let tally = Tally { as_of, spent, ..Tally::default() };
            self.usage.insert(holder, Arc::new(tally));
        }
        if self.policy.count_usage {
            self.count_jobs(self.now);
        }
    }
}

/// A quick look at what most events leave alone.
fn same_weight(a: &Job, b: &Job) -> bool {
    a.state == b.state
        && Arc::ptr_eq(&a.charge, &b.charge)
        && (Arc::ptr_eq(&a.spec, &b.spec)
            || (a.spec.account == b.spec.account
                && a.spec.qos == b.spec.qos
                && a.spec.partitions == b.spec.partitions))
}

impl Holder {
    /// True where use over time is metered, not only counted.
    pub const fn is_metered(&self) -> bool {
        matches!(self, Self::Account(_) | Self::User { .. } | Self::Qos(_))
    }

    /// Nothing yet, with meters that stand at this instant.
    fn new_tally(&self, at: Timestamp) -> Tally {
        Tally {
            as_of: if self.is_metered() { at } else { Timestamp::default() },
            ..Tally::default()
        }
    }
}

impl Tally {
    fn is_metered(&self) -> bool {
        self.clocks > 0 || !self.rate.is_empty() || self.spent != Spent::default()
    }

    fn enter(&mut self, weight: &Weight, count: u32) {
        self.submitted += weight.submitted * count;
        self.running += weight.running * count;
        self.in_use.add(&weight.charge, u64::from(count));
        if weight.rate > 0 {
            self.rate.add(&weight.charge, weight.rate.saturating_mul(u64::from(count)));
            self.clocks += count;
        }
    }

    /// `late`: so many milliseconds of it were charged too much.
    fn leave(&mut self, weight: &Weight, count: u32, late: u64, half_life: Option<u64>) {
        self.submitted = self.submitted.saturating_sub(weight.submitted * count);
        self.running = self.running.saturating_sub(weight.running * count);
        self.in_use.take(&weight.charge, u64::from(count));
        if weight.rate == 0 || self.clocks == 0 {
            return;
        }
        self.rate.take(&weight.charge, weight.rate.saturating_mul(u64::from(count)));
        self.clocks = self.clocks.saturating_sub(count);
        if late > 0 {
            let late = accrued_ms(late, half_life);
            for (kind, amount) in weight.charge.iter() {
                self.take_back(kind, u128::from(amount) * u128::from(weight.rate * late));
            }
            self.spent.wall_ms = self.spent.wall_ms.saturating_sub(late);
        }
    }

    fn take_back(&mut self, kind: &TresKind, amount: u128) {
        if let Some(spent) = self.spent.tres.get_mut(kind) {
            *spent = spent.saturating_sub(amount);
            if *spent == 0 {
                self.spent.tres.remove(kind);
            }
        }
    }
}
