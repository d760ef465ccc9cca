//! The policies that the study of FGD compares, as its text and its published simulator define them.
//!
//! Scores are whole numbers from 0 to 100 as in Kubernetes, so many nodes are as good as each other;
//! which of those is taken matters (module [`super`]). A pod that asks for a part of a GPU gets that
//! of the fullest GPU that does, but under `random` any, and under `fgd` the one with the best score.

use super::{Draw, Placer, Placing};
use crate::trace::{OpenbNode, OpenbPod};
use muster_model::ApplyError;
use std::collections::{BTreeMap, BTreeSet};

/// The CPUs and GPUs of the largest node, in thousandths, that the study measures by.
const CPU_MOST: f64 = 128_000.0;
const GPU_MOST: f64 = 8000.0;
/// Typical pods of FGD are the most frequent that make up so many hundredths of all.
const TYPICAL_PERCENT: usize = 95;

/// A node with what is left of it.
#[derive(Clone, Debug)]
struct Left {
    cpu: u32,
    memory: u64,
    gpus: Vec<u32>,
    model: String,
    /// Pods with GPUs by what they ask for: a part, or so many.
    kinds: BTreeMap<u32, u32>,
}

/// A score and, for a part of a GPU, which.
type Scored = (i64, Option<usize>);

pub(super) struct Studied {
    placing: Placing,
    nodes: Vec<Left>,
    /// Typical pods with how many of all they are.
    typical: Vec<(OpenbPod, f64)>,
    /// The different pods; their scores by node, `None` where the node does not do. A pod only
    /// changes its own node.
    kinds: Vec<OpenbPod>,
    scores: Vec<Vec<Option<Scored>>>,
}

impl Studied {
    pub(super) fn new(
        nodes: &[OpenbNode],
        pods: &[OpenbPod],
        arrivals: &[OpenbPod],
        placing: Placing,
    ) -> Self {
        let left = |node: &OpenbNode| Left {
            cpu: node.cpu_milli,
            memory: node.memory_mib,
            gpus: vec![1000; node.gpus as usize],
            model: node.model.clone(),
            kinds: BTreeMap::new(),
        };
        let kinds: BTreeSet<OpenbPod> = arrivals.iter().cloned().collect();
        let mut studied = Self {
            placing,
            nodes: nodes.iter().map(left).collect(),
            typical: typical(pods),
            kinds: kinds.into_iter().collect(),
            scores: Vec::new(),
        };
        let of_all = |pod: &OpenbPod| studied.nodes.iter().map(|n| studied.score(n, pod)).collect();
        studied.scores = studied.kinds.iter().map(of_all).collect();
        studied
    }

    /// The score of a node for a pod; `None` where it does not fit.
    fn score(&self, node: &Left, pod: &OpenbPod) -> Option<Scored> {
        if !node.fits(pod) {
            return None;
        }
        let tightest = node.tightest(pod);
        let idle: u32 = node.gpus.iter().sum();
        let score = match self.placing {
            Placing::DotProduct => {
                let cpus = f64::from(node.cpu) / CPU_MOST * f64::from(pod.cpu_milli) / CPU_MOST;
                let gpus = f64::from(idle) / GPU_MOST * pod.gpu_total() as f64 / GPU_MOST;
                (100.0 * (1.0 - f64::midpoint(cpus, gpus))) as i64
            }
            Placing::BestFit => {
                let cpus = f64::from(node.cpu - pod.cpu_milli) / CPU_MOST;
                let gpus = (f64::from(idle) - pod.gpu_total() as f64) / GPU_MOST;
                (100.0 * (1.0 - f64::midpoint(cpus, gpus))) as i64
            }
            Placing::GpuClustering => clustering(node, pod, idle),
            Placing::GpuPacking => packing(node, pod),
            Placing::Fgd => return Some(self.gradient(node, pod)),
            _ => 0,
        };
        Some((score, tightest))
    }

    /// How much the fragments of the node shrink.
    fn gradient(&self, node: &Left, pod: &OpenbPod) -> Scored {
        let before = self.fragments(node);
        let with = |gpu: Option<usize>| {
            let mut after = node.clone();
            after.take(pod, gpu);
            let less = (before - self.fragments(&after)) / 1000.0;
            ((100.0 / (1.0 + (-less).exp())) as i64, gpu)
        };
        if node.tightest(pod).is_none() {
            return with(None);
        }
        let could = (0..node.gpus.len()).filter(|at| node.gpus[*at] >= pod.gpu_milli);
        let better = |best: Scored, one: Scored| if one.0 > best.0 { one } else { best };
        could.map(|at| with(Some(at))).reduce(better).unwrap_or((0, None))
    }

    /// What of the node's idle GPUs typical pods cannot use, in thousandths. For a pod without GPUs
    /// that is all of it, as in the study.
    fn fragments(&self, node: &Left) -> f64 {
        let idle: u32 = node.gpus.iter().sum();
        let lost = |pod: &OpenbPod| {
            if pod.gpus == 0 || !node.could(pod) {
                return idle;
            }
            node.gpus.iter().filter(|left| **left < pod.gpu_milli).sum()
        };
        self.typical.iter().map(|(pod, part)| part * f64::from(lost(pod))).sum()
    }
}

