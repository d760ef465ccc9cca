//! When will it start? Intervals by replaying from now on with run times that are drawn, and how good
//! they are over a trace.
//!
//! A job that has to wait gets three instants, of which its start is later than the first in nine of
//! ten cases, later than the second in half of them and than the third in one of ten. From the state
//! at its submission the queue is run to its start several times: each time what runs and what waits
//! takes a part of what it asked for that is drawn from what its user's last jobs took, or everybody's.
//! Who comes later and passes is not in it, so the quantiles of these starts are then moved by how far
//! earlier ones were off: by the same quantile of the ratios between waits that were seen and waits
//! that had been foreseen (in the manner of conformal prediction: Vovk, Gammerman and Shafer, 2005).
//! Which quantile of the ratios that is, is corrected by every outcome, so that as many starts come
//! before each instant as ought to, however what comes differs from what was (adaptive conformal
//! inference: Gibbs and Candes, NeurIPS 2021). It is corrected as soon as an outcome is known: at the
//! start, or when the instant has passed and the job still waits. Else who waits long would be heard of
//! last, and in a queue that grows hardly at all.
//! Nothing that is used was unknown at that moment.

use super::{Finished, Live, Setting, Twin, TwinError, Watcher, drive};
use crate::draw::Draw;
use crate::trace::{SwfJob, TraceError};
use muster_model::{ApplyError, JobId, Timestamp};
use muster_planner::Planner;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The parts of all starts that are to be before each of the three instants.
pub const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];

/// So many outcomes are seen before anything is scored, and so many are remembered.
const SEEN_LEAST: usize = 100;
const SEEN_MOST: usize = 400;
/// What is remembered of jobs that are over: of a user, and of all.
const OF_USER: usize = 20;
const OF_ALL: usize = 500;
/// A user with so many is known.
const KNOWN: usize = 4;
/// So often a part is drawn that is more than what ran already.
const TRIES: usize = 20;
/// How far an outcome moves the level at which a quantile is taken.
const STEP: f64 = 0.005;
/// Waits of some seconds are as good as none: so much is added before ratios are taken.
const GRAIN_S: f64 = 60.0;

/// How starts are foreseen.
#[derive(Clone, Copy, Debug)]
pub struct Foreseeing {
    /// One in so many waiting jobs is foreseen.
    pub every: u32,
    /// So many times the future is drawn for each.
    pub samples: u32,
    /// The seed.
    pub seed: u64,
}

/// A start that was foreseen, and when it came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Foreseen {
    /// The job's number in the trace.
    pub job: i64,
    /// When it was submitted, seconds from the start of the log.
    pub submit_s: i64,
    /// The wait by each of [`QUANTILES`].
    pub wait_s: [f64; 3],
    /// The wait by time limits, each job planned in its turn.
    pub wait_by_limits_s: f64,
    /// The wait as it was.
    pub waited_s: i64,
}

/// How good the foreseen starts are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// How many were scored.
    pub jobs: u64,
    /// Which part started within the interval. A start at the very instant of an end counts half:
    /// where times are known to the second many are, and who counts them whole, or not at all, finds
    /// no interval that holds what it says (the mid-probability of distributions with atoms:
    /// Czado, Gneiting and Held, Biometrics 2009). Where both ends are one instant and it is hit,
    /// it counts as what the ends promise.
    pub coverage: f64,
    /// Which part started at the very instant of an end.
    pub on_end: f64,
    /// Which part started before it.
    pub before: f64,
    /// Which part started after it.
    pub after: f64,
    /// The pinball loss (Koenker and Bassett, 1978), mean over the three quantiles and all jobs.
    pub pinball_s: f64,
    /// The same for the one instant by time limits in place of all three.
    pub pinball_by_limits_s: f64,
    /// How far the middle is off, on average.
    pub error_s: f64,
    /// How far the instant by time limits is off.
    pub error_by_limits_s: f64,
}

/// What a quantile costs: being above it costs its part, being below the rest.
fn pinball(part: f64, foreseen: f64, seen: f64) -> f64 {
    let above = seen - foreseen;
    (part * above).max((part - 1.0) * above)
}

/// How far a start counts as within its interval.
fn within([from, _, to]: [f64; 3], seen: f64) -> f64 {
    let is = |end: f64| seen.total_cmp(&end).is_eq();
    match (is(from), is(to)) {
        (true, true) => QUANTILES[2] - QUANTILES[0],
        (false, false) => f64::from(u8::from((from..to).contains(&seen))),
        _ => 0.5,
    }
}

