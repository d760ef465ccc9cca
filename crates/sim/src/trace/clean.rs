//! From the lines of a log to jobs that can be replayed: every rule stated, counted, switchable.
//!
//! The rules, in this order; the first that drops a job counts it. They are those of predictsim
//! (Gaussier, Glesser, Reis and Trystram, SC 2015), whose results are published, and two of our own:
//!
//! 1. *oversized*: more processors, allocated or requested, than the machine has.
//! 2. *processors*: of the requested and the allocated number the one that is missing is the other;
//!    without both the job is dropped.
//! 3. *run time*: a job that did not run is dropped.
//! 4. *requested time*: without one a job is dropped, unless the trace has none at all: then the run
//!    time stands for it (our own).
//! 5. *limit*: a job that ran longer than it asked for is cut to that.
//! 6. *submit time*: before the start of the log: dropped.
//! 7. *part*: lines with status 2, 3 and 4 tell of parts of a job that another line tells as a whole
//!    (our own, by the format's definition).

use super::{Swf, SwfJob, TraceError};
use std::collections::VecDeque;
use std::io::BufRead;

/// So many lines are looked at ahead: jobs out of order within them are put in order.
const AHEAD: usize = 1000;

/// What is done with jobs that ask for more than the machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversized {
    /// They are left out.
    #[default]
    Drop,
    /// They ask for the whole machine.
    Cut,
    /// The trace is refused.
    Refuse,
}

/// What is done with jobs that ask for no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unrequested {
    /// They are left out, unless no job of the first thousand lines asks for any: then as `RunTime`.
    #[default]
    Auto,
    /// They are left out.
    Drop,
    /// They ask for what they ran.
    RunTime,
}

/// Which rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaning {
    /// How many processors the machine has; `None` is what the header says.
    pub processors: Option<u32>,
    /// Rule 1.
    pub oversized: Oversized,
    /// Rule 4.
    pub unrequested: Unrequested,
    /// Rule 5; without it such jobs run on beyond what they asked for.
    pub cut_to_limit: bool,
    /// Rule 7.
    pub drop_parts: bool,
    /// Lines that are not of the format are counted and left out, not refused.
    pub lenient: bool,
}

impl Default for Cleaning {
    fn default() -> Self {
        Self {
            processors: None,
            oversized: Oversized::Drop,
            unrequested: Unrequested::Auto,
            cut_to_limit: true,
            drop_parts: true,
            lenient: false,
        }
    }
}

/// What the rules did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Lines with a job in them.
    pub lines: u64,
    /// Lines left out because they are not of the format.
    pub malformed: u64,
    /// Jobs left out because they are larger than the machine.
    pub oversized_dropped: u64,
    /// Jobs cut to the machine.
    pub oversized_cut: u64,
    /// Jobs without the one number of processors that took the other.
    pub processors_filled: u64,
    /// Jobs without any number of processors.
    pub no_processors: u64,
    /// Jobs that did not run.
    pub no_run_time: u64,
    /// Jobs that asked for no time.
    pub no_requested_time: u64,
    /// Jobs whose run time stands for what they did not ask for.
    pub request_is_run_time: u64,
    /// Jobs cut to what they asked for.
    pub cut_to_limit: u64,
    /// Jobs submitted before the start of the log.
    pub before_start: u64,
    /// Parts of jobs.
    pub parts: u64,
    /// Jobs that stood in the file before jobs that were submitted earlier.
    pub reordered: u64,
}

/// Jobs that can be replayed, in order of their submission.
pub struct Cleaned<R> {
    swf: Swf<R>,
    rules: Cleaning,
    machine: u32,
    counts: Counts,
    ahead: VecDeque<SwfJob>,
    /// The submission that was given out last.
    at: i64,
    ended: bool,
    failed: Option<TraceError>,
}

