//! Parts of GPUs: the cases T-30 to T-39 and C-24 to C-28 that the core decides, what the checker
//! finds in plans that were spoiled, and brute force over everything that one node could give.

use muster_model::{
    CpuSet, Decision, DeviceGrant, DeviceMilli, DeviceMode, EventKind, ForeignUse, JobId, Mib,
    MigSlot, NodeId, NodeShare, Placement, Plan, Start, sharing,
};
use muster_plan_check::{Rule, check, check_full, recount};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Submits, plans, and carries out; the devices that the job got, where it runs.
fn run(lab: &mut Lab, job: &str) -> Option<(NodeId, Vec<DeviceGrant>)> {
    let id = lab.submit(&format!("j {job} mem=1M time=600"));
    lab.round();
    assert!(recount(&lab.state).is_empty());
    let placement = lab.state.jobs[&id].placement.clone();
    if placement.is_none() {
        lab.cancel(id);
    }
    placement.map(|p| (p.nodes[0].node, p.nodes[0].devices.clone()))
}

fn indices(got: Option<(NodeId, Vec<DeviceGrant>)>) -> Vec<u32> {
    got.map(|(_, grants)| grants.iter().map(|g| g.index).collect()).unwrap_or_default()
}

fn starts(got: Option<(NodeId, Vec<DeviceGrant>)>) -> Vec<u8> {
    let grants = got.map(|(_, grants)| grants).unwrap_or_default();
    grants.iter().filter_map(|g| g.mig).map(|slot| slot.start).collect()
}

fn a100() -> Lab {
    Lab::new("node n1 cpus=16 gpus=1xa100:40G mem=64G gpu-mode=mig")
}

#[test]
fn t31_t32_the_first_instance_leaves_room_and_order_matters() {
    let one = |profile: &str| starts(run(&mut a100(), &format!("gpus=1x{profile}")));
    assert_eq!([one("1g.5gb"), one("2g.10gb"), one("3g.20gb")], [[6], [4], [4]]);
    let mut lab = a100();
    assert_eq!(starts(run(&mut lab, "gpus=1x1g.5gb")), [6]);
    assert_eq!(starts(run(&mut lab, "gpus=1x4g.20gb")), [0]);
    assert_eq!(starts(run(&mut lab, "gpus=1x2g.10gb")), [4]);
    assert_eq!(run(&mut lab, "gpus=1x1g.5gb"), None);
    let mut lab = a100();
    assert_eq!(starts(run(&mut lab, "gpus=1x3g.20gb")), [4]);
    assert_eq!(starts(run(&mut lab, "gpus=4x1g.5gb")), [0, 1, 2, 3]);
}

#[test]
fn t32_instances_that_others_placed_badly_stand_in_the_way() {
    let mut lab = Lab::new("node n1 cpus=16 gpus=1xa100:40G mem=64G gpu-mode=mig:1g@0");
    assert_eq!(starts(run(&mut lab, "gpus=1x1g.5gb")), [0]);
    let mut node = muster_model::Node::clone(&lab.state.nodes[&NodeId(0)]);
    node.devices[0].mode = DeviceMode::Mig(sharing::MigMode { carve: true, ..Default::default() });
    lab.event(EventKind::NodeSet { node: Box::new(node) });
    assert_eq!(run(&mut lab, "gpus=1x4g.20gb"), None);
    assert_eq!(starts(run(&mut lab, "gpus=1x3g.20gb")), [4]);
}

#[test]
fn t33_the_eighth_memory_slot() {
    let h100 = || Lab::new("node n1 cpus=16 gpus=1xh100:80G mem=64G gpu-mode=mig");
    let mut lab = h100();
    assert!(run(&mut lab, "gpus=3x2g.20gb").is_some());
    assert_eq!(starts(run(&mut lab, "gpus=1x1g.20gb")), [6]);
    let mut lab = h100();
    assert!(run(&mut lab, "gpus=7x1g.10gb").is_some());
    assert_eq!(run(&mut lab, "gpus=1x1g.20gb"), None);
    assert_eq!(run(&mut h100(), "gpus=5x1g.20gb"), None);
    assert!(run(&mut h100(), "gpus=4x1g.20gb").is_some());
    assert_eq!(run(&mut h100(), "gpus=2x1g.10gb+me"), None);
}

