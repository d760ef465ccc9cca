//! Fair share: who used less than their part comes first.
//!
//! The two algorithms are Slurm's (its pages *Fair Tree Fairshare Algorithm* and *Classic Fairshare
//! Algorithm*); their published examples are tests here. Factors are billionths
//! ([`crate::priority::WHOLE`] is one). Use is what was billed, decayed ([`State::spent`]).
//!
//! Associations are the users that an account names, and those who ever submitted there. Working
//! them all out costs their number times its logarithm; it is done once for an instant.

use crate::decay::half_to;
use crate::priority::{FairShareMode, WHOLE};
use crate::{Holder, Shares, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A fraction of one at this scale (2^60), for products of several.
const UNIT: u128 = 1 << 60;

/// An account or a user in it, with what fair share makes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareRow {
    /// The account; for a user, the account that is charged.
    pub account: String,
    /// The user; `None` for an account.
    pub user: Option<String>,
    /// How many accounts are above it.
    pub depth: u32,
    /// As configured.
    pub shares: Shares,
    /// Its part of its siblings' shares; under the classic algorithm of the whole. Billionths.
    pub norm_shares: u64,
    /// Seconds of what was billed.
    pub raw_usage: u64,
    /// Its part of all use. Billionths.
    pub norm_usage: u64,
    /// Its part of its siblings' use (fair tree), or the effective use (classic). Billionths.
    pub effective_usage: u64,
    /// Shares over use among siblings, in billionths; [`ShareRow::INFINITE`] where nothing is used.
    pub level: u64,
    /// What counts in a job's priority. Billionths; zero for an account under fair tree.
    pub factor: u64,
}

impl ShareRow {
    /// A level beyond any number.
    pub const INFINITE: u64 = u64::MAX;
}

/// The fair share of every association at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FairShare {
    rows: Vec<ShareRow>,
    by_user: BTreeMap<String, BTreeMap<String, usize>>,
}

/// A node of the tree while it is worked out.
struct Entry {
    row: ShareRow,
    /// What was billed, in units times milliseconds.
    used: u64,
    children: Vec<usize>,
    parent: Option<usize>,
}

impl FairShare {
    /// Works out all of them.
    pub fn new(state: &State, now: Timestamp) -> Self {
        let mut entries = Vec::new();
        let roots = tree(state, now, &mut entries);
        let total = sum(roots.iter().map(|at| entries[*at].used));
        for entry in &mut entries {
            entry.row.norm_usage = ratio(entry.used, total, WHOLE);
        }
        match state.policy.priority.fair_share {
            FairShareMode::Tree => fair_tree(&mut entries, &roots),
            FairShareMode::Classic => {
                let damping = u128::from(state.policy.priority.dampening.max(1));
                classic(&mut entries, &roots, UNIT, ratio128(total, total), damping, total);
            }
        }
        let mut order = Vec::with_capacity(entries.len());
        walk(&entries, &roots, &mut order);
        let rows: Vec<ShareRow> = order.into_iter().map(|at| entries[at].row.clone()).collect();
        let mut by_user: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            if let Some(user) = &row.user {
                by_user.entry(row.account.clone()).or_default().insert(user.clone(), at);
            }
        }
        Self { rows, by_user }
    }

    /// Accounts and users, each account before what is beneath it.
    pub fn rows(&self) -> &[ShareRow] {
        &self.rows
    }

    /// A user's row.
    pub fn row(&self, account: &str, user: &str) -> Option<&ShareRow> {
        self.by_user.get(account)?.get(user).and_then(|at| self.rows.get(*at))
    }

    /// A user's factor in billionths; zero where the association is unknown.
    pub fn factor(&self, account: &str, user: &str) -> u64 {
        self.row(account, user).map_or(0, |row| row.factor)
    }
}

fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

/// `part / whole` at a scale, zero of nothing.
fn ratio(part: u64, whole: u64, scale: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    u64::try_from(u128::from(part) * u128::from(scale) / u128::from(whole)).unwrap_or(u64::MAX)
}

fn ratio128(part: u64, whole: u64) -> u128 {
    if whole == 0 { 0 } else { u128::from(part) * UNIT / u128::from(whole) }
}

