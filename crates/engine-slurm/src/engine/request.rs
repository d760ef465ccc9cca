//! What sbatch is asked for: the placement and the request as options.

use super::script::unread;
use muster_engine::Launch;
use muster_engine::book::Key;
use muster_model::{
    Exclusive, Job, JobKind, MemoryRequest, Node, NodeShare, OpenMode, Placement, SignalTarget,
    TimeLimit,
};
use muster_slurm_syntax::pattern;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The account and the QOS that jobs have who asked for none: Slurm has its own for them.
const NOBODYS: [&str; 2] = ["default", "normal"];

/// Variables of these beginnings are sbatch's own options, or tell of another job.
const SCHEDULERS: [&str; 5] = ["SBATCH_", "SLURM_", "SALLOC_", "SRUN_", "SQUEUE_"];

/// All that sbatch is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Submission {
    /// Its options, and the script's arguments.
    pub(super) words: Vec<String>,
    /// The job's environment.
    pub(super) environment: BTreeMap<String, String>,
    /// The script.
    pub(super) script: String,
    /// Where it is submitted from.
    pub(super) directory: String,
}

/// What marks a job of muster's in Slurm: whose it is, and which attempt of which job.
pub(super) fn mark(instance: &str, key: Key) -> String {
    format!("muster:{instance}:{}.{}", key.job.0, key.attempt)
}

/// The attempt that a comment marks, where it is one of this instance.
pub(super) fn marked(instance: &str, comment: &str) -> Option<Key> {
    let word = comment.split_whitespace().next()?;
    let (job, attempt) =
        word.strip_prefix("muster:")?.strip_prefix(instance)?.strip_prefix(':')?.split_once('.')?;
    Some(Key { job: muster_model::JobId(job.parse().ok()?), attempt: attempt.parse().ok()? })
}

/// What sbatch is given for a launch; a sentence where Slurm cannot run such a job.
pub(super) fn submission(
    launch: &Launch,
    mark: &str,
    partitions: &BTreeMap<String, String>,
) -> Result<Submission, String> {
    let job = &launch.job;
    let placement = job.placement.as_ref().ok_or("the launch order has no placement")?;
    if placement.nodes.is_empty() || placement.nodes.len() != launch.nodes.len() {
        return Err("the launch order does not name the nodes of its placement".to_owned());
    }
    fits_slurm(launch)?;
    let mut words = fixed(launch, mark);
    let partition = partitions.get(&placement.partition).unwrap_or(&placement.partition);
    words.push(format!("--partition={partition}"));
    words.extend(who(job));
    words.extend(files(launch));
    words.extend(shape(job, placement, &launch.nodes));
    words.extend(gres(placement, &launch.nodes)?);
    words.push(format!("--time={}", minutes(job.time_limit)));
    words.extend(signal(job));
    // Without arguments sbatch reads the script from its standard input by itself.
    if !launch.payload.args.is_empty() {
        words.push("/dev/stdin".to_owned());
        words.extend(launch.payload.args.iter().cloned());
    }
    Ok(Submission {
        words,
        environment: environment(launch),
        script: unread(&launch.payload.script),
        directory: match job.spec.submit_dir.as_str() {
            "" => job.spec.cwd.clone(),
            own => own.to_owned(),
        },
    })
}

/// What muster can run and `sbatch` cannot be asked for.
fn fits_slurm(launch: &Launch) -> Result<(), String> {
    let spec = &launch.job.spec;
    let refuse = |what: &str| {
        Err(format!("{what} cannot be run through Slurm\nhint: name a partition of this machine"))
    };
    match spec.kind {
        JobKind::Batch if launch.payload.script.is_empty() => refuse("a job without a script"),
        JobKind::Batch if launch.job.het.is_some() => refuse("a heterogeneous job"),
        JobKind::Batch => Ok(()),
        JobKind::Allocation => refuse("an allocation (salloc, srun outside of a job)"),
        JobKind::Terminal => refuse("a job with a terminal of its own"),
    }
}

/// What is the same for every job.
fn fixed(launch: &Launch, mark: &str) -> Vec<String> {
    let job = &launch.job;
    let comment = match job.spec.comment.as_str() {
        "" => mark.to_owned(),
        own => format!("{mark} {own}"),
    };
    let mut words: Vec<String> = [
        "--parsable",
        "--ignore-pbs",
        "--no-requeue",
        // Limits of the daemon's own process are not the user's.
        "--propagate=NONE",
    ]
    .map(str::to_owned)
    .to_vec();
    words.push(match launch.payload.login_environment {
        true => "--get-user-env".to_owned(),
        false => "--export=ALL".to_owned(),
    });
    words.push(format!("--comment={comment}"));
    words.push(format!("--job-name={}", job.spec.name));
    words
}

