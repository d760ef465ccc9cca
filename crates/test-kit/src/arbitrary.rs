//! Generators of small clusters, jobs and stories, as the same text that people write.
//!
//! A failing case prints as a fixture and a list of commands: it can be pasted into a scenario.

use crate::lab::Lab;
use muster_model::{
    Availability, Drain, EventKind, ForeignUse, Hold, JobId, JobState, JobUpdate, Mib, NodeId,
    Seconds, TimeLimit,
};
use proptest::prelude::*;

/// A cluster of one to five small nodes in one or two partitions, with or without accounts that are
/// limited and priorities that change with time.
pub fn cluster() -> impl Strategy<Value = String> {
    (nodes(), accounts()).prop_map(|(nodes, accounts)| format!("{nodes}\n{accounts}"))
}

fn nodes() -> impl Strategy<Value = String> {
    let modes =
        ["", "", "", " gpu-mode=0@time-slice:4", " gpu-mode=0@mig;1@mps:5", " gpu-mode=none"];
    let mode = prop::sample::select(modes.to_vec());
    let node = (1u32..=4, 0u32..=3, 1u64..=4, 0usize..3, prop::bool::ANY, 1u32..=2, mode);
    let ways = (0usize..15, 0usize..5, backfill(), 0usize..10);
    let cluster = (prop::collection::vec(node, 1..=5), 0u32..3, ways);
    cluster.prop_map(|(nodes, licences, (rules, joined, backfill, rank))| {
        // Labels and taints, the same for all in half of the clusters.
        let marks = [" labels=zone:a", " labels=zone:b,hot:1", " labels=zone:a taints=dirty", ""];
        let marks = if rules % 2 == 0 { &marks[..2] } else { &marks[..] };
        // Some nodes come last, or have disk.
        let odd = ["", "", "", " weight=5", " scratch=2G", ""];
        let mut lines = Vec::new();
        for (i, (cpus, gpus, mem, features, mixed, numa, mode)) in nodes.iter().enumerate() {
            let features = ["features=red", "features=blue", "features=red,blue"][*features];
            let gpus = match (gpus, mixed) {
                (0, _) => String::new(),
                (n, false) => format!(" gpus={n}xa100:40G{mode}"),
                (n, true) => format!(" gpus={n}xa100:40G+1xh100:80G{mode}"),
            };
            // Some of its CPUs are given out by number.
            let pool = if (7..13).contains(&rules) && i % 2 == 1 { "pool=2 " } else { "" };
            lines.push(format!(
                "node n{} {pool}cpus={cpus}{gpus} mem={mem}G {features} numa={numa} gres=fpga:1 switch=s{}{}{}",
                i + 1,
                i / 2,
                marks[(i + rules) % marks.len()],
                odd[(i + joined + rank) % odd.len()]
            ));
        }
        let count = nodes.len();
        lines.push(format!("partition side nodes=n[1-{}] tier=2", count.div_ceil(2)));
        lines.push(format!("licence sim {licences}"));
        lines.extend(joins(joined, count));
        lines.push(backfill);
        lines.extend(ranks(rank).iter().map(|line| (*line).to_owned()));
        lines.extend(
            match rules {
                0 => Some("policy backfill=none"),
                1 => Some("policy nodes=spread"),
                2 => Some("partition main max-nodes=2 max-time=200"),
                3 => Some("partition main max-mem-per-cpu=1G"),
                4 => Some("policy kill-invalid-dependency=yes"),
                8 => Some("policy run-time=recent promises=estimates correction=steps"),
                9 => Some("policy backfill-order=shortest run-time=recent"),
                10 => Some("policy backfill-order=shortest run-time=recent promises=estimates"),
                5 => Some("policy whole-for-parts=yes memory-is-part=yes"),
                6 => Some("partition main mem-per-cpu=300M min-nodes=1"),
                7 => Some("policy nodes=least-waste"),
                11 | 12 => Some("policy order=slowdown"),
                13 => Some("policy order=slowdown guard-first=0 guard-promise=0"),
                _ => None,
            }
            .map(str::to_owned),
        );
        lines.join("\n")
    })
}

