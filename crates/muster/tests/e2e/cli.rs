//! The muster command line on a running daemon.

use crate::place::{Place, said, until};
use serde_json::Value;

fn json(place: &Place, words: &[&str]) -> Value {
    let output = place.muster(words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn several_scripts_are_submitted_all_or_none() {
    let place = Place::new();
    let _daemon = place.start();
    std::fs::write(place.path("good.sh"), "#!/bin/sh\ntrue\n").unwrap();
    std::fs::write(place.path("bad.sh"), "#!/bin/sh\n#SBATCH --time=4h\ntrue\n").unwrap();
    let refused = place.muster(&["submit", "good.sh", "bad.sh"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = said(&refused);
    assert!(text.contains("error[E_TIME_BAD]: "), "{text}");
    assert!(
        text.contains("  --> bad.sh:2:9\n  |\n2 | #SBATCH --time=4h\n  |         ^\n"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "colour in a pipe: {text}");
    assert_eq!(json(&place, &["queue", "--all", "--json"])["jobs"], Value::Array(Vec::new()));
    let taken = place.muster(&["submit", "good.sh", "good.sh"]);
    assert_eq!(String::from_utf8_lossy(&taken.stdout), "job 1: good.sh\njob 2: good.sh\n");
}

#[test]
fn a_command_runs_with_its_output_and_exit_code() {
    let place = Place::new();
    let _daemon = place.start();
    let output = place.muster(&["run", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "err\n");
    let waited = place.muster(&["submit", "--wait", "--wrap", "kill -9 $$"]);
    assert_eq!(waited.status.code(), Some(137), "{}", said(&waited));
}

#[test]
fn why_names_the_reason_and_who_holds_what() {
    let place = Place::new();
    let _daemon = place.start();
    let gpus =
        ["submit", "-N4", "--gpus-per-node=8", "--time=10", "--mem=100M", "--wrap", "sleep 300"];
    assert!(place.muster(&gpus).status.success());
    let late = ["submit", "--gpus=8", "--time=10", "--mem=100M", "--wrap", "true"];
    assert!(place.muster(&late).status.success());
    until("the second job waits for GPUs", || {
        let why = json(&place, &["why", "2", "--json"]);
        (why["jobs"][0]["reasons"][0]["code"] == "RESOURCES").then_some(())
    });
    let text = said(&place.muster(&["why", "2"]));
    assert!(text.starts_with("job 2 is pending\n  because: "), "{text}");
    assert!(text.contains("    job 1 (") && text.contains("  start: in "), "{text}");
    assert_eq!(place.muster(&["why", "99"]).status.code(), Some(1));
    assert_eq!(place.muster(&["why", "x"]).status.code(), Some(2));
    assert!(place.muster(&["cancel", "1", "2"]).status.success());
}

#[test]
fn every_reading_command_has_json() {
    let place = Place::new();
    let _daemon = place.start();
    assert!(place.muster(&["submit", "--wait", "--wrap", "echo done"]).status.success());
    for (words, key) in [
        (&["queue", "--all"][..], "jobs"),
        (&["job", "1"][..], "jobs"),
        (&["job", "1", "--diagnose"][..], "jobs"),
        (&["why", "1"][..], "jobs"),
        (&["node", "list"][..], "nodes"),
        (&["node", "show", "node1"][..], "name"),
        (&["partition", "list"][..], "partitions"),
        (&["account", "list"][..], "accounts"),
        (&["qos", "list"][..], "qos"),
        (&["topology"][..], "switches"),
        (&["history"][..], "jobs"),
        (&["version"][..], "version"),
        (&["config", "show"][..], "cluster"),
    ] {
        let value = json(&place, &[words, &["--json"]].concat());
        assert!(value.get(key).is_some(), "{words:?}: {value}");
    }
    assert_eq!(String::from_utf8_lossy(&place.muster(&["logs", "1"]).stdout), "done\n");
    let followed = place.muster(&["logs", "--follow", "1"]);
    assert_eq!(String::from_utf8_lossy(&followed.stdout), "done\n");
}

#[test]
fn export_prints_a_captured_machine_and_what_is_made_from_the_same_table() {
    let place = Place::new();
    let captured = concat!(env!("CARGO_MANIFEST_DIR"), "/../exporter/tests/captured/gpu-node");
    let printed = place.muster(&["export", "--once", "--root", captured]);
    let text = String::from_utf8_lossy(&printed.stdout);
    assert!(printed.status.success() && text.ends_with("# EOF\n"), "{}", said(&printed));
    assert!(text.contains("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\""), "{text}");
    // What could not be read is said, and not among the metrics.
    assert!(String::from_utf8_lossy(&printed.stderr).contains("infiniband: 1 lines left out"));
    let rules = place.muster(&["export", "--rules"]);
    assert!(String::from_utf8_lossy(&rules.stdout).starts_with("groups:\n"));
    let board = place.muster(&["export", "--dashboard"]);
    let board: Value = serde_json::from_slice(&board.stdout).unwrap();
    assert_eq!(board["title"], "muster");
    let nowhere = place.muster(&["export", "--once", "--root", "/nowhere"]);
    assert_eq!(nowhere.status.code(), Some(1), "{}", said(&nowhere));
}
