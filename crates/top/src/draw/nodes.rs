//! Nodes: what is used of each, its GPUs as letters.

use super::{right, table, text};
use crate::app::App;
use crate::words;
use muster_api::{DeviceView, NodeState, NodeView, shown};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Cell;

const WIDE: u16 = 110;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let wide = area.width >= WIDE;
    let bar = if wide { 22 } else { 10 };
    let columns = [
        ("NODE", Constraint::Length(if wide { 20 } else { 12 })),
        ("STATE", Constraint::Length(9)),
        (">CPUS", Constraint::Length(8)),
        ("", Constraint::Length(bar)),
        (">MEMORY", Constraint::Length(10)),
        ("GPUS", Constraint::Length(if wide { 16 } else { 9 })),
        (">JOBS", Constraint::Length(4)),
        ("WHY", Constraint::Min(5)),
    ];
    table(frame, app, area, &columns, |app, at| {
        let Some(node) = app.seen.nodes.get(at) else { return Vec::new() };
        let memory =
            format!("{}/{}", words::mib(node.memory_used_mib), words::mib(node.memory_mib));
        vec![
            text(&node.name),
            Cell::new(state(app, node)),
            right(format!("{}/{}", node.cpus_used, node.cpus)),
            Cell::new(words::bar(node.cpus_used.into(), node.cpus.into(), bar.into())),
            right(memory),
            Cell::new(gpus(app, node)),
            right(node.jobs.len().to_string()),
            text(&node.reason),
        ]
    });
}

fn state<'a>(app: &App, node: &NodeView) -> Span<'a> {
    match node.state {
        NodeState::Down => Span::styled("down", app.theme.bad()),
        _ if node.drain => Span::styled("drained", app.theme.bad()),
        _ if node.maintenance => Span::styled("maint", app.theme.some()),
        NodeState::Idle => Span::raw("idle"),
        NodeState::Mixed => Span::styled("mixed", app.theme.good()),
        NodeState::Allocated => Span::styled("allocated", app.theme.good()),
    }
}

/// One letter a GPU: `#` held, `+` held in part, `.` free, `x` not to be used.
fn gpus<'a>(app: &App, node: &NodeView) -> Line<'a> {
    let letter = |gpu: &DeviceView| match gpu {
        gpu if !gpu.unhealthy.is_empty() => Span::styled("x", app.theme.bad()),
        gpu if gpu.jobs.is_empty() => Span::raw("."),
        gpu if gpu.share_used >= 1000 => Span::styled("#", app.theme.good()),
        _ => Span::styled("+", app.theme.some()),
    };
    node.devices.iter().map(letter).collect()
}

/// The chosen node in a sentence, and this machine's load where that is known.
pub(super) fn chosen(app: &App) -> String {
    let Some(node) = app.seen.nodes.get(app.place().chosen) else { return String::new() };
    let mut parts = vec![format!("{} ({})", node.name, node.partitions.join(", "))];
    if let Some(gpu) = node.devices.first() {
        let memory = words::mib(gpu.memory_mib);
        parts.push(format!("{} {} with {memory} each", node.devices.len(), gpu.model));
    }
    if !node.reason.is_empty() {
        parts.push(format!("{} ({})", node.reason, node.reason_by));
    }
    if let Some(reservation) = &node.reservation {
        parts.push(format!("reserved: {reservation}"));
    }
    let meters = &app.seen.meters;
    if let (Some(load), (Some(total), Some(free))) = (meters.load, meters.memory) {
        let used = words::bytes(total - free);
        let total = words::bytes(total);
        parts.push(format!("the daemon's machine: load {load:.1}, memory {used} of {total}"));
    }
    shown::text(&parts.join("; "))
}
