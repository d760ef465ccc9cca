//! The twin on public traces: every policy's figures and the time of the whole process, and AccaSim,
//! a simulator from the Python package index, on one of them in the same run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

mod foreseen;
mod long;
mod placed;
mod published;

use super::figure::{Bound, Figure, render};
use crate::args::Args;
use crate::stage::table;
use crate::{root, sh};

/// Logs of the Parallel Workloads Archive, and what a replay under EASY is to take at most, seconds.
const TRACES: [(&str, Option<f64>); 4] = [
    ("kth-sp2", Some(0.1)),
    ("cea-curie-sample", Some(0.3)),
    ("llnl-atlas", Some(0.3)),
    ("lublin-256", None),
];

const POLICIES: [&str; 5] = ["fifo", "easy", "easy-sjbf", "conservative", "muster"];

/// Each replay is run so often; the quickest counts, for others on the machine only slow it.
const RUNS: usize = 5;

/// EASY's average bounded slowdown on KTH-SP2 (Gaussier, Glesser, Reis and Trystram, SC 2015).
const PUBLISHED: f64 = 92.576_539_733_629_5;

const PACKAGE: &str = "accasim==1.1.3";

/// EASY on the 100 processors of KTH-SP2. The package names classes of `collections` where Python
/// had them up to 3.9.
const PROGRAM: &str = r#"
import collections, collections.abc, sys
for name in ("Mapping", "MutableMapping", "Iterable", "Sequence"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))
from accasim.base.simulator_class import Simulator
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.allocator_class import FirstFit
Simulator(sys.argv[1], sys.argv[2], EASYBackfilling(FirstFit()),
          RESULTS_FOLDER_NAME="results").start_simulation()
"#;

const SYSTEM: &str = r#"{"groups":{"g0":{"core":1}},"resources":{"g0":100},
"equivalence":{"processor":{"core":1}},"start_time":843480031}"#;

/// A replay: which, what it came to, how long it took.
struct Row {
    trace: &'static str,
    policy: &'static str,
    summary: Value,
    seconds: f64,
}

/// `cargo xtask bench sim [--json FILE] [--quick]`; quick leaves out what takes minutes.
pub(super) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let json = args.value("--json")?.map(PathBuf::from);
    let quick = args.switch("--quick");
    args.finish()?;
    sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster"]))?;
    let binary = root::target().join("release/muster");
    let folder = traces();
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (trace, most) in TRACES {
        let file = folder.join(format!("{trace}.swf.gz"));
        if !file.exists() {
            println!("skipped: {trace}: there is no {}", file.display());
            continue;
        }
        for policy in POLICIES {
            println!("-- {trace} {policy}");
            let (summary, seconds) = replay(&binary, &file, policy)?;
            rows.push(Row { trace, policy, summary, seconds });
        }
        let easy = rows.iter().rfind(|row| row.policy == "easy");
        if let (Some(most), Some(easy)) = (most, easy) {
            let name = format!("EASY, {trace}");
            figures.push(Figure::bounded(
                &name,
                easy.seconds,
                "s",
                Bound::AtMost(most),
                format!("the whole process, the quickest of {RUNS}"),
            ));
        }
    }
    if let Some(easy) = rows.iter().find(|row| row.trace == "kth-sp2" && row.policy == "easy") {
        figures.extend(against_others(easy, &folder)?);
    }
    figures.extend(published::default_policy(&rows));
    let kth = folder.join("kth-sp2.swf.gz");
    if kth.exists() {
        figures.extend(published::figures(&binary, &kth)?);
    }
    let place = root::target().join("bench-sim");
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    figures.extend(long::overload(&binary, &place)?);
    if !quick {
        for (trace, _) in TRACES {
            let file = folder.join(format!("{trace}.swf.gz"));
            if file.exists() {
                println!("-- starts foreseen on {trace}");
                figures.extend(foreseen::figures(&binary, trace, &file)?);
            }
        }
        figures.extend(placed::figures(&binary, &folder)?);
        figures.extend(long::year(&binary, &place)?);
    }
    println!("\n{}\n{}", told(&rows), render(&figures));
    let file = json.unwrap_or_else(|| root::target().join("bench-sim.json"));
    let replays: Vec<Value> = rows.iter().map(Row::json).collect();
    let text = json!({ "machine": super::machine(), "replays": replays, "figures": figures });
    std::fs::write(&file, format!("{text:#}\n"))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\nas JSON in {}", file.display());
    Ok(())
}

/// The folder with public traces, as tests look for it.
fn traces() -> PathBuf {
    let given = std::env::var_os("MUSTER_TRACES").map(PathBuf::from);
    let beside = ["../shared/traces", "../../shared/traces"].map(|path| root::dir().join(path));
    let missing = beside[0].clone();
    given.into_iter().chain(beside).find(|folder| folder.is_dir()).unwrap_or(missing)
}

