//! What every replay of a trace takes, and how one is made.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use muster_model::{Policy, RunTimeCorrection};
use muster_sim::trace::{
    Cleaned, Cleaning, Counts, Jittered, Oversized, Swf, TraceError, Unrequested, unpacked,
};
use muster_sim::twin::{
    self, Estimates, FaultCounts, Faults, Finished, Instead, PolicyName, Rates, Rounds, Setting,
    Summary, Totals, TwinError, UserSummary, learned,
};

use super::past::Left;
use super::watch::Watch;
use crate::say::{Failure, note};

/// What all that replay a trace take.
#[derive(Args)]
pub(super) struct Common {
    /// The trace, in the Standard Workload Format, packed by gzip or not; or the state directory of
    /// muster, or its database; or, with --machine, a list of pods with times
    pub(super) trace: PathBuf,
    /// The nodes of a list of pods: both are lists of the openb trace (nodes: sn,cpu_milli,memory_mib,
    /// gpu,model; pods: cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,
    /// scheduled_time and perhaps gpu_spec), packed or not
    #[arg(long, value_name = "FILE")]
    pub(super) machine: Option<PathBuf>,
    /// Pods come so many times as fast as in their list
    #[arg(long, default_value_t = 1.0, value_name = "X", value_parser = times, requires = "machine")]
    pub(super) faster: f64,
    /// What jobs say of their run times: what they asked for, what they run, twice what they asked
    /// for, or what is learned of their user's last jobs
    #[arg(long, value_enum)]
    estimates: Option<Told>,
    /// What becomes of a learned run time that its job outlives
    #[arg(long, value_enum, default_value_t = Correction::Limit)]
    correction: Correction,
    /// How many processors the machine has, in place of what the header says
    #[arg(long, value_name = "N")]
    processors: Option<u32>,
    /// What is done with jobs larger than the machine
    #[arg(long, value_enum, default_value_t = Large::Drop)]
    oversized: Large,
    /// What is done with jobs that ask for no time
    #[arg(long, value_enum, default_value_t = Unasked::Auto)]
    unrequested: Unasked,
    /// Let jobs run on beyond what they asked for
    #[arg(long)]
    overrun: bool,
    /// Keep lines that tell of a part of a job (status 2, 3 and 4)
    #[arg(long)]
    parts: bool,
    /// Count malformed lines and go on
    #[arg(long)]
    lenient: bool,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Whether every submission is followed by a round, or only that of a job that fits now
    #[arg(long, value_enum, default_value_t = When::Each)]
    rounds: When,
    /// Let nodes break: the mean time to the failure of one, in hours
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..), requires = "nodes")]
    mtbf: Option<u64>,
    /// How many nodes the machine has, where they are to break
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// The mean time until a broken node is back, in minutes
    #[arg(long, default_value_t = 240, value_name = "MIN")]
    mttr: u64,
    /// Jobs write a checkpoint so often, in minutes, and go on from it; without it they begin anew
    #[arg(long, value_name = "MIN", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: Option<u64>,
    /// Another seed, other nodes break at other times
    #[arg(long, default_value_t = 1, value_name = "N")]
    fault_seed: u64,
    /// What a processor draws while a job has it, in watts: energy is told
    #[arg(long, value_name = "W", value_parser = amount)]
    busy_watts: Option<f64>,
    /// What an idle processor draws, in watts
    #[arg(long, value_name = "W", value_parser = amount)]
    idle_watts: Option<f64>,
    /// The price of a kilowatt hour, in any currency: the cost of the energy is told
    #[arg(long, value_name = "PRICE", value_parser = amount)]
    price_kwh: Option<f64>,
    /// The price of an hour of a processor that a job has, in the same currency
    #[arg(long, value_name = "PRICE", value_parser = amount)]
    price_hour: Option<f64>,
}

/// A number that is not below nought.
fn amount(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("from 0 up".to_owned()) }
}

