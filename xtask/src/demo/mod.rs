//! `cargo xtask demo`: a training pipeline on this machine, from an empty cache to a service
//! that answers, with nothing left running.

mod jobs;
mod service;
mod watching;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::instance::Instance;
use crate::stage::{Outcome, table};
use crate::{need, root, sh, web};

use jobs::{Job, Watch};

/// Four practice nodes of eight invented GPUs.
const NODES: &str = "4x8";
const SMALL_JOBS: usize = 6;
const LIMIT_S: u64 = 120;
const POLL: Duration = Duration::from_millis(200);

/// `cargo xtask demo [--keep] [--page]`.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let keep = args.switch("--keep");
    let page = args.switch("--page");
    args.finish()?;
    need::find("python3", need::minimum("python3"))
        .map_err(|reason| format!("the demo's jobs are Python programs: {reason}"))?;
    let binary = build()?;
    let begin = Instant::now();
    println!("\nmuster up --practice {NODES}: four nodes of eight invented GPUs on this machine");
    let config = config()?;
    let config_path = config.path().to_string_lossy().into_owned();
    let mut instance = Instance::start(&binary, &["--practice", NODES, "--config", &config_path])?;
    let page = page.then(|| Page::open(&instance)).transpose()?;
    let result = Demo::new(&instance, begin)
        .and_then(|mut demo| demo.run())
        .and_then(|()| watching::show(&instance));
    drop(page);
    let stopped = instance.stop();
    if let Err(message) = &result {
        println!("\nthe daemon's last words:\n{}", instance.log_end());
        if keep {
            instance.keep();
        }
        return Err(message.clone());
    }
    stopped?;
    println!("nothing is left running; {:.1} s since the build", begin.elapsed().as_secs_f64());
    Ok(())
}

/// A stage of `cargo xtask test`.
pub(crate) fn smoke() -> Outcome {
    need::need("python3", "python3", need::minimum("python3"))?;
    main(&[])?;
    Ok(String::new())
}

/// Builds the program as the demo and the tests use it.
///
/// # Errors
/// The build failed.
pub(crate) fn build() -> Result<PathBuf, String> {
    web::build_where_possible();
    let begin = Instant::now();
    sh::run(&mut sh::cargo(&["build", "--locked", "--package", "muster"]))?;
    println!("built in {:.0} s", begin.elapsed().as_secs_f64());
    Ok(root::target().join("debug/muster"))
}

/// A configuration that looks at jobs often, as a file that is gone in the end.
///
/// # Errors
/// It cannot be written.
pub(crate) fn config() -> Result<tempfile::NamedTempFile, String> {
    let failed = |error: std::io::Error| format!("the configuration: {error}");
    let file = tempfile::NamedTempFile::new().map_err(failed)?;
    std::fs::write(file.path(), watching::CONFIG).map_err(failed)?;
    Ok(file)
}

/// The web page, served while the demo runs.
struct Page(std::process::Child);

