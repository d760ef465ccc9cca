//! A job's request, shared with the job: a queue of distinct jobs holds no copies.

use crate::print::Print;
use muster_model::{JobSpec, Request};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Reads like the request, and is compared by what it says; by its digest first.
#[derive(Clone, Debug)]
pub(crate) struct SharedRequest {
    spec: Arc<JobSpec>,
    /// The digest of what it says.
    print: u64,
}

impl SharedRequest {
    /// The request of a job.
    pub(crate) fn of(spec: &Arc<JobSpec>) -> Self {
        Self { spec: Arc::clone(spec), print: print(&spec.request) }
    }

    /// The request, to change it here and nowhere else.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Request)) {
        change(&mut Arc::make_mut(&mut self.spec).request);
        self.print = print(&self.spec.request);
    }
}

fn print(request: &Request) -> u64 {
    let mut print = Print::default();
    request.hash(&mut print);
    print.finish()
}

impl From<Request> for SharedRequest {
    fn from(request: Request) -> Self {
        Self::of(&Arc::new(JobSpec { request, ..JobSpec::default() }))
    }
}

impl Deref for SharedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.spec.request
    }
}

impl PartialEq for SharedRequest {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.spec, &other.spec);
        is_same || (self.print == other.print && **self == **other)
    }
}

impl Eq for SharedRequest {}

impl PartialOrd for SharedRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedRequest {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.spec, &other.spec) {
            return Ordering::Equal;
        }
        self.print.cmp(&other.print).then_with(|| (**self).cmp(&**other))
    }
}

impl Hash for SharedRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print);
    }
}

/// The partitions that a job names, shared with the job.
#[derive(Clone, Debug)]
pub(crate) struct SharedPartitions(Arc<JobSpec>);

impl SharedPartitions {
    /// The partitions of a job.
    pub(crate) fn of(spec: &Arc<JobSpec>) -> Self {
        Self(Arc::clone(spec))
    }
}

impl Deref for SharedPartitions {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0.partitions
    }
}

impl PartialEq for SharedPartitions {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedPartitions {}

impl PartialOrd for SharedPartitions {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedPartitions {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for SharedPartitions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
