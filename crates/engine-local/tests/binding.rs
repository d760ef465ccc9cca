//! Tasks bound to CPUs and GPUs, as they see it themselves, and what a job is seen to hold of a GPU.

mod support;

use muster_api::step::{CpuBind, Distribution, EndCause, ExitStatus, GpuBind, StepSpec};
use muster_engine::{Engine, Launch};
use muster_engine_local::LocalConfig;
use muster_model::{
    CpuBindKind, CpuSet, Device, DeviceGrant, DeviceMilli, GpuBindKind, Mib, NodeId, NodeOrder,
    NodeShare, NumaDomain,
};
use muster_node_metrics::{GpuProcess, GpuReader};
use std::sync::{Arc, Mutex};
use support::client::{Client, shell, text};
use support::{Daemon, Site, node, script, wait_until, with_placement};

const HOLD: &str = "until test -e go; do sleep 0.01; done";

/// What each task of a step says.
fn said(client: &mut Client, spec: &StepSpec) -> Vec<String> {
    let tasks = client.create(spec).2.len() as u32;
    let pipes = client.launch(tasks);
    let (_, status, cause) = client.finish();
    let said: Vec<String> = pipes.into_iter().map(|p| text(p).trim().to_owned()).collect();
    assert_eq!((status, cause), (ExitStatus::SUCCESS, EndCause::Exited), "{said:?}");
    said
}

/// A job on all CPUs of this machine, which is its node.
fn on_this_machine(site: &Site) -> (Daemon, CpuSet) {
    let config = LocalConfig { practice: None, ..site.config() };
    let daemon = Site::start_with(config);
    let node = daemon.engine.inventory().expect("inventory").nodes.remove(0);
    let cpus = node.cpus.clone();
    let mut launch = with_placement(script(site, 1, HOLD), |placement| {
        let share =
            NodeShare { node: NodeId(0), tasks: 1, cpus: cpus.clone(), ..NodeShare::default() };
        placement.nodes = vec![share];
    });
    launch.nodes = vec![Arc::new(node)];
    daemon.launch(&launch);
    daemon.started(1);
    (daemon, cpus)
}

#[allow(clippy::unnecessary_wraps)] // as it stands in a step
fn bound(kind: CpuBindKind) -> Option<CpuBind> {
    Some(CpuBind { kind, verbose: false })
}

#[test]
fn tasks_stay_on_the_cpus_that_they_are_bound_to() {
    for site in [Site::new(), Site::plain()] {
        let (daemon, cpus) = on_this_machine(&site);
        let mut client = Client::open(&daemon, 1);
        let line = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";
        let one = StepSpec { tasks: Some(1), ..shell(line) };
        assert_eq!(said(&mut client, &one), [cpus.to_string()]);
        let ids: Vec<u32> = cpus.iter().collect();
        let last = *ids.last().expect("a CPU");
        let map = StepSpec { cpu_bind: bound(CpuBindKind::Map(vec![last])), ..one.clone() };
        assert_eq!(said(&mut client, &map), [last.to_string()]);
        let mask = vec![[ids[0]].into_iter().collect()];
        let mask = StepSpec { cpu_bind: bound(CpuBindKind::Mask(mask)), ..one.clone() };
        assert_eq!(said(&mut client, &mask), [ids[0].to_string()]);
        if ids.len() < 2 {
            println!("skipped: more than one task needs more than one CPU");
            continue;
        }
        let two = StepSpec { tasks: Some(2), ..one };
        for kind in [CpuBindKind::Threads, CpuBindKind::Rank] {
            let each = said(&mut client, &StepSpec { cpu_bind: bound(kind), ..two.clone() });
            assert!(each[0] != each[1], "{each:?}");
            assert!(each.iter().all(|own| own.parse::<u32>().is_ok_and(|cpu| cpus.contains(cpu))));
        }
        let free =
            said(&mut client, &StepSpec { cpu_bind: bound(CpuBindKind::None), ..two.clone() });
        assert_eq!(free, [cpus.to_string(), cpus.to_string()]);
        // A step that counts CPUs by task gives each its own without being asked.
        let own = said(&mut client, &StepSpec { cpus_per_task: Some(1), ..two.clone() });
        assert!(own[0] != own[1] && own[0].parse::<u32>().is_ok(), "{own:?}");
        // Told on the standard error, before anything else.
        let loud = Some(CpuBind { kind: CpuBindKind::Map(vec![ids[0]]), verbose: true });
        let told = said(&mut client, &StepSpec { cpu_bind: loud, tasks: Some(1), ..two });
        let mask: muster_model::Mask = [ids[0]].into_iter().collect();
        assert!(told[0].starts_with("cpu-bind=MASK - "), "{told:?}");
        assert!(told[0].contains(&format!("mask {mask} set\n{}", ids[0])), "{told:?}");
    }
}

/// A practice node of two sockets with two CPUs and two GPUs each.
fn two_sockets(site: &Site) -> Launch {
    let mut launch = with_placement(script(site, 1, HOLD), |placement| {
        let gpu = |index| DeviceGrant {
            index,
            share: DeviceMilli::WHOLE,
            memory: Mib(1),
            ..DeviceGrant::default()
        };
        placement.nodes = vec![NodeShare {
            node: NodeId(0),
            tasks: 4,
            cpus: (0..4).collect(),
            devices: (0..4).map(gpu).collect(),
            ..NodeShare::default()
        }];
    });
    let mut node = node("node1");
    let domain = |id: u32| NumaDomain {
        id,
        socket: id,
        cpus: (id * 2..id * 2 + 2).collect(),
        memory: Mib(1),
    };
    node.numa = vec![domain(0), domain(1)];
    let device = |index: u32| Device { index, numa: Some(index / 2), ..Device::default() };
    node.devices = (0..4).map(device).collect();
    launch.nodes = vec![Arc::new(node)];
    launch
}

