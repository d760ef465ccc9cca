//! The engine contract on a real control plane whose pods truly run, and what is special to one.
//!
//! `cargo xtask test --only k8s` starts one, and names it in `MUSTER_TEST_KUBECONFIG` and the
//! program that runs in its pods in `MUSTER_TEST_PROGRAM`. Without them nothing is tested here.

mod manifest;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use muster_engine::EngineError;
use muster_engine::contract::Subject;
use muster_engine_k8s::run::{KubernetesEngine, RunnerConfig};
use muster_model::{EndCause, EngineName, Volume};
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};

/// Where the bed is, and muster; or a line that there is none.
fn bed() -> Option<(PathBuf, String)> {
    let at = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let found = at("MUSTER_TEST_KUBECONFIG").zip(at("MUSTER_TEST_PROGRAM"));
    if found.is_none() {
        eprintln!(
            "skipped: MUSTER_TEST_KUBECONFIG and MUSTER_TEST_PROGRAM are not set; \
             cargo xtask test --only k8s"
        );
    }
    found.map(|(kubeconfig, program)| (kubeconfig, program.to_string_lossy().into_owned()))
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let usual = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &usual).await;
    kube::Client::try_from(config.expect("a cluster")).expect("a client")
}

/// Makes what a site makes for a daemon that runs jobs, and nothing else.
fn install(kubeconfig: &Path) {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(async {
            let client = client(kubeconfig).await;
            manifest::install(&client, "runner.yaml").await;
        });
    });
}

fn config(kubeconfig: &Path, program: &str, state: &Path, shared: &Path) -> RunnerConfig {
    let shared = shared.to_string_lossy().into_owned();
    RunnerConfig {
        name: EngineName("kubernetes".to_owned()),
        state_directory: state.to_owned(),
        cluster: "bed".to_owned(),
        kubeconfig: Some(kubeconfig.to_owned()),
        namespace: "muster-jobs".to_owned(),
        image: Some("none".to_owned()),
        muster_image: None,
        program: program.to_owned(),
        mounts: vec![Volume { source: shared.clone(), target: shared, read_only: false }],
        partitions: BTreeMap::new(),
    }
}

fn subject() -> Option<Subject> {
    let (kubeconfig, program) = bed()?;
    let state = tempfile::tempdir().expect("a folder");
    let shared = state.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    install(&kubeconfig);
    // With the rights of the manifest and no others.
    let own = kubeconfig.with_file_name("kubeconfig-runner");
    let config = config(&own, &program, state.path(), &shared);
    let engine = KubernetesEngine::start(config).expect("an engine");
    let subject = Subject::new(Arc::new(engine), shared).keeping(state);
    // Folders of nodes are not for everybody.
    let folder = |spec: &mut muster_model::JobSpec| {
        spec.volumes.push(Volume {
            source: "/etc".to_owned(),
            target: "/mnt".to_owned(),
            read_only: true,
        });
    };
    Some(subject.spoiled_by(folder))
}

muster_engine::contract_suite!(subject());

/// The way to the API server, which can be closed: what is open breaks off, and nothing opens.
struct Way {
    open: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Way {
    /// A way to this port; gives the port in front of it.
    fn to(port: u16) -> (Arc<Self>, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let way = Arc::new(Self { open: AtomicBool::new(true), streams: Mutex::default() });
        let shared = Arc::clone(&way);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let there = TcpStream::connect(("127.0.0.1", port)).expect("the API server");
                shared.join(&stream, &there);
                shared.join(&there, &stream);
            }
        });
        (way, own)
    }

    /// What comes from one goes to the other.
    fn join(&self, from: &TcpStream, to: &TcpStream) {
        let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        let (mut from, mut to) = (copy(from), copy(to));
        let mut streams = self.streams.lock().expect("no panic");
        if !self.open.load(Ordering::SeqCst) {
            from.shutdown(Shutdown::Both).ok();
            to.shutdown(Shutdown::Both).ok();
            return;
        }
        streams.push(copy(&from));
        drop(streams);
        std::thread::spawn(move || {
            std::io::copy(&mut from, &mut to).ok();
            to.shutdown(Shutdown::Both).ok();
        });
    }

    fn set(&self, open: bool) {
        let mut streams = self.streams.lock().expect("no panic");
        self.open.store(open, Ordering::SeqCst);
        if !open {
            streams.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
    }
}

#[test]
fn a_cluster_that_is_away_is_unreachable_and_what_happened_meanwhile_is_seen_later() {
    let Some((kubeconfig, program)) = bed() else { return };
    install(&kubeconfig);
    let state = tempfile::tempdir().expect("a folder");
    let shared = state.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    let own = kubeconfig.with_file_name("kubeconfig-runner");
    let text = std::fs::read_to_string(own).expect("a kubeconfig");
    let (_, rest) = text.split_once("https://127.0.0.1:").expect("a server");
    let port = rest.split('"').next().expect("a port");
    let (way, front) = Way::to(port.parse().expect("a number"));
    let file = state.path().join("kubeconfig");
    std::fs::write(&file, text.replace(port, &front.to_string())).expect("written");
    let engine = KubernetesEngine::start(config(&file, &program, state.path(), &shared));
    let subject = Subject::new(Arc::new(engine.expect("an engine")), &shared).keeping(state);
    let go = shared.join("go");
    let waits = format!("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.05; done\nexit 3\n", go.display());
    subject.order(&subject.launch(1, &waits));
    subject.wait_for_start(1);
    let second = subject.launch(2, "#!/bin/sh\nexit 0\n");
    way.set(false);
    let refused = subject.engine().execute(1, &second);
    assert!(matches!(refused, Err(EngineError::Unreachable { .. })), "{refused:?}");
    // What runs goes on, and is still listed.
    assert_eq!(subject.listing().running.len(), 2);
    std::fs::write(go, "").expect("written");
    way.set(true);
    subject.order(&second);
    let first = subject.wait_for_exit(1);
    assert_eq!((first.cause, first.status.code), (EndCause::Exited, 3));
    assert_eq!(subject.wait_for_exit(2).cause, EndCause::Exited);
}

#[test]
fn a_job_whose_pod_somebody_deletes_is_lost() {
    let Some((kubeconfig, _)) = bed() else { return };
    let subject = subject().expect("a bed");
    let name = format!("deleted-{}", std::process::id());
    let runs = "#!/bin/sh\nsleep 100000\n";
    subject.order(&subject.launch_of(1, runs, |spec| spec.name.clone_from(&name)));
    subject.wait_for_start(1);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let pods: Api<Pod> = Api::namespaced(client(&kubeconfig).await, "muster-jobs");
        let all = pods.list(&ListParams::default()).await.expect("pods");
        let named = |pod: &&Pod| pod.annotations().get("muster.dev/job-name") == Some(&name);
        let found = all.items.iter().find(named).expect("its pod");
        pods.delete(&found.name_any(), &DeleteParams::default()).await.expect("deleted");
    });
    let report = subject.wait_for_exit(1);
    assert_eq!(report.cause, EndCause::NodeLost, "{report:?}");
    assert!(report.message.contains("its pod"), "{report:?}");
}