/// The score of foreseen starts; zeros where there are none.
pub fn score(all: &[Foreseen]) -> Score {
    let count = all.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Foreseen) -> f64| all.iter().map(of).sum::<f64>() / count;
    let part = |of: &dyn Fn(&Foreseen) -> bool| mean(&|one| f64::from(u8::from(of(one))));
    let seen = |one: &Foreseen| one.waited_s as f64;
    let loss = |of: &dyn Fn(&Foreseen, usize) -> f64| {
        mean(&|one| {
            let losses = (0..3).map(|at| pinball(QUANTILES[at], of(one, at), seen(one)));
            losses.sum::<f64>() / 3.0
        })
    };
    Score {
        jobs: all.len() as u64,
        coverage: mean(&|one| within(one.wait_s, seen(one))),
        on_end: part(&|one| [one.wait_s[0], one.wait_s[2]].contains(&seen(one))),
        before: part(&|one| seen(one) < one.wait_s[0]),
        after: part(&|one| seen(one) > one.wait_s[2]),
        pinball_s: loss(&|one, at| one.wait_s[at]),
        pinball_by_limits_s: loss(&|one, _| one.wait_by_limits_s),
        error_s: mean(&|one| (one.wait_s[1] - seen(one)).abs()),
        error_by_limits_s: mean(&|one| (one.wait_by_limits_s - seen(one)).abs()),
    }
}

/// Replays a trace and foresees starts on the way; `found` is told of each once the job is over, those
/// excepted that came before enough had been seen.
///
/// # Errors
/// As [`super::replay`].
pub fn foresee(
    setting: &Setting,
    how: Foreseeing,
    jobs: impl IntoIterator<Item = Result<SwfJob, TraceError>>,
    found: impl FnMut(&Foreseen) -> std::io::Result<()>,
) -> Result<(), TwinError> {
    let mut seer = Seer {
        how,
        draw: Draw::new(how.seed),
        users: BTreeMap::new(),
        all: VecDeque::new(),
        open: BTreeMap::new(),
        ratios: Default::default(),
        levels: QUANTILES,
        waited: 0,
        found,
    };
    drive(setting, jobs, &mut seer).map(|_| ())
}

/// A start that was foreseen, of a job that is not over yet.
struct Open {
    id: u32,
    submit: i64,
    raw: [f64; 3],
    told: Option<[f64; 3]>,
    by_limits: f64,
    /// Whether the start came; what follows from that is taken up.
    started: bool,
    /// For each instant whether it is known that the start came before, or later.
    settled: [bool; 3],
}

impl Open {
    /// Takes up of each level what is known now: the wait as it was, or that it is longer than so.
    fn settle(&mut self, levels: &mut [f64; 3], waited: f64, is_all: bool) {
        let Some(told) = self.told else { return };
        for at in 0..QUANTILES.len() {
            if self.settled[at] || (waited <= told[at] && !is_all) {
                continue;
            }
            self.settled[at] = true;
            let before = match waited.total_cmp(&told[at]) {
                Ordering::Less => 1.0,
                Ordering::Equal => 0.5,
                Ordering::Greater => 0.0,
            };
            let off = QUANTILES[at] - before;
            levels[at] = (levels[at] + STEP * off).clamp(0.0, 1.0);
        }
    }
}

struct Seer<F> {
    how: Foreseeing,
    draw: Draw,
    /// Parts that jobs took of what they asked for, by user and of all.
    users: BTreeMap<i64, VecDeque<f64>>,
    all: VecDeque<f64>,
    /// By the job's number in the replay.
    open: BTreeMap<i64, Open>,
    /// By quantile: how far waits were from what had been foreseen, as ratios.
    ratios: [VecDeque<f64>; 3],
    /// At which level of them each is taken.
    levels: [f64; 3],
    waited: u64,
    found: F,
}

fn push(ring: &mut VecDeque<f64>, value: f64, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(value);
}

/// A quantile of values that are sorted; they are at least one.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

