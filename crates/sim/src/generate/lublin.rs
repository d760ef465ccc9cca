//! The model of Lublin and Feitelson.
//!
//! Uri Lublin and Dror G. Feitelson, *The workload on parallel supercomputers: modeling the
//! characteristics of rigid jobs*, Journal of Parallel and Distributed Computing 63(11), 2003 (a
//! report of 1999): the constants are theirs for jobs of all kinds together. The model knows neither
//! users nor what jobs ask for: the latter is the run time here, or more by a factor.

use super::pace;
use crate::draw::Draw;
use crate::trace::SwfJob;

/// Which part of the jobs has one processor.
const SERIAL: f64 = 0.244;
/// Which part has a power of two, of more than one.
const POWER_OF_TWO: f64 = 0.576;
/// The logarithms of sizes are even below a point and above it: where it begins,
const SIZE_LOW: f64 = 0.8;
/// how far the point is below the largest,
const SIZE_POINT: f64 = 2.5;
/// and which part is below it.
const SIZE_PART: f64 = 0.86;
/// The logarithms of run times are one of two gammas (shape, scale).
const RUN_SHORT: (f64, f64) = (4.2, 0.94);
const RUN_LONG: (f64, f64) = (312.0, 0.03);
/// The part of the first falls with the size: slope and start.
const RUN_PART: (f64, f64) = (-0.0054, 0.78);
/// No run time is above the exponential of this.
const RUN_MOST: f64 = 12.0;
/// The logarithms of the times between arrivals in rush hours; the shape is stretched by the last for
/// all hours.
const ARRIVAL: (f64, f64) = (10.2303 * 1.0225, 0.4871);
const ARRIVAL_MOST: f64 = 13.0;
/// When in the day jobs come: a gamma over half hours,
const DAY: (f64, f64) = (8.1737, 3.9631);
/// which begins with this one.
const DAY_START: usize = 11;
const BUCKETS: usize = 48;
const BUCKET_S: f64 = 1800.0;

/// What is to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Lublin {
    /// How large the machine is.
    pub processors: u32,
    /// Which part of the machine jobs ask for; `None` is the pace of the model.
    pub load: Option<f64>,
    /// Jobs ask for their run time and up to so many times as much more.
    pub estimates: f64,
    /// The seed.
    pub seed: u64,
}

/// Jobs without an end, in order of their submission.
#[derive(Clone, Debug)]
pub struct LublinJobs {
    model: Lublin,
    draw: Draw,
    /// How much of a mean half hour's arrivals each half hour of the day has.
    weights: Vec<f64>,
    bucket: usize,
    /// How far into the half hour, from 0 to 1.
    into: f64,
    /// When that half hour began.
    begun_s: f64,
    pace: f64,
    number: i64,
}

impl Lublin {
    /// The jobs.
    pub fn jobs(self) -> LublinJobs {
        let mut jobs = LublinJobs {
            model: self,
            draw: Draw::new(self.seed),
            weights: weights(),
            bucket: 0,
            into: 0.0,
            begun_s: 0.0,
            pace: 1.0,
            number: 0,
        };
        if let Some(load) = self.load {
            let mut sample = Draw::new(!self.seed);
            let (mut work, mut apart) = (0.0, 0.0);
            for _ in 0..super::SAMPLE {
                let size = jobs.size(&mut sample);
                work += f64::from(size) * run(size, &mut sample) as f64;
                apart += between(&mut sample);
            }
            let count = super::SAMPLE as f64;
            jobs.pace = pace(load, self.processors, work / count, apart / count);
        }
        jobs
    }
}

/// Proportional to the distribution function of a gamma: a series of which all terms are positive.
fn gamma_part(shape: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut at) = (1.0, 1.0, shape);
    while term > sum * 1e-16 {
        at += 1.0;
        term *= x / at;
        sum += term;
    }
    sum * (shape * x.ln() - x).exp()
}

fn weights() -> Vec<f64> {
    let mut weights = vec![0.0; BUCKETS];
    for at in DAY_START..DAY_START + BUCKETS {
        let until = |half: f64| gamma_part(DAY.0, (at as f64 + half) / DAY.1);
        weights[(at - 1) % BUCKETS] = until(0.5) - until(-0.5);
    }
    let mean = weights.iter().sum::<f64>() / BUCKETS as f64;
    weights.iter().map(|weight| weight / mean).collect()
}

/// The time between two arrivals, were all half hours alike.
fn between(draw: &mut Draw) -> f64 {
    loop {
        let drawn = draw.gamma(ARRIVAL.0, ARRIVAL.1);
        if drawn <= ARRIVAL_MOST {
            return drawn.exp();
        }
    }
}

fn run(size: u32, draw: &mut Draw) -> i64 {
    let part = (RUN_PART.0 * f64::from(size) + RUN_PART.1).clamp(0.0, 1.0);
    loop {
        let (shape, scale) = if draw.unit() <= part { RUN_SHORT } else { RUN_LONG };
        let drawn = draw.gamma(shape, scale);
        if drawn <= RUN_MOST {
            return (drawn.exp() as i64).max(1);
        }
    }
}

