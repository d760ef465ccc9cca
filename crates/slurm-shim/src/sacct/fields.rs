//! Every field that `sacct` has: its name, its width and its text for a job or a step.
//!
//! Names and widths are those of Slurm 22.05, with the names that newer releases added.

use muster_api::{HistoryRow, StepView};
use muster_model::{ExitStatus, JobState, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::duration::print_long;
use muster_slurm_syntax::state::SlurmState;

use crate::{clock, ident};

/// A line of sacct's table.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The job.
    pub(crate) row: &'a HistoryRow,
    /// The step, where the line is about one.
    pub(crate) step: Option<&'a StepView>,
    /// The name of the cluster.
    pub(crate) cluster: &'a str,
    /// The daemon's clock.
    pub(crate) now: Timestamp,
}

/// A field of sacct.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its width; below zero to the left.
    pub(crate) width: i32,
    /// Its text.
    pub(crate) text: fn(&Line<'_>) -> String,
}

macro_rules! fields {
    ($($name:literal $width:literal |$line:pat_param| $text:expr;)+) => {
        /// Every field, by name.
        pub(crate) const FIELDS: &[Field] = &[$(Field {
            name: $name,
            width: $width,
            text: |$line| $text,
        },)+];
    };
}

fields! {
    "Account" 10 |l| l.row.account.clone();
    "AdminComment" 15 |_| String::new();
    "AllocCPUS" 10 |l| cpus(l).to_string();
    "AllocNodes" 10 |l| nodes(l).to_string();
    "AllocTRES" 10 |l| tres(l, &l.row.tres);
    "AssocID" 7 |_| String::new();
    "AveCPU" 10 |l| of_step(l, |s| seconds(cpu_ms(s) / 1000));
    "AveCPUFreq" 10 |l| of_step(l, |_| "0".into());
    "AveDiskRead" 14 |_| String::new();
    "AveDiskWrite" 14 |_| String::new();
    "AvePages" 10 |_| String::new();
    "AveRSS" 10 |l| of_step(l, rss);
    "AveVMSize" 10 |_| String::new();
    "BlockID" 16 |_| String::new();
    "Cluster" 10 |l| l.cluster.to_owned();
    "Comment" 14 |l| of_job(l, |r| r.comment.clone());
    "Constraints" 19 |_| String::new();
    "ConsumedEnergy" 14 |l| of_step(l, |_| "0".into());
    "ConsumedEnergyRaw" 17 |l| of_step(l, |_| "0".into());
    "Container" 19 |_| String::new();
    "CPUTime" 10 |l| seconds(elapsed_s(l) * u64::from(cpus(l)));
    "CPUTimeRAW" 10 |l| (elapsed_s(l) * u64::from(cpus(l))).to_string();
    "DBIndex" 10 |l| l.row.id.to_string();
    "DerivedExitCode" 15 |l| of_job(l, |r| derived(r).to_string());
    "Elapsed" 10 |l| seconds(elapsed_s(l));
    "ElapsedRaw" 10 |l| elapsed_s(l).to_string();
    "Eligible" 19 |l| unknown(match l.step { Some(s) => Some(s.started_ms), None => l.row.eligible_ms });
    "End" 19 |l| unknown(ended(l));
    "ExitCode" 8 |l| exit(l).to_string();
    "Extra" 12 |_| String::new();
    "FailedNode" 15 |_| String::new();
    "Flags" 19 |_| String::new();
    "GID" 6 |l| of_job(l, |r| r.gid.to_string());
    "Group" 9 |l| of_job(l, |r| ident::group_name(r.gid));
    "JobID" -12 |l| id(&l.row.job, l);
    "JobIDRaw" -12 |l| id(&l.row.id.to_string(), l);
    "JobName" 10 |l| l.step.map_or_else(|| l.row.name.clone(), |s| s.name.clone());
    "Layout" 9 |_| String::new();
    "Licenses" 10 |_| String::new();
    "MaxDiskRead" 12 |_| String::new();
    "MaxDiskReadNode" 15 |_| String::new();
    "MaxDiskReadTask" 15 |_| String::new();
    "MaxDiskWrite" 12 |_| String::new();
    "MaxDiskWriteNode" 16 |_| String::new();
    "MaxDiskWriteTask" 16 |_| String::new();
    "MaxPages" 8 |_| String::new();
    "MaxPagesNode" 12 |_| String::new();
    "MaxPagesTask" 14 |_| String::new();
    "MaxRSS" 10 |l| of_step(l, rss);
    "MaxRSSNode" 10 |_| String::new();
    "MaxRSSTask" 10 |_| String::new();
    "MaxVMSize" 10 |_| String::new();
    "MaxVMSizeNode" 14 |_| String::new();
    "MaxVMSizeTask" 14 |_| String::new();
    "McsLabel" 12 |_| String::new();
    "MinCPU" 10 |l| of_step(l, |s| seconds(cpu_ms(s) / 1000));
    "MinCPUNode" 10 |_| String::new();
    "MinCPUTask" 10 |_| String::new();
    "NCPUS" 10 |l| cpus(l).to_string();
    "NNodes" 8 |l| nodes(l).to_string();
    "NodeList" 15 |l| node_list(l);
    "NTasks" 8 |l| of_step(l, |s| s.tasks.to_string());
    "Partition" 10 |l| of_job(l, |r| r.partition.clone());
    "Planned" 10 |l| of_job(l, |r| seconds(planned_s(r, l.now)));
    "PlannedCPU" 10 |l| of_job(l, |r| seconds(planned_s(r, l.now) * u64::from(r.cpus)));
    "PlannedCPURAW" 13 |l| of_job(l, |r| (planned_s(r, l.now) * u64::from(r.cpus)).to_string());
    "Priority" 10 |_| String::new();
    "QOS" 10 |l| of_job(l, |r| r.qos.clone());
    "QOSRAW" 6 |_| String::new();
    "Reason" 22 |l| of_job(l, |r| if r.reason.is_empty() { "None".into() } else { r.reason.clone() });
    "ReqCPUFreq" 10 |_| "Unknown".into();
    "ReqCPUFreqGov" 13 |_| "Unknown".into();
    "ReqCPUFreqMax" 13 |_| "Unknown".into();
    "ReqCPUFreqMin" 13 |_| "Unknown".into();
    "ReqCPUS" 8 |l| cpus(l).to_string();
    "ReqMem" 10 |l| of_job(l, |r| mebibytes(r.memory_mib));
    "ReqNodes" 8 |l| nodes(l).to_string();
    "ReqTRES" 10 |l| of_job(l, |r| sorted(&r.tres_wanted, true));
    "Reservation" 20 |_| String::new();
    "ReservationId" 8 |_| String::new();
    "Reserved" 10 |l| of_job(l, |r| seconds(planned_s(r, l.now)));
    "Restarts" 8 |l| of_job(l, |r| r.attempt.saturating_sub(1).to_string());
    "ResvCPU" 10 |l| of_job(l, |r| seconds(planned_s(r, l.now) * u64::from(r.cpus)));
    "ResvCPURAW" 10 |l| of_job(l, |r| (planned_s(r, l.now) * u64::from(r.cpus)).to_string());
    "Start" 19 |l| unknown(started(l));
    "State" 10 |l| state(l);
    "StdErr" 20 |_| String::new();
    "StdIn" 20 |_| String::new();
    "StdOut" 20 |_| String::new();
    "Submit" 19 |l| unknown(Some(l.step.map_or(l.row.submitted_ms, |s| s.started_ms)));
    "SubmitLine" 20 |l| of_job(l, |r| r.command.clone());
    "Suspended" 10 |l| seconds(suspended_s(l));
    "SystemComment" 15 |_| String::new();
    "SystemCPU" 10 |l| millis(usage(l).1);
    "Timelimit" 10 |l| of_job(l, |r| print_long(limit(r)));
    "TimelimitRaw" 10 |l| of_job(l, |r| r.time_limit_s.map_or("UNLIMITED".into(), |s| s.div_ceil(60).to_string()));
    "TotalCPU" 10 |l| millis(usage(l).0 + usage(l).1);
    "TRESUsageInAve" 14 |l| of_step(l, tres_used);
    "TRESUsageInMax" 14 |l| of_step(l, tres_used);
    "TRESUsageInMaxNode" 18 |_| String::new();
    "TRESUsageInMaxTask" 18 |_| String::new();
    "TRESUsageInMin" 14 |l| of_step(l, tres_used);
    "TRESUsageInMinNode" 18 |_| String::new();
    "TRESUsageInMinTask" 18 |_| String::new();
    "TRESUsageInTot" 14 |l| of_step(l, tres_used);
    "TRESUsageOutAve" 15 |_| String::new();
    "TRESUsageOutMax" 15 |_| String::new();
    "TRESUsageOutMaxNode" 19 |_| String::new();
    "TRESUsageOutMaxTask" 19 |_| String::new();
    "TRESUsageOutMin" 15 |_| String::new();
    "TRESUsageOutMinNode" 19 |_| String::new();
    "TRESUsageOutMinTask" 19 |_| String::new();
    "TRESUsageOutTot" 15 |_| String::new();
    "UID" 6 |l| of_job(l, |r| r.uid.to_string());
    "User" 9 |l| of_job(l, |r| r.user.clone());
    "UserCPU" 10 |l| millis(usage(l).0);
    "WCKey" 10 |_| String::new();
    "WCKeyID" 10 |_| String::new();
    "WorkDir" 20 |l| of_job(l, |r| r.cwd.clone());
}

