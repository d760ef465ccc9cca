//! Jobs and their steps.

use std::collections::BTreeSet;

use muster_node_metrics::cgroup::paths::Owner as Engine;
use muster_node_metrics::cgroup::usage::Usage;
use muster_node_metrics::host::pressure::Pressure;

use super::seconds;
use crate::exposition::{Exposition, Settings};
use crate::families;
use crate::owners::{Owner, Owners};

fn word(engine: Engine) -> &'static str {
    match engine {
        Engine::Muster => "local",
        Engine::Slurm => "slurm",
    }
}

pub(super) fn put(out: &mut Exposition, all: &[Usage], owners: &Owners, settings: &Settings) {
    let told = told(all, settings.jobs_max);
    let nobody = Owner::default();
    let mut named = BTreeSet::new();
    let mut unmapped: BTreeSet<(Engine, &str)> = BTreeSet::new();
    let mut dropped = 0;
    for usage in all {
        let Some(job) = usage.key.job else {
            unmapped.insert((usage.key.owner, usage.key.name.as_str()));
            continue;
        };
        // Another daemon's jobs on this machine are that one's to tell of.
        let is_others = usage.key.owner == Engine::Muster
            && !owners.instance.is_empty()
            && usage.key.instance != owners.instance;
        if is_others {
            continue;
        }
        let owner = match (usage.key.owner, owners.jobs.get(&job)) {
            (Engine::Muster, Some(owner)) => owner,
            _ if owners.only_these => continue,
            _ => &nobody,
        };
        if !told.contains(&(usage.key.owner, job)) {
            dropped += 1;
            continue;
        }
        let number = job.to_string();
        if named.insert((usage.key.owner, job)) {
            let labels = [
                ("jobid", number.as_str()),
                ("user", owner.user.as_str()),
                ("account", owner.account.as_str()),
                ("partition", owner.partition.as_str()),
                ("name", owner.name.as_str()),
                ("engine", word(usage.key.owner)),
            ];
            out.put(&families::JOB_INFO, &labels, 1_u64);
        }
        one(out, usage, &number, owner);
    }
    out.drop_series(&families::CGROUP_CPU, dropped);
    for engine in [Engine::Muster, Engine::Slurm] {
        let count = unmapped.iter().filter(|(of, _)| *of == engine).count() as u64;
        if !owners.only_these {
            out.put(&families::UNMAPPED, &[("engine", word(engine))], count);
        }
    }
}

/// The jobs that are told of: all, or those that used most CPU time.
fn told(all: &[Usage], jobs_max: usize) -> BTreeSet<(Engine, u64)> {
    let mut jobs: Vec<(u64, (Engine, u64))> = all
        .iter()
        .filter(|usage| usage.key.step.is_empty())
        .filter_map(|usage| Some((usage.cpu_ns.unwrap_or(0), (usage.key.owner, usage.key.job?))))
        .collect();
    jobs.sort_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
    jobs.into_iter().take(jobs_max).map(|(_, job)| job).collect()
}

fn one(out: &mut Exposition, usage: &Usage, job: &str, owner: &Owner) {
    let labels = [
        ("jobid", job),
        ("step", usage.key.step.as_str()),
        ("user", owner.user.as_str()),
        ("account", owner.account.as_str()),
        ("engine", word(usage.key.owner)),
    ];
    let ns = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    out.put(&families::CGROUP_CPUS, &labels, usage.cpus);
    out.put(&families::CGROUP_USER, &labels, ns(usage.user_ns));
    out.put(&families::CGROUP_SYSTEM, &labels, ns(usage.system_ns));
    out.put(&families::CGROUP_CPU, &labels, ns(usage.cpu_ns));
    out.put(&families::CGROUP_RSS, &labels, usage.rss);
    out.put(&families::CGROUP_CACHE, &labels, usage.cache);
    out.put(&families::CGROUP_SHMEM, &labels, usage.shared);
    out.put(&families::CGROUP_USED, &labels, usage.memory);
    out.put(&families::CGROUP_TOTAL, &labels, usage.memory_limit);
    out.put(&families::CGROUP_FAILS, &labels, usage.limit_hits);
    out.put(&families::JOB_PEAK, &labels, usage.memory_peak);
    out.put(&families::JOB_SWAP, &labels, usage.swap);
    out.put(&families::JOB_TASKS, &labels, usage.tasks);
    out.put(&families::JOB_OOM, &labels, usage.oom_kills);
    out.put(&families::JOB_FAULTS, &labels, usage.major_faults);
    out.put(&families::JOB_REFAULTS, &labels, usage.refaults);
    out.put(&families::JOB_THROTTLED, &labels, ns(usage.throttled_ns));
    let pressures =
        [("cpu", usage.pressure.cpu), ("memory", usage.pressure.memory), ("io", usage.pressure.io)];
    for (resource, pressure) in pressures {
        let Pressure { some, full } = pressure.unwrap_or_default();
        for (share, stall) in [("some", some), ("full", full)] {
            let mut labels = labels.to_vec();
            labels.extend([("resource", resource), ("share", share)]);
            let stalled = stall.map(|stall| seconds(stall.total_us));
            out.put(&families::JOB_PRESSURE, &labels, stalled);
        }
    }
    for (device, io) in &usage.io {
        let mut labels = labels.to_vec();
        labels.push(("device", device.as_str()));
        out.put(&families::JOB_READ_BYTES, &labels, io.read_bytes);
        out.put(&families::JOB_WRITTEN_BYTES, &labels, io.written_bytes);
        out.put(&families::JOB_READS, &labels, io.reads);
        out.put(&families::JOB_WRITES, &labels, io.writes);
    }
}
