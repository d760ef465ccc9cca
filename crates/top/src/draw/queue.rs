//! What waits and why, what runs and where.

use super::{right, table, text};
use crate::app::App;
use crate::words;
use muster_api::{QueueRow, job::state_word, shown};
use muster_model::JobState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Cell;

/// From so many columns on there is room for account, partition and CPUs.
const WIDE: u16 = 110;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let wide = area.width >= WIDE;
    let mut columns = vec![
        ("JOB", Constraint::Length(if wide { 12 } else { 8 })),
        ("NAME", Constraint::Length(if wide { 20 } else { 11 })),
        ("USER", Constraint::Length(8)),
    ];
    if wide {
        columns.extend([
            ("ACCOUNT", Constraint::Length(10)),
            ("PARTITION", Constraint::Length(10)),
            (">CPUS", Constraint::Length(5)),
        ]);
    }
    columns.extend([
        (">GPUS", Constraint::Length(4)),
        ("STATE", Constraint::Length(9)),
        ("WHEN", Constraint::Length(9)),
        ("WHERE OR WHY", Constraint::Min(20)),
    ]);
    let jobs: Vec<QueueRow> = window(app, area);
    table(frame, app, area, &columns, |app, at| {
        let Some(row) = jobs.get(at - app.place().top) else { return Vec::new() };
        let mut cells = vec![text(&row.job), text(&row.name), text(&row.user)];
        if wide {
            cells.extend([text(&row.account), text(&row.partition), right(row.cpus.to_string())]);
        }
        cells.extend([
            right(if row.gpus > 0 { row.gpus.to_string() } else { String::new() }),
            Cell::new(Span::styled(state_word(row.state), style(app, row.state))),
            Cell::new(when(app, row)),
            text(&place(row)),
        ]);
        cells
    });
}

/// Copies of the rows that are seen, after the window has moved to the chosen one.
fn window(app: &mut App, area: Rect) -> Vec<QueueRow> {
    app.show(Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area });
    let seen = usize::from(area.height);
    app.jobs().into_iter().skip(app.place().top).take(seen).cloned().collect()
}

pub(super) fn style(app: &App, state: JobState) -> Style {
    match state {
        JobState::Running | JobState::Completed => app.theme.good(),
        JobState::Pending | JobState::Starting | JobState::Suspended | JobState::Completing => {
            app.theme.some()
        }
        JobState::Cancelled => app.theme.faint(),
        _ => app.theme.bad(),
    }
}

/// When a waiting job starts, or how long a running one has run.
fn when(app: &App, row: &QueueRow) -> String {
    if row.state == JobState::Pending {
        return row.expected_ms.map(|at| words::until(at, app.seen.now)).unwrap_or_default();
    }
    row.started_ms.map(|_| words::span(row.run_time(app.seen.now).0)).unwrap_or_default()
}

fn place(row: &QueueRow) -> String {
    if row.state == JobState::Pending {
        return row.reason.as_ref().map(|reason| reason.text.clone()).unwrap_or_default();
    }
    row.node_list.clone()
}

/// The chosen job in a sentence.
pub(super) fn chosen(app: &App) -> String {
    let jobs = app.jobs();
    let Some(row) = jobs.get(app.place().chosen) else {
        return "no job here; Esc shows all".to_owned();
    };
    let what = match row.state {
        JobState::Pending => {
            let start = match row.expected_ms {
                Some(at) => format!("; starts {}", words::instant(at, app.seen.now, &app.zone)),
                None => "; nobody can say yet when it starts".to_owned(),
            };
            place(row) + &start
        }
        _ => {
            let end = match row.ended_ms {
                Some(at) => format!("ends by {}", words::instant(at, app.seen.now, &app.zone)),
                None => "has no time limit".to_owned(),
            };
            format!("{} on {}, {end}", row.tres, row.node_list)
        }
    };
    shown::text(&format!("{} {} ({}): {what}", row.job, row.name, row.user))
}
