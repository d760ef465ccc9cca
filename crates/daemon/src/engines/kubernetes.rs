//! The engine that runs jobs on a Kubernetes cluster, as the configuration says.

use super::KUBERNETES;
use crate::error::DaemonError;
use crate::setup::Setup;
use muster_engine::Engine;
use muster_engine_k8s::K8sError;
use muster_engine_k8s::run::{KubernetesEngine, RunnerConfig};
use muster_model::EngineName;
use std::sync::Arc;

pub(super) fn start(setup: &Setup) -> Result<Arc<dyn Engine>, DaemonError> {
    let section = &setup.config.kubernetes;
    let failed =
        |error: K8sError| DaemonError::Other { code: error.code(), why: error.to_string() };
    let engine = KubernetesEngine::start(RunnerConfig {
        name: EngineName(KUBERNETES.to_owned()),
        state_directory: setup.state_dir.clone(),
        cluster: setup.config.cluster.name.clone(),
        kubeconfig: section.kubeconfig.clone(),
        namespace: section.namespace.clone(),
        image: section.image.clone(),
        muster_image: section.muster_image.clone(),
        program: section.program.clone(),
        mounts: section.volumes(),
        partitions: section.labels(),
    });
    Ok(Arc::new(engine.map_err(failed)?))
}
