//! Launching: the objects of an attempt, each made once because each has its name.

use super::Shared;
use super::objects::{Objects, name, objects};
use crate::{Cluster, K8sError};
use muster_engine::book::{Key, Spot, unguessable};
use muster_engine::now;
use muster_engine::{EngineError, Launch};
use muster_model::{EndCause, ExitReport};
use serde_json::{Value, json};

impl Shared {
    /// Hands an attempt to the cluster. What is there already is left as it is.
    pub(super) fn launch(&self, launch: &Launch) -> Result<(), EngineError> {
        let key = Key { job: launch.job.id, attempt: launch.job.attempt };
        {
            let book = self.book();
            let known = book.get(key);
            let made = known.is_some_and(|attempt| !attempt.is_open() || attempt.id.is_some());
            if made || book.is_acknowledged(key) {
                return Ok(());
            }
        }
        let key_text = unguessable().map_err(|error| self.unreachable(error))?;
        let objects = match objects(launch, &self.instance, &key_text, &self.config) {
            Ok(objects) => objects,
            Err(why) => return self.fail(key, &why),
        };
        if self.book().get(key).is_none() {
            let owner = launch.job.spec.owner.clone();
            let noted = self.book().accept(key, now(), owner, Spot::of(launch));
            noted.map_err(|error| self.unreachable(error))?;
        }
        let (cluster, namespace) = (self.cluster.clone(), self.config.namespace.clone());
        let made = self.ask(async move { make(&cluster, &namespace, objects).await });
        match made {
            Ok(()) => {
                let noted = self.book().submitted(key, 0);
                noted.map_err(|error| self.unreachable(error))?;
                self.advance(key);
                Ok(())
            }
            Err(error) if error.is_passing() => Err(self.unreachable(error)),
            Err(error) => {
                let (cluster, namespace) = (self.cluster.clone(), self.config.namespace.clone());
                let job = name(&self.instance, key);
                let undone = self.ask(async move { cluster.delete_job(&namespace, &job).await });
                undone.map_err(|error| self.unreachable(error))?;
                self.fail(key, &format!("the cluster refused it: {error}"))
            }
        }
    }

    /// It ends as an attempt that could not be launched.
    pub(super) fn fail(&self, key: Key, why: &str) -> Result<(), EngineError> {
        match self.exited(key, ExitReport::never_ran(EndCause::LaunchFailed, why, now())) {
            true => Ok(()),
            false => Err(self.unreachable("the journal cannot be written")),
        }
    }
}

/// Makes the Job, and what goes with it.
async fn make(cluster: &Cluster, namespace: &str, objects: Objects) -> Result<(), K8sError> {
    let job =
        cluster.make(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), objects.job).await?;
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "controller": false,
        "name": job["metadata"]["name"], "uid": job["metadata"]["uid"],
    }]);
    for (kind, mut object) in [("secrets", objects.secret), ("services", objects.service)] {
        object["metadata"]["ownerReferences"] = owner.clone();
        cluster.make(&format!("/api/v1/namespaces/{namespace}/{kind}"), object).await?;
    }
    Ok(())
}

impl Cluster {
    /// Makes an object; gives it as it is then. One of its name that is there already is it.
    async fn make(&self, url: &str, object: Value) -> Result<Value, K8sError> {
        let made = self.create(url, &object).await;
        let taken = matches!(&made, Err(K8sError::Refused { code: 409, .. }));
        if !taken {
            return made;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.get(url, name).await
    }
}