impl Page {
    fn open(instance: &Instance) -> Result<Self, String> {
        let mut web = instance.muster();
        println!("the page, for as long as the demo runs:");
        web.arg("web").spawn().map(Self).map_err(|error| format!("muster web: {error}"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Demo<'a> {
    instance: &'a Instance,
    work: PathBuf,
    begin: Instant,
}

impl<'a> Demo<'a> {
    /// Lays out the example in a folder of its own, so that the checkout stays as it is.
    fn new(instance: &'a Instance, begin: Instant) -> Result<Self, String> {
        let work = instance.path("pipeline");
        copy(&root::dir().join("examples/pipeline"), &work)
            .map_err(|error| format!("examples/pipeline: {error}"))?;
        Ok(Self { instance, work, begin })
    }

    fn run(&mut self) -> Result<(), String> {
        let pipeline = self.submit_pipeline()?;
        let [_, train, _, deploy] = pipeline;
        self.explain(train, "train waits for the step before it");
        let mut watch = Watch::new(self.begin);
        // The big job comes while training holds two of the four nodes.
        self.follow(&mut watch, |jobs| running(jobs, train))?;
        let big = self.sbatch(&["big.sh"])?;
        self.explain(big, "the big job wants all four nodes");
        let mut small = Vec::new();
        for _ in 0..SMALL_JOBS {
            small.push(self.sbatch(&["small.sh"])?);
        }
        println!("{SMALL_JOBS} small jobs are short enough to run before it");
        self.follow(&mut watch, |jobs| running(jobs, deploy))?;
        service::ask(&self.work)?;
        println!("\n$ scancel {deploy}        # the service runs until it is stopped");
        sh::read(self.slurm("scancel").arg(deploy.to_string()))?;
        self.follow(&mut watch, |jobs| jobs.iter().all(Job::ended))?;
        self.close(&watch, &pipeline, big, &small)
    }

    /// preprocess -> train -> evaluate -> deploy, as submit.sh does it.
    fn submit_pipeline(&self) -> Result<[u64; 4], String> {
        let mut ids = [0; 4];
        for (step, script) in ["preprocess", "train", "evaluate", "deploy"].iter().enumerate() {
            let script = format!("{script}.sh");
            ids[step] = match step {
                0 => self.sbatch(&[&script])?,
                _ => self.sbatch(&[&format!("--dependency=afterok:{}", ids[step - 1]), &script])?,
            };
        }
        Ok(ids)
    }

    fn sbatch(&self, words: &[&str]) -> Result<u64, String> {
        let said = sh::read(self.slurm("sbatch").arg("--parsable").args(words))?;
        let id = said.trim().split(';').next().unwrap_or_default();
        let id: u64 = id.parse().map_err(|_| format!("sbatch --parsable printed {said:?}"))?;
        println!("$ sbatch {:50} job {id}", words.join(" "));
        Ok(id)
    }

    fn slurm(&self, name: &str) -> Command {
        let mut command = self.instance.slurm(name);
        // An epoch of training takes at least this long, so that there is something to watch.
        command.current_dir(&self.work).env("EPOCH_S", "0.2");
        command
    }

    /// Prints `muster why`; the demo goes on without an answer.
    fn explain(&self, job: u64, title: &str) {
        println!("\n$ muster why {job}        # {title}");
        match sh::read(self.instance.muster().args(["why", &job.to_string()])) {
            Ok(text) => text.lines().for_each(|line| println!("  {line}")),
            Err(message) => println!("  {message}"),
        }
        println!();
    }

    /// Prints what changes until `done` says so.
    fn follow(&self, watch: &mut Watch, done: impl Fn(&[Job]) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(LIMIT_S);
        loop {
            let jobs = jobs::all(self.slurm("sacct"))?;
            watch.show(&jobs);
            if done(&jobs) {
                return Ok(());
            }
            if let Some(job) = jobs.iter().find(|job| job.failed()) {
                return Err(format!(
                    "job {} ({}) ended {}{}",
                    job.id,
                    job.name,
                    job.state,
                    self.log_of(&job.name)
                ));
            }
            if Instant::now() > deadline {
                return Err(format!("not done after {LIMIT_S} s"));
            }
            std::thread::sleep(POLL);
        }
    }

    fn log_of(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.work.join(format!("{name}.log")));
        text.map_or_else(|_| String::new(), |text| format!("; its log:\n{text}"))
    }

    /// The closing table and the proof that the work was real.
    fn close(
        &self,
        watch: &Watch,
        pipeline: &[u64; 4],
        big: u64,
        small: &[u64],
    ) -> Result<(), String> {
        let jobs = watch.jobs();
        println!(
            "\n{}\n",
            table(&["job", "name", "state", "waited s", "ran s", "nodes"], &watch.rows())
        );
        let started =
            |id: u64| jobs.iter().filter(|j| j.belongs_to(id)).find_map(|j| watch.start(j));
        let before = small.iter().filter(|id| started(**id) < started(big)).count();
        println!(
            "backfill: {before} of {SMALL_JOBS} small jobs ran before the big one, which came first"
        );
        for line in
            std::fs::read_to_string(self.work.join("evaluate.log")).unwrap_or_default().lines()
        {
            println!("evaluate: {line}");
        }
        let result = std::fs::read_to_string(self.work.join("work/evaluation.json"))
            .map_err(|error| format!("evaluation.json: {error}"))?;
        println!("result:   {}", result.trim());
        let odd: Vec<&Job> = jobs.iter().filter(|job| !job.ended_well(pipeline[3])).collect();
        match odd.first() {
            None => Ok(()),
            Some(job) => Err(format!("job {} ({}) ended {}", job.id, job.name, job.state)),
        }
    }
}

fn running(jobs: &[Job], id: u64) -> bool {
    jobs.iter().any(|job| job.belongs_to(id) && job.state == "RUNNING")
}

/// Copies a folder with all below it.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