impl<F: FnMut(&Foreseen) -> std::io::Result<()>> Watcher for Seer<F> {
    fn submitted(&mut self, twin: &Twin, at: i64, id: u32) -> Result<(), ApplyError> {
        let Some(job) = twin.live_at(id).filter(|live| live.start.is_none()).map(|l| l.job) else {
            return Ok(());
        };
        self.waited += 1;
        if !self.waited.is_multiple_of(u64::from(self.how.every.max(1))) {
            return Ok(());
        }
        self.learn(twin, at);
        let mut waits = Vec::with_capacity(self.how.samples as usize);
        for _ in 0..self.how.samples.max(1) {
            let mut fork = self.fork(twin, at);
            if let Some(start) = fork.until(id)? {
                waits.push((start - at) as f64);
            }
        }
        let now = Timestamp::from_secs(at);
        let promise = Planner::new(&twin.state).when(&twin.state, JobId(id), now);
        let by_limits = promise.filter(|promise| promise.start != Timestamp::NEVER);
        let Some(by_limits) = by_limits.filter(|_| !waits.is_empty()) else { return Ok(()) };
        waits.sort_by(f64::total_cmp);
        let raw = QUANTILES.map(|part| quantile(&waits, part));
        let by_limits = (by_limits.start.secs() - at).max(0) as f64;
        let (told, submit, settled) = (self.moved(raw), job.submit, [false; 3]);
        let open = Open { id, submit, raw, told, by_limits, started: false, settled };
        self.open.insert(job.number, open);
        Ok(())
    }

    fn finished(&mut self, done: &Finished) -> std::io::Result<()> {
        let job = &done.job;
        let part = job.run as f64 / job.requested_time.max(1) as f64;
        push(&mut self.all, part, OF_ALL);
        push(self.users.entry(job.user).or_default(), part, OF_USER);
        let Some(mut open) = self.open.remove(&job.number) else { return Ok(()) };
        let waited_s = done.start - job.submit;
        started(&mut open, &mut self.ratios, &mut self.levels, waited_s);
        let Some(wait_s) = open.told else { return Ok(()) };
        let (submit_s, wait_by_limits_s) = (job.submit, open.by_limits);
        (self.found)(&Foreseen { job: job.number, submit_s, wait_s, wait_by_limits_s, waited_s })
    }
}

/// Takes up that a job started, once.
fn started(open: &mut Open, ratios: &mut [VecDeque<f64>; 3], levels: &mut [f64; 3], waited_s: i64) {
    if std::mem::replace(&mut open.started, true) {
        return;
    }
    for (ring, raw) in ratios.iter_mut().zip(open.raw) {
        push(ring, (waited_s as f64 + GRAIN_S) / (raw + GRAIN_S), SEEN_MOST);
    }
    open.settle(levels, waited_s as f64, true);
}

impl<F> Seer<F> {
    /// Takes up what is known by now of starts that were foreseen.
    fn learn(&mut self, twin: &Twin, at: i64) {
        for open in self.open.values_mut() {
            let start = twin.live_at(open.id).and_then(|live| live.start);
            match start {
                Some(start) => {
                    started(open, &mut self.ratios, &mut self.levels, start - open.submit);
                }
                None => open.settle(&mut self.levels, (at - open.submit) as f64, false),
            }
        }
    }

    /// Quantiles moved by how far earlier ones were off; `None` before enough was seen.
    fn moved(&self, raw: [f64; 3]) -> Option<[f64; 3]> {
        let mut told = raw;
        for ((told, ratios), level) in told.iter_mut().zip(&self.ratios).zip(self.levels) {
            if ratios.len() < SEEN_LEAST {
                return None;
            }
            let mut sorted: Vec<f64> = ratios.iter().copied().collect();
            sorted.sort_by(f64::total_cmp);
            let moved = (*told + GRAIN_S) * quantile(&sorted, level) - GRAIN_S;
            *told = moved.max(0.0).round();
        }
        told.sort_by(f64::total_cmp);
        Some(told)
    }

    /// What a job may run that has run so long: more than that, and no more than it asked for.
    fn drawn_run(&mut self, job: &SwfJob, ran: i64) -> i64 {
        let known = self.users.get(&job.user).filter(|parts| parts.len() >= KNOWN);
        for (parts, tries) in [(known, TRIES), (Some(&self.all), TRIES)] {
            let Some(parts) = parts.filter(|parts| !parts.is_empty()) else { continue };
            for _ in 0..tries {
                let part = parts[self.draw.below(parts.len())];
                let run = (part * job.requested_time as f64).round() as i64;
                if run > ran {
                    return run;
                }
            }
        }
        let left = (job.requested_time - ran).max(1) as usize;
        ran + 1 + self.draw.below(left) as i64
    }

