//! Every column that `squeue` has: its letter for `-o`, its name for `-O`, its title and its text.
//!
//! Titles, default words (`N/A`, `(null)`) and forms are as Slurm 22.05 prints them.

use muster_api::{PauseView, QueueDetail, QueueRow};
use muster_model::{JobState, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::duration::print_short;
use muster_slurm_syntax::hostlist;
use muster_slurm_syntax::state::SlurmState;

use crate::clock::{instant, instant_or};
use crate::ident;

/// A column of `squeue`.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    /// Its letter in `-o`; a blank where it has none.
    pub(crate) letter: char,
    /// Its name in `-O`, in lower case.
    pub(crate) name: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// Needs what the queue leaves out unless it is asked for.
    pub(crate) wide: bool,
    text: fn(&QueueRow, &QueueDetail, Timestamp) -> String,
}

impl Field {
    /// Its text for a job.
    pub(crate) fn text(&self, row: &QueueRow, now: Timestamp) -> String {
        let nothing = QueueDetail::default();
        (self.text)(row, row.detail.as_deref().unwrap_or(&nothing), now)
    }
}

macro_rules! fields {
    ($($letter:literal $name:literal $title:literal $wide:literal
       |$row:pat_param, $detail:pat_param, $now:pat_param| $text:expr;)+) => {
        /// Every column.
        pub(crate) const FIELDS: &[Field] = &[$(Field {
            letter: $letter,
            name: $name,
            title: $title,
            wide: $wide,
            text: |$row, $detail, $now| $text,
        },)+];
    };
}

