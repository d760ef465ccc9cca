//! Changes to jobs: Slurm's texts to what the writer takes.

use crate::http::error::Refusal;
use hyper::StatusCode;
use jiff::tz::TimeZone;
use muster_api::{ApiError, JobPatch, Place, Problem};
use muster_control::command::JobChange;
use muster_model::{Request, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::problem::Problem as Found;
use muster_slurm_syntax::submission::Context;
use muster_slurm_syntax::{change, dependency, duration, when};

/// Reads the texts of a change. `limit` is the job's limit in force, for `+30` and `-30`.
///
/// # Errors
/// Everything that is wrong with it, each with the field's name.
pub(crate) fn read(
    patch: &JobPatch,
    limit: TimeLimit,
    now: Timestamp,
    zone: &TimeZone,
) -> Result<JobChange, Refusal> {
    let mut problems = Vec::new();
    let mut change = JobChange {
        name: patch.name.clone(),
        account: patch.account.clone(),
        qos: patch.qos.clone(),
        nice: patch.nice,
        site_factor: patch.site_factor,
        priority: patch.priority.map(Some),
        requeue: patch.requeue,
        comment: patch.comment.clone(),
        array_throttle: patch.array_throttle.map(|n| Some(n).filter(|n| *n > 0)),
        partitions: patch.partition.as_ref().map(|t| comma_list(t)),
        ..JobChange::default()
    };
    let mut read = Reader { problems: &mut problems };
    change.time_limit =
        read.field("TimeLimit", patch.time_limit.as_ref(), |t| time_limit(t, limit));
    change.time_min = read.field("TimeMin", patch.time_min.as_ref(), |text| {
        Ok(duration::parse_limit(text)?.seconds())
    });
    change.dependency = read.field("Dependency", patch.dependency.as_ref(), dependency::parse);
    change.begin = read.field("StartTime", patch.begin.as_ref(), |text| {
        optional(text, |text| when::parse(text, now, zone))
    });
    change.deadline = read.field("Deadline", patch.deadline.as_ref(), |text| {
        optional(text, |text| when::parse(text, now, zone))
    });
    if patch.output.is_some() {
        problems.push(problem("StdOut", "cannot be changed after the submission", None));
    }
    if problems.is_empty() {
        return Ok(change);
    }
    let error = Box::new(ApiError::of_problems(problems));
    Err(Refusal { status: StatusCode::UNPROCESSABLE_ENTITY, error })
}

/// The options that a change of the request is made of, whichever way it was written.
pub(crate) fn options(patch: &JobPatch) -> Vec<String> {
    // `(null)` is how Slurm shows, and takes, nothing.
    let word = |name: &str, text: &String| {
        format!("--{name}={}", Some(text.as_str()).filter(|text| *text != "(null)").unwrap_or(""))
    };
    let number = |n: &Option<u32>| n.as_ref().map(ToString::to_string);
    let fields = [
        ("nodes", patch.nodes.clone()),
        ("ntasks", number(&patch.tasks)),
        ("cpus-per-task", number(&patch.cpus_per_task)),
        ("mem", patch.memory_per_node.clone()),
        ("mem-per-cpu", patch.memory_per_cpu.clone()),
        ("gres", patch.gres.clone()),
        ("constraint", patch.features.clone()),
        ("nodelist", patch.node_list.clone()),
        ("exclude", patch.exclude.clone()),
        ("licenses", patch.licences.clone()),
    ];
    let given = fields.iter().filter_map(|(name, text)| Some(word(name, text.as_ref()?)));
    given.chain(patch.options.iter().cloned()).collect()
}

/// The request that these options make of another.
///
/// # Errors
/// Everything that is wrong with them, each with its option.
pub(crate) fn request(
    old: &Request,
    options: &[String],
    now: Timestamp,
) -> Result<Box<(Request, Request)>, Refusal> {
    let new = change::request(old, options, &Context::at(now)).map_err(|found| {
        let problems = found.iter().map(|wrong| Problem {
            code: wrong.code.to_string(),
            message: wrong.what.clone(),
            place: wrong.option.as_ref().map(|option| Place {
                source: option.clone(),
                line: None,
                column: None,
            }),
            hint: wrong.hints.first().cloned(),
        });
        let error = Box::new(ApiError::of_problems(problems.collect()));
        Refusal { status: StatusCode::UNPROCESSABLE_ENTITY, error }
    })?;
    Ok(Box::new((old.clone(), new)))
}

struct Reader<'a> {
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn field<T>(
        &mut self,
        name: &str,
        text: Option<&String>,
        parse: impl FnOnce(&str) -> Result<T, Found>,
    ) -> Option<T> {
        match parse(text?) {
            Ok(value) => Some(value),
            Err(found) => {
                let mut wrong = problem(name, &found.what, found.hints.first().cloned());
                wrong.code = found.code.to_string();
                self.problems.push(wrong);
                None
            }
        }
    }
}

fn problem(field: &str, what: &str, hint: Option<String>) -> Problem {
    Problem {
        code: "E_FIELD_FIXED".to_owned(),
        message: what.to_owned(),
        place: Some(Place { source: field.to_owned(), line: None, column: None }),
        hint,
    }
}

fn comma_list(text: &str) -> Vec<String> {
    text.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect()
}

fn optional<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, Found>,
) -> Result<Option<T>, Found> {
    if text.is_empty() || text == "(null)" { Ok(None) } else { parse(text).map(Some) }
}

/// A limit, or a change of the one in force with a sign in front (scontrol manual, `TimeLimit`).
fn time_limit(text: &str, now: TimeLimit) -> Result<TimeLimit, Found> {
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => return duration::parse_limit(text),
    };
    let (TimeLimit::Of(change), TimeLimit::Of(now)) = (duration::parse_limit(rest)?, now) else {
        return Ok(TimeLimit::Unlimited);
    };
    let seconds =
        if sign > 0 { now.0.saturating_add(change.0) } else { now.0.saturating_sub(change.0) };
    Ok(TimeLimit::Of(Seconds(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_changes_the_limit_in_force() {
        let hour = TimeLimit::Of(Seconds(3600));
        let limit = |text: &str| time_limit(text, hour).unwrap();
        assert_eq!(limit("+30"), TimeLimit::Of(Seconds(5400)));
        assert_eq!(limit("-30"), TimeLimit::Of(Seconds(1800)));
        assert_eq!(limit("UNLIMITED"), TimeLimit::Unlimited);
    }

    #[test]
    fn every_wrong_field_is_told() {
        let patch = JobPatch {
            time_limit: Some("soon".to_owned()),
            dependency: Some("afterok:x".to_owned()),
            output: Some("out".to_owned()),
            ..JobPatch::default()
        };
        let refusal = read(&patch, TimeLimit::Unlimited, Timestamp::from_secs(0), &TimeZone::UTC)
            .unwrap_err();
        assert_eq!(refusal.error.problems.len(), 3, "{}", refusal.error);
    }
}
