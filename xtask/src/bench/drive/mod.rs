//! A partition decided by Slurm's own backfill and the same partition driven by muster: how many
//! trivial jobs start in a second, and how full the nodes are and how long jobs wait in a saturated
//! queue of gangs, arrays, short and long jobs. One Slurm, one queue, one way after the other.

mod mix;
mod score;

use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Bound, Figure, figure, machine};
use crate::args::Args;
use crate::slurm::{Bed, MIDDLE, available};
use crate::stage::table;
use crate::{root, sh};
use score::{Ran, Score};

/// Tasks of the array of trivial jobs.
const TASKS: u32 = 400;
/// Of the rate that Slurm reaches by itself muster has to reach so much.
const SHARE: f64 = 0.9;
/// A run may take so long.
const RUN_S: u64 = 900;
/// What the twin replays the queue by: the usual ones, and muster's own order.
const POLICIES: [&str; 3] = ["easy", "conservative", "muster"];

/// `cargo xtask bench drive [--scheduler PARAMETERS] [--order ORDER] [--tasks N] [--json FILE]`.
pub(super) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let scheduler = args.value("--scheduler")?.unwrap_or_default();
    let tasks = args.value("--tasks")?.map_or(Ok(TASKS), |n| n.parse());
    let tasks: u32 = tasks.map_err(|error| format!("--tasks: {error}"))?;
    let order = args.value("--order")?.unwrap_or_else(|| "slurm".to_owned());
    let json = args.value("--json")?.map(PathBuf::from);
    args.finish()?;
    if let Err(missing) = available() {
        println!("skipped: no Slurm to compare with: {missing}");
        return Ok(());
    }
    sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster"]))?;
    let bed = Bed::start(MIDDLE)?;
    if !scheduler.is_empty() {
        bed.schedule_with(&scheduler)?;
    }
    let runs = Runs { bed, tasks, order };
    let alone = runs.both("Slurm's own backfill", false)?;
    let driven = runs.both("driven by muster", true)?;
    let twin = runs.twin(&alone.ran)?;
    println!("\n{}", told(&alone, &driven, &twin));
    let figures = figures(&alone, &driven);
    println!("\n{}", figure::render(&figures));
    let file = json.unwrap_or_else(|| root::target().join("bench-drive.json"));
    let text = json!({
        "machine": machine(), "scheduler": scheduler, "figures": figures, "twin": twin,
    });
    std::fs::write(&file, format!("{text:#}\n"))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\nas JSON in {}", file.display());
    let missed = figures.iter().filter(|figure| !figure.holds()).count();
    if missed == 0 { Ok(()) } else { Err(format!("{missed} figures missed their bound")) }
}

/// A way to decide, measured.
struct Measured {
    name: &'static str,
    rate: f64,
    score: Score,
    ran: Vec<Ran>,
}

struct Runs {
    bed: Bed,
    tasks: u32,
    order: String,
}

