//! `muster top` on the terminal of a real tmux, and as text.
//!
//! Needs tmux; a machine without it skips, and with `CI=true` it must be there.

use crate::place::{MUSTER, Place, said, until, until_or};
use muster_model::JobState;
use std::process::Output;

/// `muster top` in a tmux of its own, which ends with the test.
struct Pane<'a> {
    place: &'a Place,
}

impl Drop for Pane<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

impl<'a> Pane<'a> {
    /// Starts it; what is at the terminal after it stays there until a key.
    fn start(place: &'a Place, columns: &str, rows: &str) -> Self {
        let pane = Self { place };
        let shell = format!("{MUSTER} top; echo left with $?; read -r line");
        let size = ["new-session", "-d", "-x", columns, "-y", rows];
        let output = pane.tmux(&[&size[..], &[&shell]].concat());
        assert!(output.status.success(), "{}", said(&output));
        pane
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut tmux = self.place.command("tmux");
        tmux.arg("-S").arg(self.place.path("tmux")).args(["-u", "-f", "/dev/null"]);
        tmux.args(words).output().unwrap()
    }

    fn press(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }

    /// What a terminal sends for a click there; the first column and row are 1.
    fn click(&self, column: u16, row: u16) {
        let bytes = format!("\u{1b}[<0;{column};{row}M\u{1b}[<0;{column};{row}m");
        assert!(self.tmux(&["send-keys", "-l", &bytes]).status.success());
    }

    fn text(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Waits until all of this stands there, and gives the whole.
    fn see(&self, words: &[&str]) -> String {
        let mut last = String::new();
        let seen = until_or(|| {
            last = self.text();
            words.iter().all(|word| last.contains(word)).then_some(())
        });
        assert!(seen.is_some(), "{words:?} not seen in:\n{last}");
        last
    }

    /// What tmux knows of the pane.
    fn knows(&self, what: &str) -> String {
        let words = format!("#{{{what}}}");
        said(&self.tmux(&["display-message", "-p", &words])).trim().to_owned()
    }
}

/// Whether there is a tmux, after saying so where there is none.
fn tmux_is_there() -> bool {
    let there = std::process::Command::new("tmux").arg("-V").output().is_ok();
    if !there {
        assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "tmux is not installed");
        println!("skipped: tmux is not installed");
    }
    there
}

/// One job runs, one waits for all GPUs.
fn place_with_jobs() -> (Place, crate::place::Daemon) {
    let place = Place::new();
    let daemon = place.start();
    place.submit("exec sleep 600", &["--job-name=first", "--gres=gpu:2", "--time=30"]);
    place.submit("true", &["--job-name=wide", "--nodes=4", "--gres=gpu:8", "--time=60"]);
    until("the first job runs", || {
        let jobs = place.client().queue_all(&muster_api::QueueQuery::default()).unwrap();
        jobs.iter().any(|job| job.state == JobState::Running).then_some(())
    });
    (place, daemon)
}

#[test]
fn keys_and_the_mouse_lead_through_the_views_in_80_by_24() {
    if !tmux_is_there() {
        return;
    }
    let (place, _daemon) = place_with_jobs();
    let pane = Pane::start(&place, "80", "24");
    pane.see(&[
        "4/4 nodes",
        "GPUs 2/32",
        "1 running  1 waiting",
        "first",
        "node1",
        "needs 32 gpus",
    ]);
    pane.press("w");
    let only = pane.see(&["only waiting (Esc: all)"]);
    assert!(only.contains("wide") && !only.contains("first"), "{only}");
    pane.press("Enter");
    pane.see(&["job 2 wide pending", "why it waits", "[RESOURCES]", "GPUs busy"]);
    pane.press("Escape");
    pane.see(&["only waiting"]);
    pane.press("2");
    pane.see(&["1/64", "##......", "node4"]);
    // The titles of the views are at the second line, "4 Plan" from column 30 on.
    pane.click(32, 2);
    pane.see(&["#runs +promised", "runs      1 first"]);
    pane.press("3");
    pane.see(&["TEMP", "1 root first", "free"]);
    pane.press("5");
    pane.see(&["ACCOUNT OR USER", "FACTOR"]);
    pane.press("?");
    pane.see(&["any key goes back"]);
    pane.press("1");
    pane.see(&["FACTOR"]);
    assert_eq!(
        (pane.knows("alternate_on"), pane.knows("mouse_any_flag")),
        ("1".into(), "1".into())
    );
    pane.press("q");
    let left = pane.see(&["left with 0"]);
    assert!(!left.contains("FACTOR"), "{left}");
    assert_eq!(
        (pane.knows("alternate_on"), pane.knows("mouse_any_flag")),
        ("0".into(), "0".into())
    );
}

#[test]
fn it_follows_the_window_and_the_queue_and_outlives_the_daemon() {
    if !tmux_is_there() {
        return;
    }
    let (place, daemon) = place_with_jobs();
    let pane = Pane::start(&place, "80", "24");
    assert!(!pane.see(&["WHERE OR WHY"]).contains("ACCOUNT"));
    pane.tmux(&["resize-window", "-x", "140", "-y", "40"]);
    pane.see(&["ACCOUNT", "PARTITION"]);
    place.muster(&["cancel", "1"]);
    // The other gets what it waited for, and ends.
    pane.see(&["0 running  0 waiting"]);
    daemon.stop();
    pane.see(&["no answer: ", "4/4 nodes"]);
    let _daemon = place.start();
    until("it says nothing of trouble", || (!pane.text().contains("no answer")).then_some(()));
    pane.press("C-c");
    pane.see(&["left with 0"]);
}

#[test]
fn without_a_terminal_one_frame_is_text() {
    let (place, _daemon) = place_with_jobs();
    let output = place.muster(&["top"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("[E_NO_TERMINAL]"), "{}", said(&output));
    let output = place.muster(&["top", "nodes", "--once"]);
    let text = said(&output);
    assert!(output.status.success() && text.contains("##......"), "{text}");
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 80));
    assert_eq!(text.lines().count(), 24);
}