/// The field of a name in any case; a beginning names the first field that has it.
pub(crate) fn by_name(name: &str) -> Option<Field> {
    let lower = name.to_ascii_lowercase();
    let known = |field: &&Field| field.name.to_ascii_lowercase() == lower;
    let begins = |field: &&Field| field.name.to_ascii_lowercase().starts_with(&lower);
    let exact = FIELDS.iter().find(known);
    exact.or_else(|| FIELDS.iter().find(begins).filter(|_| !lower.is_empty())).copied()
}

fn of_job(line: &Line<'_>, text: impl Fn(&HistoryRow) -> String) -> String {
    if line.step.is_none() { text(line.row) } else { String::new() }
}

fn of_step(line: &Line<'_>, text: impl Fn(&StepView) -> String) -> String {
    line.step.map(text).unwrap_or_default()
}

fn id(base: &str, line: &Line<'_>) -> String {
    match line.step {
        Some(step) => format!("{base}.{}", step.id),
        None => base.to_owned(),
    }
}

fn nodes(line: &Line<'_>) -> u32 {
    line.step.map_or(line.row.nodes, |step| step.nodes)
}

fn cpus(line: &Line<'_>) -> u32 {
    match line.step {
        Some(step) if step.nodes < line.row.nodes => {
            (line.row.cpus / line.row.nodes.max(1)).saturating_mul(step.nodes)
        }
        _ => line.row.cpus,
    }
}

