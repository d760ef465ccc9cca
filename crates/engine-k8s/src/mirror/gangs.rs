//! Pods that start together.
//!
//! Of a gang that needs at least `n` pods those that run count: as many waiting ones as are lacking
//! start together, and none alone. Once `n` run, each further one starts for itself.

use super::{Entry, Mirror};
use crate::read::{GangName, GroupKind, PodKey, PodRecord};
use muster_model::{ApplyError, Timestamp};

/// How a waiting pod was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Not at all.
    None,
    /// For itself.
    Single,
    /// As one of so many, under this name.
    Gang(String, u32),
}

/// A gang's name among the jobs of its namespace.
fn name_of(gang: &GangName) -> String {
    match gang.kind {
        GroupKind::Upstream => gang.name.clone(),
        GroupKind::Coscheduling => format!("{} (coscheduling)", gang.name),
        GroupKind::Volcano => format!("{} (volcano)", gang.name),
        GroupKind::Annotated => format!("{} (annotation)", gang.name),
    }
}

impl Mirror {
    /// How many pods of a gang start together; `None` where that is not known.
    fn least(&self, gang: &GangName, said: Option<u32>) -> Option<u32> {
        match gang.kind {
            GroupKind::Annotated => said,
            _ => self.groups.get(gang).map(|group| group.least),
        }
    }

    /// Under which name the pods of a gang make room together; `None` where each does for itself:
    /// an upstream group that does not say otherwise (KEP-5710).
    pub(super) fn company(&self, gang: &GangName) -> Option<String> {
        let group = self.groups.get(gang);
        let whole = group.and_then(|group| group.whole);
        whole.unwrap_or(gang.kind != GroupKind::Upstream).then(|| name_of(gang))
    }

    /// Members that have room and are in other company than their group says get that right.
    pub(super) fn keep_company(
        &mut self,
        gang: &GangName,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        let company = self.company(gang);
        let members = self.members.get(gang).into_iter().flatten();
        let strays = |key: &&PodKey| {
            let entry = self.entries.get(*key).filter(|entry| entry.record.node.is_some());
            let job = entry.and_then(|entry| self.state.jobs.get(&entry.job?));
            job.is_some_and(|job| job.spec.leaves_with != company)
        };
        let strays: Vec<PodKey> = members.filter(strays).cloned().collect();
        strays.iter().try_for_each(|key| {
            self.end_job(key, now)?;
            self.house(key, now)
        })
    }

    /// The waiting members of a gang are submitted as they have to be now.
    pub(super) fn regroup(&mut self, gang: &GangName, now: Timestamp) -> Result<(), ApplyError> {
        let Some(members) = self.members.get(gang) else { return Ok(()) };
        let has_room = |entry: &Entry| {
            let job = entry.job.and_then(|job| self.state.jobs.get(&job));
            entry.record.node.is_some() || job.is_some_and(|job| !job.is_pending())
        };
        let (mut there, mut waiting, mut said) = (0u32, Vec::new(), None);
        for key in members {
            let Some(entry) = self.entries.get(key) else { continue };
            said = said.max(entry.record.gang.as_ref().and_then(|gang| gang.1));
            if has_room(entry) {
                there += u32::from(!entry.record.leaving);
            } else if self.is_ours(&entry.record) && entry.record.ask.waits.is_none() {
                waiting.push((entry.record.created, key.clone()));
            }
        }
        waiting.sort();
        let least = self.least(gang, said);
        let lacking = least.map_or(u32::MAX, |least| least.saturating_sub(there));
        let together = u32::try_from(waiting.len()).is_ok_and(|n| n >= lacking);
        for (at, (_, key)) in (0u32..).zip(waiting) {
            let part = match lacking {
                0 => Part::Single,
                1 if at == 0 => Part::Single,
                _ if together && at < lacking => Part::Gang(name_of(gang), lacking),
                _ => Part::None,
            };
            self.set_part(&key, part, now)?;
        }
        Ok(())
    }

    fn set_part(&mut self, key: &PodKey, part: Part, now: Timestamp) -> Result<(), ApplyError> {
        if self.entries.get(key).is_none_or(|entry| entry.part == part) {
            return Ok(());
        }
        self.withdraw(key, now)?;
        match part {
            Part::None => Ok(()),
            part => self.submit(key, part, now),
        }
    }

    /// Why a member of a gang is no job yet.
    pub(super) fn gang_text(&self, record: &PodRecord) -> String {
        let Some((gang, said)) = &record.gang else { return String::new() };
        let Some(least) = self.least(gang, *said) else {
            return format!("waiting for pod group \"{}\" to be there", gang.name);
        };
        let there = self.members.get(gang).map_or(0, std::collections::BTreeSet::len);
        if there < least as usize {
            return format!(
                "waiting for pods of gang \"{}\": {there} of at least {least} are there",
                gang.name
            );
        }
        format!("waiting for the first {least} pods of gang \"{}\" to start", gang.name)
    }
}