/// How many times as fast.
fn times(text: &str) -> Result<f64, String> {
    let number = amount(text)?;
    if (0.001..=1e6).contains(&number) {
        Ok(number)
    } else {
        Err("from 0.001 to 1000000".to_owned())
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Told {
    Requested,
    Clairvoyant,
    Doubled,
    Learned,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Correction {
    Limit,
    Double,
    Steps,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum When {
    Each,
    Fitting,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Large {
    Drop,
    Cut,
    Refuse,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Unasked {
    Auto,
    Drop,
    RunTime,
}

/// The jobs of an open trace.
pub(super) type Jobs = Cleaned<Box<dyn BufRead + Send>>;

/// What a replay came to.
pub(super) struct Replayed {
    /// The aggregates.
    pub(super) summary: Summary,
    /// Those of each user, who ran most first.
    pub(super) users: Vec<UserSummary>,
    /// What was left out.
    pub(super) left: Left,
    /// How many processors there are.
    pub(super) processors: u32,
}

/// One replay: a policy with its name, and whether submissions are moved.
pub(super) struct Run {
    /// What it is called.
    pub(super) name: String,
    /// The policy; without one, for a log, its own.
    pub(super) policy: Option<Policy>,
    /// On a log it holds in place of the whole policy, not of its order and backfill alone.
    pub(super) whole: bool,
    /// Submissions are moved by up to so many seconds, by this seed.
    pub(super) jitter: Option<(u32, u64)>,
}

impl Run {
    /// A policy by its name, on the trace as it is.
    pub(super) fn of(name: PolicyName) -> Self {
        let policy = Some(name.policy());
        Self { name: name.to_string(), policy, whole: false, jitter: None }
    }

    /// A log under its own policy, called so.
    pub(super) fn of_log(name: &str) -> Self {
        Self { name: name.to_owned(), policy: None, whole: false, jitter: None }
    }

    /// What is to hold in place of a log's policy.
    pub(super) fn instead(&self) -> Option<Instead> {
        let policy = self.policy.clone()?;
        Some(if self.whole { Instead::All(policy) } else { Instead::Order(policy) })
    }
}

impl Common {
    /// How long the trace is on disk; nought where nobody knows.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.trace).map_or(0, |file| file.len())
    }

    /// Replays the trace; `row` is told of every job that is over. An interrupt ends the replay
    /// early: then the aggregates are of the jobs up to there.
    pub(super) fn replay(
        &self,
        run: &Run,
        watch: &Watch,
        mut row: impl FnMut(&Finished) -> std::io::Result<()>,
    ) -> Result<Replayed, Failure> {
        let mut totals = Totals::default();
        let mut told = (0, FaultCounts::default(), false);
        let counts = self.with_trace(watch, |jobs, processors| {
            let setting = self.setting(run.policy.clone().unwrap_or_default(), processors);
            let done = |done: &Finished| {
                watch.go_on()?;
                totals.add(done);
                row(done)
            };
            let broken = match run.jitter {
                None => twin::replay(&setting, jobs, done),
                Some((most, seed)) => twin::replay(&setting, Jittered::new(jobs, most, seed), done),
            };
            told = (processors, FaultCounts::default(), setting.faults.is_some());
            told.1 = broken?;
            Ok(())
        })?;
        let (processors, broken, breaks) = told;
        if totals.jobs() == 0 && !watch.is_interrupted() {
            return Err(wrong(&self.trace, &TraceError::Empty));
        }
        let faults = breaks.then_some(broken);
        let summary = Summary { faults, ..totals.summary(&run.name, processors) };
        let summary = self.with_costs(summary, processors);
        let (users, left) = (totals.users().summaries(), Left::Trace(counts));
        Ok(Replayed { summary, users, left, processors })
    }

    /// Opens the trace and gives its jobs, cleaned, and the machine's size to somebody; an interrupt
    /// is no error. What was left out comes back.
    pub(super) fn with_trace(
        &self,
        watch: &Watch,
        work: impl FnOnce(&mut Jobs, u32) -> Result<(), TwinError>,
    ) -> Result<Counts, Failure> {
        let failed = |error: TwinError| match error {
            TwinError::Trace(error) => wrong(&self.trace, &error),
            other => Failure::new(other.to_string()),
        };
        let trace = |error: TraceError| failed(error.into());
        let file = File::open(&self.trace).map_err(|error| trace(error.into()))?;
        let swf = Swf::new(unpacked(watch.counted(file)).map_err(trace)?).map_err(trace)?;
        let mut jobs = Cleaned::new(swf, self.cleaning()).map_err(trace)?;
        let processors = jobs.machine();
        match work(&mut jobs, processors) {
            Err(TwinError::Out(_)) if watch.is_interrupted() => {}
            other => other.map_err(failed)?,
        }
        Ok(*jobs.counts())
    }
}

/// Says that the work was cut short, and what that means; the exit code is that of an interrupt.
pub(super) fn cut_short(jobs: u64) -> Failure {
    let text = format!("interrupted after {jobs} jobs: what was told is of these alone");
    Failure { code: 130, text }
}

impl Common {
    fn cleaning(&self) -> Cleaning {
        Cleaning {
            processors: self.processors,
            oversized: match self.oversized {
                Large::Drop => Oversized::Drop,
                Large::Cut => Oversized::Cut,
                Large::Refuse => Oversized::Refuse,
            },
            unrequested: match self.unrequested {
                Unasked::Auto => Unrequested::Auto,
                Unasked::Drop => Unrequested::Drop,
                Unasked::RunTime => Unrequested::RunTime,
            },
            cut_to_limit: !self.overrun,
            drop_parts: !self.parts,
            lenient: self.lenient,
        }
    }

    /// True where something is asked for that only a trace of jobs has.
    pub(super) const fn is_of_traces_alone(&self) -> bool {
        self.estimates.is_some() || self.mtbf.is_some() || self.processors.is_some()
    }

    /// Costs are told where rates are given.
    pub(super) fn with_costs(&self, summary: Summary, processors: u32) -> Summary {
        Summary { costs: self.rates().costs(&summary, processors), ..summary }
    }

    const fn rates(&self) -> Rates {
        Rates {
            busy_watts: self.busy_watts,
            idle_watts: self.idle_watts,
            price_kwh: self.price_kwh,
            price_hour: self.price_hour,
        }
    }

    pub(super) fn setting(&self, mut policy: Policy, processors: u32) -> Setting {
        let estimates = match self.estimates {
            None | Some(Told::Requested | Told::Learned) => Estimates::Requested,
            Some(Told::Clairvoyant) => Estimates::Clairvoyant,
            Some(Told::Doubled) => Estimates::Doubled,
        };
        match self.estimates {
            // The policy's own.
            None => {}
            Some(Told::Learned) => {
                policy.run_time = learned(match self.correction {
                    Correction::Limit => RunTimeCorrection::Limit,
                    Correction::Double => RunTimeCorrection::Double,
                    Correction::Steps => RunTimeCorrection::Steps,
                });
            }
            Some(_) => policy.run_time = muster_model::RunTimePolicy::default(),
        }
        let faults = self.mtbf.zip(self.nodes).map(|(hours, nodes)| Faults {
            nodes,
            mtbf_s: hours.saturating_mul(3600),
            mttr_s: self.mttr.saturating_mul(60),
            checkpoint_s: self.checkpoint.map(|minutes| minutes.saturating_mul(60)),
            seed: self.fault_seed,
        });
        let rounds = match self.rounds {
            When::Each => Rounds::Each,
            When::Fitting => Rounds::Fitting,
        };
        Setting { processors, policy, estimates, faults, rounds }
    }
}

pub(super) fn wrong(trace: &Path, error: &TraceError) -> Failure {
    let hint = match error {
        TraceError::Line { .. } | TraceError::Order { .. } => {
            "\nhint: --lenient counts such lines and goes on"
        }
        TraceError::Machine => "\nhint: --processors N says how large it was",
        TraceError::Oversized { .. } => "\nhint: --oversized=drop or --oversized=cut goes on",
        TraceError::Io(_) | TraceError::Empty => "",
    };
    Failure::new(format!("{}: {}: {error}{hint}", trace.display(), error.code()))
}

pub(super) fn at(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// What the rules of cleaning did, where they did anything.
pub(super) fn tell_of(counts: &Counts) {
    let said = [
        (counts.malformed, "malformed lines left out"),
        (counts.oversized_dropped, "jobs larger than the machine left out"),
        (counts.oversized_cut, "jobs larger than the machine cut to it"),
        (counts.processors_filled, "jobs with one number of processors for the other"),
        (counts.no_processors, "jobs without processors left out"),
        (counts.no_run_time, "jobs that did not run left out"),
        (counts.no_requested_time, "jobs that asked for no time left out"),
        (counts.request_is_run_time, "jobs whose run time stands for what they asked for"),
        (counts.cut_to_limit, "jobs cut to what they asked for"),
        (counts.before_start, "jobs before the start of the log left out"),
        (counts.parts, "parts of jobs left out"),
        (counts.reordered, "jobs put in order of submission"),
    ];
    let mut text = format!("{} jobs in the trace", counts.lines);
    for (count, what) in said.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "\n{count:>8} {what}");
    }
    note(&text);
}
