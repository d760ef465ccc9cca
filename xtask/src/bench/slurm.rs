//! A queue beside a real Slurm: how long its backfill takes for a job, and how long muster takes to
//! read the same queue and plan a start for every job of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Bound, Figure, figure, machine};
use crate::args::Args;
use crate::slurm::{Bed, LARGE, available};
use crate::{root, sh};

/// Jobs that wait, as in the published comparison.
const JOBS: u32 = 10_235;
/// Pairs of shape and limit among them, at least.
const PAIRS: usize = 1000;
/// So many times faster for a job than Slurm's tuned backfill, at least.
const TIMES: f64 = 500.0;
/// What a site tunes: every job is tried, time in slots of ten minutes, no break before a minute.
const TUNED: &str = "bf_max_job_test=20000,bf_resolution=600,bf_window=10080,bf_interval=10,\
                     bf_max_time=60,bf_yield_interval=60000000,bf_continue,default_queue_depth=10";
/// So many jobs are tried in a cycle that counts, with Slurm's defaults and with those.
const DEPTH: f64 = 100.0;
const TUNED_DEPTH: f64 = 500.0;
/// A cycle may take so long to come.
const CYCLE_S: u64 = 300;
/// slurmctld may drop the calls of so long a time: it does while it takes up its configuration, and
/// while a cycle holds its locks.
const DROPS_S: u64 = 120;

/// `cargo xtask bench slurm [--jobs N] [--json FILE]`.
pub(super) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let jobs = args.value("--jobs")?.map_or(Ok(JOBS), |n| n.parse());
    let jobs: u32 = jobs.map_err(|error| format!("--jobs: {error}"))?;
    let json = args.value("--json")?.map(PathBuf::from);
    args.finish()?;
    if let Err(missing) = available() {
        println!("skipped: no Slurm to compare with: {missing}");
        return Ok(());
    }
    sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster-bench"]))?;
    let mut figures = Vec::new();
    say("starting 1,000 nodes");
    let bed = Bed::start(LARGE)?;
    fill(&bed)?;
    submit(&bed, jobs)?;
    let default = cycle(&bed, "", DEPTH)?;
    figures.extend(default.figures("Slurm, its defaults"));
    let tuned = cycle(&bed, TUNED, TUNED_DEPTH)?;
    figures.extend(tuned.figures("Slurm, tuned"));
    figures.extend(muster(&bed, jobs, &tuned)?);
    drop(bed);
    println!("\n{}", figure::render(&figures));
    let file = json.unwrap_or_else(|| root::target().join("bench-slurm.json"));
    let text = json!({ "machine": machine(), "tuned": TUNED, "figures": figures });
    std::fs::write(&file, format!("{text:#}\n"))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\nas JSON in {}", file.display());
    let bounded = figures.iter().filter(|figure| figure.bound.is_some()).count();
    let missed = figures.iter().filter(|figure| !figure.holds()).count();
    println!("bench slurm: {} of {bounded} bounds hold", bounded - missed);
    if missed == 0 { Ok(()) } else { Err(format!("{missed} figures missed their bound")) }
}

fn say(what: &str) {
    println!("-- {what}");
}

/// Every node busy, in twenty jobs of fifty nodes that end one after the other.
fn fill(bed: &Bed) -> Result<(), String> {
    say("filling them");
    let script = bed.dir().join("busy.sh");
    std::fs::write(&script, "#!/bin/sh\nexec sleep 100000\n").map_err(|error| error.to_string())?;
    for n in 0..20u32 {
        let limit = (60 + 90 * n).to_string();
        bed.read("sbatch", &["-N50", "--exclusive", "-t", &limit, "-o", "/dev/null", "busy.sh"])?;
    }
    until("every node is busy", || {
        let said = bed.read("sinfo", &["-h", "-o", "%D %t"])?;
        Ok((said.trim() == format!("{} alloc", LARGE.nodes)).then_some(()))
    })
}

