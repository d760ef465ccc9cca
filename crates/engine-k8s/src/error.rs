//! What can go wrong between muster and an API server.

use crate::read::PodKey;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// An answer's text is told so far.
const SAID_MAX: usize = 500;

/// Why something could not be done at the API server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum K8sError {
    /// Where the API server is, or who muster is there, is not said anywhere.
    #[error(
        "no way to a Kubernetes cluster: {why}; set KUBECONFIG, or name a file with --kubeconfig"
    )]
    NoCluster {
        /// What was found instead.
        why: String,
    },
    /// It does not answer.
    #[error("the API server does not answer: {why}")]
    Unreachable {
        /// What was seen instead.
        why: String,
    },
    /// It refuses.
    #[error("the API server refuses: {said} ({code})")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Its sentence.
        said: String,
    },
    /// This term of the leader is over, or may be.
    #[error("the lease `{lease}` was not renewed for {} s: another may schedule now", limit.as_secs())]
    NotLeader {
        /// The lease.
        lease: String,
        /// The time in which it had to be renewed.
        limit: Duration,
    },
    /// What was handed over cannot be written down.
    #[error("the journal {} cannot be used: {why}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A pod was not where it was to be changed.
    #[error("pod {0} is gone, or is another one by now")]
    Gone(PodKey),
}

impl K8sError {
    /// Its stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoCluster { .. } => "E_K8S_NO_CLUSTER",
            Self::Unreachable { .. } => "E_K8S_UNREACHABLE",
            Self::Refused { .. } => "E_K8S_REFUSED",
            Self::NotLeader { .. } => "E_K8S_NOT_LEADER",
            Self::Journal { .. } => "E_K8S_JOURNAL",
            Self::Gone(_) => "E_K8S_GONE",
        }
    }

    /// True where the same may go well a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => *code == 429 || *code >= 500,
            Self::NoCluster { .. }
            | Self::NotLeader { .. }
            | Self::Journal { .. }
            | Self::Gone(_) => false,
        }
    }
}

impl From<kube::Error> for K8sError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let said = status.message.chars().take(SAID_MAX).collect();
                Self::Refused { code: status.code, said }
            }
            other => Self::Unreachable { why: chain(&other) },
        }
    }
}

/// An error with what is behind it, without the query strings of addresses.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        let more = behind.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = behind.source();
    }
    text.chars().take(SAID_MAX).collect()
}