#[test]
fn c27_a_set_of_profiles_is_placed_whole() {
    let job = "gpus-per-node=1x3g.20gb+1x2g.10gb+2x1g.5gb";
    assert!(run(&mut a100(), job).is_some());
    let mut lab = a100();
    assert!(run(&mut lab, "gpus=2x3g.20gb").is_some());
    assert_eq!(run(&mut lab, "gpus=1x1g.5gb"), None);
    let mut lab = a100();
    assert!(run(&mut lab, "gpus=3x2g.10gb").is_some());
    assert_eq!(run(&mut lab, "gpus=1x2g.10gb"), None);
}

#[test]
fn t34_instances_are_taken_as_they_are_and_named_with_their_model() {
    let fixture = "node n1 cpus=16 gpus=2xa100:40G mem=64G gpu-mode=1@mig:3g@0+3g@4";
    let mut lab = Lab::new(fixture);
    assert_eq!(run(&mut lab, "gpus=1x2g.10gb"), None);
    assert_eq!(run(&mut lab, "gpus=1xh100_3g.20gb"), None);
    assert_eq!(indices(run(&mut lab, "gpus=2xa100_3g.20gb")), [1, 1]);
    assert_eq!(indices(run(&mut lab, "gpus=1xa100")), [0]);
    assert_eq!(run(&mut lab, "gpus=1"), None);
}

#[test]
fn t35_shards_and_whole_gpus() {
    let four = || Lab::new("node n1 cpus=16 gpus=4xa100:40G mem=64G gpu-mode=time-slice:5");
    let mut lab = four();
    let (_, grants) = run(&mut lab, "gpus=1 shards=3").expect("starts");
    assert_eq!((grants[0].share, grants[0].memory), (DeviceMilli(600), Mib(24_576)));
    assert_eq!(run(&mut four(), "gpus=1 shards=6"), None);
    let mut lab = four();
    assert!(run(&mut lab, "gpus=1 shards=1").is_some());
    assert_eq!(run(&mut lab, "gpus=4"), None, "a GPU with any share is not free as a whole");
    assert!(run(&mut lab, "gpus=3").is_some());
    let mut lab = four();
    assert!(run(&mut lab, "gpus=4").is_some());
    assert_eq!(run(&mut lab, "gpus=1 shards=1"), None);
}

#[test]
fn t36_the_fullest_that_fits() {
    let mut lab = Lab::new("node n1 cpus=16 gpus=4xa100:40G mem=64G gpu-mode=time-slice:5");
    let place = |lab: &mut Lab, index: u32, shards: u32| {
        // Put there by hand: loads 3, 1, 0 and 5.
        let id = lab.submit(&format!("j gpus=1 shards={shards} mem=1M time=600"));
        let grant = DeviceGrant {
            index,
            share: DeviceMilli(200 * shards),
            memory: Mib(8192 * u64::from(shards)),
            mig: None,
        };
        let share = NodeShare {
            tasks: 1,
            cpus: [index].into_iter().collect(),
            memory: Mib(1),
            devices: vec![grant],
            ..NodeShare::default()
        };
        let placement =
            Placement { partition: "main".to_owned(), nodes: vec![share], ..Placement::default() };
        let time_limit = lab.state.jobs[&id].time_limit;
        let placement = Arc::new(placement);
        lab.event(EventKind::JobPlaced { job: id, attempt: 1, placement, time_limit });
    };
    place(&mut lab, 0, 3);
    place(&mut lab, 1, 1);
    place(&mut lab, 3, 5);
    assert_eq!(indices(run(&mut lab, "gpus=1 shards=1")), [0]);
}