impl<R: BufRead> Cleaned<R> {
    /// Begins with a trace.
    ///
    /// # Errors
    /// The file cannot be read, or nobody says how large the machine is.
    pub fn new(swf: Swf<R>, rules: Cleaning) -> Result<Self, TraceError> {
        let machine = rules.processors.or_else(|| swf.header().processors());
        let machine = machine.filter(|n| *n > 0).ok_or(TraceError::Machine)?;
        let mut cleaned = Self {
            swf,
            rules,
            machine,
            counts: Counts::default(),
            ahead: VecDeque::with_capacity(AHEAD + 1),
            at: i64::MIN,
            ended: false,
            failed: None,
        };
        cleaned.fill();
        if rules.unrequested == Unrequested::Auto {
            let none = !cleaned.ahead.iter().any(|job| job.requested_time > 0);
            let (found, other) = (Unrequested::RunTime, Unrequested::Drop);
            cleaned.rules.unrequested = if none { found } else { other };
        }
        Ok(cleaned)
    }

    /// How many processors the machine has.
    pub const fn machine(&self) -> u32 {
        self.machine
    }

    /// What the rules did so far.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The trace's header.
    pub const fn header(&self) -> &super::Header {
        self.swf.header()
    }

    /// Reads ahead as far as may be.
    fn fill(&mut self) {
        while !self.ended && self.ahead.len() < AHEAD {
            match self.swf.next() {
                None => self.ended = true,
                Some(Ok(job)) => {
                    self.counts.lines += 1;
                    // Nearly all logs are in order, so the place is nearly always the last.
                    let later = self.ahead.iter().rev().take_while(|j| j.submit > job.submit);
                    let later = later.count();
                    self.counts.reordered += u64::from(later > 0);
                    self.ahead.insert(self.ahead.len() - later, job);
                }
                Some(Err(TraceError::Line { .. })) if self.rules.lenient => {
                    self.counts.lines += 1;
                    self.counts.malformed += 1;
                }
                Some(Err(error)) => {
                    self.failed = Some(error);
                    self.ended = true;
                }
            }
        }
    }

    /// The job as it is replayed; `None` where a rule drops it.
    fn clean(&mut self, mut job: SwfJob) -> Result<Option<SwfJob>, TraceError> {
        let (machine, counts) = (i64::from(self.machine), &mut self.counts);
        let most = job.allocated.max(job.requested);
        if most > machine {
            match self.rules.oversized {
                Oversized::Drop => {
                    counts.oversized_dropped += 1;
                    return Ok(None);
                }
                Oversized::Cut => {
                    counts.oversized_cut += 1;
                    job.allocated = job.allocated.min(machine);
                    job.requested = job.requested.min(machine);
                }
                Oversized::Refuse => {
                    let (line, processors) = (job.line, most);
                    return Err(TraceError::Oversized { line, processors, machine: self.machine });
                }
            }
        }
        if most <= 0 {
            counts.no_processors += 1;
            return Ok(None);
        }
        if job.allocated <= 0 || job.requested <= 0 {
            counts.processors_filled += 1;
            let known = job.allocated.max(job.requested);
            (job.allocated, job.requested) = (known, known);
        }
        if job.run <= 0 {
            counts.no_run_time += 1;
            return Ok(None);
        }
        if job.requested_time <= 0 {
            if self.rules.unrequested != Unrequested::RunTime {
                counts.no_requested_time += 1;
                return Ok(None);
            }
            counts.request_is_run_time += 1;
            job.requested_time = job.run;
        }
        if job.requested_time < job.run && self.rules.cut_to_limit {
            counts.cut_to_limit += 1;
            job.run = job.requested_time;
        }
        if job.submit < 0 {
            counts.before_start += 1;
            return Ok(None);
        }
        if self.rules.drop_parts && (2..=4).contains(&job.status) {
            counts.parts += 1;
            return Ok(None);
        }
        Ok(Some(job))
    }
}

impl<R: BufRead> Iterator for Cleaned<R> {
    type Item = Result<SwfJob, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.fill();
            let Some(job) = self.ahead.pop_front() else { return self.failed.take().map(Err) };
            let found = if job.submit >= self.at {
                self.at = job.submit;
                self.clean(job)
            } else if self.rules.lenient {
                self.counts.malformed += 1;
                continue;
            } else {
                let (line, submit) = (job.line, job.submit);
                Err(TraceError::Order { line, submit, at: self.at })
            };
            if found.is_err() {
                // Nothing comes after an error.
                self.ahead.clear();
                self.ended = true;
            }
            if let Some(found) = found.transpose() {
                return Some(found);
            }
        }
    }
}
