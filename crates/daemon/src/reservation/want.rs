//! What a reservation is to hold, read from texts.

use super::{bad, wrong};
use crate::http::error::Refusal;
use muster_api::ReservationRequest;
use muster_model::{
    Exclusive, GpuCount, GpuScope, LicenceRequest, MemoryRequest, Mib, NodeCount, Request,
    ReservationFlag as Flag, State, Want,
};
use muster_slurm_syntax::{constraint, count, gres, hostlist, license, tres};
use std::collections::BTreeSet;

/// Nodes that one list may name.
const NODES_MAX: usize = 65_536;

/// Numbers of things that are asked for.
#[derive(Default)]
struct Counts {
    nodes: Option<NodeCount>,
    cores: Option<u32>,
    gpus: Option<Vec<GpuCount>>,
    licences: Option<Vec<LicenceRequest>>,
}

/// What it shall hold: what is said laid over what it held before. `None` where nothing of that is
/// said.
pub(super) fn want(
    request: &ReservationRequest,
    flags: &BTreeSet<Flag>,
    before: Option<&Want>,
    state: &State,
) -> Result<Option<Want>, Refusal> {
    let said = [
        &request.nodes,
        &request.node_count,
        &request.cores,
        &request.cores_per_node,
        &request.gpus,
        &request.tres,
        &request.features,
        &request.partition,
        &request.licences,
    ];
    let bits = [request.nvlink, request.whole];
    if said.iter().all(|text| text.is_none()) && bits.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut want = before.cloned().unwrap_or_default();
    want.request.memory = MemoryRequest::PerNode(Mib(0));
    want.nvlink = request.nvlink.unwrap_or(want.nvlink);
    if let Some(name) = &request.partition {
        want.partition = Some(name.clone());
    }
    if let Some(text) = &request.features {
        let features = constraint::parse(text).map_err(|p| wrong("features", &p))?;
        want.request.constraint = Some(features);
    }
    let counts = counts(request)?;
    nodes(request, counts.nodes, &mut want)?;
    let asked = &mut want.request;
    if counts.cores.is_some() {
        asked.tasks = counts.cores;
    }
    if let Some(text) = &request.cores_per_node {
        let each = count::parse_count(text, 1).map_err(|p| wrong("cores-per-node", &p))?;
        asked.cpus_per_task = Some(each);
    }
    if let Some(gpus) = counts.gpus {
        asked.gpus = gpus;
    }
    if let Some(licences) = counts.licences {
        asked.licences = licences;
    }
    settle(request, flags, &mut want, state);
    Ok(Some(want))
}

/// What follows from all that is asked for together.
fn settle(request: &ReservationRequest, flags: &BTreeSet<Flag>, want: &mut Want, state: &State) {
    let part = is_part(&want.request);
    let before = want.request.exclusive == Exclusive::Node;
    let whole = !part || request.whole.unwrap_or(before && request.gpus.is_none());
    want.request.exclusive = if whole { Exclusive::Node } else { Exclusive::No };
    let by_gpu = !want.request.gpus.is_empty()
        && want.request.tasks.is_none()
        && want.request.cpus_per_task.is_none();
    want.request.cpus_per_gpu = by_gpu.then(|| cpus_beside(state));
    let no_count = want.request.nodes.is_none() && want.request.node_list.is_empty() && !part;
    // A partition by itself is all of it, as scontrol does.
    let partition = want.partition.is_some() && want.request.licences.is_empty();
    if no_count && (partition || (flags.contains(&Flag::PartNodes) && want.partition.is_some())) {
        want.all_nodes = true;
    }
    let nothing = no_count && !want.all_nodes && want.partition.is_none();
    want.no_nodes = flags.contains(&Flag::AnyNodes)
        || (nothing && !want.request.licences.is_empty() && want.request.constraint.is_none());
}

