//! The page of a program that was built without Node: the queue and the nodes as tables.

use crate::answer::{Answer, Refusal, bytes, html};
use crate::forward;
use hyper::StatusCode;
use muster_api::{NodePage, QueuePage};
use std::fmt::Write as _;
use std::path::Path;

/// As many rows as a page without scrolling aids can bear.
const ROWS_MAX: u32 = 500;

const STYLE: &str = "\
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif; }
body { margin: 1.5rem; }
table { border-collapse: collapse; margin: 0 0 2rem; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
";

/// The answer to a path of the plain page.
pub(crate) async fn answer(socket: &Path, path: &str) -> Result<Answer, Refusal> {
    match path {
        "/" => Ok(html(StatusCode::OK, page(socket).await?)),
        "/plain.css" => Ok(bytes(StatusCode::OK, "text/css; charset=utf-8", STYLE)),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "E_NOT_FOUND",
            "there is no such page",
            "begin at /",
        )),
    }
}

async fn page(socket: &Path) -> Result<String, Refusal> {
    let queue: QueuePage = forward::read(socket, &format!("/v1/queue?limit={ROWS_MAX}")).await?;
    let nodes: NodePage = forward::read(socket, &format!("/v1/nodes?limit={ROWS_MAX}")).await?;
    Ok(tables(&queue, &nodes))
}

/// Queue and nodes as a page that asks for itself again.
fn tables(queue: &QueuePage, nodes: &NodePage) -> String {
    let mut body = String::from("<h1>Queue</h1>\n<table><tr>");
    for head in ["Job", "Name", "User", "State", "Nodes", "GPUs", "Why or where"] {
        let _ = write!(body, "<th>{head}</th>");
    }
    body.push_str("</tr>\n");
    for row in &queue.rows {
        let why = row.reason.as_ref().map_or(row.node_list.as_str(), |reason| &reason.text);
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=n>{}</td>\
             <td class=n>{}</td><td>{}</td></tr>",
            escape(&row.job),
            escape(&row.name),
            escape(&row.user),
            muster_api::job::state_word(row.state),
            row.nodes,
            row.gpus,
            escape(why)
        );
    }
    body.push_str("</table>\n<h1>Nodes</h1>\n<table><tr>");
    for head in ["Node", "State", "CPUs used", "GPUs used", "Jobs"] {
        let _ = write!(body, "<th>{head}</th>");
    }
    body.push_str("</tr>\n");
    for node in &nodes.nodes {
        let state = format!("{:?}", node.state).to_lowercase();
        let drained = if node.drain { ", drained" } else { "" };
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{state}{drained}</td><td class=n>{} / {}</td>\
             <td class=n>{} / {}</td><td class=n>{}</td></tr>",
            escape(&node.name),
            node.cpus_used,
            node.cpus,
            node.gpus_used,
            node.devices.len(),
            node.jobs.len()
        );
    }
    body.push_str("</table>\n");
    if queue.next.is_some() || nodes.next.is_some() {
        let _ = writeln!(body, "<p>The first {ROWS_MAX}. `muster queue` shows all.</p>");
    }
    frame("muster", "<meta http-equiv=refresh content=10>", &body)
}

/// A whole page.
fn frame(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">{head}<title>{title}</title>\
         <link rel=icon href=\"data:,\"><link rel=stylesheet href=/plain.css><body>\n{body}"
    )
}

/// The page for whoever just came in by the token: on to the front, and the token leaves the
/// address. A redirect would not do: the cookie is not sent along one that began elsewhere.
pub(crate) fn entered() -> Answer {
    html(
        StatusCode::OK,
        frame("muster", "<meta http-equiv=refresh content=\"0; url=/\">", "<p>muster …"),
    )
}

/// The page for whoever is not let in.
pub(crate) fn refused(refusal: &Refusal) -> Answer {
    let body =
        format!("<h1>muster</h1>\n<p>{}.\n<p>{}.", escape(&refusal.message), escape(refusal.hint));
    html(refusal.status, frame("muster", "", &body))
}

/// Text as a page shows it: never as markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(muster_api::shown::letter(c)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escape, tables};
    use muster_api::{NodePage, NodeView, QueuePage};

    #[test]
    fn queue_and_nodes_are_tables_and_names_are_text() {
        let row = serde_json::json!({
            "id": 7, "job": "7", "name": "<b>", "user": "mara", "uid": 1, "account": "a",
            "partition": "main", "qos": "", "state": "pending", "submitted_ms": 0, "nodes": 1,
            "tasks": 1, "cpus": 1, "tres": "", "priority": 1,
            "reason": {"code": "PRIORITY", "word": "Priority", "text": "2 jobs & more"},
        });
        let queue = QueuePage {
            rows: vec![serde_json::from_value(row).unwrap()],
            next: Some(7),
            ..QueuePage::default()
        };
        let node = NodeView { name: "node1".to_owned(), drain: true, ..NodeView::default() };
        let page = tables(&queue, &NodePage { nodes: vec![node], ..NodePage::default() });
        assert!(
            page.contains("<td>&lt;b&gt;</td>") && page.contains("2 jobs &amp; more"),
            "{page}"
        );
        assert!(
            page.contains("<td>idle, drained</td>") && page.contains("The first 500"),
            "{page}"
        );
    }

    #[test]
    fn a_hostile_name_is_text() {
        assert_eq!(
            escape("<script>alert('x')</script>\u{202e}\u{1b}[31m&"),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\u{fffd}\u{fffd}[31m&amp;"
        );
    }
}
