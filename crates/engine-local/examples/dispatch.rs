//! Measures the engine alone: launches trivial jobs, at most so many at a time, and acknowledges each.
//!
//! `cargo run --release -p muster-engine-local --example dispatch -- [JOBS] [script|command] [memory] [plain] [at=N]`

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use muster_engine::{Engine, Launch, Observation, Order};
use muster_engine_local::{LocalConfig, LocalEngine, shepherd_main};
use muster_model::{
    CpuSet, Job, JobId, JobSpec, JobState, Mib, NodeId, NodeShare, Payload, Placement, Seconds,
    Stdio, TimeLimit, Timestamp, Usage,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == "shepherd") {
        shepherd_main(&arguments[1..]).expect("shepherd");
        return;
    }
    let jobs: u32 = arguments.first().map_or(2_000, |a| a.parse().expect("a number of jobs"));
    let script = arguments.iter().any(|a| a == "script");
    let memory = if arguments.iter().any(|a| a == "memory") { Mib(64) } else { Mib(0) };
    let at_a_time: u32 = arguments
        .iter()
        .find_map(|a| a.strip_prefix("at="))
        .map_or(2, |n| n.parse().expect("a number of jobs at a time"));
    let directory = tempfile::tempdir().expect("directory");
    let own = std::env::current_exe().expect("own path").to_string_lossy().into_owned();
    let engine = LocalEngine::start(LocalConfig {
        state_directory: directory.path().to_owned(),
        shepherd_command: vec![own, "shepherd".to_owned()],
        cluster: "bench".to_owned(),
        practice: None,
        without_cgroup: arguments.iter().any(|a| a == "plain"),
        reach: None,
        client_socket: None,
        gpu_reader: None,
    })
    .expect("engine");
    let (sender, ended) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    engine.watch(Arc::new(move |observation| {
        if let Observation::Exited { job, report, .. } = observation {
            assert!(report.status.success(), "{report:?}");
            sender.lock().expect("lock").send(job).expect("receiver");
        }
    }));
    let node = Arc::new(engine.inventory().expect("inventory").nodes.remove(0));
    let launch = |id| Order::Launch(Box::new(launch(id, script, memory, directory.path(), &node)));
    let begin = Instant::now();
    let mut next = 1;
    while next <= jobs.min(at_a_time) {
        engine.execute(1, &launch(next)).expect("launched");
        next += 1;
    }
    for _ in 0..jobs {
        let job = ended.recv().expect("an exit");
        if next <= jobs {
            engine.execute(1, &launch(next)).expect("launched");
            next += 1;
        }
        engine.execute(1, &Order::Acknowledge { job, attempt: 1 }).expect("acknowledged");
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{jobs} jobs in {seconds:.2} s: {:.0} a second", f64::from(jobs) / seconds);
    let shepherd = shepherd_pid(directory.path());
    println!(
        "CPU for each job: daemon {:.3} ms, shepherd, supervisors and jobs {:.3} ms",
        cpu_ms("self") / f64::from(jobs),
        cpu_ms(&shepherd.to_string()) / f64::from(jobs)
    );
    let begin = Instant::now();
    for _ in 0..jobs {
        let status = std::process::Command::new("/bin/true").status().expect("true");
        assert!(status.success());
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("bare spawn and wait: {:.0} a second", f64::from(jobs) / seconds);
}

fn shepherd_pid(state: &Path) -> i32 {
    let socket =
        std::os::unix::net::UnixStream::connect(state.join("shepherd.sock")).expect("shepherd");
    nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::PeerCredentials)
        .expect("credentials")
        .pid()
}

/// CPU time of a process and its collected children, milliseconds.
fn cpu_ms(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("name") + 2..].split(' ').collect();
    fields[11..15].iter().map(|f| f.parse::<f64>().expect("ticks") * 10.0).sum()
}

fn launch(
    id: u32,
    script: bool,
    memory: Mib,
    cwd: &Path,
    node: &Arc<muster_model::Node>,
) -> Launch {
    let share = NodeShare {
        node: NodeId(0),
        tasks: 1,
        cpus: [id % 2].into_iter().collect::<CpuSet>(),
        memory,
        ..NodeShare::default()
    };
    let spec = JobSpec {
        name: "true".to_owned(),
        cwd: cwd.to_string_lossy().into_owned(),
        stdio: Stdio { output: Some("/dev/null".to_owned()), ..Stdio::default() },
        ..JobSpec::default()
    };
    let job = Job {
        id: JobId(id),
        spec: Arc::new(spec),
        array: None,
        het: None,
        submitted: Timestamp::default(),
        eligible: None,
        state: JobState::Starting,
        hold: None,
        time_limit: TimeLimit::Of(Seconds(3_600)),
        gates: Vec::new(),
        attempt: 1,
        placement: Some(Arc::new(Placement { nodes: vec![share], ..Placement::default() })),
        charge: Arc::default(),
        placed: None,
        placed_seq: 0,
        estimate: None,
        started: None,
        stop: None,
        signals: Vec::new(),
        signals_asked: 0,
        claim: None,
        eviction: None,
        lends: false,
        resumes: false,
        resize: None,
        turn: None,
        stands_since: None,
        resumed: None,
        paused: Seconds(0),
        paused_ms: 0,
        checkpointed: None,
        idle: None,
        preemptions: 0,
        preempted: None,
        suspend: false,
        ended: None,
        exit: None,
        message: String::new(),
        usage: Usage::default(),
        steps: Vec::new(),
    };
    let environment =
        (0..40).map(|n| (format!("VARIABLE_{n}"), "a usual value".to_owned())).collect();
    let payload = Payload {
        script: if script { "#!/bin/sh\ntrue\n".to_owned() } else { String::new() },
        args: if script { Vec::new() } else { vec!["/bin/true".to_owned()] },
        environment,
        umask: 0o022,
        ..Payload::default()
    };
    Launch {
        job: Arc::new(job),
        nodes: vec![Arc::clone(node)],
        components: Vec::new(),
        array: None,
        payload: Arc::new(payload),
        kill_wait: Seconds(30),
    }
}
