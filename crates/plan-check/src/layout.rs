//! Does the placement give what was asked, on nodes that may be used?

use crate::{Rule, Violation, devices, topology};
use muster_model::{
    Constraint, Exclusive, GpuScope, MemoryRequest, Mib, Node, NodeShare, Partition, Request,
    Start, State, TimeLimit, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) fn check(state: &State, now: Timestamp, start: &Start, found: &mut Vec<Violation>) {
    let Some(job) = state.jobs.get(&start.job) else { return };
    let request = &job.spec.request;
    let placement = &start.placement;
    let mut say = |rule: Rule, detail: String| found.push(Violation::of(rule, job.id, detail));
    let Some(partition) = state.partitions.get(&placement.partition) else {
        say(Rule::Partition, format!("partition {} is not there", placement.partition));
        return;
    };
    check_partition(state, &job.spec, partition, start, &mut say);
    let mut nodes: Vec<(&Arc<Node>, &NodeShare)> = Vec::new();
    let mut seen = BTreeSet::new();
    for share in &placement.nodes {
        match state.nodes.get(&share.node) {
            Some(node) if seen.insert(share.node) => nodes.push((node, share)),
            Some(node) => say(Rule::UnknownNode, format!("lists node {} twice", node.name)),
            None => say(Rule::UnknownNode, format!("{} is not there", share.node)),
        }
    }
    check_nodes(state, request, partition, &nodes, &mut say);
    let plain: Vec<&Node> = nodes.iter().map(|(n, _)| n.as_ref()).collect();
    if !topology::few_switches(state, job, now, &plain) {
        say(Rule::Switches, "is under more switches than it waits for".to_owned());
    }
    if let Some(wrong) = topology::wrong(state, job, &plain) {
        say(Rule::Topology, wrong);
    }
    check_tasks(request, &nodes, &mut say);
    for (node, share) in &nodes {
        check_share(request, partition, node, share, &mut say);
        let rules = (&state.policy.devices, partition.has_turns());
        devices::check_grants(request, rules, node, share, &mut say);
    }
    check_job_gpus(request, &nodes, &mut say);
    let mut licences: BTreeMap<String, u32> = BTreeMap::new();
    for licence in &request.licences {
        let sum = licences.entry(licence.name.clone()).or_default();
        *sum = sum.saturating_add(licence.count);
    }
    let held = |name: &&String| state.licences.get(*name).is_some_and(|l| l.hold.is_some());
    for name in licences.keys().filter(held) {
        say(Rule::Licences, format!("licence {name} is held back"));
    }
    if licences != placement.licences {
        say(Rule::Licences, format!("asks for {licences:?}, gets {:?}", placement.licences));
    }
}

fn check_partition(
    state: &State,
    spec: &muster_model::JobSpec,
    partition: &Partition,
    start: &Start,
    say: &mut dyn FnMut(Rule, String),
) {
    let name = &partition.name;
    if !spec.partitions.contains(name) {
        say(Rule::Partition, format!("does not name partition {name}"));
    }
    if !partition.state.starts_jobs() {
        say(Rule::Partition, format!("partition {name} starts no jobs"));
    }
    if !partition.allow_accounts.is_empty() && !partition.allow_accounts.contains(&spec.account) {
        say(Rule::Partition, format!("account {} may not use partition {name}", spec.account));
    }
    let any_time = state.qos.get(&spec.qos).is_some_and(|qos| qos.flags.partition_time_limit);
    let too_long = !any_time
        && match (start.time_limit, partition.max_time) {
            (_, TimeLimit::Unlimited) => false,
            (TimeLimit::Unlimited, TimeLimit::Of(_)) => true,
            (TimeLimit::Of(given), TimeLimit::Of(most)) => given > most,
        };
    if too_long {
        say(Rule::PartitionLimit, format!("runs longer than partition {name} allows"));
    }
    let count = start.placement.nodes.len() as u32;
    if count < partition.min_nodes || partition.max_nodes.is_some_and(|most| count > most) {
        say(
            Rule::PartitionLimit,
            format!("has {count} nodes, which partition {name} does not give"),
        );
    }
}