#[test]
fn tasks_see_the_gpus_that_they_are_bound_to() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&two_sockets(&site));
    daemon.started(1);
    let mut client = Client::open(&daemon, 1);
    let spec = StepSpec { tasks: Some(4), exact: true, ..shell("echo $CUDA_VISIBLE_DEVICES") };
    let mut seen = |kind, verbose| {
        let gpu_bind = Some(GpuBind { kind, verbose });
        said(&mut client, &StepSpec { gpu_bind, ..spec.clone() })
    };
    // Tasks are dealt over the sockets in turn.
    assert_eq!(seen(GpuBindKind::Closest, false), ["0,1", "2,3", "0,1", "2,3"]);
    assert_eq!(seen(GpuBindKind::None, false), ["0,1,2,3"; 4]);
    assert_eq!(seen(GpuBindKind::Map(vec![3, 0]), false), ["3", "0", "3", "0"]);
    assert_eq!(seen(GpuBindKind::PerTask(1), false), ["0", "1", "2", "3"]);
    let masks = vec![[0, 3].into_iter().collect(), [1].into_iter().collect()];
    assert_eq!(seen(GpuBindKind::Mask(masks), false), ["0,3", "1", "0,3", "1"]);
    let told = seen(GpuBindKind::Map(vec![2]), true);
    assert_eq!(told[0], "gpu-bind: usable_gres=0x4; bit_alloc=0xf; local_inx=1; global_list=2\n2");
}

#[test]
fn ranks_lie_as_the_distribution_says() {
    let site = Site::new();
    let daemon = site.start();
    let mut launch = with_placement(script(&site, 1, HOLD), |placement| {
        let share = |at| NodeShare {
            node: NodeId(at),
            tasks: 2,
            cpus: (0..4).collect(),
            ..NodeShare::default()
        };
        placement.nodes = vec![share(0), share(1)];
    });
    launch.nodes = vec![Arc::new(node("node1")), Arc::new(node("node2"))];
    daemon.launch(&launch);
    daemon.started(1);
    let mut client = Client::open(&daemon, 1);
    let line = "echo $SLURMD_NODENAME $SLURM_LOCALID $SLURM_DISTRIBUTION $SLURM_DIST_PLANESIZE";
    let mut laid = |nodes, hosts: &[&str]| {
        let distribution = Distribution { nodes, ..Distribution::default() };
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let spec = StepSpec { tasks: Some(4), distribution, hosts, ..shell(line) };
        said(&mut client, &spec)
    };
    assert_eq!(laid(NodeOrder::Block, &[]), ["node1 0", "node1 1", "node2 0", "node2 1"]);
    assert_eq!(
        laid(NodeOrder::Cyclic, &[]),
        ["node1 0 cyclic", "node2 0 cyclic", "node1 1 cyclic", "node2 1 cyclic"]
    );
    let planes = laid(NodeOrder::Plane(1), &[]);
    assert_eq!(planes[1], "node2 0 plane 1");
    let listed = laid(NodeOrder::Arbitrary, &["node2", "node2", "node1", "node2"]);
    let nodes: Vec<&str> = listed.iter().map(|line| &line[..7]).collect();
    assert_eq!(nodes, ["node2 0", "node2 1", "node1 0", "node2 2"]);
}

/// Says what it is told, as if a driver did.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<GpuProcess>>);

impl GpuReader for Told {
    fn processes(&self) -> Vec<GpuProcess> {
        self.0.lock().expect("lock").clone()
    }
}

#[test]
fn the_most_memory_of_a_gpu_is_kept_for_the_jobs_record() {
    let site = Site::new();
    let told = Arc::new(Told::default());
    let reader: Arc<dyn GpuReader> = Arc::<Told>::clone(&told);
    let daemon = Site::start_with(LocalConfig { gpu_reader: Some(reader), ..site.config() });
    let body = format!("sh -c 'echo $$ > pid; exec sleep 1000' & {HOLD}");
    daemon.launch(&script(&site, 1, &body));
    daemon.started(1);
    let pid = site.work().join("pid");
    wait_until("its process runs", || {
        std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid: u32 = site.read("pid").trim().parse().expect("a process");
    let holds = |gpu, pid, memory_mib| GpuProcess { gpu, pid, memory_mib, ..GpuProcess::default() };
    for list in [
        // Two processes on one GPU count together, and one of another job's not at all.
        vec![holds(0, pid, 700), holds(1, pid, 300), holds(0, std::process::id(), 9_000)],
        vec![holds(1, pid, 500)],
    ] {
        *told.0.lock().expect("lock") = list;
        daemon.engine.inventory().expect("looked at");
    }
    std::fs::write(site.work().join("go"), "").expect("go");
    assert_eq!(daemon.exit(1).usage.gpu_memory_peak_mib, 700);
}

#[test]
fn a_practice_job_says_itself_what_it_holds() {
    let site = Site::new();
    let daemon = site.start();
    let body = format!("echo $$ 0 4096 >> $MUSTER_PRACTICE_GPU_USE; echo > said; {HOLD}");
    daemon.launch(&script(&site, 1, &body));
    daemon.started(1);
    wait_until("it has said so", || site.work().join("said").exists());
    daemon.engine.inventory().expect("looked at");
    std::fs::write(site.work().join("go"), "").expect("go");
    assert_eq!(daemon.exit(1).usage.gpu_memory_peak_mib, 4096);
}
