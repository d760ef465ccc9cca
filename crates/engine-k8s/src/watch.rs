//! What the API server tells, as a stream of changes.
//!
//! Each kind is listed in pages and then watched; a watch that broke is taken up where it ended or
//! listed anew. Pods that are over are not asked for.

use crate::dra;
use crate::mirror::{Change, Kind};
use crate::read::{GangName, GroupKind, budget, claim, group, storage_class, volume};
use crate::{Cluster, K8sError};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Resource, ResourceExt};
use std::collections::BTreeSet;
use std::fmt::Debug;
use tokio::sync::mpsc;

/// A page of a listing.
const PAGE: u32 = 500;

/// The pods that still need something.
const LIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The API group of devices, and its version that is understood.
const DEVICES: (&str, &str) = ("resource.k8s.io", "v1");

/// The API groups in which groups of pods are told.
const GROUPS: [(&str, GroupKind); 3] = [
    ("scheduling.k8s.io", GroupKind::Upstream),
    ("scheduling.x-k8s.io", GroupKind::Coscheduling),
    ("scheduling.volcano.sh", GroupKind::Volcano),
];

impl Cluster {
    /// Watches everything that scheduling depends on. Gives the kinds that are watched: each is
    /// told as [`Change::Listed`] once it is known whole. The watches end with the receiver.
    ///
    /// # Errors
    /// [`K8sError`] where the cluster cannot be asked which kinds it has.
    pub async fn watch(&self, to: mpsc::Sender<Change>) -> Result<BTreeSet<Kind>, K8sError> {
        let mut kinds = BTreeSet::from([
            Kind::Node,
            Kind::Pod,
            Kind::Namespace,
            Kind::Budget,
            Kind::Claim,
            Kind::Volume,
            Kind::Class,
        ]);
        let client = || self.client.clone();
        let one = |found: Option<Change>| found.into_iter().collect::<Vec<_>>();
        for (name, kind) in GROUPS {
            let Some(resource) = self.pod_groups(name).await? else { continue };
            kinds.insert(Kind::Group(kind));
            let api: Api<DynamicObject> = Api::all_with(client(), &resource);
            let read = move |object: DynamicObject| one(read_group(kind, &object));
            follow(api, Kind::Group(kind), watcher::Config::default(), read, to.clone());
        }
        let config = watcher::Config::default;
        follow(
            Api::<Node>::all(client()),
            Kind::Node,
            config(),
            |node| vec![Change::Node(Box::new(node))],
            to.clone(),
        );
        follow(
            Api::<Namespace>::all(client()),
            Kind::Namespace,
            config(),
            |n| vec![Change::Namespace(n.name_any(), n.labels().clone())],
            to.clone(),
        );
        follow(
            Api::<PodDisruptionBudget>::all(client()),
            Kind::Budget,
            config(),
            |told| vec![Change::Budget(budget(&told))],
            to.clone(),
        );
        follow(
            Api::<PersistentVolumeClaim>::all(client()),
            Kind::Claim,
            config(),
            |c| vec![Change::Claim(c.namespace().unwrap_or_default(), c.name_any(), claim(&c))],
            to.clone(),
        );
        follow(
            Api::<PersistentVolume>::all(client()),
            Kind::Volume,
            config(),
            move |v| one(volume(&v).ok().map(|places| Change::Volume(v.name_any(), places))),
            to.clone(),
        );
        follow(
            Api::<StorageClass>::all(client()),
            Kind::Class,
            config(),
            |c| vec![Change::Class(c.name_any(), storage_class(&c))],
            to.clone(),
        );
        kinds.extend(self.watch_devices(&to).await?);
        let live = config().fields(LIVE);
        let pods = Api::<Pod>::all(client());
        follow(pods, Kind::Pod, live, |pod| vec![Change::Pod(Box::new(pod))], to);
        Ok(kinds)
    }

