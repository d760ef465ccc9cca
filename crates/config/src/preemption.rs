//! Preemption and quotas: the section, and what its values say together.

use crate::Config;
use crate::amount::{Duration, Size};
use crate::check::Say;
use crate::key::section;
use muster_model::{
    PreemptMode, PreemptRules, Preemption, Quota, QuotaAmount, Seconds, VictimOrder,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

section! {
    /// Which running jobs make room for waiting ones, and how.
    one "preemption" PreemptionSection {
        /// How jobs make room where neither their QOS nor their partition says: `off`, `cancel`,
        /// `requeue` (ends where the job may not be requeued), `checkpoint` (signal, grace, then
        /// requeue), `suspend` (keeps memory, GPUs and licences; only CPUs become free).
        mode: PreemptMode = PreemptMode::Off, "word";
        /// Jobs in partitions of a higher tier may preempt those of lower tiers.
        tiers: bool = false, "true or false";
        /// Jobs in a reservation that has begun may preempt those on its nodes that are not in it.
        reservations: bool = false, "true or false";
        /// How jobs on borrowed quota give it back when the owner needs it; `off` is never.
        reclaim: PreemptMode = PreemptMode::Off, "word";
        /// Time between the polite and the final signal; 0 is `kill_wait`.
        grace: Duration = Duration(0), "duration";
        /// Jobs are left alone until they have run so long (Slurm's `PreemptExemptTime`).
        exempt: Duration = Duration(0), "duration";
        /// Which of several sets of jobs makes room: `fewest` jobs, or the `least_lost` work.
        order: VictimOrder = VictimOrder::Fewest, "word";
        /// A planning round looks for room for at most so many waiting jobs.
        depth: u32 = 16, "number";
        /// Elastic jobs get more nodes that nobody can use once they have run so long since they
        /// last started.
        grow_after: Duration = Duration(600), "duration";
    }
}

/// Amounts of a quota; what is not named is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaWords {
    /// CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
}

impl From<&PreemptionSection> for Preemption {
    fn from(section: &PreemptionSection) -> Self {
        Self {
            mode: section.mode,
            tiers: section.tiers,
            // Pods go by these; batch jobs by their QOS, tier or reservation.
            priorities: false,
            reservations: section.reservations,
            reclaim: section.reclaim,
            grace: section.grace.into(),
            exempt: section.exempt.into(),
            order: section.order,
            depth: section.depth,
            grow_after: section.grow_after.into(),
        }
    }
}

impl From<&QuotaWords> for QuotaAmount {
    fn from(words: &QuotaWords) -> Self {
        Self { cpus: words.cpus, gpus: words.gpus, memory: words.memory.map(Into::into) }
    }
}

impl crate::PartitionSection {
    /// How its jobs make room.
    pub fn preempt_rules(&self) -> PreemptRules {
        rules(self.preempt_mode, self.grace, self.preempt_exempt)
    }
}

impl crate::QosSection {
    /// How its jobs make room.
    pub fn preempt_rules(&self) -> PreemptRules {
        rules(self.preempt_mode, self.preempt_grace, self.preempt_exempt)
    }
}

impl crate::AccountSection {
    /// What it can always have.
    pub fn quota(&self) -> Quota {
        Quota { guarantee: self.guarantee.as_ref().map(Into::into) }
    }
}

fn rules(
    mode: Option<PreemptMode>,
    grace: Option<Duration>,
    exempt: Option<Duration>,
) -> PreemptRules {
    let seconds = |d: Option<Duration>| -> Option<Seconds> { d.map(Into::into) };
    PreemptRules { mode, grace: seconds(grace), exempt: seconds(exempt) }
}

/// Contradictions: they are told with their place before anything is taken up.
pub(crate) fn check(config: &Config, say: &mut Say) {
    let policy = &config.preemption;
    shrinks(config, say);
    if policy.reclaim == PreemptMode::Suspend {
        let message = "reclaim cannot suspend: a suspended job keeps its GPUs and memory";
        let hint = Some("use requeue, checkpoint or cancel".to_owned());
        say("preemption", 0, "reclaim", message.to_owned(), hint);
    }
    let partitions_say = config.partition.iter().any(|p| p.preempt_mode.is_some());
    if policy.tiers && policy.mode == PreemptMode::Off && !partitions_say {
        let modes = config.qos.iter().any(|q| q.preempt_mode.is_some());
        if !modes {
            let message = "tiers preempt nobody while mode is off everywhere";
            let hint = Some("set mode, for example to \"requeue\"".to_owned());
            say("preemption", 0, "tiers", message.to_owned(), hint);
        }
    }
    let anyone = partitions_say || config.qos.iter().any(|q| q.preempt_mode.is_some());
    if policy.reservations && policy.mode == PreemptMode::Off && !anyone {
        let message = "reservations preempt nobody while mode is off everywhere";
        let hint = Some("set mode, for example to \"requeue\"".to_owned());
        say("preemption", 0, "reservations", message.to_owned(), hint);
    }
    qos(config, partitions_say, say);
}