#[test]
fn t37_one_user_at_a_time_under_mps() {
    let mut lab = Lab::new("node n1 cpus=16 gpus=1xa100:40G mem=64G gpu-mode=mps:100");
    assert!(run(&mut lab, "gpus=1 shards=30").is_some());
    assert_eq!(run(&mut lab, "gpus=1 shards=30 user=mara"), None);
    assert!(run(&mut lab, "gpus=1 shards=70").is_some());
    assert_eq!(run(&mut lab, "gpus=1 shards=1"), None);
    let two = "node n1 cpus=16 gpus=2xa100:40G mem=64G gpu-mode=mps:100";
    let mut lab = Lab::new(two);
    for _ in 0..2 {
        assert!(run(&mut lab, "gpus=1 shards=70").is_some());
    }
    assert_eq!(run(&mut lab, "gpus=1 shards=50"), None, "never 30 here and 20 there");
}

#[test]
fn t38_replicas_are_on_two_gpus_where_two_are_asked() {
    let mut lab = Lab::new("node n1 cpus=99 gpus=8xa100:40G mem=64G gpu-mode=time-slice:10");
    let two = indices(run(&mut lab, "gpus=2 shards=1"));
    assert!(two.len() == 2 && two[0] != two[1]);
    let started = (0..90).filter(|_| run(&mut lab, "gpus=1 shards=1").is_some()).count();
    assert_eq!(started, 78);
}

#[test]
fn t39_fractions_and_mib() {
    let cluster = |cut: bool| {
        let a = if cut { "gpu-mode=mig" } else { "gpu-mode=time-slice" };
        let mut lab = Lab::new(&format!(
            "node a cpus=16 gpus=2xa100:40G mem=64G {a}\n\
             node b cpus=16 gpus=1xa100:80G mem=64G gpu-mode=time-slice"
        ));
        if !cut {
            for _ in 0..2 {
                run(&mut lab, "gpus=1 gpu-share=0.6 nodelist=a");
            }
        }
        run(&mut lab, "gpus=1 gpu-share=0.5 nodelist=b");
        lab
    };
    let node = |job: &str, cut: bool| run(&mut cluster(cut), job).map(|(node, _)| node.0);
    assert_eq!(node("gpus=1 gpu-share=0.5", false), Some(1));
    assert_eq!(node("gpus=1 gpu-share=0.4", false), Some(0));
    assert_eq!(node("gpus=1 gpu-memory=20000M gpu-isolation=none", false), Some(1));
    assert_eq!(indices(run(&mut cluster(false), "gpus=2 gpu-share=0.3 nodes=1")), [0, 1]);
    assert_eq!(node("gpus=1 gpu-share=0.3", true), Some(1));
}

#[test]
fn a_share_goes_to_the_node_where_it_breaks_the_least() {
    let mut lab = Lab::new(
        "node b cpus=16 gpus=1xa100:40G mem=64G gpu-mode=time-slice\n\
         node a cpus=16 gpus=1xa100:40G mem=64G gpu-mode=time-slice",
    );
    run(&mut lab, "gpus=1 gpu-share=0.25 nodelist=b");
    run(&mut lab, "gpus=1 gpu-share=0.5 nodelist=a");
    // Half of a's card is left over, and three quarters of b's.
    assert_eq!(run(&mut lab, "gpus=1 gpu-share=0.5").map(|(node, _)| node.0), Some(1));
}

#[test]
fn c24_c28_fractions_pack_on_each_device() {
    let mut lab = Lab::new("node n1 cpus=99 gpus=8xa100:40G mem=64G gpu-mode=time-slice");
    let started = (0..55).filter(|_| run(&mut lab, "gpus=1 gpu-share=0.15").is_some()).count();
    assert_eq!(started, 48);
    let mut lab = Lab::new("node n[1-2] cpus=99 gpus=8xa100:40G mem=64G gpu-mode=time-slice");
    assert_eq!((0..10).filter(|_| run(&mut lab, "gpus=1 gpu-share=0.6").is_some()).count(), 10);
    let mut lab = Lab::new("node n1 cpus=99 gpus=1xa100:40G mem=64G gpu-mode=time-slice");
    assert_eq!((0..11).filter(|_| run(&mut lab, "gpus=1 gpu-share=0.1").is_some()).count(), 10);
    // All at once: two on each.
    let mut lab = Lab::new("node n1 cpus=99 gpus=8xa100:40G mem=64G gpu-mode=time-slice");
    for _ in 0..16 {
        lab.submit("j gpus=1 gpu-share=0.5 mem=1M time=10");
    }
    lab.round();
    let mut on = [0; 8];
    for job in lab.state.jobs.values() {
        on[job.placement.as_ref().expect("runs").nodes[0].devices[0].index as usize] += 1;
    }
    assert_eq!(on, [2; 8]);
}

