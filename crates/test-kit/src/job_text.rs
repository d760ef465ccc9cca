//! Jobs from a line of text: a name, then options named as in sbatch but without the dashes.
//!
//! ```text
//! train nodes=2 tasks=8 cpus-per-task=2 gpus-per-node=2xa100 mem=16G time=60 user=mara
//! ```
//! `time`, `time-min`, `begin` and `deadline` are minutes (`begin` and `deadline` after t=0).

use crate::fixture::minutes;
use crate::text::{field, memory, names, number, words};
use muster_model::amount::DeviceMilli;
use muster_model::sharing::GpuShare;
use muster_model::{
    ArraySpec, Checkpoint, Constraint, Dependency, DependencyKind, DependencyTarget,
    DependencyTerm, Exclusive, Gang, GpuCount, GpuScope, IndexRanges, JobId, JobSpec, Joiner,
    LicenceRequest, MemoryRequest, NodeCount, Owner, Seconds, Segments, SwitchWish, Timestamp,
};

/// Users by number, so that a user's name says who they are.
const USERS: [&str; 4] = ["ada", "mara", "oleg", "root"];

/// A spec from its line. `find` gives the number of a job that the line names.
pub fn spec(line: &str, find: &dyn Fn(&str) -> JobId) -> JobSpec {
    let words = words(line);
    let (name, fields) = words.split_first().unwrap_or_else(|| panic!("a job needs a name"));
    let mut spec = JobSpec {
        name: name.clone(),
        owner: owner("ada"),
        account: "default".to_owned(),
        qos: "normal".to_owned(),
        partitions: vec!["main".to_owned()],
        requeue: true,
        cwd: "/".to_owned(),
        ..JobSpec::default()
    };
    for (key, value) in fields.iter().map(|w| field(w)) {
        if !request_field(&mut spec, key, value)
            && !crate::affinity_text::job_field(&mut spec.request, key, value)
        {
            spec_field(&mut spec, key, value, find);
        }
    }
    spec
}

fn owner(user: &str) -> Owner {
    let uid = USERS.iter().position(|u| *u == user).map_or(2000, |at| 1000 + at as u32);
    Owner { uid, gid: uid, user: user.to_owned() }
}

fn spec_field(spec: &mut JobSpec, key: &str, value: &str, find: &dyn Fn(&str) -> JobId) {
    let instant = |text: &str| Timestamp::from_secs(number::<i64>(text) * 60);
    match key {
        "user" => spec.owner = owner(value),
        "account" => value.clone_into(&mut spec.account),
        "qos" => value.clone_into(&mut spec.qos),
        "partition" => spec.partitions = value.split(',').map(str::to_owned).collect(),
        "time" => spec.time_limit = Some(minutes(value)),
        "time-min" => spec.time_min = minutes(value).seconds(),
        "begin" => spec.begin = Some(instant(value)),
        "deadline" => spec.deadline = Some(instant(value)),
        "hold" => spec.hold = true,
        "nice" => spec.nice = number(value),
        "priority" => spec.priority = Some(number(value)),
        "no-requeue" => spec.requeue = false,
        "gang" => {
            let (name, size) = value.split_once(':').unwrap_or((value, "2"));
            spec.gang = Some(Gang { name: name.to_owned(), size: number(size) });
        }
        // `checkpoint=5`: asked for by SIGUSR1, five minutes before it is told to end.
        "checkpoint" => {
            spec.checkpoint = Some(Checkpoint {
                dir: "/checkpoints".to_owned(),
                signal: Some(10),
                grace: Seconds::minutes(number(value)),
                ..Checkpoint::default()
            });
        }
        "kill-on-invalid-dep" => spec.kill_on_invalid_dependency = Some(value == "yes"),
        "array" => spec.array = Some(array(value)),
        "label" => spec.labels = crate::affinity_text::labels(value),
        "depend" => spec.dependency = Some(dependency(value, find)),
        _ => panic!("a job has no {key:?}"),
    }
}