fields! {
    'a' "account" "ACCOUNT" false |r, _, _| or_null(&r.account);
    'A' "jobid" "JOBID" false |r, _, _| r.id.to_string();
    'B' "batchhost" "EXEC_HOST" false |r, _, _| exec_host(r);
    'c' "mincpus" "MIN_CPUS" true |_, d, _| d.cpus_per_task.max(1).to_string();
    'C' "numcpus" "CPUS" false |r, _, _| r.cpus.to_string();
    'd' "mintmpdisk" "MIN_TMP_DISK" false |_, _, _| "0".into();
    'D' "numnodes" "NODES" false |r, _, _| r.nodes.to_string();
    'e' "endtime" "END_TIME" false |r, _, _| instant_or(end(r), "N/A");
    'E' "dependency" "DEPENDENCY" true |r, d, _| dependency(r, d);
    'f' "feature" "FEATURES" true |_, d, _| or_null(&d.features);
    'F' "arrayjobid" "ARRAY_JOB_ID" false |r, _, _| array_id(r).to_string();
    'g' "groupname" "GROUP" true |_, d, _| ident::group_name(d.gid);
    'G' "groupid" "GROUP" true |_, d, _| d.gid.to_string();
    'h' "oversubscribe" "OVER_SUBSCRIBE" true |_, d, _| over_subscribe(d).into();
    'H' "sockets" "SOCKETS_PER_NODE" false |_, _, _| "*".into();
    'i' "jobarrayid" "JOBID" false |r, _, _| r.job.clone();
    'I' "cores" "CORES_PER_SOCKET" false |_, _, _| "*".into();
    'j' "name" "NAME" false |r, _, _| r.name.clone();
    'J' "threads" "THREADS_PER_CORE" false |_, _, _| "*".into();
    'k' "comment" "COMMENT" true |_, d, _| or_null(&d.comment);
    'K' "arraytaskid" "ARRAY_TASK_ID" false |r, _, _| array_tasks(r);
    'l' "timelimit" "TIME_LIMIT" false |r, _, _| print_short(limit(r));
    'L' "timeleft" "TIME_LEFT" false |r, _, now| time_left(r, now);
    'm' "minmemory" "MIN_MEMORY" true |_, d, _| memory(d);
    'M' "timeused" "TIME" false |r, _, now| print_short(TimeLimit::Of(Seconds(used_s(r, now))));
    'n' "reqnodes" "REQ_NODES" true |_, d, _| d.nodes_wanted.clone();
    'N' "nodelist" "NODELIST" false |r, _, _| r.node_list.clone();
    'o' "command" "COMMAND" true |_, d, _| command(d);
    'O' "contiguous" "CONTIGUOUS" false |_, _, _| "0".into();
    'p' "priority" "PRIORITY" false |r, _, _| fraction(priority(r));
    'P' "partition" "PARTITION" false |r, _, _| r.partition.clone();
    'q' "qos" "QOS" false |r, _, _| or_null(&r.qos);
    'Q' "prioritylong" "PRIORITY" false |r, _, _| priority(r).to_string();
    'r' "reason" "REASON" false |r, _, _| reason(r);
    'R' "reasonlist" "NODELIST(REASON)" false |r, _, _| nodes_or_reason(r);
    'S' "starttime" "START_TIME" false |r, _, _| instant_or(r.started_ms.or(r.expected_ms), "N/A");
    't' "statecompact" "ST" false |r, _, _| state(r).code().into();
    'T' "state" "STATE" false |r, _, _| state(r).name().into();
    'u' "username" "USER" false |r, _, _| r.user.clone();
    'U' "userid" "UID" false |r, _, _| r.uid.to_string();
    'v' "reservation" "RESERVATION" true |_, d, _| or_null(&d.reservation);
    'V' "submittime" "SUBMIT_TIME" false |r, _, _| instant(r.submitted_ms);
    'w' "wckey" "WCKEY" false |_, _, _| "(null)".into();
    'W' "licenses" "LICENSES" true |_, d, _| or_null(&d.licences);
    'x' "excnodes" "EXC_NODES" true |_, d, _| d.nodes_excluded.clone();
    'X' "corespec" "CORE_SPEC" false |_, _, _| "N/A".into();
    'y' "nice" "NICE" true |_, d, _| d.nice.to_string();
    'Y' "schednodes" "SCHEDNODES" false |_, _, _| "(null)".into();
    'z' "sct" "S:C:T" false |_, _, _| "*:*:*".into();
    'Z' "workdir" "WORK_DIR" true |_, d, _| or_null(&d.cwd);
    'b' "tres-per-node" "TRES_PER_NODE" true |_, d, _| gres(d);
    ' ' "accruetime" "ACCRUE_TIME" false |r, _, _| instant_or(r.eligible_ms, "N/A");
    ' ' "admin_comment" "ADMIN_COMMENT" false |_, _, _| "(null)".into();
    ' ' "allocnodes" "ALLOC_NODES" false |_, _, _| "(null)".into();
    ' ' "allocsid" "ALLOC_SID" false |_, _, _| "0".into();
    ' ' "associd" "ASSOC_ID" false |_, _, _| "0".into();
    ' ' "batchflag" "BATCH_FLAG" false |r, _, _| u8::from(is_batch(r)).to_string();
    ' ' "burstbuffer" "BURST_BUFFER" false |_, _, _| "N/A".into();
    ' ' "burstbufferstate" "BURST_BUFFER_STATE" false |_, _, _| "(null)".into();
    ' ' "cluster" "CLUSTER" false |_, _, _| "N/A".into();
    ' ' "clusterfeature" "CLUSTER_FEATURES" false |_, _, _| "(null)".into();
    ' ' "container" "CONTAINER" false |_, _, _| "(null)".into();
    ' ' "cpus-per-task" "CPUS_PER_TASK" true |_, d, _| d.cpus_per_task.max(1).to_string();
    ' ' "cpus-per-tres" "CPUS_PER_TRES" false |_, _, _| "N/A".into();
    ' ' "deadline" "DEADLINE" false |_, _, _| "N/A".into();
    ' ' "delayboot" "DELAY_BOOT" false |_, _, _| "0:00".into();
    ' ' "derivedec" "DERIVED_EXIT_CODE" false |r, _, _| exit_sum(r).to_string();
    ' ' "eligibletime" "ELIGIBLE_TIME" false |r, _, _| instant_or(r.eligible_ms, "N/A");
    ' ' "exit_code" "EXIT_CODE" false |r, _, _| exit_sum(r).to_string();
    ' ' "hetjobid" "HET_JOB_ID" false |r, _, _| r.het.map_or("N/A".into(), |h| h.leader.to_string());
    ' ' "hetjoboffset" "HET_JOB_OFFSET" false |r, _, _| r.het.map_or("N/A".into(), |h| h.offset.to_string());
    ' ' "hetjobidset" "HET_JOB_ID_SET" false |r, _, _| het_set(r);
    ' ' "lastschedeval" "LAST_SCHED_EVAL" false |_, _, now| instant(now);
    ' ' "maxcpus" "MAX_CPUS" false |_, _, _| "0".into();
    ' ' "maxnodes" "MAX_NODES" true |_, d, _| d.nodes_max.to_string();
    ' ' "mcslabel" "MCSLABEL" false |_, _, _| "N/A".into();
    ' ' "mem-per-tres" "MEM_PER_TRES" false |_, _, _| "N/A".into();
    ' ' "mintime" "MIN_TIME" true |_, d, _| d.time_min_s.map_or("0:00".into(), |s| print_short(TimeLimit::Of(Seconds(s))));
    ' ' "network" "NETWORK" false |_, _, _| "(null)".into();
    ' ' "nodes" "NODES" false |r, _, _| r.node_list.clone();
    ' ' "ntperboard" "TASKS_PER_BOARD" false |_, _, _| "N/A".into();
    ' ' "ntpercore" "TASKS_PER_CORE" false |_, _, _| "N/A".into();
    ' ' "ntpernode" "TASKS_PER_NODE" false |_, _, _| "N/A".into();
    ' ' "ntpersocket" "TASKS_PER_SOCKET" false |_, _, _| "N/A".into();
    ' ' "numtasks" "TASKS" false |r, _, _| r.tasks.to_string();
    ' ' "origin" "ORIGIN" false |_, _, _| "N/A".into();
    ' ' "originraw" "ORIGIN_RAW" false |_, _, _| "0".into();
    ' ' "pendingtime" "PENDING_TIME" false |r, _, now| pending_s(r, now).to_string();
    ' ' "preempttime" "PREEMPT_TIME" false |_, _, _| "N/A".into();
    ' ' "prefer" "PREFER" false |_, _, _| String::new();
    ' ' "profile" "PROFILE" false |_, _, _| "N/A".into();
    ' ' "reboot" "REBOOT" false |_, _, _| "0".into();
    ' ' "reqswitch" "REQ_SWITCH" false |_, _, _| "0".into();
    ' ' "requeue" "REQUEUE" true |_, d, _| u8::from(d.requeue).to_string();
    ' ' "resizetime" "RESIZE_TIME" false |_, _, _| "N/A".into();
    ' ' "restartcnt" "RESTART_COUNT" false |r, _, _| r.restarts.to_string();
    ' ' "resvport" "RESV_PORTS" false |_, _, _| "(null)".into();
    ' ' "selectjobinfo" "SELECT_JOB_INFO" false |_, _, _| String::new();
    ' ' "siblingsactive" "ACTIVE_SIBLINGS" false |_, _, _| "N/A".into();
    ' ' "siblingsactiveraw" "ACTIVE_SIBLINGS_RAW" false |_, _, _| "N/A".into();
    ' ' "siblingsviable" "VIABLE_SIBLINGS" false |_, _, _| "N/A".into();
    ' ' "siblingsviableraw" "VIABLE_SIBLINGS_RAW" false |_, _, _| "N/A".into();
    ' ' "sperboard" "SOCKETS_PER_BOARD" false |_, _, _| "N/A".into();
    ' ' "stderr" "STDERR" true |r, d, _| output(r, d);
    ' ' "stdin" "STDIN" false |_, _, _| "/dev/null".into();
    ' ' "stdout" "STDOUT" true |r, d, _| output(r, d);
    ' ' "suspendtime" "SUSPEND_TIME" false |r, _, _| instant_or(suspend_time(r), "N/A");
    ' ' "system_comment" "SYSTEM_COMMENT" false |_, d, _| {
        d.idle.as_ref().map_or_else(|| "(null)".into(), |idle| idle.told(instant))
    };
    ' ' "time" "TIME" false |r, _, now| print_short(TimeLimit::Of(Seconds(used_s(r, now))));
    ' ' "tres-alloc" "TRES_ALLOC" false |r, _, _| or_na(&r.tres);
    ' ' "tres" "TRES_ALLOC" false |r, _, _| or_na(&r.tres);
    ' ' "tres-bind" "TRES_BIND" false |_, _, _| "N/A".into();
    ' ' "tres-freq" "TRES_FREQ" false |_, _, _| "N/A".into();
    ' ' "tres-per-job" "TRES_PER_JOB" false |_, _, _| "N/A".into();
    ' ' "tres-per-socket" "TRES_PER_SOCKET" false |_, _, _| "N/A".into();
    ' ' "tres-per-task" "TRES_PER_TASK" false |_, _, _| "N/A".into();
    ' ' "wait4switch" "WAIT4SWITCH" false |_, _, _| "0:00".into();
    ' ' "gres" "TRES_PER_NODE" true |_, d, _| gres(d);
}