impl LublinJobs {
    fn size(&self, draw: &mut Draw) -> u32 {
        let most = f64::from(self.model.processors).log2();
        let kind = draw.unit();
        if kind <= SERIAL || most < 1.0 {
            return 1;
        }
        let point = (most - SIZE_POINT).max(SIZE_LOW.min(most));
        let drawn = match draw.unit() <= SIZE_PART {
            true => draw.between(SIZE_LOW.min(point), point),
            false => draw.between(point, most),
        };
        let drawn = if kind <= SERIAL + POWER_OF_TWO { drawn.round() } else { drawn };
        (drawn.exp2().round() as u32).clamp(1, self.model.processors)
    }

    /// Steps to the next arrival: time is worth more where more jobs come.
    fn arrive(&mut self) -> i64 {
        let mut left = between(&mut self.draw) / (self.pace * BUCKET_S);
        loop {
            let weight = self.weights[self.bucket];
            let rest = weight * (1.0 - self.into);
            if left < rest {
                self.into += left / weight;
                return (self.begun_s + self.into * BUCKET_S) as i64;
            }
            left -= rest;
            self.bucket = (self.bucket + 1) % BUCKETS;
            self.into = 0.0;
            self.begun_s += BUCKET_S;
        }
    }
}

impl Iterator for LublinJobs {
    type Item = SwfJob;

    fn next(&mut self) -> Option<SwfJob> {
        let submit = self.arrive();
        let mut draw = self.draw.clone();
        let size = self.size(&mut draw);
        let run = run(size, &mut draw);
        let more = draw.between(0.0, self.model.estimates.max(0.0));
        self.draw = draw;
        self.number += 1;
        let requested_time = (run as f64 * (1.0 + more)).ceil() as i64;
        Some(made(self.number, submit, run, size, requested_time, -1))
    }
}

/// A job of which no more is known.
pub(super) fn made(
    number: i64,
    submit: i64,
    run: i64,
    size: u32,
    requested_time: i64,
    user: i64,
) -> SwfJob {
    SwfJob {
        line: number.unsigned_abs(),
        number,
        submit,
        wait: -1,
        run,
        allocated: i64::from(size),
        cpu_time: -1.0,
        memory: -1,
        requested: i64::from(size),
        requested_time,
        requested_memory: -1,
        status: 1,
        user,
        group: -1,
        executable: -1,
        queue: -1,
        partition: -1,
        preceding: -1,
        think_time: -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(load: Option<f64>, count: usize) -> Vec<SwfJob> {
        Lublin { processors: 128, load, estimates: 0.0, seed: 3 }.jobs().take(count).collect()
    }

    #[test]
    fn sizes_and_run_times_are_those_of_the_paper() {
        let jobs = drawn(None, 100_000);
        let part = |of: &dyn Fn(&SwfJob) -> bool| {
            jobs.iter().filter(|job| of(job)).count() as f64 / jobs.len() as f64
        };
        assert!((part(&|job| job.requested == 1) - SERIAL).abs() < 0.01);
        let power = part(&|job| job.requested > 1 && job.requested.count_ones() == 1);
        assert!(power > POWER_OF_TWO - 0.01 && power < POWER_OF_TWO + 0.06, "{power}");
        // The mean of a mixture of gammas, over the logarithms of serial jobs.
        let serial: Vec<f64> =
            jobs.iter().filter(|j| j.requested == 1).map(|j| (j.run as f64).ln()).collect();
        let mean = serial.iter().sum::<f64>() / serial.len() as f64;
        let part = RUN_PART.0 + RUN_PART.1;
        let wanted = part * 4.2 * 0.94 + (1.0 - part) * 312.0 * 0.03;
        assert!((mean - wanted).abs() < 0.15, "{mean} {wanted}");
        assert!(jobs.iter().all(|job| job.requested <= 128 && job.run >= 1));
    }

    #[test]
    fn jobs_come_by_day_and_at_the_load_that_is_asked_for() {
        let jobs = drawn(Some(0.7), 100_000);
        assert!(jobs.is_sorted_by_key(|job| job.submit));
        let hour = |from: i64, to: i64| {
            let at = |job: &&SwfJob| (from..to).contains(&(job.submit / 3600 % 24));
            jobs.iter().filter(at).count()
        };
        assert!(hour(12, 16) > 3 * hour(2, 6), "{} {}", hour(12, 16), hour(2, 6));
        let work: i64 = jobs.iter().map(|job| job.run * job.requested).sum();
        let load = work as f64 / (128.0 * jobs[jobs.len() - 1].submit as f64);
        assert!((load - 0.7).abs() < 0.04, "{load}");
        assert_eq!(drawn(Some(0.7), 50), jobs[..50]);
    }
}
