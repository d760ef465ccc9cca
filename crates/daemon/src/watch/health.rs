//! Nodes of this machine get no new jobs where its own signs ask for that.

use crate::app::App;
use crate::identity;
use muster_control::command::Command;
use muster_model::{EngineName, State};
use muster_node_metrics::apart::Apart;
use muster_node_metrics::health::Health;
use nix::sys::statvfs::statvfs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the signs are looked at.
const PERIOD: Duration = Duration::from_mins(1);

/// Looks at the machine's health where the configuration asks for that, until the daemon ends.
pub(crate) async fn keep(app: Arc<App>) {
    let mut health = Health::default();
    let space = Apart::new({
        let dir = app.state_dir.clone();
        move || free(&dir)
    });
    let space = Arc::new(Mutex::new(space));
    loop {
        tokio::time::sleep(PERIOD).await;
        if !app.config.load().daemon.health_drain {
            // Switched on later, it counts from then.
            health = Health::default();
            continue;
        }
        let (looked, space) = (Arc::clone(&app), Arc::clone(&space));
        let taken = tokio::task::spawn_blocking(move || {
            let free = space.lock().unwrap_or_else(PoisonError::into_inner).get(PATIENCE);
            let found = health.look(looked.watch.seconds(), &looked.watch.snapshot(), free);
            (health, found)
        });
        let Ok((back, found)) = taken.await else {
            tracing::error!("looking at the machine's health failed");
            health = Health::default();
            continue;
        };
        health = back;
        if let Some(order) = order(&app.handle.state(), &found)
            && let Err(error) =
                crate::http::jobs::command(&app.handle, &identity::daemon(), order).await
        {
            tracing::warn!(%error, "nodes could not be drained");
        }
    }
}

/// How long a filesystem may take to say how full it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// What drains this machine's nodes for these signs; those that are drained keep their reason.
fn order(state: &State, found: &[String]) -> Option<Command> {
    let own = state.nodes.values().filter(|node| node.engine == EngineName::local());
    let nodes: Vec<String> =
        own.filter(|node| node.drain.is_none()).map(|node| node.name.clone()).collect();
    if found.is_empty() || nodes.is_empty() {
        return None;
    }
    let reason = found.join("; ");
    tracing::warn!(%reason, "draining this machine's nodes");
    let end = reason.floor_char_boundary(REASON_MAX);
    Some(Command::DrainNodes { nodes, reason: reason[..end].to_owned() })
}

/// A reason is no longer; what does not fit is in the log.
const REASON_MAX: usize = 200;

/// The share that is free to others than root where the daemon and its jobs write.
fn free(dir: &Path) -> Option<f64> {
    let found = statvfs(dir).ok()?;
    let (free, all) = (found.blocks_available() as f64, found.blocks() as f64);
    (all > 0.0).then(|| free / all)
}

#[cfg(test)]
mod tests {
    use super::{free, order};
    use muster_control::command::Command;
    use muster_model::{Drain, EngineName, Node, NodeId, State, Timestamp};
    use std::sync::Arc;

    #[test]
    fn this_machines_nodes_are_drained_and_no_others() {
        let mut state = State::default();
        let drain = Drain {
            reason: "a fan".to_owned(),
            by: "root".to_owned(),
            since: Timestamp::from_secs(1),
        };
        let engine = EngineName::local;
        let nodes = [
            ("a", engine(), None),
            ("b", engine(), Some(drain)),
            ("c", EngineName("x".to_owned()), None),
        ];
        for (id, (name, engine, drain)) in nodes.into_iter().enumerate() {
            let id = NodeId(u32::try_from(id).unwrap());
            let node = Node { id, name: name.to_owned(), engine, drain, ..Node::default() };
            state.nodes.insert(id, Arc::new(node));
        }
        assert!(order(&state, &[]).is_none());
        let found = ["GPU x reported Xid 79".to_owned(), "é".repeat(300)];
        let Some(Command::DrainNodes { nodes, reason }) = order(&state, &found) else {
            panic!("no order")
        };
        assert_eq!(nodes, ["a"]);
        assert!(reason.starts_with("GPU x reported Xid 79; é") && reason.len() <= 200);
    }

    #[test]
    fn a_folder_has_a_share_that_is_free() {
        let free = free(&std::env::temp_dir()).expect("a filesystem");
        assert!((0.0..=1.0).contains(&free), "{free}");
    }
}