/// A way to backfill.
fn backfill() -> impl Strategy<Value = String> {
    let bound = |name: &'static str| {
        let word = move |n: Option<u32>| n.map(|n| format!(" {name}={n}")).unwrap_or_default();
        prop::option::of(1u32..4).prop_map(word)
    };
    let mixed = (bound("depth"), bound("depth-user"), bound("depth-partition"), bound("window"));
    prop_oneof![
        3 => Just("policy backfill=easy".to_owned()),
        1 => Just("policy backfill=easy by-wait=800".to_owned()),
        3 => Just("policy backfill=conservative".to_owned()),
        1 => (1u32..4).prop_map(|n| format!("policy backfill=conservative depth={n}")),
        2 => mixed.prop_map(|(a, b, c, d)| format!("policy backfill=mixed{a}{b}{c}{d}")),
    ]
}

/// Who may preempt whom; nobody half of the time.
fn ranks(which: usize) -> &'static [&'static str] {
    match which {
        0 => &["policy preempt=requeue tiers=yes grace=5"],
        1 => &["qos low preempt=requeue grace=3", "qos high priority=5 preempts=low"],
        2 => &["policy preempt=cancel", "qos low preempt=suspend", "qos high preempts=low,normal"],
        3 => &[
            "policy reclaim=requeue grace=2",
            "account a guarantee-cpus=2",
            "account b guarantee-gpus=1",
        ],
        4 => &[
            "policy preempt=checkpoint victims=least-lost exempt=5 tiers=yes",
            "qos high preempts=low,normal",
            "partition side grace=4",
        ],
        _ => &[],
    }
}

/// How the nodes are joined, now and then otherwise than by the switches that they say.
fn joins(which: usize, nodes: usize) -> Vec<String> {
    let span = match which {
        0 => "topology span=connected",
        1 => "topology span=blocks",
        2 => "topology span=anywhere",
        _ => return Vec::new(),
    };
    let half = nodes.div_ceil(2);
    let mut lines = vec![
        "level leaf size=2".to_owned(),
        "level spine size=3".to_owned(),
        format!("domain one level=leaf nodes=n[1-{half}] in=top"),
        "domain top level=spine".to_owned(),
        span.to_owned(),
    ];
    if half < nodes {
        let above = if which == 0 { "" } else { " in=top" };
        lines.push(format!("domain two level=leaf nodes=n[{}-{nodes}]{above}", half + 1));
    }
    lines
}

/// Accounts, limits and priorities, half of the time none at all.
pub fn accounts() -> impl Strategy<Value = String> {
    let order = prop_oneof![
        1 => Just(String::new()),
        2 => (0u32..3000, 0u32..3000, 0u32..2000, 0u32..2000).prop_map(|(age, fair, size, qos)| {
            format!(
                "policy order=multifactor age={age} fair-share={fair} job-size={size} qos={qos} \
                 partition=500 tres=cpu=300,gres/gpu=700 max-age=200 half-life=60"
            )
        }),
        1 => Just("policy order=multifactor fair-share=1000 fair-share-mode=classic half-life=30 \
                   favour-small=yes job-size=10".to_owned()),
    ];
    let limit = prop::sample::select(vec![
        "account lab grp-jobs=2",
        "account lab grp-tres=gres/gpu=2",
        "account lab grp-tres=cpu=3",
        "account root grp-tres=mem=2G",
        "account lab max-wall=60",
        "account lab grp-tres-mins=cpu=200",
        "account lab grp-tres-run-mins=gres/gpu=120",
        "user ada account=lab max-jobs=1",
        "user mara account=lab max-tres=gres/gpu=1",
        "account team max-tres-per-node=cpu=2",
        "account team grp-wall=40",
        "qos high max-jobs-per-user=1",
        "qos high max-tres-per-user=cpu=2",
        "qos high max-tres-per-account=gres/gpu:a100=1",
        "qos high min-tres-per-job=cpu=2",
        "qos high grp-jobs=3 flags=over-part-qos",
        "qos high min-prio-threshold=1000",
        "qos high usage-factor=2000 flags=usage-factor-safe max-tres-mins-per-job=cpu=100",
        "qos high flags=partition-time-limit",
        "qos pq max-tres-per-job=cpu=3 grp-jobs=2\npartition main qos=pq billing=cpu=1,mem=0.25G,gres/gpu=4",
        "partition main billing=gres/gpu=2\naccount lab grp-tres=billing=3",
    ]);
    let tree = "account root\naccount lab parent=root shares=3\naccount team parent=lab\n\
                account other shares=2\nqos high priority=100\nqos normal";
    (prop::bool::ANY, order, prop::collection::vec(limit, 0..4)).prop_map(
        move |(any, order, limits)| match any {
            false => String::new(),
            true => format!("{tree}\n{order}\n{}", limits.join("\n")),
        },
    )
}

