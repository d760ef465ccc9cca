//! Keys pressed and frames read.

use crate::app::{App, View};
use crate::meters;
use crate::once::frame;
use crate::seen::{Detail, Seen};
use crate::theme::Theme;
use jiff::tz::TimeZone;
use muster_model::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use serde_json::{Value, from_value, json};

const SMALL: (u16, u16) = (80, 24);

fn row(value: Value) -> muster_api::QueueRow {
    let mut whole = json!({
        "name": "train", "user": "mara", "uid": 1, "account": "lab", "partition": "gpu",
        "qos": "normal", "submitted_ms": 0, "nodes": 1, "tasks": 1, "cpus": 4, "gpus": 2,
        "tres": "cpu=4,gres/gpu=2", "priority": 1, "time_limit_s": 3600,
    });
    if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), value) {
        whole.extend(more);
    }
    from_value(whole).expect("a row")
}

fn node(value: Value) -> muster_api::NodeView {
    let mut whole = json!({
        "id": 0, "name": "node1", "engine": "local", "state": "mixed", "partitions": ["gpu"],
        "cpus": 16, "cpus_used": 4, "sockets": 1, "cores_per_socket": 16, "threads_per_core": 1,
        "memory_mib": 65536, "memory_used_mib": 8192, "weight": 1, "gpus_used": 2,
        "devices": [
            {"index": 0, "model": "a100", "memory_mib": 81920, "jobs": [7], "share_used": 1000,
             "uuid": "GPU-A"},
            {"index": 1, "model": "a100", "memory_mib": 81920, "jobs": [7], "share_used": 500},
            {"index": 2, "model": "a100", "memory_mib": 81920},
            {"index": 3, "model": "a100", "memory_mib": 81920, "unhealthy": "Xid 79"},
        ],
        "jobs": [{"id": 7, "job": "7", "user": "mara"}],
    });
    if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), value) {
        whole.extend(more);
    }
    from_value(whole).expect("a node")
}

fn seen() -> Seen {
    let why = "needs 8 GPUs on one node; at most 2 are free on any of the 2 nodes of partition gpu";
    let mut seen = Seen {
        cluster: "lab".to_owned(),
        user: "mara".to_owned(),
        now: Timestamp::from_secs(36_000),
        queue: vec![
            row(json!({"id": 8, "job": "8", "state": "pending", "user": "jo", "gpus": 8,
                "expected_ms": 36_720_000, "reason": {"code": "RESOURCES", "word": "Resources",
                "text": why}})),
            row(json!({"id": 9, "job": "9_[1-4]", "state": "pending", "name": "eval",
                "array": {"id": 9, "tasks": "1-4", "count": 4},
                "reason": {"code": "PRIORITY", "word": "Priority", "text": "1 job is before it"}})),
            row(json!({"id": 7, "job": "7", "state": "running", "started_ms": 30_000_000,
                "node_list": "node1", "ended_ms": 39_600_000})),
        ],
        nodes: vec![
            node(json!({})),
            node(json!({"id": 1, "name": "node2", "state": "idle", "drain": true, "cpus_used": 0,
                "gpus_used": 0, "reason": "fan broken", "reason_by": "root", "jobs": [],
                "devices": []})),
        ],
        ..Seen::default()
    };
    seen.sort_queue();
    seen.meters = meters::read(
        "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-A\"} 31\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-A\"} 20480\n\
         cgroup_cpu_total_seconds{jobid=\"7\",step=\"\",engine=\"local\"} 30\n\
         cgroup_memory_rss_bytes{jobid=\"7\",step=\"\",engine=\"local\"} 1073741824\n\
         node_load1 1.5\n",
    );
    let before = "cgroup_cpu_total_seconds{jobid=\"7\",step=\"\",engine=\"local\"} 24\n";
    seen.earlier = Some((2.0, meters::read(before)));
    seen
}

fn app(view: View) -> App {
    let mut app = App::new(view, Theme { colour: false }, TimeZone::UTC);
    app.take(Ok(seen()));
    app
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            key => KeyCode::Char(key),
        };
        app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

