//! What a job asks for, as muster says it.

use super::cluster::Cluster;
use super::config::Config;
use super::jobs::{JobRecord, JobStanding};
use super::json::{Number, Words};
use super::partitions::{Asker, PartitionRecord};
use muster_model::{
    Exclusive, GpuCount, GpuScope, JobSpec, LicenceRequest, MemoryRequest, Mib, NodeCount, Owner,
    Request, Seconds, TimeLimit, Timestamp,
};
use muster_slurm_syntax::{constraint, dependency, gres, hostlist, license, tres};
use std::collections::BTreeSet;

/// The description of a job. What Slurm gave it a priority by is in that priority.
pub(super) fn of(job: &JobRecord, cluster: &Cluster) -> Result<JobSpec, String> {
    let Cluster { config, partitions, now, .. } = cluster;
    let names: Vec<String> =
        job.partition.joined().split(',').map(str::to_owned).filter(|n| !n.is_empty()).collect();
    let waits = job.standing() == JobStanding::Waiting;
    let names = if waits { allowed(job, cluster, names)? } else { names };
    let eligible = job.eligible_time.get().and_then(|at| i64::try_from(at).ok());
    let limit = match job.time_limit {
        Number::Of(minutes) => Some(TimeLimit::Of(Seconds::minutes(minutes))),
        Number::Infinite => Some(TimeLimit::Unlimited),
        Number::Unset => None,
    };
    let dependency = plain(&job.dependency.joined());
    Ok(JobSpec {
        name: job.name.joined(),
        owner: Owner {
            uid: job.user_id.get().unwrap_or(0) as u32,
            gid: job.group_id.get().unwrap_or(0) as u32,
            user: job.user_name.joined(),
        },
        account: job.account.joined(),
        qos: job.qos.joined(),
        request: request(job, config, partitions, &names)?,
        partitions: names,
        time_limit: limit,
        time_min: job.time_minimum.some().map(|m| Seconds::minutes(u64::from(m))),
        begin: eligible.map(Timestamp::from_secs).filter(|at| waits && at > now),
        deadline: job.deadline.some().map(|at| Timestamp::from_secs(i64::from(at))),
        hold: waits && job.is_held(),
        priority: job.priority.get().and_then(|p| u32::try_from(p).ok()),
        dependency: dependency::parse(&dependency).map_err(|problem| problem.what)?,
        ..JobSpec::default()
    })
}

/// The partitions that let the job in, of those that it names; the first reason where none does.
fn allowed(job: &JobRecord, cluster: &Cluster, names: Vec<String>) -> Result<Vec<String>, String> {
    let (account, qos) = (job.account.joined(), job.qos.joined());
    let gid = job.group_id.get().and_then(|gid| u32::try_from(gid).ok());
    let asker = Asker { account: &account, qos: &qos, user: job.user(), uid: job.uid(), gid };
    let of = |name: &String| cluster.partitions.iter().find(|p| p.partition.name == *name);
    let forbids = |name: &String| of(name).and_then(|p| p.forbids(&asker, &cluster.groups));
    let why = names.first().and_then(forbids);
    let rest: Vec<String> = names.into_iter().filter(|name| forbids(name).is_none()).collect();
    match why {
        Some(why) if rest.is_empty() => Err(why),
        _ => Ok(rest),
    }
}

impl JobRecord {
    /// At least so many nodes; what `squeue` says of their number is what it may have at most.
    pub(super) fn nodes_least(&self) -> u32 {
        let asked = tres::parse(&self.tres_req_str.joined()).unwrap_or_default();
        let asked = asked.iter().find(|t| t.kind == "node").map(|t| t.amount as u32);
        asked.or_else(|| self.node_count.some()).unwrap_or(1).max(1)
    }
}

