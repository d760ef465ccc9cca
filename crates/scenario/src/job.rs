//! Jobs from words: a name, then options named as in sbatch but without the dashes.
//!
//! ```text
//! train nodes=2 tasks=8 cpus-per-task=2 gpus-per-node=2xa100 mem=16G time=60 user=mara
//! ```
//! `time`, `time-min`, `begin` and `deadline` are minutes (`begin` and `deadline` after t=0).

use crate::affinity;
use crate::dependency::dependency;
use crate::error::{Fault, Read, ScenarioError};
use crate::request;
use crate::text::{
    Word, count, count_or_none, duration, fields, instant, limit, list, named, number, range, yes,
};
use muster_model::{ArraySpec, Checkpoint, Elastic, Gang, IndexRanges, JobId, JobSpec, Owner};

/// Users by number, so that a user's name says who they are.
const USERS: [&str; 4] = ["ada", "mara", "oleg", "root"];

const JOB: &[&str] = &[
    "user",
    "account",
    "qos",
    "partition",
    "time",
    "time-min",
    "begin",
    "deadline",
    "hold",
    "nice",
    "priority",
    "no-requeue",
    "never-preempts",
    "leaves-with",
    "ends-within",
    "gang",
    "elastic",
    "checkpoint",
    "kill-on-invalid-dep",
    "array",
    "label",
    "depend",
];

/// A spec from its words. `find` gives the number of a job that they name.
pub(crate) fn spec(words: &[Word], find: &dyn Fn(&str) -> Read<JobId>) -> Read<JobSpec> {
    let (name, rest) = named(words, "a job's name, then its options")?;
    let mut spec = JobSpec {
        name: name.to_owned(),
        owner: owner("ada"),
        account: "default".to_owned(),
        qos: "normal".to_owned(),
        partitions: vec!["main".to_owned()],
        requeue: true,
        cwd: "/".to_owned(),
        ..JobSpec::default()
    };
    fields(rest, |key, value| {
        let known = request::field(&mut spec.request, key, value)?
            || affinity::job_field(&mut spec.request, key, value)?
            || field(&mut spec, key, value, find)?;
        match known {
            true => Ok(()),
            false => Err(ScenarioError::option(
                "a job",
                key,
                &[JOB, request::JOB, affinity::JOB].concat(),
            )),
        }
    })?;
    possible(&spec)?;
    Ok(spec)
}

/// What sbatch refuses too: fewer tasks than nodes.
fn possible(spec: &JobSpec) -> Read<()> {
    let request = &spec.request;
    let least = request.nodes.as_ref().map_or(1, muster_model::NodeCount::least);
    match request.tasks {
        Some(tasks) if tasks < least => {
            let message = format!("{least} nodes cannot share {tasks} tasks");
            Err(ScenarioError::new(Fault::Value, message).hint("ask for more tasks or fewer nodes"))
        }
        _ => Ok(()),
    }
}

fn owner(user: &str) -> Owner {
    let uid = USERS.iter().position(|u| *u == user).map_or(2000, |at| 1000 + at as u32);
    Owner { uid, gid: uid, user: user.to_owned() }
}

fn field(
    spec: &mut JobSpec,
    key: &str,
    value: &str,
    find: &dyn Fn(&str) -> Read<JobId>,
) -> Read<bool> {
    match key {
        "user" => spec.owner = owner(value),
        "account" => value.clone_into(&mut spec.account),
        "qos" => value.clone_into(&mut spec.qos),
        "partition" => spec.partitions = list(value).collect(),
        "time" => spec.time_limit = Some(limit(value)?),
        "time-min" => spec.time_min = limit(value)?.seconds(),
        "begin" => spec.begin = Some(instant(value)?),
        "deadline" => spec.deadline = Some(instant(value)?),
        "hold" => spec.hold = yes(value)?,
        "nice" => spec.nice = number(value)?,
        "priority" => spec.priority = Some(number(value)?),
        "no-requeue" => spec.requeue = !yes(value)?,
        "never-preempts" => spec.never_preempts = yes(value)?,
        "leaves-with" => spec.leaves_with = Some(value.to_owned()),
        "ends-within" => spec.ends_within = Some(duration(value)?),
        "gang" => {
            let (name, size) = value.split_once(':').unwrap_or((value, "2"));
            spec.gang = Some(Gang { name: name.to_owned(), size: count(size)? });
        }
        // `elastic=2-4`, or `elastic=2-4,live` for one that goes on where it loses nodes.
        "elastic" => {
            let (count, live) = match value.strip_suffix(",live") {
                Some(count) => (count, true),
                None => (value, false),
            };
            spec.request.nodes = Some(crate::request::node_count(count)?);
            spec.elastic = if live { Elastic::Live } else { Elastic::Restart };
        }
        // `checkpoint=5`: asked for by SIGUSR1, five minutes before it is told to end.
        "checkpoint" => {
            spec.checkpoint = Some(Checkpoint {
                dir: "/checkpoints".to_owned(),
                signal: Some(10),
                grace: duration(value)?,
                ..Checkpoint::default()
            });
        }
        "kill-on-invalid-dep" => spec.kill_on_invalid_dependency = Some(yes(value)?),
        "array" => spec.array = Some(array(value)?),
        "label" => spec.labels = affinity::labels(value),
        "depend" => spec.dependency = Some(dependency(value, find)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// `0-9,12`.
pub(crate) fn ranges(text: &str) -> Read<IndexRanges> {
    Ok(IndexRanges::from_ranges(text.split(',').map(range).collect::<Read<Vec<_>>>()?))
}

/// `0-9%2`.
fn array(text: &str) -> Read<ArraySpec> {
    let (indices, throttle) = text.split_once('%').map_or((text, None), |(i, t)| (i, Some(t)));
    let throttle = throttle.map(count_or_none).transpose()?.filter(|n| *n > 0);
    Ok(ArraySpec { indices: ranges(indices)?, throttle })
}
