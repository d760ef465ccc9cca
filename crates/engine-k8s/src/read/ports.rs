//! Host ports, as labels of pods that keep others with the same port from a node.

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};
use muster_model::{Expression, JobTerm, Labels, Operator, Term};

/// Every address of a node.
const ANY: &str = "0.0.0.0";

/// Begins the labels of ports.
const PORT: &str = ".port/";

/// A port of the node, as (port and protocol, address).
fn taken(port: &ContainerPort) -> Option<(String, String)> {
    let number = port.host_port.filter(|number| *number > 0)?;
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let address = port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or(ANY);
    Some((format!("{PORT}{protocol}/{number}"), address.to_owned()))
}

/// The ports that a pod takes: of its containers, and of init containers that stay.
fn all(spec: &PodSpec) -> impl Iterator<Item = (String, String)> {
    let stay = spec.init_containers.iter().flatten();
    let stay = stay.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(stay).flat_map(|c| c.ports.iter().flatten()).filter_map(taken)
}

/// The labels that tell others of its ports.
pub(super) fn labels(spec: &PodSpec) -> Labels {
    let mut labels = Labels::new();
    for (port, address) in all(spec) {
        labels.insert(format!("{port}/{address}"), String::new());
        labels.insert(port, String::new());
    }
    labels
}

/// What it keeps away from: the same port of the same address, or of any where one has them all.
pub(super) fn apart(spec: &PodSpec) -> Vec<JobTerm> {
    let mut terms: Vec<JobTerm> = Vec::new();
    for (port, address) in all(spec) {
        let labels = match address.as_str() {
            ANY => vec![port],
            _ => vec![format!("{port}/{address}"), format!("{port}/{ANY}")],
        };
        terms.extend(labels.into_iter().map(|key| {
            let has = Expression { key, operator: Operator::Exists, values: Vec::new() };
            JobTerm { key: "node".to_owned(), selector: Term { all: vec![has] } }
        }));
    }
    terms.sort();
    terms.dedup();
    terms
}

/// True where a term is about a port.
pub fn is_port(term: &JobTerm) -> bool {
    term.selector.all.iter().any(|e| e.key.starts_with(PORT))
}
