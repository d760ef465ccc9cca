//! The engine contract on a real control plane whose pods truly run, and what is special to one.
//!
//! `cargo xtask test --only k8s` starts one, and names it in `MUSTER_TEST_KUBECONFIG` and the
//! program that runs in its pods in `MUSTER_TEST_PROGRAM`. Without them nothing is tested here.

mod manifest;

use kube::config::{KubeConfigOptions, Kubeconfig};
use muster_engine::contract::Subject;
use muster_engine_k8s::run::{KubernetesEngine, RunnerConfig};
use muster_model::{EngineName, Volume};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

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

/// Makes what a site makes for a daemon that runs jobs, and nothing else.
fn install(kubeconfig: &Path) {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(async {
            let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
            let usual = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(read, &usual).await;
            let client = kube::Client::try_from(config.expect("a cluster")).expect("a client");
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