fn who(job: &Job) -> Vec<String> {
    let asked = |option: &str, value: &str| {
        (!value.is_empty() && !NOBODYS.contains(&value)).then(|| format!("--{option}={value}"))
    };
    [asked("account", &job.spec.account), asked("qos", &job.spec.qos)]
        .into_iter()
        .flatten()
        .collect()
}

/// Where it runs and where its output goes, with muster's own numbers in the names.
fn files(launch: &Launch) -> Vec<String> {
    let job = &launch.job;
    let array = job.array.map(|task| (task.array.0, task.index));
    let values = pattern::Values {
        job_id: job.id.0,
        array,
        node_name: &launch.nodes[0].name,
        user: &job.spec.owner.user,
        job_name: &job.spec.name,
        restarts: job.attempt.saturating_sub(1),
        ..pattern::Values::default()
    };
    let full = |text: &str| {
        let path = Path::new(&job.spec.cwd).join(pattern::expand(text, &values));
        // What is left is no pattern any more.
        path.to_string_lossy().replace('%', "%%")
    };
    let stdio = &job.spec.stdio;
    let usual = pattern::default_output(array.is_some());
    let append = match stdio.open_mode {
        OpenMode::Append => true,
        OpenMode::Truncate => false,
        OpenMode::Default => job.attempt > 1,
    };
    let mut words = vec![
        format!("--chdir={}", job.spec.cwd),
        format!("--output={}", full(stdio.output.as_deref().unwrap_or(usual))),
        format!("--open-mode={}", if append { "append" } else { "truncate" }),
    ];
    words.extend(stdio.error.as_deref().map(|name| format!("--error={}", full(name))));
    words.extend(stdio.input.as_deref().map(|name| format!("--input={}", full(name))));
    words
}

/// Nodes, tasks, CPUs and memory.
fn shape(job: &Job, placement: &Placement, nodes: &[std::sync::Arc<Node>]) -> Vec<String> {
    let request = &job.spec.request;
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let cpus_per_task = request.cpus_per_task();
    let mut words = vec![
        format!("--nodes={}", names.len()),
        format!("--nodelist={}", names.join(",")),
        format!("--ntasks={}", placement.tasks().max(1)),
        format!("--cpus-per-task={cpus_per_task}"),
    ];
    let shares = &placement.nodes;
    if let Some(tasks) = same(shares, |share| share.tasks).filter(|tasks| *tasks > 0) {
        words.push(format!("--ntasks-per-node={tasks}"));
    }
    let least = shares.iter().map(NodeShare::cpu_count).min().unwrap_or(0);
    let by_tasks = shares.iter().map(|share| share.tasks).max().unwrap_or(0) * cpus_per_task;
    if least > by_tasks {
        words.push(format!("--mincpus={least}"));
    }
    let memory = shares.iter().map(|share| share.memory.0).max().unwrap_or(0);
    match request.memory {
        MemoryRequest::PerCpu(mib) => words.push(format!("--mem-per-cpu={}M", mib.0)),
        MemoryRequest::WholeNode => words.push("--mem=0".to_owned()),
        // Zero would be all of the node's.
        _ if memory > 0 => words.push(format!("--mem={memory}M")),
        _ => {}
    }
    if request.cpus_near_gpus {
        words.push("--gres-flags=enforce-binding".to_owned());
    }
    match request.exclusive {
        _ if shares.iter().any(|share| share.exclusive) => words.push("--exclusive".to_owned()),
        Exclusive::User => words.push("--exclusive=user".to_owned()),
        Exclusive::Node | Exclusive::No => {}
    }
    words
}

