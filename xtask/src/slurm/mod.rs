//! A Slurm of our own for a while: real daemons on this host, with invented nodes and GPUs, a
//! configuration, a munge and ports of their own; daemons, steps and jobs end with the bed.

mod accounting;
mod command;
mod conf;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::bed::{Ground, free_ports};
use crate::{need, sh};

pub(crate) use command::main;

/// Debian's packages of it.
const PACKAGES: [&str; 8] = [
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "munge",
    "mariadb-server",
];

/// A program of each of them.
const PROGRAMS: [&str; 7] =
    ["slurmctld", "slurmd", "slurmdbd", "slurmrestd", "squeue", "munged", "mariadbd"];

/// The daemons may take so long until every node answers.
const START_S: u64 = 300;

/// How a bed looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) nodes: u16,
    pub(crate) cpus: u16,
    pub(crate) memory_mib: u32,
    pub(crate) gpus: u16,
    /// With slurmdbd and its database, accounts, and slurmrestd.
    pub(crate) accounting: bool,
}

/// Six nodes with four GPUs each, two of them in a partition of their own, and all that belongs to a
/// site's Slurm.
pub(crate) const SMALL: Shape =
    Shape { nodes: 6, cpus: 8, memory_mib: 16_000, gpus: 4, accounting: true };

/// Eight nodes with four GPUs each in one partition, and nothing beside the scheduler.
pub(crate) const MIDDLE: Shape =
    Shape { nodes: 8, cpus: 8, memory_mib: 16_000, gpus: 4, accounting: false };

/// A thousand nodes with eight GPUs each, of which only the scheduler matters.
pub(crate) const LARGE: Shape =
    Shape { nodes: 1000, cpus: 64, memory_mib: 256_000, gpus: 8, accounting: false };

impl Shape {
    /// Those of all nodes.
    pub(crate) const fn cpus(self) -> u16 {
        self.nodes * self.cpus
    }
}

/// Ports of what a bed with accounting has beside Slurm's own daemons: behind those of the nodes.
#[derive(Debug, Clone, Copy)]
struct Ports {
    slurmdbd: u16,
    rest: u16,
    database: u16,
}

/// A running bed.
pub(crate) struct Bed {
    ground: Ground,
    shape: Shape,
    port: u16,
}

/// What is missing for a bed, in one sentence; installs Debian's packages where it may.
///
/// # Errors
/// That sentence.
pub(crate) fn available() -> Result<(), String> {
    if !need::is_root() {
        return Err("a Slurm of our own needs root".to_owned());
    }
    if PROGRAMS.iter().any(|name| need::find(name, "").is_err()) {
        need::install(&PACKAGES)?;
    }
    PROGRAMS.iter().try_for_each(|name| need::find(name, "").map(drop))
}

impl Bed {
    /// Starts it and waits until every node is idle.
    ///
    /// # Errors
    /// A daemon does not start, or nodes stay away; with the end of slurmctld's log.
    pub(crate) fn start(shape: Shape) -> Result<Self, String> {
        // Of slurmctld, of the nodes, and three behind them; the first two are slurmctld's.
        let count = shape.nodes + 4;
        let needed: Vec<u16> = [0, 1].into_iter().chain(shape.nodes..count).collect();
        let bed = Self { ground: Ground::new()?, shape, port: free_ports(count, &needed)? };
        bed.lay_out()?;
        bed.launch()?;
        bed.until_idle()?;
        Ok(bed)
    }

    /// Its `slurm.conf`.
    pub(crate) fn conf(&self) -> PathBuf {
        self.dir().join("slurm.conf")
    }

    /// A folder for scripts.
    pub(crate) fn dir(&self) -> &Path {
        self.ground.dir()
    }

