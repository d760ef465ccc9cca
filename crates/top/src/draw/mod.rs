//! From the state to cells.

mod gpus;
mod job;
mod nodes;
mod plan;
mod queue;
mod shares;
#[cfg(test)]
mod tests;

use crate::app::{App, View};
use crate::theme::Theme;
use crate::words;
use muster_api::{NodeState, shown};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, Wrap};
use std::fmt::Write as _;

/// The smallest terminal in which there is anything to see.
const SMALLEST: (u16, u16) = (40, 8);

const KEYS: &str = "\
1-5 Tab     queue, nodes, GPUs, plan, shares
j k arrows  move; PgUp PgDn g G by pages and to the ends
Enter       open a job; the jobs on a node; the job of a GPU
Esc         back; show all again
/           find jobs by any of their words
u           my jobs only
w           waiting jobs only
+ -         look farther or nearer in the plan
q           leave

The mouse chooses, and opens what is chosen; its wheel scrolls.";

/// Draws everything; the state learns where.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        frame.render_widget(Paragraph::new("muster: too small").wrap(Wrap { trim: true }), area);
        return;
    }
    let parts = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(footer_lines(app, area)),
        Constraint::Length(1),
    ];
    let [head, tabs, body, foot, keys] = Layout::vertical(parts).areas(area);
    header(frame, app, head);
    titles(frame, app, tabs);
    if app.help {
        frame.render_widget(Paragraph::new(KEYS), body.inner(ratatui::layout::Margin::new(2, 1)));
    } else if app.job.is_some() {
        job::draw(frame, app, body);
    } else if !app.ready {
        frame.render_widget(Paragraph::new("asking the daemon ..."), body);
    } else {
        list(frame, app, body);
        footer(frame, app, foot);
    }
    bottom(frame, app, keys);
}

fn list(frame: &mut Frame<'_>, app: &mut App, body: Rect) {
    match app.view {
        View::Queue => queue::draw(frame, app, body),
        View::Nodes => nodes::draw(frame, app, body),
        View::Gpus => gpus::draw(frame, app, body),
        View::Plan => plan::draw(frame, app, body),
        View::Shares => shares::draw(frame, app, body),
    }
}

fn header(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let seen = &app.seen;
    let up = seen.nodes.iter().filter(|node| node.state != NodeState::Down);
    let (mut cpus, mut gpus, mut ready) = ((0, 0), (0, 0), 0);
    for node in up {
        ready += usize::from(!node.drain);
        cpus = (cpus.0 + node.cpus_used, cpus.1 + node.cpus);
        gpus = (gpus.0 + node.gpus_used, gpus.1 + node.devices.len() as u32);
    }
    let (running, waiting) = seen.counts();
    let mut text = format!(
        "{}  {ready}/{} nodes  CPUs {}/{}",
        shown::text(&seen.cluster),
        seen.nodes.len(),
        cpus.0,
        cpus.1
    );
    if gpus.1 > 0 {
        let _ = write!(text, "  GPUs {}/{}", gpus.0, gpus.1);
    }
    let _ = write!(text, "  {running} running  {waiting} waiting");
    let time = words::instant(seen.now, seen.now, &app.zone);
    let [left, right] = Layout::horizontal([Constraint::Min(0), Constraint::Length(9)]).areas(area);
    if app.ready {
        frame.render_widget(Paragraph::new(Span::styled(text, Theme::title())), left);
        frame.render_widget(Paragraph::new(time).right_aligned(), right);
    }
}

fn titles(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let mut x = area.x;
    app.areas.tabs.clear();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let text = format!(" {} {} ", at + 1, view.title());
        let tab = Rect { x, width: text.len() as u16, ..area }.intersection(area);
        let style = if view == app.view { Theme::chosen() } else { app.theme.faint() };
        frame.render_widget(Span::styled(text, style), tab);
        app.areas.tabs.push(tab);
        x += tab.width + 1;
    }
}

fn footer_lines(app: &App, area: Rect) -> u16 {
    match app.view {
        _ if app.job.is_some() || app.help || area.height < 16 => 0,
        View::Queue | View::Nodes => 2,
        View::Plan => 4,
        View::Gpus | View::Shares => 0,
    }
}

/// The chosen row whole: what its line had no room for.
fn footer(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let text = match app.view {
        View::Queue => queue::chosen(app),
        View::Nodes => nodes::chosen(app),
        View::Plan => plan::chosen(app),
        View::Gpus | View::Shares => String::new(),
    };
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn bottom(frame: &mut Frame<'_>, app: &App, area: Rect) {
    frame.render_widget(Clear, area);
    if !app.trouble.is_empty() {
        let first = app.trouble.lines().next().unwrap_or_default();
        let text = format!("no answer: {}", shown::text(first));
        frame.render_widget(Span::styled(text, app.theme.bad()), area);
        return;
    }
    if app.typing {
        frame.render_widget(Span::raw(format!("find: {}_", shown::text(&app.find))), area);
        return;
    }
    let mut only = Vec::new();
    if app.mine {
        only.push("mine".to_owned());
    }
    if app.waiting {
        only.push("waiting".to_owned());
    }
    only.extend(app.node.as_ref().map(|node| format!("on {}", shown::text(node))));
    if !app.find.is_empty() {
        only.push(format!("with \"{}\"", shown::text(&app.find)));
    }
    let keys = match (app.job.is_some(), app.view) {
        _ if app.help => "any key goes back",
        (false, View::Queue) if !only.is_empty() => "? keys  q leave",
        (true, _) => "Esc back  j/k scroll  q leave",
        (_, View::Plan) => "? keys  +/- hours  j/k move  q leave",
        (_, View::Shares) => "? keys  j/k move  q leave",
        _ => "? keys  Enter open  / find  u mine  w waiting  q leave",
    };
    let mut line = Line::from(Span::styled(keys, app.theme.faint()));
    if !only.is_empty() && app.view == View::Queue && !app.help {
        line.push_span(Span::raw(format!("   only {} (Esc: all)", only.join(", "))));
    }
    frame.render_widget(line, area);
}

/// Titles and the rows that are seen; `row` makes the one at an index.
fn table<'a>(
    frame: &mut Frame<'_>,
    app: &mut App,
    area: Rect,
    columns: &[(&'a str, Constraint)],
    row: impl Fn(&App, usize) -> Vec<Cell<'a>>,
) {
    let rows = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    app.show(rows);
    let place = app.place();
    let shown = place.top..(place.top + usize::from(rows.height)).min(app.count());
    let titles = columns.iter().map(|(title, _)| {
        let right = title.starts_with('>');
        let text = Line::from(title.trim_start_matches('>'));
        Cell::new(if right { text.right_aligned() } else { text })
    });
    let titles: Vec<Cell<'_>> = titles.collect();
    let made: Vec<Row<'_>> = shown
        .map(|at| {
            let row = Row::new(row(app, at));
            if at == place.chosen { row.style(Theme::chosen()) } else { row }
        })
        .collect();
    let widths: Vec<Constraint> = columns.iter().map(|(_, width)| *width).collect();
    let table =
        Table::new(made, widths).header(Row::new(titles).style(Theme::title())).column_spacing(1);
    frame.render_widget(table, area);
}

/// Text of others.
fn text<'a>(of: &str) -> Cell<'a> {
    Cell::new(shown::text(of))
}

/// To the right.
fn right<'a>(of: impl Into<String>) -> Cell<'a> {
    Cell::new(Line::from(of.into()).right_aligned())
}
