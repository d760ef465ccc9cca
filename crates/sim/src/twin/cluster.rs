//! A list of nodes and a list of pods with times as a log that can be replayed: on real nodes, with
//! parts of GPUs, CPUs and memory.

use super::gpus::NodeAsk;
use super::own::LoggedRuns;
use crate::openb;
use crate::trace::{OpenbNode, OpenbPod, OpenbRun};
use muster_model::{Event, EventKind, JobId, JobSpec, Mib, Policy, Seconds, TimeLimit, Timestamp};
use std::sync::Arc;

/// Begins the count of jobs.
const FIRST: u32 = 1;

/// What a cluster went through, as muster's own log would have it.
pub struct ClusterLog {
    /// Nodes and submissions, in order.
    pub events: Vec<Event>,
    /// How long jobs run.
    pub runs: LoggedRuns,
}

/// Makes a log of lists. Pods ask for the time that they ran, since the lists do not say more; they come
/// `faster` times as fast as in the trace. The policy is told what pods typically ask for.
pub fn cluster_log(
    nodes: &[OpenbNode],
    pods: &[OpenbRun],
    policy: Policy,
    faster: f64,
) -> ClusterLog {
    let devices = openb::typical(pods.iter().map(|one| &one.pod));
    let policy = Policy { devices, ..policy };
    let begin = Timestamp::from_secs(0);
    let mut runs = LoggedRuns::default();
    let mut events: Vec<Event> =
        openb::cluster(nodes, policy).into_iter().map(|kind| Event { at: begin, kind }).collect();
    for (id, one) in (FIRST..).zip(pods) {
        let at = Timestamp::from_millis((one.submit as f64 * 1000.0 / faster).round() as i64);
        let limit = TimeLimit::Of(Seconds(u64::try_from(one.run.max(1)).unwrap_or(1)));
        let spec = JobSpec { time_limit: Some(limit), ..openb::job_of(&one.pod) };
        let kind = EventKind::JobSubmitted { first: JobId(id), specs: vec![Arc::new(spec)] };
        events.push(Event { at, kind });
        runs.add_run(JobId(id), u64::try_from(one.run).unwrap_or(0).saturating_mul(1000));
        runs.add_ask(ask_of(&one.pod));
    }
    for event in &events {
        runs.add(event);
    }
    ClusterLog { events, runs }
}

fn ask_of(pod: &OpenbPod) -> Option<NodeAsk> {
    let (gpus, milli, cpus) = (pod.gpus, pod.gpu_milli, pod.cpu_milli.max(1));
    (gpus > 0).then_some(NodeAsk { gpus, milli, cpus, memory: Mib(pod.memory_mib) })
}
