//! The plan: time from left to right, a line a node.

use super::{table, text};
use crate::app::{App, HORIZONS};
use crate::words;
use muster_api::{PlanBar, PlanKind, PlanLane, shown};
use muster_model::{Seconds, Timestamp};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Cell;

/// Columns of the nodes' names.
const NAMES: u16 = 14;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let hours = HORIZONS[app.horizon];
    let columns = usize::from(area.width.saturating_sub(NAMES + 1)).max(10);
    let title = format!("#runs +promised =reserved  next {hours} h");
    let axis: &str = &title;
    let widths = [("NODE", Constraint::Length(NAMES)), (axis, Constraint::Min(10))];
    table(frame, app, area, &widths, |app, at| {
        let Some(lane) = app.seen.plan.lanes.get(at) else { return Vec::new() };
        vec![text(&lane.name), Cell::new(line(app, lane, hours, columns))]
    });
}

/// A lane's letters: in each column what takes most of the node then.
fn line<'a>(app: &App, lane: &PlanLane, hours: u64, columns: usize) -> Line<'a> {
    let now = app.seen.plan.now_ms;
    let column = |nth: usize| {
        let from = now.plus(Seconds(hours * 3600 * nth as u64 / columns as u64));
        let to = now.plus(Seconds(hours * 3600 * (nth as u64 + 1) / columns as u64));
        let mut taken = [0_u32; 3];
        for part in &lane.parts {
            let Some(bar) = app.seen.plan.bars.get(part.bar as usize) else { continue };
            if bar.start_ms < to && bar.end_ms.is_none_or(|end| end > from) {
                taken[bar.kind as usize] += part.cpus.max(1);
            }
        }
        let most = taken.iter().max().copied().unwrap_or(0);
        match taken.iter().position(|cpus| *cpus == most && most > 0) {
            _ if lane.away => Span::styled("x", app.theme.bad()),
            None => Span::styled(".", app.theme.faint()),
            Some(0) => Span::styled("#", app.theme.good()),
            Some(1) => Span::styled("+", app.theme.some()),
            Some(_) => Span::raw("="),
        }
    };
    (0..columns).map(column).collect()
}

/// What lies on the chosen node, one a line.
pub(super) fn chosen(app: &App) -> String {
    let plan = &app.seen.plan;
    let Some(lane) = plan.lanes.get(app.place().chosen) else {
        return "no nodes".to_owned();
    };
    let mut bars: Vec<&PlanBar> =
        lane.parts.iter().filter_map(|part| plan.bars.get(part.bar as usize)).collect();
    bars.sort_by_key(|bar| bar.start_ms);
    bars.dedup();
    let at = |at: Timestamp| words::instant(at, plan.now_ms, &app.zone);
    let told = bars.iter().map(|bar| {
        let end = bar.end_ms.map_or("without an end".to_owned(), |end| format!("to {}", at(end)));
        let mut text = match bar.kind {
            PlanKind::Running => {
                format!("runs      {} {} ({}) {end}", bar.title, bar.name, bar.user)
            }
            PlanKind::Promised => format!(
                "promised  {} {} ({}) from {} {end}",
                bar.title,
                bar.name,
                bar.user,
                at(bar.start_ms)
            ),
            PlanKind::Reserved => {
                format!("reserved  {} ({}) from {} {end}", bar.title, bar.user, at(bar.start_ms))
            }
        };
        if !bar.why.is_empty() {
            text.push_str(": ");
            text.push_str(&bar.why);
        }
        shown::text(&text)
    });
    let lines: Vec<String> = told.collect();
    if lines.is_empty() { "nothing is planned there".to_owned() } else { lines.join("\n") }
}
