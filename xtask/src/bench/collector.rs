//! What watching a machine costs: `muster export` on a captured tree, made as large as a node, and
//! on this machine as it is.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bound, Figure, Scale};
use crate::root;

/// The captured machine that is made larger.
const CAPTURED: &str = "crates/exporter/tests/captured/gpu-node";

const GPUS: u32 = 8;
const PROCESSES: u32 = 200;
const MOUNTS: u32 = 20;
const CARDS: u32 = 20;
const JOBS: u32 = 8;
/// Operations that a mount counts, as a kernel of today does.
const NFS_OPERATIONS: u32 = 70;
/// Jobs on a metadata server with ten operations each: 20,000 series.
const SERVER_JOBS: u32 = 2_000;

/// Readings are so far apart on a machine that is watched.
const PERIOD_S: f64 = 5.0;
const SHARE: f64 = 0.005;
const MEMORY_MIB: f64 = 30.0;
const SCRAPE_MS: f64 = 50.0;

/// A node's reading as a share of a CPU, with its memory, captured and live; a page of very many
/// series.
pub(super) fn collector(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let node = folder.path().join("node");
    node_tree(&node).map_err(|error| format!("the tree of a node: {error}"))?;
    let what = format!(
        "{GPUS} GPUs, {PROCESSES} processes, {MOUNTS} NFS mounts, {CARDS} cards, {JOBS} jobs"
    );
    let mut figures = watching(binary, Some(&node), "a captured node", &what, scale)?;
    let what = format!("live, {} processes", processes());
    figures.extend(watching(binary, None, "this machine", &what, scale)?);
    let folder = folder.path().join("server");
    server_tree(&folder).map_err(|error| format!("the tree of a server: {error}"))?;
    let server = Export::start(binary, Some(&folder), &["--jobs-max", "2000"])?;
    let (page, many) = server.scrapes(scale.readings.div_ceil(5))?;
    figures.push(Figure::bounded(
        "scrape",
        page.cpu_ms,
        "CPU ms",
        Bound::AtMost(SCRAPE_MS),
        format!("{many} series; {:.1} ms by the clock, the middle one", page.wall_ms),
    ));
    Ok(figures)
}

/// What it costs to watch a tree, or this machine.
fn watching(
    binary: &Path,
    tree: Option<&Path>,
    whose: &str,
    what: &str,
    scale: Scale,
) -> Result<Vec<Figure>, String> {
    let node = Export::start(binary, tree, &["--processes", "20"])?;
    let (cost, series) = node.scrapes(scale.readings)?;
    let memory = node.peak_mib()?;
    Ok(vec![
        Figure::baseline(
            &format!("reading of {whose}"),
            cost.cpu_ms,
            "CPU ms",
            "with its page; each of all",
        ),
        Figure::bounded(
            &format!("watching {whose}"),
            cost.cpu_ms / 1e3 / PERIOD_S,
            "CPUs",
            Bound::AtMost(SHARE),
            format!("{what}: {series} series, every {PERIOD_S} s"),
        ),
        Figure::bounded(
            &format!("watching {whose}, memory"),
            memory,
            "MiB",
            Bound::AtMost(MEMORY_MIB),
            "the most that it was resident",
        ),
    ])
}

/// Processes of this machine.
fn processes() -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().is_ok();
    entries.filter(number).count()
}

/// What one scrape costs.
struct Cost {
    cpu_ms: f64,
    wall_ms: f64,
}

/// `muster export` that serves a tree, or this machine; it ends with this.
struct Export {
    child: Child,
    address: String,
}

impl Export {
    fn start(binary: &Path, tree: Option<&Path>, words: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(binary);
        command.args(["export", "--address", "127.0.0.1:0"]).args(words);
        if let Some(tree) = tree {
            command.arg("--root").arg(tree);
        }
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut line = String::new();
        if let Some(said) = child.stderr.take() {
            BufReader::new(said).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_default().trim().to_owned();
        let export = Self { child, address };
        match export.address.is_empty() {
            true => Err(format!("muster export does not say where it listens: {line:?}")),
            false => Ok(export),
        }
    }

    /// So many scrapes one after the other, after two that are not counted; with the series of a
    /// page.
    fn scrapes(&self, count: u32) -> Result<(Cost, usize), String> {
        let page = self.page()?;
        self.page()?;
        let series = page.lines().filter(|line| !line.starts_with('#')).count();
        let before = self.cpu_ns()?;
        let mut walls = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            self.page()?;
            walls.push(begun.elapsed());
        }
        let used = self.cpu_ns()?.saturating_sub(before);
        walls.sort_unstable();
        let middle = walls.get(walls.len() / 2).copied().unwrap_or_default();
        let cpu_ms = used as f64 / 1e6 / f64::from(count.max(1));
        Ok((Cost { cpu_ms, wall_ms: middle.as_secs_f64() * 1e3 }, series))
    }