/// The words of the jobs that wait: whole nodes, narrow ones often, limits from minutes to a day.
fn queue(jobs: u32) -> Vec<String> {
    let mut seed = 0x2545_F491_4F6C_DD1Du64;
    let mut below = move |end: u64| {
        // xorshift64* (Vigna 2016).
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        (seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % end
    };
    let mut job = |_| {
        let width = 1u64 << below(6).min(below(9));
        let minutes = [5, 15, 30, 60, 120, 240, 480, 720, 1440][below(9) as usize] + below(30);
        let mut words = format!("-N{width} --exclusive -t {minutes}");
        match below(4) {
            0 => write!(words, " --gres=gpu:h100:{}", 1 + below(8)),
            1 => write!(words, " -C rack{}", below(4)),
            2 => write!(words, " -c {} --mem={}", 1 + below(64), 1000 * (1 + below(200))),
            _ => Ok(()),
        }
        .unwrap_or(());
        words
    };
    (0..jobs).map(&mut job).collect()
}

fn submit(bed: &Bed, jobs: u32) -> Result<(), String> {
    say(&format!("submitting {jobs} jobs"));
    let words = queue(jobs);
    let pairs: BTreeSet<&String> = words.iter().collect();
    if jobs == JOBS && pairs.len() < PAIRS {
        return Err(format!("only {} pairs of shape and limit", pairs.len()));
    }
    // No scheduler between submissions: it would only take their time.
    bed.schedule_with("sched_min_interval=3600000000,bf_interval=3600,defer")?;
    let list = bed.dir().join("queue");
    std::fs::write(&list, words.join("\n") + "\n").map_err(|error| error.to_string())?;
    let all =
        "xargs -P 8 -L 1 sh -c 'sbatch -Q -o /dev/null \"$@\" busy.sh >/dev/null' submit <queue";
    bed.read("sh", &["-c", all])?;
    until("every job waits", || {
        let said = bed.read("squeue", &["-h", "-t", "PD", "-o", "%i"])?;
        Ok((said.lines().count() == jobs as usize).then_some(()))
    })
}

/// A cycle of Slurm's backfill, as sdiag tells it.
struct Cycle {
    ms: f64,
    depth: f64,
    /// How long its thread was on a core for it, where the kernel tells that: others may have had
    /// the core meanwhile.
    on_core_ms: Option<f64>,
}

impl Cycle {
    /// What counts: time on a core, as for muster.
    fn counted_ms(&self) -> f64 {
        self.on_core_ms.map_or(self.ms, |on_core| on_core.min(self.ms))
    }

    fn each_ms(&self) -> f64 {
        self.counted_ms() / self.depth.max(1.0)
    }

    fn figures(&self, name: &str) -> Vec<Figure> {
        let (depth, took, counted) = (self.depth, self.ms / 1e3, self.counted_ms() / 1e3);
        let note = format!(
            "{depth:.0} jobs tried in a cycle of {took:.1} s (sdiag), {counted:.1} s on its core"
        );
        vec![Figure::baseline(&format!("{name}: a job"), self.each_ms(), "ms", &note)]
    }
}

/// How long slurmctld's backfill has been on a core so far, ms: by the name of its thread (Linux,
/// `Documentation/scheduler/sched-stats.rst`).
fn backfill_on_core_ms(bed: &Bed) -> Option<f64> {
    let pid = std::fs::read_to_string(bed.dir().join("slurmctld.pid")).ok()?;
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.trim())).ok()?;
    let named = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "bckfl")
    };
    let task = tasks.filter_map(|task| Some(task.ok()?.path())).find(named)?;
    let stats = std::fs::read_to_string(task.join("schedstat")).ok()?;
    stats.split_whitespace().next()?.parse::<f64>().ok().map(|ns| ns / 1e6)
}

/// Tries again what slurmctld drops.
fn patiently<T>(mut what: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let begin = Instant::now();
    loop {
        match what() {
            Err(_) if begin.elapsed() < Duration::from_secs(DROPS_S) => {
                std::thread::sleep(Duration::from_secs(2));
            }
            done => return done,
        }
    }
}

