//! What the scheduler does, in numbers: under kube-scheduler's names where the meaning is the same,
//! so that dashboards and alerts for it work here.

use crate::run::Happened;
use muster_model::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::fmt;
use std::time::Duration;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Result {
    Scheduled,
    Unschedulable,
    Error,
}

impl EncodeLabelValue for Result {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        let word = match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        };
        word.encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    result: Result,
    profile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: String,
}

/// The numbers of one scheduler.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    profile: String,
    attempts: Family<Attempt, Counter>,
    sli: Histogram,
    algorithm: Histogram,
    binding: Histogram,
    preemptions: Counter,
    victims: Histogram,
    pending: Family<Queue, Gauge>,
    leader: Gauge,
    nodes: Gauge,
    broken: Counter,
}

impl Metrics {
    /// Numbers of the scheduler of this name.
    pub fn new(name: &str) -> Self {
        // As kube-scheduler's: from a millisecond to about a minute, and for whole waits to three
        // hours.
        let short = || Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let sli = Histogram::new(exponential_buckets(0.01, 2.0, 20));
        let mut metrics = Self {
            registry: Registry::default(),
            profile: name.to_owned(),
            attempts: Family::default(),
            sli,
            algorithm: short(),
            binding: short(),
            preemptions: Counter::default(),
            victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            pending: Family::default(),
            leader: Gauge::default(),
            nodes: Gauge::default(),
            broken: Counter::default(),
        };
        metrics.register(name);
        metrics
    }

    fn register(&mut self, name: &str) {
        let registry = &mut self.registry;
        let said =
            "Attempts to schedule pods, by result: scheduled, unschedulable (told why), error";
        registry.register("scheduler_schedule_attempts", said, self.attempts.clone());
        let said = "From a pod's making to its binding";
        registry.register("scheduler_pod_scheduling_sli_duration_seconds", said, self.sli.clone());
        let said = "Planning, a turn with all pods that it looks at";
        let algorithm = "scheduler_scheduling_algorithm_duration_seconds";
        registry.register(algorithm, said, self.algorithm.clone());
        let said = "From the decision on a pod to the API server's answer";
        registry.register("muster_binding_duration_seconds", said, self.binding.clone());
        let said = "Times that room was made for pods of higher priority";
        registry.register("scheduler_preemption_attempts", said, self.preemptions.clone());
        let said = "Pods that made room at one time";
        registry.register("scheduler_preemption_victims", said, self.victims.clone());
        let said = "Pods that wait: active ones, those that were told why, those with gates";
        registry.register("scheduler_pending_pods", said, self.pending.clone());
        let leader: Family<Name, Gauge<i64>> = Family::default();
        self.leader = leader.get_or_create(&Name { name: name.to_owned() }).clone();
        let said = "1 where this one holds the lease and schedules, 0 where it stands by";
        registry.register("leader_election_master_status", said, leader);
        let said = "Nodes that are known";
        registry.register("muster_nodes", said, self.nodes.clone());
        let said = "Starts that were left out because a recount of the plan found a rule broken";
        registry.register("muster_plan_rules_broken", said, self.broken.clone());
    }

    fn attempt(&self, result: Result) {
        let attempt = Attempt { result, profile: self.profile.clone() };
        self.attempts.get_or_create(&attempt).inc();
    }

    /// Takes in what happened.
    pub fn see(&self, happened: &Happened, now: Timestamp) {
        match happened {
            Happened::Leads => drop(self.leader.set(1)),
            Happened::Knows { nodes, .. } => drop(self.nodes.set(count(*nodes))),
            Happened::Planned(took) => self.algorithm.observe(took.as_secs_f64()),
            Happened::Looked(seen) => {
                self.nodes.set(count(seen.nodes));
                let queues = [
                    ("active", seen.active),
                    ("unschedulable", seen.unschedulable),
                    ("gated", seen.gated),
                ];
                for (queue, pods) in queues {
                    self.pending.get_or_create(&Queue { queue }).set(count(pods));
                }
            }
            Happened::Bound(bind, took) => {
                self.attempt(Result::Scheduled);
                self.sli.observe(seconds(now.ms_since(bind.created)));
                self.binding.observe(took.as_secs_f64());
            }
            Happened::NotBound(..) => self.attempt(Result::Error),
            Happened::MakesRoom { pods, victims } => {
                self.preemptions.inc_by(*pods as u64);
                self.victims.observe(u32::try_from(*victims).unwrap_or(u32::MAX).into());
            }
            Happened::Evicted(_) | Happened::NotEvicted(..) => {}
            Happened::Told(_) => self.attempt(Result::Unschedulable),
            Happened::Broken(rules) => drop(self.broken.inc_by(rules.len() as u64)),
        }
    }

    /// All of them as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut all = String::new();
        // Writing to a text does not fail.
        let _ = text::encode(&mut all, &self.registry);
        all
    }
}

fn count(many: usize) -> i64 {
    i64::try_from(many).unwrap_or(i64::MAX)
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::Metrics;
    use crate::run::{Happened, Seen};
    use crate::scheduler::{Bind, Tell};
    use muster_model::{JobId, Timestamp};
    use std::time::Duration;

    #[test]
    fn what_happened_is_counted_under_the_names_of_kube_scheduler() {
        let metrics = Metrics::new("muster");
        let now = Timestamp::from_secs(100);
        let bind = Bind {
            job: JobId(1),
            pod: muster_engine_k8s::read::PodKey::default(),
            uid: String::new(),
            created: Timestamp::from_secs(97),
            node: "n1".to_owned(),
            claims: Vec::new(),
        };
        let tell = Tell { pod: bind.pod.clone(), uid: String::new(), message: String::new() };
        for happened in [
            Happened::Leads,
            Happened::Planned(Duration::from_millis(3)),
            Happened::Bound(bind, Duration::from_millis(20)),
            Happened::MakesRoom { pods: 1, victims: 3 },
            Happened::Told(tell.clone()),
            Happened::Told(tell),
            Happened::Looked(Seen { nodes: 5, active: 1, unschedulable: 2, gated: 3 }),
        ] {
            metrics.see(&happened, now);
        }
        let text = metrics.text();
        for line in [
            "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"muster\"} 1",
            "scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"muster\"} 2",
            "scheduler_pending_pods{queue=\"active\"} 1",
            "scheduler_pending_pods{queue=\"unschedulable\"} 2",
            "scheduler_pending_pods{queue=\"gated\"} 3",
            "scheduler_pod_scheduling_sli_duration_seconds_sum 3.0",
            "scheduler_scheduling_algorithm_duration_seconds_count 1",
            "scheduler_preemption_attempts_total 1",
            "scheduler_preemption_victims_sum 3.0",
            "leader_election_master_status{name=\"muster\"} 1",
            "muster_nodes 5",
            "muster_plan_rules_broken_total 0",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