fn check_nodes(
    state: &State,
    request: &Request,
    partition: &Partition,
    nodes: &[(&Arc<Node>, &NodeShare)],
    say: &mut dyn FnMut(Rule, String),
) {
    let count = nodes.len() as u32;
    if count == 0 || request.nodes.as_ref().is_some_and(|n| !n.allows(count)) {
        say(Rule::NodeCount, format!("has {count} nodes, which it did not ask for"));
    }
    let names: BTreeSet<&String> = nodes.iter().map(|(n, _)| &n.name).collect();
    for (node, _) in nodes {
        let name = &node.name;
        if !partition.nodes.contains(name) {
            say(
                Rule::NotInPartition,
                format!("node {name} is not of partition {}", partition.name),
            );
        }
        if node.drain.is_some() || node.availability != muster_model::Availability::Up {
            say(Rule::NodeUnusable, format!("node {name} is down or drained"));
        }
        if request.exclude.contains(name) {
            say(Rule::NodeList, format!("node {name} is excluded"));
        }
        if node.scratch < request.scratch {
            say(Rule::Scratch, format!("node {name} has {} of scratch", node.scratch));
        }
    }
    let engines: BTreeSet<&str> = nodes.iter().map(|(n, _)| n.engine.0.as_str()).collect();
    if engines.len() > 1 {
        let engines: Vec<&str> = engines.into_iter().collect();
        say(Rule::SeveralEngines, format!("has nodes of {}", engines.join(" and ")));
    }
    for missing in request.node_list.iter().filter(|name| !names.contains(name)) {
        say(Rule::NodeList, format!("node {missing} is missing"));
    }
    let features: Vec<&BTreeSet<String>> = nodes.iter().map(|(n, _)| &n.features).collect();
    if let Some(constraint) = &request.constraint
        && !satisfied(constraint, &features)
    {
        say(Rule::Constraint, format!("the nodes do not satisfy {constraint}"));
    }
    if request.contiguous && !neighbours(state, &names) {
        say(Rule::Contiguous, "the nodes are not neighbours".to_owned());
    }
}

/// Whether the nodes of a job together satisfy an expression.
pub(crate) fn satisfied(constraint: &Constraint, nodes: &[&BTreeSet<String>]) -> bool {
    match constraint {
        Constraint::Count(part, least) => {
            if let Constraint::OneForAll(parts) = part.as_ref() {
                let enough = |p: &&Constraint| nodes.iter().filter(|f| p.holds_on(f)).count();
                return parts.iter().any(|p| enough(&p) >= *least as usize);
            }
            nodes.iter().filter(|f| part.holds_on(f)).count() >= *least as usize
        }
        Constraint::OneForAll(parts) => parts.iter().any(|p| satisfied(p, nodes)),
        Constraint::All(parts) => parts.iter().all(|p| satisfied(p, nodes)),
        Constraint::Any(parts) if parts.iter().any(speaks_of_all) => {
            parts.iter().any(|p| satisfied(p, nodes))
        }
        plain => nodes.iter().all(|f| plain.holds_on(f)),
    }
}

fn speaks_of_all(constraint: &Constraint) -> bool {
    match constraint {
        Constraint::Feature(_) => false,
        Constraint::Count(..) | Constraint::OneForAll(_) => true,
        Constraint::All(parts) | Constraint::Any(parts) => parts.iter().any(speaks_of_all),
    }
}

/// True where the names stand side by side among all nodes' names, digits read as numbers, or
/// among those of a ring, whose last is beside its first.
pub(crate) fn neighbours(state: &State, names: &BTreeSet<&String>) -> bool {
    let mut all: Vec<&String> = state.nodes.values().map(|n| &n.name).collect();
    all.sort_by(|a, b| by_number(a, b).then_with(|| a.cmp(b)));
    let places: Vec<usize> =
        all.iter().enumerate().filter(|(_, n)| names.contains(*n)).map(|(at, _)| at).collect();
    places.windows(2).all(|pair| pair[1] == pair[0] + 1) || in_a_ring(state, &all, names)
}

/// True where a ring has all of the names and no more than one gap between them.
fn in_a_ring(state: &State, all: &[&String], names: &BTreeSet<&String>) -> bool {
    state.topology.domains.values().filter(|domain| domain.ring).any(|domain| {
        let ring: Vec<&&String> = all.iter().filter(|n| domain.nodes.contains(**n)).collect();
        let inside = ring.iter().filter(|n| names.contains(**n)).count();
        let next = ring.iter().cycle().skip(1);
        let ends =
            ring.iter().zip(next).filter(|(a, b)| names.contains(**a) && !names.contains(**b));
        inside == names.len() && ends.count() <= 1
    })
}

/// Compares two names piece by piece: runs of digits by value, other characters as they are.
fn by_number(left: &str, right: &str) -> std::cmp::Ordering {
    let (mut left, mut right) = (left, right);
    loop {
        let (a, b) = match (left.chars().next(), right.chars().next()) {
            (None, None) => return std::cmp::Ordering::Equal,
            (None, Some(_)) => return std::cmp::Ordering::Less,
            (Some(_), None) => return std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => (a, b),
        };
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (m, n) = (leading_number(&mut left), leading_number(&mut right));
            if m != n {
                return m.cmp(&n);
            }
        } else if a == b {
            (left, right) = (&left[a.len_utf8()..], &right[b.len_utf8()..]);
        } else {
            return a.cmp(&b);
        }
    }
}

