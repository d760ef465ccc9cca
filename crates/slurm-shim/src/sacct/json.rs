//! `sacct --json`: the keys of Slurm's accounting interface, filled with what muster knows.

use super::fields::accounted;
use muster_api::HistoryRow;
use muster_model::{ExitStatus, Timestamp};
use serde_json::{Value, json};

use crate::ident;

/// A job.
pub(super) fn job(row: &HistoryRow, cluster: &str, now: Timestamp) -> Value {
    let seconds = |at: Option<Timestamp>| at.map_or(0, Timestamp::secs);
    let end = row.ended_ms.filter(|_| row.state.is_over());
    let elapsed = row.run_time(now).0;
    let whole = row.started_ms.map_or(0, |start| end.unwrap_or(now).since(start).0);
    let suspended = whole.saturating_sub(elapsed);
    let steps: Vec<Value> = row
        .steps
        .iter()
        .map(|step| {
            json!({
                "step": {"id": {"job_id": row.id, "step_id": step.id}, "name": step.name},
                "nodes": {"count": step.nodes},
                "tasks": {"count": step.tasks},
                "exit_code": exit(step.exit),
                "time": {"start": step.started_ms.secs(), "end": seconds(step.ended_ms)},
            })
        })
        .collect();
    json!({
        "account": row.account,
        "allocation_nodes": row.nodes,
        "array": {"job_id": row.array.unwrap_or(0), "task_id": row.task},
        "association": {"account": row.account, "cluster": cluster, "user": row.user},
        "cluster": cluster,
        "comment": {"job": row.comment},
        "exit_code": exit(row.exit),
        "group": ident::group_name(row.gid),
        "job_id": row.id,
        "name": row.name,
        "nodes": row.node_list,
        "partition": row.partition,
        "qos": row.qos,
        "required": {"CPUs": row.cpus, "memory": row.memory_mib},
        "state": {"current": accounted(row.state).name(), "reason": row.reason},
        "steps": steps,
        "time": {
            "elapsed": elapsed,
            "eligible": seconds(row.eligible_ms),
            "end": seconds(end),
            "limit": row.time_limit_s.map(|s| s.div_ceil(60)),
            "start": seconds(row.started_ms),
            "submission": row.submitted_ms.secs(),
            "suspended": suspended,
        },
        "tres": {"allocated": row.tres, "requested": row.tres_wanted},
        "user": row.user,
        "working_directory": row.cwd,
    })
}

fn exit(status: ExitStatus) -> Value {
    let word = if status.success() {
        "SUCCESS"
    } else if status.signal != 0 {
        "SIGNALED"
    } else {
        "ERROR"
    };
    json!({"status": word, "return_code": status.code, "signal": {"signal_id": status.signal}})
}
