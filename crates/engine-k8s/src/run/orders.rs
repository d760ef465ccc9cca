//! Orders about attempts that were launched.

use super::Shared;
use super::objects::{CONTAINER, STATE, name, program};
use crate::read::PodKey;
use crate::{Cluster, K8sError};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, DeleteParams, PropagationPolicy};
use muster_engine::book::{Attempt, Key, Phase};
use muster_engine::now;
use muster_engine::{EngineError, Observation, Order};
use muster_model::{EndCause, ExitReport, Seconds};
use tokio::io::AsyncReadExt as _;

impl Shared {
    /// Ends an attempt, whether or not it was launched. Its pods get the polite signal, and after
    /// the grace the final one.
    pub(super) fn stop(&self, key: Key, grace: Seconds) -> Result<(), EngineError> {
        let attempt = {
            let mut book = self.book();
            if book.is_acknowledged(key) {
                return Ok(());
            }
            book.stopping(key).map_err(|error| self.unreachable(error))?;
            book.get(key).cloned()
        };
        let Some(attempt) = attempt else { return self.never(key) };
        if !attempt.is_open() {
            return Ok(());
        }
        if attempt.suspended {
            // What stands still hears no polite signal.
            let (job, attempt) = (key.job, key.attempt);
            let go_on = Order::Suspend { job, attempt, suspend: false };
            self.suspend(key, false, &go_on)?;
        }
        let pods: Vec<PodKey> = {
            let seen = self.seen();
            let parts = seen.parts.get(&key).into_iter().flat_map(|parts| parts.values());
            parts.filter(|(_, pod)| !pod.over).map(|(key, _)| key.clone()).collect()
        };
        let runs = matches!(attempt.phase, Phase::Running(_));
        let (cluster, namespace) = (self.cluster.clone(), self.config.namespace.clone());
        let (job, none_seen) = (name(&self.instance, key), pods.is_empty());
        let done = self.ask(async move {
            if !runs {
                // Without its Job no pod comes any more.
                cluster.delete_job(&namespace, &job).await?;
            }
            for pod in pods {
                // The pod's own end comes behind muster's in it.
                let seconds = u32::try_from(grace.0.saturating_add(MORE_S)).unwrap_or(u32::MAX);
                cluster.delete_pod(&pod, Some(if runs { seconds } else { 0 })).await?;
            }
            Ok(())
        });
        done.map_err(|error| self.unreachable(error))?;
        if none_seen && !runs { self.never(key) } else { Ok(()) }
    }

    /// It never ran and never will.
    fn never(&self, key: Key) -> Result<(), EngineError> {
        match self.exited(key, ExitReport::never_ran(EndCause::Stopped, "", now())) {
            true => Ok(()),
            false => Err(self.unreachable("the journal cannot be written")),
        }
    }

    /// The pod in which an attempt's script runs; `None` for one that is over or unknown.
    fn running(&self, key: Key) -> Result<Option<(PodKey, Attempt)>, EngineError> {
        let Some(attempt) = self.book().get(key).filter(|attempt| attempt.is_open()).cloned()
        else {
            return Ok(None);
        };
        let first = self.seen().parts.get(&key).and_then(|parts| parts.get(&0).cloned());
        match (first, &attempt.phase) {
            (Some((_, pod)), _) if pod.over => Ok(None),
            (Some((pod, _)), Phase::Running(_)) => Ok(Some((pod, attempt))),
            _ => Err(self.unreachable("its pod has not started yet")),
        }
    }

    /// Has muster in the pod carry out an order; false where the attempt is over.
    pub(super) fn pass_on(&self, key: Key, order: &Order) -> Result<bool, EngineError> {
        let Some((pod, _)) = self.running(key)? else { return Ok(false) };
        let order =
            serde_json::to_string(order).map_err(|error| self.refused(error.to_string()))?;
        let program = program(&self.config);
        let cluster = self.cluster.clone();
        let words = [program, "pod", "order", STATE, &order];
        let words = words.map(str::to_owned);
        self.ask(async move { cluster.exec(&pod, words.to_vec()).await })
            .map_err(|error| self.unreachable(error))?;
        Ok(true)
    }

