//! Whether Slurm does what it was told: which jobs started, where, and which do not. Time comes in
//! as a value.

use crate::Happened;
use muster_engine_slurm::read::{Cluster, JobRecord, JobStanding, Target};
use muster_model::{Seconds, Timestamp};
use muster_slurm_syntax::hostlist;
use std::collections::{BTreeMap, BTreeSet};

/// Slurm starts a released job in one of its next passes, seconds later.
const PATIENCE: Seconds = Seconds(30);

/// Heterogeneous jobs are started by backfill only, by default each 30 seconds.
const PATIENCE_HETEROGENEOUS: Seconds = Seconds(90);

/// One that did not start is let be for so long, then twice as long, and so on.
const BARRED: Seconds = Seconds(60);
const BARRED_MOST: Seconds = Seconds(1800);

/// What is known of the jobs that were released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    sent: BTreeMap<String, Sent>,
    barred: BTreeMap<String, Barred>,
    /// Arrays that were released as one record: of their tasks is told as they start.
    whole: BTreeSet<u32>,
    /// What had resources at the last look.
    holding: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Sent {
    nodes: BTreeSet<String>,
    until: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Barred {
    until: Timestamp,
    times: u32,
}

impl Watch {
    /// A job was released.
    pub(crate) fn sent(&mut self, target: &Target, nodes: &BTreeSet<String>, now: Timestamp) {
        let patience = if target.heterogeneous { PATIENCE_HETEROGENEOUS } else { PATIENCE };
        let sent = Sent { nodes: nodes.clone(), until: now.plus(patience) };
        if let Some(rest) = target.rest.as_ref().filter(|rest| rest.name == target.name) {
            self.whole.insert(rest.array);
            self.sent.insert(target.record(), sent);
        } else {
            self.sent.insert(target.name.clone(), sent);
        }
    }

    /// A job was taken back.
    pub(crate) fn taken_back(&mut self, target: &Target) {
        self.sent.remove(&target.record());
    }

    /// Jobs that are not to be planned now.
    pub(crate) fn barred(&self, now: Timestamp) -> BTreeSet<String> {
        let barred = self.barred.iter().filter(|(_, barred)| barred.until > now);
        barred.map(|(name, _)| name.clone()).collect()
    }

    /// Compares what was told with what is.
    pub(crate) fn look(&mut self, cluster: &Cluster) -> Vec<Happened> {
        let now = cluster.now;
        let mut happened = Vec::new();
        let mut there = BTreeSet::new();
        let mut holding = BTreeSet::new();
        let mut arrays = BTreeSet::new();
        for job in &cluster.jobs {
            let name = job.name();
            let whole = job.array().filter(|array| self.whole.contains(array));
            let known = self.holding.contains(&name) || self.sent.contains_key(&name);
            if whole.is_some() && !known && job.standing() == JobStanding::Holding {
                happened.push(started(job, &BTreeSet::new()));
            }
            match job.standing() {
                JobStanding::Holding => drop(holding.insert(name.clone())),
                JobStanding::Waiting => arrays.extend(whole),
                JobStanding::Over => {}
            }
            let Some(sent) = self.sent.get_mut(&name) else {
                there.insert(name);
                continue;
            };
            match job.standing() {
                JobStanding::Waiting if sent.until > now => {}
                // One that was released ahead waits for its turn.
                JobStanding::Waiting if sent.nodes.is_empty() && !job.waits_by_a_rule() => {
                    sent.until = now.plus(PATIENCE);
                }
                JobStanding::Waiting => {
                    let why = job.slurm_reason().unwrap_or("None").to_owned();
                    let times = self.barred.get(&name).map_or(0, |barred| barred.times) + 1;
                    let wait = Seconds(BARRED.0 << (times - 1).min(10)).min(BARRED_MOST);
                    self.barred.insert(name.clone(), Barred { until: now.plus(wait), times });
                    self.sent.remove(&name);
                    happened.push(Happened::NotStarted { job: name.clone(), why });
                }
                JobStanding::Holding => {
                    happened.push(started(job, &sent.nodes));
                    self.sent.remove(&name);
                    self.barred.remove(&name);
                }
                JobStanding::Over => {
                    self.sent.remove(&name);
                }
            }
            there.insert(name);
        }
        // A task that was not split off yet has no record of its own name.
        let gone = |name: &String| !there.contains(name) && !name.contains('_');
        self.sent.retain(|name, sent| !gone(name) && (there.contains(name) || sent.until > now));
        self.barred
            .retain(|name, barred| !gone(name) && (there.contains(name) || barred.until > now));
        self.holding = holding;
        self.whole = arrays;
        happened
    }
}

fn nodes_of(job: &JobRecord) -> BTreeSet<String> {
    let nodes = hostlist::expand(&job.nodes(), hostlist::HOSTS_MAX);
    nodes.unwrap_or_default().into_iter().collect()
}

fn started(job: &JobRecord, meant: &BTreeSet<String>) -> Happened {
    let list = |names: &BTreeSet<String>| hostlist::fold(&names.iter().collect::<Vec<_>>());
    let (name, nodes) = (job.name(), nodes_of(job));
    // One that is ending already is told with those of its nodes that are not done yet.
    let ending = job.is("COMPLETING") && nodes.is_subset(meant);
    if ending || nodes == *meant {
        Happened::Started { job: name, nodes: list(meant) }
    } else if meant.is_empty() {
        Happened::Started { job: name, nodes: list(&nodes) }
    } else {
        Happened::Elsewhere { job: name, nodes: list(&nodes), meant: list(meant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{cluster, waiting};

    fn target(name: &str) -> Target {
        Target {
            name: name.to_owned(),
            partition: "p".to_owned(),
            user: "ada".to_owned(),
            priority: 0,
            mark: muster_engine_slurm::read::Mark::default(),
            marked: true,
            required: BTreeSet::new(),
            released: true,
            held: false,
            all: name.to_owned(),
            ahead: false,
            placed: true,
            rest: None,
            leads: false,
            heterogeneous: false,
            word: "Licenses".to_owned(),
        }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn nodes() -> BTreeSet<String> {
        BTreeSet::from(["n1".to_owned()])
    }

    #[test]
    fn a_job_that_starts_is_told_with_where_it_was_meant_to_be() {
        let running = |nodes: &str| {
            format!(r#"{{"job_id":5,"job_state":"RUNNING","partition":"p","nodes":"{nodes}"}}"#)
        };
        let mut watch = Watch::default();
        watch.sent(&target("5"), &nodes(), at(1000));
        let happened = watch.clone().look(&cluster(&running("n1"), 1001));
        assert_eq!(happened, [Happened::Started { job: "5".to_owned(), nodes: "n1".to_owned() }]);
        let happened = watch.look(&cluster(&running("n2"), 1001));
        assert!(matches!(&happened[..], [Happened::Elsewhere { .. }]), "{happened:?}");
        assert_eq!(watch.look(&cluster(&running("n2"), 1002)), []);
    }

    /// Of a job that its user cancels while it starts, Slurm tells the nodes that are not done yet.
    #[test]
    fn a_job_that_ends_as_it_starts_started_where_it_was_meant_to() {
        let both = BTreeSet::from(["n1".to_owned(), "n2".to_owned()]);
        let mut watch = Watch::default();
        watch.sent(&target("5"), &both, at(1000));
        let ending = |nodes: &str| {
            format!(r#"{{"job_id":5,"job_state":"COMPLETING","partition":"p","nodes":"{nodes}"}}"#)
        };
        let told = watch.clone().look(&cluster(&ending("n2"), 1001));
        assert_eq!(told, [Happened::Started { job: "5".to_owned(), nodes: "n[1-2]".to_owned() }]);
        let told = watch.look(&cluster(&ending("n3"), 1001));
        assert!(matches!(&told[..], [Happened::Elsewhere { .. }]), "{told:?}");
    }

    #[test]
    fn one_that_does_not_start_is_let_be_for_longer_each_time() {
        let mut watch = Watch::default();
        let held = waiting(5, r#","state_reason":"Licenses""#);
        let mut now = 1000;
        for wait in [60, 120, 240] {
            watch.sent(&target("5"), &nodes(), at(now));
            assert_eq!(watch.look(&cluster(&held, now + 29)), []);
            now += 30;
            let happened = watch.look(&cluster(&held, now));
            let why = "Licenses".to_owned();
            assert_eq!(happened, [Happened::NotStarted { job: "5".to_owned(), why }]);
            assert_eq!(watch.barred(at(now + wait - 1)).len(), 1);
            now += wait;
            assert!(watch.barred(at(now)).is_empty());
        }
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut watch = Watch::default();
        watch.sent(&target("5"), &nodes(), at(1000));
        assert_eq!(watch.look(&cluster("", 1001)), []);
        assert!(watch.sent.is_empty());
    }
}
