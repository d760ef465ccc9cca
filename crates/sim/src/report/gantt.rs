//! Who had which processors: two days of a replay as rectangles.
//!
//! The machine is a pool, so which processors a job had is nobody's choice: it takes the lowest that
//! are free, in the order of starts.

use super::svg::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, escaped, open};
use crate::twin::Finished;
use std::fmt::Write as _;

/// How long a picture is, seconds.
pub const WINDOW_S: i64 = 2 * 86_400;
/// More jobs are too many to be seen apart.
const JOBS_MAX: usize = 2000;
/// Waits up to so many seconds are of a class; longer ones of the last.
const CLASSES: [i64; 3] = [60, 3600, 6 * 3600];
/// The classes in words.
pub(super) const CLASS_WORDS: [&str; 4] =
    ["at once", "within an hour", "within six hours", "later"];

/// A job that was there in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bar {
    start: i64,
    end: i64,
    processors: i64,
    wait: i64,
}

/// The jobs of a window.
#[derive(Clone, Debug)]
pub struct Gantt {
    from: i64,
    bars: Vec<Bar>,
    /// There were more.
    many: bool,
}

impl Gantt {
    /// Nothing yet of the window that begins at an instant.
    pub const fn new(from: i64) -> Self {
        Self { from, bars: Vec::new(), many: false }
    }

    /// Takes up a job where it ran in the window.
    pub fn add(&mut self, done: &Finished) {
        if done.end <= self.from || done.start >= self.from + WINDOW_S {
            return;
        }
        self.many |= self.bars.len() >= JOBS_MAX;
        if !self.many {
            let (start, end, processors) = (done.start, done.end, done.job.requested);
            self.bars.push(Bar { start, end, processors, wait: done.wait() });
        }
    }

    /// The picture; `None` where there is nothing, or too much, to see.
    pub(super) fn svg(&self, title: &str, processors: u32) -> Option<String> {
        if self.bars.is_empty() || self.many {
            return None;
        }
        let mut bars = self.bars.clone();
        bars.sort_unstable_by_key(|bar| (bar.start, bar.end, bar.processors, bar.wait));
        let mut svg = open(title);
        let tall = (HEIGHT - TOP - BOTTOM) / f64::from(processors.max(1));
        let at_x = |at: i64| {
            let part = (at - self.from).clamp(0, WINDOW_S) as f64 / WINDOW_S as f64;
            LEFT + part * (WIDTH - LEFT - RIGHT)
        };
        let mut free_at = vec![i64::MIN; processors as usize];
        for bar in &bars {
            let class = CLASSES.iter().take_while(|most| bar.wait > **most).count();
            let (x, end) = (at_x(bar.start), at_x(bar.end));
            for (first, count) in taken(&mut free_at, bar) {
                let y = TOP + first as f64 * tall;
                let _ = write!(
                    svg,
                    "<rect class=\"w{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
                    height=\"{:.1}\"/>",
                    (end - x).max(0.3),
                    count as f64 * tall
                );
            }
        }
        for hour in (0..=48).step_by(12) {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{hour}</text>",
                at_x(self.from + hour * 3600),
                HEIGHT - BOTTOM + 20.0
            );
        }
        for (label, y) in [(processors.to_string(), TOP + 10.0), ("0".into(), HEIGHT - BOTTOM)] {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                escaped(&label)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">hours</text></svg>",
            WIDTH - RIGHT,
            HEIGHT - 4.0
        );
        Some(svg)
    }
}

/// Takes the lowest processors that are free for a job: pieces as (first, count).
fn taken(free_at: &mut [i64], bar: &Bar) -> Vec<(usize, usize)> {
    let mut left = bar.processors;
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for (at, free) in free_at.iter_mut().enumerate() {
        if left == 0 {
            break;
        }
        if *free <= bar.start {
            *free = bar.end;
            left -= 1;
            match pieces.last_mut() {
                Some((first, count)) if *first + *count == at => *count += 1,
                _ => pieces.push((at, 1)),
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SwfJob;

    fn done(submit: i64, start: i64, run: i64, requested: i64) -> Finished {
        Finished::once(SwfJob { submit, run, requested, ..SwfJob::default() }, start)
    }

    #[test]
    fn nobody_has_what_another_has() {
        let bar = |start, end, processors| Bar { start, end, processors, wait: 0 };
        let mut free = vec![i64::MIN; 6];
        assert_eq!(taken(&mut free, &bar(0, 10, 2)), [(0, 2)]);
        assert_eq!(taken(&mut free, &bar(0, 20, 2)), [(2, 2)]);
        assert_eq!(taken(&mut free, &bar(10, 30, 4)), [(0, 2), (4, 2)]);
    }

    #[test]
    fn a_picture_has_the_jobs_of_its_window() {
        let mut gantt = Gantt::new(1000);
        assert_eq!(gantt.svg("x", 8), None);
        gantt.add(&done(0, 0, 1000, 4));
        gantt.add(&done(0, 500, 1000, 4));
        gantt.add(&done(1500, 90_000, 1000, 8));
        gantt.add(&done(0, 1000 + WINDOW_S, 10, 1));
        let svg = gantt.svg("</svg>", 8).unwrap();
        assert_eq!((svg.matches("<rect").count(), svg.matches("class=\"w3\"").count()), (2, 1));
        assert!(svg.contains("&lt;/svg&gt;"));
    }
}