fn request_field(spec: &mut JobSpec, key: &str, value: &str) -> bool {
    let request = &mut spec.request;
    let gpus = |scope: GpuScope| -> Vec<GpuCount> {
        let group = |text: &str| {
            let (count, model) = text.split_once('x').map_or((text, None), |(c, m)| (c, Some(m)));
            GpuCount { model: model.map(str::to_owned), count: number(count), scope }
        };
        // `1x1g.10gb+me` is one group.
        let value = value.replace("gb+me", "gb~me");
        value.split('+').map(|text| group(&text.replace('~', "+"))).collect()
    };
    match key {
        "nodes" => request.nodes = Some(node_count(value)),
        "tasks" => request.tasks = Some(number(value)),
        "tasks-per-node" => request.tasks_per_node = Some(number(value)),
        "tasks-per-gpu" => request.tasks_per_gpu = Some(number(value)),
        "tasks-per-socket" => request.tasks_per_socket = Some(number(value)),
        "tasks-per-core" => request.tasks_per_core = Some(number(value)),
        "cpus-per-task" | "cpus" => request.cpus_per_task = Some(number(value)),
        "cpus-per-gpu" => request.cpus_per_gpu = Some(number(value)),
        "mincpus" => request.cpus_per_node_min = Some(number(value)),
        "mem" if value == "0" => request.memory = MemoryRequest::WholeNode,
        "mem" => request.memory = MemoryRequest::PerNode(memory(value)),
        "mem-per-cpu" => request.memory = MemoryRequest::PerCpu(memory(value)),
        "mem-per-gpu" => request.memory = MemoryRequest::PerGpu(memory(value)),
        "scratch" => request.scratch = memory(value),
        "gpus" => request.gpus.extend(gpus(GpuScope::Job)),
        "gpus-per-node" => request.gpus.extend(gpus(GpuScope::Node)),
        "gpus-per-task" => request.gpus.extend(gpus(GpuScope::Task)),
        "gpus-per-socket" => request.gpus.extend(gpus(GpuScope::Socket)),
        "gpu-memory" => request.gpu_memory = Some(memory(value)),
        // Thousandths, or `0.25`.
        "gpu-share" => request.gpu_share = Some(GpuShare::Milli(milli(value))),
        "shards" => request.gpu_share = Some(GpuShare::Pieces(number(value))),
        "gpu-isolation" => {
            request.gpu_isolation = Some(value.parse().unwrap_or_else(|e| panic!("{e}")));
        }
        "sockets" => request.sockets_per_node = Some(number(value)),
        "enforce-binding" => request.cpus_near_gpus = true,
        "gres" => {
            for (name, count) in value.split(',').filter_map(|g| g.split_once(':')) {
                request.gres.insert(name.to_owned(), number(count));
            }
        }
        "constraint" => request.constraint = Some(constraint(value)),
        "nodelist" => request.node_list = names(value).into_iter().collect(),
        "exclude" => request.exclude = names(value).into_iter().collect(),
        "exclusive" if value == "user" => request.exclusive = Exclusive::User,
        "exclusive" => request.exclusive = Exclusive::Node,
        "contiguous" => request.contiguous = true,
        // `switches=1` or `switches=1@10`, minutes.
        "switches" => {
            let (count, wait) = value.split_once('@').unwrap_or((value, ""));
            let wait = (!wait.is_empty()).then(|| Seconds::minutes(number(wait)));
            request.switches = Some(SwitchWish { count: number(count), wait });
        }
        // `topology=required:rack,preferred:leaf`.
        "topology" => {
            for (how, level) in value.split(',').filter_map(|w| w.split_once(':')) {
                match how {
                    "required" => request.topology.required = Some(level.to_owned()),
                    _ => request.topology.preferred = Some(level.to_owned()),
                }
            }
        }
        "segment" => request.topology.segment = Some(number(value)),
        "segments" if value == "spread" => request.topology.segments = Segments::Spread,
        "segments" => request.topology.segments = Segments::Consolidate,
        "reservation" => request.reservation = Some(value.to_owned()),
        "licences" => {
            for (name, count) in value.split(',').filter_map(|l| l.split_once(':')) {
                let licence = LicenceRequest { name: name.to_owned(), count: number(count) };
                request.licences.push(licence);
            }
        }
        _ => return false,
    }
    true
}

