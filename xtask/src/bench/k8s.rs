//! How fast pods are bound on a real control plane: by a bare client that makes the same writes, by
//! muster, and by Kubernetes' own scheduler, one after the other on the same bed.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use super::{Bound, Figure, figure, machine};
use crate::args::Args;
use crate::k8s::{Bed, Players, Shape, available};
use crate::{root, sh};

/// A queue, and what muster has to reach on it.
struct Case {
    name: &'static str,
    nodes: u32,
    kind: &'static str,
    gang: u32,
    pods: u32,
    /// Of the bare client's rate, at least.
    least: f64,
}

/// Of the bare client's rate: pods for themselves, and gangs.
const LEAST: f64 = 0.9;
const LEAST_GANG: f64 = 0.8;

const fn case(name: &'static str, nodes: u32, kind: &'static str, gang: u32) -> Case {
    let least = if gang > 1 { LEAST_GANG } else { LEAST };
    Case { name, nodes, kind, gang, pods: 5000, least }
}

const FULL: &[Case] = &[
    case("1,000 nodes", 1000, "plain", 1),
    case("anti-affinity", 1000, "apart", 1),
    case("zone spread", 1000, "spread", 1),
    case("gangs of 8", 1000, "gang", 8),
    case("gangs of 64", 1000, "gang", 64),
    case("gangs of 512", 1000, "gang", 512),
    case("5,000 nodes", 5000, "plain", 1),
    case("5,000 nodes, anti-affinity", 5000, "apart", 1),
];

const QUICK: &[Case] = &[
    Case { pods: 2000, ..case("1,000 nodes", 1000, "plain", 1) },
    Case { pods: 2000, ..case("gangs of 8", 1000, "gang", 8) },
];

/// What one contestant did, as the bench program tells it.
#[derive(Deserialize)]
struct Run {
    rate: f64,
    cpu_ms: f64,
    peak_mib: f64,
    fullest: u32,
}

/// GPUs of a node.
const GPUS: u32 = 8;

/// `cargo xtask bench k8s [--quick] [--no-peer] [--only TEXT] [--json FILE]`.
pub(super) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let quick = args.switch("--quick");
    let with_peer = !args.switch("--no-peer");
    let only = args.value("--only")?.unwrap_or_default();
    let json = args.value("--json")?.map(PathBuf::from);
    args.finish()?;
    let cases = if quick { QUICK } else { FULL }.iter().filter(|case| case.name.contains(&only));
    let cases: Vec<&Case> = cases.collect();
    if cases.is_empty() {
        return Err(format!("no case has {only:?} in its name"));
    }
    if let Err(missing) = available() {
        println!("skipped: no Kubernetes to measure on: {missing}");
        return Ok(());
    }
    sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster-bench-pods"]))?;
    let mut figures = Vec::new();
    for beside in cases.chunk_by(|a, b| a.nodes == b.nodes) {
        let nodes = beside.first().map_or(0, |case| case.nodes);
        println!("-- starting a control plane with {nodes} nodes");
        let shape = Shape { nodes, gpus: GPUS, scheduler: false, players: Players::None };
        let bed = Bed::start(available()?, shape)?;
        for case in beside {
            figures.extend(measure(&bed, case, with_peer)?);
        }
    }
    println!("\n{}", figure::render(&figures));
    let file = json.unwrap_or_else(|| root::target().join("bench-k8s.json"));
    let text = json!({ "machine": machine(), "figures": figures });
    std::fs::write(&file, format!("{text:#}\n"))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\nas JSON in {}", file.display());
    let bounded = figures.iter().filter(|figure| figure.bound.is_some()).count();
    let missed = figures.iter().filter(|figure| !figure.holds()).count();
    println!("bench k8s: {} of {bounded} bounds hold", bounded - missed);
    if missed == 0 { Ok(()) } else { Err(format!("{missed} figures missed their bound")) }
}

fn program() -> PathBuf {
    root::target().join("release/muster-bench-pods")
}

fn measure(bed: &Bed, case: &Case, with_peer: bool) -> Result<Vec<Figure>, String> {
    let own = |task: &str| [program().display().to_string(), task.to_owned()].to_vec();
    let bare = run(bed, case, "bare client", "bench", &own("bare"))?;
    let muster = run(bed, case, "muster", "bench", &own("muster"))?;
    if muster.fullest > GPUS {
        return Err(format!("{}: {} pods share a node's {GPUS} GPUs", case.name, muster.fullest));
    }
    let mut note = format!(
        "of {:.0} pods/s of the bare client; {:.2} ms of CPU a pod against {:.2}, {:.0} MiB",
        bare.rate, muster.cpu_ms, bare.cpu_ms, muster.peak_mib
    );
    if with_peer {
        let peer = run(bed, case, "kube-scheduler", "default-scheduler", &bed.peer())?;
        note = format!(
            "{note}; {:.1} times kube-scheduler's {:.0} ({:.2} ms)",
            muster.rate / peer.rate,
            peer.rate,
            peer.cpu_ms
        );
    }
    let name = format!("{}: pods bound", case.name);
    Ok(vec![
        Figure::baseline(&name, muster.rate, "pods/s", &format!("{} pods", case.pods)),
        Figure::bounded(
            &format!("{}: of the bare rate", case.name),
            muster.rate / bare.rate,
            "",
            Bound::AtLeast(case.least),
            note,
        ),
    ])
}

fn run(
    bed: &Bed,
    case: &Case,
    who: &str,
    scheduler: &str,
    contestant: &[String],
) -> Result<Run, String> {
    let (pods, gang) = (case.pods.to_string(), case.gang.to_string());
    let mut course = bed.command(Path::new(&program()));
    course.args(["run", "--kind", case.kind, "--pods", &pods, "--gang", &gang]);
    course.args(["--scheduler", scheduler, "--"]).args(contestant);
    let said = sh::read(&mut course).map_err(|error| format!("{}, {who}: {error}", case.name))?;
    let run: Run = serde_json::from_str(said.trim())
        .map_err(|error| format!("{}, {who}: {error}: {said}", case.name))?;
    println!(
        "-- {}: {who} {:.0} pods/s, {:.2} ms of CPU a pod, {:.0} MiB",
        case.name, run.rate, run.cpu_ms, run.peak_mib
    );
    Ok(run)
}
