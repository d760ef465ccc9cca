//! A Slurm of our own for a while: real daemons on this host, with invented nodes and GPUs, a
//! configuration, a munge and ports of their own, and the guarantee that nothing of it stays.
//!
//! What ends it is a keeper, a shell that waits for the end of a pipe: it comes when the bed is
//! dropped, and also when this program is interrupted or killed. It ends every process that carries
//! the bed's mark in its environment (daemons, steps, jobs) and removes the folder.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{need, sh};

/// Debian's packages of it.
const PACKAGES: [&str; 4] = ["slurmctld", "slurmd", "slurm-client", "munge"];

/// What marks the processes of a bed.
const MARK: &str = "MUSTER_BED";

/// Ports are looked for from here on, below those that systems give to clients.
const PORTS_FROM: u16 = 21_000;
const PORTS_TO: u16 = 31_000;

/// The daemons may take so long until every node answers.
const START_S: u64 = 300;

/// Waits for the end of its input, ends whatever carries the mark, and clears the folder.
const KEEPER: &str = r#"
read -r _
for round in 1 2 3 4 5; do
    found=$(grep -lsaF "MUSTER_BED=$1" /proc/[0-9]*/environ)
    [ -n "$found" ] || break
    for one in $found; do
        pid=${one#/proc/}
        kill -9 "${pid%/environ}" 2>/dev/null
    done
    sleep 0.2
done
rm -rf "$1"
"#;

/// How a bed looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) nodes: u16,
    pub(crate) cpus: u16,
    pub(crate) memory_mib: u32,
    pub(crate) gpus: u16,
}

/// Four nodes with four GPUs each.
pub(crate) const SMALL: Shape = Shape { nodes: 4, cpus: 8, memory_mib: 16_000, gpus: 4 };

/// A thousand nodes with eight GPUs each.
pub(crate) const LARGE: Shape = Shape { nodes: 1000, cpus: 64, memory_mib: 256_000, gpus: 8 };

/// A running bed.
pub(crate) struct Bed {
    dir: PathBuf,
    shape: Shape,
    port: u16,
    keeper: Child,
}

/// What is missing for a bed, in one sentence; installs Debian's packages where it may.
///
/// # Errors
/// That sentence.
pub(crate) fn available() -> Result<(), String> {
    if !need::is_root() {
        return Err("a Slurm of our own needs root".to_owned());
    }
    let missing = ["slurmctld", "slurmd", "squeue", "munged"].map(|name| need::find(name, ""));
    if missing.iter().any(Result::is_err) {
        need::install(&PACKAGES)?;
    }
    for name in ["slurmctld", "slurmd", "squeue", "munged"] {
        need::find(name, "")?;
    }
    Ok(())
}

impl Bed {
    /// Starts it and waits until every node is idle.
    ///
    /// # Errors
    /// A daemon does not start, or nodes stay away; with the end of slurmctld's log.
    pub(crate) fn start(shape: Shape) -> Result<Self, String> {
        let dir = TempDir::with_prefix("muster-bed-").map_err(|error| error.to_string())?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(dir.path())
            // A group of its own: an interrupt from the keyboard does not reach it.
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        // From here on the folder is the keeper's.
        let bed = Self { dir: dir.keep(), shape, port: free_ports(shape.nodes)?, keeper };
        bed.lay_out()?;
        bed.launch()?;
        bed.until_idle()?;
        Ok(bed)
    }