    /// Delivers a signal once: it counts as delivered before it is sent.
    pub(super) fn signal(&self, key: Key, number: u32, order: &Order) -> Result<(), EngineError> {
        let Some((_, attempt)) = self.running(key)? else { return Ok(()) };
        if number > attempt.signalled {
            let noted = self.book().signalled(key, number);
            noted.map_err(|error| self.unreachable(error))?;
            if let Err(error) = self.pass_on(key, order) {
                // Muster in the pod delivers each number once, so it can be sent again.
                let undone = self.book().signalled(key, attempt.signalled);
                undone.map_err(|error| self.unreachable(error))?;
                return Err(error);
            }
        }
        self.tell(Observation::Signalled { job: key.job, number });
        Ok(())
    }

    /// Makes a job stand still or go on.
    pub(super) fn suspend(
        &self,
        key: Key,
        suspend: bool,
        order: &Order,
    ) -> Result<(), EngineError> {
        let Some((_, attempt)) = self.running(key)? else { return Ok(()) };
        if attempt.suspended != suspend && self.pass_on(key, order)? {
            self.book().change(key, |attempt| attempt.suspended = suspend);
            let (job, attempt) = (key.job, key.attempt);
            self.tell(Observation::Suspended { job, attempt, suspended: suspend });
        }
        Ok(())
    }

    /// Forgets an attempt that is over, and takes what it was from the cluster.
    pub(super) fn acknowledge(&self, key: Key) -> Result<(), EngineError> {
        if self.book().get(key).is_none_or(Attempt::is_open) {
            return Ok(());
        }
        let (cluster, namespace) = (self.cluster.clone(), self.config.namespace.clone());
        let job = name(&self.instance, key);
        // One that cannot be deleted now is swept up later.
        self.handle.spawn(async move {
            if let Err(error) = cluster.delete_job(&namespace, &job).await {
                tracing::warn!(job, %error, "cannot be deleted yet");
            }
        });
        self.book().acknowledge(key).map_err(|error| self.unreachable(error))
    }
}

/// A pod's own end comes so long behind that of muster in it.
const MORE_S: u64 = 5;

/// As much of what a command complains of is told.
const COMPLAINT_MAX: u64 = 500;

impl Cluster {
    /// Deletes a Job and everything that is its own; one that is gone needs no deleting.
    pub(super) async fn delete_job(&self, namespace: &str, name: &str) -> Result<(), K8sError> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let how = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        gone(self.within(api.delete(name, &how)).await.map(drop))
    }

    /// Ends a pod: the polite signal, and the final one after the grace (its own where none is said).
    pub(super) async fn delete_pod(
        &self,
        pod: &PodKey,
        grace: Option<u32>,
    ) -> Result<(), K8sError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let how = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        gone(self.within(api.delete(&pod.name, &how)).await.map(drop))
    }

    /// Runs a command in a job's container; refused where it does not end well.
    async fn exec(&self, pod: &PodKey, command: Vec<String>) -> Result<(), K8sError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let how = AttachParams::default().container(CONTAINER).stdin(false).stdout(false);
        let done = async {
            let mut process = api.exec(&pod.name, command, &how).await?;
            let mut complaint = String::new();
            if let Some(stderr) = process.stderr() {
                // What is no text is not told.
                stderr.take(COMPLAINT_MAX).read_to_string(&mut complaint).await.ok();
            }
            let status = match process.take_status() {
                Some(status) => status.await,
                None => None,
            };
            Ok((status, complaint))
        };
        let (status, complaint) = self.within(done).await?;
        match status.filter(|status| status.status.as_deref() != Some("Success")) {
            None => Ok(()),
            Some(failed) => {
                let said = failed.message.unwrap_or_default();
                let why = format!("in pod {pod}: {} {said}", complaint.trim());
                Err(K8sError::Unreachable { why })
            }
        }
    }
}

fn gone(done: Result<(), K8sError>) -> Result<(), K8sError> {
    match done {
        Err(K8sError::Refused { code: 404, .. }) => Ok(()),
        done => done,
    }
}