#[test]
fn c25_memory_counts_on_one_card_beside_what_others_use() {
    let mut lab = Lab::new("node n1 cpus=99 gpus=1xl40s:46068M mem=64G gpu-mode=time-slice");
    let job = "gpus=1 gpu-memory=2000M gpu-isolation=none";
    assert_eq!((0..24).filter(|_| run(&mut lab, job).is_some()).count(), 23);
    let mut lab = Lab::new("node n1 cpus=99 gpus=2xa10:24G mem=64G gpu-mode=time-slice");
    let foreign = |device| ForeignUse {
        device: Some(device),
        memory: Mib(12 * 1024),
        ..ForeignUse::default()
    };
    let uses = vec![foreign(0), foreign(1)];
    lab.event(EventKind::NodeForeign { node: NodeId(0), foreign: uses });
    assert_eq!(run(&mut lab, "gpus=1 gpu-memory=20G gpu-isolation=none"), None);
    assert!(run(&mut lab, "gpus=1 gpu-memory=12G gpu-isolation=none").is_some());
    assert_eq!(run(&mut lab, "gpus=1"), None, "no whole GPU is free of others");
}

#[test]
fn isolation_is_offered_by_the_device_and_by_mig_whatever_is_asked() {
    let mut lab =
        Lab::new("node n1 cpus=16 gpus=3xa100:40G mem=64G gpu-mode=0@time-slice;1@mps:100;2@mig");
    let job = |class: &str| format!("gpus=1 gpu-memory=4G gpu-isolation={class}");
    assert_eq!(indices(run(&mut lab, &job("mig"))), [2]);
    assert_eq!(indices(run(&mut lab, "gpus=1 gpu-share=0.2 gpu-isolation=mps")), [1]);
    assert_eq!(run(&mut lab, "gpus=1 gpu-share=0.2 gpu-isolation=mig"), None);
    lab.set_up("policy whole-for-parts=yes");
    lab.set_up("node n2 cpus=16 gpus=1xa100:40G mem=64G");
    assert!(
        run(&mut lab, "gpus=1 gpu-share=0.2 gpu-isolation=mig").is_some_and(|g| g.1[0].is_whole())
    );
}

#[test]
fn memory_is_a_part_only_where_the_policy_or_the_job_says_so() {
    let fixture = "node n1 cpus=16 gpus=1xa100:40G mem=64G gpu-mode=time-slice";
    let got = run(&mut Lab::new(fixture), "gpus=1 gpu-memory=10G").expect("starts");
    assert!(got.1[0].is_whole());
    let mut lab = Lab::new(&format!("{fixture}\npolicy memory-is-part=yes"));
    let got = run(&mut lab, "gpus=1 gpu-memory=10G").expect("starts");
    assert_eq!((got.1[0].share, got.1[0].memory), (DeviceMilli(250), Mib(10_240)));
}

/// A job in the laboratory with its good plan, of which the first grant is then changed.
fn spoiled(fixture: &str, jobs: &[&str], spoil: impl Fn(&mut DeviceGrant)) -> BTreeSet<Rule> {
    let mut lab = Lab::new(fixture);
    for job in jobs {
        lab.submit(&format!("j {job} mem=1M time=10"));
    }
    let mut plan = lab.plan();
    let starts = plan.decisions.iter_mut().filter_map(|d| match d {
        Decision::Start(starts) => Some(starts),
        _ => None,
    });
    let first = starts.flatten().next().expect("starts");
    spoil(&mut Arc::make_mut(&mut first.placement).nodes[0].devices[0]);
    let found = check_full(&lab.state, &plan);
    assert!(found.iter().all(|v| !v.jobs.is_empty()), "{found:?}");
    found.iter().map(|v| v.rule).collect()
}