/// A request as options, now and then one that can never be met.
pub fn request() -> impl Strategy<Value = String> {
    let layout = prop_oneof![
        4 => Just(String::new()),
        2 => (1u32..=3).prop_map(|n| format!(" nodes={n}")),
        1 => (1u32..=2, 1u32..=4).prop_map(|(a, b)| format!(" nodes={a}-{}", a + b)),
        1 => Just(" nodes=1,3".to_owned()),
        2 => (1u32..=6).prop_map(|n| format!(" tasks={n}")),
        2 => (1u32..=3, 1u32..=6).prop_map(|(n, t)| format!(" nodes={n} tasks={}", n.max(t))),
        1 => (1u32..=2, 1u32..=2).prop_map(|(n, t)| format!(" nodes={n} tasks-per-node={t}")),
        1 => (2u32..=6, 1u32..=2).prop_map(|(n, t)| format!(" tasks={n} tasks-per-node={t}")),
        1 => Just(" nodes=4".to_owned()),
        1 => (1u32..=2, 1u32..=2).prop_map(|(a, b)| format!(" elastic={a}-{}", a + b)),
        1 => (1u32..=2).prop_map(|a| format!(" elastic={a}-{},live", a + 2)),
        1 => Just(" elastic=1-3 tasks-per-node=2".to_owned()),
    ];
    let gpus = prop_oneof![
        5 => Just(String::new()),
        2 => (1u32..=5).prop_map(|n| format!(" gpus={n}")),
        1 => (1u32..=3).prop_map(|n| format!(" gpus={n}xa100")),
        2 => (1u32..=3).prop_map(|n| format!(" gpus-per-node={n}")),
        1 => Just(" gpus-per-node=1xh100".to_owned()),
        1 => Just(" gpus-per-node=1xh100+1xa100".to_owned()),
        1 => (1u32..=2).prop_map(|n| format!(" gpus-per-task={n}")),
        1 => (1u32..=3, 1u32..=2).prop_map(|(n, t)| format!(" gpus={n} tasks-per-gpu={t}")),
        1 => (1u32..=3).prop_map(|n| format!(" gpus={n} cpus-per-gpu=2 mem-per-gpu=512M")),
        1 => Just(" gpus=1 gpu-memory=80G".to_owned()),
        1 => (1u32..=2, 1u32..=4).prop_map(|(n, s)| format!(" gpus={n} gpu-share={}", s * 250)),
        1 => (1u32..=2, 1u32..=5).prop_map(|(n, s)| format!(" gpus-per-node={n} shards={s}")),
        1 => (1u64..=3).prop_map(|g| format!(" gpus=1 gpu-memory={}G gpu-isolation=mps", g * 10)),
        1 => (1u32..=3).prop_map(|n| format!(" gpus={n}x1g.5gb")),
        1 => Just(" gpus-per-node=1xa100_3g.20gb".to_owned()),
        1 => Just(" gpus-per-node=1x2g.10gb+1x1g.5gb".to_owned()),
        1 => (1u32..=2).prop_map(|n| format!(" gpus-per-socket={n}")),
    ];
    let memory = prop_oneof![
        3 => Just(" mem=256M".to_owned()),
        2 => Just(String::new()),
        1 => Just(" mem=2G".to_owned()),
        1 => Just(" mem-per-cpu=512M".to_owned()),
        1 => Just(" mem-per-cpu=1500M".to_owned()),
        1 => Just(" mem=0".to_owned()),
    ];
    let extra = prop_oneof![
        8 => Just(""),
        1 => Just(" exclusive"),
        1 => Just(" exclusive=user"),
        1 => Just(" constraint=red"),
        1 => Just(" constraint=red|blue"),
        1 => Just(" constraint=[red|blue]"),
        1 => Just(" constraint=red*1"),
        1 => Just(" constraint=[red|blue]*2"),
        1 => Just(" constraint=red*1&blue*1"),
        1 => Just(" contiguous"),
        1 => Just(" switches=1@20"),
        1 => Just(" topology=required:leaf"),
        1 => Just(" topology=preferred:leaf"),
        1 => Just(" topology=required:spine,preferred:leaf"),
        1 => Just(" segment=2"),
        1 => Just(" require=zone=a|zone=b&hot"),
        1 => Just(" prefer=10:zone=b tolerate=*"),
        1 => Just(" tolerate=dirty:NoSchedule"),
        1 => Just(" label=app:web apart=node:app=web"),
        1 => Just(" apart=zone:app=db"),
        1 => Just(" label=app:db near=zone:app=db"),
        1 => Just(" near=leaf:app=web"),
        1 => Just(" label=app:web even=zone:1:app=web"),
        1 => Just(" label=app:db even=node:1:app=db:min=2,taints"),
        1 => Just(" segment=1 segments=spread"),
        1 => Just(" nodelist=n1"),
        1 => Just(" exclude=n1"),
        1 => Just(" licences=sim:1"),
        1 => Just(" licences=sim:2"),
        1 => Just(" gres=fpga:1"),
        1 => Just(" scratch=1G"),
        1 => Just(" prefer-near=5:leaf:app=web"),
        1 => Just(" prefer-apart=5:node:app=web"),
        1 => Just(" apart=zone:app=db tolerate=*"),
        1 => Just(" cpus=2"),
        1 => Just(" mincpus=2"),
    ];
    (layout, gpus, memory, extra).prop_map(|(l, g, m, e)| format!("{l}{g}{m}{e}"))
}

