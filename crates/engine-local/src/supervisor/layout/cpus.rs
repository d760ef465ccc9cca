//! Which CPUs of a node each task of a step gets, and which it is bound to (srun manual,
//! `--distribution` behind the first colon, and `--cpu-bind`). CPUs are positions in the node's
//! share.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::step::{CpuBind, Distribution};
use muster_model::{CpuBindKind, CpuOrder, Mask};

use crate::spec::{CpuPlace, NodeShare};

/// Where each CPU of a share stands; a share that does not say so is one socket of single cores.
pub(super) fn places(share: &NodeShare) -> Vec<CpuPlace> {
    if share.places.len() == share.cpus as usize {
        return share.places.clone();
    }
    (0..share.cpus).map(|id| CpuPlace { id, core: id, ..CpuPlace::default() }).collect()
}

/// One socket's free CPUs by core.
struct Socket {
    cores: Vec<Vec<usize>>,
    last: Option<usize>,
}

impl Socket {
    fn room(&self) -> usize {
        self.cores.iter().map(Vec::len).sum()
    }

    /// Takes a CPU of the next core that the order says; `first` is the task's first here.
    fn take(&mut self, order: CpuOrder, first: bool) -> Option<usize> {
        let moves = order == CpuOrder::FullCyclic || (order == CpuOrder::Cyclic && first);
        let from = match (order, self.last) {
            (CpuOrder::Block, _) | (_, None) => 0,
            (_, Some(last)) => last + usize::from(moves),
        };
        let count = self.cores.len();
        let core =
            (0..count).map(|i| (from + i) % count).find(|core| !self.cores[*core].is_empty())?;
        self.last = Some(core);
        Some(self.cores[core].remove(0))
    }
}

/// Deals so many CPUs to each of so many tasks out of the free ones, by the orders over sockets and
/// cores. A task has its CPUs on one socket where that can be, unless each CPU is to be on the next.
pub(super) fn deal(
    places: &[CpuPlace],
    free: &[usize],
    tasks: u32,
    per_task: u32,
    distribution: Distribution,
) -> Vec<Vec<usize>> {
    let (over_sockets, over_cores) = distribution.cpu_orders();
    let mut by_socket: BTreeMap<u32, BTreeMap<u32, Vec<usize>>> = BTreeMap::new();
    for cpu in free {
        let place = places[*cpu];
        by_socket.entry(place.socket).or_default().entry(place.core).or_default().push(*cpu);
    }
    let mut sockets: Vec<Socket> = by_socket
        .into_values()
        .map(|cores| Socket { cores: cores.into_values().collect(), last: None })
        .collect();
    let mut last: Option<usize> = None;
    (0..tasks)
        .map(|_| {
            let mut own = Vec::new();
            let mut begun = BTreeSet::new();
            let mut socket = None;
            while own.len() < per_task as usize {
                let left = per_task as usize - own.len();
                let stays = over_sockets != CpuOrder::FullCyclic;
                if !socket.is_some_and(|at: usize| stays && sockets[at].room() > 0) {
                    let from = match (over_sockets, last) {
                        (CpuOrder::Block, _) | (_, None) => 0,
                        (_, Some(last)) => last + 1,
                    };
                    let whole = if stays { left } else { 1 };
                    socket = next_socket(&sockets, from, whole);
                    last = socket.or(last);
                }
                let Some(at) = socket else { break };
                own.extend(sockets[at].take(over_cores, begun.insert(at)));
            }
            own.sort_unstable();
            own
        })
        .collect()
}

/// The first socket from there on, in a circle, with so many CPUs free; else with any.
fn next_socket(sockets: &[Socket], from: usize, count: usize) -> Option<usize> {
    let circle = || (0..sockets.len()).map(|i| (from + i) % sockets.len());
    circle()
        .find(|at| sockets[*at].room() >= count)
        .or_else(|| circle().find(|at| sockets[*at].room() > 0))
}

/// Deals so many CPUs to each task, those beside its GPUs first; `domains` are the NUMA domains of
/// each task's GPUs.
pub(super) fn deal_near(
    places: &[CpuPlace],
    free: &[usize],
    per_task: u32,
    domains: &[BTreeSet<u32>],
) -> Vec<Vec<usize>> {
    let mut left = free.to_vec();
    domains
        .iter()
        .map(|near| {
            let sockets: BTreeSet<u32> =
                places.iter().filter(|p| near.contains(&p.numa)).map(|p| p.socket).collect();
            left.sort_by_key(|cpu| {
                let place = places[*cpu];
                (!near.contains(&place.numa), !sockets.contains(&place.socket), *cpu)
            });
            let rest = left.split_off(left.len().min(per_task as usize));
            let mut own = std::mem::replace(&mut left, rest);
            own.sort_unstable();
            own
        })
        .collect()
}

