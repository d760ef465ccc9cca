//! A job as `scontrol show job` has it: `Key=value` in lines, as Slurm 22.05 lays them out.

use muster_api::{JobView, QueueDetail, QueueRow, ShareView};
use muster_model::{JobState, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::duration::print_long;
use muster_slurm_syntax::pattern;
use std::fmt::Write as _;

use super::Style;
use crate::clock::{instant, instant_or};
use crate::ident;
use crate::squeue::fields;

/// What Slurm prints as the index of tasks that wait together.
const NO_INDEX: u32 = 4_294_967_294;

/// A job with as much as is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// The queue's row, with details.
    pub(crate) row: &'a QueueRow,
    /// Everything, where one job was asked for.
    pub(crate) view: Option<&'a JobView>,
}

impl Shown<'_> {
    /// The record as text.
    pub(crate) fn text(&self, style: Style, now: Timestamp) -> String {
        let nothing = QueueDetail::default();
        let detail = self.row.detail.as_deref().unwrap_or(&nothing);
        let mut lines = vec![self.head()];
        lines.extend(self.standing(detail, style));
        lines.extend(self.times(detail, now));
        lines.extend(self.place(detail));
        lines.extend(self.amounts(detail, style));
        lines.extend(self.files(detail));
        if style.one_line {
            return lines.join(" ") + " \n";
        }
        lines.join("\n   ") + "\n   \n\n"
    }

    fn head(&self) -> String {
        let row = self.row;
        let mut text = format!("JobId={} ", row.id);
        if let Some(array) = &row.array {
            let _ =
                write!(text, "ArrayJobId={} ArrayTaskId={} ", array.id, fields::array_tasks(row));
            if let Some(throttle) = array.throttle {
                let _ = write!(text, "ArrayTaskThrottle={throttle} ");
            }
        }
        if let Some(het) = row.het {
            let set = format!("{}-{}", het.leader, het.leader + het.size.saturating_sub(1));
            let _ = write!(
                text,
                "HetJobId={} HetJobOffset={} HetJobIdSet={set} ",
                het.leader, het.offset
            );
        }
        text + &format!("JobName={}", row.name)
    }

    fn standing(&self, detail: &QueueDetail, style: Style) -> Vec<String> {
        let row = self.row;
        let exit = row.exit.unwrap_or_default();
        let batch = u8::from(row.kind == muster_model::JobKind::Batch);
        let group = ident::group_name(detail.gid);
        let mut lines = vec![
            format!(
                "UserId={}({}) GroupId={group}({}) MCS_label=N/A",
                row.user, row.uid, detail.gid
            ),
            format!(
                "Priority={} Nice={} Account={} QOS={}",
                fields::priority(row),
                detail.nice,
                row.account,
                row.qos
            ),
            format!(
                "JobState={} Reason={} Dependency={}",
                fields::state(row).name(),
                fields::reason(row),
                fields::dependency(row, detail)
            ),
            format!(
                "Requeue={} Restarts={} BatchFlag={batch} Reboot=0 ExitCode={exit}",
                u8::from(detail.requeue),
                row.restarts
            ),
        ];
        if style.details {
            lines.push("DerivedExitCode=0:0".to_owned());
        }
        lines
    }

    fn times(&self, detail: &QueueDetail, now: Timestamp) -> Vec<String> {
        let row = self.row;
        let long = |seconds: u64| print_long(TimeLimit::Of(Seconds(seconds)));
        let begin = self.view.and_then(|view| view.begin_ms);
        let start = row.started_ms.or(row.expected_ms).or(begin);
        let deadline = self.view.and_then(|view| view.deadline_ms);
        let expected_end = begin.zip(row.time_limit_s).map(|(at, s)| at.plus(Seconds(s)));
        vec![
            format!(
                "RunTime={} TimeLimit={} TimeMin={}",
                long(fields::used_s(row, now)),
                print_long(fields::limit(row)),
                detail.time_min_s.map_or("N/A".to_owned(), long)
            ),
            format!(
                "SubmitTime={} EligibleTime={}",
                instant(row.submitted_ms),
                instant_or(row.eligible_ms.or(begin), "Unknown")
            ),
            format!("AccrueTime={}", instant_or(row.eligible_ms, "Unknown")),
            format!(
                "StartTime={} EndTime={} Deadline={}",
                instant_or(start, "Unknown"),
                instant_or(fields::end(row).or(expected_end), "Unknown"),
                instant_or(deadline, "N/A")
            ),
            format!(
                "SuspendTime={} SecsPreSuspend={} LastSchedEval={} Scheduler=Main",
                instant_or(fields::suspend_time(row), "None"),
                fields::suspend_time(row).map_or(0, |at| fields::used_s(row, at)),
                instant(now)
            ),
        ]
    }

    fn place(&self, detail: &QueueDetail) -> Vec<String> {
        let row = self.row;
        let host = self.view.map_or("", |view| &view.submit_host);
        let mut lines = vec![
            format!("Partition={} AllocNode:Sid={host}:0", row.partition),
            format!(
                "ReqNodeList={} ExcNodeList={}",
                null(&detail.nodes_wanted),
                null(&detail.nodes_excluded)
            ),
            format!("NodeList={}", row.node_list),
        ];
        if !row.node_list.is_empty() {
            lines.push(format!("BatchHost={}", fields::exec_host(row)));
        }
        lines
    }

    fn amounts(&self, detail: &QueueDetail, style: Style) -> Vec<String> {
        let row = self.row;
        let ranged = self.view.and_then(|view| view.request.nodes.as_ref());
        let nodes = match ranged.filter(|_| row.state == JobState::Pending) {
            Some(count) => format!("{}-{}", count.least(), count.most()),
            None => row.nodes.to_string(),
        };
        let per_task = detail.cpus_per_task.max(1);
        let mut lines = vec![
            format!(
                "NumNodes={nodes} NumCPUs={} NumTasks={} CPUs/Task={per_task} ReqB:S:C:T=0:0:*:*",
                row.cpus, row.tasks
            ),
            format!("TRES={}", row.tres),
            "Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*".to_owned(),
        ];
        let shares = self.view.map(|view| view.shares.as_slice()).unwrap_or_default();
        if style.details && !shares.is_empty() {
            if row.gpus > 0 {
                lines.push(format!("JOB_GRES=gpu:{}", row.gpus));
            }
            lines.extend(shares.iter().map(share));
        }
        lines.push(format!("MinCPUsNode={per_task} {} MinTmpDiskNode=0", memory(detail)));
        lines.push(format!("Features={} DelayBoot=00:00:00", null(&detail.features)));
        if !detail.reservation.is_empty() {
            lines.push(format!("Reservation={}", detail.reservation));
        }
        lines.push(format!(
            "OverSubscribe={} Contiguous=0 Licenses={} Network=(null)",
            fields::over_subscribe(detail),
            null(&detail.licences)
        ));
        lines
    }

    fn files(&self, detail: &QueueDetail) -> Vec<String> {
        let output = self.path(detail, |view| (&view.stdout_path, view.stdio.output.as_deref()));
        let error = match self.view {
            Some(view) if view.stdio.error.is_some() => {
                self.path(detail, |view| (&view.stderr_path, view.stdio.error.as_deref()))
            }
            _ => output.clone(),
        };
        let input = match self.view {
            Some(view) if !view.stdin_path.is_empty() => view.stdin_path.clone(),
            _ => "/dev/null".to_owned(),
        };
        let mut lines =
            vec![format!("Command={}", fields::command(detail)), format!("WorkDir={}", detail.cwd)];
        if !detail.comment.is_empty() {
            lines.push(format!("Comment={} ", detail.comment));
        }
        if let Some(idle) = &detail.idle {
            lines.push(format!("SystemComment={} ", idle.told(instant)));
        }
        if self.row.kind == muster_model::JobKind::Batch {
            lines.push(format!("StdErr={error}"));
            lines.push(format!("StdIn={input}"));
            lines.push(format!("StdOut={output}"));
        }
        lines.push("Power=".to_owned());
        if !detail.gres.is_empty() {
            lines.push(format!("TresPerNode={}", fields::gres(detail)));
        }
        lines
    }

    /// The path the daemon filled in, or the pattern filled in as Slurm shows waiting jobs.
    fn path<'v>(
        &'v self,
        detail: &QueueDetail,
        of: impl Fn(&'v JobView) -> (&'v String, Option<&'v str>),
    ) -> String {
        let (known, asked) = self.view.map_or((None, None), |view| {
            let (path, asked) = of(view);
            (Some(path.clone()), asked.map(str::to_owned))
        });
        if let Some(path) = known.filter(|path| !path.is_empty()) {
            return path;
        }
        let row = self.row;
        let default = if row.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
        let asked = asked.or_else(|| Some(detail.output.clone()).filter(|o| !o.is_empty()));
        let task = row.array.as_ref().map(|a| (a.id, a.tasks.parse().unwrap_or(NO_INDEX)));
        let values = pattern::Values {
            job_id: row.id,
            array: task,
            user: &row.user,
            job_name: &row.name,
            ..pattern::Values::default()
        };
        let name = pattern::expand(asked.as_deref().unwrap_or(default), &values);
        if name.starts_with('/') { name } else { format!("{}/{name}", detail.cwd) }
    }
}

