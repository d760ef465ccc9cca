//! Priorities factor by factor, and fair shares.

use crate::is_default;
use muster_model::fair_share::ShareRow as Row;
use muster_model::{
    FairShare, Job, OrderMode, Priorities, Shares, State, Timestamp, TresKind, usage::Holder,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Which waiting jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct PriorityQuery {
    /// Raw numbers or arrays, joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<String>,
    /// User names, joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<String>,
    /// Partitions, joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<String>,
    /// At most so many rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Those after this raw number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}

/// The priorities of waiting jobs, by raw number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriorityPage {
    /// True where the factors order jobs; else they come in order of submission.
    pub multifactor: bool,
    /// What each factor counts for, as its terms are named in a row.
    pub weights: BTreeMap<String, i64>,
    /// The jobs.
    pub rows: Vec<PriorityRow>,
    /// `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// A job's priority: the sum of its terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriorityRow {
    /// Its raw number.
    pub id: u32,
    /// The number users see.
    pub job: String,
    /// Whose it is.
    pub user: String,
    /// The account.
    pub account: String,
    /// Its partitions, joined by commas.
    pub partition: String,
    /// Its QOS.
    pub qos: String,
    /// The number that orders it.
    pub priority: i64,
    /// It was set by hand, and there are no terms.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_hand: bool,
    /// The terms by name: `site`, `age`, `association`, `fair_share`, `job_size`, `partition`, `qos`, `nice` (taken
    /// away), and weighted resources by theirs.
    pub terms: BTreeMap<String, i64>,
    /// The factors behind the terms, in billionths.
    pub factors: BTreeMap<String, u64>,
}

/// Accounts and users with their fair shares; each account before what is beneath it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharePage {
    /// The rows.
    pub rows: Vec<ShareLine>,
    /// The daemon's clock.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
}

/// An account, or a user in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareLine {
    /// The account.
    pub account: String,
    /// The user; absent for an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How many accounts are above it.
    pub depth: u32,
    /// Its shares; absent where it has its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// Its part of the shares, in billionths.
    pub norm_shares: u64,
    /// Billed seconds.
    pub raw_usage: u64,
    /// Its part of all use, in billionths.
    pub norm_usage: u64,
    /// Its part of its siblings' use (fair tree) or its effective use, in billionths.
    pub effective_usage: u64,
    /// Shares over use, in billionths; absent where nothing is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u64>,
    /// What counts in a job's priority, in billionths.
    pub fair_share: u64,
    /// Jobs that have resources.
    pub running: u32,
    /// Jobs that wait or have resources.
    pub submitted: u32,
    /// What they have, as Slurm writes it.
    pub in_use: String,
    /// Its limit on resource minutes, as Slurm writes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grp_tres_mins: String,
    /// CPU minutes and GPU minutes used, by resource.
    pub minutes: BTreeMap<String, u64>,
}

impl PriorityRow {
    /// A job's row.
    pub fn of(priorities: &Priorities<'_>, job: &Job) -> Self {
        let f = priorities.factors(job);
        let spec = &job.spec;
        let named = [
            ("age", f.age),
            ("association", f.association),
            ("fair_share", f.fair_share),
            ("job_size", f.job_size),
            ("partition", f.partition),
            ("qos", f.qos),
        ];
        let named = named.into_iter().map(|(name, pair)| (name.to_owned(), pair));
        let all: BTreeMap<String, (u64, i64)> =
            named.chain(f.tres.iter().map(|(kind, pair)| (kind.to_string(), *pair))).collect();
        let mut terms: BTreeMap<String, i64> =
            all.iter().map(|(name, (_, term))| (name.clone(), *term)).collect();
        terms.insert("site".to_owned(), f.site);
        terms.insert("nice".to_owned(), f.nice);
        Self {
            id: job.id.0,
            job: job.display_id(),
            user: spec.owner.user.clone(),
            account: spec.account.clone(),
            partition: spec.partitions.join(","),
            qos: spec.qos.clone(),
            priority: f.sum(),
            by_hand: f.by_hand.is_some(),
            terms: if f.by_hand.is_some() { BTreeMap::new() } else { terms },
            factors: all.into_iter().map(|(name, (factor, _))| (name, factor)).collect(),
        }
    }
}

impl PriorityPage {
    /// A page without rows: the weights and the instant.
    pub fn empty(state: &State, now: Timestamp) -> Self {
        let weights = &state.policy.priority.weights;
        let named = [
            ("age", weights.age),
            ("association", weights.association),
            ("fair_share", weights.fair_share),
            ("job_size", weights.job_size),
            ("partition", weights.partition),
            ("qos", weights.qos),
        ];
        let named = named.into_iter().map(|(name, weight)| (name.to_owned(), i64::from(weight)));
        let tres = weights.tres.iter().map(|(kind, w)| (kind.to_string(), i64::from(*w)));
        Self {
            multifactor: state.policy.order == OrderMode::Multifactor,
            weights: named.chain(tres).collect(),
            rows: Vec::new(),
            next: None,
            now_ms: now,
        }
    }
}

impl SharePage {
    /// All shares at an instant.
    pub fn of(state: &State, now: Timestamp) -> Self {
        let shares = FairShare::new(state, now);
        Self {
            rows: shares.rows().iter().map(|row| ShareLine::of(state, row, now)).collect(),
            now_ms: now,
        }
    }
}

impl ShareLine {
    fn of(state: &State, row: &Row, now: Timestamp) -> Self {
        let account = row.account.clone();
        let configured = state.accounts.get(&account);
        let (holder, limits) = match &row.user {
            None => (Holder::Account(account.clone()), configured.map(|a| &a.limits)),
            Some(user) => (
                Holder::User { account: account.clone(), user: user.clone() },
                configured.and_then(|a| Some(&a.members.get(user)?.limits)),
            ),
        };
        let tally = state.usage.get(&holder);
        let spent = state.spent(&holder, now);
        let minutes = |kind: &TresKind| (kind.to_string(), spent.minutes(kind));
        Self {
            account,
            user: row.user.clone(),
            depth: row.depth,
            shares: match row.shares {
                Shares::Of(shares) => Some(shares),
                Shares::Parent => None,
            },
            norm_shares: row.norm_shares,
            raw_usage: row.raw_usage,
            norm_usage: row.norm_usage,
            effective_usage: row.effective_usage,
            level: (row.level != Row::INFINITE).then_some(row.level),
            fair_share: row.factor,
            running: tally.map_or(0, |t| t.running),
            submitted: tally.map_or(0, |t| t.submitted),
            in_use: tally.map_or_else(String::new, |t| t.in_use.to_string()),
            grp_tres_mins: limits.map_or_else(String::new, |l| l.group.tres_mins.to_string()),
            minutes: spent.tres.keys().map(minutes).collect(),
        }
    }
}