/// What the tasks on one node are bound to.
pub(super) struct Binding<'a> {
    pub(super) places: &'a [CpuPlace],
    /// All CPUs of the step on the node.
    pub(super) step: &'a [usize],
    /// Each task's own.
    pub(super) own: &'a [Vec<usize>],
    /// The step counts CPUs by task.
    pub(super) counted: bool,
}

impl Binding<'_> {
    /// The CPUs that each task may run on; an error is a sentence about what was asked.
    pub(super) fn of_tasks(&self, bind: &CpuBind) -> Result<Vec<Vec<usize>>, String> {
        (0..self.own.len()).map(|task| self.of_task(&bind.kind, task)).collect()
    }

    fn of_task(&self, kind: &CpuBindKind, task: usize) -> Result<Vec<usize>, String> {
        let own = &self.own[task];
        let same = |key: fn(&CpuPlace) -> u32| {
            let keys: BTreeSet<u32> = own.iter().map(|cpu| key(&self.places[*cpu])).collect();
            self.those(|place| keys.contains(&key(place)))
        };
        Ok(match kind {
            CpuBindKind::Auto if self.counted => own.clone(),
            CpuBindKind::Auto | CpuBindKind::None => self.step.to_vec(),
            CpuBindKind::Threads => own.clone(),
            CpuBindKind::Cores => same(|place| place.core),
            CpuBindKind::Sockets => same(|place| place.socket),
            CpuBindKind::Domains => same(|place| place.numa),
            CpuBindKind::Rank => vec![*entry(self.step, task)?],
            CpuBindKind::RankDomain => {
                let domains: BTreeSet<u32> =
                    self.step.iter().map(|cpu| self.places[*cpu].numa).collect();
                let domains: Vec<u32> = domains.into_iter().collect();
                self.domains(&[*entry(&domains, task)?])?
            }
            CpuBindKind::Map(list) => self.named(&[*entry(list, task)?])?,
            CpuBindKind::Mask(list) => self.named(&numbers(entry(list, task)?))?,
            CpuBindKind::MapDomain(list) => self.domains(&[*entry(list, task)?])?,
            CpuBindKind::MaskDomain(list) => self.domains(&numbers(entry(list, task)?))?,
        })
    }

    fn those(&self, wanted: impl Fn(&CpuPlace) -> bool) -> Vec<usize> {
        self.step.iter().copied().filter(|cpu| wanted(&self.places[*cpu])).collect()
    }

    /// CPUs by the kernel's numbers; all of them have to be the step's.
    fn named(&self, ids: &[u32]) -> Result<Vec<usize>, String> {
        let all = self.those(|place| ids.contains(&place.id));
        let missing = ids.iter().find(|id| !all.iter().any(|cpu| self.places[*cpu].id == **id));
        match missing {
            None => Ok(all),
            Some(id) => {
                let has = self.step.iter().map(|cpu| self.places[*cpu].id);
                let has: muster_model::IndexRanges = has.collect();
                Err(format!("CPU {id} is not the step's, which has {has}"))
            }
        }
    }

    /// The step's CPUs of NUMA domains; each has to have some.
    fn domains(&self, ids: &[u32]) -> Result<Vec<usize>, String> {
        let all = self.those(|place| ids.contains(&place.numa));
        let missing = ids.iter().find(|id| !all.iter().any(|cpu| self.places[*cpu].numa == **id));
        match missing {
            None => Ok(all),
            Some(id) => Err(format!("the step has no CPU of NUMA domain {id}")),
        }
    }
}

fn numbers(mask: &Mask) -> Vec<u32> {
    mask.iter().collect()
}

