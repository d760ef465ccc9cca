//! A state directory, an engine on it, and jobs to run.
#![allow(dead_code)] // Each test file uses its own part.

pub(crate) mod client;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use muster_engine::{Engine, EngineError, Launch, Observation, Order};
use muster_engine_local::{LocalConfig, LocalEngine};
use muster_model::{
    Availability, CpuSet, EngineName, ExitReport, Job, JobId, JobKind, JobSpec, JobState, Mib,
    Node, NodeId, NodeShare, Owner, Payload, Placement, Seconds, Stdio, StopCause, TimeLimit,
    Timestamp,
};

/// How long anything may take before a test gives up; only a failing test waits this long.
/// Ten thousand processes on a machine with other work take more than a minute to come and go.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// A state directory and what runs on it.
pub(crate) struct Site {
    pub directory: tempfile::TempDir,
    pub without_cgroup: bool,
}

impl Site {
    pub(crate) fn new() -> Self {
        let directory =
            tempfile::Builder::new().prefix("muster-local").tempdir().expect("directory");
        // Other users' jobs pass through it.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))
            .expect("mode");
        std::fs::create_dir(directory.path().join("work")).expect("work directory");
        std::fs::set_permissions(
            directory.path().join("work"),
            std::fs::Permissions::from_mode(0o777),
        )
        .expect("mode");
        Self { directory, without_cgroup: false }
    }

    /// The same without cgroups.
    pub(crate) fn plain() -> Self {
        let mut site = Self::new();
        site.without_cgroup = true;
        site
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub(crate) fn config(&self) -> LocalConfig {
        LocalConfig {
            state_directory: self.state(),
            shepherd_command: vec![env!("CARGO_BIN_EXE_muster-test-shepherd").to_owned()],
            cluster: "test".to_owned(),
            practice: Some("2x4".parse().expect("practice")),
            without_cgroup: self.without_cgroup,
            reach: None,
            client_socket: None,
            gpu_reader: None,
        }
    }

    pub(crate) fn start(&self) -> Daemon {
        Self::start_with(self.config())
    }

    pub(crate) fn start_with(config: LocalConfig) -> Daemon {
        let engine = LocalEngine::start(config).expect("engine");
        let (sender, observations) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        engine.watch(Arc::new(move |observation| {
            // The test may be over.
            sender.lock().expect("lock").send(observation).ok();
        }));
        Daemon { engine, observations }
    }

    /// The text of a file in the working directory.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn shepherd_pid(&self) -> i32 {
        // The holder of the lock is the shepherd; its socket's peer is too.
        let socket = std::os::unix::net::UnixStream::connect(self.state().join("shepherd.sock"))
            .expect("shepherd");
        nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::PeerCredentials)
            .expect("credentials")
            .pid()
    }
}

impl Site {
    /// Kills all supervisors and their jobs, by their records.
    pub(crate) fn end_everything(&self) {
        for entry in std::fs::read_dir(self.state().join("jobs")).into_iter().flatten().flatten() {
            let Ok(text) = std::fs::read_to_string(entry.path().join("launch.json")) else {
                continue;
            };
            let record: serde_json::Value = serde_json::from_str(&text).expect("record");
            let pid = record["supervisor"]["pid"].as_i64().expect("pid") as i32;
            kill_tree(pid);
            for cgroup in record["cgroups"].as_array().expect("cgroups") {
                let path = PathBuf::from(cgroup.as_str().expect("path"));
                wait_until("its cgroup is gone", || {
                    kill_group(&path);
                    !path.exists() || std::fs::remove_dir(&path).is_ok()
                });
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end_everything();
        if self.state().join("shepherd.sock").exists()
            && let Ok(socket) =
                std::os::unix::net::UnixStream::connect(self.state().join("shepherd.sock"))
        {
            let peer =
                nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::PeerCredentials);
            kill(peer.expect("credentials").pid(), nix::sys::signal::Signal::SIGKILL);
        }
        self.remove_cgroups();
        if let Ok(jobs) = std::fs::read_link(self.state().join("jobs")) {
            std::fs::remove_dir_all(jobs).ok();
        }
    }
}

impl Site {
    /// Removes this state directory's own cgroup in every hierarchy.
    pub(crate) fn remove_cgroups(&self) {
        let Ok(state) = self.state().canonicalize() else { return };
        // The engine's name for it, FNV-1a of the path.
        let hash = state.to_string_lossy().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let own = hierarchy.path().join(format!("muster/{hash:016x}"));
            for below in std::fs::read_dir(&own).into_iter().flatten().flatten() {
                std::fs::remove_dir(below.path()).ok();
            }
            std::fs::remove_dir(own).ok();
        }
    }
}

fn kill_group(path: &Path) {
    let Ok(text) = std::fs::read_to_string(path.join("cgroup.procs")) else { return };
    for pid in text.lines().filter_map(|l| l.parse().ok()) {
        kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            kill_group(&entry.path());
            std::fs::remove_dir(entry.path()).ok();
        }
    }
}

/// Kills a process and its children.
fn kill_tree(pid: i32) {
    let children =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    kill(pid, nix::sys::signal::Signal::SIGKILL);
    for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
        kill_tree(child);
    }
}

pub(crate) fn kill(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).ok();
}

