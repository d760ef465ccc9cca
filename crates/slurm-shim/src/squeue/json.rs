//! `squeue --json`: the keys of Slurm's REST interface (v0.0.38), filled with what muster knows.

use muster_api::{QueueDetail, QueueRow};
use muster_model::Timestamp;
use serde_json::{Value, json};

use super::fields;
use crate::ident;

/// What Slurm puts around every JSON answer.
pub(crate) fn envelope(key: &str, items: &[Value]) -> Value {
    let (major, minor, micro) = crate::VERSION;
    json!({
        "meta": {
            "plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
            "Slurm": {
                "version": {"major": major, "minor": minor, "micro": micro},
                "release": crate::release(),
            },
        },
        "errors": [],
        key: items,
    })
}

/// A job.
pub(crate) fn job(row: &QueueRow, cluster: &str) -> Value {
    let nothing = QueueDetail::default();
    let detail = row.detail.as_deref().unwrap_or(&nothing);
    let mut value = identity(row, detail, cluster);
    merge(&mut value, request(row, detail));
    merge(&mut value, life(row));
    value
}

fn identity(row: &QueueRow, detail: &QueueDetail, cluster: &str) -> Value {
    let waiting = row.job.contains('[');
    let task = row.array.as_ref().filter(|_| !waiting).and_then(|a| a.tasks.parse::<u32>().ok());
    json!({
        "account": row.account,
        "array_job_id": row.array.as_ref().map_or(0, |array| array.id),
        "array_task_id": task,
        "array_task_string": if waiting { fields::array_tasks(row) } else { String::new() },
        "array_max_tasks": row.array.as_ref().and_then(|array| array.throttle).unwrap_or(0),
        "batch_flag": row.kind == muster_model::JobKind::Batch,
        "cluster": cluster,
        "command": fields::command(detail),
        "comment": detail.comment,
        "current_working_directory": detail.cwd,
        "group_id": detail.gid,
        "group_name": ident::group_name(detail.gid),
        "het_job_id": row.het.map_or(0, |het| het.leader),
        "het_job_offset": row.het.map_or(0, |het| het.offset),
        "job_id": row.id,
        "name": row.name,
        "partition": row.partition,
        "qos": row.qos,
        "user_id": row.uid,
        "user_name": row.user,
        "standard_output": detail.output,
        "standard_error": "",
        "standard_input": "/dev/null",
    })
}

fn request(row: &QueueRow, detail: &QueueDetail) -> Value {
    let memory = |unit: char| {
        let text = detail.memory_wanted.strip_suffix(unit)?;
        muster_slurm_syntax::memory::parse_mib(text).ok()
    };
    let allocated = if row.node_list.is_empty() { "" } else { row.tres.as_str() };
    json!({
        "contiguous": false,
        "cpus": row.cpus,
        "cpus_per_task": detail.cpus_per_task,
        "dependency": detail.dependency,
        "excluded_nodes": detail.nodes_excluded,
        "features": detail.features,
        "gres_detail": [],
        "licenses": detail.licences,
        "max_nodes": detail.nodes_max,
        "memory_per_cpu": memory('c'),
        "memory_per_node": memory('n'),
        "minimum_cpus_per_node": detail.cpus_per_task.max(1),
        "nice": detail.nice,
        "node_count": row.nodes,
        "required_nodes": detail.nodes_wanted,
        "requeue": detail.requeue,
        "resv_name": detail.reservation,
        "tasks": row.tasks,
        "time_limit": row.time_limit_s.map(|s| s.div_ceil(60)),
        "tres_alloc_str": allocated,
        "tres_per_node": detail.gres.replace("gres/", "gres:"),
        "tres_req_str": row.tres,
    })
}

fn life(row: &QueueRow) -> Value {
    let seconds = |at: Option<Timestamp>| at.map_or(0, Timestamp::secs);
    json!({
        "batch_host": if row.node_list.is_empty() { String::new() } else { fields::exec_host(row) },
        "derived_exit_code": fields::exit_sum(row),
        "eligible_time": seconds(row.eligible_ms),
        "end_time": seconds(fields::end(row)),
        "exit_code": fields::exit_sum(row),
        "job_resources": {
            "nodes": row.node_list,
            "allocated_cores": if row.node_list.is_empty() { 0 } else { row.cpus },
            "allocated_hosts": if row.node_list.is_empty() { 0 } else { row.nodes },
        },
        "job_state": fields::state(row).name(),
        "nodes": row.node_list,
        "preempt_time": 0,
        "priority": fields::priority(row),
        "restart_cnt": row.restarts,
        "start_time": seconds(row.started_ms.or(row.expected_ms)),
        "state_description": row.reason.as_ref().map_or("", |reason| &reason.text),
        "state_reason": fields::reason(row),
        "submit_time": row.submitted_ms.secs(),
        "suspend_time": seconds(fields::suspend_time(row)),
    })
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
