//! The examples: the pipeline's programs by themselves, without a scheduler, and every wrong
//! script against the program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::instance::Instance;
use crate::stage::{End, Outcome, Report, Skip, verdict};
use crate::{demo, need, root};

const RANKS: u32 = 3;

/// Checks of `examples/`.
pub(super) fn checks(report: &mut Report) {
    report.check("shell syntax of the examples", || verdict(&syntax_errors()?));
    report.check("the pipeline's programs", programs);
    report.check("a wrong script is refused", refusals);
}

fn syntax_errors() -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for file in root::files()? {
        let script = file.extension().is_some_and(|end| end == "sh");
        if script && file.starts_with("examples") && !file.starts_with("examples/bad") {
            let output = Command::new("bash").arg("-n").arg(root::dir().join(&file)).output();
            let output = output.map_err(|error| format!("bash: {error}"))?;
            if !output.status.success() {
                found.push(format!("{}: {}", file.display(), text(&output.stderr)));
            }
        }
    }
    Ok(found)
}

/// Trains, stops half-way, goes on, evaluates; and a gang that lacks a member fails.
fn programs() -> Outcome {
    let python = need::need("python3", "python3", need::minimum("python3"))?.path;
    let bed = Bed::new(python)?;
    for task in 0..4 {
        expect(&bed.run("preprocess.py", &[("SLURM_ARRAY_TASK_ID", task.to_string())])?, "lines")?;
    }
    bed.gang("20", "begins")?;
    bed.gang("40", "goes on from epoch 20")?;
    let said = bed.run("evaluate.py", &[])?;
    expect(&said, "after epoch 40")?;
    // Rank 1 alone: rank 0 never listens.
    let lonely = bed.start("train.py", 1, &[("MEET_S", "1".to_owned())])?.wait_with_output();
    let lonely = lonely.map_err(|error| error.to_string())?;
    if lonely.status.success() || !text(&lonely.stderr).contains("cannot reach rank 0") {
        return Err(End::Failed("a rank without its gang must fail".to_owned()));
    }
    let accuracy = text(&said.stdout);
    Ok(accuracy.lines().find(|line| line.starts_with("accuracy")).unwrap_or_default().to_owned())
}

/// `examples/bad/*.sh`: each refused with a code, and nothing stored.
fn refusals() -> Outcome {
    let mut instance = Instance::start(&demo::build()?, &["--practice", "4x8"])?;
    let mut found = Vec::new();
    let scripts = bad_scripts()?;
    for script in &scripts {
        let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let output = instance.muster().arg("submit").arg(script).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = text(&output.stderr);
        println!("$ muster submit examples/bad/{name}\n{}", said.trim_end());
        if output.status.success() {
            found.push(format!("{name} was accepted: {}", text(&output.stdout).trim()));
        } else if !said.contains("E_") {
            found.push(format!("{name}: no code in {said:?}"));
        }
    }
    let queue = instance.slurm("squeue").args(["--noheader", "--states=all"]).output();
    let queue = text(&queue.map_err(|error| error.to_string())?.stdout);
    if !queue.trim().is_empty() {
        found.push(format!("something was stored: {queue}"));
    }
    instance.stop()?;
    verdict(&found).map(|_| format!("{} scripts", scripts.len()))
}

fn bad_scripts() -> Result<Vec<PathBuf>, String> {
    let files = root::files()?;
    let scripts = files.iter().filter(|file| file.starts_with("examples/bad"));
    Ok(scripts
        .filter(|file| file.extension().is_some_and(|end| end == "sh"))
        .map(|file| root::dir().join(file))
        .collect())
}

/// A copy of the pipeline's folder and a port for its gang.
struct Bed {
    dir: TempDir,
    python: PathBuf,
    port: u16,
}

impl Bed {
    fn new(python: PathBuf) -> Result<Self, End> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        demo::copy(&root::dir().join("examples/pipeline"), dir.path())
            .map_err(|error| format!("examples/pipeline: {error}"))?;
        // Asked of the kernel and given back: free a moment later, too.
        let socket = std::net::TcpListener::bind("127.0.0.1:0")
            .map_err(|error| Skip::unavoidable(format!("no loopback address: {error}")))?;
        let port = socket.local_addr().map_err(|error| error.to_string())?.port();
        Ok(Self { dir, python, port })
    }

    fn python(&self, program: &str) -> Command {
        let mut python = Command::new(&self.python);
        python.arg(Path::new(program)).current_dir(self.dir.path());
        python
    }

    fn run(&self, program: &str, environment: &[(&str, String)]) -> Result<Output, String> {
        let mut python = self.python(program);
        python.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = python.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(output);
        }
        Err(format!("{program}: {}: {}", output.status, text(&output.stderr)))
    }

    fn start(&self, program: &str, rank: u32, more: &[(&str, String)]) -> Result<Child, String> {
        self.python(program)
            .env("SLURM_PROCID", rank.to_string())
            .env("SLURM_NTASKS", RANKS.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", self.port.to_string())
            .envs(more.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())
    }

    /// All ranks of a training up to an epoch.
    fn gang(&self, epochs: &str, wanted: &str) -> Result<(), String> {
        let more = [("EPOCHS", epochs.to_owned())];
        let ranks: Vec<Child> =
            (0..RANKS).map(|rank| self.start("train.py", rank, &more)).collect::<Result<_, _>>()?;
        for rank in ranks {
            let output = rank.wait_with_output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                return Err(format!("train.py: {}", text(&output.stderr)));
            }
            expect(&output, wanted)?;
        }
        Ok(())
    }
}

fn expect(output: &Output, wanted: &str) -> Result<(), String> {
    let said = text(&output.stdout);
    if said.contains(wanted) { Ok(()) } else { Err(format!("{wanted:?} is not in {said:?}")) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