#[test]
fn a_spoiled_plan_breaks_the_rule_that_it_breaks() {
    let shared = "node n1 cpus=8 gpus=2xa100:40G mem=64G gpu-mode=time-slice";
    let part = "gpus=1 gpu-share=0.6";
    // Both on one GPU: more than it has of share and memory.
    let two = spoiled(shared, &[part, part], |g| g.index = 1 - g.index);
    assert_eq!(two, BTreeSet::from([Rule::GpuShare]));
    let more = spoiled(shared, &[part], |g| g.share = DeviceMilli(500));
    assert_eq!(more, BTreeSet::from([Rule::GpuMemory]));
    let memory = spoiled(shared, &[part], |g| g.memory = Mib(99 * 1024));
    assert_eq!(memory, BTreeSet::from([Rule::GpuMemory, Rule::GpuShare]));
    let whole = spoiled(shared, &["gpus=1", part], |g| g.index = 1 - g.index);
    assert_eq!(whole, BTreeSet::from([Rule::GpuOverallocated]));
    let mig = "node n1 cpus=8 gpus=1xa100:40G mem=64G gpu-mode=mig";
    let slot = |start, size, compute| Some(MigSlot { start, size, compute, media: false });
    let nowhere = spoiled(mig, &["gpus=1x3g.20gb"], |g| g.mig = slot(2, 4, 3));
    // What the card cannot have is of no profile either.
    assert_eq!(nowhere, BTreeSet::from([Rule::MigLayout, Rule::Gpus]));
    let onto = spoiled(mig, &["gpus=1x1g.5gb", "gpus=1x2g.10gb"], |g| g.mig = slot(4, 1, 1));
    assert_eq!(onto, BTreeSet::from([Rule::MigLayout]));
    let other = spoiled(mig, &["gpus=1x3g.20gb"], |g| g.mig = slot(0, 4, 4));
    assert_eq!(other, BTreeSet::from([Rule::GpuMemory, Rule::Gpus]));
    let classes = "node n1 cpus=8 gpus=2xa100:40G mem=64G gpu-mode=0@none;1@mps:100";
    let weak = spoiled(classes, &["gpus=1 gpu-share=0.5 gpu-isolation=mps"], |g| g.index = 0);
    assert_eq!(weak, BTreeSet::from([Rule::GpuIsolation]));
    let mps = "node n1 cpus=8 gpus=2xa100:40G mem=64G gpu-mode=mps:100";
    let users = ["gpus=1 gpu-share=0.3", "gpus=1 gpu-share=0.3 user=mara"];
    let both = spoiled(mps, &users, |g| g.index = 1 - g.index);
    assert_eq!(both, BTreeSet::from([Rule::GpuIsolation]));
}

/// Every grant that one device could give to a request, by the facts of the device alone.
fn grants(lab: &Lab, job: JobId, index: u32) -> Vec<DeviceGrant> {
    let device = &lab.state.nodes[&NodeId(0)].devices[index as usize];
    let request = &lab.state.jobs[&job].spec.request;
    let whole = DeviceGrant { index, share: DeviceMilli::WHOLE, memory: device.memory, mig: None };
    let mut all = vec![whole];
    match &device.mode {
        DeviceMode::Whole => {}
        DeviceMode::Shared(s) => {
            let part = sharing::part_of(s, device.memory, request.gpu_share, request.gpu_memory);
            all.extend(part.map(|(share, memory)| DeviceGrant { index, share, memory, mig: None }));
        }
        DeviceMode::Mig(_) => {
            let table = device.mig_table().expect("mig");
            for profile in table.profiles {
                all.extend(profile.slots().map(|slot| DeviceGrant {
                    index,
                    share: DeviceMilli(u32::from(slot.compute) * 1000 / 7),
                    memory: device.instance_memory(slot),
                    mig: Some(slot),
                }));
            }
        }
    }
    all
}

