//! The way to a cluster.

use crate::K8sError;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;
use std::time::Duration;

/// An answer that is not a watch comes within this time.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster that can be talked to.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
}

impl Cluster {
    /// Finds the cluster: by this file, else as `kubectl` does (`KUBECONFIG`, `~/.kube/config`),
    /// else by the service account of the pod that muster runs in.
    ///
    /// # Errors
    /// [`K8sError::NoCluster`].
    pub async fn find(kubeconfig: Option<&Path>) -> Result<Self, K8sError> {
        let missing = |why: String| K8sError::NoCluster { why };
        let mut config = match kubeconfig {
            Some(file) => {
                let read = Kubeconfig::read_from(file).map_err(|e| missing(e.to_string()))?;
                let options = KubeConfigOptions::default();
                kube::Config::from_custom_kubeconfig(read, &options)
                    .await
                    .map_err(|e| missing(e.to_string()))?
            }
            None => kube::Config::infer().await.map_err(|e| missing(e.to_string()))?,
        };
        // Watches last longer than any answer; each write has a limit of its own.
        config.read_timeout = None;
        config.write_timeout = Some(PATIENCE);
        Ok(Self { client: Client::try_from(config).map_err(|e| missing(e.to_string()))? })
    }

    /// The API server's version, as `v1.36.3`.
    ///
    /// # Errors
    /// [`K8sError`].
    pub async fn version(&self) -> Result<String, K8sError> {
        Ok(self.client.apiserver_version().await?.git_version)
    }
}
