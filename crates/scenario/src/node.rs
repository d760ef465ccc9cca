//! A node from words.
//!
//! ```text
//! cpus=8 threads=2 mem=64G scratch=1T features=fast,rack1 numa=2 gres=fpga:2 switch=s1,c1
//! gpus=4xa100 gpus=2xa100:40G+2xh100:80G gpumem=80G
//! gpu-mode=mps gpu-mode=time-slice:5 gpu-mode=mig:3g@0+1g@4 gpu-mode=0-1@mps;2@mig
//! labels=zone:a taints=dedicated=ml:NoSchedule weight=2 machine=M01 partition=debug
//! ```

use crate::error::{Read, ScenarioError};
use crate::text::{
    Word, choice, count, count_or_none, counted, fields, list, memory, number, pair,
};
use crate::{affinity, machines};
use muster_model::sharing::{DeviceMode, MigInstance, MigMode, Sharing};
use muster_model::{Availability, CpuSet, Device, EngineName, Mib, Node, NodeId, NumaDomain};

/// CPUs of one node.
const CPUS_MAX: u32 = 4096;
/// NUMA domains of one node.
const DOMAINS_MAX: u32 = 64;
/// GPUs of one node.
const DEVICES_MAX: usize = 64;

const NODE: &[&str] = &[
    "cpus",
    "pool",
    "mem",
    "scratch",
    "switch",
    "weight",
    "threads",
    "labels",
    "taints",
    "features",
    "gres",
    "gpumem",
    "gpu-mode",
    "gpu-reserve",
    "gpus",
    "partition",
    "numa",
    "machine",
];

/// A node of these words, and the partition that they name.
pub(crate) fn node(id: u32, name: &str, words: &[Word]) -> Read<(Node, Option<String>)> {
    let (mut home, mut domains, mut whole) = (None, 1, None);
    fields(words, |key, value| {
        if key == "machine" {
            let machine = machines::machine(NodeId(id), name, value);
            let known = || machines::names();
            whole = Some(machine.ok_or_else(|| ScenarioError::name("machine", value, known()))?);
        }
        Ok(())
    })?;
    let is_machine = whole.is_some();
    let mut made = whole.unwrap_or_else(|| plain(NodeId(id), name));
    fields(words, |key, value| {
        match key {
            "partition" => home = Some(value.to_owned()),
            "numa" => {
                domains = count(value)?;
                if domains > DOMAINS_MAX {
                    return Err(ScenarioError::large("NUMA domains of a node", DOMAINS_MAX));
                }
            }
            "machine" => {}
            _ => field(&mut made, key, value)?,
        }
        Ok(())
    })?;
    if !is_machine {
        split_numa(&mut made, domains);
    }
    Ok((made, home))
}

/// A node of one CPU and 64 GiB that is up.
fn plain(id: NodeId, name: &str) -> Node {
    Node {
        id,
        name: name.to_owned(),
        engine: EngineName::local(),
        cpus: CpuSet::first(1),
        threads_per_core: 1,
        memory: Mib(64 * 1024),
        availability: Availability::Up,
        ..Node::default()
    }
}

fn field(node: &mut Node, key: &str, value: &str) -> Read<()> {
    match key {
        "cpus" => {
            let cpus = count(value)?;
            if cpus > CPUS_MAX {
                return Err(ScenarioError::large("CPUs of a node", CPUS_MAX));
            }
            node.cpus = CpuSet::first(cpus);
        }
        // CPUs by number alone, and nothing else unless it is said behind.
        "pool" => {
            (node.cpu_pool, node.memory) = (count(value)?, Mib(0));
            node.cpus = CpuSet::new();
        }
        "mem" => node.memory = memory(value)?,
        "scratch" => node.scratch = memory(value)?,
        "switch" => node.switches = list(value).collect(),
        "weight" => node.weight = number(value)?,
        "threads" => {
            let among = [("1", 1), ("2", 2), ("4", 4), ("8", 8)];
            node.threads_per_core = choice("a number of threads a core", value, &among)?;
        }
        "labels" => node.labels = affinity::labels(value),
        "taints" => node.taints = value.split(',').map(affinity::taint).collect::<Read<_>>()?,
        "features" => node.features = list(value).collect(),
        "gres" => {
            let all = counted(value)?.into_iter();
            node.gres.extend(all.map(|(name, count)| (name.to_owned(), u64::from(count))));
        }
        "gpumem" => {
            let each = memory(value)?;
            node.devices.iter_mut().for_each(|d| d.memory = each);
        }
        "gpu-mode" => value.split(';').try_for_each(|part| gpu_mode(node, part))?,
        "gpu-reserve" => {
            let reserve = memory(value)?;
            for device in &mut node.devices {
                if let DeviceMode::Shared(sharing) = &mut device.mode {
                    sharing.reserve = reserve;
                }
            }
        }
        "gpus" => value.split('+').try_for_each(|group| gpus(node, group))?,
        _ => return Err(ScenarioError::option("a node", key, NODE)),
    }
    Ok(())
}

