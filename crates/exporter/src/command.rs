//! `muster export`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use muster_node_metrics::collector::{Collector, Options, Outcome, Report};

use crate::exposition::Settings;
use crate::families::Set;
use crate::otlp::{Push, PushWish};
use crate::{Owners, dashboard, exposition, rules, serve};

/// The subcommand of `muster` that [`run`] carries out.
pub const VERB: &str = "export";

#[derive(Parser)]
#[command(name = "muster", disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve what this machine and its jobs do as metrics for Prometheus
    Export(Export),
}

#[derive(Parser)]
struct Export {
    /// Where to listen; anybody who reaches it can read what users and jobs do
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9480")]
    address: SocketAddr,
    /// Print everything once and leave
    #[arg(long)]
    once: bool,
    /// The root of a captured tree in place of this machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print Prometheus's older text instead of OpenMetrics
    #[arg(long, requires = "once")]
    text: bool,
    /// Sets of metrics: node, dcgm, jobs, filesystems, muster [default: all]
    #[arg(long, value_name = "SET,…", value_delimiter = ',', value_parser = set)]
    sets: Vec<Set>,
    /// The most series; what is beyond is counted and left out
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    series_max: usize,
    /// The most jobs of which each is told by itself
    #[arg(long, value_name = "N", default_value_t = 500)]
    jobs_max: usize,
    /// Tell of the N processes that read and wrote most on disks
    #[arg(long, value_name = "N", default_value_t = 0)]
    processes: usize,
    /// Read a DCGM exporter there instead of asking the GPUs
    #[arg(long, value_name = "HOST:PORT")]
    dcgm: Option<String>,
    /// Push the same there by OTLP over HTTP, as http://collector:4318
    #[arg(long, value_name = "URL", conflicts_with_all = ["once", "rules", "dashboard"])]
    otlp: Option<String>,
    /// Headers for the OTLP receiver: a file with a line `name: value` each
    #[arg(long, value_name = "FILE")]
    otlp_headers: Option<PathBuf>,
    /// Push every so many seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    otlp_period: Option<u64>,
    /// Print a dashboard to import into Grafana
    #[arg(long, conflicts_with_all = ["once", "rules"])]
    dashboard: bool,
    /// Print alert rules for Prometheus
    #[arg(long, conflicts_with = "once")]
    rules: bool,
}

fn set(word: &str) -> Result<Set, String> {
    let known = Set::ALL.into_iter().filter(|set| *set != Set::Own);
    known.clone().find(|set| set.word() == word).ok_or_else(|| {
        let words: Vec<&str> = known.map(Set::word).collect();
        format!("there are {}", words.join(", "))
    })
}

/// The command as `clap` describes it, for help, completions and manual pages.
pub fn command() -> clap::Command {
    Line::command()
}

/// Carries out `muster export`; `args` begin with the program's name. Returns the exit code.
pub fn run(args: &[OsString]) -> i32 {
    let Verb::Export(export) = match Line::try_parse_from(args) {
        Ok(line) => line.command,
        Err(error) => {
            // Nothing can be said where the terminal is gone.
            let _ = error.print();
            return error.exit_code();
        }
    };
    if export.dashboard {
        return print(&format!("{:#}\n", dashboard()));
    }
    if export.rules {
        return print(&rules());
    }
    if !export.root.is_dir() {
        let root = export.root.display();
        return complain(&format!("{root} is no directory [E_PATH]"));
    }
    let settings = export.settings();
    let options = Options {
        root: export.root.clone(),
        processes: export.processes > 0,
        dcgm: export.dcgm.clone(),
        ..Options::default()
    };
    let mut collector = Collector::new(&options);
    if export.once {
        let snapshot = collector.collect();
        let all = exposition(&snapshot, &Owners::default(), &settings);
        for line in snapshot.reports.iter().filter_map(remark) {
            // To standard error: what is asked for goes to standard output alone.
            let _ = writeln!(std::io::stderr(), "muster: {line}");
        }
        return print(&if export.text { all.text() } else { all.open_metrics() });
    }
    let push = match Push::from(&export.push(), |name| std::env::var(name).ok()) {
        Ok(push) => push,
        Err(error) => return complain(&error.to_string()),
    };
    let told = |address| {
        let _ = writeln!(std::io::stderr(), "muster: metrics at http://{address}/metrics");
    };
    if let Some(push) = &push {
        let _ = writeln!(std::io::stderr(), "muster: metrics go to {push}");
    }
    match serve::serve(export.address, collector, settings, push, told) {
        Ok(()) => 0,
        Err(error) => complain(&format!(
            "{} cannot be listened on: {error} [E_LISTEN]\nhint: name another with --address",
            export.address
        )),
    }
}

impl Export {
    fn push(&self) -> PushWish {
        PushWish {
            endpoint: self.otlp.clone(),
            headers_file: self.otlp_headers.clone(),
            period: self.otlp_period.map(Duration::from_secs),
            service: "muster-export",
            hostname: hostname(&self.root),
        }
    }

    fn settings(&self) -> Settings {
        let mut sets: BTreeSet<Set> = self.sets.iter().copied().collect();
        if sets.is_empty() {
            sets.extend(Set::ALL);
        }
        sets.insert(Set::Own);
        Settings {
            sets,
            series_max: self.series_max,
            jobs_max: self.jobs_max,
            processes: self.processes,
            hostname: hostname(&self.root),
        }
    }
}

fn hostname(root: &Path) -> String {
    let name = muster_node_metrics::files::read(root, "proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}

/// What is to be said of a source that was not read whole.
fn remark(report: &Report) -> Option<String> {
    let source = report.source;
    match (&report.outcome, &report.first_skipped) {
        (Outcome::Failed(why), _) => Some(format!("{source}: {why}")),
        (Outcome::Late, _) => Some(format!("{source}: has not answered in time")),
        (Outcome::Read, Some(first)) => {
            Some(format!("{source}: {} lines left out, the first: {first:?}", report.skipped))
        }
        (Outcome::Read | Outcome::Absent, _) => None,
    }
}

fn print(text: &str) -> i32 {
    // A reader that went away (`| head`) is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    0
}

fn complain(text: &str) -> i32 {
    let _ = writeln!(std::io::stderr(), "muster: {text}");
    1
}

#[cfg(test)]
mod tests {
    use super::{Line, command};
    use clap::Parser;

    #[test]
    fn the_definition_is_sound_and_sets_are_known_words() {
        command().debug_assert();
        assert!(Line::try_parse_from(["muster", "export", "--sets", "node,dcgm"]).is_ok());
        assert!(Line::try_parse_from(["muster", "export", "--sets", "nodes"]).is_err());
        assert!(Line::try_parse_from(["muster", "export", "--rules", "--once"]).is_err());
    }
}