    /// The replay as it is, with run times that are drawn and nobody to come.
    fn fork(&mut self, twin: &Twin, at: i64) -> Twin {
        let mut live: VecDeque<Live> = twin.live.clone();
        let mut running: Vec<(i64, u32)> = Vec::new();
        for (id, one) in (twin.first..).zip(&mut live) {
            if one.over || one.gone {
                one.over = true;
                continue;
            }
            let ran = one.start.map_or(0, |start| at - start);
            one.job.run = self.drawn_run(&one.job, ran + one.kept);
            if let Some(start) = one.start {
                running.push((start, id));
            }
        }
        running.sort_unstable();
        let mut ends = BinaryHeap::new();
        for (order, (start, id)) in (0u64..).zip(&running) {
            let Some(one) = live.get((*id - twin.first) as usize) else { continue };
            let end = start + one.job.run - one.kept;
            ends.push(Reverse((end.max(at + 1), order, *id, one.attempt)));
        }
        Twin {
            planner: Planner::new(&twin.state),
            state: twin.state.clone(),
            estimates: twin.estimates,
            partitions: twin.partitions.clone(),
            specs: BTreeMap::new(),
            live,
            first: twin.first,
            started: running.len() as u64,
            ends,
            breakage: None,
            busy: twin.busy,
            forget: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_a_quantile_is_least_at_the_quantile() {
        let seen: Vec<f64> = (0..1000).map(f64::from).collect();
        let loss = |part, at: f64| seen.iter().map(|s| pinball(part, at, *s)).sum::<f64>();
        for (part, best) in [(0.1, 100.0), (0.5, 500.0), (0.9, 900.0)] {
            assert!(loss(part, best) < loss(part, best - 20.0));
            assert!(loss(part, best) < loss(part, best + 20.0));
        }
        assert!((pinball(0.9, 10.0, 20.0) - 9.0).abs() < 1e-12);
        assert!((pinball(0.9, 20.0, 10.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_a_wait_tells_of_an_instant_is_taken_up_at_once_and_once() {
        let told = Some([10.0, 20.0, 30.0]);
        let mut open = Open {
            id: 1,
            submit: 0,
            raw: [0.0; 3],
            told,
            by_limits: 0.0,
            started: false,
            settled: [false; 3],
        };
        let mut levels = QUANTILES;
        let are = |levels: [f64; 3], steps: [f64; 3]| {
            let moved = levels.iter().zip(QUANTILES).map(|(level, part)| (level - part) / STEP);
            assert!(moved.zip(steps).all(|(own, step)| (own - step).abs() < 1e-9), "{levels:?}");
        };
        open.settle(&mut levels, 10.0, false);
        are(levels, [0.0, 0.0, 0.0]);
        open.settle(&mut levels, 15.0, false);
        open.settle(&mut levels, 16.0, false);
        are(levels, [0.1, 0.0, 0.0]);
        open.settle(&mut levels, 18.0, true);
        are(levels, [0.1, -0.5, -0.1]);
    }

    /// A job that waited so long where from 10 to 30 s had been foreseen, and 40 by time limits.
    fn waited(waited_s: i64) -> Foreseen {
        Foreseen {
            job: 1,
            submit_s: 0,
            wait_s: [10.0, 20.0, 30.0],
            wait_by_limits_s: 40.0,
            waited_s,
        }
    }

    #[test]
    fn a_score_counts_what_is_within_and_what_is_not() {
        let score = score(&[waited(5), waited(11), waited(25), waited(31)]);
        assert_eq!((score.coverage, score.before, score.after), (0.5, 0.25, 0.25));
        assert!((score.error_s - (15.0 + 9.0 + 5.0 + 11.0) / 4.0).abs() < 1e-12);
        assert!((score.error_by_limits_s - (35.0 + 29.0 + 15.0 + 9.0) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_start_at_an_end_counts_half_and_at_both_what_they_promise() {
        let all = [(9.0, 0.0), (10.0, 0.5), (20.0, 1.0), (30.0, 0.5), (31.0, 0.0)];
        for (seen, counts) in all {
            assert_eq!(within([10.0, 20.0, 30.0], seen).to_bits(), f64::to_bits(counts), "{seen}");
        }
        assert!((within([10.0; 3], 10.0) - 0.8).abs() < 1e-12);
        // An end that is hit by three of ten starts, one of twenty before it: it is the tenth part.
        let mut all: Vec<Foreseen> = vec![waited(9)];
        all.extend([waited(10); 6]);
        all.extend([waited(20); 11]);
        all.extend([waited(31); 2]);
        let score = score(&all);
        assert!((score.coverage - 0.7).abs() < 1e-12 && (score.on_end - 0.3).abs() < 1e-12);
    }
}
