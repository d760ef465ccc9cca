//! Watching nodes and pods for as long as the engine lives.

use super::Shared;
use super::seen::Changed;
use crate::read::PodKey;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Resource, ResourceExt};
use muster_engine::Observation;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A page of a listing.
const PAGE: u32 = 500;

/// What was made and is not needed any more is looked for so often.
const SWEEP: Duration = Duration::from_secs(30);

/// A stream of one kind, put to the shared state.
pub(super) fn start(shared: &Arc<Shared>) {
    let client = || shared.cluster.client.clone();
    let weak = || Arc::downgrade(shared);
    let mut told = BTreeMap::new();
    let take = move |shared: &Arc<Shared>, event| take_node(shared, event, &mut told);
    shared.handle.spawn(follow(Api::<Node>::all(client()), weak(), take));
    let mut listed = BTreeMap::new();
    let take = move |shared: &Arc<Shared>, event| take_pod(shared, event, &mut listed);
    shared.handle.spawn(follow(Api::<Pod>::all(client()), weak(), take));
    shared.handle.spawn(sweep(weak()));
}

async fn follow<K, F>(api: Api<K>, shared: Weak<Shared>, mut take: F)
where
    K: Resource + Clone + Debug + Send + DeserializeOwned + 'static,
    F: FnMut(&Arc<Shared>, Event<K>) + Send,
{
    let mut stream = watcher(api, Config::default().page_size(PAGE)).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        let Some(shared) = shared.upgrade() else { return };
        match event {
            Ok(event) => take(&shared, event),
            Err(error) => tracing::warn!(%error, "the cluster cannot be watched"),
        }
    }
}

async fn sweep(shared: Weak<Shared>) {
    let mut turns = tokio::time::interval(SWEEP);
    loop {
        turns.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        shared.sweep().await;
    }
}

/// Takes what is told of nodes; a listing counts once it is whole, until then the one before it does.
fn take_node(shared: &Arc<Shared>, event: Event<Node>, told: &mut BTreeMap<String, Node>) {
    let mut seen = shared.seen();
    match event {
        Event::Init => return told.clear(),
        Event::InitApply(node) => {
            told.insert(node.name_any(), node);
            return;
        }
        Event::InitDone => {
            seen.nodes = std::mem::take(told);
            seen.listed.0 = true;
            seen.bell.notify_all();
        }
        Event::Apply(node) => {
            let name = node.name_any();
            // A kubelet says every few seconds that it is there.
            let same = seen.nodes.get(&name).is_some_and(|known| {
                let has = |node: &Node| super::nodes::standing(node).ok();
                has(known) == has(&node)
            });
            seen.nodes.insert(name, node);
            if same {
                return;
            }
        }
        Event::Delete(node) => {
            seen.nodes.remove(&node.name_any());
        }
    }
    let whole = seen.is_whole();
    drop(seen);
    if whole {
        shared.tell(Observation::NodesChanged);
    }
}

fn take_pod(shared: &Arc<Shared>, event: Event<Pod>, listed: &mut BTreeMap<PodKey, String>) {
    let mut seen = shared.seen();
    let instance = &shared.instance;
    let mut changed = Changed::default();
    let mut attempts = Vec::new();
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(pod) => {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            listed.insert(PodKey { namespace, name }, node.unwrap_or_default());
            changed = seen.take(pod, instance, false);
        }
        Event::InitDone => {
            attempts = seen.keep_only(&std::mem::take(listed));
            seen.listed.1 = true;
            seen.bell.notify_all();
        }
        Event::Apply(pod) => changed = seen.take(pod, instance, false),
        Event::Delete(pod) => changed = seen.take(pod, instance, true),
    }
    drop(seen);
    if let Some(node) = changed.node {
        shared.tell_foreign(&node);
    }
    for key in changed.attempt.into_iter().chain(attempts) {
        shared.advance(key);
    }
}
