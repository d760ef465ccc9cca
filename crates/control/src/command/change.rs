//! What of a job can be changed after its submission (`scontrol update job`).

use super::action::{Het, each, not_over, wrong_state};
use super::limits::{self, bad};
use super::shapes::Shapes;
use super::submit::check_spec;
use super::{CommandError, JobRef, Meaning, Principal, admins_only, cycle};
use muster_model::{
    Dependency, EventKind, Job, JobSpec, JobUpdate, NodeId, Request, Seconds, State, TimeLimit,
    Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change to a job. `None` leaves a field as it is; the inner `None` of a double option clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobChange {
    /// Its name.
    pub name: Option<String>,
    /// The partitions it may run in.
    pub partitions: Option<Vec<String>>,
    /// The quality of service.
    pub qos: Option<String>,
    /// The account.
    pub account: Option<String>,
    /// The time limit. A running job's is raised by admins only.
    pub time_limit: Option<TimeLimit>,
    /// How far the limit may be cut down.
    pub time_min: Option<Option<Seconds>>,
    /// Nice. Lowered by admins only.
    pub nice: Option<i64>,
    /// A priority set by hand. Admins only.
    pub priority: Option<Option<u32>>,
    /// What the site adds to its priority. Admins only.
    pub site_factor: Option<i64>,
    /// The dependency.
    pub dependency: Option<Option<Dependency>>,
    /// Not before.
    pub begin: Option<Option<Timestamp>>,
    /// To end by.
    pub deadline: Option<Option<Timestamp>>,
    /// What it asks for: as it was when the change was made, and as it is to be.
    pub request: Option<Box<(Request, Request)>>,
    /// May be put back in the queue.
    pub requeue: Option<bool>,
    /// Its array's throttle; the inner `None` is no bound.
    pub array_throttle: Option<Option<u32>>,
    /// Free text.
    pub comment: Option<String>,
}

/// Changes jobs.
pub(super) fn update(
    state: &State,
    shapes: &mut Shapes,
    at: Timestamp,
    principal: &Principal,
    refs: &[JobRef],
    change: &JobChange,
) -> Result<Meaning, CommandError> {
    limits::check_change(change)?;
    each(state, principal, refs, Het::Apart, |job| {
        not_over(job)?;
        let update = if job.is_pending() {
            waiting(state, shapes, at, principal, job, change)?
        } else {
            if let Some(event) = resize(job, change)? {
                return Ok(event);
            }
            running(principal, job, change)?
        };
        if update == JobUpdate::default() {
            return Ok(Vec::new());
        }
        Ok(vec![EventKind::JobUpdated { job: job.id, update: Box::new(update) }])
    })
}

/// A waiting job is described anew, and has to pass what a new one has to pass.
fn waiting(
    state: &State,
    shapes: &mut Shapes,
    at: Timestamp,
    principal: &Principal,
    job: &Job,
    change: &JobChange,
) -> Result<JobUpdate, CommandError> {
    may_reorder(principal, job, change)?;
    let old = &job.spec;
    let mut spec = old.as_ref().clone();
    if let Some(request) = &change.request {
        if request.0 != old.request {
            return Err(wrong_state(job, "what it asks for was changed meanwhile"));
        }
        spec.request = request.1.clone();
    }
    change.lay_over(&mut spec);
    if let Some(comment) = &change.comment {
        spec.comment.clone_from(comment);
    }
    if let Some(limit) = change.time_limit {
        spec.time_limit = Some(limit);
        // A limit below the least that would do is the least that would do.
        if let (None, Some(least), TimeLimit::Of(limit)) = (change.time_min, spec.time_min, limit) {
            spec.time_min = Some(least.min(limit));
        }
    }
    let array_throttle = throttle(job, change)?;
    if spec == **old {
        return Ok(JobUpdate { array_throttle, ..JobUpdate::default() });
    }
    // What was set by an admin before does not have to be asked for again.
    let asked = JobSpec {
        nice: if change.nice.is_some() { spec.nice } else { 0 },
        priority: if change.priority.is_some() { spec.priority } else { None },
        deadline: if change.deadline.is_some() { spec.deadline } else { None },
        dependency: if change.dependency.is_some() { spec.dependency.clone() } else { None },
        ..spec.clone()
    };
    limits::check_request(&asked.request)?;
    check_spec(state, shapes, at, principal, &asked)?;
    let broken = muster_planner::limits::at_update(state, at, old, &spec);
    if let Some(reason) = broken.into_iter().next() {
        return Err(CommandError::LimitBroken { reason: Box::new(reason) });
    }
    if let Some(Some(dependency)) = &change.dependency {
        cycle::check(state, job, dependency)?;
    }
    Ok(JobUpdate { spec: Some(Arc::new(spec)), array_throttle, ..JobUpdate::default() })
}

/// A running job gives up nodes at once (`scontrol update NumNodes=`, scontrol manual): it keeps the
/// first of them, as Slurm's does. `None` where the change is about something else.
fn resize(job: &Job, change: &JobChange) -> Result<Option<Vec<EventKind>>, CommandError> {
    let Some((old, new)) = change.request.as_deref() else { return Ok(None) };
    let rest = JobChange { request: None, ..change.clone() };
    let only_nodes = Request { nodes: old.nodes.clone(), ..new.clone() } == *old;
    let (Some(count), true) = (&new.nodes, only_nodes && rest == JobChange::default()) else {
        return Ok(None);
    };
    let Some(placement) = &job.placement else { return Ok(None) };
    let (wanted, has) = (count.least() as usize, placement.nodes.len());
    if count.least() != count.most() || wanted == 0 {
        return Err(bad("nodes", "a running job can be told one number of nodes".to_owned()));
    }
    if wanted > has {
        let message = format!(
            "job {} runs on {has} nodes and gets no more while it runs: submit another job for \
             them, or submit it with #MUSTER --elastic=MIN-MAX, which grows by a restart",
            job.id
        );
        return Err(bad("nodes", message));
    }
    if job.resize.is_some() || job.eviction.is_some() || job.stop.is_some() {
        return Err(wrong_state(job, "it gives up what it has already"));
    }
    if job.started.is_none() || job.het.is_some() || job.turn.is_some() {
        let why = "only a job whose processes run, by itself, can give up nodes";
        return Err(wrong_state(job, why));
    }
    if wanted == has {
        return Ok(Some(Vec::new()));
    }
    let first: BTreeSet<NodeId> = placement.nodes[..wanted].iter().map(|s| s.node).collect();
    let placement = Arc::new(placement.on_nodes(|id| first.contains(&id)));
    Ok(Some(vec![EventKind::JobResize { job: job.id, attempt: job.attempt, placement }]))
}

/// Of a running job only its limit, comment and its array's throttle can be changed.
fn running(
    principal: &Principal,
    job: &Job,
    change: &JobChange,
) -> Result<JobUpdate, CommandError> {
    let rest =
        JobChange { time_limit: None, comment: None, array_throttle: None, ..change.clone() };
    if rest != JobChange::default() {
        return Err(wrong_state(
            job,
            "of a running job only the time limit, the comment, the array's throttle and, to fewer, the number of nodes can be changed",
        ));
    }
    let raised = match (change.time_limit, job.time_limit) {
        (Some(TimeLimit::Of(new)), TimeLimit::Of(old)) => new > old,
        (Some(TimeLimit::Unlimited), TimeLimit::Of(_)) => true,
        _ => false,
    };
    if raised {
        admins_only(principal, "raise the limit of a running job")?;
    }
    if change.time_limit == Some(TimeLimit::Of(Seconds(0))) {
        return Err(bad("time", "expected at least one second".to_owned()));
    }
    Ok(JobUpdate {
        time_limit: change.time_limit.filter(|limit| *limit != job.time_limit),
        spec: None,
        labels: None,
        array_throttle: throttle(job, change)?,
        comment: change.comment.clone().filter(|comment| *comment != job.spec.comment),
    })
}

#[allow(clippy::option_option, reason = "the field's own form")]
fn throttle(job: &Job, change: &JobChange) -> Result<Option<Option<u32>>, CommandError> {
    if change.array_throttle.is_some() && job.array.is_none() {
        return Err(bad("array throttle", format!("job {} is not a task of an array", job.id)));
    }
    // 0 is Slurm's word for no bound.
    Ok(change.array_throttle.map(|bound| bound.filter(|n| *n > 0)))
}

/// Owners may lower what their job gets; raising it is for admins.
fn may_reorder(principal: &Principal, job: &Job, change: &JobChange) -> Result<(), CommandError> {
    if change.nice.is_some_and(|nice| nice < job.spec.nice) {
        admins_only(principal, "lower a job's nice")?;
    }
    if change.priority.is_some_and(|priority| priority != job.spec.priority) {
        admins_only(principal, "set a priority")?;
    }
    if change.site_factor.is_some_and(|factor| factor != job.spec.site_factor) {
        admins_only(principal, "set a site factor")?;
    }
    Ok(())
}

impl JobChange {
    /// Lays the change over a spec; time limit and comment are the caller's.
    fn lay_over(&self, spec: &mut JobSpec) {
        fn set<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(value) = from {
                to.clone_from(value);
            }
        }
        set(&mut spec.name, self.name.as_ref());
        set(&mut spec.partitions, self.partitions.as_ref());
        set(&mut spec.qos, self.qos.as_ref());
        set(&mut spec.account, self.account.as_ref());
        set(&mut spec.time_min, self.time_min.as_ref());
        set(&mut spec.nice, self.nice.as_ref());
        set(&mut spec.priority, self.priority.as_ref());
        set(&mut spec.site_factor, self.site_factor.as_ref());
        set(&mut spec.dependency, self.dependency.as_ref());
        set(&mut spec.begin, self.begin.as_ref());
        set(&mut spec.deadline, self.deadline.as_ref());
        set(&mut spec.requeue, self.requeue.as_ref());
    }
}
