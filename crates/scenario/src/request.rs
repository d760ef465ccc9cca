//! What a job asks of nodes, from words.

use crate::error::{Read, ScenarioError};
use crate::text::{choice, count, count_or_none, counted, duration, memory, names, number, pair};
use muster_model::amount::DeviceMilli;
use muster_model::sharing::GpuShare;
use muster_model::{
    Constraint, Exclusive, GpuCount, GpuScope, LicenceRequest, MemoryRequest, NodeCount, Request,
    Segments, SwitchWish,
};

/// Words of a job that are read here.
pub(crate) const JOB: &[&str] = &[
    "nodes",
    "tasks",
    "tasks-per-node",
    "tasks-per-gpu",
    "tasks-per-socket",
    "tasks-per-core",
    "cpus-per-task",
    "cpus",
    "cpus-per-gpu",
    "mincpus",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "scratch",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gpus-per-socket",
    "gpu-memory",
    "gpu-share",
    "shards",
    "gpu-isolation",
    "sockets",
    "enforce-binding",
    "gres",
    "constraint",
    "nodelist",
    "exclude",
    "exclusive",
    "contiguous",
    "switches",
    "topology",
    "segment",
    "segments",
    "reservation",
    "licences",
];

/// Takes a word of a job up; false where it is another.
pub(crate) fn field(request: &mut Request, key: &str, value: &str) -> Read<bool> {
    match key {
        "nodes" => request.nodes = Some(node_count(value)?),
        "tasks" => request.tasks = Some(count(value)?),
        "tasks-per-node" => request.tasks_per_node = Some(count(value)?),
        "tasks-per-gpu" => request.tasks_per_gpu = Some(count(value)?),
        "tasks-per-socket" => request.tasks_per_socket = Some(count(value)?),
        "tasks-per-core" => request.tasks_per_core = Some(count(value)?),
        "cpus-per-task" | "cpus" => request.cpus_per_task = Some(count(value)?),
        "cpus-per-gpu" => request.cpus_per_gpu = Some(count(value)?),
        "mincpus" => request.cpus_per_node_min = Some(count(value)?),
        "mem" if value == "0" => request.memory = MemoryRequest::WholeNode,
        "mem" => request.memory = MemoryRequest::PerNode(memory(value)?),
        "mem-per-cpu" => request.memory = MemoryRequest::PerCpu(memory(value)?),
        "mem-per-gpu" => request.memory = MemoryRequest::PerGpu(memory(value)?),
        "scratch" => request.scratch = memory(value)?,
        "sockets" => request.sockets_per_node = Some(count(value)?),
        "enforce-binding" => request.cpus_near_gpus = true,
        "gres" => {
            let all = counted(value)?.into_iter();
            request.gres.extend(all.map(|(name, count)| (name.to_owned(), u64::from(count))));
        }
        "constraint" => request.constraint = Some(constraint(value)?),
        "nodelist" => request.node_list = names(value)?.into_iter().collect(),
        "exclude" => request.exclude = names(value)?.into_iter().collect(),
        "exclusive" => {
            let among = [("yes", Exclusive::Node), ("user", Exclusive::User)];
            request.exclusive = choice("a way to be alone", value, &among)?;
        }
        "reservation" => request.reservation = Some(value.to_owned()),
        "licences" => {
            let licence =
                |(name, count): (&str, u32)| LicenceRequest { name: name.to_owned(), count };
            request.licences.extend(counted(value)?.into_iter().map(licence));
        }
        _ => return Ok(gpu_field(request, key, value)? || place_field(request, key, value)?),
    }
    Ok(true)
}

