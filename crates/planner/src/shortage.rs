//! What a job lacks, in numbers: now, and on an empty cluster.

use crate::affinity;
use crate::ask::{Ask, Need, Tasks};
use crate::devices;
use crate::free::{NodeView, Span, effective_end};
use crate::gang::Picks;
use crate::world::World;
use muster_model::sharing::DeviceWish;
use muster_model::{Exclusive, JobId, Mib, Reason, RuleKind, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// At most so many jobs or nodes are named in a reason.
pub(crate) const NAMED_MAX: usize = 8;

/// What the least part of a job needs on one node: with all tasks where it is to be on one.
pub(crate) struct Least<'a> {
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) gpus: u32,
    pub(crate) need: Cow<'a, Need>,
}

pub(crate) fn least_on<'a>(ask: &'a Ask, view: &NodeView, whole: bool) -> Least<'a> {
    let (tasks, share) = match (whole, ask.tasks) {
        (true, Tasks::Total(total)) => (total, ask.job_gpus.iter().map(|g| g.1).collect()),
        (true, _) => (1, ask.job_gpus.iter().map(|g| g.1).collect()),
        (false, _) => (1, ask.least_gpus()),
    };
    let need = ask.need_on(view, tasks, &share);
    let gpus = need.gpu_total();
    Least { cpus: need.cpus, memory: need.memory, gpus, need }
}

/// Devices of a mask that the job could use: of its models, with enough memory.
pub(crate) fn usable_gpus(ask: &Ask, view: &NodeView, mask: u128) -> u32 {
    let models = ask.models();
    if models.is_empty() {
        return ask.big_enough(view, mask).count_ones();
    }
    // A profile alone is of any model.
    let named = |model: &str| {
        muster_model::mig::split_type(model).0.map_or(u128::MAX, |m| view.of_model(m))
    };
    let of_models = models.iter().fold(0, |mask, model| mask | named(model));
    (ask.big_enough(view, mask) & of_models).count_ones()
}

/// True where the job can go to the nodes that it names and to no others.
pub(crate) fn only_named(ask: &Ask) -> bool {
    let named = ask.request.node_list.len();
    let most = ask.node_bounds().map_or(1, |b| b.1) as usize;
    let on_one = ask.request.nodes.is_none() && !ask.can_be_spread();
    named > 0 && (most <= named || (on_one && named == 1))
}

/// The nodes of the partition that the request does not rule out by name or feature.
fn nodes_for<'a>(world: &'a World, ask: &'a Ask) -> impl Iterator<Item = &'a NodeView> {
    let members = world.members(&ask.partition.name);
    let list: &[usize] = members.map_or(&[], |m| m.list());
    let only_named = only_named(ask);
    list.iter().map(|at| world.view(*at)).filter(move |view| {
        (!only_named || ask.request.node_list.contains(&view.node.name))
            && ask.may_use(view)
            && ask.alternatives.iter().any(|a| a.admits(&view.node.features))
    })
}

/// GPUs, CPUs and memory, in this order.
type Amounts = [u64; 3];

/// The words for them, in the order in which equal shortages are told.
const WORDS: [&str; 3] = ["gpus", "cpus", "memory"];

/// What its GPUs are called: places where instances can lie are not amounts of memory.
pub(crate) fn gpu_word(ask: &Ask) -> &'static str {
    let profile = |model: &&str| muster_model::mig::split_type(model).1.is_some();
    match ask.wish {
        DeviceWish::Part { .. } => "gpu parts",
        DeviceWish::Whole if ask.models().iter().any(profile) => "mig places",
        DeviceWish::Whole => "gpus",
    }
}

/// What a job could get of a node, and what of it is too little for the part that goes there.
struct Room<'a> {
    view: &'a NodeView,
    free: Amounts,
    part: Amounts,
    /// Exclusive use, its own or another's, keeps it from the node.
    closed: bool,
}

impl Room<'_> {
    fn lacks(&self, resource: usize) -> bool {
        self.free[resource] < self.part[resource]
    }

    fn has_all(&self) -> bool {
        (0..WORDS.len()).all(|r| !self.lacks(r))
    }
}