fn milli(text: &str) -> DeviceMilli {
    let Some(decimals) = text.strip_prefix("0.") else { return DeviceMilli(number(text)) };
    DeviceMilli(number(&format!("{decimals:0<3}")))
}

fn node_count(text: &str) -> NodeCount {
    if text.contains(',') {
        return NodeCount::OneOf(text.split(',').map(number).collect());
    }
    match text.split_once('-') {
        Some((min, max)) => NodeCount::Range { min: number(min), max: number(max) },
        None => NodeCount::exactly(number(text)),
    }
}

fn ranges(text: &str) -> IndexRanges {
    IndexRanges::from_ranges(text.split(',').map(|piece| {
        let (low, high) = piece.split_once('-').unwrap_or((piece, piece));
        (number(low), number(high))
    }))
}

fn array(text: &str) -> ArraySpec {
    let (indices, throttle) = text.split_once('%').map_or((text, None), |(i, t)| (i, Some(t)));
    ArraySpec { indices: ranges(indices), throttle: throttle.map(number).filter(|n| *n > 0) }
}

/// `afterok:A:B,afterany:C`, `afterok:A?afterok:B`, `after:A+5`, `afterok:A_1`, `singleton`.
///
/// Jobs are named by name or number.
pub fn dependency(text: &str, find: &dyn Fn(&str) -> JobId) -> Dependency {
    let joiner = if text.contains('?') { Joiner::Any } else { Joiner::All };
    let mut terms = Vec::new();
    for term in text.split([',', '?']) {
        let mut pieces = term.split(':');
        let kind = match pieces.next() {
            Some("after") => DependencyKind::After,
            Some("afterany") => DependencyKind::AfterAny,
            Some("afterok") => DependencyKind::AfterOk,
            Some("afternotok") => DependencyKind::AfterNotOk,
            Some("aftercorr") => DependencyKind::AfterCorr,
            Some("singleton") => DependencyKind::Singleton,
            other => panic!("no dependency {other:?}"),
        };
        if kind == DependencyKind::Singleton {
            terms.push(DependencyTerm { kind, target: None, delay: Seconds(0) });
        }
        for piece in pieces {
            let (job, delay) = piece.split_once('+').unwrap_or((piece, "0"));
            let target = match job.split_once('_') {
                Some((array, tasks)) => {
                    let tasks = tasks.trim_matches(['[', ']']).replace(';', ",");
                    DependencyTarget::Tasks(find(array), ranges(&tasks))
                }
                None => DependencyTarget::Job(find(job)),
            };
            terms.push(DependencyTerm {
                kind,
                target: Some(target),
                delay: Seconds::minutes(number(delay)),
            });
        }
    }
    Dependency { joiner, terms }
}

/// `a&b`, `a|b`, `[a|b]`, `a*2&b*4`; one level of joining, no parentheses.
fn constraint(text: &str) -> Constraint {
    if let Some((choice, count)) = text.strip_prefix('[').and_then(|t| t.split_once("]*")) {
        let choice = constraint(&format!("[{choice}]"));
        return Constraint::Count(Box::new(choice), number(count));
    }
    if let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return match constraint(inside) {
            Constraint::Any(parts) => Constraint::OneForAll(parts),
            other => other,
        };
    }
    if text.contains('&') {
        return Constraint::All(text.split('&').map(constraint).collect());
    }
    if text.contains('|') {
        return Constraint::Any(text.split('|').map(constraint).collect());
    }
    match text.split_once('*') {
        Some((name, count)) => Constraint::Count(Box::new(constraint(name)), number(count)),
        None => Constraint::Feature(text.to_owned()),
    }
}
