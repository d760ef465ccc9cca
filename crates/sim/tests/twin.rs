//! Replays: equal to a simulation written without the core, and blind to what is still to come.

#![allow(clippy::unwrap_used)]

use muster_model::{Policy, RunTimeCorrection};
use muster_sim::trace::SwfJob;
use muster_sim::twin::{Estimates, Finished, PolicyName, Rounds, Setting, learned, replay};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MACHINE: u32 = 8;

fn job(number: i64, submit: i64, run: i64, procs: i64, requested_time: i64) -> SwfJob {
    SwfJob { number, submit, run, requested: procs, requested_time, ..SwfJob::default() }
}

/// Start times by job number.
fn starts(jobs: &[SwfJob], policy: Policy) -> BTreeMap<i64, i64> {
    let setting = Setting {
        processors: MACHINE,
        policy,
        estimates: Estimates::Requested,
        faults: None,
        rounds: Rounds::Each,
    };
    let mut starts = BTreeMap::new();
    let finished = |done: &Finished| {
        assert!(starts.insert(done.job.number, done.start).is_none());
        Ok(())
    };
    replay(&setting, jobs.iter().map(|job| Ok(*job)), finished).unwrap();
    assert_eq!(starts.len(), jobs.len());
    starts
}

#[test]
fn a_short_job_passes_and_delays_nobody() {
    // On eight processors: the second waits for the first; the third is over in time and passes,
    // the fourth is not, and takes what the second leaves.
    let jobs = [
        job(1, 0, 90, 6, 100),
        job(2, 1, 50, 7, 60),
        job(3, 2, 50, 1, 98),
        job(4, 3, 50, 2, 98),
        job(5, 4, 300, 1, 300),
    ];
    let easy = starts(&jobs, PolicyName::Easy.policy());
    assert_eq!(easy, BTreeMap::from([(1, 0), (2, 90), (3, 2), (4, 140), (5, 4)]));
    let fifo = starts(&jobs, PolicyName::Fifo.policy());
    assert_eq!(fifo, BTreeMap::from([(1, 0), (2, 90), (3, 90), (4, 140), (5, 140)]));
}

/// EASY by the published description, with nothing of the core in it.
fn by_the_book(jobs: &[SwfJob], shortest: bool) -> BTreeMap<i64, i64> {
    let mut sim = Book { jobs, start: vec![None; jobs.len()], gone: Vec::new(), now: 0, shortest };
    let mut queue: Vec<usize> = Vec::new();
    let mut order: Vec<usize> = Vec::new();
    let mut ended = vec![false; jobs.len()];
    let mut next = 0;
    loop {
        let end = |at: usize| sim.start[at].map(|start| start + jobs[at].run);
        let ends = (0..jobs.len()).filter(|at| !ended[*at]).filter_map(end);
        let Some(now) = ends.chain(jobs.get(next).map(|job| job.submit)).min() else { break };
        let due: Vec<usize> =
            order.iter().copied().filter(|at| !ended[*at] && end(*at) == Some(now)).collect();
        sim.now = now;
        while jobs.get(next).is_some_and(|job| job.submit == now) {
            queue.push(next);
            next += 1;
            sim.pass(&mut queue, &mut order);
        }
        for at in due {
            ended[at] = true;
            sim.gone.push(at);
            sim.pass(&mut queue, &mut order);
        }
    }
    jobs.iter().zip(&sim.start).map(|(job, start)| (job.number, start.unwrap())).collect()
}

struct Book<'a> {
    jobs: &'a [SwfJob],
    start: Vec<Option<i64>>,
    gone: Vec<usize>,
    now: i64,
    shortest: bool,
}

