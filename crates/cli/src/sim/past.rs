//! What is replayed: a trace, or muster's own log.

use std::collections::BTreeMap;

use muster_sim::trace::Counts;
use muster_sim::twin::{Finished, LogCounts};

use super::common::{Common, Replayed, Run, tell_of};
use super::own_log::{self, Logged};
use super::watch::Watch;
use crate::say::Failure;

const DAY_S: i64 = 86_400;

/// A past that can be replayed, any number of times and beside itself.
pub(super) enum Past<'a> {
    /// A trace of jobs.
    Trace(&'a Common),
    /// A log of muster's own.
    Log(&'a Common, Box<Logged>),
}

/// What was left out of a past, or made anew.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// Of a trace, by the rules of cleaning.
    Trace(Counts),
    /// Of a log.
    Log(LogCounts),
    /// Of lists of nodes and pods; so many pods never ran.
    Lists(LogCounts, u64),
}

impl Left {
    /// Says so.
    pub(super) fn tell(&self) {
        match self {
            Self::Trace(counts) => tell_of(counts),
            Self::Log(counts) => own_log::tell_of(counts),
            Self::Lists(counts, never_ran) => own_log::tell_of_lists(counts, *never_ran),
        }
    }

    /// What there is to tell of a log.
    pub(super) const fn log(&self) -> Option<LogCounts> {
        match self {
            Self::Trace(_) => None,
            Self::Log(counts) | Self::Lists(counts, _) => Some(*counts),
        }
    }
}

impl<'a> Past<'a> {
    /// Opens what the words name.
    pub(super) fn open(common: &'a Common) -> Result<Self, Failure> {
        let database = own_log::database(&common.trace);
        if (database.is_some() || common.machine.is_some()) && common.is_of_traces_alone() {
            let text =
                "--estimates, --mtbf and --processors are for traces, not where nodes are known";
            return Err(Failure::usage(text));
        }
        let log = match (database, &common.machine) {
            (Some(_), Some(_)) => {
                let text = "--machine is for a list of pods; muster's own log knows its nodes";
                return Err(Failure::usage(text));
            }
            (Some(database), None) => Logged::open(database)?,
            (None, Some(nodes)) => Logged::of_lists(nodes, &common.trace, common.faster)?,
            (None, None) => return Ok(Self::Trace(common)),
        };
        Ok(Self::Log(common, Box::new(log)))
    }

    /// The log, where it is one.
    pub(super) fn log(&self) -> Option<&Logged> {
        match self {
            Self::Trace(_) => None,
            Self::Log(_, log) => Some(log),
        }
    }

    /// How much there is to read for one replay; nought where nobody knows.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Trace(common) => common.bytes(),
            Self::Log(_, log) => log.events(),
        }
    }

    /// Replays it; `row` is told of every job that is over. An interrupt ends the replay early: then
    /// the aggregates are of the jobs up to there.
    pub(super) fn replay(
        &self,
        run: &Run,
        watch: &Watch,
        row: impl FnMut(&Finished) -> std::io::Result<()>,
    ) -> Result<Replayed, Failure> {
        match self {
            Self::Trace(common) => common.replay(run, watch, row),
            Self::Log(common, log) => {
                let replayed = log.replay(run, watch, row)?;
                let summary = common.with_costs(replayed.summary, replayed.processors);
                Ok(Replayed { summary, ..replayed })
            }
        }
    }

    /// When the day begins on which most work was submitted; of equals the first.
    pub(super) fn busiest_day(&self, watch: &Watch) -> Result<Option<i64>, Failure> {
        let mut days: BTreeMap<i64, i64> = BTreeMap::new();
        let mut add = |submit: i64, work: i64| {
            *days.entry(submit.div_euclid(DAY_S)).or_default() += work;
        };
        watch.expect(self.size());
        match self {
            Self::Trace(common) => {
                common.with_trace(watch, |jobs, _| {
                    for job in jobs {
                        let job = job?;
                        add(job.submit, job.run * job.requested);
                    }
                    Ok(())
                })?;
            }
            Self::Log(_, log) => {
                self.replay(&log.own_run(), watch, |done| {
                    add(done.job.submit, done.job.run * done.job.requested);
                    Ok(())
                })?;
            }
        }
        let most = days.iter().max_by_key(|(day, work)| (**work, std::cmp::Reverse(**day)));
        Ok(most.map(|(day, _)| day * DAY_S))
    }
}
