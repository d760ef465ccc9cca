//! The configuration as a whole: only what differs from the state becomes events.

use super::submit::{DEFAULT_ACCOUNT, DEFAULT_QOS};
use super::{CommandError, Meaning, Principal, Site, admins_only};
use muster_model::{Account, EventKind, Job, Qos, State};
use std::collections::BTreeSet;

/// Takes a configuration. Nodes follow at the next listing of their engines, which comes at once.
pub(super) fn configure(
    state: &State,
    principal: &Principal,
    site: &Site,
) -> Result<Meaning, CommandError> {
    admins_only(principal, "change the configuration")?;
    let mut events = Vec::new();
    if *state.policy != site.policy {
        events.push(EventKind::PolicySet { policy: Box::new(site.policy.clone()) });
    }
    accounts(state, site, &mut events)?;
    if *state.topology != site.topology {
        events.push(EventKind::TopologySet { topology: Box::new(site.topology.clone()) });
    }
    let implied = Qos { name: DEFAULT_QOS.to_owned(), ..Qos::default() };
    let missing = !site.qos.iter().any(|q| q.name == DEFAULT_QOS);
    let wanted: Vec<&Qos> = site.qos.iter().chain(missing.then_some(&implied)).collect();
    for qos in &wanted {
        if state.qos.get(&qos.name).map(AsRef::as_ref) != Some(*qos) {
            events.push(EventKind::QosSet { qos: (*qos).clone() });
        }
    }
    for name in state.qos.keys().filter(|name| !wanted.iter().any(|q| q.name == **name)) {
        if is_free(state, site, "qos", name, |job| job.spec.qos == *name)? {
            events.push(EventKind::QosRemoved { name: name.clone() });
        }
    }
    for licence in &site.licences {
        if state.licences.get(&licence.name).map(|known| known.total) != Some(licence.total) {
            events.push(EventKind::LicenceSet { licence: licence.clone() });
        }
    }
    for name in state.licences.keys().filter(|n| !site.licences.iter().any(|l| l.name == **n)) {
        let names = |job: &Job| job.spec.request.licences.iter().any(|l| l.name == *name);
        if is_free(state, site, "licence", name, names)? {
            events.push(EventKind::LicenceRemoved { name: name.clone() });
        }
    }
    partitions(state, site, &mut events);
    Ok(Meaning::changed(events))
}

/// True where no unfinished job names something that is left out. At a start it may stay; else the
/// configuration is refused.
fn is_free(
    state: &State,
    site: &Site,
    kind: &'static str,
    name: &str,
    names: impl Fn(&Job) -> bool,
) -> Result<bool, CommandError> {
    let unfinished = state.index.pending.iter().chain(&state.index.active);
    let jobs = unfinished.filter(|id| state.jobs.get(*id).is_some_and(|job| names(job))).count();
    if jobs > 0 && !site.starting {
        return Err(CommandError::StillUsed { kind, name: name.to_owned(), jobs });
    }
    Ok(jobs == 0)
}

/// An account that is left out goes; at a start, where unfinished jobs name it, it admits nobody
/// until they have ended and the configuration is taken again.
fn accounts(state: &State, site: &Site, events: &mut Vec<EventKind>) -> Result<(), CommandError> {
    let implied = Account { name: DEFAULT_ACCOUNT.to_owned(), ..Account::default() };
    let missing = !site.accounts.iter().any(|a| a.name == DEFAULT_ACCOUNT);
    let wanted: Vec<&Account> = site.accounts.iter().chain(missing.then_some(&implied)).collect();
    for account in &wanted {
        if state.accounts.get(&account.name).map(AsRef::as_ref) != Some(*account) {
            events.push(EventKind::AccountSet { account: (*account).clone() });
        }
    }
    for old in state.accounts.values() {
        if wanted.iter().any(|a| a.name == old.name) {
            continue;
        }
        if is_free(state, site, "account", &old.name, |job| job.spec.account == old.name)? {
            events.push(EventKind::AccountRemoved { name: old.name.clone() });
        } else if old.users != Some(BTreeSet::new()) {
            let closed = Account {
                users: Some(BTreeSet::new()),
                default_for: BTreeSet::new(),
                ..old.as_ref().clone()
            };
            events.push(EventKind::AccountSet { account: closed });
        }
    }
    Ok(())
}

fn partitions(state: &State, site: &Site, events: &mut Vec<EventKind>) {
    for partition in &site.partitions {
        if state.partitions.get(&partition.name).map(AsRef::as_ref) != Some(partition) {
            events.push(EventKind::PartitionSet { partition: Box::new(partition.clone()) });
        }
    }
    for name in state.partitions.keys() {
        if !site.partitions.iter().any(|p| p.name == *name) {
            events.push(EventKind::PartitionRemoved { name: name.clone() });
        }
    }
}