    /// Watches devices and claims where the cluster has them in the form that is understood.
    async fn watch_devices(&self, to: &mpsc::Sender<Change>) -> Result<Vec<Kind>, K8sError> {
        let groups = self.client.list_api_groups().await?;
        let mut found = groups.groups.iter().filter(|group| group.name == DEVICES.0);
        if !found.any(|group| group.versions.iter().any(|one| one.version == DEVICES.1)) {
            return Ok(Vec::new());
        }
        let client = || self.client.clone();
        let told = |told: dra::Told| vec![Change::Devices(told)];
        follow(
            Api::<ResourceSlice>::all(client()),
            Kind::Slice,
            watcher::Config::default(),
            move |one| told(dra::Told::Slice(Box::new(dra::slice(&one)))),
            to.clone(),
        );
        follow(
            Api::<DeviceClass>::all(client()),
            Kind::DeviceClass,
            watcher::Config::default(),
            move |one| told(dra::Told::Class(one.name_any(), Box::new(dra::class(&one)))),
            to.clone(),
        );
        follow(
            Api::<ResourceClaim>::all(client()),
            Kind::ResourceClaim,
            watcher::Config::default(),
            move |one| told(dra::Told::Claim(Box::new(dra::resource_claim(&one)))),
            to.clone(),
        );
        Ok(vec![Kind::Slice, Kind::DeviceClass, Kind::ResourceClaim])
    }

    /// `PodGroup` as an API group has it, in the version that it prefers; `None` where the cluster
    /// has none.
    async fn pod_groups(&self, group: &str) -> Result<Option<ApiResource>, K8sError> {
        let groups = self.client.list_api_groups().await?;
        if !groups.groups.iter().any(|known| known.name == group) {
            return Ok(None);
        }
        let group = kube::discovery::group(&self.client, group).await?;
        let of_kind = |(resource, _): &(ApiResource, _)| resource.kind == "PodGroup";
        Ok(group.resources_by_stability().into_iter().find(of_kind).map(|found| found.0))
    }
}

fn read_group(kind: GroupKind, object: &DynamicObject) -> Option<Change> {
    let name = GangName { namespace: object.namespace()?, kind, name: object.name_any() };
    Some(Change::Group(name, group(object.data.get("spec")?)))
}

/// The change that one object of a group kind is gone.
fn gone(kind: Kind, namespace: String, name: String) -> Change {
    match kind {
        Kind::Group(kind) => Change::GroupGone(GangName { namespace, kind, name }),
        kind => Change::Gone(kind, namespace, name),
    }
}

/// Watches one kind until nobody listens any more.
fn follow<K, F>(api: Api<K>, kind: Kind, config: watcher::Config, read: F, to: mpsc::Sender<Change>)
where
    K: Resource + Clone + Debug + Send + Sync + serde::de::DeserializeOwned + 'static,
    F: Fn(K) -> Vec<Change> + Send + 'static,
{
    tokio::spawn(async move {
        let stream = watch(api, config.page_size(PAGE)).default_backoff();
        let mut stream = stream.map_err(|error| tracing::warn!(?kind, %error, "watch")).boxed();
        let mut listed = BTreeSet::new();
        while let Some(event) = stream.next().await {
            let Ok(event) = event else { continue };
            let id = |o: &K| (o.namespace().unwrap_or_default(), o.name_any());
            let changes = match event {
                Event::Init => {
                    listed.clear();
                    Vec::new()
                }
                Event::InitApply(object) => {
                    listed.insert(id(&object));
                    read(object)
                }
                Event::InitDone => vec![Change::Listed(kind, std::mem::take(&mut listed))],
                Event::Apply(object) => read(object),
                Event::Delete(object) => {
                    let (namespace, name) = id(&object);
                    vec![gone(kind, namespace, name)]
                }
            };
            for change in changes {
                if to.send(change).await.is_err() {
                    return;
                }
            }
        }
    });
}
