//! `muster slurm`: a first Slurm for a few machines.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use muster_engine_slurm::init::{Host, Site, files};

use crate::say::{self, Failure, Outcome};
use crate::table::{Table, terminal_width};

/// What a machine is asked, in one go; a part that is not there says nothing.
const QUESTIONS: &str = "slurmd -C; nvidia-smi -L 2>/dev/null; echo \"version $(slurmd -V)\"; \
    echo \"clock $(date +%s)\"; if command -v munge >/dev/null; then echo munge; fi";

/// munge refuses what is older or newer (munge(7), the time to live of a credential).
const CLOCKS_APART: i64 = 300;

/// A Slurm for machines that have none.
#[derive(Subcommand)]
pub(crate) enum Slurm {
    /// Write slurm.conf, gres.conf, cgroup.conf and the steps to start it; nothing is installed
    Init(InitArgs),
}

/// Words of `muster slurm init`.
#[derive(Args)]
pub(crate) struct InitArgs {
    /// A machine, asked over ssh; or `NAME:sockets=2,cores=32,threads=2,memory=MIB,gpus=8,gpu=h100`
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
    /// Where the files go
    #[arg(long, default_value = "slurm")]
    dir: PathBuf,
    /// The cluster's name
    #[arg(long, default_value = "lab")]
    cluster: String,
    /// The machine of slurmctld [default: this one]
    #[arg(long, value_name = "HOST")]
    controller: Option<String>,
    /// Write over files that are there
    #[arg(long)]
    force: bool,
}

/// Carries it out.
pub(crate) fn run(slurm: &Slurm) -> Outcome {
    match slurm {
        Slurm::Init(args) => init(args),
    }
}

/// A machine with what was found there.
struct Found {
    host: Host,
    /// Slurm's version there; `None` where it was not asked.
    version: Option<String>,
    /// What is to be mended there.
    wants: Vec<String>,
}

fn init(args: &InitArgs) -> Outcome {
    let here = hostname();
    let controller = args.controller.clone().unwrap_or_else(|| here.clone());
    for name in [&args.cluster, &controller] {
        if !Host::is_name(name) {
            return Err(Failure::usage(format!("{name:?} is no name: letters, digits, - _ .")));
        }
    }
    let mut found = Vec::with_capacity(args.hosts.len());
    for text in &args.hosts {
        found.push(find(text, &here)?);
    }
    let mut names: Vec<&str> = found.iter().map(|one| one.host.name.as_str()).collect();
    names.sort_unstable();
    if let Some([twice, ..]) = names.array_windows::<2>().find(|[one, next]| one == next) {
        return Err(Failure::usage(format!("{twice} is named twice")));
    }
    compare_versions(&mut found);
    let site = Site {
        cluster: args.cluster.clone(),
        controller,
        hosts: found.iter().map(|one| one.host.clone()).collect(),
    };
    write(&args.dir, &site, args.force)?;
    say::print(&table(&found));
    for one in &found {
        for want in &one.wants {
            say::note(&format!("{}: {want}", one.host.name));
        }
    }
    say::note(&format!("the steps are in {}", args.dir.join("STEPS.md").display()));
    Ok(0)
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

fn find(text: &str, here: &str) -> Result<Found, Failure> {
    let name = text.split(':').next().unwrap_or_default();
    if !Host::is_name(name) {
        return Err(Failure::usage(format!("{name:?} is no name: letters, digits, - _ .")));
    }
    if text.contains(':') {
        let host = Host::written(text).map_err(|error| Failure::usage(error.to_string()))?;
        return Ok(Found { host, version: None, wants: Vec::new() });
    }
    let said = ask(name, here)?;
    let host = Host::told(name, &said).map_err(|error| {
        Failure::new(format!(
            "{error}\nhint: install slurmd there, or write it down: {name}:cores=8,memory=32000"
        ))
    })?;
    let word = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let mut wants = Vec::new();
    if !said.lines().any(|line| line == "munge") {
        wants.push("munge is not installed".to_owned());
    }
    let clock = word("clock ").and_then(|text| text.parse::<i64>().ok());
    if clock.is_some_and(|clock| (clock - say::now().secs()).abs() > CLOCKS_APART) {
        wants.push("its clock is more than five minutes off".to_owned());
    }
    let version = word("version ").filter(|version| !version.is_empty()).map(str::to_owned);
    Ok(Found { host, version, wants })
}

fn ask(name: &str, here: &str) -> Result<String, Failure> {
    let mut command = if name == here {
        let mut command = Command::new("sh");
        command.args(["-c", QUESTIONS]);
        command
    } else {
        let mut command = Command::new("ssh");
        command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", name, QUESTIONS]);
        command
    };
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|error| Failure::new(format!("{name}: ssh: {error}")))?;
    // 255 is ssh's own failure (ssh(1), exit status).
    if said.status.code() == Some(255) {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(Failure::new(format!(
            "{name}: {}\nhint: ssh to it has to work without a password, or write it down: \
             {name}:cores=8,memory=32000",
            why.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

/// slurmd may be older than slurmctld, but a first Slurm has one version.
fn compare_versions(found: &mut [Found]) {
    let first = found.iter().find_map(|one| one.version.clone());
    for one in found {
        if one.version.is_some() && one.version != first {
            let (own, first) = (one.version.clone().unwrap_or_default(), first.clone());
            one.wants.push(format!("{own}, where others have {}", first.unwrap_or_default()));
        }
    }
}

fn write(dir: &Path, site: &Site, force: bool) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let files = files(site);
    let there = files.iter().map(|file| dir.join(file.name)).find(|path| path.exists());
    if let Some(path) = there.filter(|_| !force) {
        return Err(Failure::new(format!(
            "{} is there already\nhint: --force writes over it, --dir names another folder",
            path.display()
        )));
    }
    for file in files {
        let path = dir.join(file.name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut out = options.open(&path).map_err(|error| failed(&path, error))?;
        out.write_all(file.text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn table(found: &[Found]) -> String {
    let mut table = Table::new(&["HOST", "SOCKETS", "CORES", "THREADS", "MEMORY", "GPUS", "SLURM"]);
    for Found { host, version, .. } in found {
        let gpus: Vec<String> =
            host.gpus.iter().map(|gpus| format!("{}x{}", gpus.count, gpus.model)).collect();
        table.row(vec![
            host.name.clone(),
            host.sockets.to_string(),
            host.cores.to_string(),
            host.threads.to_string(),
            format!("{} MiB", host.memory_mib),
            if gpus.is_empty() { "-".to_owned() } else { gpus.join("+") },
            version.clone().unwrap_or_else(|| "not asked".to_owned()),
        ]);
    }
    table.text(terminal_width())
}
