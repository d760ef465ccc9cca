//! A daemon with something to see: jobs that run, wait for every kind of thing, and have failed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::instance::Instance;
use crate::{demo, sh};

const NODES: &str = "8x8";
/// How long cancelled jobs may take.
const END_S: u64 = 60;

/// Jobs by name, with the options of sbatch. A blank parts options.
const JOBS: &[(&str, &str, &str)] = &[
    ("pretrain-7b", "--nodes=4 --gpus-per-node=8 --time=6:00:00", "sleep 3000"),
    ("finetune", "--gpus-per-node=4 --time=2:00:00", SAYS),
    ("finetune-b", "--gpus-per-node=3 --cpus-per-task=12 --time=3:30:00", "sleep 3000"),
    ("render", "--cpus-per-task=48 --time=1:00:00", "sleep 3000"),
    ("sweep", "--array=0-39%6 --gpus-per-node=1 --time=45:00", "sleep 2000"),
    ("pretrain-70b", "--nodes=6 --gpus-per-node=8 --time=8:00:00", "sleep 3000"),
    ("eval", "--gpus-per-node=8 --time=1:30:00", "sleep 2000"),
    ("after-sweep", "--dependency=afterok:5 --gpus-per-node=1 --time=30:00", "sleep 100"),
    ("<img src=x onerror=alert(1)>", "--gpus-per-node=8 --nodes=2 --time=1:00:00", "true"),
    ("held", "--hold --gpus-per-node=2 --time=1:00:00", "true"),
    ("tonight", "--begin=now+5hours --gpus-per-node=2 --time=1:00:00", "true"),
    ("everything", "--nodes=8 --gpus-per-node=8 --time=2-00:00:00", "true"),
    ("broken", "--time=5", "exit 3"),
    ("done", "--time=5", "echo done"),
];

/// A progress bar and lines, as a training writes them.
const SAYS: &str =
    "for i in $(seq 1 3000); do printf 'loss %d\\r' $i; echo batch $i; sleep 1; done";

/// The daemon, and pages that it is shown by.
pub(super) struct Scene {
    instance: Instance,
    /// What the daemon was configured with.
    _config: tempfile::NamedTempFile,
    pages: Vec<Child>,
    /// A job that runs.
    pub(super) running: String,
    /// A job that waits and has a promised start.
    pub(super) waiting: String,
}

impl Scene {
    /// Starts it and submits the jobs.
    ///
    /// # Errors
    /// The daemon does not start, or a job is refused.
    pub(super) fn start(binary: &Path) -> Result<Self, String> {
        let config = demo::config()?;
        let path = config.path().to_string_lossy().into_owned();
        let mut scene = Self {
            instance: Instance::start(binary, &["--practice", NODES, "--config", &path])?,
            _config: config,
            pages: Vec::new(),
            running: String::new(),
            waiting: String::new(),
        };
        for (name, options, script) in JOBS {
            let mut sbatch = scene.instance.slurm("sbatch");
            sbatch.arg("--parsable").arg(format!("--job-name={name}"));
            sbatch.args(options.split(' ')).args(["--wrap", script]);
            let id = sh::read(&mut sbatch)?.trim().to_owned();
            match *name {
                "finetune" => scene.running = id,
                "pretrain-70b" => scene.waiting = id,
                _ => {}
            }
        }
        let reserve = "reservation create maintenance --start now+1day --duration 4h --flags MAINT";
        let mut muster = scene.instance.muster();
        muster.args(reserve.split(' ')).args(["--nodes", "node[7-8]", "--users", "root"]);
        sh::read(&mut muster)?;
        Ok(scene)
    }

    /// Serves a page; its address.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn page(&mut self, words: &[&str]) -> Result<String, String> {
        let mut web = self.instance.muster();
        web.arg("web").args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = web.spawn().map_err(|error| format!("muster web: {error}"))?;
        let out = child.stdout.take();
        self.pages.push(child);
        let mut line = String::new();
        let read = out.map(|out| BufReader::new(out).read_line(&mut line));
        match read {
            Some(Ok(count)) if count > 0 => Ok(line.trim().to_owned()),
            _ => Err("muster web printed no address".to_owned()),
        }
    }

    /// A command with this daemon in its environment.
    pub(super) fn dress(&self, mut command: Command) -> Command {
        for (name, value) in self.instance.muster().get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command
    }

    /// Ends the pages, the jobs and the daemon.
    ///
    /// # Errors
    /// Something still runs.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.end_pages();
        sh::read(self.instance.slurm("scancel").arg("--me"))?;
        // The daemon has to be there until each job is told.
        let empty = self.instance.until(END_S, |instance| {
            let queue = sh::read(instance.slurm("squeue").arg("--noheader"));
            queue.is_ok_and(|jobs| jobs.trim().is_empty()).then_some(())
        });
        self.instance.stop()?;
        empty.ok_or_else(|| format!("jobs are not over {END_S} s after they were cancelled"))
    }

    fn end_pages(&mut self) {
        for mut page in self.pages.drain(..) {
            let _ = page.kill();
            let _ = page.wait();
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end_pages();
    }
}
