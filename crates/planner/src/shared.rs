//! A job's request, shared with the job: a queue of distinct jobs holds no copies.

use muster_model::{JobSpec, Request};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Reads like the request, and is compared by what it says.
#[derive(Clone, Debug)]
pub(crate) struct SharedRequest(Arc<JobSpec>);

impl SharedRequest {
    /// The request of a job.
    pub(crate) fn of(spec: &Arc<JobSpec>) -> Self {
        Self(Arc::clone(spec))
    }

    /// The request, to change it here and nowhere else.
    pub(crate) fn change(&mut self) -> &mut Request {
        &mut Arc::make_mut(&mut self.0).request
    }
}

impl From<Request> for SharedRequest {
    fn from(request: Request) -> Self {
        Self(Arc::new(JobSpec { request, ..JobSpec::default() }))
    }
}

impl Deref for SharedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.0.request
    }
}

impl PartialEq for SharedRequest {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
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
        (**self).cmp(&**other)
    }
}

impl Hash for SharedRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