    fn page(&self) -> Result<String, String> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(Duration::from_mins(1)))?;
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        let text = ask().map_err(|error| format!("{}: {error}", self.address))?;
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => Err(format!("the answer is not 200: {:?}", text.lines().next())),
        }
    }

    /// Time on a CPU of all its threads, which stay as they are.
    fn cpu_ns(&self) -> Result<u64, String> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let entries =
            fs::read_dir(&tasks).map_err(|error| format!("{}: {error}", tasks.display()))?;
        let on_cpu = |entry: std::io::Result<fs::DirEntry>| -> Option<u64> {
            let text = fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        Ok(entries.filter_map(on_cpu).sum())
    }

    fn peak_mib(&self) -> Result<f64, String> {
        let file = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| format!("{file} has no VmHWM"))
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // One that is gone already has ended by itself.
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}

/// The captured machine with more of everything.
fn node_tree(to: &Path) -> std::io::Result<()> {
    copy(&root::dir().join(CAPTURED), to)?;
    let gpus = to.join("commands/nvidia-smi.csv");
    let text = fs::read_to_string(&gpus)?;
    let mut lines = text.lines();
    let (header, first) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let rest = first.splitn(4, ", ").nth(3).unwrap_or_default();
    let mut all = format!("{header}\n");
    for at in 0..GPUS {
        let uuid = format!("GPU-0a000000-1111-2222-3333-{at:012}");
        let _ = writeln!(all, "{at}, {uuid}, 00000000:{at:02X}:00.0, {rest}");
    }
    fs::write(&gpus, all)?;
    for pid in 0..PROCESSES {
        copy(&to.join("proc/7"), &to.join(format!("proc/{}", 1_000 + pid)))?;
    }
    for at in 2..CARDS {
        copy(&to.join("sys/class/net/eth0"), &to.join(format!("sys/class/net/eth{at}")))?;
    }
    let jobs = to.join("sys/fs/cgroup/muster/abcd");
    for at in 1..JOBS {
        copy(&jobs.join("42.1"), &jobs.join(format!("{}.1", 42 + at)))?;
    }
    let mut mounts = String::from("device proc mounted on /proc with fstype proc\n");
    for at in 0..MOUNTS {
        let _ = write!(
            mounts,
            "device filer{at}:/data mounted on /data{at} with fstype nfs4 statvers=1.1\n\
             \topts:\trw,vers=4.2,hard\n\tage:\t86400\n\tbytes:\t1 2 3 4 2624000000 6 7 8\n\
             \txprt:\ttcp 0 1 2 0 5 90000 89990 0 450000 120 16 90 3000\n\tper-op statistics\n\
             \t        READ: 40000 40003 0 8000000 2624000000 20000 32000 56000 0\n"
        );
        for operation in 1..NFS_OPERATIONS {
            let _ = writeln!(mounts, "\t        OP{operation}: {at} 10 0 1 2 3 4 5 0");
        }
    }
    fs::write(to.join("proc/self/mountstats"), mounts)
}

/// A metadata server of Lustre on which very many jobs work.
fn server_tree(to: &Path) -> std::io::Result<()> {
    let folder = to.join("proc/fs/lustre/mdt/work-MDT0000");
    fs::create_dir_all(&folder)?;
    let operations = [
        "open", "close", "mknod", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr",
        "statfs",
    ];
    let mut text = String::from("job_stats:\n");
    for job in 0..SERVER_JOBS {
        let _ = writeln!(
            text,
            "- job_id:          c1.{job}\n  snapshot_time:   1790000060.120000000 secs.nsecs"
        );
        for operation in operations {
            let _ = writeln!(
                text,
                "  {operation}: {{ samples: {}, unit: usecs, min: 15, max: 41, sum: 124, sumsq: 9 }}",
                job + 1
            );
        }
    }
    fs::write(folder.join("job_stats"), text)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}
