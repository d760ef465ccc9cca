//! A made-up cluster: nodes of eight GPUs under three levels of switches, half of the GPUs in use,
//! and a long queue. The same numbers give the same cluster on every machine.

use muster_model::{
    Access, Account, BackfillMode, CpuSet, Device, DeviceGrant, DeviceMilli, EndCause, EngineName,
    Event, EventKind, Exclusive, ExitReport, ExitStatus, GpuCount, GpuScope, JobId, JobSpec,
    Member, MemoryRequest, Mib, Names, Node, NodeCount, NodeId, NodeShare, NumaDomain, OrderMode,
    Owner, Partition, Placement, Policy, Request, Reservation, ReservationFlag, ReservedNode,
    Seconds, Shares, State, TimeLimit, Timestamp, Usage, Window,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a cluster has beside its nodes and jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Site {
    /// First come, first served.
    #[default]
    Plain,
    /// Priorities by age, size and partition.
    Multifactor,
    /// As that, and by fair share in a tree of accounts.
    FairShare,
    /// The order for a low slowdown: users have a past, and some of the jobs have waited long.
    Slowdown,
    /// So many reservations to come.
    Reservations(u32),
}

/// How large a cluster is, and what waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) waiting: u32,
    /// Distinct shapes of job among those that wait.
    pub(crate) shapes: u32,
    pub(crate) site: Site,
}

/// CPUs of a node.
const CPUS: u32 = 64;
/// GPUs of a node.
const GPUS: u32 = 8;
/// Memory of a node, MiB.
const MEMORY: u64 = 512 * 1024;
/// The instant at which everything is measured.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A stream of numbers from a seed (xorshift64*, Vigna 2016).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Applies an event that has to be right.
pub(crate) fn apply(state: &mut State, at: Timestamp, kind: EventKind) {
    let event = Event { at, kind };
    if let Err(error) = state.apply(&event) {
        panic!("{error}: {event:?}");
    }
}

/// The cluster with its running jobs and its queue.
pub(crate) fn cluster(size: Size) -> State {
    let mut state = State::default();
    let begin = Timestamp::from_secs(NOW.secs() - 100_000);
    apply(&mut state, begin, EventKind::PolicySet { policy: Box::new(policy(size.site)) });
    let mut names = BTreeSet::new();
    for id in 0..size.nodes {
        let node = node(id);
        names.insert(node.name.clone());
        apply(&mut state, begin, EventKind::NodeSet { node: Box::new(node) });
    }
    let partition =
        Partition { name: "main".to_owned(), nodes: names, default: true, ..Partition::default() };
    apply(&mut state, begin, EventKind::PartitionSet { partition: Box::new(partition) });
    if size.site == Site::FairShare {
        accounts(&mut state, begin);
    }
    if let Site::Reservations(count) = size.site {
        reservations(&mut state, begin, count, size.nodes);
    }
    let mut numbers = Numbers::new(1);
    if size.site == Site::Slowdown {
        past(&mut state, begin, size.waiting);
    }
    run(&mut state, &mut numbers, size);
    queue(&mut state, &mut numbers, size);
    apply(&mut state, NOW, EventKind::Round);
    state
}

fn policy(site: Site) -> Policy {
    let mut policy = Policy { backfill: BackfillMode::Conservative, ..Policy::default() };
    if matches!(site, Site::Multifactor | Site::FairShare) {
        policy.order = OrderMode::Multifactor;
        let weights = &mut policy.priority.weights;
        (weights.age, weights.job_size, weights.partition) = (1000, 500, 100);
        weights.fair_share = if site == Site::FairShare { 10_000 } else { 0 };
    }
    if site == Site::Slowdown {
        policy = Policy::standard();
    }
    policy
}

/// Twenty accounts of four departments, each with ten users of its own and as many guests.
fn accounts(state: &mut State, at: Timestamp) {
    let named = |name: String, parent: Option<String>, shares: u32| Account {
        name,
        parent,
        shares: Shares::Of(shares),
        ..Account::default()
    };
    for department in 0..4 {
        let account = named(format!("department{department}"), None, department + 1);
        apply(state, at, EventKind::AccountSet { account });
    }
    for n in 0..20 {
        let parent = Some(format!("department{}", n % 4));
        let mut account = named(format!("account{n}"), parent, n % 5 + 1);
        let users = (0..200).filter(|user| user % 20 == n);
        account.members = users.map(|user| (format!("user{user}"), Member::default())).collect();
        apply(state, at, EventKind::AccountSet { account });
    }
}

