//! `muster job`: one job whole.

use muster_api::{JobRef, JobView, QueueDetail, ReportView};
use muster_client::Client;
use muster_model::{Seconds, Timestamp};
use std::fmt::Write as _;

use crate::act;
use crate::args::JobArgs;
use crate::say::{self, Failure, Outcome, tell};

/// Runs the command.
pub(crate) fn run(args: &JobArgs) -> Outcome {
    let job = act::job(&args.job)?;
    let client = Client::connect()?;
    if args.diagnose {
        return crate::diagnose::run(&client, &job, args.json);
    }
    if args.report {
        return report(&client, &job, args.json);
    }
    let page = client.job(&job)?;
    if page.jobs.is_empty() {
        return Err(Failure::new(format!("there is no job {} [E_JOB_UNKNOWN]", args.job)));
    }
    if args.json {
        return say::json(&page);
    }
    let texts: Vec<String> = page.jobs.iter().map(|view| text(view, say::now())).collect();
    tell(&texts.join("\n"));
    Ok(0)
}

fn report(client: &Client, job: &JobRef, json: bool) -> Outcome {
    let page = client.report(job)?;
    if json {
        return say::json(&page);
    }
    let texts: Vec<String> = page.jobs.iter().map(ReportView::text).collect();
    tell(&texts.join("\n"));
    Ok(0)
}

/// A job in lines of a name and a value; what says nothing is left out.
fn text(view: &JobView, now: Timestamp) -> String {
    let row = &view.row;
    let nothing = QueueDetail::default();
    let detail = row.detail.as_deref().unwrap_or(&nothing);
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut line = |name, value: String| {
        if !value.is_empty() {
            lines.push((name, value));
        }
    };
    let ended = row.state.is_over();
    line("state", say::coloured(row.state));
    if let Some(reason) = row.reason.as_ref().filter(|_| !ended) {
        line("waits because", format!("{} [{}]", reason.text, reason.code));
    }
    line("message", view.message.clone());
    let idle = detail.idle.as_ref().filter(|idle| !ended && idle.taken_s.is_none());
    line("GPUs", idle.map(|idle| idle.told(say::instant)).unwrap_or_default());
    line("owner", format!("{} (account {}, QOS {})", row.user, row.account, row.qos));
    line("submitted", format!("{} from {}", say::instant(row.submitted_ms), view.submit_host));
    line("begin", view.begin_ms.map(say::instant).unwrap_or_default());
    line("started", row.started_ms.map(say::instant).unwrap_or_default());
    if row.started_ms.is_none() {
        line("expected", row.expected_ms.map(say::instant).unwrap_or_default());
    }
    line(
        if ended { "ended" } else { "ends by" },
        row.ended_ms.map(say::instant).unwrap_or_default(),
    );
    line("run time", run_time(view, now));
    line("exit", row.exit.filter(|_| ended).map(|exit| exit.to_string()).unwrap_or_default());
    line("partition", row.partition.clone());
    line("nodes", nodes(view));
    line("amounts", row.tres.clone());
    let nearness = view.placement.as_ref().filter(|p| view.shares.len() > 1 || p.ring_mbs > 0);
    line("nearness", nearness.map(|p| p.text.clone()).unwrap_or_default());
    for share in &view.shares {
        line("on", share_line(share));
    }
    line("reservation", detail.reservation.clone());
    line("features", detail.features.clone());
    line("dependency", detail.dependency.clone());
    line("command", detail.command.clone());
    line("directory", detail.cwd.clone());
    line("output", view.stdout_path.clone());
    if view.stderr_path != view.stdout_path {
        line("errors", view.stderr_path.clone());
    }
    line("comment", detail.comment.clone());
    line(
        "peak memory",
        if view.usage.memory_peak_kib > 0 {
            format!("{} KiB", view.usage.memory_peak_kib)
        } else {
            String::new()
        },
    );
    line(
        "peak GPU memory",
        match view.usage.gpu_memory_peak_mib {
            0 => String::new(),
            peak => format!("{peak} MiB of one GPU"),
        },
    );
    line("checkpoint", checkpoint(view, now));
    line("starts before", if row.restarts > 0 { row.restarts.to_string() } else { String::new() });
    for warning in &view.warnings {
        line("warning", warning.clone());
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = format!("{}\n", say::bold(&format!("job {}  {}", row.job, row.name)));
    for (name, value) in lines {
        let _ = writeln!(out, "  {name:<width$}  {value}");
    }
    out
}

fn run_time(view: &JobView, now: Timestamp) -> String {
    let row = &view.row;
    let limit = say::limit(row.time_limit_s);
    format!("{} of {limit}", say::seconds(row.run_time(now).0))
}

/// When it last reported a checkpoint, and what would be lost now.
fn checkpoint(view: &JobView, now: Timestamp) -> String {
    let dir = view.checkpoint.as_ref().map(|c| c.dir.clone()).unwrap_or_default();
    let Some(at) = view.checkpointed_ms else { return dir };
    let Seconds(since) = now.since(at);
    let when = format!("reported {}", say::instant(at));
    let lost = match view.row.state.holds_resources() {
        true => format!(", {} of work since", say::seconds(since)),
        false => String::new(),
    };
    let place = if dir.is_empty() { String::new() } else { format!("{dir}; ") };
    format!("{place}{when}{lost}")
}

fn nodes(view: &JobView) -> String {
    let row = &view.row;
    if row.node_list.is_empty() { format!("{} wanted", row.nodes) } else { row.node_list.clone() }
}

/// Where the engine picks CPUs and GPUs by itself: how many.
fn counted_line(share: &muster_api::ShareView) -> String {
    let cpus = muster_model::CpuSet::parse(&share.cpus).map_or(0, |cpus| cpus.len());
    let mut text = format!("{}: {} tasks, {cpus} CPUs", share.node, share.tasks);
    if share.memory_mib > 0 {
        let _ = write!(text, ", {} MiB", share.memory_mib);
    }
    if !share.gpus.is_empty() {
        let _ = write!(text, ", {} {} GPUs", share.gpus.len(), share.gpu_model);
    }
    text + " of its engine's choice"
}

fn share_line(share: &muster_api::ShareView) -> String {
    if share.counts_only {
        return counted_line(share);
    }
    let mut text = format!("{}: {} tasks, CPUs {}", share.node, share.tasks, share.cpus);
    if !share.far_cpus.is_empty() {
        let _ = write!(text, " ({} away from its GPUs)", share.far_cpus);
    }
    if share.memory_mib > 0 {
        let _ = write!(text, ", {} MiB", share.memory_mib);
    }
    if !share.gpus.is_empty() {
        let numbers: muster_model::IndexRanges = share.gpus.iter().copied().collect();
        let _ = write!(text, ", {} GPUs {numbers}", share.gpu_model);
    }
    if !share.gpu_parts.is_empty() {
        let _ = write!(text, " ({})", share.gpu_parts.join("; "));
    }
    if share.gpu_ring_gbs > 0 {
        let _ = write!(text, ", ring of {} GB/s", share.gpu_ring_gbs);
    }
    text
}
