//! `cargo xtask bench`: the figures that muster must hold, as ratios to a baseline of the same
//! run or as counted work, in a table and as JSON.

mod collector;
mod core;
mod dispatch;
mod drive;
mod figure;
mod http;
mod k8s;
mod load;
mod peer;
mod sim;
mod slurm;
mod standing;
mod topology;

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::Args;
use crate::stage::{End, Outcome};
use crate::{demo, root, sh};

pub(crate) use figure::{Bound, Figure};

/// How much work each figure is measured over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Processes of the bare loop.
    forks: u32,
    /// Tasks of the array that is dispatched.
    tasks: u32,
    /// Single jobs, one after the other.
    singles: u32,
    /// Submissions from all clients together.
    submissions: u32,
    /// Jobs that wait.
    waiting: u32,
    /// Events in the log before a start.
    events: u32,
    /// Seconds of idling.
    idle_s: u32,
    /// Readings of a machine.
    readings: u32,
}

const FULL: Scale = Scale {
    forks: 2_000,
    tasks: 10_000,
    singles: 100,
    submissions: 20_000,
    waiting: 100_000,
    events: 1_000_000,
    idle_s: 10,
    readings: 200,
};

/// Enough to see that each figure can be measured; no figure of it means anything.
const SMOKE: Scale = Scale {
    forks: 50,
    tasks: 100,
    singles: 3,
    submissions: 200,
    waiting: 500,
    events: 1_000,
    idle_s: 1,
    readings: 5,
};

type Measure = fn(&Path, Scale) -> Result<Vec<Figure>, String>;

const BENCHES: &[(&str, Measure)] = &[
    ("dispatch", dispatch::array),
    ("single", dispatch::single),
    ("submit", load::submissions),
    ("waiting", standing::waiting),
    ("startup", standing::startup),
    ("idle", standing::idle),
    ("collector", collector::collector),
];

/// `cargo xtask bench [--only NAME[,NAME]] [--json FILE] [--smoke] [--strict]`.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    match words.split_first() {
        Some((first, rest)) if first == "core" => return core::main(rest),
        Some((first, rest)) if first == "drive" => return drive::main(rest),
        Some((first, rest)) if first == "k8s" => return k8s::main(rest),
        Some((first, rest)) if first == "slurm" => return slurm::main(rest),
        Some((first, rest)) if first == "sim" => return sim::main(rest),
        Some((first, _)) if first == "topology" => return topology::main(),
        _ => {}
    }
    let mut args = Args::new(words);
    let small = args.switch("--smoke");
    let strict = args.switch("--strict");
    let only = args.value("--only")?;
    let json = args.value("--json")?.map(PathBuf::from);
    args.finish()?;
    let figures = if small {
        measure(&demo::build()?, SMOKE, only.as_deref())?
    } else {
        sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster"]))?;
        measure(&root::target().join("release/muster"), FULL, only.as_deref())?
    };
    println!("\n{}", figure::render(&figures));
    let file = json.unwrap_or_else(|| root::target().join("bench.json"));
    let text = json!({ "machine": machine(), "figures": figures });
    std::fs::write(&file, format!("{text:#}\n"))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\nas JSON in {}", file.display());
    let missed = figures.iter().filter(|figure| !figure.holds()).count();
    if strict && missed > 0 {
        return Err(format!("{missed} figures missed their bound"));
    }
    Ok(())
}

/// A stage of `cargo xtask test`: everything can be measured.
pub(crate) fn smoke() -> Outcome {
    let figures = measure(&demo::build()?, SMOKE, None)?;
    println!("{}", figure::render(&figures));
    if figures.is_empty() {
        return Err(End::Failed("no figure".to_owned()));
    }
    Ok(format!("{} figures, of a small run with a debug build", figures.len()))
}

fn measure(binary: &Path, scale: Scale, only: Option<&str>) -> Result<Vec<Figure>, String> {
    let wanted: Option<Vec<&str>> = only.map(|only| only.split(',').collect());
    for name in wanted.iter().flatten() {
        if !BENCHES.iter().any(|(bench, _)| bench == name) {
            let known: Vec<&str> = BENCHES.iter().map(|(bench, _)| *bench).collect();
            return Err(format!("no bench {name:?}; there are {}", known.join(", ")));
        }
    }
    let mut figures = Vec::new();
    for (name, run) in BENCHES {
        if wanted.as_ref().is_none_or(|wanted| wanted.contains(name)) {
            println!("-- {name}");
            figures.extend(run(binary, scale).map_err(|error| format!("{name}: {error}"))?);
        }
    }
    Ok(figures)
}

/// What the figures were measured on.
fn machine() -> serde_json::Value {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")?.split(':').nth(1).map(str::trim).map(str::to_owned)
        })
        .unwrap_or_default();
    json!({
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": cpu,
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