fn started(line: &Line<'_>) -> Option<Timestamp> {
    match line.step {
        Some(step) => Some(step.started_ms),
        None => line.row.started_ms,
    }
}

fn ended(line: &Line<'_>) -> Option<Timestamp> {
    match line.step {
        Some(step) => step.ended_ms,
        None if line.row.state.is_over() => line.row.ended_ms,
        None => None,
    }
}

fn elapsed_s(line: &Line<'_>) -> u64 {
    match line.step {
        Some(step) => line.row.step_run_time(step, line.now).0,
        None => line.row.run_time(line.now).0,
    }
}

/// How long it stood still: what of its time is not run time.
fn suspended_s(line: &Line<'_>) -> u64 {
    let Some(started) = started(line) else { return 0 };
    let all = ended(line).unwrap_or(line.now).since(started).0;
    all.saturating_sub(elapsed_s(line))
}

fn planned_s(row: &HistoryRow, now: Timestamp) -> u64 {
    let Some(eligible) = row.eligible_ms else { return 0 };
    row.started_ms.or(row.ended_ms).unwrap_or(now).since(eligible).0
}

fn limit(row: &HistoryRow) -> TimeLimit {
    row.time_limit_s.map_or(TimeLimit::Unlimited, |s| TimeLimit::Of(Seconds(s)))
}

fn seconds(seconds: u64) -> String {
    print_long(TimeLimit::Of(Seconds(seconds)))
}

fn unknown(at: Option<Timestamp>) -> String {
    clock::instant_or(at, "Unknown")
}

