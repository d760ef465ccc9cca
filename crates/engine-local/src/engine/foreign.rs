//! GPU use that is not muster's: seen, counted as taken, shown with its owner.

use std::fs;
use std::sync::PoisonError;

use muster_engine::Observation;
use muster_node_metrics::gpu_processes;
use nix::unistd::{Uid, User};

use super::{Phase, Shared};
use crate::nodes::foreign_use;

impl Shared {
    /// Looks at who uses the machine's GPUs; tells when that changed.
    pub(super) fn look_for_foreign_use(&self) {
        if self.config.practice.is_some() || self.machine.gpus.is_empty() {
            return;
        }
        let processes = gpu_processes("/".as_ref());
        let supervisors: Vec<i32> = self
            .attempts()
            .iter()
            .filter(|(_, a)| matches!(a.phase, Phase::Running { .. }))
            .filter_map(|(_, a)| Some(a.supervisor?.pid))
            .collect();
        let instance = format!("/muster/{}/", self.state.instance());
        let is_ours = |pid| in_cgroup(pid, &instance) || descends_from(pid, &supervisors);
        let name = |uid| {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            user.map_or_else(|| uid.to_string(), |user| user.name)
        };
        let foreign = foreign_use(&processes, is_ours, name);
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

fn in_cgroup(pid: i32, instance: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(instance))
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
