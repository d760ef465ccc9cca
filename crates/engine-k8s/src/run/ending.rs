//! How a pod stands, and how an attempt ended by it.

use super::objects::CONTAINER;
use super::seen::PodSeen;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_engine::book::{Attempt, Phase};
use muster_model::{EndCause, ExitReport, ExitStatus, Timestamp};

/// What a container waits for that does not come by itself (the kubelet's reasons).
const STUCK: [&str; 6] = [
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
];

/// What shells and runtimes add to the number of a signal.
const SIGNALLED: i32 = 128;

/// The exit codes of a container whose program could not be started.
const NO_PROGRAM: std::ops::RangeInclusive<i32> = 126..=128;

/// How a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing runs yet.
    Waits,
    /// It runs, or has run, since then.
    Runs(Timestamp),
}

pub(super) fn standing(pod: &PodSeen) -> Standing {
    let state = state(pod);
    let running = state.and_then(|s| s.running.as_ref()?.started_at.as_ref());
    let ended = state.and_then(|s| s.terminated.as_ref()?.started_at.as_ref());
    running.or(ended).map_or(Standing::Waits, |at| Standing::Runs(instant(at)))
}

fn state(pod: &PodSeen) -> Option<&ContainerState> {
    let statuses = pod.status.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == CONTAINER)?.state.as_ref()
}

fn instant(at: &Time) -> Timestamp {
    Timestamp::from_millis(at.0.as_millisecond())
}

/// What holds a pod up for good: its container's, or that of one before it.
fn stuck(pod: &PodSeen) -> Option<String> {
    let own = pod.status.container_statuses.iter().flatten();
    let before = pod.status.init_container_statuses.iter().flatten();
    let waiting = own.chain(before).filter_map(|s| s.state.as_ref()?.waiting.as_ref());
    let mut stuck = waiting.filter(|w| STUCK.contains(&w.reason.as_deref().unwrap_or_default()));
    let found = stuck.next()?;
    let reason = found.reason.clone().unwrap_or_default();
    Some(match &found.message {
        Some(message) => format!("{reason}: {message}"),
        None => reason,
    })
}

/// True where a pod will not begin by itself.
pub(super) fn is_stuck(pod: &PodSeen) -> bool {
    stuck(pod).is_some()
}

/// How an attempt ended by the pod that ran its script: in muster's own words where it wrote any.
pub(super) fn report(attempt: &Attempt, pod: &PodSeen, now: Timestamp) -> ExitReport {
    let ended = state(pod).and_then(|state| state.terminated.as_ref());
    let said = ended.and_then(|ended| serde_json::from_str(ended.message.as_deref()?).ok());
    let mut report: ExitReport = said.unwrap_or_else(|| foreign(attempt, pod, ended, now));
    if report.cause == EndCause::Stopped && !attempt.stopping {
        // Somebody else had the pod end: an eviction, a drain, or the loss of another of its pods.
        report.cause = EndCause::NodeLost;
        report.message = in_words(pod, "its pod was ended by the cluster");
    }
    // Clocks of nodes differ: nothing ends before it began, nor begins before it was asked for.
    report.started = report.started.map(|started| started.max(attempt.accepted).min(now));
    report.ended = report.ended.max(report.started.unwrap_or(attempt.accepted)).min(now);
    report
}

/// The end of a pod in which muster did not get to say anything.
fn foreign(
    attempt: &Attempt,
    pod: &PodSeen,
    ended: Option<&ContainerStateTerminated>,
    now: Timestamp,
) -> ExitReport {
    let started = match (&attempt.phase, ended.and_then(|ended| ended.started_at.as_ref())) {
        (_, Some(at)) => Some(instant(at)),
        (Phase::Running(at), None) => Some(*at),
        _ => None,
    };
    let code = ended.map_or(0, |ended| ended.exit_code);
    let of_container = ended.and_then(|ended| ended.reason.as_deref()).unwrap_or_default();
    let (cause, message) = if attempt.stopping {
        (EndCause::Stopped, String::new())
    } else if of_container == "OOMKilled" {
        (EndCause::OutOfMemory, "the kernel ended it: out of memory".to_owned())
    } else if let Some(why) = stuck(pod) {
        (EndCause::LaunchFailed, why)
    } else if ended.is_some() && NO_PROGRAM.contains(&code) {
        let why = "muster cannot be started in its pod: is it in the image?".to_owned();
        (EndCause::LaunchFailed, why)
    } else {
        (EndCause::NodeLost, in_words(pod, "its pod ended without a word"))
    };
    let status = match code - SIGNALLED {
        signal @ 1..=64 => ExitStatus { code: 0, signal: signal as u8 },
        _ => ExitStatus { code: u8::try_from(code).unwrap_or(u8::MAX), signal: 0 },
    };
    ExitReport { status, started, message, ..ExitReport::never_ran(cause, "", now) }
}

/// What the cluster says of a pod's end, or else this.
fn in_words(pod: &PodSeen, otherwise: &str) -> String {
    let reason = pod.status.reason.as_deref().unwrap_or_default();
    let said = pod.status.message.as_deref().unwrap_or(otherwise);
    format!("{reason} {said}").trim().to_owned()
}