/// A `muster drive slurm` that ends with the run.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Runs {
    fn both(&self, name: &'static str, driven: bool) -> Result<Measured, String> {
        let driver = if driven { Some(self.drive()?) } else { None };
        println!("-- {name}: {} trivial jobs", self.tasks);
        let rate = self.rate()?;
        println!("   {rate:.1} jobs/s\n-- {name}: the mixed queue");
        let (ran, score) = self.mixed()?;
        println!("   {} jobs in {:.0} s", score.jobs, score.makespan_s);
        if driver.is_some() {
            self.muster(&["drive", "stop"])?;
        }
        Ok(Measured { name, rate, score, ran })
    }

    fn muster(&self, words: &[&str]) -> Result<String, String> {
        let binary = root::target().join("release/muster");
        sh::read(self.bed.command(&binary.to_string_lossy()).args(words))
    }

    fn drive(&self) -> Result<Driver, String> {
        let binary = root::target().join("release/muster");
        let mut command = self.bed.command(&binary.to_string_lossy());
        command.args(["drive", "slurm", "--partition", "main", "--order", &self.order]);
        let driver = Driver(self.bed.detach(&mut command, "drive.log")?);
        until("muster decides", || {
            let log = std::fs::read_to_string(self.bed.dir().join("drive.log"));
            Ok(log.is_ok_and(|log| log.contains("muster decides")).then_some(()))
        })?;
        Ok(driver)
    }

    /// How many trivial jobs a second start, from the submission of the array to its end.
    fn rate(&self) -> Result<f64, String> {
        let begin = Instant::now();
        let array = format!("--array=1-{}", self.tasks);
        let words = ["--parsable", "-o", "/dev/null", "-t", "1", &array, "--wrap", "true"];
        self.bed.read("sbatch", &words)?;
        self.until_empty()?;
        Ok(f64::from(self.tasks) / begin.elapsed().as_secs_f64())
    }

    /// The mixed queue: it is all there before the partition opens.
    fn mixed(&self) -> Result<(Vec<Ran>, Score), String> {
        self.bed.read("scontrol", &["update", "PartitionName=main", "State=DOWN"])?;
        let mut first = None;
        for work in mix::mix() {
            let wrap = format!("exec sleep {}", work.seconds);
            let mut words = vec!["--parsable", "-o", "/dev/null"];
            words.extend(work.words.split(' '));
            words.extend(["--wrap", &wrap]);
            let job = self.bed.read("sbatch", &words)?;
            let job = job.trim().parse::<u64>().map_err(|error| format!("sbatch: {error}"))?;
            first.get_or_insert(job);
        }
        self.bed.read("scontrol", &["update", "PartitionName=main", "State=UP"])?;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |at| at.as_secs());
        self.until_empty()?;
        let mut squeue = self.bed.command("squeue");
        squeue.args(["-h", "-r", "-t", "all", "-o", "%A|%S|%e|%C|%l|%T"]);
        let text = sh::read(squeue.env("SLURM_TIME_FORMAT", "%s"))?;
        let mut ran = score::parse(&text)?;
        ran.retain(|job| first.is_some_and(|first| job.job >= first));
        let score = score::score(&ran, begin, MIDDLE.cpus().into());
        Ok((ran, score))
    }

    fn until_empty(&self) -> Result<(), String> {
        until("every job has run", || {
            let waits = self.bed.read("squeue", &["-h", "-t", "PD,R,CG,CF", "-o", "%i"]);
            Ok(waits.is_ok_and(|jobs| jobs.trim().is_empty()).then_some(()))
        })
    }

    /// The same jobs replayed on as many processors: without nodes, GPUs and what Slurm takes for a
    /// start, so what a policy could reach at best.
    fn twin(&self, ran: &[Ran]) -> Result<Vec<Value>, String> {
        let file = self.bed.dir().join("mixed.swf");
        std::fs::write(&file, score::swf(ran, MIDDLE.cpus().into()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let file = file.to_string_lossy();
        let replay = |policy: &str| {
            let said = self.muster(&["sim", "replay", "--json", "--policy", policy, &file])?;
            serde_json::from_str(&said).map_err(|error| format!("{policy}: {error}"))
        };
        POLICIES.into_iter().map(replay).collect()
    }
}

fn until<T>(what: &str, mut done: impl FnMut() -> Result<Option<T>, String>) -> Result<T, String> {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(RUN_S) {
        if let Some(done) = done()? {
            return Ok(done);
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    Err(format!("waited {RUN_S} s in vain until {what}"))
}

fn told(alone: &Measured, driven: &Measured, twin: &[Value]) -> String {
    let row = |name: &str, rate: String, [makespan, utilisation, slowdown, wait]: [f64; 4]| {
        [
            name.to_owned(),
            rate,
            format!("{makespan:.0}"),
            format!("{:.1} %", utilisation * 100.0),
            format!("{slowdown:.2}"),
            format!("{wait:.1}"),
        ]
    };
    let of = |way: &Measured| {
        let score = &way.score;
        let all = [score.makespan_s, score.utilisation, score.slowdown, score.wait_s];
        row(way.name, format!("{:.1}", way.rate), all)
    };
    let replayed = |(policy, summary): (&str, &Value)| {
        let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
        let keys = ["makespan_s", "utilisation", "average_bounded_slowdown", "average_wait_s"];
        row(&format!("twin, {policy}"), String::new(), keys.map(number))
    };
    let mut rows = vec![of(alone), of(driven)];
    rows.extend(POLICIES.into_iter().zip(twin).map(replayed));
    table(
        &["decided by", "trivial jobs/s", "all done s", "utilisation", "slowdown", "wait s"],
        &rows,
    )
}

fn figures(alone: &Measured, driven: &Measured) -> Vec<Figure> {
    let mixed = format!("{} jobs: gangs, arrays, short and long", driven.score.jobs);
    vec![
        Figure::baseline("starts, Slurm alone", alone.rate, "jobs/s", "an array of `true`"),
        Figure::bounded(
            "starts, driven",
            driven.rate / alone.rate,
            "of Slurm's",
            Bound::AtLeast(SHARE),
            format!("{:.1} jobs/s", driven.rate),
        ),
        Figure::bounded(
            "utilisation, driven",
            driven.score.utilisation / alone.score.utilisation,
            "of Slurm's",
            Bound::AtLeast(1.0),
            mixed.clone(),
        ),
        Figure::bounded(
            "bounded slowdown, driven",
            driven.score.slowdown / alone.score.slowdown,
            "of Slurm's",
            Bound::AtMost(1.0),
            mixed,
        ),
    ]
}
