//! One job: where it stands and why, what it does, what holds it back.

use super::queue::style;
use crate::app::App;
use crate::seen::Detail;
use crate::theme::Theme;
use crate::words;
use muster_api::{WhyView, job::state_word, shown};
use muster_model::{JobState, Timestamp};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Where values begin.
const INDENT: usize = 12;

/// The lines so far, and how wide they may be.
struct Lines<'a> {
    all: Vec<Line<'a>>,
    width: usize,
}

impl Lines<'_> {
    /// A name and a value, which goes on below itself where it is long.
    fn pair(&mut self, name: &'static str, value: &str) {
        if value.is_empty() {
            return;
        }
        let mut name = format!("  {name}");
        for part in words::wrapped(&shown::text(value), self.width.saturating_sub(INDENT)) {
            self.all.push(Line::raw(format!("{name:<INDENT$}{part}")));
            name.clear();
        }
    }

    /// The title of what follows.
    fn title(&mut self, title: &'static str) {
        self.all.push(Line::raw(""));
        self.all.push(Line::styled(title, Theme::title()));
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let lines = match (&app.seen.job, app.job) {
        (Some(detail), Some(id)) if detail.view.row.id == id => {
            told(app, detail, area.width.into())
        }
        (None, Some(id)) if app.seen.row(id).is_none() && app.ready => {
            vec![Line::raw(format!("job {id} is not in the queue any more"))]
        }
        _ => vec![Line::raw("asking the daemon ...")],
    };
    // No farther than its last line at the top.
    app.scroll = app.scroll.min((lines.len() as u16).saturating_sub(1));
    let text = Paragraph::new(lines).scroll((app.scroll, 0));
    frame.render_widget(text, area);
}

fn told<'a>(app: &App, detail: &Detail, width: usize) -> Vec<Line<'a>> {
    let row = &detail.view.row;
    let at = |at: Timestamp| words::instant(at, app.seen.now, &app.zone);
    let title = format!("job {} {} ", shown::text(&row.job), shown::text(&row.name));
    let first = Line::from(vec![
        Span::styled(title, Theme::title()),
        Span::styled(state_word(row.state), style(app, row.state)),
    ]);
    let mut lines = Lines { all: vec![first], width };
    let waits_still = row.state == JobState::Pending;
    lines.pair("owner", &format!("{} ({}, QOS {})", row.user, row.account, row.qos));
    lines.pair("message", &detail.view.message);
    let idle = row.detail.as_ref().and_then(|detail| detail.idle.as_ref());
    let idle = idle.filter(|idle| idle.taken_s.is_none());
    lines.pair("GPUs", &idle.map(|idle| idle.told(at)).unwrap_or_default());
    lines.pair("submitted", &at(row.submitted_ms));
    lines.pair("started", &row.started_ms.map(at).unwrap_or_default());
    let end = if row.state.is_over() { "ended" } else { "ends by" };
    lines.pair(end, &row.ended_ms.map(at).unwrap_or_default());
    let limit = row.time_limit_s.map_or("no limit".to_owned(), words::span);
    let ran = words::span(row.run_time(app.seen.now).0);
    match waits_still {
        true => lines.pair("time limit", &limit),
        false => lines.pair("run time", &format!("{ran} of {limit}")),
    }
    lines.pair("partition", &row.partition);
    lines.pair("nodes", &row.node_list);
    lines.pair(if waits_still { "needs" } else { "has" }, &row.tres);
    lines.pair("output", &detail.view.stdout_path);
    if waits_still {
        lines.title("why it waits");
        if let Some(why) = &detail.why {
            waits(app, why, &mut lines);
        }
    } else if !row.state.is_over() {
        does(app, detail, &mut lines);
    }
    held_back(detail, &mut lines);
    lines.all
}

fn waits(app: &App, why: &WhyView, lines: &mut Lines<'_>) {
    let at = |at: Timestamp| words::instant(at, app.seen.now, &app.zone);
    for reason in &why.reasons {
        lines.pair("because", &format!("{} [{}]", reason.text, reason.code));
        lines.pair("since", &reason.since_ms.map(at).unwrap_or_default());
    }
    let start = match (why.expected_ms, why.not_before_ms) {
        (Some(start), _) => at(start),
        (None, Some(bound)) => format!("not before {}", at(bound)),
        (None, None) => "not known".to_owned(),
    };
    lines.pair("starts", &start);
    lines.pair("on", &why.expected_nodes);
    for advice in &why.advice {
        lines.pair("measured", advice);
    }
    for nodes in &why.nodes {
        lines.pair("nodes", &format!("{} ({}): {}", nodes.count, nodes.names, nodes.text));
    }
    for suggestion in &why.suggestions {
        lines.pair("would do", &format!("{} ({})", suggestion.change, suggestion.text));
    }
}

