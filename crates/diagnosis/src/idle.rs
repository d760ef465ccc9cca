//! How long all GPUs of a job have done nothing, by measurements without a gap.

use std::collections::BTreeMap;

use crate::sample::{Gpu, Sample};

/// A GPU whose kernels ran for less than this share of the time does nothing.
const BUSY_MIN: f64 = 0.01;

/// One whose memory in use moves by this share does something: it loads, or lets go.
const MEMORY_MIN: f64 = 0.01;

/// Fewer samples say nothing, however far apart.
const SAMPLES_MIN: u32 = 10;

/// A stretch in which a job's GPUs did nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleStretch {
    /// The first sample of it and the last.
    stretch: Option<(f64, f64)>,
    samples: u32,
    /// The memory in use by GPU when it began; what nobody knows is left out.
    memory: BTreeMap<String, f64>,
}

impl IdleStretch {
    /// Takes a sample of a job with so many GPUs, newer than all before it. A stretch ends with a GPU
    /// that did something, with one that was not measured, and with a gap between two samples.
    pub fn add(&mut self, sample: &Sample, gpus: usize, gap_max: f64) {
        let gap = self.stretch.is_some_and(|(_, last)| sample.at - last > gap_max);
        if gap || !sample.gpus.iter().all(|gpu| self.keeps_memory(gpu)) {
            self.end();
        }
        let all = gpus > 0 && sample.gpus.len() == gpus;
        if !all || !sample.gpus.iter().all(does_nothing) {
            return self.end();
        }
        let (first, _) = self.stretch.unwrap_or((sample.at, sample.at));
        self.stretch = Some((first, sample.at));
        self.samples += 1;
        if self.memory.is_empty() {
            let known = sample.gpus.iter().filter_map(|gpu| Some((gpu.uuid.clone(), gpu.memory?)));
            self.memory = known.collect();
        }
    }

    /// Nothing could be measured.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// Whole seconds that it lasts by now; 0 while there are too few samples to say so.
    pub fn seconds(&self) -> u64 {
        let (first, last) = self.stretch.unwrap_or_default();
        if self.samples < SAMPLES_MIN { 0 } else { (last - first) as u64 }
    }

    fn keeps_memory(&self, gpu: &Gpu) -> bool {
        let before = self.memory.get(&gpu.uuid);
        before.zip(gpu.memory).is_none_or(|(before, now)| (now - before).abs() < MEMORY_MIN)
    }
}

/// What nobody measured is no proof of anything.
fn does_nothing(gpu: &Gpu) -> bool {
    gpu.busy.is_some_and(|busy| busy < BUSY_MIN) && gpu.sm_active.is_none_or(|sm| sm < BUSY_MIN)
}

#[cfg(test)]
mod tests {
    use super::IdleStretch;
    use crate::sample::{Gpu, Sample};

    const GAP_MAX: f64 = 90.0;

    fn gpu(uuid: &str, busy: Option<f64>) -> Gpu {
        Gpu { uuid: uuid.to_owned(), busy, memory: Some(0.4), ..Gpu::default() }
    }

    fn idle(at: f64) -> Sample {
        Sample { at, gpus: vec![gpu("a", Some(0.0)), gpu("b", Some(0.0))], ..Sample::default() }
    }

    /// Idle from 0 on, with a sample every 30 seconds up to 600 but for what `other` says.
    fn after(other: impl Fn(f64) -> Option<Sample>) -> u64 {
        let mut stretch = IdleStretch::default();
        for n in 0..=20 {
            let at = 30.0 * f64::from(n);
            stretch.add(&other(at).unwrap_or_else(|| idle(at)), 2, GAP_MAX);
        }
        stretch.seconds()
    }

    #[test]
    fn it_lasts_from_the_first_idle_sample_to_the_last() {
        assert_eq!(after(|_| None), 600);
        let mut few = IdleStretch::default();
        for at in [0.0, 80.0, 160.0, 240.0] {
            few.add(&idle(at), 2, GAP_MAX);
        }
        assert_eq!(few.seconds(), 0);
    }

    #[test]
    fn one_gpu_that_works_for_one_sample_ends_it() {
        let works = |gpu: Gpu| {
            after(|at| {
                let mut sample = idle(at);
                sample.gpus[1] = gpu.clone();
                (at as u32 == 210).then_some(sample)
            })
        };
        assert_eq!(works(gpu("b", Some(0.02))), 360);
        let multiprocessors = Gpu { sm_active: Some(0.3), ..gpu("b", Some(0.0)) };
        assert_eq!(works(multiprocessors), 360);
        // It is still of no use to anybody below that.
        assert_eq!(works(gpu("b", Some(0.005))), 600);
    }

    #[test]
    fn memory_that_moves_is_work() {
        let loads = |at: f64| {
            let mut sample = idle(at);
            sample.gpus[0].memory = Some(0.43);
            (at >= 210.0).then_some(sample)
        };
        assert_eq!(after(loads), 390);
        let nobody_knows = |at: f64| {
            let mut sample = idle(at);
            sample.gpus[0].memory = None;
            Some(sample)
        };
        assert_eq!(after(nobody_knows), 600);
    }

    #[test]
    fn what_was_not_measured_is_not_idle() {
        let without = |gpus: Vec<Gpu>| {
            after(|at| {
                (at as u32 == 210).then(|| Sample { at, gpus: gpus.clone(), ..Sample::default() })
            })
        };
        assert_eq!(without(vec![gpu("a", Some(0.0)), gpu("b", None)]), 360);
        assert_eq!(without(vec![gpu("a", Some(0.0))]), 360);
        assert_eq!(without(Vec::new()), 360);
        let mut stretch = IdleStretch::default();
        (0..20).for_each(|n| stretch.add(&idle(30.0 * f64::from(n)), 2, GAP_MAX));
        stretch.end();
        assert_eq!(stretch.seconds(), 0);
        // A job without GPUs has none that are idle.
        (0..20).for_each(|n| {
            stretch.add(&Sample { gpus: vec![], ..idle(30.0 * f64::from(n)) }, 0, GAP_MAX);
        });
        assert_eq!(stretch.seconds(), 0);
    }

    #[test]
    fn a_gap_ends_it() {
        let mut stretch = IdleStretch::default();
        (0..20).for_each(|n| stretch.add(&idle(30.0 * f64::from(n)), 2, GAP_MAX));
        assert_eq!(stretch.seconds(), 570);
        (0..20).for_each(|n| stretch.add(&idle(1_000.0 + 30.0 * f64::from(n)), 2, GAP_MAX));
        assert_eq!(stretch.seconds(), 570);
    }
}