/// The column of a letter.
pub(crate) fn by_letter(letter: char) -> Option<Field> {
    FIELDS.iter().find(|field| field.letter == letter && letter != ' ').copied()
}

/// The column of a name, with or without its hyphens and underscores.
pub(crate) fn by_name(name: &str) -> Option<Field> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    FIELDS.iter().find(|field| plain(field.name) == plain(name)).copied()
}

/// The job's state in Slurm's words.
pub(crate) fn state(row: &QueueRow) -> SlurmState {
    SlurmState::from(row.state)
}

fn or_null(text: &str) -> String {
    if text.is_empty() { "(null)".to_owned() } else { text.to_owned() }
}

fn or_na(text: &str) -> String {
    if text.is_empty() { "N/A".to_owned() } else { text.to_owned() }
}

fn is_batch(row: &QueueRow) -> bool {
    row.kind == muster_model::JobKind::Batch
}

/// The first node, which runs the script.
pub(crate) fn exec_host(row: &QueueRow) -> String {
    hostlist::first(&row.node_list).unwrap_or_else(|_| "n/a".to_owned())
}

/// The limit; absent is none.
pub(crate) fn limit(row: &QueueRow) -> TimeLimit {
    row.time_limit_s.map_or(TimeLimit::Unlimited, |s| TimeLimit::Of(Seconds(s)))
}

