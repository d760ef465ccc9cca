//! What a replay looks like: what was busy and what waited over time, how slowdowns are distributed,
//! and one HTML file that shows it for several policies.
//!
//! All of it is bounded, however long the trace: time is cut into at most [`BINS`] pieces, which
//! double when the trace goes on.

mod gantt;
mod html;
mod svg;

pub use gantt::{Gantt, WINDOW_S};
pub use html::page;

use crate::twin::{Finished, Summary, UserSummary};
use serde::Serialize;

/// Time is cut into at most so many pieces.
pub const BINS: usize = 512;

/// Slowdowns are counted in classes: so many to a factor of ten, up to a factor of a million.
const CLASSES_PER_DECADE: f64 = 8.0;
const CLASSES: usize = 49;

/// Something over time: its integral over each piece.
#[derive(Clone, Debug)]
struct Series {
    from: i64,
    width: i64,
    bins: Vec<f64>,
}

impl Series {
    const fn new(from: i64) -> Self {
        Self { from, width: 60, bins: Vec::new() }
    }

    /// Adds an amount that is there from one instant to another.
    fn add(&mut self, begin: i64, end: i64, amount: f64) {
        let (begin, end) = (begin.max(self.from), end.max(self.from));
        if end <= begin {
            return;
        }
        while (end - self.from - 1) / self.width >= BINS as i64 {
            self.width *= 2;
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let piece = |at: i64| ((at - self.from) / self.width) as usize;
        let last = piece(end - 1);
        if self.bins.len() <= last {
            self.bins.resize(last + 1, 0.0);
        }
        for at in piece(begin)..=last {
            let (left, right) =
                (self.from + at as i64 * self.width, self.from + (at as i64 + 1) * self.width);
            self.bins[at] += amount * (end.min(right) - begin.max(left)) as f64;
        }
    }

    /// Means over the pieces, as (seconds from the start of the log, value).
    fn means(&self) -> Vec<(f64, f64)> {
        let width = self.width as f64;
        let point =
            |(at, sum): (usize, &f64)| (self.from as f64 + (at as f64 + 0.5) * width, sum / width);
        self.bins.iter().enumerate().map(point).collect()
    }
}

/// Follows a replay, job by job.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    busy: Option<Series>,
    waiting: Option<Series>,
    gantt: Option<Gantt>,
    classes: Vec<u64>,
}

/// What a [`Recorder`] saw.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// The aggregates.
    pub summary: Summary,
    /// Each user's figures, who ran most first.
    pub users: Vec<UserSummary>,
    /// Busy processors over time: seconds from the start of the log, mean number.
    pub busy: Vec<(f64, f64)>,
    /// Processors that waiting jobs ask for over time.
    pub waiting: Vec<(f64, f64)>,
    /// Two days of it, job by job.
    #[serde(skip)]
    pub gantt: Option<Gantt>,
    /// Bounded slowdown and the part of the jobs that was slowed at least so much.
    pub slowed: Vec<(f64, f64)>,
}

impl Recorder {
    /// Follows two days from an instant on job by job, beside the whole.
    pub fn with_gantt(from: Option<i64>) -> Self {
        Self { gantt: from.map(Gantt::new), ..Self::default() }
    }

    /// Takes up a job that is over. Jobs come in the order of their ends, so the first submission
    /// may be a later one's: nothing is shown of what lies before that of the first.
    pub fn add(&mut self, done: &Finished) {
        let (job, start) = (&done.job, done.start);
        let amount = job.requested as f64;
        let from = job.submit;
        self.busy.get_or_insert_with(|| Series::new(from)).add(start, done.end, amount);
        self.waiting.get_or_insert_with(|| Series::new(from)).add(job.submit, start, amount);
        if let Some(gantt) = &mut self.gantt {
            gantt.add(done);
        }
        let slowdown = done.bounded_slowdown();
        self.classes.resize(CLASSES, 0);
        let class = (slowdown.log10() * CLASSES_PER_DECADE) as usize;
        self.classes[class.min(CLASSES - 1)] += 1;
    }

    /// What was seen, beside the aggregates of all jobs and of each user's.
    pub fn picture(&self, summary: Summary, users: Vec<UserSummary>) -> Picture {
        let all: u64 = self.classes.iter().sum();
        let mut left = all;
        let mut slowed = Vec::with_capacity(CLASSES);
        for (class, count) in self.classes.iter().enumerate() {
            let bound = 10f64.powf(class as f64 / CLASSES_PER_DECADE);
            slowed.push((bound, left as f64 / all.max(1) as f64));
            if left == 0 {
                break;
            }
            left -= count;
        }
        let means_of = |series: &Option<Series>| series.as_ref().map_or(Vec::new(), Series::means);
        Picture {
            summary,
            users,
            busy: means_of(&self.busy),
            waiting: means_of(&self.waiting),
            gantt: self.gantt.clone(),
            slowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_cut_coarser_as_it_goes_on_and_loses_nothing() {
        let mut series = Series::new(100);
        series.add(100, 400, 2.0);
        series.add(130, 190, 1.0);
        assert_eq!(series.bins[..5], [150.0, 150.0, 120.0, 120.0, 120.0]);
        series.add(1_000_000, 1_000_060, 4.0);
        assert!(series.bins.len() <= BINS);
        assert!((series.bins.iter().sum::<f64>() - 900.0).abs() < 1e-9);
        series.add(0, 90, 7.0);
        assert!((series.bins.iter().sum::<f64>() - 900.0).abs() < 1e-9, "before the beginning");
    }
}