fn request(
    job: &JobRecord,
    config: &Config,
    partitions: &[PartitionRecord],
    names: &[String],
) -> Result<Request, String> {
    let asked = tres::parse(&job.tres_req_str.joined()).map_err(|problem| problem.what)?;
    let amount = |kind: &str| asked.iter().find(|t| t.kind == kind).map(|t| t.amount as u32);
    let least = job.nodes_least();
    let most = job.max_nodes.some().map(|most| most.max(least));
    let nodes = match most {
        Some(most) => Some(NodeCount::Range { min: least, max: most }),
        // Without a number Slurm takes as few nodes as hold the tasks.
        None if least == 1 => None,
        None => Some(NodeCount::exactly(least)),
    };
    let tasks = job.tasks.some().unwrap_or(1);
    let cpus = amount("cpu").unwrap_or(tasks).max(1);
    let per_task = job.cpus_per_task.some().unwrap_or_else(|| (cpus / tasks).max(1));
    let per_node = job.tasks_per_node.some();
    let least_cpus = job.minimum_cpus_per_node.some().unwrap_or(1);
    let of_tasks = per_task.saturating_mul(per_node.unwrap_or(1));
    let mut request = Request {
        // A task on each of a fixed number of nodes is what is meant where nothing is said.
        tasks: (nodes != Some(NodeCount::exactly(tasks))).then_some(tasks),
        nodes,
        tasks_per_node: per_node,
        cpus_per_task: (per_task > 1).then_some(per_task),
        cpus_per_node_min: (least_cpus > of_tasks).then_some(least_cpus),
        memory: memory(job, config),
        scratch: Mib(job.minimum_tmp_disk_per_node.get().unwrap_or(0)),
        exclusive: exclusive(job, config, partitions, names),
        contiguous: job.contiguous,
        node_list: hosts(&job.required_nodes)?,
        exclude: hosts(&job.excluded_nodes)?,
        licences: licences(&job.licenses.joined())?,
        reservation: job.resv_name.0.first().cloned(),
        ..Request::default()
    };
    let features = job.features.joined();
    if !features.is_empty() {
        let parsed = constraint::parse(&features).map_err(|problem| problem.what)?;
        request.constraint = Some(parsed);
    }
    for (list, scope) in [
        (&job.tres_per_job, GpuScope::Job),
        (&job.tres_per_node, GpuScope::Node),
        (&job.tres_per_socket, GpuScope::Socket),
        (&job.tres_per_task, GpuScope::Task),
    ] {
        take_gres(&mut request, &list.joined(), scope)?;
    }
    // So many in all and so many a task say the same twice; the task's share is the stricter.
    if request.gpus.iter().any(|g| g.scope == GpuScope::Task) {
        request.gpus.retain(|g| g.scope != GpuScope::Job);
    }
    Ok(request)
}

/// `gres:gpu:a100:2` to 23.02, `gres/gpu:a100:2` (or `=2`) after that.
fn take_gres(request: &mut Request, list: &str, scope: GpuScope) -> Result<(), String> {
    for entry in list.split(',').filter(|entry| !entry.is_empty()) {
        let entry = entry.trim_start_matches("gres:").trim_start_matches("gres/");
        let entry = entry.replace('=', ":");
        // CPUs, memory and energy are no countable resources of a node.
        if ["cpu", "mem", "energy", "license"].iter().any(|k| entry.starts_with(k)) {
            continue;
        }
        for one in gres::parse(&entry).map_err(|problem| problem.what)? {
            let count = u32::try_from(one.count).unwrap_or(u32::MAX);
            if one.name == "gpu" {
                request.gpus.push(GpuCount { model: one.kind, count, scope });
            } else if scope == GpuScope::Node {
                *request.gres.entry(one.name).or_default() += one.count;
            } else {
                return Err(format!("{entry} is asked for otherwise than by node"));
            }
        }
    }
    Ok(())
}

/// Where memory is not given out, what a job says of it keeps nobody away.
fn memory(job: &JobRecord, config: &Config) -> MemoryRequest {
    if !config.counts_memory {
        return MemoryRequest::PerNode(Mib(0));
    }
    match (job.memory_per_cpu.get(), job.memory_per_node.get()) {
        (Some(mib), _) if mib > 0 => MemoryRequest::PerCpu(Mib(mib)),
        (_, Some(mib)) if mib > 0 => MemoryRequest::PerNode(Mib(mib)),
        _ => MemoryRequest::WholeNode,
    }
}

/// `shared` is what squeue calls OverSubscribe: `none` is alone, `user` with one's own jobs.
fn exclusive(
    job: &JobRecord,
    config: &Config,
    partitions: &[PartitionRecord],
    names: &[String],
) -> Exclusive {
    let of = |has: fn(&PartitionRecord) -> bool| {
        partitions.iter().any(|p| names.contains(&p.partition.name) && has(p))
    };
    if config.whole_nodes || job.shared.has("none") || of(|p| p.exclusive) {
        Exclusive::Node
    } else if job.shared.has("user") || of(|p| p.by_user) {
        Exclusive::User
    } else {
        Exclusive::No
    }
}

fn licences(text: &str) -> Result<Vec<LicenceRequest>, String> {
    if text.is_empty() { Ok(Vec::new()) } else { license::parse(text).map_err(|p| p.what) }
}

pub(super) fn hosts(list: &Words) -> Result<BTreeSet<String>, String> {
    let text = list.joined();
    if text.is_empty() {
        return Ok(BTreeSet::new());
    }
    let names = hostlist::expand(&text, hostlist::HOSTS_MAX).map_err(|problem| problem.what)?;
    Ok(names.into_iter().collect())
}

/// A dependency without what Slurm says of each term: `afterok:1(unfulfilled)`.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut deep = 0u32;
    for c in text.chars() {
        match c {
            '(' => deep += 1,
            ')' => deep = deep.saturating_sub(1),
            c if deep == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.trim_matches(',').replace("_*", "")
}
