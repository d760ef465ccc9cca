//! `muster sim score-estimates`: how well starts are foreseen over a trace.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use clap::Args;
use muster_sim::twin::{self, Foreseeing, Foreseen, PolicyName, score};

use super::common::{Common, at, cut_short, tell_of};
use super::own_log;
use super::replay::with;
use super::watch::Watch;
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, terminal_width};
use serde_json::json;

/// The words of `muster sim score-estimates`.
#[derive(Args)]
pub(crate) struct ScoreArgs {
    /// fifo, easy, easy-sjbf, conservative or muster
    #[arg(long, default_value = "muster")]
    policy: PolicyName,
    /// The start of one in so many waiting jobs is foreseen
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// So many times the future is drawn for each
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// The seed of the draws
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Write every foreseen start to this file, as CSV
    #[arg(long, value_name = "FILE")]
    starts: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Replays, foresees, scores.
pub(crate) fn run(args: &ScoreArgs) -> Outcome {
    let common = &args.common;
    if own_log::database(&common.trace).is_some() {
        let text = "starts are foreseen over a trace, not over muster's own log";
        return Err(Failure::usage(text));
    }
    let watch = Watch::begin();
    watch.expect(common.bytes());
    let mut all: Vec<Foreseen> = Vec::new();
    let how = Foreseeing { every: args.every, samples: args.samples, seed: args.seed };
    let found = |one: &Foreseen| {
        watch.go_on()?;
        all.push(*one);
        Ok(())
    };
    let counts = watch.show(|| {
        common.with_trace(&watch, |jobs, processors| {
            let setting = common.setting(args.policy.policy(), processors);
            twin::foresee(&setting, how, jobs, found)
        })
    })?;
    if let Some(path) = &args.starts {
        let write = || {
            let mut out = BufWriter::new(File::create(path)?);
            writeln!(out, "job,submit_s,p10_wait_s,p50_wait_s,p90_wait_s,limits_wait_s,waited_s")?;
            for one in &all {
                let [p10, p50, p90] = one.wait_s;
                let (limits, seen) = (one.wait_by_limits_s, one.waited_s);
                let (job, submit) = (one.job, one.submit_s);
                writeln!(out, "{job},{submit},{p10:.0},{p50:.0},{p90:.0},{limits:.0},{seen}")?;
            }
            out.flush()
        };
        write().map_err(|error| at(path, &error))?;
    }
    if watch.is_interrupted() {
        return Err(cut_short(all.len() as u64));
    }
    if all.is_empty() {
        let text = "too few jobs wait: nothing can be scored before a hundred starts were seen";
        return Err(Failure::new(format!("{text}\nhint: --every 1 foresees each of them")));
    }
    let score = score(&all);
    if common.json {
        let policy = json!({ "policy": args.policy.to_string(), "samples": args.samples });
        return say::json(&with(&policy, &json!(score)));
    }
    tell_of(&counts);
    let mut table = Table::new(&["STARTS FORESEEN", ">WITHIN %", ">PINBALL s", ">OFF BY s"]);
    table.row(vec![
        "p10, p50 and p90".to_owned(),
        format!("{:.1}", score.coverage * 100.0),
        format!("{:.0}", score.pinball_s),
        format!("{:.0}", score.error_s),
    ]);
    table.row(vec![
        "by time limits".to_owned(),
        "-".to_owned(),
        format!("{:.0}", score.pinball_by_limits_s),
        format!("{:.0}", score.error_by_limits_s),
    ]);
    print(&table.text(terminal_width()));
    let [before, after, on_end] = [score.before, score.after, score.on_end].map(|p| p * 100.0);
    note(&format!(
        "{} waiting jobs; {before:.1} % started before the interval, {after:.1} % after it, \
         {on_end:.1} % at an end of it to the second (counted half)",
        score.jobs
    ));
    Ok(0)
}