/// True where some one or two of all grants make a start that breaks no rule.
fn some_start(lab: &Lab, job: JobId, devices: u32, count: usize) -> bool {
    let all: Vec<DeviceGrant> = (0..devices).flat_map(|i| grants(lab, job, i)).collect();
    let pairs = (0..all.len()).flat_map(|a| (a..all.len()).map(move |b| (a, b)));
    let tried = pairs.filter(|(a, b)| (count == 1) == (a == b)).map(|(a, b)| {
        let mut grants = vec![all[a]];
        grants.extend((count == 2).then_some(all[b]));
        grants
    });
    let used = lab.state.index.active.iter().filter_map(|id| lab.state.jobs[id].placement.clone());
    let taken: u32 = used.map(|p| p.cpus()).sum();
    let starts = |grants: Vec<DeviceGrant>| {
        let share = NodeShare {
            tasks: 1,
            cpus: [taken].into_iter().collect::<CpuSet>(),
            memory: Mib(1),
            devices: grants,
            ..NodeShare::default()
        };
        let placement =
            Placement { partition: "main".to_owned(), nodes: vec![share], ..Placement::default() };
        let time_limit = lab.state.jobs[&job].time_limit;
        let placement = Arc::new(placement);
        let start = Start { job, attempt: 1, placement, time_limit, turn: None };
        let plan =
            Plan { now: lab.now, decisions: vec![Decision::Start(vec![start])], ..Plan::default() };
        check(&lab.state, &plan).is_empty()
    };
    tried.into_iter().any(starts)
}

fn part_request() -> impl Strategy<Value = (String, usize)> {
    let what = prop_oneof![
        3 => (1u32..=10).prop_map(|n| format!("gpu-share={}", n * 100)),
        2 => (1u32..=6).prop_map(|n| format!("shards={n}")),
        3 => (1u64..=44).prop_map(|g| format!("gpu-memory={g}G gpu-isolation=none")),
        1 => (1u64..=40).prop_map(|g| format!("gpu-memory={g}G gpu-isolation=mig")),
        1 => Just("gpu-share=300 gpu-isolation=mps".to_owned()),
        1 => Just("gpu-share=300 gpu-memory=30G".to_owned()),
        2 => Just(String::new()),
    ];
    let profiles =
        vec!["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", "1g.5gb+me"];
    let user = prop::sample::select(vec!["", " user=mara"]);
    let plain = (1usize..=2, what, user)
        .prop_map(|(n, what, user)| (format!("gpus={n} nodes=1 {what}{user}"), n));
    let mig = (1usize..=2, prop::sample::select(profiles))
        .prop_map(|(n, profile)| (format!("gpus={n}x{profile} nodes=1"), n));
    prop_oneof![3 => plain, 2 => mig]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(150),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A part is given exactly where some grant is allowed.
    #[test]
    fn a_part_is_given_where_some_grant_is_allowed(
        modes in prop::collection::vec(
            prop::sample::select(vec!["whole", "none", "time-slice:5", "mps:4", "mig", "mig:3g@0+1g@5"]),
            1..=2,
        ),
        before in prop::collection::vec(part_request(), 0..6),
        last in part_request(),
        whole_for_parts in prop::bool::ANY,
        foreign in prop::option::of((0u32..2, 1u64..30)),
    ) {
        let devices = modes.len() as u32;
        let modes: Vec<String> =
            modes.iter().enumerate().map(|(i, mode)| format!("{i}@{mode}")).collect();
        let rule = if whole_for_parts { "yes" } else { "no" };
        let mut lab = Lab::new(&format!(
            "node n1 cpus=16 gpus={devices}xa100:40G mem=64G gpu-mode={}\n\
             policy whole-for-parts={rule}",
            modes.join(";")
        ));
        proved(&mut lab, |lab| {
            if let Some((device, gib)) = foreign.filter(|f| f.0 < devices) {
                let one = ForeignUse {
                    device: Some(device),
                    memory: Mib(gib * 1024),
                    ..ForeignUse::default()
                };
                lab.event(EventKind::NodeForeign { node: NodeId(0), foreign: vec![one] });
            }
            for (job, _) in &before {
                run(lab, job);
            }
            let job = lab.submit(&format!("last {} mem=1M time=10", last.0));
            let allowed = some_start(lab, job, devices, last.1);
            let plan = lab.unchecked_plan();
            let found = check_full(&lab.state, &plan);
            prop_assert!(found.is_empty(), "{:#?}", found);
            let starts = plan.decisions.iter().any(|d| matches!(d, Decision::Start(_)));
            prop_assert_eq!(starts, allowed, "{}", last.0);
            Ok(())
        })?;
    }
}