/// A cycle with these parameters in which so many jobs were tried; the deepest where none comes.
/// Some are cut off early: right after a change of the configuration, or by a change of a node.
fn cycle(bed: &Bed, parameters: &str, depth: f64) -> Result<Cycle, String> {
    let name = if parameters.is_empty() { "Slurm's defaults" } else { parameters };
    say(&format!("a cycle with {name}"));
    patiently(|| bed.schedule_with(parameters))?;
    patiently(|| bed.read("sdiag", &["--reset"]))?;
    let mut before = backfill_on_core_ms(bed);
    let mut seen = 0.0;
    let mut deepest: Option<Cycle> = None;
    let found = until("a backfill cycle", || {
        let Ok(said) = bed.read("sdiag", &[]) else { return Ok(None) };
        let backfill = said.split_once("Backfilling stats").map_or("", |(_, rest)| rest);
        let value = |key: &str| -> f64 {
            let line = backfill.lines().find_map(|line| line.trim().strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
        };
        let cycles = value("Total cycles:");
        if cycles <= seen {
            return Ok(None);
        }
        let now = backfill_on_core_ms(bed);
        let cycle = Cycle {
            ms: value("Last cycle:") / 1e3,
            depth: value("Last depth cycle:"),
            // Of several between two looks it is not known whose time that was.
            on_core_ms: now
                .zip(before)
                .map(|(now, then)| now - then)
                .filter(|_| cycles - seen < 1.5),
        };
        (seen, before) = (cycles, now);
        println!("   {:.0} jobs in {:.1} s", cycle.depth, cycle.ms / 1e3);
        if cycle.depth >= depth {
            return Ok(Some(cycle));
        }
        if deepest.as_ref().is_none_or(|deepest| deepest.depth < cycle.depth) {
            deepest = Some(cycle);
        }
        Ok(None)
    });
    found.or_else(|why| deepest.filter(|cycle| cycle.depth > 0.0).ok_or(why))
}

fn until<T>(what: &str, mut done: impl FnMut() -> Result<Option<T>, String>) -> Result<T, String> {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(CYCLE_S) {
        if let Some(done) = done()? {
            return Ok(done);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Err(format!("waited {CYCLE_S} s in vain until {what}"))
}

/// The same queue, read and planned by muster.
fn muster(bed: &Bed, jobs: u32, tuned: &Cycle) -> Result<Vec<Figure>, String> {
    say("muster reads the queue and plans it");
    let file = bed.dir().join("muster.json");
    let mut bench = sh::command(root::target().join("release/muster-bench"));
    bench.arg("--slurm").arg(bed.conf()).arg("--json").arg(&file);
    // A bound that it misses is told by the figures below.
    let ran = sh::run(&mut bench);
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{ran:?}: {error}"))?;
    let rows: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let row = |name: &str| {
        rows["figures"].as_array().into_iter().flatten().find(|row| row["name"] == name).cloned()
    };
    let value = |name: &str| {
        row(name).and_then(|row| row["value"].as_f64()).ok_or_else(|| format!("no figure {name}"))
    };
    let note = |name: &str| {
        row(name).and_then(|row| row["note"].as_str().map(str::to_owned)).unwrap_or_default()
    };
    let bound = |name: &str, unit, bound| -> Result<Figure, String> {
        Ok(Figure::bounded(name, value(name)?, unit, bound, note(name)))
    };
    let plan = value("a start for every job")?;
    let pairs = if jobs == JOBS { PAIRS as f64 } else { 1.0 };
    let times = tuned.each_ms() / (plan / f64::from(jobs.max(1)));
    Ok(vec![
        bound("jobs", "jobs", Bound::AtLeast(f64::from(jobs)))?,
        bound("pairs of shape and limit", "pairs", Bound::AtLeast(pairs))?,
        bound("read", "ms", Bound::AtMost(2000.0))?,
        bound("a start for every job", "ms", Bound::AtMost(1000.0))?,
        bound("every job has a start", "wrong", Bound::AtMost(0.0))?,
        bound("the recount finds nothing", "wrong", Bound::AtMost(0.0))?,
        Figure::bounded(
            "faster for a job than Slurm tuned",
            times,
            "times",
            Bound::AtLeast(TIMES),
            "the time of the whole plan by the number of jobs",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::{JOBS, PAIRS, queue};
    use std::collections::BTreeSet;

    #[test]
    fn the_queue_has_enough_pairs_and_is_the_same_each_time() {
        let words = queue(JOBS);
        assert_eq!(words, queue(JOBS));
        assert!(words.iter().collect::<BTreeSet<_>>().len() >= PAIRS);
    }
}