/// A whole job line without a dependency.
pub fn job() -> impl Strategy<Value = String> {
    let time = prop_oneof![
        6 => (1u32..=12).prop_map(|n| format!(" time={}", n * 10)),
        1 => Just(" time=unlimited".to_owned()),
        1 => (5u32..=12).prop_map(|n| format!(" time={} time-min=20", n * 10)),
        1 => Just(" time=20 deadline=100".to_owned()),
    ];
    let who = prop_oneof![
        4 => Just(""),
        2 => Just(" user=mara"),
        1 => Just(" partition=side"),
        1 => Just(" partition=side,main"),
        1 => Just(" partition=main,side"),
        1 => Just(" priority=10"),
        1 => Just(" nice=5"),
        1 => Just(" begin=30"),
        1 => Just(" array=0-3%2"),
        1 => Just(" array=1-3"),
        1 => Just(" depend=singleton"),
        1 => Just(" hold"),
        1 => Just(" label=app:web"),
        1 => Just(" label=app:db"),
        2 => Just(" gang=g:2"),
        1 => Just(" gang=g:3"),
        1 => Just(" gang=h:2 qos=high"),
        1 => Just(" array=0-2%1 qos=low"),
        2 => Just(" checkpoint=1"),
        3 => Just(" qos=high"),
        2 => Just(" qos=low"),
        1 => Just(" qos=low checkpoint=4"),
        1 => Just(" qos=low no-requeue"),
        1 => Just(" account=a"),
        1 => Just(" account=b"),
        1 => Just(" reservation=r0"),
        1 => Just(" reservation=r1,r0 user=mara"),
    ];
    let charged = prop_oneof![
        4 => Just(""),
        2 => Just(" account=lab"),
        1 => Just(" account=lab user=mara"),
        1 => Just(" account=team"),
        1 => Just(" account=team qos=high"),
        1 => Just(" account=other qos=high"),
        1 => Just(" qos=high"),
    ];
    (request(), time, who, charged).prop_map(|(r, t, w, c)| format!("j{r}{t}{w}{c}"))
}