/// Every account with its users, roots first; gives the roots.
fn tree(state: &State, now: Timestamp, entries: &mut Vec<Entry>) -> Vec<usize> {
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for holder in state.usage.keys() {
        if let Holder::User { account, user } = holder {
            users.entry(account).or_default().insert(user);
        }
    }
    let mut beneath: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for account in state.accounts.values() {
        let parent = account.parent.as_deref().filter(|name| state.accounts.contains_key(*name));
        beneath.entry(parent).or_default().push(&account.name);
        let own = users.entry(&account.name).or_default();
        own.extend(account.members.keys().map(String::as_str));
        own.extend(account.users.iter().flatten().map(String::as_str));
    }
    let mut roots = Vec::new();
    let mut open: Vec<(&str, Option<usize>, u32)> =
        beneath.remove(&None).into_iter().flatten().rev().map(|name| (name, None, 0)).collect();
    // Accounts in a circle are never reached; the configuration refuses them.
    while let Some((name, parent, depth)) = open.pop() {
        let Some(account) = state.accounts.get(name) else { continue };
        let at = entries.len();
        let used = state.spent(&Holder::Account(name.to_owned()), now);
        let row = ShareRow {
            account: name.to_owned(),
            depth,
            shares: account.shares,
            raw_usage: used.seconds(&crate::TresKind::Billing),
            ..ShareRow::default()
        };
        entries.push(Entry { row, used: used.billed(), children: Vec::new(), parent });
        match parent {
            Some(parent) => entries[parent].children.push(at),
            None => roots.push(at),
        }
        for user in users.get(name).into_iter().flatten() {
            let holder = Holder::User { account: name.to_owned(), user: (*user).to_owned() };
            let used = state.spent(&holder, now);
            let row = ShareRow {
                account: name.to_owned(),
                user: Some((*user).to_owned()),
                depth: depth + 1,
                shares: account.members.get(*user).map_or_else(Shares::default, |m| m.shares),
                raw_usage: used.seconds(&crate::TresKind::Billing),
                ..ShareRow::default()
            };
            let child = entries.len();
            let used = used.billed();
            entries.push(Entry { row, used, children: Vec::new(), parent: Some(at) });
            entries[at].children.push(child);
        }
        let children = beneath.remove(&Some(name)).into_iter().flatten().rev();
        open.extend(children.map(|child| (child, Some(at), depth + 1)));
    }
    roots
}

fn walk(entries: &[Entry], level: &[usize], order: &mut Vec<usize>) {
    for at in level {
        order.push(*at);
        walk(entries, &entries[*at].children, order);
    }
}

/// Siblings for fair share: an account with its parent's share hands its children up.
fn siblings(entries: &[Entry], level: &[usize]) -> Vec<usize> {
    let mut all = Vec::with_capacity(level.len());
    for at in level {
        let entry = &entries[*at];
        if entry.row.user.is_none() && entry.row.shares == Shares::Parent {
            all.extend(siblings(entries, &entry.children));
        } else {
            all.push(*at);
        }
    }
    all
}

fn raw(entry: &Entry) -> u64 {
    match entry.row.shares {
        Shares::Of(shares) => u64::from(shares),
        Shares::Parent => 0,
    }
}

fn fair_tree(entries: &mut [Entry], roots: &[usize]) {
    let users = entries.iter().filter(|entry| entry.row.user.is_some()).count() as u64;
    let roots = siblings(entries, roots);
    levels(entries, &roots);
    let mut ranks = Ranks { users, rank: users, next: users };
    ranks.visit(entries, roots, false);
}

/// Level values of siblings, and of all beneath them.
fn levels(entries: &mut [Entry], level: &[usize]) {
    let shares = sum(level.iter().map(|at| raw(&entries[*at])));
    let used = sum(level.iter().map(|at| entries[*at].used));
    for at in level {
        let entry = &mut entries[*at];
        let own = raw(entry);
        entry.row.norm_shares = ratio(own, shares, WHOLE);
        entry.row.effective_usage = ratio(entry.used, used, WHOLE);
        entry.row.level = match entry.row.shares {
            Shares::Parent => ShareRow::INFINITE,
            Shares::Of(0) => 0,
            Shares::Of(_) if entry.used == 0 => ShareRow::INFINITE,
            Shares::Of(_) => level_of(own, shares, entry.used, used),
        };
        let children = siblings(entries, &entries[*at].children);
        levels(entries, &children);
    }
}

