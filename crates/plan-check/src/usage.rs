//! Nothing is given twice and nothing is given that is not there: use counted from placements.

use crate::{Rule, Violation};
use muster_model::{
    CpuSet, Exclusive, Job, JobId, Node, NodeId, NodeShare, Partition, Placement, Start, State,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Someone on a node.
pub(crate) struct Use<'a> {
    pub(crate) job: &'a Job,
    pub(crate) share: &'a NodeShare,
    /// The partition, where its jobs may take turns and this one with them.
    pub(crate) turns: Option<&'a Partition>,
    /// It starts with the plan: only then may it not touch what is foreign or unhealthy.
    pub(crate) new: bool,
}

/// The nodes and licences that the starts touch.
pub(crate) fn check_starts(state: &State, starts: &[&Start], found: &mut Vec<Violation>) {
    let mut by_node: BTreeMap<NodeId, Vec<Use<'_>>> = BTreeMap::new();
    for start in starts {
        let Some(job) = state.jobs.get(&start.job) else { continue };
        for share in &start.placement.nodes {
            let turns = takes_turns(state, job, &start.placement);
            by_node.entry(share.node).or_default().push(Use { job, share, turns, new: true });
        }
    }
    for (id, mut uses) in by_node {
        let Some(node) = state.nodes.get(&id) else { continue };
        let there = state.index.on_node.get(&id);
        for job in there.into_iter().flatten().filter_map(|id| state.jobs.get(id)) {
            uses.extend(running(state, job).filter(|u| u.share.node == id));
        }
        check_node(node, &uses, found);
    }
    let names: BTreeSet<&String> =
        starts.iter().flat_map(|s| s.placement.licences.keys()).collect();
    if names.is_empty() {
        return;
    }
    let new = starts.iter().map(|s| (s.job, s.placement.as_ref(), true));
    let active = state.index.active.iter().filter_map(|id| state.jobs.get(id));
    check_licences(state, new.chain(holders(active)), found);
}

/// All nodes and licences, from zero.
pub(crate) fn recount(state: &State, found: &mut Vec<Violation>) {
    let mut by_node: BTreeMap<NodeId, Vec<Use<'_>>> = BTreeMap::new();
    for job in state.jobs.values().filter(|j| j.state.holds_resources()) {
        if job.placement.is_none() {
            found.push(Violation::of(Rule::UnknownNode, job.id, "runs without a placement"));
        }
        for share in running(state, job) {
            by_node.entry(share.share.node).or_default().push(share);
        }
    }
    for (id, uses) in by_node {
        match state.nodes.get(&id) {
            Some(node) => check_node(node, &uses, found),
            None => {
                let jobs = uses.iter().map(|u| u.job.id).collect();
                let detail = format!("{id} is not there");
                found.push(Violation { rule: Rule::UnknownNode, jobs, node: Some(id), detail });
            }
        }
    }
    check_licences(state, holders(state.jobs.values()), found);
}

fn running<'a>(state: &'a State, job: &'a Job) -> impl Iterator<Item = Use<'a>> {
    let turns = job.placement.as_ref().and_then(|placement| takes_turns(state, job, placement));
    let shares = job.placement.iter().flat_map(|p| &p.nodes);
    let shares = shares.filter(|_| job.state.holds_resources());
    shares.map(move |share| Use { job, share, turns, new: false })
}

fn takes_turns<'a>(state: &'a State, job: &Job, placement: &Placement) -> Option<&'a Partition> {
    let partition = state.partitions.get(&placement.partition)?;
    let whole = placement.nodes.iter().any(|share| share.exclusive);
    (partition.has_turns() && job.may_take_turns() && !whole).then_some(partition.as_ref())
}