/// Each of the 200 users ran three jobs, from seconds to hours. They waited half as long again as any
/// of the jobs that wait now, so some of these come first, and some are owed a promise.
fn past(state: &mut State, at: Timestamp, waiting: u32) {
    let mut numbers = Numbers::new(5);
    let longest = u64::from(waiting) * 3 / 2000;
    for n in 0..600u32 {
        let mut spec = running_spec(1, Seconds(7200));
        let user = n % 200;
        spec.owner = Owner { uid: 1000 + user, gid: 1000, user: format!("user{user}") };
        let job = submit(state, at, spec);
        let from = at.plus(Seconds(longest));
        let share = NodeShare {
            node: NodeId(0),
            tasks: 1,
            cpus: (0..CPUS / GPUS).collect(),
            memory: Mib(MEMORY / u64::from(GPUS)),
            ..NodeShare::default()
        };
        let placement = Arc::new(Placement {
            partition: "main".to_owned(),
            nodes: vec![share],
            ..Placement::default()
        });
        let time_limit = TimeLimit::Of(Seconds(7200));
        apply(state, from, EventKind::JobPlaced { job, attempt: 1, placement, time_limit });
        apply(state, from, EventKind::JobStarted { job, attempt: 1 });
        let length = 1u64 << numbers.below(13);
        end(state, job, from.plus(Seconds(length + numbers.below(length))), EndCause::Exited);
    }
}

/// A job ends.
pub(crate) fn end(state: &mut State, job: JobId, at: Timestamp, cause: EndCause) {
    let Some(record) = state.jobs.get(&job) else { return };
    let (attempt, started) = (record.attempt, record.started);
    let report = ExitReport {
        status: ExitStatus::default(),
        cause,
        started,
        ended: at,
        usage: Usage::default(),
        message: String::new(),
        steps: Vec::new(),
    };
    apply(state, at, EventKind::JobExited { job, attempt, report });
}

/// Windows of two hours on sixteen nodes each, one beginning every quarter of an hour.
fn reservations(state: &mut State, at: Timestamp, count: u32, nodes: u32) {
    for n in 0..count {
        let start = Timestamp::from_secs(NOW.secs() + i64::from(n + 1) * 900);
        let first = n * 48 % nodes;
        let reserved = (first..(first + 16).min(nodes))
            .map(|node| ReservedNode { node: NodeId(node), part: None })
            .collect();
        let users = Names { names: BTreeSet::from([format!("user{}", n % 200)]), excluded: false };
        let reservation = Reservation {
            name: format!("course{n}"),
            window: Window { start, end: start.plus(Seconds(7200)) },
            access: Access { users, ..Access::default() },
            flags: BTreeSet::from([ReservationFlag::IgnoreJobs]),
            nodes: reserved,
            ..Reservation::default()
        };
        let reservation = Box::new(reservation);
        apply(state, at, EventKind::ReservationSet { reservation });
    }
}

fn node(id: u32) -> Node {
    let device = |index: u32| Device {
        index,
        model: "h100".to_owned(),
        memory: Mib(80 * 1024),
        numa: Some(index / (GPUS / 2)),
        ..Device::default()
    };
    let numa = |id: u32| NumaDomain {
        id,
        socket: id,
        cpus: (id * CPUS / 2..(id + 1) * CPUS / 2).collect(),
        memory: Mib(MEMORY / 2),
    };
    Node {
        id: NodeId(id),
        name: format!("n{id:05}"),
        engine: EngineName::local(),
        cpus: CpuSet::first(CPUS),
        threads_per_core: 1,
        numa: vec![numa(0), numa(1)],
        memory: Mib(MEMORY),
        devices: (0..GPUS).map(device).collect(),
        switches: vec![format!("leaf{}", id / 32), format!("spine{}", id / 512), "core".to_owned()],
        ..Node::default()
    }
}

/// Half of the nodes are full of jobs of one, two, four or eight GPUs.
fn run(state: &mut State, numbers: &mut Numbers, size: Size) {
    for node in 0..size.nodes / 2 {
        let gpus = numbers.one_of(&[1u32, 2, 4, 8]);
        for part in 0..GPUS / gpus {
            let limit = Seconds(3600 * (1 + numbers.below(72)));
            let started = Timestamp::from_secs(
                NOW.secs() - numbers.below(limit.0.saturating_sub(60).min(90_000)) as i64,
            );
            let id = submit(state, started, running_spec(gpus, limit));
            let cpus = part * gpus * (CPUS / GPUS)..(part + 1) * gpus * (CPUS / GPUS);
            let device = |index: u32| DeviceGrant {
                index,
                share: DeviceMilli::WHOLE,
                memory: Mib(80 * 1024),
                ..DeviceGrant::default()
            };
            let share = NodeShare {
                node: NodeId(node),
                tasks: 1,
                cpus: cpus.collect(),
                memory: Mib(MEMORY / u64::from(GPUS) * u64::from(gpus)),
                devices: (part * gpus..(part + 1) * gpus).map(device).collect(),
                ..NodeShare::default()
            };
            let placement = Arc::new(Placement {
                partition: "main".to_owned(),
                nodes: vec![share],
                ..Placement::default()
            });
            let time_limit = TimeLimit::Of(limit);
            let placed = EventKind::JobPlaced { job: id, attempt: 1, placement, time_limit };
            apply(state, started, placed);
            apply(state, started, EventKind::JobStarted { job: id, attempt: 1 });
        }
    }
}