    /// Its `slurm.conf`.
    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    /// A folder for scripts.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command of this Slurm.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env(MARK, &self.dir).env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command.current_dir(&self.dir);
        command
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
        let text = self.text(parameters);
        std::fs::write(self.conf(), text).map_err(|error| error.to_string())?;
        self.read("scontrol", &["reconfigure"]).map(drop)
    }

    fn lay_out(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.dir.display());
        for name in ["munge", "state", "spool", "gpu"] {
            std::fs::create_dir(self.dir.join(name)).map_err(failed)?;
        }
        // The folders of munge's socket have to be open to all, its key to its owner only.
        for path in [self.dir.clone(), self.dir.join("munge")] {
            mode(&path, 0o711).map_err(failed)?;
        }
        let mut key = std::fs::File::open("/dev/urandom").map_err(failed)?;
        let mut bytes = [0; 128];
        std::io::Read::read_exact(&mut key, &mut bytes).map_err(failed)?;
        std::fs::write(self.dir.join("munge/key"), bytes).map_err(failed)?;
        mode(&self.dir.join("munge/key"), 0o600).map_err(failed)?;
        for gpu in 0..self.shape.gpus {
            let file = self.dir.join(format!("gpu/gpu{gpu}"));
            sh::read(Command::new("mknod").args(["-m", "666"]).arg(file).args(["c", "1", "3"]))?;
        }
        std::fs::write(self.conf(), self.text("")).map_err(failed)?;
        let last = self.shape.gpus.saturating_sub(1);
        let gres = format!(
            "NodeName=n[0-{}] Name=gpu Type=h100 File={}/gpu/gpu[0-{last}]\n",
            self.shape.nodes - 1,
            self.dir.display(),
        );
        std::fs::write(self.dir.join("gres.conf"), gres).map_err(failed)
    }

    /// The configuration. Names of nodes are `n0` and so on; a quarter of them is each `rack0` to
    /// `rack3`.
    fn text(&self, scheduler: &str) -> String {
        let (dir, port, shape) = (self.dir.display(), self.port, self.shape);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().split('.').next().unwrap_or_default();
        let mut text = format!(
            "ClusterName=bed
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/spool/%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile=/dev/null
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PriorityType=priority/basic
Licenses=solver:4
MaxJobCount=200000
SlurmdTimeout=3600
MessageTimeout=100
"
        );
        if !scheduler.is_empty() {
            let _ = writeln!(text, "SchedulerParameters={scheduler}");
        }
        let quarter = (shape.nodes / 4).max(1);
        for rack in 0..4u16 {
            let (first, last) = (rack * quarter, (rack + 1) * quarter - 1);
            let _ = writeln!(
                text,
                "NodeName=n[{first}-{last}] NodeHostname={host} NodeAddr=127.0.0.1 \
                 Port=[{}-{}] CPUs={cpus} Sockets=2 CoresPerSocket={cores} ThreadsPerCore=1 \
                 RealMemory={memory} Gres=gpu:h100:{gpus} Feature=rack{rack} State=UNKNOWN",
                port + 1 + first,
                port + 1 + last,
                cpus = shape.cpus,
                cores = shape.cpus / 2,
                memory = shape.memory_mib,
                gpus = shape.gpus,
            );
        }
        let _ = writeln!(
            text,
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=01:00:00 \
             DefMemPerCPU=100 State=UP"
        );
        text
    }

    fn launch(&self) -> Result<(), String> {
        let munge = self.dir.join("munge");
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
        let conf = self.conf();
        sh::read(self.command("slurmctld").arg("-f").arg(&conf))?;
        let each = format!(
            "seq 0 {} | xargs -P 4 -I@ slurmd -N n@ -f \"$SLURM_CONF\"",
            self.shape.nodes - 1
        );
        sh::read(self.command("sh").args(["-c", &each])).map(drop)
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
        let log = std::fs::read_to_string(self.dir.join("slurmctld.log")).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(5).collect();
        Err(format!("after {START_S} s the nodes are {}; {}", last.trim(), end.join(" | ")))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn mode(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// The first of so many ports in a row of which the outer ones are free, with one before them for
/// slurmctld.
fn free_ports(nodes: u16) -> Result<u16, String> {
    let step = nodes + 1;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (PORTS_FROM..PORTS_TO - step)
        .step_by(usize::from(step))
        .find(|first| is_free(*first) && is_free(first + 1) && is_free(first + nodes))
        .ok_or_else(|| "no free ports for a Slurm of our own".to_owned())
}