fn null(text: &str) -> &str {
    if text.is_empty() { "(null)" } else { text }
}

/// `MinMemoryCPU=100M`, `MinMemoryNode=4G`.
fn memory(detail: &QueueDetail) -> String {
    let text = detail.memory_wanted.as_str();
    match (text.strip_suffix('c'), text.strip_suffix('n')) {
        (Some(amount), _) => format!("MinMemoryCPU={amount}"),
        (_, Some(amount)) => format!("MinMemoryNode={amount}"),
        _ => "MinMemoryNode=0".to_owned(),
    }
}

fn share(share: &ShareView) -> String {
    let mut text =
        format!("  Nodes={} CPU_IDs={} Mem={}", share.node, share.cpus, share.memory_mib);
    if share.gpus.is_empty() {
        return text + " GRES=";
    }
    let indices: muster_model::IndexRanges = share.gpus.iter().copied().collect();
    let model =
        if share.gpu_model.is_empty() { String::new() } else { format!(":{}", share.gpu_model) };
    let _ = write!(text, " GRES=gpu{model}:{}(IDX:{indices})", share.gpus.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> JobView {
        serde_json::from_value(serde_json::json!({
            "id": 9, "job": "9", "name": "big", "user": "root", "uid": 0, "account": "root",
            "partition": "main", "qos": "normal", "state": "running",
            "submitted_ms": 0, "eligible_ms": 0, "started_ms": 2000, "ended_ms": 602_000,
            "time_limit_s": 600, "nodes": 2, "node_list": "n[1-2]", "tasks": 2, "cpus": 4,
            "memory_mib": 1000, "gpus": 4, "tres": "cpu=4,mem=1000M,node=2,billing=4,gres/gpu=4",
            "priority": 10_000,
            "detail": {"gid": 0, "command": "/tmp/ok.sh", "cwd": "/tmp", "comment": "hello",
                "gres": "gres/gpu:2", "exclusive": "no", "requeue": true, "cpus_per_task": 2,
                "memory_wanted": "500Mn"},
            "request": {}, "stdio": {}, "attempt": 1, "submit_host": "vm",
            "stdout_path": "/tmp/slurm-9.out",
            "shares": [{"node": "n1", "tasks": 1, "cpus": "4-5", "memory_mib": 500, "gpus": [0, 1]}],
        }))
        .expect("a view")
    }

    #[test]
    fn a_running_job_is_laid_out_as_slurm_does() {
        // Instants depend on the reader's time zone and are asked of the same function.
        let view = page();
        let at = |s: i64| instant(Timestamp::from_secs(s));
        let style = Style { details: true, ..Style::default() };
        let shown = Shown { row: &view.row, view: Some(&view) };
        let (zero, two, end, now) = (at(0), at(2), at(602), at(28));
        assert_eq!(
            shown.text(style, Timestamp::from_secs(28)),
            format!(
                "JobId=9 JobName=big
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=10000 Nice=0 Account=root QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:26 TimeLimit=00:10:00 TimeMin=N/A
   SubmitTime={zero} EligibleTime={zero}
   AccrueTime={zero}
   StartTime={two} EndTime={end} Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval={now} Scheduler=Main
   Partition=main AllocNode:Sid=vm:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   TRES=cpu=4,mem=1000M,node=2,billing=4,gres/gpu=4
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:4
     Nodes=n1 CPU_IDs=4-5 Mem=500 GRES=gpu:2(IDX:0-1)
   MinCPUsNode=2 MinMemoryNode=500M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/tmp/ok.sh
   WorkDir=/tmp
   Comment=hello \n   StdErr=/tmp/slurm-9.out
   StdIn=/dev/null
   StdOut=/tmp/slurm-9.out
   Power=
   TresPerNode=gres:gpu:2
   \n
"
            )
        );
    }

    #[test]
    fn run_time_stands_while_the_job_does() {
        let mut view = page();
        let since_ms = Some(Timestamp::from_secs(20));
        view.row.pause =
            Some(muster_api::PauseView { before_ms: 3000, since_ms, resumed_ms: None });
        let shown = Shown { row: &view.row, view: Some(&view) };
        let text = shown.text(Style::default(), Timestamp::from_secs(28));
        assert!(text.contains("RunTime=00:00:15 "), "{text}");
        let since = instant(Timestamp::from_secs(20));
        assert!(text.contains(&format!("SuspendTime={since} SecsPreSuspend=15 ")), "{text}");
    }

    #[test]
    fn one_line_has_blanks_for_line_ends() {
        let view = page();
        let style = Style { one_line: true, ..Style::default() };
        let text =
            Shown { row: &view.row, view: Some(&view) }.text(style, Timestamp::from_secs(28));
        assert!(text.starts_with(
            "JobId=9 JobName=big UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=10000"
        ));
        assert!(text.ends_with("Power= TresPerNode=gres:gpu:2 \n"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}
