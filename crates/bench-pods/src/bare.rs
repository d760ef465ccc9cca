//! The client that everybody is measured by: it has the same watches open, decides nothing, and
//! makes the writes that a scheduler makes (a binding and its event) with as many connections.

use crate::{READY, SCHEDULER};
use muster_engine_k8s::mirror::Change;
use muster_engine_k8s::read::PodKey;
use muster_engine_k8s::write::Note;
use muster_engine_k8s::{Cluster, K8sError};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Changes that wait to be looked at.
const HEARD: usize = 4096;

/// Binds every pod that is there at the start, and goes on watching.
pub(crate) async fn run(cluster: Cluster, connections: usize) -> Result<(), K8sError> {
    let (to, mut changes) = mpsc::channel(HEARD);
    let mut awaited = cluster.watch(to).await?;
    let (mut nodes, mut pods) = (Vec::new(), Vec::new());
    while !awaited.is_empty() {
        match changes.recv().await {
            Some(Change::Node(node)) => nodes.extend(node.metadata.name),
            Some(Change::Pod(pod)) => {
                let spec = pod.spec.unwrap_or_default();
                let named = spec.scheduler_name.as_deref() == Some(SCHEDULER);
                if named && spec.node_name.is_none() {
                    let told = pod.metadata;
                    let key = PodKey {
                        namespace: told.namespace.unwrap_or_default(),
                        name: told.name.unwrap_or_default(),
                    };
                    pods.push((key, told.uid.unwrap_or_default()));
                }
            }
            Some(Change::Listed(kind, _)) => {
                awaited.remove(&kind);
            }
            Some(_) => {}
            None => return Ok(()),
        }
    }
    println!("{READY}");
    let slots = Arc::new(Semaphore::new(connections));
    for ((pod, uid), node) in pods.into_iter().zip(nodes.into_iter().cycle()) {
        let (cluster, slots) = (cluster.clone(), Arc::clone(&slots));
        tokio::spawn(async move {
            let Ok(_slot) = slots.acquire().await else { return };
            if let Err(error) = write(&cluster, pod, uid, &node).await {
                eprintln!("{error}");
            }
        });
    }
    while changes.recv().await.is_some() {}
    Ok(())
}

async fn write(cluster: &Cluster, pod: PodKey, uid: String, node: &str) -> Result<(), K8sError> {
    cluster.bind(&pod, &uid, node).await?;
    let message = format!("Successfully assigned {pod} to {node}");
    let note = Note { pod, uid, kind: "Normal", reason: "Scheduled", action: "Binding", message };
    cluster.note(&note, SCHEDULER).await
}
