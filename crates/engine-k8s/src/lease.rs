//! Leader election by a `Lease` (`coordination.k8s.io/v1`): one schedules, others stand by.
//!
//! The rules and times are client-go's: a lease that was not renewed for its duration is free; the
//! holder renews it every [`RENEW`] and stops to write [`DEADLINE`] after the last time that it
//! could, which is before anybody else may take it. Clocks of two machines are not compared: a
//! lease counts from when its change was seen.

use crate::{Cluster, K8sError};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A lease that was not renewed for so long is free.
pub const DURATION: Duration = Duration::from_secs(15);
/// Its holder writes nothing after so long without having renewed it.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// It is renewed, or looked at by others, so often.
pub const RENEW: Duration = Duration::from_secs(2);

/// Which lease, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who asks: no two processes are the same.
    pub identity: String,
}

/// A term as leader. Its clones tell of the same term.
#[derive(Clone, Debug)]
pub struct Term {
    begun: Instant,
    /// Milliseconds from `begun` to the instant from which nothing may be written.
    until: Arc<AtomicU64>,
    name: String,
}

impl Term {
    fn new(name: &str) -> Self {
        Self { begun: Instant::now(), until: Arc::default(), name: name.to_owned() }
    }

    /// A term that never ends: without leader election.
    pub fn alone() -> Self {
        let term = Self::new("");
        term.until.store(u64::MAX, Ordering::Release);
        term
    }

    /// Nobody else may write now.
    ///
    /// # Errors
    /// [`K8sError::NotLeader`].
    pub fn check(&self) -> Result<(), K8sError> {
        let until = Duration::from_millis(self.until.load(Ordering::Acquire));
        if self.begun.elapsed() < until {
            return Ok(());
        }
        Err(K8sError::NotLeader { lease: self.name.clone(), limit: DEADLINE })
    }

    fn renew(&self, asked: Instant) {
        let until = asked.saturating_duration_since(self.begun) + DEADLINE;
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.until.store(until, Ordering::Release);
    }

    /// It is over at once.
    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
    }
}

impl Cluster {
    /// Waits until the lease is this candidate's, and begins a term that renews itself.
    ///
    /// # Errors
    /// [`K8sError`] where the API server refuses for good.
    pub async fn lead(&self, candidate: &Candidate) -> Result<Term, K8sError> {
        let mut seen: Option<(Option<LeaseSpec>, Instant)> = None;
        loop {
            let asked = Instant::now();
            match self.try_lead(candidate, &mut seen).await {
                Ok(true) => {
                    let term = Term::new(&candidate.name);
                    term.renew(asked);
                    let (cluster, candidate) = (self.clone(), candidate.clone());
                    tokio::spawn(keep(cluster, candidate, term.clone()));
                    return Ok(term);
                }
                Ok(false) => {}
                Err(error) if error.is_passing() => tracing::warn!(%error, "lease"),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(RENEW).await;
        }
    }

    /// True where the lease is the candidate's from now on.
    async fn try_lead(
        &self,
        candidate: &Candidate,
        seen: &mut Option<(Option<LeaseSpec>, Instant)>,
    ) -> Result<bool, K8sError> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &candidate.namespace);
        let Some(found) = self.within(api.get_opt(&candidate.name)).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(candidate.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(held(candidate, 0)),
            };
            return taken(self.within(api.create(&PostParams::default(), &lease)).await);
        };
        let spec = found.spec.clone();
        let holder = spec.as_ref().and_then(|s| s.holder_identity.as_deref()).unwrap_or("");
        let since = match seen {
            Some((known, since)) if *known == spec => *since,
            _ => {
                let now = Instant::now();
                *seen = Some((spec.clone(), now));
                now
            }
        };
        let free = holder.is_empty() || holder == candidate.identity || since.elapsed() > DURATION;
        if !free {
            return Ok(false);
        }
        let times = spec.and_then(|s| s.lease_transitions).unwrap_or(0);
        let lease = Lease { spec: Some(held(candidate, times.saturating_add(1))), ..found };
        // The resource version that was read goes with it: of two only one succeeds.
        taken(self.within(api.replace(&candidate.name, &PostParams::default(), &lease)).await)
    }

    /// Renews a lease that is the candidate's still.
    async fn renew(&self, candidate: &Candidate) -> Result<bool, K8sError> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &candidate.namespace);
        let Some(found) = self.within(api.get_opt(&candidate.name)).await? else {
            return Ok(false);
        };
        let Some(spec) = found.spec.clone() else { return Ok(false) };
        if spec.holder_identity.as_deref() != Some(&candidate.identity) {
            return Ok(false);
        }
        let spec = LeaseSpec { renew_time: Some(now()), ..spec };
        let lease = Lease { spec: Some(spec), ..found };
        taken(self.within(api.replace(&candidate.name, &PostParams::default(), &lease)).await)
    }

    /// Gives the lease back, for others to take at once.
    ///
    /// # Errors
    /// [`K8sError`]; then it lapses.
    pub async fn resign(&self, candidate: &Candidate) -> Result<(), K8sError> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &candidate.namespace);
        let Some(found) = self.within(api.get_opt(&candidate.name)).await? else { return Ok(()) };
        let Some(spec) = found.spec.clone() else { return Ok(()) };
        if spec.holder_identity.as_deref() != Some(&candidate.identity) {
            return Ok(());
        }
        let spec = LeaseSpec { holder_identity: Some(String::new()), ..spec };
        let lease = Lease { spec: Some(spec), ..found };
        taken(self.within(api.replace(&candidate.name, &PostParams::default(), &lease)).await)
            .map(drop)
    }
}

async fn keep(cluster: Cluster, candidate: Candidate, term: Term) {
    while term.check().is_ok() {
        tokio::time::sleep(RENEW).await;
        let asked = Instant::now();
        match cluster.renew(&candidate).await {
            Ok(true) => term.renew(asked),
            // It is somebody else's.
            Ok(false) => term.end(),
            Err(error) => tracing::warn!(%error, "lease"),
        }
    }
}

fn now() -> MicroTime {
    MicroTime(k8s_openapi::jiff::Timestamp::now())
}

fn held(candidate: &Candidate, transitions: i32) -> LeaseSpec {
    let now = now();
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

/// A conflict is no fault: somebody else was first.
fn taken<T>(answer: Result<T, K8sError>) -> Result<bool, K8sError> {
    match answer {
        Ok(_) => Ok(true),
        Err(K8sError::Refused { code: 409, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
