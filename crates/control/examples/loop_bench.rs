//! Measures the loop with a real store and an engine that runs nothing: `loop_bench [DIR] [CPUS]`.
//!
//! Prints one line of JSON for each figure. DIR is where the store lies (a real disk, to measure
//! syncs), CPUS how many jobs run at once.

use muster_control::command::{Command, Principal, Reply, Site, Submission};
use muster_control::{
    Clock, Controller, Parts, Settings, StandardChecker, StandardPlanner, SystemClock, spawn,
};
use muster_engine::{Pace, ScriptedEngine};
use muster_model::{
    ArraySpec, CpuSet, EngineName, IndexRanges, JobSpec, Mib, Node, NumaDomain, Owner, Partition,
    Payload,
};
use muster_store::SqliteStore;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() {
    let mut args = std::env::args().skip(1);
    if std::env::var_os("MUSTER_BENCH_LOAD").is_some() {
        return memory(&PathBuf::from(args.next().unwrap_or_default()));
    }
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from).join("muster-loop-bench");
    let cpus = args.next().and_then(|c| c.parse().ok()).unwrap_or(2);
    // Left from an earlier run, perhaps.
    drop(std::fs::remove_dir_all(&dir));
    let controller = start(&dir, cpus);
    configure(&controller, cpus);
    single(&controller);
    array(&controller, 10_000);
    submissions(&controller, 16, 20_000);
    drain(&controller);
    one_by_one(&controller, "submission_while_none_wait");
    drain(&controller);
    // Something that never ends takes all CPUs: what comes now waits.
    for _ in 0..cpus {
        controller.handle().call(me(), job_of(None, 0, "sleep 1000")).expect("the job is taken");
    }
    submissions(&controller, 16, 100_000);
    one_by_one(&controller, "submission_while_100000_wait");
    println!("{{\"what\": \"memory\", \"rss_mib\": {}}}", resident_mib());
    let left = controller.handle();
    let counters = left.counters().all();
    println!("{{\"counters\": {counters:?}}}");
    let began = Instant::now();
    controller.stop().expect("the loop stops");
    println!("{{\"what\": \"stop_with_snapshot\", \"ms\": {}}}", began.elapsed().as_millis());
    let began = Instant::now();
    let store = SqliteStore::open(&dir).expect("the store opens");
    let loaded = muster_store::Store::load(&store).expect("the store loads");
    println!(
        "{{\"what\": \"load\", \"jobs\": {}, \"ms\": {}}}",
        loaded.state.jobs.len(),
        began.elapsed().as_millis()
    );
    if std::env::var_os("MUSTER_BENCH_KEEP").is_none() {
        drop(std::fs::remove_dir_all(&dir));
    }
}

/// What a state takes that a bench left behind (`MUSTER_BENCH_KEEP`), step by step.
fn memory(dir: &std::path::Path) {
    let store = SqliteStore::open(dir).expect("the store opens");
    let say = |what: &str| println!("{{\"what\": \"{what}\", \"rss_mib\": {}}}", resident_mib());
    say("opened");
    let state = muster_store::Store::load(&store).expect("the store loads").state;
    println!(
        "{{\"jobs\": {}, \"waiting\": {}, \"job_bytes\": {}, \"spec_bytes\": {}}}",
        state.jobs.len(),
        state.index.pending.len(),
        size_of::<muster_model::Job>(),
        size_of::<JobSpec>()
    );
    say("loaded");
    let mut planner = StandardPlanner::default();
    let began = Instant::now();
    let plan = muster_control::Planning::plan(&mut planner, &state, SystemClock.now());
    println!("{{\"what\": \"cold_round\", \"ms\": {}}}", began.elapsed().as_millis());
    say("planned");
    drop(plan);
    let began = Instant::now();
    let mut snapshotter = muster_store::Store::snapshotter(&store).expect("a snapshotter opens");
    let mut next = state.clone();
    let round = muster_model::Event { at: state.now, kind: muster_model::EventKind::Round };
    next.apply(&round).expect("a round fits");
    let report = snapshotter.snapshot(&next).expect("a snapshot is written");
    println!(
        "{{\"what\": \"snapshot\", \"ms\": {}, \"bytes\": {}}}",
        began.elapsed().as_millis(),
        report.bytes
    );
    say("snapshot_written");
}

fn start(dir: &std::path::Path, cpus: u32) -> Controller {
    let node = Node {
        name: "n1".to_owned(),
        cpus: CpuSet::first(cpus),
        threads_per_core: 1,
        numa: vec![NumaDomain {
            cpus: CpuSet::first(cpus),
            memory: Mib(65_536),
            ..NumaDomain::default()
        }],
        memory: Mib(65_536),
        ..Node::default()
    };
    let engine =
        ScriptedEngine::new(EngineName::local(), vec![node], Pace::AtOnce, || SystemClock.now());
    let parts = Parts {
        store: Box::new(SqliteStore::open(dir).expect("the store opens")),
        planner: Box::new(StandardPlanner::default()),
        checker: Arc::new(StandardChecker),
        engines: vec![Arc::new(engine)],
        clock: Arc::new(SystemClock),
    };
    let settings =
        Settings { alarm: Arc::new(|alarm| eprintln!("alarm: {alarm}")), ..Settings::default() };
    spawn(parts, settings).expect("the loop starts")
}