/// The number that the text begins with, taken off it.
fn leading_number(text: &mut &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    digits.bytes().fold(0u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0')))
}

fn check_tasks(
    request: &Request,
    nodes: &[(&Arc<Node>, &NodeShare)],
    say: &mut dyn FnMut(Rule, String),
) {
    let expected = u64::from(request.tasks_on(nodes.len() as u32));
    let given: u64 = nodes.iter().map(|(_, share)| u64::from(share.tasks)).sum();
    if given != expected {
        say(Rule::Tasks, format!("has {given} tasks, should have {expected}"));
    }
    for (node, share) in nodes {
        let name = &node.name;
        let cores = node.cpu_count() / node.threads_per_core.max(1);
        let bounds = [
            request.tasks_per_node,
            request.tasks_per_socket.map(|n| n.saturating_mul(node.sockets())),
            request.tasks_per_core.map(|n| n.saturating_mul(cores)),
        ];
        if share.tasks == 0 {
            say(Rule::Tasks, format!("has no task on node {name}"));
        }
        if bounds.into_iter().flatten().any(|most| share.tasks > most) {
            say(Rule::Tasks, format!("has {} tasks on node {name}, too many", share.tasks));
        }
        let by_gpus = request
            .tasks_per_gpu
            .filter(|n| *n > 0 && request.tasks.is_none() && request.tasks_per_node.is_none())
            .filter(|_| request.gpus_in_total(1).is_some_and(|gpus| gpus > 0))
            .map(|n| n.saturating_mul(share.devices.len() as u32));
        if by_gpus.is_some_and(|n| n != share.tasks) {
            let detail = format!("has {} tasks on node {name}, not as its GPUs say", share.tasks);
            say(Rule::Tasks, detail);
        }
        if request.tasks.is_none() && request.tasks_per_node.is_some_and(|n| n != share.tasks) {
            say(Rule::Tasks, format!("has {} tasks on node {name}, not as asked", share.tasks));
        }
    }
}

/// GPUs that a node must have whatever the others have, by model (`None` is any).
pub(crate) fn fixed_gpus(
    request: &Request,
    node: &Node,
    tasks: u32,
) -> BTreeMap<Option<String>, u32> {
    let mut fixed: BTreeMap<Option<String>, u32> = BTreeMap::new();
    for gpus in &request.gpus {
        let count = match gpus.scope {
            GpuScope::Job => continue,
            GpuScope::Node => gpus.count,
            GpuScope::Task => gpus.count.saturating_mul(tasks),
            GpuScope::Socket => gpus.count.saturating_mul(socket_count(request, node)),
        };
        let model = gpus.model.as_ref().map(|m| m.to_ascii_lowercase());
        let sum = fixed.entry(model).or_default();
        *sum = sum.saturating_add(count);
    }
    fixed
}

/// CPUs and memory that so many tasks and GPUs of a request need on a node.
pub(crate) fn required(
    request: &Request,
    partition: &Partition,
    node: &Node,
    tasks: u32,
    gpus: u32,
) -> (u32, u64) {
    let asked = [
        tasks.saturating_mul(request.cpus_per_task.unwrap_or(1)),
        gpus.saturating_mul(request.cpus_per_gpu.unwrap_or(0)),
        request.cpus_per_node_min.unwrap_or(0),
        u32::from(request.cpus_per_task != Some(0)),
    ]
    .into_iter()
    .fold(0, u32::max);
    let foreign: u64 = node.foreign.iter().filter(|f| f.device.is_none()).map(|f| f.memory.0).sum();
    let node_memory = node.memory.0.saturating_sub(foreign);
    let bound = partition.max_memory_per_cpu.map(|m| m.0.max(1));
    let for_memory = |memory: u64| bound.map_or(0, |b| memory.div_ceil(b) as u32);
    let (mut cpus, mut memory) = match request.memory {
        MemoryRequest::Default => (asked, None),
        MemoryRequest::WholeNode => (asked, Some(node_memory)),
        MemoryRequest::PerNode(m) => (asked.max(for_memory(m.0)), Some(m.0)),
        MemoryRequest::PerGpu(m) => {
            let sum = m.0.saturating_mul(u64::from(gpus));
            (asked.max(for_memory(sum)), Some(sum))
        }
        MemoryRequest::PerCpu(m) => {
            let times = bound.map_or(1, |b| m.0.div_ceil(b).max(1)) as u32;
            (asked.saturating_mul(times), Some(m.0.saturating_mul(u64::from(asked))))
        }
    };
    if request.exclusive == Exclusive::Node {
        cpus = cpus.max(own_cpus(node));
    }
    let memory = *memory.get_or_insert_with(|| {
        if let Some(Mib(per_cpu)) = partition.default_memory_per_cpu {
            per_cpu.saturating_mul(u64::from(cpus))
        } else if let Some(Mib(per_node)) = partition.default_memory_per_node {
            per_node
        } else {
            let all = u128::from(node.cpu_count().max(1));
            (u128::from(node_memory) * u128::from(cpus) / all) as u64
        }
    });
    (cpus, memory)
}

/// How many of a node's CPUs are not foreign.
pub(crate) fn own_cpus(node: &Node) -> u32 {
    let taken = |cpu: &u32| node.foreign.iter().any(|f| f.cpus.contains(*cpu));
    node.cpus.iter().filter(|cpu| !taken(cpu)).count() as u32 + node.cpu_pool
}

fn check_share(
    request: &Request,
    partition: &Partition,
    node: &Node,
    share: &NodeShare,
    say: &mut dyn FnMut(Rule, String),
) {
    let name = &node.name;
    let gpus = share.devices.len() as u32;
    let (cpus, memory) = required(request, partition, node, share.tasks, gpus);
    if share.cpu_count() != cpus {
        say(Rule::Cpus, format!("has {} CPUs on node {name}, needs {cpus}", share.cpu_count()));
    }
    if share.memory.0 != memory {
        say(Rule::Memory, format!("has {} on node {name}, needs {}", share.memory, Mib(memory)));
    }
    if share.gres != request.gres {
        say(Rule::Gres, format!("has {:?} on node {name}, needs {:?}", share.gres, request.gres));
    }
    if share.exclusive != (request.exclusive == Exclusive::Node) {
        say(Rule::Exclusive, format!("is not marked as asked on node {name}"));
    }
    let sockets = socket_count(request, node);
    if request.cpus_near_gpus && !devices::cpus_are_near(node, share) {
        say(Rule::Cpus, format!("has CPUs away from its GPUs on node {name}"));
    }
    if node.topology_uncertain && request.cpus_near_gpus && request.wants_gpus() {
        say(Rule::Cpus, format!("which CPUs of node {name} are beside its GPUs is not certain"));
    }
    if request.sockets_per_node.is_some_and(|n| n > node.sockets()) {
        say(Rule::Cpus, format!("node {name} has too few sockets"));
    }
    if request.gpus.iter().any(|g| g.scope == GpuScope::Socket && g.count > 0)
        && devices::sockets_served(request, node, share) < sockets
    {
        say(Rule::Gpus, format!("has too few GPUs on a socket of node {name}"));
    }
    for (model, count) in fixed_gpus(request, node, share.tasks) {
        let has = match &model {
            Some(model) => devices::of_type(node, share, model),
            None => gpus,
        };
        if has < count {
            let model = model.unwrap_or_default();
            say(Rule::Gpus, format!("has {has} GPUs {model} on node {name}, needs {count}"));
        }
    }
}

/// How many sockets of a node the counts by socket are for.
fn socket_count(request: &Request, node: &Node) -> u32 {
    request.sockets_per_node.unwrap_or_else(|| node.sockets()).max(1)
}

/// Totals over the job, and that there is no GPU too many.
fn check_job_gpus(
    request: &Request,
    nodes: &[(&Arc<Node>, &NodeShare)],
    say: &mut dyn FnMut(Rule, String),
) {
    let mut wanted: BTreeMap<Option<String>, u32> = BTreeMap::new();
    let mut fixed_in_all = 0;
    for (node, share) in nodes {
        for (model, count) in fixed_gpus(request, node, share.tasks) {
            let sum = wanted.entry(model).or_default();
            *sum = sum.saturating_add(count);
            fixed_in_all = count.saturating_add(fixed_in_all);
        }
    }
    let totals: Vec<_> =
        request.gpus.iter().filter(|g| g.scope == GpuScope::Job && g.count > 0).collect();
    for gpus in &totals {
        let sum = wanted.entry(gpus.model.as_ref().map(|m| m.to_ascii_lowercase())).or_default();
        *sum = sum.saturating_add(gpus.count);
    }
    for (model, count) in &wanted {
        let Some(model) = model else { continue };
        let has: u32 = nodes.iter().map(|(node, share)| devices::of_type(node, share, model)).sum();
        if has < *count {
            say(Rule::Gpus, format!("has {has} GPUs {model} in total, needs {count}"));
        }
    }
    let all: u32 = nodes.iter().map(|(_, share)| share.devices.len() as u32).sum();
    let expected = crate::total(totals.iter().map(|g| g.count).chain([fixed_in_all]));
    if all != expected {
        say(Rule::Gpus, format!("has {all} GPUs in total, needs {expected}"));
    }
    for (node, share) in nodes {
        let fixed = crate::total(fixed_gpus(request, node, share.tasks).into_values());
        if !totals.is_empty() && share.devices.len() as u32 <= fixed {
            say(Rule::Gpus, format!("has no GPU of its total on node {}", node.name));
        }
    }
}