/// Seconds of run time so far.
pub(crate) fn used_s(row: &QueueRow, now: Timestamp) -> u64 {
    row.run_time(now).0
}

/// When it was last suspended or went on.
pub(crate) fn suspend_time(row: &QueueRow) -> Option<Timestamp> {
    row.pause.as_ref().and_then(PauseView::changed)
}

fn pending_s(row: &QueueRow, now: Timestamp) -> u64 {
    row.started_ms.unwrap_or(now).since(row.submitted_ms).0
}

fn time_left(row: &QueueRow, now: Timestamp) -> String {
    match limit(row) {
        TimeLimit::Unlimited => "UNLIMITED".to_owned(),
        TimeLimit::Of(Seconds(limit)) => {
            let left = limit.saturating_sub(used_s(row, now));
            print_short(TimeLimit::Of(Seconds(left)))
        }
    }
}

/// The end, or the end expected, as far as known.
pub(crate) fn end(row: &QueueRow) -> Option<Timestamp> {
    let expected = || row.expected_ms.zip(row.time_limit_s).map(|(at, s)| at.plus(Seconds(s)));
    row.ended_ms.or_else(expected)
}

/// The number of the array, or of the job.
pub(crate) fn array_id(row: &QueueRow) -> u32 {
    row.array.as_ref().map_or(row.id, |array| array.id)
}

