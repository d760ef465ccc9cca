//! Which GPUs of the allocation a step has on each node, and which of them each task sees (srun
//! manual, `--gpus…` and `--gpu-bind`). GPUs are positions in the node's share, which are in the
//! order of ranks.

use std::collections::BTreeSet;

use muster_api::step::{GpuBind, StepGpus, StepSpec};
use muster_model::GpuBindKind;

use super::cpus::entry;
use super::{NoLayout, Room, refused};
use crate::spec::NodeShare;

/// GPUs of the step on each chosen node.
pub(super) fn split(
    spec: &StepSpec,
    nodes: &[NodeShare],
    chosen: &[Room],
    tasks: &[u32],
) -> Result<Vec<Vec<usize>>, NoLayout> {
    let wanted: Vec<usize> = match spec.gpus {
        None => chosen.iter().map(|r| nodes[r.share].gpus.len()).collect(),
        Some(StepGpus::Node(count)) => vec![count as usize; chosen.len()],
        Some(StepGpus::Task(count)) => tasks.iter().map(|t| (t * count) as usize).collect(),
        Some(StepGpus::Step(count)) => {
            let mut left = count as usize;
            let mut split = vec![0; chosen.len()];
            // At least one on each node, then as many as the first ones have.
            for fair in [true, false] {
                for (have, room) in split.iter_mut().zip(chosen) {
                    let most = if fair { 1 } else { room.free_gpus.len() };
                    let more = most.min(room.free_gpus.len()).saturating_sub(*have).min(left);
                    *have += more;
                    left -= more;
                }
            }
            if left > 0 {
                let message = format!(
                    "the step wants {count} GPUs, its nodes have {}",
                    count as usize - left
                );
                return Err(refused("step.too_many_gpus", message));
            }
            split
        }
    };
    let mut taken = Vec::new();
    for (count, room) in wanted.iter().zip(chosen) {
        if room.free_gpus.len() < *count {
            let name = &nodes[room.share].name;
            let message = format!(
                "the step wants {count} GPUs on {name}, {} are there",
                room.free_gpus.len()
            );
            return Err(refused("step.too_many_gpus", message));
        }
        taken.push(room.free_gpus[..*count].to_vec());
    }
    Ok(taken)
}

/// How the tasks of a step are bound to its GPUs: as asked, else as the counts imply.
pub(in crate::supervisor) fn bind(spec: &StepSpec) -> GpuBind {
    if let Some(asked) = &spec.gpu_bind {
        return asked.clone();
    }
    let kind = match (spec.gpus, spec.tasks_per_gpu) {
        (Some(StepGpus::Task(count)), _) if count > 0 => GpuBindKind::PerTask(count),
        (_, Some(tasks)) => GpuBindKind::Single(tasks),
        _ => GpuBindKind::None,
    };
    GpuBind { kind, verbose: false }
}

/// The tasks of one node, to be shown their GPUs.
pub(super) struct Sight<'a> {
    pub(super) share: &'a NodeShare,
    /// The step's GPUs on the node.
    pub(super) step: &'a [usize],
    /// The NUMA domains of each task's CPUs.
    pub(super) domains: &'a [BTreeSet<u32>],
    /// The job can open its own GPUs only, which are then counted from 0.
    pub(super) fenced: bool,
}