    /// A command of this Slurm.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.ground.command(program);
        command.env("SLURM_CONF", self.conf());
        command
    }

    /// Starts a command that goes on, with what it prints in the file `log` of the folder.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn detach(&self, command: &mut Command, log: &str) -> Result<Child, String> {
        self.ground.detach(command, log)
    }

    /// What a command of this Slurm prints.
    ///
    /// # Errors
    /// As for [`sh::read`].
    pub(crate) fn read(&self, program: &str, words: &[&str]) -> Result<String, String> {
        sh::read(self.command(program).args(words))
    }

    /// Other parameters for the scheduler, from now on.
    ///
    /// # Errors
    /// The file cannot be written, or slurmctld refuses it.
    pub(crate) fn schedule_with(&self, parameters: &str) -> Result<(), String> {
        let text = self.slurm_conf(parameters);
        std::fs::write(self.conf(), text).map_err(|error| error.to_string())?;
        self.read("scontrol", &["reconfigure"]).map(drop)
    }

    /// Lets it go on without this program; its folder is all that is needed to end it.
    fn leave(self) {
        self.ground.leave();
    }

    fn ports(&self) -> Ports {
        let after = self.port + self.shape.nodes;
        Ports { slurmdbd: after + 1, rest: after + 2, database: after + 3 }
    }

    fn lay_out(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.dir().display());
        for name in ["munge", "state", "spool", "gpu"] {
            std::fs::create_dir(self.dir().join(name)).map_err(failed)?;
        }
        // The folders of munge's socket have to be open to all, its key to its owner only.
        for path in [self.dir().to_owned(), self.dir().join("munge")] {
            mode(&path, 0o711).map_err(failed)?;
        }
        std::fs::write(self.dir().join("munge/key"), random().map_err(failed)?).map_err(failed)?;
        mode(&self.dir().join("munge/key"), 0o600).map_err(failed)?;
        for gpu in 0..self.shape.gpus {
            let file = self.dir().join(format!("gpu/gpu{gpu}"));
            sh::read(Command::new("mknod").args(["-m", "666"]).arg(file).args(["c", "1", "3"]))?;
        }
        self.write_conf().map_err(failed)
    }

    fn launch(&self) -> Result<(), String> {
        let munge = self.dir().join("munge");
        let mut munged = self.command("munged");
        for (option, file) in [
            ("--socket", "socket"),
            ("--key-file", "key"),
            ("--pid-file", "pid"),
            ("--seed-file", "seed"),
            ("--log-file", "log"),
        ] {
            munged.arg(option).arg(munge.join(file));
        }
        sh::read(&mut munged)?;
        if self.shape.accounting {
            self.launch_accounting()?;
        }
        let conf = self.conf();
        sh::read(self.command("slurmctld").arg("-f").arg(&conf))?;
        let each = format!(
            "seq 0 {} | xargs -P 4 -I@ slurmd -N n@ -f \"$SLURM_CONF\"",
            self.shape.nodes - 1
        );
        sh::read(self.command("sh").args(["-c", &each]))?;
        if self.shape.accounting { self.launch_rest() } else { Ok(()) }
    }

    fn until_idle(&self) -> Result<(), String> {
        let wanted = usize::from(self.shape.nodes);
        let begin = Instant::now();
        let mut last = String::new();
        while begin.elapsed() < Duration::from_secs(START_S) {
            let said = self.read("sinfo", &["-h", "-o", "%D %t"]).unwrap_or_default();
            let idle: usize = said
                .lines()
                .filter_map(|line| line.split_once(' '))
                .filter(|(_, state)| *state == "idle")
                .filter_map(|(count, _)| count.parse::<usize>().ok())
                .sum();
            if idle == wanted {
                return Ok(());
            }
            last = said;
            std::thread::sleep(Duration::from_millis(500));
        }
        let log = std::fs::read_to_string(self.dir().join("slurmctld.log")).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(5).collect();
        Err(format!("after {START_S} s the nodes are {}; {}", last.trim(), end.join(" | ")))
    }
}

fn mode(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn random() -> std::io::Result<[u8; 128]> {
    let mut bytes = [0; 128];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}