/// `(own/shares) / (used/all)` in billionths, below infinite.
fn level_of(own: u64, shares: u64, used: u64, all: u64) -> u64 {
    let part = ratio128(used, all).max(1);
    let level = ratio128(own, shares) * u128::from(WHOLE) / part;
    u64::try_from(level).unwrap_or(u64::MAX).min(ShareRow::INFINITE - 1)
}

/// The walk that ranks users. `next` is the rank without ties.
struct Ranks {
    users: u64,
    rank: u64,
    next: u64,
}

impl Ranks {
    fn visit(&mut self, entries: &mut [Entry], mut level: Vec<usize>, parent_tied: bool) {
        // Highest level first, users before accounts; then by name, which only fixes the walk.
        level.sort_by(|a, b| {
            let key = |at: usize| {
                let row = &entries[at].row;
                (std::cmp::Reverse(row.level), row.user.is_none())
            };
            key(*a).cmp(&key(*b)).then(a.cmp(b))
        });
        let mut before = None;
        let mut nth = 0;
        while let Some(at) = level.get(nth).copied() {
            let value = entries[at].row.level;
            let tied = if nth == 0 && parent_tied { true } else { before == Some(value) };
            before = Some(value);
            nth += 1;
            if entries[at].row.user.is_some() {
                if !tied {
                    self.rank = self.next;
                }
                entries[at].row.factor = ratio(self.rank, self.users, WHOLE);
                self.next = self.next.saturating_sub(1);
                continue;
            }
            // Accounts of one level are one: their children are siblings.
            let mut children = siblings(entries, &entries[at].children);
            while let Some(other) =
                level.get(nth).filter(|o| entries[**o].row.level == value).copied()
            {
                children.extend(siblings(entries, &entries[other].children));
                nth += 1;
            }
            self.visit(entries, children, tied);
        }
    }
}

/// `F = 2^(-U_E/S/d)` down the tree: `share` and `above` are the parent's normalised shares and
/// effective use at the scale of [`UNIT`].
fn classic(
    entries: &mut [Entry],
    level: &[usize],
    share: u128,
    above: u128,
    damping: u128,
    total: u64,
) {
    let shares = sum(level.iter().map(|at| raw(&entries[*at])));
    for at in level {
        let at = *at;
        let entry = &mut entries[at];
        let actual = ratio128(entry.used, total);
        let (own_share, effective) = match entry.row.shares {
            Shares::Parent => (share, above),
            Shares::Of(own) => {
                let part = ratio128(u64::from(own), shares);
                // For the accounts just under the root it is what was used.
                let effective = match entry.parent {
                    None => actual,
                    Some(_) => {
                        actual + ((above.saturating_sub(actual)) >> 20) * (part >> 20) / (1 << 20)
                    }
                };
                ((share >> 20) * (part >> 20) / (1 << 20), effective)
            }
        };
        entry.row.norm_shares = scaled(own_share);
        entry.row.effective_usage = scaled(effective);
        let denominator = (own_share >> 10) * damping;
        entry.row.level = match denominator {
            0 => 0,
            _ if effective == 0 => ShareRow::INFINITE,
            _ => u64::try_from(own_share * u128::from(WHOLE) / effective)
                .unwrap_or(u64::MAX)
                .min(ShareRow::INFINITE - 1),
        };
        let power = half_to(effective >> 10, denominator);
        entry.row.factor = ((u128::from(power) * u128::from(WHOLE)) >> 62) as u64;
        let children = entries[at].children.clone();
        classic(entries, &children, own_share, effective, damping, total);
    }
}

fn scaled(part: u128) -> u64 {
    u64::try_from(part * u128::from(WHOLE) / UNIT).unwrap_or(u64::MAX)
}
