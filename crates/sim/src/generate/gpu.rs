//! A made-up cluster of GPUs: gangs, heavy tails, days and weeks, a few users with most of the jobs.
//!
//! The form is what studies of such clusters agree on (Jeon et al., USENIX ATC 2019: Philly; Hu et
//! al., SC 2021: Helios; Weng et al., NSDI 2022: Alibaba): most jobs have one GPU, the few large ones
//! most of the GPU time; run times spread over five powers of ten; many jobs end soon, by a fault of
//! theirs. The numbers are ours, round, and fitted to none of these.

use super::lublin::made;
use super::pace;
use crate::draw::Draw;
use crate::trace::SwfJob;
use std::f64::consts::TAU;

/// Gangs: GPUs, weight, median run time in seconds.
const GANGS: [(u32, f64, f64); 10] = [
    (1, 62.0, 900.0),
    (2, 9.0, 1800.0),
    (4, 9.0, 3600.0),
    (8, 12.0, 7200.0),
    (16, 4.0, 10_800.0),
    (32, 2.0, 14_400.0),
    (64, 1.2, 21_600.0),
    (128, 0.5, 28_800.0),
    (256, 0.2, 43_200.0),
    (512, 0.1, 43_200.0),
];
/// The deviation of the logarithm of run times: 95 % are within a factor of 33.
const SPREAD: f64 = 1.8;
/// So many jobs have a run time of the tail: its least value and its power.
const TAIL: (f64, f64, f64) = (0.05, 21_600.0, 1.3);
/// So many fail soon.
const FAILED: f64 = 0.2;
const RUN_MOST: f64 = 30.0 * 86_400.0;
/// What people ask for: the first of these that is above what they think.
const LIMITS: [i64; 8] = [1800, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 2_592_000];
const USERS: usize = 200;
const HOUR_S: f64 = 3600.0;
/// The busiest hour: in the afternoon.
const PEAK_H: f64 = 15.0;
/// The peak above the mean, and the weekend below a working day.
const DAY: f64 = 0.6;
const WEEKEND: f64 = 0.5;

/// What is to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct GpuCluster {
    /// How many GPUs there are.
    pub gpus: u32,
    /// Which part of them jobs ask for.
    pub load: f64,
    /// The seed.
    pub seed: u64,
}

/// Jobs without an end, in order of their submission; a processor of the trace is a GPU.
#[derive(Clone, Debug)]
pub struct GpuJobs {
    gpus: u32,
    draw: Draw,
    /// Seconds between jobs at the mean of a working day.
    apart_s: f64,
    now_s: f64,
    number: i64,
    users: Vec<f64>,
}

impl GpuCluster {
    /// The jobs.
    pub fn jobs(self) -> GpuJobs {
        let users = (1..=USERS).map(|rank| 1.0 / rank as f64).collect();
        let draw = Draw::new(self.seed);
        let mut jobs =
            GpuJobs { gpus: self.gpus, draw, apart_s: 1.0, now_s: 0.0, number: 0, users };
        let mut sample = Draw::new(!self.seed);
        let work: f64 = (0..super::SAMPLE)
            .map(|_| {
                let (gpus, run, _) = jobs.one(&mut sample);
                f64::from(gpus) * run
            })
            .sum();
        // Five days of seven are working days.
        let mean_rate = (5.0 + 2.0 * WEEKEND) / 7.0;
        let apart = 1.0 / mean_rate;
        jobs.apart_s = 1.0 / pace(self.load, self.gpus, work / super::SAMPLE as f64, apart);
        jobs
    }
}

/// How many jobs come now, in parts of the mean of a working day.
fn rate(now_s: f64) -> f64 {
    let hour = now_s / HOUR_S;
    let day = 1.0 + DAY * (TAU * (hour - PEAK_H) / 24.0).cos();
    let weekend = (hour / 24.0).floor() % 7.0 >= 5.0;
    day * if weekend { WEEKEND } else { 1.0 }
}

impl GpuJobs {
    /// GPUs, run time, and whether it failed.
    fn one(&self, draw: &mut Draw) -> (u32, f64, bool) {
        let fit = GANGS.iter().take_while(|gang| gang.0 <= self.gpus.max(1));
        let weights: Vec<f64> = fit.map(|gang| gang.1).collect();
        let (gpus, _, median) = GANGS[draw.weighted(&weights)];
        let kind = draw.unit();
        let run = if kind < TAIL.0 {
            draw.pareto(TAIL.1, TAIL.2)
        } else {
            median * (SPREAD * draw.normal()).exp()
        };
        let failed = kind > 1.0 - FAILED;
        let run = if failed { run.min(median) * 0.1 } else { run };
        (gpus, run.clamp(1.0, RUN_MOST).round(), failed)
    }

    /// The next instant (by thinning: Lewis and Shedler, 1979).
    fn arrive(&mut self) -> i64 {
        let most = 1.0 + DAY;
        loop {
            self.now_s += self.draw.exponential() * self.apart_s / most;
            if self.draw.unit() * most < rate(self.now_s) {
                return self.now_s as i64;
            }
        }
    }
}

impl Iterator for GpuJobs {
    type Item = SwfJob;

    fn next(&mut self) -> Option<SwfJob> {
        let submit = self.arrive();
        let mut draw = self.draw.clone();
        let (gpus, run, failed) = self.one(&mut draw);
        let user = draw.weighted(&self.users) as i64 + 1;
        // Who fails asked for what a whole run would have taken.
        let thought = run * draw.between(1.0, 4.0) * if failed { 10.0 } else { 1.0 };
        self.draw = draw;
        let limit = LIMITS.into_iter().find(|limit| *limit as f64 >= thought);
        let run = run as i64;
        let limit = limit.unwrap_or(LIMITS[LIMITS.len() - 1]).max(run);
        self.number += 1;
        let status = i64::from(!failed);
        Some(SwfJob { status, ..made(self.number, submit, run, gpus, limit, user) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_jobs_are_small_and_the_large_have_most_of_the_time() {
        let cluster = GpuCluster { gpus: 2048, load: 0.8, seed: 9 };
        let jobs: Vec<SwfJob> = cluster.jobs().take(100_000).collect();
        assert!(jobs.is_sorted_by_key(|job| job.submit));
        let single = jobs.iter().filter(|job| job.requested == 1).count();
        assert!((60_000..66_000).contains(&single), "{single}");
        let work = |of: &dyn Fn(&SwfJob) -> bool| -> i64 {
            jobs.iter().filter(|job| of(job)).map(|job| job.run * job.requested).sum()
        };
        let all = work(&|_| true);
        assert!(work(&|job| job.requested >= 8) * 2 > all);
        let load = all as f64 / (2048.0 * jobs[jobs.len() - 1].submit as f64);
        assert!((load - 0.8).abs() < 0.08, "{load}");
        assert!(jobs.iter().all(|job| job.run >= 1 && job.run <= job.requested_time));
        let mut runs: Vec<i64> = jobs.iter().map(|job| job.run).collect();
        runs.sort_unstable();
        assert!(runs[99_000] > 100 * runs[50_000], "the tail is heavy");
    }

    #[test]
    fn days_and_weeks_have_their_course_and_small_clusters_small_gangs() {
        assert!(rate(15.0 * HOUR_S) > 3.0 * rate(3.0 * HOUR_S));
        assert!(rate(5.0 * 24.0 * HOUR_S) < rate(0.0));
        let small = GpuCluster { gpus: 6, load: 0.5, seed: 1 };
        assert!(small.jobs().take(5000).all(|job| job.requested <= 4));
    }
}
