//! What is done to a state, written as the commands that do it.

use crate::text::Word;
use muster_model::{Availability, EventKind, Hold, JobUpdate, State, TimeLimit};

/// A line of words, with quotes where they are needed.
pub(crate) fn line(words: &[Word]) -> String {
    let quoted = |word: &Word| match word.text.contains(char::is_whitespace) {
        true => format!("\"{}\"", word.text),
        false => word.text.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The command that an event stands for, as a line of a scenario; a comment where there is none.
pub(crate) fn event(state: &State, kind: &EventKind) -> String {
    match command(state, kind) {
        Some(command) => format!("> {command}"),
        None => {
            // A comment is one line, and a hint at what it was is enough.
            let what: String = format!("{kind:?}").chars().take(200).collect();
            format!("# no command does this: {}", what.replace('\n', " "))
        }
    }
}

fn command(state: &State, kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::JobHeld { job, hold: Hold::User } => format!("hold {job}"),
        EventKind::JobHeld { job, hold: Hold::Admin } => format!("hold-admin {job}"),
        EventKind::JobReleased { job } => format!("release {job}"),
        EventKind::JobSuspend { job, suspend: true } => format!("suspend {job}"),
        EventKind::JobSuspend { job, suspend: false } => format!("resume-job {job}"),
        EventKind::JobUpdated { job, update: change } => {
            format!("update {job} {}", update(change)?)
        }
        EventKind::NodeDrain { node, drain: Some(_) } => {
            format!("drain {}", state.node_name(*node))
        }
        EventKind::NodeDrain { node, drain: None } => format!("resume {}", state.node_name(*node)),
        EventKind::NodeAvailability { node, availability: Availability::Up } => {
            format!("up {}", state.node_name(*node))
        }
        EventKind::NodeAvailability { node, .. } => format!("down {}", state.node_name(*node)),
        EventKind::NodeForeign { node, foreign } => {
            let of = |u: &muster_model::ForeignUse| match u.device {
                Some(device) => format!(" gpu={device}:{}M", u.memory.0),
                None => format!(" mem={}M", u.memory.0),
            };
            format!(
                "foreign {}{}",
                state.node_name(*node),
                foreign.iter().map(of).collect::<String>()
            )
        }
        EventKind::ReservationRemoved { name } => format!("unreserve {name}"),
        _ => return None,
    })
}

fn update(change: &JobUpdate) -> Option<String> {
    let JobUpdate { time_limit, array_throttle, .. } = change;
    let limit = match time_limit {
        None => None,
        Some(TimeLimit::Unlimited) => Some("time=unlimited".to_owned()),
        Some(TimeLimit::Of(s)) if s.0 % 60 == 0 => Some(format!("time={}", s.0 / 60)),
        Some(TimeLimit::Of(_)) => return None,
    };
    let throttle = array_throttle.map(|n| format!("throttle={}", n.unwrap_or(0)));
    let said = JobUpdate {
        time_limit: *time_limit,
        array_throttle: *array_throttle,
        ..JobUpdate::default()
    };
    let words: Vec<String> = limit.into_iter().chain(throttle).collect();
    (*change == said && !words.is_empty()).then(|| words.join(" "))
}