/// The line of a frame that begins so.
fn line(frame: &str, begin: &str) -> String {
    let found = frame.lines().find(|line| line.trim_start().starts_with(begin));
    found.unwrap_or_else(|| panic!("no line begins with {begin}:\n{frame}")).to_owned()
}

#[test]
fn eighty_by_twenty_four_tells_where_and_why_and_when() {
    let shown = frame(&mut app(View::Queue), SMALL);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 24);
    assert_eq!(
        lines[0],
        "lab  1/2 nodes  CPUs 4/32  GPUs 2/4  1 running  5 waiting               10:00:00"
    );
    assert!(lines[1].starts_with(" 1 Queue   2 Nodes   3 GPUs   4 Plan   5 Shares"), "{shown}");
    assert_eq!(lines[3], "7        train       mara        2 running   1h40      node1");
    assert!(line(&shown, "8 ").contains("in 12m    needs 8 GPUs on one node"), "{shown}");
    assert!(lines[21].starts_with("7 train (mara): cpu=4,gres/gpu=2 on node1, ends by 11:00:00"));
    assert!(lines[23].contains("Enter open"));
}

#[test]
fn the_chosen_row_is_told_whole() {
    let mut app = app(View::Queue);
    press(&mut app, "j");
    let shown = frame(&mut app, SMALL);
    let told: Vec<&str> = shown.lines().skip(21).take(2).collect();
    assert_eq!(
        told.join(" "),
        "8 train (jo): needs 8 GPUs on one node; at most 2 are free on any of the 2 nodes of partition gpu; starts 10:12:00"
    );
}

#[test]
fn the_chosen_job_stays_chosen_where_the_list_moves() {
    let mut app = app(View::Queue);
    press(&mut app, "j");
    let mut newer = seen();
    newer.queue.remove(0);
    app.take(Ok(newer));
    assert_eq!(app.place().chosen, 0);
    assert!(frame(&mut app, SMALL).contains("8 train (jo)"));
}

#[test]
fn nodes_and_gpus_say_what_is_used_and_what_is_broken() {
    let shown = frame(&mut app(View::Nodes), SMALL);
    assert_eq!(
        line(&shown, "node1"),
        "node1        mixed         4/16 [||      ]   8.0G/64G #+.x         1"
    );
    assert!(line(&shown, "node2").ends_with("fan broken"), "{shown}");
    let shown = frame(&mut app(View::Gpus), SMALL);
    assert_eq!(
        line(&shown, "node1        0"),
        "node1        0 a100       31% [||      ]    20G/80G            7 mara train"
    );
    assert!(line(&shown, "node1        2").ends_with("80G            free"), "{shown}");
    assert!(line(&shown, "node1        3").ends_with("Xid 79"), "{shown}");
}

#[test]
fn a_node_opens_its_jobs_and_a_gpu_its_job() {
    let mut nodes = app(View::Nodes);
    press(&mut nodes, "\n");
    let shown = frame(&mut nodes, SMALL);
    assert!(shown.contains("only on node1 (Esc: all)") && !shown.contains("eval"), "{shown}");
    press(&mut nodes, "\u{1b}");
    assert!(frame(&mut nodes, SMALL).contains("eval"));
    let mut gpus = app(View::Gpus);
    press(&mut gpus, "\n");
    assert_eq!(gpus.want().job, Some(7));
    press(&mut gpus, "\u{1b}jj\n");
    assert_eq!(gpus.want().job, None);
}

#[test]
fn finding_takes_words_and_escape_shows_all_again() {
    let mut app = app(View::Shares);
    press(&mut app, "/EVAL mara");
    let shown = frame(&mut app, SMALL);
    assert!(shown.contains("find: EVAL mara_") && !shown.contains("train"), "{shown}");
    press(&mut app, "\n");
    assert!(frame(&mut app, SMALL).contains("only with \"EVAL mara\""));
    press(&mut app, "\u{1b}u");
    let shown = frame(&mut app, SMALL);
    assert!(shown.contains("only mine") && !shown.contains("jo "), "{shown}");
    press(&mut app, "\u{1b}w");
    let shown = frame(&mut app, SMALL);
    assert!(shown.contains("only waiting") && shown.contains("eval"), "{shown}");
    assert!(!shown.contains("running   "), "{shown}");
    press(&mut app, "q");
    assert!(app.over);
}