/// A reservation of some nodes of such a cluster, as what comes after `reservation`.
pub fn reservation() -> impl Strategy<Value = String> {
    let time = prop_oneof![
        4 => (0u32..60, 1u32..90).prop_map(|(s, n)| format!(" start={s} end={}", s + n)),
        1 => Just(" start=20 end=never".to_owned()),
        2 => (0u32..30, 1u32..20).prop_map(|(s, n)| {
            format!(" start={s} end={} later={}-{}", s + n, s + 50, s + 50 + n)
        }),
        1 => (5u32..60).prop_map(|n| format!(" float={n} length=30")),
    ];
    let what = prop_oneof![
        4 => Just(" nodes=n1"),
        1 => Just(" nodes=n1 cpus=1"),
        1 => Just(" nodes=n1 cpus=2 gpus=0"),
        1 => Just(" nodes=n1 licences=sim:1"),
        1 => Just(" licences=sim:1"),
    ];
    let flags = prop_oneof![
        4 => Just(""),
        1 => Just(" flags=MAINT"),
        1 => Just(" flags=OVERLAP"),
        1 => Just(" flags=FLEX"),
        2 => Just(" flags=MAGNETIC"),
        1 => Just(" flags=NO_HOLD_JOBS_AFTER"),
        1 => Just(" users=mara"),
        1 => Just(" users=-mara flags=MAGNETIC"),
    ];
    (0u32..2, time, what, flags).prop_map(|(n, t, w, f)| format!("r{n}{t}{w}{f}"))
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A job is submitted.
    Submit(String),
    /// A job that depends on the `n`-th last one, in this way.
    SubmitAfter(String, &'static str, u32),
    /// A heterogeneous job.
    SubmitHet(String, String),
    /// So many minutes pass; jobs at their limit end.
    Pass(u8),
    /// A round is planned, checked and carried out.
    Plan,
    /// The `n`-th running job ends with this code.
    Exit(usize, u8),
    /// The `n`-th running job is lost with its node.
    Lose(usize),
    /// The `n`-th unfinished job is cancelled.
    Cancel(usize),
    /// The `n`-th waiting job is held or let go.
    Toggle(usize),
    /// The `n`-th waiting job's limit is changed to so many minutes.
    Shorten(usize, u32),
    /// The throttle of the array of the `n`-th waiting job is changed.
    Throttle(usize, Option<u32>),
    /// The `n`-th running job is made to stand still by hand, or let go on.
    Suspend(usize),
    /// A node is drained or let go.
    Drain(usize),
    /// A node is lost or found.
    Down(usize),
    /// Something that is not ours takes a GPU and memory of a node, or lets go.
    Foreign(usize),
    /// A node gets a taint with `NoExecute`, or loses it.
    Taint(usize),
    /// Something is reserved, or what was reserved is described anew.
    Reserve(String),
    /// The `n`-th reservation goes.
    Unreserve(usize),
}

/// Some deeds, half of them submissions and rounds.
pub fn story(length: usize) -> impl Strategy<Value = Vec<Deed>> {
    let n = 0usize..8;
    let kinds = prop::sample::select(vec!["afterok", "afterany", "afternotok", "after"]);
    let deed = prop_oneof![
        8 => job().prop_map(Deed::Submit),
        1 => (job(), kinds, 0u32..3).prop_map(|(j, k, n)| Deed::SubmitAfter(j, k, n)),
        1 => (request(), request()).prop_map(|(a, b)| {
            Deed::SubmitHet(format!("h{a} time=30"), format!("h{b} time=30"))
        }),
        5 => Just(Deed::Plan),
        2 => (1u8..=40).prop_map(Deed::Pass),
        2 => (n.clone(), prop::sample::select(vec![0u8, 0, 1]))
            .prop_map(|(n, code)| Deed::Exit(n, code)),
        1 => n.clone().prop_map(Deed::Lose),
        1 => n.clone().prop_map(Deed::Cancel),
        1 => n.clone().prop_map(Deed::Toggle),
        1 => (n.clone(), 1u32..60).prop_map(|(n, m)| Deed::Shorten(n, m)),
        1 => (n.clone(), prop::option::of(1u32..3)).prop_map(|(n, t)| Deed::Throttle(n, t)),
        1 => n.clone().prop_map(Deed::Suspend),
        1 => n.clone().prop_map(Deed::Drain),
        1 => n.clone().prop_map(Deed::Down),
        1 => n.clone().prop_map(Deed::Foreign),
        1 => n.clone().prop_map(Deed::Taint),
        1 => reservation().prop_map(Deed::Reserve),
        1 => n.prop_map(Deed::Unreserve),
    ];
    prop::collection::vec(deed, 1..=length)
}

/// Does a deed other than [`Deed::Plan`], where it can be done.
pub fn act(lab: &mut Lab, deed: &Deed) {
    match deed {
        Deed::Plan => {}
        Deed::Submit(line) => {
            lab.submit(line);
        }
        Deed::SubmitAfter(line, kind, back) => {
            let target = lab.state.last_job.0.saturating_sub(*back);
            if target > 0 && !line.contains("depend=") {
                lab.submit(&format!("{line} depend={kind}:{target}"));
            }
        }
        Deed::SubmitHet(a, b) => {
            lab.submit_het(&format!("{a} : {b}"));
        }
        Deed::Pass(minutes) => {
            let minute = lab.now.secs() as u64 / 60 + u64::from(*minutes);
            lab.at_minute(minute);
        }
        Deed::Reserve(line) => lab.set_up(&format!("reservation {line}")),
        Deed::Unreserve(n) => {
            let names: Vec<String> = lab.state.reservations.keys().cloned().collect();
            if let Some(name) = names.get(n % names.len().max(1)).cloned() {
                lab.event(EventKind::ReservationRemoved { name });
            }
        }
        Deed::Exit(n, code) => {
            if let Some(job) = nth(&lab.state.index.active, *n) {
                lab.exit(job, *code);
            }
        }
        Deed::Lose(n) => {
            if let Some(job) = nth(&lab.state.index.active, *n) {
                lab.lose(job);
            }
        }
        Deed::Cancel(n) => {
            let all = lab.state.index.active.clone().union(lab.state.index.pending.clone());
            if let Some(job) = nth(&all, *n) {
                lab.cancel(job);
            }
        }
        Deed::Toggle(n) => {
            if let Some(job) = nth(&lab.state.index.pending, *n) {
                lab.event(match lab.state.jobs[&job].hold {
                    None => EventKind::JobHeld { job, hold: Hold::User },
                    Some(_) => EventKind::JobReleased { job },
                });
            }
        }
        Deed::Shorten(n, minutes) => {
            if let Some(job) = nth(&lab.state.index.pending, *n) {
                let time_limit = Some(TimeLimit::Of(Seconds::minutes(u64::from(*minutes))));
                let update = JobUpdate { time_limit, ..JobUpdate::default() };
                lab.event(EventKind::JobUpdated { job, update: Box::new(update) });
            }
        }
        Deed::Throttle(n, throttle) => {
            if let Some(job) = nth(&lab.state.index.pending, *n) {
                let array_throttle = Some(*throttle);
                let update = JobUpdate { array_throttle, ..JobUpdate::default() };
                lab.event(EventKind::JobUpdated { job, update: Box::new(update) });
            }
        }
        Deed::Taint(n) => {
            let id = NodeId((n % lab.state.nodes.len()) as u32);
            if let Some(node) = lab.state.nodes.get(&id) {
                let mark = if node.taints.is_empty() { "maint:NoExecute" } else { "none" };
                lab.set_up(&format!("taint {} {mark}", node.name.clone()));
            }
        }
        Deed::Suspend(n) => {
            if let Some(job) = nth(&lab.state.index.active, *n) {
                by_hand(lab, job);
            }
        }
        Deed::Drain(n) | Deed::Down(n) | Deed::Foreign(n) => touch_node(lab, deed, *n),
    }
}

/// Makes a running job stand still, or lets one go on that does so by hand.
fn by_hand(lab: &mut Lab, job: JobId) {
    let record = &lab.state.jobs[&job];
    let suspend = !record.lends;
    let may = if suspend {
        record.state == JobState::Running && record.eviction.is_none()
    } else {
        record.state == JobState::Suspended
    };
    if !may {
        return;
    }
    lab.suspend_by_hand(job, suspend);
}

fn touch_node(lab: &mut Lab, deed: &Deed, n: usize) {
    let id = NodeId((n % lab.state.nodes.len()) as u32);
    let Some(node) = lab.state.nodes.get(&id).cloned() else { return };
    let since = lab.now;
    lab.event(match deed {
        Deed::Drain(_) => EventKind::NodeDrain {
            node: id,
            drain: node.drain.is_none().then(|| Drain {
                reason: "test".to_owned(),
                by: "root".to_owned(),
                since,
            }),
        },
        Deed::Down(_) => EventKind::NodeAvailability {
            node: id,
            availability: match node.availability {
                Availability::Up => Availability::Down { reason: "no answer".to_owned(), since },
                Availability::Down { .. } => Availability::Up,
            },
        },
        _ if node.foreign.is_empty() => {
            let use_of = |device, memory| ForeignUse {
                device,
                memory: Mib(memory),
                owner: "someone".to_owned(),
                what: "1 python".to_owned(),
                ..ForeignUse::default()
            };
            let gpu = (!node.devices.is_empty()).then(|| use_of(Some(0), 1000));
            let foreign = gpu.into_iter().chain([use_of(None, 300)]).collect();
            EventKind::NodeForeign { node: id, foreign }
        }
        _ => EventKind::NodeForeign { node: id, foreign: Vec::new() },
    });
}

fn nth(set: &impl Set, n: usize) -> Option<JobId> {
    let ids = set.ids();
    (!ids.is_empty()).then(|| ids[n % ids.len()])
}

/// A set of jobs as the state keeps it.
trait Set {
    fn ids(&self) -> Vec<JobId>;
}

impl<S> Set for S
where
    for<'a> &'a S: IntoIterator<Item = &'a JobId>,
{
    fn ids(&self) -> Vec<JobId> {
        self.into_iter().copied().collect()
    }
}