fn gpu_field(request: &mut Request, key: &str, value: &str) -> Read<bool> {
    match key {
        "gpus" => request.gpus.extend(gpus(GpuScope::Job, value)?),
        "gpus-per-node" => request.gpus.extend(gpus(GpuScope::Node, value)?),
        "gpus-per-task" => request.gpus.extend(gpus(GpuScope::Task, value)?),
        "gpus-per-socket" => request.gpus.extend(gpus(GpuScope::Socket, value)?),
        "gpu-memory" => request.gpu_memory = Some(memory(value)?),
        "gpu-share" => request.gpu_share = Some(GpuShare::Milli(milli(value)?)),
        "shards" => request.gpu_share = Some(GpuShare::Pieces(count(value)?)),
        "gpu-isolation" => {
            let class = value.parse().map_err(|_| {
                ScenarioError::value(value, "a way to keep jobs apart on a GPU")
                    .hint("write none, time-slice, mps or mig")
            });
            request.gpu_isolation = Some(class?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Where the nodes lie to each other.
fn place_field(request: &mut Request, key: &str, value: &str) -> Read<bool> {
    match key {
        "contiguous" => request.contiguous = true,
        // `switches=1` or `switches=1@10`, minutes.
        "switches" => {
            let (most, wait) = value.split_once('@').map_or((value, None), |(c, w)| (c, Some(w)));
            let wait = wait.map(duration).transpose()?;
            request.switches = Some(SwitchWish { count: count(most)?, wait });
        }
        // `topology=required:rack,preferred:leaf`.
        "topology" => {
            for wish in value.split(',') {
                let (how, level) = pair(wish, ':', "required:LEVEL or preferred:LEVEL")?;
                let level = Some(level.to_owned());
                match choice("a wish", how, &[("required", true), ("preferred", false)])? {
                    true => request.topology.required = level,
                    false => request.topology.preferred = level,
                }
            }
        }
        "segment" => request.topology.segment = Some(count(value)?),
        "segments" => {
            let among = [("spread", Segments::Spread), ("consolidate", Segments::Consolidate)];
            request.topology.segments = choice("a way to lay segments", value, &among)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `4`, `2xa100+1xh100`, `1x1g.10gb+me`.
fn gpus(scope: GpuScope, text: &str) -> Read<Vec<GpuCount>> {
    let group = |text: &str| -> Read<GpuCount> {
        let (number, model) = text.split_once('x').map_or((text, None), |(c, m)| (c, Some(m)));
        let count = count_or_none(number)?;
        Ok(GpuCount { model: model.map(|m| m.replace('~', "+")), count, scope })
    };
    // `1x1g.10gb+me` is one group.
    text.replace("gb+me", "gb~me").split('+').map(group).collect()
}

/// Thousandths, or `0.25`.
fn milli(text: &str) -> Read<DeviceMilli> {
    let thousandths: u32 = match text.strip_prefix("0.") {
        Some(decimals) => number(&format!("{decimals:0<3}"))?,
        None => number(text)?,
    };
    if (1..=1000).contains(&thousandths) {
        return Ok(DeviceMilli(thousandths as _));
    }
    Err(ScenarioError::value(text, "a share of a GPU").hint("write 1 to 1000, or 0.001 to 0.999"))
}

pub(crate) fn node_count(text: &str) -> Read<NodeCount> {
    if text.contains(',') {
        return Ok(NodeCount::OneOf(text.split(',').map(count).collect::<Read<_>>()?));
    }
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let (min, max) = (count(min)?, count(max)?);
    if min > max {
        return Err(ScenarioError::value(text, "a range: its end is below its start"));
    }
    Ok(NodeCount::Range { min, max })
}

/// `a&b`, `a|b`, `[a|b]`, `a*2&b*4`; one level of joining, no parentheses.
fn constraint(text: &str) -> Read<Constraint> {
    if let Some((choice, number)) = text.strip_prefix('[').and_then(|t| t.split_once("]*"))
        && !choice.contains(['[', ']'])
    {
        let choice = constraint(&format!("[{choice}]"))?;
        return Ok(Constraint::Count(Box::new(choice), count(number)?));
    }
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if let Some(inside) = inside.filter(|inside| !inside.contains(['[', ']'])) {
        return Ok(match constraint(inside)? {
            Constraint::Any(parts) => Constraint::OneForAll(parts),
            other => other,
        });
    }
    for (sign, join) in
        [('&', Constraint::All as fn(Vec<Constraint>) -> Constraint), ('|', Constraint::Any)]
    {
        if text.contains(sign) {
            return Ok(join(text.split(sign).map(constraint).collect::<Read<_>>()?));
        }
    }
    if let Some((name, number)) = text.split_once('*') {
        return Ok(Constraint::Count(Box::new(constraint(name)?), count(number)?));
    }
    if text.is_empty() || text.contains(['[', ']', '(', ')']) {
        return Err(
            ScenarioError::value(text, "a feature").hint("write a&b, a|b, [a|b] or a*2&b*4")
        );
    }
    Ok(Constraint::Feature(text.to_owned()))
}