/// True where all of these may have the same CPU or GPU, in turns.
pub(crate) fn may_take_turns(uses: &[&Use<'_>]) -> bool {
    let first = uses.first().and_then(|one| one.turns).map(|partition| &partition.name);
    let same = |one: &Partition| first == Some(&one.name);
    uses.iter().all(|one| one.turns.is_some_and(same))
}

/// The most jobs that may have one CPU or GPU where these do.
pub(crate) fn sharers_max(uses: &[&Use<'_>]) -> usize {
    let most = uses.iter().filter_map(|u| u.turns).map(|partition| partition.sharers).min();
    most.unwrap_or(1) as usize
}

fn holders<'a>(
    jobs: impl Iterator<Item = &'a Arc<Job>>,
) -> impl Iterator<Item = (JobId, &'a Placement, bool)> {
    jobs.filter(|j| j.state.holds_resources())
        .filter_map(|j| j.placement.as_ref().map(|p| (j.id, p.as_ref(), false)))
}

/// The jobs to blame: the new ones, or all where none is new.
fn blamed(uses: &[&Use<'_>]) -> Vec<JobId> {
    let new: Vec<JobId> = uses.iter().filter(|u| u.new).map(|u| u.job.id).collect();
    if new.is_empty() { uses.iter().map(|u| u.job.id).collect() } else { new }
}

fn check_node(node: &Node, uses: &[Use<'_>], found: &mut Vec<Violation>) {
    let mut say = |rule: Rule, uses: &[&Use<'_>], detail: String| {
        found.push(Violation { rule, jobs: blamed(uses), node: Some(node.id), detail });
    };
    let all: Vec<&Use<'_>> = uses.iter().collect();
    check_cpus(node, uses, &mut say);
    crate::devices::check_use(node, uses, &mut say);
    let any_new = uses.iter().any(|u| u.new);
    let foreign: u64 = node.foreign.iter().filter(|f| f.device.is_none()).map(|f| f.memory.0).sum();
    let taken = uses.iter().fold(0u64, |sum, u| sum.saturating_add(u.share.memory.0));
    let there = node.memory.0.saturating_sub(if any_new { foreign } else { 0 });
    // Use that came after the jobs may leave less than they have; then none may be added.
    let adds = uses.iter().any(|u| u.new && !u.share.memory.is_zero());
    if taken > there && (adds || !any_new) {
        let detail = format!("{taken} MiB of {there} on node {}", node.name);
        say(Rule::MemoryOverallocated, &all, detail);
    }
    let mut gres: BTreeMap<&String, u64> = BTreeMap::new();
    for (name, count) in uses.iter().flat_map(|u| &u.share.gres) {
        let sum = gres.entry(name).or_default();
        *sum = sum.saturating_add(*count);
    }
    for (name, count) in gres {
        let total = node.gres.get(name).copied().unwrap_or(0);
        let takes = |one: &&Use<'_>| one.share.gres.get(name).is_some_and(|n| *n > 0);
        let adds = uses.iter().filter(takes).any(|one| one.new);
        if count > total && (adds || !any_new) {
            let detail = format!("{count} {name} of {total} on node {}", node.name);
            let of_it: Vec<&Use<'_>> = uses.iter().filter(takes).collect();
            say(Rule::GresOverallocated, &of_it, detail);
        }
    }
    for (at, a) in uses.iter().enumerate() {
        for b in &uses[at + 1..] {
            if a.job.id != b.job.id && !may_share(a, b) {
                let detail = format!("jobs {} and {} on node {}", a.job.id, b.job.id, node.name);
                say(Rule::Exclusive, &[a, b], detail);
            }
        }
    }
}

fn may_share(a: &Use<'_>, b: &Use<'_>) -> bool {
    let kind = |u: &Use<'_>| u.job.spec.request.exclusive;
    if a.share.exclusive || b.share.exclusive {
        return false;
    }
    let by_user = kind(a) == Exclusive::User || kind(b) == Exclusive::User;
    !by_user || a.job.spec.owner.uid == b.job.spec.owner.uid
}

fn check_cpus(node: &Node, uses: &[Use<'_>], say: &mut dyn FnMut(Rule, &[&Use<'_>], String)) {
    let pooled = crate::total(uses.iter().map(|one| one.share.cpu_pool));
    if pooled > node.cpu_pool && uses.iter().any(|one| one.new && one.share.cpu_pool > 0) {
        let of_pool: Vec<&Use<'_>> = uses.iter().filter(|one| one.share.cpu_pool > 0).collect();
        let detail = format!("{pooled} of {} pooled CPUs of node {}", node.cpu_pool, node.name);
        say(Rule::CpusOverallocated, &of_pool, detail);
    }
    let mut given = CpuSet::new();
    check_turns(node, uses, say);
    for (at, one) in uses.iter().enumerate() {
        let cpus = &one.share.cpus;
        let absent = one.new && !cpus.is_subset(&node.cpus);
        let foreign = one.new && node.foreign.iter().any(|f| f.cpus.intersects(cpus));
        if absent || foreign {
            let detail = format!("CPUs {cpus} of node {} are not there to give", node.name);
            say(Rule::CpusOverallocated, &[one], detail);
        }
        // What stands still by hand has left its CPUs to whoever gets them.
        if one.job.lends {
            continue;
        }
        // Whoever stands still for others gives them its CPUs: to those for whom it does so.
        if let Some(eviction) = one.job.eviction.as_ref().filter(|_| one.job.yields_cpus()) {
            let takes = |u: &&Use<'_>| {
                let leader = u.job.het.map_or(u.job.id, |part| part.leader);
                u.new
                    && leader != eviction.by
                    && u.job.spec.gang.is_none()
                    && u.share.cpus.intersects(cpus)
            };
            if let Some(taker) = uses.iter().find(takes) {
                let detail = format!("CPUs {cpus} of node {} are kept for others", node.name);
                say(Rule::CpusOverallocated, &[taker], detail);
            }
            continue;
        }
        let others: Vec<&Use<'_>> = uses[..at]
            .iter()
            .filter(|u| u.share.cpus.intersects(cpus))
            .chain(std::iter::once(one))
            .collect();
        if given.intersects(cpus) && !may_take_turns(&others) {
            let twice = given.intersection(cpus);
            let detail = format!("CPUs {twice} of node {} given twice", node.name);
            say(Rule::CpusOverallocated, &others, detail);
        }
        given.add_all(cpus);
    }
}

/// No CPU has more jobs that take turns on it than the partition says.
fn check_turns(node: &Node, uses: &[Use<'_>], say: &mut dyn FnMut(Rule, &[&Use<'_>], String)) {
    let mut on_cpu: BTreeMap<u32, Vec<&Use<'_>>> = BTreeMap::new();
    for one in uses.iter().filter(|one| one.turns.is_some()) {
        for cpu in one.share.cpus.iter() {
            on_cpu.entry(cpu).or_default().push(one);
        }
    }
    let over = |(_, users): &(&u32, &Vec<&Use<'_>>)| users.len() > sharers_max(users);
    if let Some((cpu, users)) = on_cpu.iter().find(over) {
        let detail = format!("{} jobs on CPU {cpu} of node {}", users.len(), node.name);
        say(Rule::SharedTooOften, users, detail);
    }
}

fn check_licences<'a>(
    state: &State,
    holders: impl Iterator<Item = (JobId, &'a Placement, bool)>,
    found: &mut Vec<Violation>,
) {
    let mut taken: BTreeMap<&String, (u64, Vec<JobId>, bool)> = BTreeMap::new();
    for (job, placement, new) in holders {
        for (name, count) in &placement.licences {
            let entry = taken.entry(name).or_default();
            entry.0 += u64::from(*count);
            // New starts come first: they are the ones to hold back.
            if new || !entry.2 {
                entry.1.push(job);
            }
            entry.2 |= new;
        }
    }
    for (name, (count, jobs, _)) in taken {
        let total = state.licences.get(name).map_or(0, |l| u64::from(l.total));
        if count > total {
            let detail = format!("{count} of {total} licences {name}");
            found.push(Violation { rule: Rule::LicencesOverallocated, jobs, node: None, detail });
        }
    }
}