fn rooms<'a>(world: &'a World, ask: &'a Ask, now: Timestamp, whole: bool) -> Vec<Room<'a>> {
    let span = Span::of(now, now, ask.length());
    let room = |view: &'a NodeView| {
        let avail = view.avail(span);
        let least = least_on(ask, view, whole);
        let gpus = if ask.is_plain() {
            usable_gpus(ask, view, avail.devices)
        } else {
            devices::most(ask, view, &avail, &least.need)
        };
        Room {
            view,
            free: [u64::from(gpus), u64::from(avail.cpus), avail.memory],
            part: [u64::from(least.gpus), u64::from(least.cpus), least.memory],
            closed: !view.admits(span, ask.kind(), ask.uid),
        }
    };
    let mut rooms: Vec<Room<'_>> = nodes_for(world, ask).map(room).collect();
    // A node that it names and that cannot take a part is what it waits for.
    let named = |room: &Room<'_>| ask.request.node_list.contains(&room.view.node.name);
    if rooms.iter().any(|room| named(room) && (room.closed || !room.has_all())) {
        rooms.retain(|room| named(room) && (room.closed || !room.has_all()));
    }
    rooms
}

/// A shortage: which resource, how much is wanted and free, on how many nodes (0 for any number).
struct Short {
    resource: Option<usize>,
    wanted: u64,
    free: u64,
    nodes: u32,
    /// What is held anywhere counts, not only where a part does not fit.
    in_total: bool,
}

/// What is in use of what the job needs, where it could go, and by whom.
///
/// `total` is what it takes of each resource once all jobs are over, `nodes` on how many nodes,
/// `start` when it was promised.
pub(crate) fn in_use(
    world: &World,
    ask: &Ask,
    now: Timestamp,
    total: Option<Amounts>,
    nodes: u32,
    start: Option<Timestamp>,
) -> Reason {
    let most = ask.node_bounds().map_or(1, |b| b.1);
    let on_one = nodes <= 1 && (most == 1 || !ask.can_be_spread());
    let rooms = rooms(world, ask, now, on_one);
    let fitting = rooms.iter().filter(|room| !room.closed && room.has_all()).count() as u64;
    let closed = rooms.iter().filter(|room| room.closed && room.has_all()).count() as u64;
    let named_lack = !ask.request.node_list.is_empty() && fitting == 0;
    let wanted_nodes = if named_lack { 1 } else { nodes.max(1) };
    let is_closed = fitting < u64::from(wanted_nodes) && closed > 0;
    let by_nodes = Short {
        resource: None,
        wanted: u64::from(wanted_nodes),
        free: fitting,
        nodes,
        in_total: false,
    };
    let spreads = spreads(ask) && !on_one && !named_lack;
    let short = if is_closed || ask.kind() != Exclusive::No {
        by_nodes
    } else {
        let found = if spreads {
            let count = if ask.request.nodes.is_some() { nodes } else { 0 };
            total.and_then(|total| short_in_total(&rooms, total, most, count))
        } else {
            None
        };
        found.or_else(|| short_in_parts(&rooms, wanted_nodes)).unwrap_or(by_nodes)
    };
    let word = |r: usize| if r == 0 { gpu_word(ask) } else { WORDS[r] };
    let resource = short.resource.map_or("nodes", word);
    Reason::Resources {
        resource: resource.to_owned(),
        wanted: short.wanted,
        free: short.free,
        nodes: short.nodes,
        held_by: held_by(&rooms, ask, now, &short),
        start: start.filter(|at| *at != Timestamp::NEVER),
    }
}

/// True where tasks or GPUs are counted over the whole job and may lie unevenly.
pub(crate) fn spreads(ask: &Ask) -> bool {
    matches!(ask.tasks, Tasks::Total(_)) || !ask.job_gpus.is_empty()
}

/// The resource of which the most nodes that the job may take together have too little: that with
/// the greatest part missing.
fn short_in_total(rooms: &[Room<'_>], total: Amounts, most: u32, nodes: u32) -> Option<Short> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let free_of = |resource: usize| {
        let open = rooms.iter().filter(|room| !room.closed);
        let mut free: Vec<u64> = open.map(|room| room.free[resource]).collect();
        free.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        free.into_iter().take(most).fold(0, u64::saturating_add)
    };
    let short = |resource: usize| {
        let (wanted, free) = (total[resource], free_of(resource));
        (free < wanted).then_some(Short {
            resource: Some(resource),
            wanted,
            free,
            nodes,
            in_total: true,
        })
    };
    (0..WORDS.len()).rev().filter_map(short).max_by(|a, b| {
        let missing =
            |s: &Short, other: &Short| u128::from(s.wanted - s.free) * u128::from(other.wanted);
        missing(a, b).cmp(&missing(b, a))
    })
}