#[test]
fn a_job_says_why_what_it_does_and_what_holds_it_back() {
    let mut app = app(View::Queue);
    press(&mut app, "\n");
    let mut with = seen();
    let mut view = serde_json::to_value(with.row(7).expect("job 7")).expect("JSON");
    let more = json!({
        "request": serde_json::to_value(muster_model::Request::default()).expect("JSON"),
        "stdio": serde_json::to_value(muster_model::Stdio::default()).expect("JSON"), "attempt": 1,
    });
    if let (Value::Object(view), Value::Object(more)) = (&mut view, more) {
        view.extend(more);
    }
    let finding = json!({"code": "SMALL_FILES", "text": "it waits for many small files",
        "evidence": "size of a read 8.0 KiB", "sure": false, "remedy": "pack the files"});
    let diagnosis = json!({"id": 7, "state": "running", "verdict": "found", "window_s": 600,
        "samples": 21, "findings": [finding], "missing": []});
    with.job = Some(Box::new(Detail {
        view: from_value(view).expect("a job"),
        why: None,
        diagnosis: Some((30, from_value(diagnosis).expect("a diagnosis"))),
    }));
    app.take(Ok(with));
    let shown = frame(&mut app, (100, 40));
    assert!(line(&shown, "job 7").ends_with("job 7 train running"), "{shown}");
    assert!(line(&shown, "run time").ends_with("1h40 of 1h00"), "{shown}");
    // 6 CPU seconds in 2 seconds.
    assert!(line(&shown, "CPU").ends_with("3.0 of 4 CPUs"), "{shown}");
    assert!(line(&shown, "GPU").ends_with("31 %, 20G (node1 0)"), "{shown}");
    assert!(shown.contains("it waits for many small files (likely) [SMALL_FILES]"), "{shown}");
    press(&mut app, "j");
    assert!(!frame(&mut app, (100, 40)).contains("job 7 train"));
}

#[test]
fn a_waiting_job_says_what_would_start_it() {
    let mut app = app(View::Queue);
    press(&mut app, "j\n");
    assert_eq!(app.want().job, Some(8));
    assert!(frame(&mut app, SMALL).contains("asking the daemon"));
    app.job = Some(99);
    assert!(frame(&mut app, SMALL).contains("job 99 is not in the queue any more"));
}

#[test]
fn the_plan_is_a_line_a_node_and_tells_what_lies_there() {
    let mut app = app(View::Plan);
    let mut with = seen();
    with.plan = from_value(json!({
        "now_ms": 36_000_000,
        "lanes": [
            {"id": 0, "name": "node1", "cpus": 16, "parts": [{"bar": 0, "cpus": 4},
             {"bar": 1, "cpus": 8}]},
            {"id": 1, "name": "node2", "cpus": 16, "away": true},
        ],
        "bars": [
            {"kind": "running", "title": "7", "name": "train", "user": "mara",
             "start_ms": 30_000_000, "end_ms": 39_600_000, "nodes": 1},
            {"kind": "promised", "title": "8", "name": "train", "user": "jo",
             "start_ms": 39_600_000, "end_ms": 43_200_000, "nodes": 1, "why": "needs 8 GPUs"},
        ],
    }))
    .expect("a plan");
    app.take(Ok(with));
    press(&mut app, "--");
    let shown = frame(&mut app, SMALL);
    assert!(shown.contains("#runs +promised =reserved  next 3 h"), "{shown}");
    let lane = line(&shown, "node1");
    let count = |letter| lane.chars().filter(|c| *c == letter).count();
    // An hour each of three, on 65 columns.
    assert!((20..=23).contains(&count('#')) && (20..=23).contains(&count('+')), "{lane}");
    assert!(line(&shown, "node2").ends_with("xxxxxxxx"), "{shown}");
    assert!(shown.contains("promised  8 train (jo) from 11:00:00 to 12:00:00: needs 8 GPUs"));
}

