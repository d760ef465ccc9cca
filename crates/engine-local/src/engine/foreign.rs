//! Who uses the GPUs: jobs, whose greatest use of one is kept for their record, and what is not
//! muster's, which is counted as taken and shown with its owner.

use std::collections::BTreeMap;
use std::fs;
use std::sync::PoisonError;

use muster_engine::Observation;
use muster_node_metrics::GpuProcess;
use nix::unistd::{Uid, User};

use super::{Phase, Shared};
use crate::nodes::foreign_use;
use crate::spec::JobKey;

impl Shared {
    /// Looks at who uses the GPUs: keeps what jobs use, and tells when what is not ours changed.
    pub(super) fn look_at_gpus(&self) {
        if self.config.practice.is_none() && self.machine.gpus.is_empty() {
            return;
        }
        let processes = self.gpu_reader.processes();
        let jobs: Vec<(JobKey, i32)> = self
            .attempts()
            .iter()
            .filter(|(_, a)| matches!(a.phase, Phase::Running { .. }))
            .filter_map(|(key, a)| Some((*key, a.supervisor?.pid)))
            .collect();
        self.keep_peaks(&processes, &jobs);
        // Practice GPUs are used by nobody but jobs.
        if self.config.practice.is_none() {
            self.tell_foreign_use(&processes, &jobs);
        }
    }

    /// Keeps the most memory of one GPU that each job was seen to hold.
    fn keep_peaks(&self, processes: &[GpuProcess], jobs: &[(JobKey, i32)]) {
        let instance = self.state.instance();
        let mut held: BTreeMap<(JobKey, u32), u64> = BTreeMap::new();
        for process in processes {
            let pid = process.pid as i32;
            let cgroup = cgroup_of(pid);
            let of_job = |(key, supervisor): &&(JobKey, i32)| {
                let own = format!("/muster/{instance}/{key}");
                let inside = |line: &str| {
                    line.split_once(&own)
                        .is_some_and(|(_, rest)| !rest.starts_with(char::is_numeric))
                };
                cgroup.lines().any(inside) || descends_from(pid, &[*supervisor])
            };
            if let Some((key, _)) = jobs.iter().find(of_job) {
                *held.entry((*key, process.gpu)).or_default() += process.memory_mib;
            }
        }
        let mut attempts = self.attempts();
        for ((key, _), memory_mib) in held {
            if let Some(attempt) = attempts.get_mut(key) {
                attempt.gpu_memory_peak_mib = attempt.gpu_memory_peak_mib.max(memory_mib);
            }
        }
    }

    fn tell_foreign_use(&self, processes: &[GpuProcess], jobs: &[(JobKey, i32)]) {
        let supervisors: Vec<i32> = jobs.iter().map(|(_, pid)| *pid).collect();
        let instance = format!("/muster/{}/", self.state.instance());
        let is_ours = |pid| cgroup_of(pid).contains(&instance) || descends_from(pid, &supervisors);
        let name = |uid| {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            user.map_or_else(|| uid.to_string(), |user| user.name)
        };
        let foreign = foreign_use(processes, is_ours, name);
        let changed = {
            let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(node) = nodes.first_mut() else { return };
            let changed = node.foreign != foreign;
            node.foreign.clone_from(&foreign);
            changed.then(|| node.name.clone())
        };
        if let Some(node) = changed {
            self.tell(Observation::Foreign { node, foreign });
        }
    }
}

/// The cgroups of a process; empty where it is gone.
fn cgroup_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// How many generations a process is followed up.
const GENERATIONS_MAX: usize = 256;

fn descends_from(pid: i32, ancestors: &[i32]) -> bool {
    let mut current = pid;
    for _ in 0..GENERATIONS_MAX {
        if ancestors.contains(&current) {
            return true;
        }
        match crate::cgroup::parent_of(current) {
            Some(parent) if parent > 1 => current = parent,
            _ => return false,
        }
    }
    false
}