/// What it does now, where that is measured.
fn does(app: &App, detail: &Detail, lines: &mut Lines<'_>) {
    let id = detail.view.row.id;
    let seen = &app.seen;
    let gpus: Vec<_> = app.gpus().filter(|(_, gpu)| gpu.jobs.contains(&id)).collect();
    let Some(meter) = seen.meters.jobs.get(&id) else {
        if gpus.is_empty() {
            return;
        }
        return gpu_lines(app, &gpus, lines);
    };
    lines.title("what it does");
    let earlier = seen.earlier.as_ref().filter(|(seconds, _)| *seconds > 0.5);
    let rate = |of: fn(&crate::meters::JobMeter) -> Option<f64>| {
        let (seconds, before) = earlier?;
        // A count that fell began anew.
        let grown = of(meter)? - of(before.jobs.get(&id)?)?;
        (grown >= 0.0).then_some(grown / seconds)
    };
    if let Some(used) = rate(|meter| meter.cpu) {
        let cpus = meter.cpus.unwrap_or_else(|| f64::from(detail.view.row.cpus));
        let bar = words::bar(used, cpus, 22);
        lines.pair("CPU", &format!("{bar} {used:.1} of {cpus:.0} CPUs"));
    }
    if let Some(memory) = meter.memory {
        let text = match meter.memory_limit {
            Some(limit) => format!(
                "{} {} of {}",
                words::bar(memory, limit, 22),
                words::bytes(memory),
                words::bytes(limit)
            ),
            None => words::bytes(memory),
        };
        lines.pair("memory", &text);
    }
    let disk = |of| rate(of).map(|rate| format!("{}/s", words::bytes(rate)));
    if let (Some(read), Some(written)) = (disk(|m| m.read), disk(|m| m.written)) {
        lines.pair("disk", &format!("{read} read, {written} written"));
    }
    if let Some(stalled) = rate(|meter| meter.io_stalled) {
        lines.pair("stands", &format!("{:.0} % of the time for I/O", 100.0 * stalled));
    }
    gpu_lines(app, &gpus, lines);
}

fn gpu_lines(
    app: &App,
    gpus: &[(&muster_api::NodeView, &muster_api::DeviceView)],
    lines: &mut Lines<'_>,
) {
    for (node, gpu) in gpus {
        let Some(meter) = app.seen.meters.gpus.get(&gpu.uuid) else { continue };
        let busy = meter.busy.map_or("use not known".to_owned(), |busy| {
            format!("{} {busy:.0} %", words::bar(busy, 100.0, 22))
        });
        let used = meter.used.map(|used| format!(", {}", words::mib(used as u64)));
        let text = format!("{busy}{} ({} {})", used.unwrap_or_default(), node.name, gpu.index);
        lines.pair("GPU", &text);
    }
}

fn held_back(detail: &Detail, lines: &mut Lines<'_>) {
    let Some((period, diagnosis)) = &detail.diagnosis else { return };
    if diagnosis.state.is_over() || detail.view.row.state == JobState::Pending {
        return;
    }
    lines.title("what holds it back");
    match diagnosis.verdict.as_str() {
        "too_short" if *period == 0 => lines.pair("", "jobs are not looked at here"),
        "too_short" => lines.pair("", "too early to say: two minutes of samples are needed"),
        "fine" => lines.pair("", &format!("nothing, as far as {} s show", diagnosis.window_s)),
        "cannot_tell" => {
            let missing = diagnosis.missing.join(", ");
            lines.pair("", &format!("nothing was found, but this cannot be seen: {missing}"));
        }
        _ => {}
    }
    for finding in &diagnosis.findings {
        let sure = if finding.sure { "" } else { " (likely)" };
        lines.pair("finding", &format!("{}{sure} [{}]", finding.text, finding.code));
        lines.pair("because", &finding.evidence);
        lines.pair("do", &finding.remedy);
    }
}