/// Replays a trace some times: what it came to, and the quickest run.
fn replay(binary: &Path, trace: &Path, policy: &str) -> Result<(Value, f64), String> {
    replay_with(binary, trace, &["--policy", policy], RUNS)
}

/// The same with other words, and so often.
fn replay_with(
    binary: &Path,
    trace: &Path,
    words: &[&str],
    runs: usize,
) -> Result<(Value, f64), String> {
    let mut best = f64::INFINITY;
    let mut summary = Value::Null;
    for _ in 0..runs {
        let mut command = sh::command(binary);
        command.args(["sim", "replay", "--json"]).args(words).arg(trace);
        let begin = Instant::now();
        let text = sh::read(&mut command)?;
        best = best.min(begin.elapsed().as_secs_f64());
        summary = serde_json::from_str(&text).map_err(|error| format!("{words:?}: {error}"))?;
    }
    Ok((summary, best))
}

impl Row {
    fn number(&self, key: &str) -> f64 {
        self.summary[key].as_f64().unwrap_or(f64::NAN)
    }

    fn cells(&self) -> [String; 8] {
        [
            self.trace.to_owned(),
            self.policy.to_owned(),
            format!("{:.0}", self.number("jobs")),
            format!("{:.3}", self.number("average_bounded_slowdown")),
            format!("{:.0}", self.number("average_wait_s")),
            format!("{:.0}", self.number("max_wait_s")),
            format!("{:.0}", self.number("max_flow_time_s")),
            format!("{:.3}", self.seconds),
        ]
    }

    fn json(&self) -> Value {
        let mut value = self.summary.clone();
        value["trace"] = json!(self.trace);
        value["seconds"] = json!(self.seconds);
        value
    }
}

fn told(rows: &[Row]) -> String {
    let cells: Vec<[String; 8]> = rows.iter().map(Row::cells).collect();
    let titles =
        ["trace", "policy", "jobs", "slowdown", "wait s", "longest", "longest flow", "took s"];
    table(&titles, &cells)
}

/// Whether the published figure comes out, and how much faster a job is than in AccaSim.
fn against_others(easy: &Row, folder: &Path) -> Result<Vec<Figure>, String> {
    let found = easy.number("average_bounded_slowdown");
    let off = (found / PUBLISHED - 1.0).abs();
    if off.is_nan() || off > 1e-9 {
        return Err(format!("EASY on kth-sp2 has a slowdown of {found}, not {PUBLISHED}"));
    }
    let own = easy.seconds / easy.number("jobs");
    match accasim(&folder.join("kth-sp2.swf.gz")) {
        Ok((seconds, jobs)) => {
            let other = seconds / jobs as f64;
            let told = format!("{PACKAGE}, whole process, {jobs} jobs in {seconds:.1} s");
            Ok(vec![
                Figure::baseline("AccaSim's EASY, kth-sp2", other * 1e6, "us/job", &told),
                Figure::baseline("muster's", own * 1e6, "us/job", "whole process"),
                Figure::bounded(
                    "faster for a job",
                    other / own,
                    "times",
                    Bound::AtLeast(100.0),
                    "its EASY follows other rules: for speed only",
                ),
            ])
        }
        Err(why) => {
            println!("skipped: AccaSim beside it: {why}");
            Ok(Vec::new())
        }
    }
}

/// Runs AccaSim on the jobs of a trace that ran: seconds of the whole process, and how many jobs.
fn accasim(trace: &Path) -> Result<(f64, usize), String> {
    let place = root::target().join("tools/accasim");
    let python = place.join("bin/python");
    if !python.exists() {
        sh::read(sh::command("python3").args(["-m", "venv"]).arg(&place))?;
    }
    sh::read(sh::command(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    let text = sh::read(sh::command("gzip").arg("-dc").arg(trace))?;
    let ran = |line: &&str| {
        let run = line.split_whitespace().nth(3).and_then(|run| run.parse::<i64>().ok());
        !line.starts_with(';') && run.is_some_and(|run| run > 0)
    };
    let lines: Vec<&str> = text.lines().filter(ran).collect();
    let write = |name: &str, text: &str| {
        let file = place.join(name);
        let told = std::fs::write(&file, text);
        told.map(|()| file.clone()).map_err(|error| format!("{}: {error}", file.display()))
    };
    let swf = write("trace.swf", &format!("{}\n", lines.join("\n")))?;
    let (system, program) = (write("system.json", SYSTEM)?, write("run.py", PROGRAM)?);
    let mut command = sh::command(&python);
    command.arg(program).arg(swf).arg(system).current_dir(&place);
    let begin = Instant::now();
    sh::read(&mut sh::bounded(command, 300))?;
    Ok((begin.elapsed().as_secs_f64(), lines.len()))
}
