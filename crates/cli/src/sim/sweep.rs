//! `muster sim sweep`: a trace under each combination of settings of the policy.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use muster_config::{Config, Source};
use muster_model::{DevicePolicy, Policy};
use muster_sim::confidence::{Confidence, Interval, Weeks, confidence};
use muster_sim::twin::Summary;
use serde_json::json;

use super::common::{Common, Replayed, Run, cut_short};
use super::own_log::Logged;
use super::past::Past;
use super::replay::{SEED, span};
use super::watch::{Watch, in_parallel};
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, terminal_width};

/// More combinations are a mistake, most likely.
const COMBINATIONS_MAX: usize = 4096;

/// The words of `muster sim sweep`.
#[derive(Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    common: Common,
    /// A key of the section `[policy]` and the values to try: guard_first=300,400
    #[arg(required = true, value_name = "KEY=V1,V2…")]
    grid: Vec<Axis>,
    /// The configuration that the settings are changed in; without it, all defaults, or the policy
    /// that muster's own log ends with
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// So many replays of each: the trace itself, the others with submissions moved at random
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// By how many seconds submissions are moved at most
    #[arg(long, default_value_t = 120, value_name = "S")]
    jitter: u32,
}

/// A key and its values.
#[derive(Clone)]
struct Axis {
    key: String,
    values: Vec<String>,
}

impl std::str::FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("KEY=V1,V2… is wanted")?;
        let known = muster_config::PolicySection::SECTION.keys;
        if !known.iter().any(|one| one.name == key) {
            let names: Vec<&str> = known.iter().map(|one| one.name).collect();
            return Err(format!("the section [policy] has no key {key:?}; {}", names.join(", ")));
        }
        let values: Vec<String> = values.split(',').map(toml_value).collect();
        Ok(Self { key: key.to_owned(), values })
    }
}

/// A value as TOML: a number or a truth as it stands, all else as text.
fn toml_value(text: &str) -> String {
    let text = text.trim();
    let plain = text.parse::<i64>().is_ok() || matches!(text, "true" | "false");
    if plain || text.starts_with('"') { text.to_owned() } else { format!("{text:?}") }
}

/// One combination: what is set, and the policy that it makes.
struct Combination {
    settings: Vec<(String, String)>,
    policy: Policy,
}

/// Replays under all of them.
pub(crate) fn run(args: &SweepArgs) -> Outcome {
    let common = &args.common;
    let seeds = args.seeds as usize;
    let past = Past::open(common)?;
    if past.log().is_some() && seeds > 1 {
        let text = "--seeds moves submissions of a trace, not of muster's own log";
        return Err(Failure::usage(text));
    }
    let combinations = combinations(args, past.log().map(Logged::policy))?;
    let watch = Watch::begin();
    watch.expect(past.size() * (combinations.len() * seeds) as u64);
    let replay = |which: usize| {
        let (combination, seed) = (&combinations[which / seeds], which % seeds);
        let name = words(&combination.settings);
        let jitter = (seed > 0).then_some((args.jitter, seed as u64));
        let run = Run { name, policy: Some(combination.policy.clone()), whole: true, jitter };
        let mut weeks = Weeks::default();
        let row = |done: &_| {
            weeks.add(done);
            Ok(())
        };
        let Replayed { summary, left, .. } = past.replay(&run, &watch, row)?;
        if watch.is_interrupted() {
            return Err(cut_short(summary.jobs));
        }
        Ok((summary, weeks, left))
    };
    let found = watch.show(|| in_parallel(combinations.len() * seeds, replay))?;
    let rows: Vec<Row<'_>> = combinations
        .iter()
        .zip(found.chunks(seeds))
        .map(|(combination, runs)| {
            let mut weeks = Weeks::default();
            for run in runs {
                weeks.merge(&run.1);
            }
            let runs = runs.iter().map(|run| run.0.clone()).collect();
            Row { settings: &combination.settings, runs, weeks }
        })
        .collect();
    let weeks: Vec<Weeks> = rows.iter().map(|row| row.weeks.clone()).collect();
    let sure = confidence(&weeks, SEED);
    if common.json {
        let told: Vec<_> =
            rows.iter().enumerate().map(|(at, row)| row.json(at, sure.as_deref())).collect();
        return say::json(&json!({
            "trace": common.trace.file_name().map(|name| name.to_string_lossy().into_owned()),
            "seeds": args.seeds,
            "jitter_s": args.jitter,
            "combinations": told,
        }));
    }
    if let Some((_, _, left)) = found.first() {
        left.tell();
    }
    print(&table(&rows, sure.as_deref()).text(terminal_width()));
    let best = rows.iter().min_by(|a, b| a.slowdown().total_cmp(&b.slowdown()));
    if let Some(best) = best {
        note(&format!("the lowest slowdown: {}", words(best.settings)));
        note("hint: with --json into a file, `muster config propose FILE` makes a change of it");
    }
    Ok(0)
}