fn running_spec(gpus: u32, limit: Seconds) -> JobSpec {
    spec(shape(gpus, 1, gpus * (CPUS / GPUS), MEMORY / u64::from(GPUS) * u64::from(gpus)), limit, 0)
}

/// Submits a job; gives its number.
pub(crate) fn submit(state: &mut State, at: Timestamp, spec: JobSpec) -> JobId {
    let first = JobId(state.last_job.0 + 1);
    apply(state, at, EventKind::JobSubmitted { first, specs: vec![Arc::new(spec)] });
    first
}

fn shape(gpus: u32, nodes: u32, cpus: u32, memory: u64) -> Request {
    let count = GpuCount { model: None, count: gpus, scope: GpuScope::Node };
    Request {
        nodes: Some(NodeCount::exactly(nodes)),
        tasks_per_node: Some(1),
        cpus_per_task: Some(cpus),
        memory: MemoryRequest::PerNode(Mib(memory)),
        gpus: if gpus > 0 { vec![count] } else { Vec::new() },
        ..Request::default()
    }
}

pub(crate) fn spec(request: Request, limit: Seconds, user: u32) -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        owner: Owner { uid: 1000 + user, gid: 1000, user: format!("user{user}") },
        account: format!("account{}", user % 20),
        qos: "normal".to_owned(),
        partitions: vec!["main".to_owned()],
        request,
        time_limit: Some(TimeLimit::Of(limit)),
        ..JobSpec::default()
    }
}

/// A request and a limit, the `n`-th of so many that all differ.
pub(crate) fn distinct(numbers: &mut Numbers, n: u32) -> (Request, Seconds) {
    let gpus = numbers.one_of(&[0u32, 1, 1, 1, 2, 2, 4, 8, 8]);
    let nodes = match gpus {
        8 => numbers.one_of(&[1u32, 1, 1, 1, 2, 2, 4, 8, 16, 32]),
        _ => numbers.one_of(&[1u32, 1, 1, 1, 1, 1, 1, 2]),
    };
    let cpus = if gpus == 0 {
        numbers.one_of(&[1u32, 2, 4, 8, 16, 32])
    } else {
        gpus * numbers.one_of(&[2u32, 4, 6, 8])
    };
    let per_cpu = numbers.one_of(&[1024u64, 2048, 4096, 8000]);
    let memory = (u64::from(cpus) * per_cpu).min(MEMORY);
    let minutes = numbers.one_of(&[10u64, 30, 60, 120, 240, 480, 1440, 2880]);
    // The number itself makes the limit differ.
    (shape(gpus, nodes, cpus, memory), Seconds(minutes * 60 + u64::from(n)))
}

fn queue(state: &mut State, numbers: &mut Numbers, size: Size) {
    let shapes: Vec<(Request, Seconds)> = (0..size.shapes).map(|n| distinct(numbers, n)).collect();
    for n in 0..size.waiting {
        let (request, limit) = &shapes[if size.shapes == size.waiting {
            n as usize
        } else {
            numbers.below(u64::from(size.shapes)) as usize
        }];
        let user = numbers.below(200) as u32;
        let at = Timestamp::from_millis(NOW.millis() - i64::from(size.waiting - n));
        submit(state, at, spec(request.clone(), *limit, user));
    }
}

/// Nodes that are all busy, and jobs of whole nodes that wait.
pub(crate) fn whole_nodes(nodes: u32, waiting: u32) -> State {
    let size = Size { nodes, waiting: 0, shapes: 0, site: Site::Plain };
    let mut state = cluster(size);
    let mut numbers = Numbers::new(3);
    for n in 0..waiting {
        // Widths as in the logs of parallel machines: powers of two, the small ones often.
        let width = 1 << numbers.below(6).min(numbers.below(9));
        let minutes = numbers.one_of(&[5u64, 15, 30, 60, 120, 240, 480, 720, 1440]);
        let limit = Seconds(60 * (minutes + numbers.below(30)));
        let mut request = shape(0, width, 1, 1024);
        request.exclusive = Exclusive::Node;
        let at = Timestamp::from_millis(NOW.millis() - i64::from(waiting - n));
        let mut spec = spec(request, limit, n % 100);
        spec.priority = Some(1_000_000 - n);
        submit(&mut state, at, spec);
    }
    apply(&mut state, NOW, EventKind::Round);
    state
}

/// How many distinct pairs of width and limit wait.
pub(crate) fn distinct_pairs(state: &State) -> usize {
    let jobs = state.index.pending.iter().filter_map(|id| state.jobs.get(id));
    let pair = |job: &Arc<muster_model::Job>| (job.spec.request.nodes_min(), job.time_limit);
    jobs.map(pair).collect::<BTreeSet<_>>().len()
}