fn node_list(line: &Line<'_>) -> String {
    if line.row.node_list.is_empty() {
        "None assigned".to_owned()
    } else {
        line.row.node_list.clone()
    }
}

/// A job that was cancelled keeps 0:0; what its processes died of stands on its steps.
fn exit(line: &Line<'_>) -> ExitStatus {
    match line.step {
        Some(step) => step.exit,
        None if line.row.state == JobState::Cancelled => ExitStatus::SUCCESS,
        None => line.row.exit,
    }
}

/// The highest status of the steps that srun started.
fn derived(row: &HistoryRow) -> ExitStatus {
    let of_srun = row.steps.iter().filter(|step| step.id.parse::<u32>().is_ok());
    of_srun.map(|step| step.exit).max_by_key(|e| (e.code, e.signal)).unwrap_or_default()
}

/// A job's state as accounting has it: from its start to its end it runs. Slurm's accounting
/// knows neither CONFIGURING nor COMPLETING, and clients (submitit) take them for an end.
pub(super) fn accounted(state: JobState) -> SlurmState {
    match state {
        JobState::Starting | JobState::Completing => SlurmState::Running,
        other => SlurmState::from(other),
    }
}

fn state(line: &Line<'_>) -> String {
    let job = accounted(line.row.state);
    let Some(step) = line.step else {
        return match (line.row.state, line.row.cancelled_by) {
            (JobState::Cancelled, Some(uid)) => format!("{} by {uid}", job.name()),
            _ => job.name().to_owned(),
        };
    };
    let state = match (step.ended_ms, step.exit) {
        (None, _) if line.row.state.is_over() => job,
        // A step stands still with its job.
        (None, _) if line.row.state == JobState::Suspended => job,
        (None, _) => SlurmState::Running,
        (Some(_), exit) if exit.success() => SlurmState::Completed,
        (Some(_), _) if line.row.state == JobState::OutOfMemory => SlurmState::OutOfMemory,
        (Some(_), exit) if exit.signal != 0 => SlurmState::Cancelled,
        (Some(_), _) => SlurmState::Failed,
    };
    state.name().to_owned()
}

/// Milliseconds of CPU time in user mode and in the kernel.
fn usage(line: &Line<'_>) -> (u64, u64) {
    let usage = line.step.map_or(line.row.usage, |step| step.usage);
    (usage.cpu_user_ms, usage.cpu_system_ms)
}

fn cpu_ms(step: &StepView) -> u64 {
    step.usage.cpu_user_ms + step.usage.cpu_system_ms
}

/// `00:00:00`, `01:02.345` below an hour, `1-02:03:04`.
fn millis(ms: u64) -> String {
    if ms == 0 || ms >= 3_600_000 {
        return seconds(ms / 1000);
    }
    format!("{:02}:{:02}.{:03}", ms / 60_000, ms / 1000 % 60, ms % 1000)
}

fn rss(step: &StepView) -> String {
    match step.usage.memory_peak_kib {
        0 => "0".to_owned(),
        kib => format!("{kib}K"),
    }
}

fn tres_used(step: &StepView) -> String {
    format!("cpu={},mem={}", seconds(cpu_ms(step) / 1000), rss(step))
}

fn tres(line: &Line<'_>, text: &str) -> String {
    sorted(text, line.step.is_none())
}

/// The parts of a TRES text by name, as the accounting database keeps them.
fn sorted(text: &str, billing: bool) -> String {
    let mut parts: Vec<&str> = text
        .split(',')
        .filter(|p| !p.is_empty() && (billing || !p.starts_with("billing=")))
        .collect();
    parts.sort_unstable();
    parts.join(",")
}

/// `100M`, `1G`, `62.50G`: a larger unit where halves of it come out even.
pub(crate) fn mebibytes(mib: u64) -> String {
    const UNITS: [char; 4] = ['M', 'G', 'T', 'P'];
    let (mut whole, mut half, mut unit) = (mib, false, 0);
    while !half && whole >= 1024 && whole.is_multiple_of(512) && unit + 1 < UNITS.len() {
        half = !whole.is_multiple_of(1024);
        whole /= 1024;
        unit += 1;
    }
    if half { format!("{whole}.50{}", UNITS[unit]) } else { format!("{whole}{}", UNITS[unit]) }
}