/// `4`, `4xa100`, `2xh100:80G`.
fn gpus(node: &mut Node, group: &str) -> Read<()> {
    let (number, rest) = group.split_once('x').unwrap_or((group, "gpu"));
    let (model, size) = rest.split_once(':').unwrap_or((rest, "80G"));
    let (count, memory) = (count_or_none(number)? as usize, memory(size)?);
    if node.devices.len() + count > DEVICES_MAX {
        return Err(ScenarioError::large("GPUs of a node", DEVICES_MAX));
    }
    for _ in 0..count {
        node.devices.push(Device {
            index: node.devices.len() as u32,
            model: model.to_owned(),
            memory,
            ..Device::default()
        });
    }
    Ok(())
}

fn gpu_mode(node: &mut Node, text: &str) -> Read<()> {
    let is_list = |t: &str| t.chars().all(|c| c.is_ascii_digit() || c == '-');
    let (which, mode) = match text.split_once('@') {
        Some((list, mode)) if is_list(list) => (Some(list), mode),
        _ => (None, text),
    };
    let bad = |list: &str| ScenarioError::value(list, "a list of GPUs").hint("write 0 or 0-1");
    let which = which.map(|list| CpuSet::parse(list).map_err(|_| bad(list))).transpose()?;
    let (word, rest) = mode.split_once(':').unwrap_or((mode, ""));
    for device in &mut node.devices {
        if which.as_ref().is_some_and(|set| !set.contains(device.index)) {
            continue;
        }
        device.mode = match word {
            "whole" => DeviceMode::Whole,
            "mig" => {
                let instances = rest.split('+').filter(|t| !t.is_empty());
                let instances =
                    instances.map(|text| instance(device, text)).collect::<Read<Vec<_>>>()?;
                DeviceMode::Mig(MigMode { carve: instances.is_empty(), instances })
            }
            class => DeviceMode::Shared(Sharing {
                isolation: class.parse().map_err(|_| {
                    ScenarioError::value(class, "a mode of a GPU")
                        .hint("write whole, mig, none, time-slice or mps")
                })?,
                pieces: if rest.is_empty() { 0 } else { count_or_none(rest)? },
                reserve: Mib(0),
            }),
        };
    }
    Ok(())
}

/// `3g@4`: the smallest profile of so many slices, at that start.
fn instance(device: &Device, text: &str) -> Read<MigInstance> {
    let bad = || ScenarioError::value(text, "an instance that this GPU can have");
    let (slices, start) = pair(text, '@', "an instance such as 3g@4")?;
    let compute: u8 = number(slices.strip_suffix('g').ok_or_else(bad)?)?;
    let start: u8 = number(start)?;
    let table = device.mig_table().ok_or_else(bad)?;
    let profile = table.profiles.iter().find(|p| p.compute == compute);
    let slot = profile.and_then(|p| p.slots().find(|s| s.start == start)).ok_or_else(bad)?;
    Ok(MigInstance { slot, uuid: format!("MIG-{}-{start}", device.index) })
}

/// Splits CPUs, memory and devices evenly over so many NUMA domains, one a socket.
fn split_numa(node: &mut Node, domains: u32) {
    let (cpus, devices) = (node.cpus.len(), node.devices.len() as u32);
    let domain_of = |n: u32, total: u32| n * domains / total.max(1);
    for id in 0..domains {
        node.numa.push(NumaDomain {
            id,
            socket: id,
            cpus: node.cpus.iter().filter(|cpu| domain_of(*cpu, cpus) == id).collect(),
            memory: Mib(node.memory.0 / u64::from(domains)),
        });
    }
    for device in &mut node.devices {
        device.numa = Some(domain_of(device.index, devices));
    }
}
