//! GPUs: whose each is, and what it does where that is measured.

use super::{right, table, text};
use crate::app::App;
use crate::words;
use muster_api::{DeviceView, NodeView};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;
use ratatui::widgets::Cell;

const WIDE: u16 = 110;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let wide = area.width >= WIDE;
    let bar = if wide { 22 } else { 10 };
    let columns = [
        ("NODE", Constraint::Length(if wide { 20 } else { 10 })),
        (">GPU", Constraint::Length(3)),
        ("MODEL", Constraint::Length(if wide { 16 } else { 9 })),
        (">USE", Constraint::Length(4)),
        ("", Constraint::Length(bar)),
        (">MEMORY", Constraint::Length(10)),
        (">TEMP", Constraint::Length(4)),
        (">POWER", Constraint::Length(5)),
        ("JOB", Constraint::Min(12)),
    ];
    let all: Vec<(NodeView, DeviceView)> = window(app, area);
    table(frame, app, area, &columns, |app, at| {
        let Some((node, gpu)) = all.get(at - app.place().top) else { return Vec::new() };
        let meter = app.seen.meters.gpus.get(&gpu.uuid).filter(|_| !gpu.uuid.is_empty());
        let number =
            |of: Option<f64>, unit| of.map(|v| format!("{v:.0}{unit}")).unwrap_or_default();
        let busy = meter.and_then(|meter| meter.busy);
        let total = words::mib(gpu.memory_mib);
        let memory = match meter.and_then(|meter| meter.used) {
            Some(used) => format!("{}/{total}", words::mib(used as u64)),
            None => total,
        };
        vec![
            text(&node.name),
            right(gpu.index.to_string()),
            text(&gpu.model),
            right(number(busy, "%")),
            Cell::new(busy.map(|busy| words::bar(busy, 100.0, bar.into())).unwrap_or_default()),
            right(memory),
            right(number(meter.and_then(|meter| meter.heat), "C")),
            right(number(meter.and_then(|meter| meter.power), "W")),
            holder(app, gpu),
        ]
    });
}

fn window(app: &mut App, area: Rect) -> Vec<(NodeView, DeviceView)> {
    app.show(Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area });
    let seen = usize::from(area.height);
    let slim = |node: &NodeView| NodeView { name: node.name.clone(), ..NodeView::default() };
    let all = app.gpus().skip(app.place().top).take(seen);
    all.map(|(node, gpu)| (slim(node), gpu.clone())).collect()
}

/// What is wrong with it, else whose it is.
fn holder<'a>(app: &App, gpu: &DeviceView) -> Cell<'a> {
    let meter = app.seen.meters.gpus.get(&gpu.uuid);
    if !gpu.unhealthy.is_empty() {
        let why = muster_api::shown::text(&gpu.unhealthy);
        return Cell::new(Span::styled(why, app.theme.bad()));
    }
    if meter.is_some_and(|meter| meter.lost) {
        return Cell::new(Span::styled("does not answer", app.theme.bad()));
    }
    if let Some(xids) = meter.map(|meter| meter.xids).filter(|xids| *xids > 0.0) {
        let text = format!("{xids:.0} Xids that ask for a drain");
        return Cell::new(Span::styled(text, app.theme.bad()));
    }
    let told = gpu.jobs.iter().map(|id| match app.seen.row(*id) {
        Some(row) => format!("{} {} {}", row.job, row.user, row.name),
        None => id.to_string(),
    });
    let mut told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() {
        "free".clone_into(&mut told);
    }
    if !gpu.mode.is_empty() {
        told = format!("{told} ({})", gpu.mode);
    }
    text(&told)
}