impl Placer for Studied {
    fn place(&mut self, pod: &OpenbPod, draw: &mut Draw) -> Result<bool, ApplyError> {
        let Ok(kind) = self.kinds.binary_search(pod) else { return Ok(false) };
        let scores = self.scores[kind].iter().enumerate();
        let fitting = scores.filter_map(|(node, found)| found.map(|found| (node, found)));
        let (node, gpu) = if self.placing == Placing::Random {
            let fitting: Vec<usize> = fitting.map(|(node, _)| node).collect();
            if fitting.is_empty() {
                return Ok(false);
            }
            let node = fitting[draw.below(fitting.len())];
            let gpus = &self.nodes[node].gpus;
            let could: Vec<usize> =
                (0..gpus.len()).filter(|at| gpus[*at] >= pod.gpu_milli).collect();
            let any = |_| could[draw.below(could.len())];
            (node, self.nodes[node].tightest(pod).map(any))
        } else {
            // The first of the best.
            let best = fitting.reduce(|best, one| if one.1.0 > best.1.0 { one } else { best });
            let Some((node, (_, gpu))) = best else { return Ok(false) };
            (node, gpu)
        };
        self.nodes[node].take(pod, gpu);
        for (at, kind) in self.kinds.iter().enumerate() {
            let score = self.score(&self.nodes[node], kind);
            self.scores[at][node] = score;
        }
        Ok(true)
    }
}

impl Left {
    /// True where CPUs and GPUs are enough.
    fn could(&self, pod: &OpenbPod) -> bool {
        let gpus = self.gpus.iter().filter(|left| **left >= pod.gpu_milli).count();
        let model = pod.models.is_empty() || pod.models.contains(&self.model);
        pod.cpu_milli <= self.cpu && (pod.gpus == 0 || (gpus >= pod.gpus as usize && model))
    }

    fn fits(&self, pod: &OpenbPod) -> bool {
        pod.memory_mib <= self.memory && self.could(pod)
    }

    /// For a part of one GPU: the fullest that does.
    fn tightest(&self, pod: &OpenbPod) -> Option<usize> {
        let part = pod.gpus == 1 && pod.gpu_milli < 1000;
        let could = (0..self.gpus.len()).filter(|at| self.gpus[*at] >= pod.gpu_milli);
        could.min_by_key(|at| self.gpus[*at]).filter(|_| part)
    }

    fn take(&mut self, pod: &OpenbPod, gpu: Option<usize>) {
        self.cpu -= pod.cpu_milli.min(self.cpu);
        self.memory -= pod.memory_mib.min(self.memory);
        if pod.gpus == 0 {
            return;
        }
        *self.kinds.entry(kind(pod)).or_default() += 1;
        if let Some(gpu) = gpu {
            self.gpus[gpu] -= pod.gpu_milli;
            return;
        }
        let could = self.gpus.iter_mut().filter(|left| **left >= pod.gpu_milli);
        could.take(pod.gpus as usize).for_each(|left| *left -= pod.gpu_milli);
    }
}

/// Pods with GPUs alike: parts, or so many.
const fn kind(pod: &OpenbPod) -> u32 {
    if pod.gpu_milli < 1000 { 0 } else { pod.gpus }
}

/// Nodes with only pods alike first, then with such among others, then without any, then the rest;
/// within each the fuller.
fn clustering(node: &Left, pod: &OpenbPod, idle: u32) -> i64 {
    if pod.gpus == 0 {
        return 0;
    }
    let class = match (node.kinds.contains_key(&kind(pod)), node.kinds.len()) {
        (true, 1) => 75,
        (true, _) => 50,
        (false, 0) => 25,
        (false, _) => 0,
    };
    25 * (8000 - i64::from(idle)) / 8000 + class
}

/// GPUs in use first, the fullest; then free GPUs of a node in use, then a free node, the smaller.
fn packing(node: &Left, pod: &OpenbPod) -> i64 {
    if pod.gpus == 0 {
        return 0;
    }
    let free = node.gpus.iter().filter(|left| **left == 1000).count() as i64;
    if free == node.gpus.len() as i64 {
        return (33 - free).max(free);
    }
    let mut could: Vec<u32> =
        node.gpus.iter().copied().filter(|left| *left >= pod.gpu_milli).collect();
    could.sort_unstable();
    could.truncate(pod.gpus as usize);
    let whole = could.iter().filter(|left| **left == 1000).count() as i64;
    if whole > 0 {
        return (50 - whole).max(33);
    }
    let left: i64 = could.iter().map(|left| i64::from(left * 100 / 1000)).sum();
    (100 - left / 10).max(50)
}

/// The most frequent pods, memory aside, with what part of them each is.
fn typical(pods: &[OpenbPod]) -> Vec<(OpenbPod, f64)> {
    let mut counts: BTreeMap<OpenbPod, usize> = BTreeMap::new();
    for pod in pods {
        *counts.entry(OpenbPod { memory_mib: 0, ..pod.clone() }).or_default() += 1;
    }
    let mut frequent: Vec<(OpenbPod, usize)> = counts.into_iter().collect();
    frequent.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
    let mut sum = 0;
    let enough = |(_, count): &(OpenbPod, usize)| {
        let more = sum * 100 < pods.len() * TYPICAL_PERCENT;
        sum += if more { count } else { &0 };
        more
    };
    let frequent: Vec<_> = frequent.into_iter().take_while(enough).collect();
    frequent.into_iter().map(|(pod, count)| (pod, count as f64 / sum as f64)).collect()
}
