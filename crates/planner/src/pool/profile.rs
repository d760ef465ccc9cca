//! What is free of a pool over time.

use super::round::seconds_to;
use super::{Pool, Waiting};
use crate::free::effective_end;
use muster_model::{Seconds, Timestamp};
use std::collections::BTreeMap;

/// How many CPUs are free from each instant on.
pub(super) struct Profile {
    steps: Vec<(Timestamp, u32)>,
    found: Found,
}

/// Where starts were found. A profile only fills, so who asks for no less of anything starts no
/// sooner: the next of a queue is searched from there on.
#[derive(Default)]
struct Found {
    /// For each number of CPUs lengths with starts; longer ones start later.
    starts: BTreeMap<u32, Vec<(Seconds, Timestamp)>>,
}

impl Found {
    /// Before this nobody starts who asks for so much.
    fn not_before(&self, cpus: u32, length: Seconds) -> Timestamp {
        let of = |starts: &Vec<(Seconds, Timestamp)>| {
            let shorter = starts.partition_point(|(other, _)| *other <= length);
            shorter.checked_sub(1).map(|last| starts[last].1)
        };
        let known = self.starts.range(..=cpus).filter_map(|(_, starts)| of(starts));
        known.max().unwrap_or(Timestamp::from_millis(i64::MIN))
    }

    fn note(&mut self, cpus: u32, length: Seconds, start: Timestamp) {
        let starts = self.starts.entry(cpus).or_default();
        let from = starts.partition_point(|(other, _)| *other < length);
        let passed = starts[from..].partition_point(|(_, other)| *other <= start);
        starts.splice(from..from + passed, [(length, start)]);
    }
}

impl Profile {
    pub(super) fn of(pool: &Pool, now: Timestamp) -> Self {
        let mut steps = vec![(now, pool.free)];
        let mut free = pool.free;
        for running in &pool.running {
            free += running.cpus;
            let end = effective_end(running.end, now);
            match steps.last_mut() {
                Some(last) if last.0 == end => last.1 = free,
                _ => steps.push((end, free)),
            }
        }
        Self { steps, found: Found::default() }
    }

    /// The first instant from which a job has its CPUs for as long as it runs.
    pub(super) fn earliest(&mut self, waiting: &Waiting, looked_at: &mut u64) -> Timestamp {
        let from = self.found.not_before(waiting.cpus, waiting.length);
        let start = self.earliest_from(from, waiting, looked_at);
        self.found.note(waiting.cpus, waiting.length, start);
        start
    }

    fn earliest_from(&self, from: Timestamp, waiting: &Waiting, looked_at: &mut u64) -> Timestamp {
        let mut start: Option<Timestamp> = None;
        let mut last = Timestamp::NEVER;
        let first = self.steps.partition_point(|(at, _)| *at < from);
        for (at, free) in &self.steps[first..] {
            *looked_at += 1;
            last = *at;
            match start {
                Some(start) if *at >= start.plus(waiting.length) => return start,
                _ if *free < waiting.cpus => start = None,
                _ => start = start.or(Some(*at)),
            }
        }
        start.unwrap_or(last)
    }

    /// How long each number of CPUs is free from the first instant on.
    pub(super) fn lasts(&self) -> Lasts {
        let mut lasts = Lasts { now: Timestamp::NEVER, least: Vec::new() };
        let Some((now, mut least)) = self.steps.first().copied() else { return lasts };
        lasts.now = now;
        for (at, free) in self.steps.iter().skip(1) {
            if *free < least {
                lasts.least.push((least, *at));
                least = *free;
            }
            if least == 0 {
                break;
            }
        }
        lasts.least.push((least, Timestamp::NEVER));
        lasts
    }

    pub(super) fn reserve(&mut self, from: Timestamp, to: Timestamp, cpus: u32) {
        let first = self.split(from);
        let end = self.split(to);
        for step in &mut self.steps[first..end] {
            step.1 = step.1.saturating_sub(cpus);
        }
    }

    fn split(&mut self, at: Timestamp) -> usize {
        let next = self.steps.partition_point(|s| s.0 < at);
        if self.steps.get(next).is_none_or(|s| s.0 != at) {
            let free = next.checked_sub(1).map_or(0, |before| self.steps[before].1);
            self.steps.insert(next, (at, free));
        }
        next
    }
}

/// How long CPUs are free from an instant on: so many at most, until then; fewer and fewer.
pub(super) struct Lasts {
    now: Timestamp,
    least: Vec<(u32, Timestamp)>,
}

impl Lasts {
    /// How many seconds so many CPUs are free; `None` where they are not.
    pub(super) fn seconds(&self, cpus: u32) -> Option<i64> {
        let enough = self.least.partition_point(|(free, _)| *free >= cpus);
        let (_, until) = self.least.get(enough.checked_sub(1)?)?;
        Some(seconds_to(self.now, *until))
    }
}