/// Giving up nodes is between the planner and jobs that say that they can.
fn shrinks(config: &Config, say: &mut Say) {
    let mut check = |kind: &str, at: usize, key: &str, mode: Option<PreemptMode>| {
        if mode == Some(PreemptMode::Shrink) {
            let message = "shrink is no mode to set: elastic jobs give up nodes by themselves";
            let hint = Some("use off, cancel, requeue, checkpoint or suspend".to_owned());
            say(kind, at, key, message.to_owned(), hint);
        }
    };
    check("preemption", 0, "mode", Some(config.preemption.mode));
    check("preemption", 0, "reclaim", Some(config.preemption.reclaim));
    for (i, partition) in config.partition.iter().enumerate() {
        check("partition", i, "preempt_mode", partition.preempt_mode);
    }
    for (i, qos) in config.qos.iter().enumerate() {
        check("qos", i, "preempt_mode", qos.preempt_mode);
    }
}

fn qos(config: &Config, partitions_say: bool, say: &mut Say) {
    let find = |name: &str| config.qos.iter().find(|q| q.name == name);
    for (i, qos) in config.qos.iter().enumerate() {
        for name in &qos.preempts {
            let Some(victim) = find(name) else {
                let names = config.qos.iter().map(|q| q.name.as_str());
                if name != "normal" {
                    let hint =
                        muster_model::nearest(name, names).map(|n| format!("did you mean {n}?"));
                    say("qos", i, "preempts", format!("there is no qos {name}"), hint);
                }
                continue;
            };
            let mode = victim.preempt_mode.unwrap_or(config.preemption.mode);
            let by_partition = victim.preempt_mode.is_none() && partitions_say;
            if mode == PreemptMode::Off && !by_partition {
                let message = format!("qos {name} is never preempted: its mode is off");
                let hint = Some(format!("set preempt_mode of qos {name}, or [preemption] mode"));
                say("qos", i, "preempts", message, hint);
            }
        }
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = qos.preempts.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            if name == qos.name {
                let message = format!("qos {} could preempt itself in a circle", qos.name);
                say("qos", i, "preempts", message, None);
                break;
            }
            if seen.insert(name) {
                next.extend(find(name).into_iter().flat_map(|q| &q.preempts).map(String::as_str));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let error = Config::parse(text, "m").unwrap_err();
        error.problems.iter().map(|p| p.message.clone()).collect()
    }

    #[test]
    fn the_default_is_the_models() {
        assert_eq!(Preemption::from(&PreemptionSection::default()), Preemption::default());
    }

    #[test]
    fn circles_unknown_names_and_modes_that_do_nothing_are_refused() {
        let two = "[preemption]\nmode = \"requeue\"\n[[qos]]\nname = \"a\"\npreempts = [\"b\"]\n\
                   [[qos]]\nname = \"b\"\npreempts = [\"a\"]\n";
        assert_eq!(problems(two).len(), 2);
        let absent = "[preemption]\nmode = \"cancel\"\n[[qos]]\nname = \"a\"\npreempts = [\"x\"]\n";
        assert_eq!(problems(absent), ["there is no qos x"]);
        let off = "[[qos]]\nname = \"a\"\npreempts = [\"b\"]\n[[qos]]\nname = \"b\"\n";
        assert_eq!(problems(off), ["qos b is never preempted: its mode is off"]);
        let tiers = "[preemption]\ntiers = true\n";
        assert_eq!(problems(tiers), ["tiers preempt nobody while mode is off everywhere"]);
    }

    #[test]
    fn reclaim_does_not_suspend() {
        assert_eq!(problems("[preemption]\nreclaim = \"suspend\"\n").len(), 1);
    }
}