/// GPUs by model, and what else is counted. Which GPUs of a node they are Slurm decides.
fn gres(placement: &Placement, nodes: &[std::sync::Arc<Node>]) -> Result<Vec<String>, String> {
    let mut each = Vec::with_capacity(nodes.len());
    for (share, node) in placement.nodes.iter().zip(nodes) {
        if share.devices.iter().any(|grant| !grant.is_whole()) {
            return Err("a part of a GPU cannot be asked of Slurm\nhint: ask for whole GPUs, or \
                        name a partition of this machine"
                .to_owned());
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for grant in &share.devices {
            let model = node.devices.get(grant.index as usize).map_or("gpu", |d| d.model.as_str());
            let name = if model == "gpu" { model.to_owned() } else { format!("gpu:{model}") };
            *counts.entry(name).or_default() += 1;
        }
        counts.extend(share.gres.iter().map(|(name, count)| (name.clone(), *count)));
        each.push(counts);
    }
    let Some(first) = each.first().filter(|counts| !counts.is_empty()) else {
        // GPUs on some nodes only are said for the job as a whole.
        return Ok(in_total(&each));
    };
    if each.iter().any(|counts| counts != first) {
        return Ok(in_total(&each));
    }
    let list: Vec<String> = first.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    Ok(vec![format!("--gres={}", list.join(","))])
}

/// GPUs of the whole job, where nodes have different numbers of them.
fn in_total(each: &[BTreeMap<String, u64>]) -> Vec<String> {
    let kinds: BTreeSet<&String> = each.iter().flat_map(BTreeMap::keys).collect();
    let count = |kind: &str| each.iter().filter_map(|counts| counts.get(kind)).sum::<u64>();
    let gpus: Vec<String> = kinds
        .iter()
        .filter_map(|kind| match kind.strip_prefix("gpu") {
            Some("") => Some(count(kind).to_string()),
            Some(model) => Some(format!("{}:{}", model.trim_start_matches(':'), count(kind))),
            None => None,
        })
        .collect();
    if gpus.is_empty() { Vec::new() } else { vec![format!("--gpus={}", gpus.join(","))] }
}

fn same<T: PartialEq>(shares: &[NodeShare], of: impl Fn(&NodeShare) -> T) -> Option<T> {
    let first = of(shares.first()?);
    shares.iter().all(|share| of(share) == first).then_some(first)
}

/// Slurm counts limits in whole minutes: those begun count.
pub(super) fn minutes(limit: TimeLimit) -> String {
    match limit.seconds() {
        Some(seconds) => seconds.0.div_ceil(60).max(1).to_string(),
        None => "UNLIMITED".to_owned(),
    }
}

fn signal(job: &Job) -> Option<String> {
    let asked = job.spec.signal.as_ref()?;
    let batch = if asked.target == SignalTarget::Batch { "B:" } else { "" };
    // Slurm takes at most 65535 seconds (sbatch manual, --signal).
    Some(format!("--signal={batch}{}@{}", asked.signal, asked.before.0.min(65_535)))
}

/// The variables that the job has beside those that Slurm sets. Slurm knows each task of an array as
/// a job of its own: what tells it its index comes from here.
fn environment(launch: &Launch) -> BTreeMap<String, String> {
    let job = &launch.job;
    let kept = launch.payload.environment.iter();
    let kept = kept.filter(|(name, _)| !SCHEDULERS.iter().any(|own| name.starts_with(own)));
    let mut all: BTreeMap<String, String> = kept.cloned().collect();
    let mut put = |name: &str, value: String| all.insert(name.to_owned(), value);
    put("SLURM_UMASK", format!("{:04o}", launch.payload.umask & 0o777));
    if let (Some(task), Some(array)) = (job.array, launch.array) {
        for (name, value) in [
            ("SLURM_ARRAY_JOB_ID", task.array.0),
            ("SLURM_ARRAY_TASK_ID", task.index),
            ("SLURM_ARRAY_TASK_COUNT", array.size),
            ("SLURM_ARRAY_TASK_MIN", array.min),
            ("SLURM_ARRAY_TASK_MAX", array.max),
            ("SLURM_ARRAY_TASK_STEP", array.step),
        ] {
            put(name, value.to_string());
        }
    }
    if let Some(checkpoint) = &job.spec.checkpoint {
        let name = match checkpoint.variable.as_str() {
            "" => "MUSTER_CHECKPOINT_DIR",
            own => own,
        };
        put(name, checkpoint.dir.clone());
        if let Some(signal) = checkpoint.signal {
            put("MUSTER_CHECKPOINT_SIGNAL", signal.to_string());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::JobId;

    #[test]
    fn a_mark_is_found_again_and_nobody_elses_is() {
        let key = Key { job: JobId(12), attempt: 3 };
        let comment = format!("{} the user's own words", mark("0af3", key));
        assert_eq!(marked("0af3", &comment), Some(key));
        assert_eq!(marked("0af", &comment), None);
        assert_eq!(marked("0af3", "muster:0af3:12"), None);
        assert_eq!(marked("0af3", ""), None);
    }

    #[test]
    fn limits_are_whole_minutes_and_never_less_than_asked() {
        let of = |seconds| minutes(TimeLimit::Of(muster_model::Seconds(seconds)));
        assert_eq!((of(1), of(60), of(61)), ("1".to_owned(), "1".to_owned(), "2".to_owned()));
        assert_eq!(minutes(TimeLimit::Unlimited), "UNLIMITED");
    }
}