/// A running engine and what it says.
pub(crate) struct Daemon {
    pub engine: LocalEngine,
    pub observations: mpsc::Receiver<Observation>,
}

impl Daemon {
    pub(crate) fn launch(&self, launch: &Launch) {
        self.engine.execute(1, &Order::Launch(Box::new(launch.clone()))).expect("launch taken");
    }

    /// Waits for an observation that `wanted` picks; others are dropped.
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
        mut wanted: impl FnMut(Observation) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let observation = self
                .observations
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("waited in vain: {what}"));
            if let Some(found) = wanted(observation) {
                return found;
            }
        }
    }

    pub(crate) fn started(&self, id: u32) {
        self.wait_for("start", |o| match o {
            Observation::Started { job, .. } if job.0 == id => Some(()),
            Observation::Exited { job, report, .. } if job.0 == id => {
                panic!("it ended: {report:?}")
            }
            _ => None,
        });
    }

    pub(crate) fn exit(&self, id: u32) -> ExitReport {
        self.wait_for("exit", |o| match o {
            Observation::Exited { job, report, .. } if job.0 == id => Some(report),
            _ => None,
        })
    }

    pub(crate) fn run(&self, launch: &Launch) -> ExitReport {
        self.launch(launch);
        self.exit(launch.job.id.0)
    }

    pub(crate) fn stop(&self, id: u32, grace: u64) {
        self.stop_for(id, StopCause::Cancelled(0), grace);
    }

    pub(crate) fn stop_for(&self, id: u32, cause: StopCause, grace: u64) {
        let grace = Seconds(grace);
        let order = Order::Stop { job: JobId(id), attempt: 1, cause: Some(cause), grace };
        // Repeated as the daemon repeats it: on a busy machine an answer may take too long.
        wait_until("stop taken", || match self.engine.execute(1, &order) {
            Ok(()) => true,
            Err(EngineError::Unreachable { .. }) => false,
            Err(error) => panic!("{error}"),
        });
    }

    pub(crate) fn acknowledge(&self, id: u32) {
        let order = Order::Acknowledge { job: JobId(id), attempt: 1 };
        self.engine.execute(1, &order).expect("acknowledged");
    }
}

/// Looks again and again until it holds; for states that nobody announces.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let (_keep, never) = mpsc::channel::<()>();
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        never.recv_timeout(Duration::from_millis(5)).ok();
    }
}

/// A job with a script, one task, one CPU, on the first practice node.
pub(crate) fn script(site: &Site, id: u32, body: &str) -> Launch {
    job(site, id, &format!("#!/bin/sh\n{body}\n"), JobKind::Batch)
}

pub(crate) fn job(site: &Site, id: u32, script: &str, kind: JobKind) -> Launch {
    let owner = Owner {
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        user: "root".to_owned(),
    };
    let spec = JobSpec {
        name: format!("job{id}"),
        owner,
        account: "default".to_owned(),
        qos: "normal".to_owned(),
        partitions: vec!["main".to_owned()],
        kind,
        cwd: site.work().to_string_lossy().into_owned(),
        stdio: Stdio { output: Some("out%j".to_owned()), ..Stdio::default() },
        ..JobSpec::default()
    };
    let share =
        NodeShare { node: NodeId(0), tasks: 1, cpus: CpuSet::first(1), ..NodeShare::default() };
    let placement =
        Placement { partition: "main".to_owned(), nodes: vec![share], ..Placement::default() };
    Launch {
        job: Arc::new(blank_job(id, spec, placement)),
        nodes: vec![Arc::new(node("node1"))],
        components: Vec::new(),
        array: None,
        payload: Arc::new(Payload {
            script: script.to_owned(),
            args: Vec::new(),
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            umask: 0o022,
            ..Payload::default()
        }),
        kill_wait: Seconds(30),
    }
}

pub(crate) fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        engine: EngineName::local(),
        cpus: CpuSet::first(64),
        memory: Mib(1 << 20),
        practice: true,
        availability: Availability::Up,
        ..Node::default()
    }
}

fn blank_job(id: u32, spec: JobSpec, placement: Placement) -> Job {
    Job {
        id: JobId(id),
        spec: Arc::new(spec),
        array: None,
        het: None,
        submitted: Timestamp::from_secs(0),
        eligible: None,
        state: JobState::Starting,
        hold: None,
        time_limit: TimeLimit::Unlimited,
        gates: Vec::new(),
        attempt: 1,
        placement: Some(Arc::new(placement)),
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
        usage: muster_model::Usage::default(),
        steps: Vec::new(),
    }
}

/// Changes the job of a launch.
pub(crate) fn with_job(mut launch: Launch, change: impl FnOnce(&mut Job)) -> Launch {
    change(Arc::make_mut(&mut launch.job));
    launch
}

/// Changes the spec of a launch's job.
pub(crate) fn with_spec(launch: Launch, change: impl FnOnce(&mut JobSpec)) -> Launch {
    with_job(launch, |job| change(Arc::make_mut(&mut job.spec)))
}

/// Changes the placement of a launch's job.
pub(crate) fn with_placement(launch: Launch, change: impl FnOnce(&mut Placement)) -> Launch {
    with_job(launch, |job| change(Arc::make_mut(job.placement.as_mut().expect("placement"))))
}