impl Book<'_> {
    /// Free processors at an instant, by what was asked for.
    fn free(&self, at: i64, head: Option<(usize, i64)>) -> i64 {
        let runs = (0..self.jobs.len()).filter(|i| !self.gone.contains(i));
        let taken = runs.filter_map(|i| Some((i, self.start[i]?))).chain(head);
        let there =
            |(i, start): &(usize, i64)| *start <= at && at < start + self.jobs[*i].requested_time;
        i64::from(MACHINE) - taken.filter(there).map(|(i, _)| self.jobs[i].requested).sum::<i64>()
    }

    /// True where a job fits from an instant on for as long as it asked for.
    fn fits(&self, which: usize, from: i64, head: Option<(usize, i64)>) -> bool {
        let job = &self.jobs[which];
        (from..from + job.requested_time).all(|at| self.free(at, head) >= job.requested)
    }

    fn pass(&mut self, queue: &mut Vec<usize>, order: &mut Vec<usize>) {
        while queue.first().is_some_and(|head| self.fits(*head, self.now, None)) {
            let head = queue.remove(0);
            self.start[head] = Some(self.now);
            order.push(head);
        }
        let Some(head) = queue.first().copied() else { return };
        let Some(at) = (self.now..self.now + 10_000).find(|at| self.fits(head, *at, None)) else {
            return;
        };
        let mut others: Vec<usize> = queue[1..].to_vec();
        if self.shortest {
            others.sort_by_key(|i| self.jobs[*i].requested_time);
        }
        for other in others {
            if self.fits(other, self.now, Some((head, at))) {
                self.start[other] = Some(self.now);
                order.push(other);
                queue.retain(|i| *i != other);
            }
        }
    }
}

fn jobs() -> impl Strategy<Value = Vec<SwfJob>> {
    let job = (0i64..6, 1i64..20, 1i64..=8, 0i64..12, 1i64..3);
    prop::collection::vec(job, 1..16).prop_map(|jobs| {
        let mut submit = 0;
        let with_number =
            |(at, (gap, run, procs, more, user)): (usize, (i64, i64, i64, i64, i64))| {
                submit += gap;
                SwfJob { user, ..job_of(at as i64, submit, run, procs, run + more) }
            };
        jobs.into_iter().enumerate().map(with_number).collect()
    })
}

fn job_of(number: i64, submit: i64, run: i64, procs: i64, requested_time: i64) -> SwfJob {
    job(number, submit, run, procs, requested_time)
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let names = ["fifo", "easy", "easy-sjbf", "conservative", "muster"];
    let corrections =
        [RunTimeCorrection::Limit, RunTimeCorrection::Double, RunTimeCorrection::Steps];
    let run_time = prop::option::of(prop::sample::select(corrections.to_vec()));
    (prop::sample::select(names.to_vec()), run_time).prop_map(|(name, correction)| {
        let mut policy = name.parse::<PolicyName>().unwrap().policy();
        if let Some(correction) = correction {
            policy.run_time = learned(correction);
        }
        policy
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The core gives the starts of a simulation that is written from the description alone.
    #[test]
    fn easy_is_as_it_is_published(jobs in jobs()) {
        let easy = starts(&jobs, PolicyName::Easy.policy());
        prop_assert_eq!(easy, by_the_book(&jobs, false));
        let shortest = starts(&jobs, PolicyName::EasySjbf.policy());
        prop_assert_eq!(shortest, by_the_book(&jobs, true));
    }

    /// What comes after an instant leaves the starts before it as they are: nobody peeks.
    #[test]
    fn the_future_decides_nothing(
        jobs in jobs(),
        policy in any_policy(),
        cut in 1i64..60,
        longer in 1i64..30,
    ) {
        let before = starts(&jobs, policy.clone());
        let mut other: Vec<SwfJob> = jobs.iter().filter(|job| job.submit < cut).copied().collect();
        for job in &mut other {
            // Who still runs then runs longer or ends then.
            if let Some(start) = before.get(&job.number).filter(|s| **s + job.run > cut) {
                let until = (cut - start).max(1);
                job.run = if longer % 2 == 0 { until } else { job.run + longer };
                job.run = job.run.clamp(1, job.requested_time.max(until));
            }
        }
        let after = starts(&other, policy);
        let early = |starts: &BTreeMap<i64, i64>| -> Vec<(i64, i64)> {
            starts.iter().filter(|(_, at)| **at < cut).map(|(n, at)| (*n, *at)).collect()
        };
        prop_assert_eq!(early(&before), early(&after));
    }
}
