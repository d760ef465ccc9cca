//! What a newcomer stumbles over.

use crate::place::{Place, said};

/// Runs a shell line with muster first in its path.
fn shell(place: &Place, line: &str) -> (Option<i32>, String) {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_muster")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let output = place.command("bash").env("PATH", path).args(["-c", line]).output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Place::new();
    let _daemon = place.start();
    place.submit("seq 1 100000", &[]);
    place.client().wait_over(&crate::place::job(1)).unwrap();
    for command in ["muster logs 1", "muster logs --follow 1", "muster help", "muster job 1"] {
        let line = format!("set -o pipefail; {command} | head -n 1 > first; echo code $?");
        let (_, text) = shell(&place, &line);
        assert_eq!(text, "code 0\n", "{command}");
    }
    // Nor is one of standard error.
    let (code, text) = shell(&place, "muster why 77 2> >(exec true); echo code $?");
    assert_eq!((code, text.as_str()), (Some(0), "code 1\n"));
}

#[test]
fn a_daemon_is_named_by_its_socket() {
    let place = Place::new();
    let mut daemon = place.start();
    let socket = place.path("socket").display().to_string();
    let elsewhere = |words: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_muster"));
        command.env("MUSTER_SOCKET", "/nonexistent/socket").args(words).output().unwrap()
    };
    assert!(said(&elsewhere(&["down"])).contains("[E_NO_DAEMON]"));
    let status = elsewhere(&["status", "--socket", &socket]);
    assert!(said(&status).contains("is up"), "{}", said(&status));
    // It waits for the end of a child of this test, which has to take notice of it.
    let down = std::thread::scope(|scope| {
        let down = scope.spawn(|| elsewhere(&["down", "--socket", &socket]));
        assert!(daemon.wait(std::time::Duration::from_mins(1)).is_some());
        down.join().unwrap()
    });
    assert!(said(&down).contains("muster is down"), "{}", said(&down));
}

#[test]
fn the_configuration_in_force_is_that_of_the_daemon() {
    let place = Place::new();
    let file = place.path("mine.toml");
    std::fs::write(&file, "[cluster]\nname = \"mine\"\n").unwrap();
    let file = file.display().to_string();
    let words = ["--practice", "1x1", "--config", file.as_str()];
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let shown = said(&place.muster(&["config", "show", "--origin"]));
    assert!(shown.contains(&format!("name = \"mine\"  # {file}:2")), "{shown}");
    assert!(shown.contains("(the running daemon)"), "{shown}");
    let other = place.path("other.toml");
    std::fs::write(&other, "").unwrap();
    let other = other.display().to_string();
    let shown = said(&place.muster(&["config", "show", "--config", &other]));
    assert!(shown.contains("name = \"muster\"") && shown.contains("(--config)"), "{shown}");
}

#[test]
fn a_stopped_daemon_is_told_of() {
    use nix::sys::signal::{Signal, kill};
    let place = Place::new();
    let daemon = place.start();
    kill(daemon.pid(), Signal::SIGSTOP).unwrap();
    for words in [&["queue"][..], &["wait", "1"], &["logs", "1"], &["submit", "--wrap", "true"]] {
        let output = place.muster(words);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains("[E_DAEMON_STOPPED]"), "{words:?}: {text}");
        assert!(text.contains(&format!("kill -CONT {}", daemon.pid())), "{words:?}: {text}");
    }
    let status = place.muster(&["status"]);
    assert!(said(&status).contains("[E_NO_ANSWER]"), "{}", said(&status));
    kill(daemon.pid(), Signal::SIGCONT).unwrap();
    assert!(said(&place.muster(&["status"])).contains("is up"));
    daemon.stop();
}
