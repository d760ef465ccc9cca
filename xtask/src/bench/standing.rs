//! What a long queue, a long log and an idle daemon cost.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::load;
use super::{Bound, Figure, Scale};
use crate::instance::Instance;
use crate::sh;

const SQUEUE_S: f64 = 1.0;
const MEMORY_MIB: f64 = 500.0;
const STARTUP_S: f64 = 5.0;
/// A clock tick in ten seconds is a thousandth of one CPU: less cannot be measured.
const IDLE_SHARE: f64 = 0.001;

/// The queue's listing and the daemon's memory while many jobs wait.
pub(super) fn waiting(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let instance = Instance::start(binary, &[])?;
    load::fill(&instance, scale.waiting)?;
    let mut squeue = instance.slurm("squeue");
    squeue.args(["--noheader", "--array"]).stdout(Stdio::piped());
    let begin = Instant::now();
    let lines = sh::read(&mut squeue)?.lines().count();
    let took = begin.elapsed().as_secs_f64();
    if lines < scale.waiting as usize {
        return Err(format!("squeue lists {lines} jobs of {}", scale.waiting));
    }
    let memory = resident_mib(instance.pid())?;
    Ok(vec![
        Figure::bounded("squeue", took, "s", Bound::AtMost(SQUEUE_S), format!("{lines} lines")),
        Figure::bounded(
            "daemon memory",
            memory,
            "MiB",
            Bound::AtMost(MEMORY_MIB),
            format!("resident, with {} waiting jobs", scale.waiting),
        ),
    ])
}

/// A start on a long log.
pub(super) fn startup(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let mut instance = Instance::start(binary, &[])?;
    let events = load::make_events(&instance, scale.events)?;
    let took = instance.restart()?;
    Ok(vec![Figure::bounded(
        "start-up",
        took.as_secs_f64(),
        "s",
        Bound::AtMost(STARTUP_S),
        format!("until it answers, with a log of {events} events"),
    )])
}

/// The share of one CPU that the daemon uses when nothing happens.
pub(super) fn idle(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let instance = Instance::start(binary, &[])?;
    load::fill(&instance, scale.waiting)?;
    // What the submissions caused is over when two looks in a row see the same.
    let mut before = ticks(instance.pid())?;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = ticks(instance.pid())?;
        if now == before || Instant::now() > deadline {
            break;
        }
        before = now;
    }
    let before = ticks(instance.pid())?;
    std::thread::sleep(Duration::from_secs(u64::from(scale.idle_s)));
    let used = ticks(instance.pid())? - before;
    let share = used as f64 / 100.0 / f64::from(scale.idle_s);
    Ok(vec![Figure::bounded(
        "idle daemon",
        share,
        "CPUs",
        Bound::AtMost(IDLE_SHARE),
        format!("over {} s with {} waiting jobs", scale.idle_s, scale.waiting),
    )])
}

fn resident_mib(pid: u32) -> Result<f64, String> {
    let file = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<f64>().ok()
    });
    kib.map(|kib| kib / 1024.0).ok_or_else(|| format!("{file} has no VmRSS"))
}

/// User and system time of a process, in hundredths of a second.
fn ticks(pid: u32) -> Result<u64, String> {
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    // Behind the name in brackets: field 3 is the state, 14 and 15 the times.
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
    match (field(11), field(12)) {
        (Some(user), Some(system)) => Ok(user + system),
        _ => Err(format!("{file} cannot be read")),
    }
}