impl Sight<'_> {
    /// The GPUs that each task sees; an error is a sentence about what was asked.
    pub(super) fn of_tasks(&self, kind: &GpuBindKind) -> Result<Vec<Vec<usize>>, String> {
        let tasks = self.domains.len();
        if let GpuBindKind::PerTask(count) = kind {
            return self.per_task(*count);
        }
        (0..tasks)
            .map(|task| match kind {
                GpuBindKind::None | GpuBindKind::PerTask(_) => Ok(self.step.to_vec()),
                GpuBindKind::Closest => Ok(self.closest(task)),
                GpuBindKind::Single(sharing) => {
                    let near = self.closest(task);
                    let at = task / (*sharing).max(1) as usize;
                    Ok(near
                        .get(at.checked_rem(near.len()).unwrap_or(0))
                        .copied()
                        .into_iter()
                        .collect())
                }
                GpuBindKind::Map(list) => self.numbered(&[*entry(list, task)?]),
                GpuBindKind::Mask(list) => {
                    self.numbered(&entry(list, task)?.iter().collect::<Vec<_>>())
                }
            })
            .collect()
    }

    fn is_near(&self, gpu: usize, task: usize) -> bool {
        self.share.gpus[gpu].numa.is_some_and(|numa| self.domains[task].contains(&numa))
    }

    fn closest(&self, task: usize) -> Vec<usize> {
        let near: Vec<usize> =
            self.step.iter().copied().filter(|gpu| self.is_near(*gpu, task)).collect();
        if near.is_empty() { self.step.to_vec() } else { near }
    }

    /// So many of its own for each task, near ones first, in the order of ranks.
    fn per_task(&self, count: u32) -> Result<Vec<Vec<usize>>, String> {
        let tasks = self.domains.len();
        let (count, have) = (count as usize, self.step.len());
        if count.saturating_mul(tasks) > have {
            return Err(format!("{tasks} tasks with {count} GPUs each need more than {have}"));
        }
        let mut left = self.step.to_vec();
        let mut all = Vec::with_capacity(tasks);
        for task in 0..tasks {
            let near = left.iter().copied().filter(|gpu| self.is_near(*gpu, task));
            let far = left.iter().copied().filter(|gpu| !self.is_near(*gpu, task));
            let mut own: Vec<usize> = near.chain(far).take(count).collect();
            own.sort_unstable();
            left.retain(|gpu| !own.contains(gpu));
            all.push(own);
        }
        Ok(all)
    }

    /// GPUs by number; each has to be the step's.
    fn numbered(&self, numbers: &[u32]) -> Result<Vec<usize>, String> {
        let mut all = Vec::new();
        for number in numbers {
            let gpu = self.position(*number).filter(|gpu| self.step.contains(gpu));
            all.push(gpu.ok_or_else(|| {
                let counted = if self.fenced { "counted inside the job" } else { "of the node" };
                format!("GPU {number}, {counted}, is not the step's")
            })?);
        }
        all.sort_unstable();
        Ok(all)
    }

    fn position(&self, number: u32) -> Option<usize> {
        let gpus = &self.share.gpus;
        let instances = gpus.iter().any(|gpu| gpu.instance.is_some());
        if !self.fenced && !instances {
            return gpus.iter().position(|gpu| gpu.index == number);
        }
        let mut order: Vec<usize> = (0..gpus.len()).collect();
        order.sort_by_key(|at| (gpus[*at].index, *at));
        order.get(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::GpuShare;

    /// A node's GPUs by number and NUMA domain.
    fn share(gpus: &[(u32, u32)]) -> NodeShare {
        let gpu = |(index, numa): &(u32, u32)| GpuShare {
            index: *index,
            numa: Some(*numa),
            ..GpuShare::default()
        };
        NodeShare { gpus: gpus.iter().map(gpu).collect(), ..NodeShare::default() }
    }

    /// What tasks see, by the numbers of the node; each task's CPUs are in one domain.
    fn seen(
        share: &NodeShare,
        fenced: bool,
        kind: &GpuBindKind,
        domains: &[u32],
    ) -> Result<Vec<Vec<u32>>, String> {
        let step: Vec<usize> = (0..share.gpus.len()).collect();
        let domains: Vec<BTreeSet<u32>> = domains.iter().map(|d| BTreeSet::from([*d])).collect();
        let sight = Sight { share, step: &step, domains: &domains, fenced };
        let numbers = |own: &Vec<usize>| own.iter().map(|at| share.gpus[*at].index).collect();
        Ok(sight.of_tasks(kind)?.iter().map(numbers).collect())
    }

    #[test]
    fn t28_binding_tasks_to_gpus() {
        let two = share(&[(2, 0), (3, 0)]);
        let map = |list: &[u32]| GpuBindKind::Map(list.to_vec());
        // a) Numbers count inside the job where devices are fenced off, else over the node.
        assert_eq!(seen(&two, true, &map(&[0, 1]), &[0, 0]), Ok(vec![vec![2], vec![3]]));
        assert_eq!(seen(&two, false, &map(&[2, 3]), &[0, 0]), Ok(vec![vec![2], vec![3]]));
        // b) Out of range.
        let refused = seen(&two, true, &map(&[2, 3]), &[0, 0]).expect_err("refused");
        assert_eq!(refused, "GPU 2, counted inside the job, is not the step's");
        assert!(seen(&two, false, &map(&[0]), &[0]).is_err());
        // c) Four tasks, two on each.
        let single = seen(&two, true, &GpuBindKind::Single(2), &[0; 4]);
        assert_eq!(single, Ok(vec![vec![2], vec![2], vec![3], vec![3]]));
        // d) A GPU of its own for each of four tasks cannot be had of two.
        assert!(seen(&two, true, &GpuBindKind::PerTask(1), &[0; 4]).is_err());
        assert_eq!(seen(&two, true, &GpuBindKind::PerTask(1), &[0; 2]), Ok(vec![vec![2], vec![3]]));
        // e) Both are equally close.
        assert_eq!(
            seen(&two, true, &GpuBindKind::Closest, &[0, 0]),
            Ok(vec![vec![2, 3], vec![2, 3]])
        );
        // f) Masks; lists begin anew.
        let masks = GpuBindKind::Mask(vec![[0].into_iter().collect(), [1].into_iter().collect()]);
        assert_eq!(seen(&two, true, &masks, &[0; 3]), Ok(vec![vec![2], vec![3], vec![2]]));
        let twice = map(&[0, 0, 1, 1]);
        let seen = seen(&two, true, &twice, &[0; 4]);
        assert_eq!(seen, Ok(vec![vec![2], vec![2], vec![3], vec![3]]));
    }

    #[test]
    fn tasks_see_the_gpus_of_their_domain() {
        let four = share(&[(0, 0), (1, 0), (2, 1), (3, 1)]);
        let of = |kind: &GpuBindKind, domains: &[u32]| seen(&four, true, kind, domains);
        assert_eq!(of(&GpuBindKind::Closest, &[1, 0]), Ok(vec![vec![2, 3], vec![0, 1]]));
        // No GPU is near: all are as near as any.
        assert_eq!(of(&GpuBindKind::Closest, &[7]), Ok(vec![vec![0, 1, 2, 3]]));
        assert_eq!(
            of(&GpuBindKind::Single(1), &[0, 0, 1, 1]),
            Ok(vec![vec![0], vec![1], vec![2], vec![3]])
        );
        assert_eq!(of(&GpuBindKind::PerTask(2), &[1, 0]), Ok(vec![vec![2, 3], vec![0, 1]]));
        // The near ones are gone: any will do.
        assert_eq!(of(&GpuBindKind::PerTask(1), &[1, 1, 1]), Ok(vec![vec![2], vec![3], vec![0]]));
    }
}
