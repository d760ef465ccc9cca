//! Queue rows.

use super::{limit_s, node_list, priority};
use crate::step::fold_hosts;
use crate::tres::Totals;
use crate::{ArrayView, PauseView, QueueDetail, QueueRow, ReasonView};
use muster_model::{
    Exclusive, GpuScope, Hold, IndexRanges, Job, MemoryRequest, Reason, State, Timestamp,
};

impl QueueRow {
    /// One job's row. `reason` is the binding one of a job that waits.
    pub fn of(state: &State, job: &Job, reason: Option<&Reason>) -> Self {
        let spec = &job.spec;
        let totals = Totals::of(job);
        let begun = if job.is_pending() { None } else { job.started.or(job.placed) };
        let running = job.ends_at_latest().filter(|end| *end != Timestamp::NEVER);
        Self {
            id: job.id.0,
            job: job.display_id(),
            array: job.array.map(|task| ArrayView {
                id: task.array.0,
                tasks: task.index.to_string(),
                count: 1,
                throttle: state.index.arrays.get(&task.array).and_then(|a| a.throttle),
            }),
            het: job.het.map(Into::into),
            name: spec.name.clone(),
            user: spec.owner.user.clone(),
            uid: spec.owner.uid,
            account: spec.account.clone(),
            partition: match job.placement.as_ref().filter(|_| !job.is_pending()) {
                Some(placement) => placement.partition.clone(),
                None => spec.partitions.join(","),
            },
            qos: spec.qos.clone(),
            kind: spec.kind,
            state: job.state,
            reason: reason.or(held_reason(job)).map(ReasonView::short),
            submitted_ms: job.submitted,
            eligible_ms: job.eligible,
            started_ms: begun,
            expected_ms: None,
            ended_ms: if job.state.is_over() { job.ended } else { running },
            pause: PauseView::of(job),
            time_limit_s: limit_s(job.time_limit),
            nodes: totals.nodes,
            node_list: node_list(state, job),
            tasks: totals.tasks,
            cpus: totals.cpus,
            memory_mib: totals.memory.0,
            gpus: totals.gpus,
            tres: totals.text(),
            priority: priority(state, job),
            exit: job.exit.filter(|_| job.state.is_over()),
            restarts: job.attempt.saturating_sub(u32::from(!job.is_pending())),
            detail: None,
        }
    }

    /// Makes it the row of several waiting tasks of its array.
    pub fn fold_tasks(&mut self, indices: &IndexRanges) {
        let Some(array) = &mut self.array else { return };
        array.tasks = indices.to_string();
        array.count = indices.len();
        let throttle = array.throttle.map(|t| format!("%{t}")).unwrap_or_default();
        self.job = format!("{}_[{}{throttle}]", array.id, array.tasks);
    }

    /// The same where there are several of them.
    pub fn fold_tasks_where_many(&mut self, indices: &[u32]) {
        if indices.len() > 1 {
            self.fold_tasks(&indices.iter().copied().collect());
        }
    }

    /// With what is seldom shown.
    #[must_use]
    pub fn with_detail(mut self, state: &State, job: &Job) -> Self {
        self.detail = Some(Box::new(QueueDetail::of(state, job)));
        self
    }
}

/// The scheduler's own hold carries its reason.
fn held_reason(job: &Job) -> Option<&Reason> {
    match &job.hold {
        Some(Hold::System(reason)) => Some(reason),
        Some(Hold::User) => Some(&Reason::HeldByUser),
        Some(Hold::Admin) => Some(&Reason::HeldByAdmin),
        None => None,
    }
}

impl QueueDetail {
    /// What is seldom shown of this job.
    pub fn of(state: &State, job: &Job) -> Self {
        let spec = &job.spec;
        let request = &spec.request;
        let names =
            |set: &std::collections::BTreeSet<String>| fold_hosts(&set.iter().collect::<Vec<_>>());
        let first = job.placement.as_ref().filter(|_| !job.is_pending());
        let first = first.and_then(|p| p.nodes.first());
        Self {
            gid: spec.owner.gid,
            command: spec.command.clone(),
            cwd: spec.cwd.clone(),
            comment: spec.comment.clone(),
            idle: job.idle.map(Into::into),
            dependency: spec.dependency.as_ref().map(ToString::to_string).unwrap_or_default(),
            features: request.constraint.as_ref().map(ToString::to_string).unwrap_or_default(),
            gres: gres_text(job),
            licences: licences_text(job),
            reservation: reservation(job),
            nodes_wanted: names(&request.node_list),
            nodes_excluded: names(&request.exclude),
            exclusive: match request.exclusive {
                Exclusive::No => "no",
                Exclusive::Node => "node",
                Exclusive::User => "user",
            }
            .to_owned(),
            nice: spec.nice,
            requeue: spec.requeue,
            time_min_s: spec.time_min.map(|s| s.0),
            cpus_per_task: request.cpus_per_task(),
            nodes_max: request.nodes.as_ref().map_or(0, muster_model::NodeCount::most),
            memory_wanted: match request.memory {
                MemoryRequest::Default | MemoryRequest::WholeNode => String::new(),
                MemoryRequest::PerNode(mib) => format!("{mib}n"),
                MemoryRequest::PerCpu(mib) => format!("{mib}c"),
                MemoryRequest::PerGpu(mib) => format!("{mib}g"),
            },
            output: spec.stdio.output.clone().unwrap_or_default(),
            batch_host: first.map(|n| state.node_name(n.node)).unwrap_or_default(),
        }
    }
}

/// The reservation that the job has its place in, also one that drew it; while it waits, those that
/// it names.
fn reservation(job: &Job) -> String {
    let drawn = job.placement.as_ref().and_then(|placement| placement.reservation.clone());
    drawn.or_else(|| job.spec.request.reservation.clone()).unwrap_or_default()
}

/// `gres/gpu:a100:2,gres/shard:1`: what is asked for on each node.
fn gres_text(job: &Job) -> String {
    let request = &job.spec.request;
    let gpus = request.gpus.iter().filter(|g| matches!(g.scope, GpuScope::Node)).map(|g| {
        let model = g.model.as_ref().map(|m| format!("{m}:")).unwrap_or_default();
        format!("gres/gpu:{model}{}", g.count)
    });
    let others = request.gres.iter().map(|(name, count)| format!("gres/{name}:{count}"));
    gpus.chain(others).collect::<Vec<_>>().join(",")
}

fn licences_text(job: &Job) -> String {
    let each = job.spec.request.licences.iter().map(|l| format!("{}:{}", l.name, l.count));
    each.collect::<Vec<_>>().join(",")
}