/// The configuration as it is, then all combinations, the last key's values fastest. Without a
/// configuration a log's own policy is changed.
fn combinations(args: &SweepArgs, logged: Option<&Policy>) -> Result<Vec<Combination>, Failure> {
    let base = match (&args.config, logged) {
        (None, None) => Config::default(),
        (None, Some(logged)) => Config { policy: logged.into(), ..Config::default() },
        (Some(path), _) => {
            Source::find(Some(path)).read().map_err(|error| Failure::new(error.to_string()))?
        }
    };
    let count: usize = args.grid.iter().fold(1, |n, axis| n.saturating_mul(axis.values.len()));
    if count > COMBINATIONS_MAX {
        let text = format!("{count} combinations; at most {COMBINATIONS_MAX} are tried");
        return Err(Failure::usage(text));
    }
    let mut all = vec![Vec::new()];
    for axis in &args.grid {
        let with = |settings: &Vec<(String, String)>| {
            let one = |value: &String| {
                let mut settings = settings.clone();
                settings.push((axis.key.clone(), value.clone()));
                settings
            };
            axis.values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all.insert(0, Vec::new());
    let found = all.into_iter().map(|settings| {
        let policy = beside(policy(&base, &settings)?, logged);
        Ok(Combination { settings, policy })
    });
    found.collect()
}

/// A policy of the section with what the section does not say: of a log its own, and in a trace
/// nobody's use is counted.
fn beside(policy: Policy, logged: Option<&Policy>) -> Policy {
    let Some(logged) = logged else { return Policy { count_usage: false, ..policy } };
    let devices =
        DevicePolicy { typical_shares: logged.devices.typical_shares.clone(), ..policy.devices };
    Policy {
        count_usage: logged.count_usage,
        priority: logged.priority.clone(),
        preemption: logged.preemption.clone(),
        devices,
        ..policy
    }
}

/// The policy of a configuration with some settings changed.
fn policy(base: &Config, settings: &[(String, String)]) -> Result<Policy, Failure> {
    // Writing to a string cannot fail.
    let mut text = String::from("[policy]\n");
    for setting in base.settings() {
        let Some(key) = setting.key.strip_prefix("policy.") else { continue };
        if !settings.iter().any(|(changed, _)| changed == key) {
            let _ = writeln!(text, "{key} = {}", setting.value);
        }
    }
    for (key, value) in settings {
        let _ = writeln!(text, "{key} = {value}");
    }
    let config = Config::parse(&text, &words(settings)).map_err(|error| {
        let said: Vec<&str> = error.problems.iter().map(|one| one.message.as_str()).collect();
        Failure::usage(format!("{}: {}", words(settings), said.join("; ")))
    })?;
    Ok(Policy::from(&config.policy))
}

fn words(settings: &[(String, String)]) -> String {
    if settings.is_empty() {
        return "as it is".to_owned();
    }
    let one = |(key, value): &(String, String)| format!("{key}={}", value.trim_matches('"'));
    settings.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What came of a combination: its replays, and their jobs week by week.
struct Row<'a> {
    settings: &'a [(String, String)],
    runs: Vec<Summary>,
    weeks: Weeks,
}

impl Row<'_> {
    fn mean(&self, of: impl Fn(&Summary) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len().max(1) as f64
    }

    fn slowdown(&self) -> f64 {
        self.mean(|run| run.average_bounded_slowdown)
    }

    fn most(&self, of: impl Fn(&Summary) -> i64) -> i64 {
        self.runs.iter().map(of).max().unwrap_or(0)
    }

    fn json(&self, at: usize, sure: Option<&[Confidence]>) -> serde_json::Value {
        let settings: serde_json::Map<String, serde_json::Value> =
            self.settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        json!({
            "settings": settings,
            "average_bounded_slowdown": self.slowdown(),
            "average_wait_s": self.mean(|run| run.average_wait_s),
            "max_wait_s": self.most(|run| run.max_wait_s),
            "average_flow_time_s": self.mean(|run| run.average_flow_time_s),
            "max_flow_time_s": self.most(|run| run.max_flow_time_s),
            "utilisation": self.mean(|run| run.utilisation),
            "confidence_95": sure.and_then(|sure| sure.get(at)),
            "runs": self.runs,
        })
    }
}

fn table(rows: &[Row<'_>], sure: Option<&[Confidence]>) -> Table {
    let several = rows.first().is_some_and(|row| row.runs.len() > 1);
    let mut titles = vec!["SETTINGS", ">SLOWDOWN"];
    if several {
        titles.push(">BY SEED");
    }
    titles.extend([">95 % LESS FIRST", ">WAIT s", ">WORST s"]);
    let mut table = Table::new(&titles);
    for (at, row) in rows.iter().enumerate() {
        let all = || row.runs.iter().map(|run| run.average_bounded_slowdown);
        let less = sure.and_then(|sure| sure.get(at)).map(|one| one.slowdown_less_first);
        let mut cells = vec![words(row.settings), format!("{:.3}", row.slowdown())];
        if several {
            let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
            cells.push(span(Interval { low, high }, 1));
        }
        cells.extend([
            less.filter(|_| at > 0).map_or_else(|| "-".to_owned(), |less| span(less, 2)),
            format!("{:.0}", row.mean(|run| run.average_wait_s)),
            row.most(|run| run.max_wait_s).to_string(),
        ]);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_and_keys_are_those_of_the_section() {
        assert_eq!(toml_value("easy"), "\"easy\"");
        assert_eq!(toml_value("400"), "400");
        assert_eq!(toml_value("1d"), "\"1d\"");
        assert!("bakfill=easy".parse::<Axis>().is_err());
        let axis: Axis = "backfill=easy, none".parse().unwrap();
        assert_eq!(axis.values, ["\"easy\"", "\"none\""]);
    }

    #[test]
    fn a_setting_changes_the_policy_and_a_wrong_one_is_told() {
        let base = Config::parse("[policy]\nguard_first = 123\n", "base").unwrap();
        let set = |key: &str, value: &str| vec![(key.to_owned(), toml_value(value))];
        let found = policy(&base, &set("order", "slowdown")).unwrap();
        assert_eq!(found.order, muster_model::OrderMode::Slowdown);
        assert_eq!(found.wait_guard.first, 123);
        let error = policy(&base, &set("order", "random")).unwrap_err();
        assert!(error.code == 2 && error.text.starts_with("order=random: "), "{}", error.text);
    }
}