/// The resource that keeps the part of a node from the most nodes, on so many nodes.
fn short_in_parts(rooms: &[Room<'_>], nodes: u32) -> Option<Short> {
    let count = |r: &usize| rooms.iter().filter(|room| room.lacks(*r)).count();
    let resource = (0..WORDS.len()).rev().max_by_key(count).filter(|r| count(r) > 0)?;
    let part = rooms.iter().map(|room| room.part[resource]).max()?;
    let wanted = part.saturating_mul(u64::from(nodes));
    // On one node the best counts; on several what each gives towards its part.
    let mut free: Vec<u64> = rooms.iter().map(|room| room.free[resource].min(part)).collect();
    free.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    let free = free.into_iter().take(nodes as usize).fold(0, u64::saturating_add);
    (free < wanted).then_some(Short {
        resource: Some(resource),
        wanted,
        free,
        nodes,
        in_total: false,
    })
}

/// The jobs that hold some of the resource where the job could go, soonest end first; without a
/// resource, all on nodes that cannot take a part.
fn held_by(rooms: &[Room<'_>], ask: &Ask, now: Timestamp, short: &Short) -> Vec<JobId> {
    let mut holders: BTreeSet<(Timestamp, JobId)> = BTreeSet::new();
    let full = rooms.iter().any(|room| room.closed || !room.has_all());
    for room in rooms {
        let in_question = match short.resource {
            Some(resource) => short.in_total || room.lacks(resource),
            None => !full || room.closed || !room.has_all(),
        };
        let holds = |held: &&crate::free::Holding| match short.resource {
            Some(0) => usable_gpus(ask, room.view, held.devices) > 0,
            Some(1) => held.cpu_count > 0,
            Some(_) => held.memory > 0,
            None => true,
        };
        for held in room.view.holdings.iter().filter(|_| in_question).filter(holds) {
            holders.insert((effective_end(held.end, now), held.job));
            if holders.len() > NAMED_MAX {
                holders.pop_last();
            }
        }
    }
    // One job may be on several nodes.
    holders.into_iter().map(|(_, job)| job).collect()
}

/// What these nodes give to the job all together.
pub(crate) fn amounts(world: &World, ask: &Ask, picks: &Picks) -> Amounts {
    picks.iter().fold([0; 3], |sum, pick| {
        let need = ask.need(world.view(pick.node), pick.tasks, &pick.share);
        let gpus = u64::from(need.gpu_total());
        [sum[0] + gpus, sum[1] + u64::from(need.cpus), sum[2].saturating_add(need.memory)]
    })
}

/// Why no node of the partition could ever do, even if all were up and empty. `bare` is the world
/// with nothing on it.
pub(crate) fn never(bare: &World, ask: &Ask) -> Reason {
    let partition = ask.partition.name.clone();
    let wanted = ask.node_bounds().map_or(1, |b| b.0);
    let largest_gpu = bare
        .members(&partition)
        .map_or(&[][..], |m| m.list())
        .iter()
        .flat_map(|at| &bare.view(*at).node.devices)
        .map(|d| d.memory)
        .max();
    if let (Some(least), Some(largest)) = (ask.request.gpu_memory, largest_gpu)
        && least > largest
    {
        return Reason::GpuMemory { wanted: least, largest };
    }
    let found = nodes_for(bare, ask).count() as u32;
    let lacking = lacking(bare, ask, wanted, found);
    Reason::NoNodeFits { partition, wanted, found, lacking }
}

fn lacking(bare: &World, ask: &Ask, wanted: u32, found: u32) -> String {
    let absent: Vec<&String> =
        ask.request.node_list.iter().filter(|name| bare.node_named(name).is_none()).collect();
    if let Some(name) = absent.first() {
        return format!("there is no node {name}");
    }
    if let Some(kind) = [RuleKind::Taints, RuleKind::NodeAffinity]
        .into_iter()
        .find(|kind| nodes_for(bare, &affinity::without(ask, *kind)).count() as u32 >= wanted)
        .filter(|_| found < wanted)
    {
        let rule = affinity::text(bare, ask, kind);
        let would = nodes_for(bare, &affinity::without(ask, kind)).count();
        let what = match kind {
            RuleKind::Taints if found == 0 => "every node has taints that it does not tolerate",
            RuleKind::Taints => "too many nodes have taints that it does not tolerate",
            _ if found == 0 => "no node has the labels that it requires",
            _ => "too few nodes have the labels that it requires",
        };
        return format!("{what}, {rule}; without that {would} nodes would do");
    }
    if found == 0 {
        return match &ask.request.constraint {
            Some(constraint) => format!("no node satisfies the constraint {constraint}"),
            None => "no node is left by the names and disk it asks for".to_owned(),
        };
    }
    let whole = ask.node_bounds().is_some_and(|b| b.1 == 1);
    let (mut most, mut least) = ([0, 0, 0], [u64::MAX; 3]);
    for view in nodes_for(bare, ask) {
        let need = least_on(ask, view, whole);
        let gpus = if ask.is_plain() {
            usable_gpus(ask, view, view.base_devices)
        } else {
            devices::most(ask, view, &view.whole(), &need.need)
        };
        let has = [u64::from(gpus), u64::from(view.base_cpu_count), view.base_memory];
        let needs = [u64::from(need.gpus), u64::from(need.cpus), need.memory];
        for r in 0..WORDS.len() {
            most[r] = has[r].max(most[r]);
            least[r] = needs[r].min(least[r]);
        }
    }
    let [most_gpus, most_cpus, most_memory] = most;
    let [least_gpus, least_cpus, least_memory] = least;
    if least_gpus > most_gpus {
        let models = ask.models();
        let there: BTreeSet<&str> =
            nodes_for(bare, ask).flat_map(|v| v.models.iter().map(|m| m.0.as_str())).collect();
        let model = |m: &&str| muster_model::mig::split_type(m).0.map(str::to_owned);
        if let Some(absent) = models.iter().filter_map(model).find(|m| !there.contains(m.as_str()))
        {
            let list = there.into_iter().collect::<Vec<_>>().join(", ");
            let list = if list.is_empty() { "none".to_owned() } else { list };
            return format!("needs GPUs of model {absent}; its nodes have {list}");
        }
        let gpus = match gpu_word(ask) {
            "gpus" if least_gpus == 1 => "GPU",
            "gpus" => "GPUs",
            word => word,
        };
        return format!("needs {least_gpus} {gpus} on one node; the largest node has {most_gpus}");
    }
    if least_cpus > most_cpus {
        return format!("needs {least_cpus} CPUs on one node; the largest node has {most_cpus}");
    }
    if least_memory > most_memory {
        return format!(
            "needs {} of memory on one node; the largest node has {}",
            Mib(least_memory),
            Mib(most_memory)
        );
    }
    if let Some((name, count)) = ask.request.gres.iter().find(|(name, count)| {
        nodes_for(bare, ask).all(|v| v.node.gres.get(*name).copied().unwrap_or(0) < **count)
    }) {
        return format!("needs {count} of {name} on one node; no node has so many");
    }
    if wanted > found {
        return format!("needs {wanted} nodes; there are {found}");
    }
    let open = Timestamp::from_secs(0);
    let span = Span::of(open, open, ask.length());
    let free = crate::gang::free_nodes(bare, ask, span);
    if let Some(Reason::Topology { rule, nearest, .. }) =
        crate::topology::shortage(bare, ask, span, &free, wanted)
    {
        let segment = ask.request.topology.segment_for(wanted).unwrap_or(1);
        if !wanted.is_multiple_of(segment) {
            return format!("needs {wanted} nodes {rule}");
        }
        if nearest < wanted {
            return format!("needs {wanted} nodes {rule}; at most {nearest} are so");
        }
    }
    "no set of its nodes gives all that it asks for together".to_owned()
}

/// The nodes that would do but are down or drained, by name.
pub(crate) fn unavailable(world: &World, bare: &World, ask: &Ask) -> Vec<String> {
    nodes_for(bare, ask)
        .filter(|view| {
            let at = world.node_named(&view.node.name);
            at.is_some_and(|at| !world.view(at).usable)
        })
        .filter(|view| {
            let named = &ask.request.node_list;
            named.is_empty() || named.contains(&view.node.name)
        })
        .take(NAMED_MAX)
        .map(|view| view.node.name.clone())
        .collect()
}
