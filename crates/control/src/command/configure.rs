//! The configuration as a whole: only what differs from the state becomes events.

use super::submit::{DEFAULT_ACCOUNT, DEFAULT_QOS};
use super::{CommandError, Meaning, Principal, Site, admins_only};
use muster_model::{Account, EventKind, Qos, State};
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
    accounts(state, site, &mut events);
    let implied = Qos { name: DEFAULT_QOS.to_owned(), ..Qos::default() };
    let missing = !site.qos.iter().any(|q| q.name == DEFAULT_QOS);
    for qos in site.qos.iter().chain(missing.then_some(&implied)) {
        if state.qos.get(&qos.name).map(AsRef::as_ref) != Some(qos) {
            events.push(EventKind::QosSet { qos: qos.clone() });
        }
    }
    for licence in &site.licences {
        if state.licences.get(&licence.name) != Some(licence) {
            events.push(EventKind::LicenceSet { licence: licence.clone() });
        }
    }
    partitions(state, site, &mut events);
    Ok(Meaning::changed(events))
}

/// An account that is no longer configured admits nobody: jobs that name it are still there.
fn accounts(state: &State, site: &Site, events: &mut Vec<EventKind>) {
    let implied = Account { name: DEFAULT_ACCOUNT.to_owned(), ..Account::default() };
    let missing = !site.accounts.iter().any(|a| a.name == DEFAULT_ACCOUNT);
    let wanted: Vec<&Account> = site.accounts.iter().chain(missing.then_some(&implied)).collect();
    for account in &wanted {
        if state.accounts.get(&account.name).map(AsRef::as_ref) != Some(*account) {
            events.push(EventKind::AccountSet { account: (*account).clone() });
        }
    }
    for old in state.accounts.values() {
        if !wanted.iter().any(|a| a.name == old.name) && old.users != Some(BTreeSet::new()) {
            let closed = Account {
                users: Some(BTreeSet::new()),
                default_for: BTreeSet::new(),
                ..old.as_ref().clone()
            };
            events.push(EventKind::AccountSet { account: closed });
        }
    }
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