#[test]
fn shares_are_a_tree() {
    let mut app = app(View::Shares);
    let mut with = seen();
    let whole = json!({"account": "root", "depth": 0, "norm_shares": 1_000_000_000,
        "raw_usage": 0, "norm_usage": 1_000_000_000, "effective_usage": 0, "fair_share": 0,
        "running": 1, "submitted": 6, "in_use": "cpu=4", "grp_tres_mins": "", "minutes": {}});
    let mut user = whole.clone();
    user["user"] = json!("mara");
    user["norm_usage"] = json!(250_000_000);
    with.shares = vec![from_value(whole).expect("a line"), from_value(user).expect("a line")];
    app.take(Ok(with));
    let shown = frame(&mut app, SMALL);
    assert_eq!(
        line(&shown, "mara"),
        "  mara               100.0%  25.0% [||      ]  0.000     1      6 cpu=4"
    );
}

#[test]
fn a_hostile_name_is_text_and_a_wide_one_keeps_the_columns() {
    let mut app = app(View::Queue);
    let mut with = seen();
    with.queue[0].name = "\u{1b}[2J\u{202e}x\n".to_owned();
    with.queue[1].name = "한글-학습-작업".to_owned();
    with.cluster = "\u{1b}]0;x\u{7}".to_owned();
    app.take(Ok(with));
    let shown = frame(&mut app, SMALL);
    let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!shown.contains(bad), "{shown:?}");
    assert!(line(&shown, "7 ").starts_with("7        \u{fffd}[2J\u{fffd}x\u{fffd}"), "{shown}");
    // Ten columns of five wide letters, the mark between them one.
    assert!(line(&shown, "8 ").starts_with("8        한글-학습-  jo"), "{shown}");
}

#[test]
fn the_mouse_chooses_opens_scrolls_and_changes_the_view() {
    let mut app = app(View::Queue);
    let _ = frame(&mut app, SMALL);
    let click = MouseEventKind::Down(MouseButton::Left);
    app.mouse(click, 4, 4);
    assert_eq!((app.place().chosen, app.job), (1, None));
    app.mouse(click, 4, 4);
    assert_eq!(app.job, Some(8));
    app.mouse(MouseEventKind::Down(MouseButton::Right), 4, 4);
    app.mouse(MouseEventKind::ScrollUp, 4, 4);
    assert_eq!((app.place().chosen, app.job), (0, None));
    app.mouse(click, 4, 15);
    assert_eq!(app.place().chosen, 0);
    let tab = app.areas.tabs[3];
    app.mouse(click, tab.x + 1, tab.y);
    assert_eq!(app.view, View::Plan);
}

#[test]
fn a_long_queue_shows_the_window_around_the_chosen_row() {
    let mut app = app(View::Queue);
    let mut with = seen();
    let many =
        (100..5_100).map(|id| row(json!({"id": id, "job": id.to_string(), "state": "pending"})));
    with.queue.extend(many);
    app.take(Ok(with));
    let _ = frame(&mut app, SMALL);
    press(&mut app, "G");
    let shown = frame(&mut app, SMALL);
    assert!(shown.contains("5099") && shown.contains("5082") && !shown.contains("5081"), "{shown}");
    press(&mut app, "g");
    assert!(line(&frame(&mut app, SMALL), "7 ").contains("running"));
}

#[test]
fn trouble_is_said_and_what_was_seen_stays() {
    let mut app = app(View::Queue);
    app.take(Err("the daemon went away [E_CONNECTION_LOST]\nhint: x".to_owned()));
    let shown = frame(&mut app, SMALL);
    assert!(shown.contains("no answer: the daemon went away [E_CONNECTION_LOST]"), "{shown}");
    assert!(shown.contains("node1"), "{shown}");
    app.take(Ok(seen()));
    assert!(!frame(&mut app, SMALL).contains("no answer"));
    assert!(frame(&mut app, (30, 5)).contains("too small"));
    press(&mut app, "?");
    assert!(frame(&mut app, SMALL).contains("j k arrows"));
}
