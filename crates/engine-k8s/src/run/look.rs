//! What becomes of attempts: their pods are bound, run and end, and are made to end.

use super::Shared;
use super::ending::{self, Standing};
use super::objects::{INSTANCE, key_of, name};
use super::seen::PodSeen;
use crate::K8sError;
use crate::read::PodKey;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ListParams};
use muster_engine::Observation;
use muster_engine::book::{Attempt, Key, Phase};
use muster_engine::now;
use muster_model::{EndCause, ExitReport};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an attempt that is seen so needs done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Pods to be bound, each to this node.
    pub(super) bind: Vec<(PodKey, String, String)>,
    /// Pods that are to end.
    pub(super) end: Vec<PodKey>,
}

impl Shared {
    /// Looks at an attempt's pods, and does what follows.
    pub(super) fn advance(&self, key: Key) {
        let parts: BTreeMap<u32, (PodKey, PodSeen)> = match self.seen().parts.get(&key) {
            Some(parts) => parts.clone(),
            None => return,
        };
        let open = |attempt: &&Attempt| attempt.is_open();
        let Some(attempt) = self.book().get(key).filter(open).cloned() else {
            if self.book().get(key).is_none() {
                self.forget_parts(key);
            }
            return;
        };
        let Some((_, first)) = parts.get(&0) else { return };
        self.told_start(key, &attempt, first);
        if parts.values().all(|(_, pod)| pod.over) {
            let report = ending::report(&attempt, first, now());
            self.exited(key, report);
            return;
        }
        let needs = needs(&attempt, &parts);
        self.carry_out(key, &attempt, needs);
    }

    fn told_start(&self, key: Key, attempt: &Attempt, first: &PodSeen) {
        let Standing::Runs(started) = ending::standing(first) else { return };
        if attempt.phase != Phase::Accepted {
            return;
        }
        let started = started.max(attempt.accepted).min(now());
        self.book().change(key, |attempt| attempt.phase = Phase::Running(started));
        self.tell(Observation::Started { job: key.job, attempt: key.attempt });
    }

    fn carry_out(&self, key: Key, attempt: &Attempt, needs: Needs) {
        for (pod, uid, node) in needs.bind {
            let cluster = self.cluster.clone();
            self.handle.spawn(async move {
                // Whatever else it is, the pod stays unbound and is seen so again.
                if let Err(error) = cluster.bind(&pod, &uid, &node).await {
                    tracing::warn!(%pod, %error, "cannot be bound");
                }
            });
        }
        let grace = if attempt.stopping { None } else { Some(0) };
        for pod in needs.end {
            tracing::debug!(job = %key.job, %pod, "is to end");
            let cluster = self.cluster.clone();
            self.handle.spawn(async move {
                if let Err(error) = cluster.delete_pod(&pod, grace).await {
                    tracing::warn!(%pod, %error, "cannot be deleted");
                }
            });
        }
    }

    /// Forgets pods of an attempt that nobody asks for any more, once none of them is left.
    fn forget_parts(&self, key: Key) {
        let mut seen = self.seen();
        let gone = |parts: &BTreeMap<u32, (PodKey, PodSeen)>| parts.values().all(|(_, p)| p.over);
        if seen.parts.get(&key).is_some_and(gone) {
            seen.parts.remove(&key);
        }
    }

    /// Attempts whose pods nobody told of, pods that were not bound, and objects that nobody needs.
    pub(super) async fn sweep(self: &Arc<Self>) {
        if !self.seen().is_whole() {
            return;
        }
        let api: Api<Job> = Api::namespaced(self.cluster.client.clone(), &self.config.namespace);
        let list = ListParams::default().labels(&format!("{INSTANCE}={}", self.instance));
        let jobs = match self.cluster.within(api.list(&list)).await {
            Ok(jobs) => jobs,
            Err(error) => return tracing::warn!(%error, "its Jobs cannot be listed"),
        };
        let labelled = |job: &Job| key_of(job.metadata.labels.as_ref()?, &self.instance);
        let there: Vec<Key> = jobs.items.iter().filter_map(labelled).collect();
        for key in &there {
            let known = self.book().get(*key).is_some();
            if !known && let Err(error) = self.remove(*key).await {
                tracing::warn!(job = %key.job, %error, "its Job cannot be deleted");
            }
        }
        let open: Vec<(Key, Attempt)> = {
            let book = self.book();
            let open = book.iter().filter(|(_, a)| a.is_open() && a.id.is_some());
            open.map(|(key, attempt)| (*key, attempt.clone())).collect()
        };
        for (key, attempt) in open {
            let has_pods = self.seen().parts.contains_key(&key);
            if has_pods {
                self.advance(key);
            } else if !there.contains(&key) {
                self.vanished(key, &attempt);
            }
        }
    }

    /// Its Job is gone, and so are its pods.
    fn vanished(&self, key: Key, attempt: &Attempt) {
        let (cause, why) = match attempt.stopping {
            true => (EndCause::Stopped, ""),
            false => (EndCause::NodeLost, "its Job is gone from the cluster"),
        };
        self.exited(key, ExitReport::never_ran(cause, why, now()));
    }

    /// Deletes an attempt's Job, and with it everything of it.
    pub(super) async fn remove(&self, key: Key) -> Result<(), K8sError> {
        self.cluster.delete_job(&self.config.namespace, &name(&self.instance, key)).await
    }
}

/// What is to be done about the pods of an attempt that is not over. They are bound once all that
/// they need has been made.
pub(super) fn needs(attempt: &Attempt, parts: &BTreeMap<u32, (PodKey, PodSeen)>) -> Needs {
    let mut needs = Needs::default();
    // With one of its pods the whole attempt ends.
    let ends = attempt.stopping || parts.values().any(|(_, pod)| pod.over || ending::is_stuck(pod));
    for (index, (pod, seen)) in parts {
        if seen.over || seen.leaving {
            continue;
        }
        if ends {
            needs.end.push(pod.clone());
        } else if attempt.id.is_some()
            && seen.node.is_none()
            && let Some(spot) = attempt.spots.get(*index as usize)
        {
            needs.bind.push((pod.clone(), seen.uid.clone(), spot.node.clone()));
        }
    }
    needs
}