fn me() -> Principal {
    Principal { uid: 0, gid: 0, user: "root".to_owned(), admin: true }
}

/// Memory of this process.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib =
        line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0u64) / 1024
}

/// Times of single submissions, one after the other.
fn one_by_one(controller: &Controller, what: &str) {
    let mut times: Vec<u128> = (0..1000)
        .map(|_| {
            let began = Instant::now();
            controller.handle().call(me(), job(None, 0)).expect("the job is taken");
            began.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!("{{\"what\": \"{what}\", \"p50_us\": {}, \"p99_us\": {}}}", times[500], times[989]);
}

fn job(throttle: Option<u32>, tasks: u32) -> Command {
    job_of(throttle, tasks, "true")
}

fn job_of(throttle: Option<u32>, tasks: u32, command: &str) -> Command {
    let spec = JobSpec {
        name: "bench".to_owned(),
        owner: Owner { uid: 0, gid: 0, user: "root".to_owned() },
        cwd: "/tmp".to_owned(),
        array: (tasks > 0)
            .then(|| ArraySpec { indices: IndexRanges::from_ranges([(0, tasks - 1)]), throttle }),
        ..JobSpec::default()
    };
    let environment = (0..40).map(|i| (format!("VARIABLE_{i}"), "value ".repeat(8))).collect();
    let payload =
        Payload { script: format!("#!/bin/sh\n{command}\n"), environment, ..Payload::default() };
    Command::Submit(Box::new(Submission { specs: vec![spec], payload }))
}

fn configure(controller: &Controller, cpus: u32) {
    let partition = Partition {
        name: "main".to_owned(),
        nodes: ["n1".to_owned()].into(),
        default: true,
        default_memory_per_cpu: Some(Mib(65_536 / u64::from(cpus.max(1)))),
        ..Partition::default()
    };
    let site = Site { partitions: vec![partition], ..Site::default() };
    let done = controller.handle().call(me(), Command::Configure(Box::new(site)));
    done.expect("the configuration is taken");
}

/// Waits until nothing is unfinished.
fn drain(controller: &Controller) {
    let handle = controller.handle();
    let mut changes = handle.subscribe();
    loop {
        let state = handle.state();
        if state.index.pending.is_empty() && state.index.active.is_empty() {
            return;
        }
        drop(changes.wait(usize::MAX, Duration::from_secs(1)));
    }
}

fn single(controller: &Controller) {
    let mut times: Vec<u128> = (0..200)
        .map(|_| {
            let began = Instant::now();
            controller.handle().call(me(), job(None, 0)).expect("the job is taken");
            drain(controller);
            began.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!("{{\"what\": \"single\", \"p50_us\": {}, \"p99_us\": {}}}", times[100], times[198]);
}

fn array(controller: &Controller, tasks: u32) {
    let handle = controller.handle();
    let before = handle.counters().all();
    let began = Instant::now();
    handle.call(me(), job(None, tasks)).expect("the array is taken");
    drain(controller);
    let took = began.elapsed();
    let after = handle.counters().all();
    let grown = |name: &str| {
        let value = |all: &[(&str, u64)]| all.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
        value(&after) - value(&before)
    };
    println!(
        "{{\"what\": \"array\", \"tasks\": {tasks}, \"ms\": {}, \"jobs_per_s\": {}, \"commits_durable\": {}, \"rounds\": {}}}",
        took.as_millis(),
        u128::from(tasks) * 1000 / took.as_millis().max(1),
        grown("commits_durable"),
        grown("rounds"),
    );
}

fn submissions(controller: &Controller, clients: u32, total: u32) {
    let began = Instant::now();
    let mut times: Vec<u128> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|_| {
                let handle = controller.handle();
                scope.spawn(move || {
                    (0..total / clients)
                        .map(|_| {
                            let began = Instant::now();
                            let reply = handle.call(me(), job(None, 0));
                            assert!(matches!(reply, Ok(Reply::Submitted { .. })), "{reply:?}");
                            began.elapsed().as_micros()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().expect("the client ends")).collect()
    });
    let took = began.elapsed();
    times.sort_unstable();
    println!(
        "{{\"what\": \"submissions\", \"clients\": {clients}, \"per_s\": {}, \"p50_us\": {}, \"p99_us\": {}}}",
        times.len() as u128 * 1000 / took.as_millis().max(1),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
    );
}