/// Some of the nodes' CPUs or GPUs are asked for.
fn is_part(request: &Request) -> bool {
    request.tasks.is_some() || request.cpus_per_task.is_some() || !request.gpus.is_empty()
}

/// The numbers, from the options and from `tres`; what both say is refused.
fn counts(request: &ReservationRequest) -> Result<Counts, Refusal> {
    let mut counts = Counts::default();
    if let Some(text) = &request.node_count {
        counts.nodes = Some(count::parse_nodes(text).map_err(|p| wrong("nodes", &p))?);
    }
    if let Some(text) = &request.cores {
        counts.cores = Some(count::parse_count(text, 1).map_err(|p| wrong("cores", &p))?);
    }
    if let Some(text) = &request.gpus {
        let gpus = gres::parse_gpus(text).map_err(|p| wrong("gpus", &p))?;
        let gpus = gpus.iter().map(|gpu| gpu_count("gpus", gpu.kind.as_ref(), gpu.count));
        counts.gpus = Some(gpus.collect::<Result<_, _>>()?);
    }
    if let Some(text) = &request.licences {
        counts.licences = Some(license::parse(text).map_err(|p| wrong("licences", &p))?);
    }
    let Some(text) = &request.tres else { return Ok(counts) };
    let twice = |what: &str| bad("tres", format!("{what} are counted twice; say them once"));
    for one in tres::parse(text).map_err(|p| wrong("tres", &p))? {
        let number =
            u32::try_from(one.amount).map_err(|_| bad("tres", "an amount is too large"))?;
        match (one.kind.as_str(), one.name.as_str()) {
            ("cpu", _) if counts.cores.replace(number).is_some() => return Err(twice("CPUs")),
            ("node", _) if counts.nodes.replace(NodeCount::exactly(number)).is_some() => {
                return Err(twice("nodes"));
            }
            ("cpu" | "node", _) => {}
            ("license", name) => {
                let licence = LicenceRequest { name: name.to_owned(), count: number };
                counts.licences.get_or_insert_default().push(licence);
            }
            ("gres", name) if name == "gpu" || name.starts_with("gpu:") => {
                if request.gpus.is_some() {
                    return Err(twice("GPUs"));
                }
                let kind = name.split_once(':').map(|(_, kind)| kind.to_owned());
                let gpus = gpu_count("tres", kind.as_ref(), one.amount)?;
                counts.gpus.get_or_insert_default().push(gpus);
            }
            (kind, _) => return Err(bad("tres", format!("{kind} cannot be reserved by itself"))),
        }
    }
    Ok(counts)
}

fn gpu_count(field: &str, model: Option<&String>, count: u64) -> Result<GpuCount, Refusal> {
    let count = u32::try_from(count).map_err(|_| bad(field, "too many"))?;
    Ok(GpuCount { model: model.cloned(), count, scope: GpuScope::Job })
}

/// The CPUs that a GPU's share of its node is, on the node where that is least.
fn cpus_beside(state: &State) -> u32 {
    let nodes = state.nodes.values().filter(|node| !node.devices.is_empty());
    nodes.map(|node| node.cpus.len() / node.devices.len() as u32).min().unwrap_or(1).max(1)
}

/// How many nodes, which, or all: whatever is said takes the place of what was said before.
fn nodes(
    request: &ReservationRequest,
    count: Option<NodeCount>,
    want: &mut Want,
) -> Result<(), Refusal> {
    if request.nodes.is_some() || count.is_some() {
        want.all_nodes = false;
        want.request.node_list.clear();
        want.request.nodes = count;
    }
    match request.nodes.as_deref() {
        Some(text) if text.eq_ignore_ascii_case("all") => want.all_nodes = true,
        Some(text) => {
            let names = hostlist::expand(text, NODES_MAX).map_err(|p| wrong("nodes", &p))?;
            want.request.nodes.get_or_insert(NodeCount::exactly(names.len() as u32));
            want.request.node_list = names.into_iter().collect();
        }
        None => {}
    }
    Ok(())
}