/// The task's entry of a list that begins anew at its end.
pub(super) fn entry<T>(list: &[T], task: usize) -> Result<&T, String> {
    let at = task.checked_rem(list.len()).ok_or("the list is empty")?;
    Ok(&list[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many sockets of so many cores of so many threads; threads of a core are far apart in
    /// number, as Linux numbers them.
    fn machine(sockets: u32, cores: u32, threads: u32) -> Vec<CpuPlace> {
        let all = sockets * cores;
        (0..all * threads)
            .map(|id| {
                let core = id % all;
                CpuPlace { id, core, socket: core / cores, numa: core / cores }
            })
            .collect()
    }

    fn dealt(places: &[CpuPlace], tasks: u32, per_task: u32, text: &str) -> Vec<Vec<usize>> {
        let word = |w: &str| match w {
            "block" => CpuOrder::Block,
            "cyclic" => CpuOrder::Cyclic,
            _ => CpuOrder::FullCyclic,
        };
        let (sockets, cores) = text.split_once(':').unwrap_or((text, text));
        let distribution = Distribution {
            sockets: Some(word(sockets)),
            cores: Some(word(cores)),
            ..Distribution::default()
        };
        let free: Vec<usize> = (0..places.len()).collect();
        deal(places, &free, tasks, per_task, distribution)
    }

    #[test]
    fn tasks_are_dealt_over_sockets() {
        // Two sockets of four cores: CPUs 0-3 and 4-7.
        let two = machine(2, 4, 1);
        assert_eq!(dealt(&two, 3, 1, "block"), [[0], [1], [2]]);
        assert_eq!(dealt(&two, 4, 1, "cyclic"), [[0], [4], [1], [5]]);
        assert_eq!(dealt(&two, 2, 2, "block"), [[0, 1], [2, 3]]);
        assert_eq!(dealt(&two, 2, 2, "cyclic"), [[0, 1], [4, 5]]);
        assert_eq!(dealt(&two, 2, 2, "fcyclic"), [[0, 4], [1, 5]]);
        // Three do not fit twice into a socket of four: the second goes to the other socket.
        assert_eq!(dealt(&two, 2, 3, "block"), [[0, 1, 2], [4, 5, 6]]);
        // What no socket holds alone is cut, and nobody goes without.
        assert_eq!(dealt(&two, 2, 4, "cyclic:block"), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        let all = dealt(&two, 1, 6, "cyclic");
        assert_eq!(all[0].len(), 6);
    }

    #[test]
    fn tasks_are_dealt_over_cores() {
        // One socket of four cores with two threads: core 0 is CPUs 0 and 4.
        let one = machine(1, 4, 2);
        assert_eq!(dealt(&one, 3, 1, "block:block"), [[0], [4], [1]]);
        assert_eq!(dealt(&one, 3, 1, "block:cyclic"), [[0], [1], [2]]);
        assert_eq!(dealt(&one, 2, 2, "block:cyclic"), [[0, 4], [1, 5]]);
        assert_eq!(dealt(&one, 2, 2, "block:fcyclic"), [[0, 1], [2, 3]]);
    }

    #[test]
    fn every_way_to_bind() {
        let places = machine(2, 2, 2);
        let step: Vec<usize> = (0..8).collect();
        let own = vec![vec![0], vec![2], vec![5]];
        let binding = Binding { places: &places, step: &step, own: &own, counted: false };
        let bound = |kind: CpuBindKind| binding.of_tasks(&CpuBind { kind, verbose: false });
        let all = step.clone();
        assert_eq!(bound(CpuBindKind::Auto), Ok(vec![all.clone(), all.clone(), all.clone()]));
        assert_eq!(bound(CpuBindKind::None), Ok(vec![all.clone(), all.clone(), all]));
        assert_eq!(bound(CpuBindKind::Threads), Ok(own.clone()));
        assert_eq!(bound(CpuBindKind::Cores), Ok(vec![vec![0, 4], vec![2, 6], vec![1, 5]]));
        let (one, two) = (vec![0, 1, 4, 5], vec![2, 3, 6, 7]);
        let by_socket = Ok(vec![one.clone(), two.clone(), one.clone()]);
        assert_eq!(bound(CpuBindKind::Sockets), by_socket);
        assert_eq!(bound(CpuBindKind::Domains), by_socket);
        assert_eq!(bound(CpuBindKind::Rank), Ok(vec![vec![0], vec![1], vec![2]]));
        assert_eq!(bound(CpuBindKind::RankDomain), by_socket);
        assert_eq!(bound(CpuBindKind::Map(vec![7, 0])), Ok(vec![vec![7], vec![0], vec![7]]));
        let masks = vec![[0, 1].into_iter().collect(), [7].into_iter().collect()];
        assert_eq!(bound(CpuBindKind::Mask(masks)), Ok(vec![vec![0, 1], vec![7], vec![0, 1]]));
        assert_eq!(bound(CpuBindKind::MapDomain(vec![1])), Ok(vec![two.clone(), two.clone(), two]));
        let counted = Binding { counted: true, ..binding };
        let auto = CpuBind::default();
        assert_eq!(counted.of_tasks(&auto), Ok(own.clone()));
    }

    #[test]
    fn cpus_that_are_not_the_steps_are_refused() {
        let places = machine(1, 4, 1);
        let own = vec![vec![0]];
        let binding = Binding { places: &places, step: &[0, 1], own: &own, counted: true };
        let bound = |kind| binding.of_tasks(&CpuBind { kind, verbose: false });
        let refused = bound(CpuBindKind::Map(vec![3])).expect_err("refused");
        assert_eq!(refused, "CPU 3 is not the step's, which has 0-1");
        assert!(bound(CpuBindKind::Mask(vec![[0, 9].into_iter().collect()])).is_err());
        assert!(bound(CpuBindKind::MapDomain(vec![1])).is_err());
    }

    #[test]
    fn cpus_follow_the_gpus() {
        let places = machine(2, 4, 1);
        let free: Vec<usize> = (0..8).collect();
        let domain = |id| BTreeSet::from([id]);
        let dealt = deal_near(&places, &free, 2, &[domain(1), domain(0), domain(1), domain(1)]);
        assert_eq!(dealt, [[4, 5], [0, 1], [6, 7], [2, 3]]);
    }
}
