//! Shares: what accounts and users have used beside what is due to them.

use super::{right, table, text};
use crate::app::App;
use crate::words;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::Cell;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let bar = (area.width / 5).max(10).min(area.width.saturating_sub(70).max(10));
    let columns = [
        ("ACCOUNT OR USER", Constraint::Length(if area.width > 100 { 30 } else { 20 })),
        (">SHARE", Constraint::Length(6)),
        (">USED", Constraint::Length(6)),
        ("OF ALL USE", Constraint::Length(bar)),
        (">FACTOR", Constraint::Length(6)),
        (">RUN", Constraint::Length(5)),
        (">ALL", Constraint::Length(6)),
        ("HOLDS", Constraint::Min(8)),
    ];
    table(frame, app, area, &columns, |app, at| {
        let Some(line) = app.seen.shares.get(at) else { return Vec::new() };
        let name = line.user.as_ref().unwrap_or(&line.account);
        let depth = line.depth as usize + usize::from(line.user.is_some());
        let percent = |billionths: u64| format!("{:.1}%", billionths as f64 / 1e7);
        vec![
            text(&format!("{:indent$}{name}", "", indent = 2 * depth.min(6))),
            right(percent(line.norm_shares)),
            right(percent(line.norm_usage)),
            Cell::new(words::bar(line.norm_usage as f64, 1e9, bar.into())),
            right(format!("{:.3}", line.fair_share as f64 / 1e9)),
            right(line.running.to_string()),
            right(line.submitted.to_string()),
            text(&line.in_use),
        ]
    });
}
