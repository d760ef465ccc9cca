//! Accounts and qualities of service as clients see them.

use crate::{AccountView, MemberView, QosView, UseView};
use muster_model::usage::Holder;
use muster_model::{Account, Qos, QosFlags, Shares, State, Timestamp, Tres, TresKind};
use std::collections::{BTreeMap, BTreeSet};

/// What everybody uses at one instant: a pass over running jobs.
pub struct Uses<'a> {
    state: &'a State,
    now: Timestamp,
    /// Seconds of a unit that running jobs may still use.
    left: BTreeMap<Holder, BTreeMap<TresKind, u128>>,
}

impl<'a> Uses<'a> {
    /// Looks at all running jobs.
    pub fn new(state: &'a State, now: Timestamp) -> Self {
        let mut left: BTreeMap<Holder, BTreeMap<TresKind, u128>> = BTreeMap::new();
        for job in state.index.active.iter().filter_map(|id| state.jobs.get(id)) {
            // What has no limit has no minutes that it may still use.
            let end = job.ends_at_latest().filter(|end| *end != Timestamp::NEVER);
            let seconds = u128::from(end.map_or(0, |end| end.since(now).0));
            for holder in state.holders(job).into_iter().filter(Holder::is_metered) {
                let kinds = left.entry(holder).or_default();
                for (kind, amount) in job.charge.iter() {
                    *kinds.entry(kind.clone()).or_default() += u128::from(amount) * seconds;
                }
            }
        }
        Self { state, now, left }
    }

    fn of(&self, holder: &Holder) -> UseView {
        let tally = self.state.usage.get(holder);
        let spent = self.state.spent(holder, self.now);
        let minutes = |(kind, seconds): (&TresKind, &u128)| {
            (kind.clone(), u64::try_from(seconds / 60).unwrap_or(u64::MAX))
        };
        UseView {
            running: tally.map_or(0, |tally| tally.running),
            submitted: tally.map_or(0, |tally| tally.submitted),
            in_use: tally.map(|tally| tally.in_use.clone()).unwrap_or_default(),
            minutes: spent.tres.keys().map(|kind| (kind.clone(), spent.minutes(kind))).collect(),
            run_minutes: self
                .left
                .get(holder)
                .map(|kinds| kinds.iter().map(minutes).collect::<Tres>())
                .unwrap_or_default(),
            wall_minutes: spent.wall_ms / 60_000,
            billed_s: spent.seconds(&TresKind::Billing),
        }
    }
}

const fn number(shares: Shares) -> Option<u32> {
    match shares {
        Shares::Of(shares) => Some(shares),
        Shares::Parent => None,
    }
}

impl AccountView {
    /// An account with its users.
    pub fn of(uses: &Uses<'_>, account: &Account) -> Self {
        let name = &account.name;
        let used = uses.state.usage.keys().filter_map(|holder| match holder {
            Holder::User { account, user } if account == name => Some(user),
            _ => None,
        });
        let people: BTreeSet<&String> = used.chain(account.members.keys()).collect();
        let member = |user: &String| {
            let said = account.members.get(user).cloned().unwrap_or_default();
            let holder = Holder::User { account: name.clone(), user: user.clone() };
            let used = uses.of(&holder);
            let (shares, priority) = (number(said.shares), said.priority);
            (user.clone(), MemberView { shares, priority, limits: said.limits, used })
        };
        Self {
            name: name.clone(),
            parent: account.parent.clone(),
            users: account.users.clone(),
            default_for: account.default_for.clone(),
            shares: number(account.shares),
            priority: account.priority,
            limits: account.limits.clone(),
            used: uses.of(&Holder::Account(name.clone())),
            members: people.into_iter().map(member).collect(),
        }
    }
}

impl QosView {
    /// A quality of service with who uses it.
    pub fn of(uses: &Uses<'_>, qos: &Qos) -> Self {
        let (mut users, mut accounts) = (BTreeMap::new(), BTreeMap::new());
        for holder in uses.state.usage.keys() {
            match holder {
                Holder::QosUser { qos: of, user } if *of == qos.name => {
                    users.insert(user.clone(), uses.of(holder));
                }
                Holder::QosAccount { qos: of, account } if *of == qos.name => {
                    accounts.insert(account.clone(), uses.of(holder));
                }
                _ => {}
            }
        }
        Self {
            name: qos.name.clone(),
            priority: qos.priority,
            limits: qos.limits.clone(),
            flags: flags(qos.flags),
            usage_factor: qos.usage_factor.unwrap_or(1000),
            preempts: qos.preempts.clone(),
            preempt: qos.preempt,
            used: uses.of(&Holder::Qos(qos.name.clone())),
            users,
            accounts,
        }
    }
}

/// By Slurm's names (sacctmgr manual).
fn flags(flags: QosFlags) -> Vec<String> {
    let all = [
        (flags.deny_on_limit, "DenyOnLimit"),
        (flags.no_decay, "NoDecay"),
        (flags.over_part_qos, "OverPartQOS"),
        (flags.partition_time_limit, "PartitionTimeLimit"),
        (flags.usage_factor_safe, "UsageFactorSafe"),
    ];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned()).collect()
}
