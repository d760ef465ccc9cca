//! `muster sim placement`: how much of a cluster's GPUs each way of placing jobs fills.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use muster_sim::placement::{self, Filled, PLACINGS, Placing};
use muster_sim::trace::{TraceError, openb_nodes, openb_pods, unpacked};
use serde_json::json;

use super::watch::in_parallel;
use crate::say::{self, Failure, Outcome, print};
use crate::table::{Table, terminal_width};

/// The words of `muster sim placement`.
#[derive(Args)]
pub(crate) struct PlacementArgs {
    /// The nodes: a list of the openb trace (sn,cpu_milli,memory_mib,gpu,model), packed or not
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// The pods: a list of the openb trace (name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec)
    #[arg(long, value_name = "FILE")]
    pods: PathBuf,
    /// A placement, given once for each; without any, all of them
    #[arg(long = "policy")]
    policies: Vec<Placing>,
    /// So many runs, each with another order of pods and nodes
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// GPUs asked for in the end, as a multiple of those there are
    #[arg(long, default_value_t = 1.3, value_name = "X")]
    load: f64,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Fills the cluster with each of the placements.
pub(crate) fn run(args: &PlacementArgs) -> Outcome {
    let nodes = read(&args.nodes, |file| openb_nodes(unpacked(file)?))?;
    let pods = read(&args.pods, |file| openb_pods(unpacked(file)?))?;
    if !(0.01..=100.0).contains(&args.load) {
        return Err(Failure::new(format!("--load {}: from 0.01 to 100", args.load)));
    }
    let load = (args.load * 1000.0).round() as u32;
    let mut policies = args.policies.clone();
    if policies.is_empty() {
        policies = PLACINGS.iter().filter_map(|name| name.parse().ok()).collect();
    }
    let runs: Vec<(usize, u64)> = (0..policies.len())
        .flat_map(|policy| (1..=u64::from(args.seeds)).map(move |seed| (policy, seed)))
        .collect();
    let found = in_parallel(runs.len(), |at| {
        let (policy, seed) = runs[at];
        placement::fill(&nodes, &pods, policies[policy], load, seed)
            .map_err(|error| Failure::new(error.to_string()))
    })?;
    let seeds = args.seeds as usize;
    let rows: Vec<(Placing, &[Filled])> =
        policies.iter().copied().zip(found.chunks(seeds)).collect();
    if args.json {
        let rows: Vec<_> = rows.iter().map(|(policy, runs)| as_json(*policy, runs)).collect();
        return say::json(&json!({ "load": args.load, "seeds": seeds, "policies": rows }));
    }
    let mut table = Table::new(&[
        "POLICY",
        ">GPUS % AT FULL LOAD",
        ">LEAST",
        ">MOST",
        ">IN THE END",
        ">REFUSED",
    ]);
    for (policy, runs) in rows {
        let full = |run: &Filled| run.at_full_load;
        table.row(vec![
            policy.to_string(),
            format!("{:.2}", mean(runs, full)),
            format!("{:.2}", runs.iter().map(full).fold(f64::INFINITY, f64::min)),
            format!("{:.2}", runs.iter().map(full).fold(0.0, f64::max)),
            format!("{:.2}", mean(runs, |run| run.at_the_end)),
            format!("{:.0}", mean(runs, |run| f64::from(run.refused))),
        ]);
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

fn mean(runs: &[Filled], of: impl Fn(&Filled) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
}

fn as_json(policy: Placing, runs: &[Filled]) -> serde_json::Value {
    json!({
        "policy": policy.to_string(),
        "gpus_allocated_percent": mean(runs, |run| run.at_full_load),
        "gpus_allocated_at_the_end_percent": mean(runs, |run| run.at_the_end),
        "runs": runs,
    })
}

pub(super) fn read<T>(
    path: &Path,
    of: impl FnOnce(File) -> Result<T, TraceError>,
) -> Result<T, Failure> {
    let read = || of(File::open(path)?);
    let wrong =
        |error: TraceError| Failure::new(format!("{}: {}: {error}", path.display(), error.code()));
    read().map_err(wrong)
}