/// `3`, or `3-9%2` for waiting tasks.
pub(crate) fn array_tasks(row: &QueueRow) -> String {
    let Some(array) = &row.array else { return "N/A".to_owned() };
    match array.throttle {
        Some(throttle) if row.job.contains('[') => format!("{}%{throttle}", array.tasks),
        _ => array.tasks.clone(),
    }
}

fn het_set(row: &QueueRow) -> String {
    row.het.map_or("N/A".to_owned(), |het| {
        format!("{}-{}", het.leader, het.leader + het.size.saturating_sub(1))
    })
}

/// The priority; zero while somebody holds the job.
pub(crate) fn priority(row: &QueueRow) -> u32 {
    let held = row.reason.as_ref().is_some_and(|reason| reason.word.starts_with("JobHeld"));
    if held && row.state == JobState::Pending { 0 } else { row.priority }
}

/// A priority as a fraction of 2^32, fourteen digits.
fn fraction(priority: u32) -> String {
    format!("{:.14}", f64::from(priority) / 4_294_967_296.0)
}

/// Slurm's word for why a job waits or how it failed.
pub(crate) fn reason(row: &QueueRow) -> String {
    if let Some(reason) = &row.reason {
        return reason.word.clone();
    }
    match row.state {
        JobState::Failed => "NonZeroExitCode",
        JobState::Timeout => "TimeLimit",
        JobState::OutOfMemory => "OutOfMemory",
        JobState::Deadline => "DeadLine",
        JobState::NodeFail => "NodeDown",
        _ => "None",
    }
    .to_owned()
}

/// The nodes; for jobs that wait or failed the reason in parentheses.
fn nodes_or_reason(row: &QueueRow) -> String {
    match row.state {
        JobState::Pending
        | JobState::Failed
        | JobState::Timeout
        | JobState::OutOfMemory
        | JobState::Deadline => format!("({})", reason(row)),
        _ => row.node_list.clone(),
    }
}

/// The script's whole path, as Slurm shows it.
pub(crate) fn command(detail: &QueueDetail) -> String {
    match detail.command.as_str() {
        "" | "-" => "(null)".to_owned(),
        name if name.starts_with('/') => name.to_owned(),
        name => format!("{}/{}", detail.cwd.trim_end_matches('/'), name.trim_start_matches("./")),
    }
}

/// Each unmet term with what became of it: `afterok:2(unfulfilled)`.
pub(crate) fn dependency(row: &QueueRow, detail: &QueueDetail) -> String {
    if detail.dependency.is_empty() || row.state != JobState::Pending {
        return "(null)".to_owned();
    }
    let never = reason(row) == "DependencyNeverSatisfied";
    let mark = if never { "(failed)" } else { "(unfulfilled)" };
    let joiner = if detail.dependency.contains('?') { '?' } else { ',' };
    let terms: Vec<String> =
        detail.dependency.split(joiner).map(|term| format!("{term}{mark}")).collect();
    terms.join(&joiner.to_string())
}

/// Slurm's word for sharing nodes.
pub(crate) fn over_subscribe(detail: &QueueDetail) -> &'static str {
    match detail.exclusive.as_str() {
        "node" => "NO",
        "user" => "USER",
        _ => "OK",
    }
}

/// `100M`: what a CPU or a node gets at least.
fn memory(detail: &QueueDetail) -> String {
    let text = detail.memory_wanted.trim_end_matches(['c', 'n']);
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

/// `gres:gpu:2`, as 22.05 writes what newer releases write `gres/gpu:2`.
pub(crate) fn gres(detail: &QueueDetail) -> String {
    or_na(&detail.gres.replace("gres/", "gres:"))
}

/// Slurm's one number of an exit status: code times 256 plus signal.
pub(crate) fn exit_sum(row: &QueueRow) -> u32 {
    row.exit.map_or(0, |exit| (u32::from(exit.code) << 8) | u32::from(exit.signal))
}

fn output(row: &QueueRow, detail: &QueueDetail) -> String {
    let default = if row.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
    let name = if detail.output.is_empty() { default } else { &detail.output };
    if name.starts_with('/') { name.to_owned() } else { format!("{}/{name}", detail.cwd) }
}
