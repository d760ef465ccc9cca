//! A live planning round, saved and planned again without the daemon.

use crate::place::{Place, said, until};

#[test]
fn a_live_round_is_planned_again() {
    let place = Place::new();
    let daemon = place.try_start(&["--practice", "2x4"], &[]).unwrap();
    let holder = place.submit("sleep 1000", &["--nodes=2", "--exclusive", "--time=60"]).job_id;
    let waits = place.submit("true", &["--nodes=2", "--time=5"]).job_id;
    let file = place.path("round.json");
    let file = file.to_str().unwrap();
    until("a round that knows both jobs", || {
        std::fs::remove_file(file).ok();
        let saved = place.muster(&["replay", file, "--save"]);
        assert!(saved.status.success(), "{}", said(&saved));
        let told = said(&place.muster(&["replay", file]));
        told.contains(&format!("promise {waits} ")).then_some(())
    });
    let again = place.muster(&["replay", file, "--save"]);
    assert!(said(&again).contains("E_CYCLE_FILE"), "no file is replaced: {}", said(&again));
    daemon.stop();
    let told = place.muster(&["replay", file]);
    assert!(told.status.success(), "{}", said(&told));
    assert!(said(&told).contains("the same plan, byte for byte"), "{}", said(&told));
    let why = said(&place.muster(&["replay", file, "--why", &waits.to_string()]));
    assert!(why.contains("[RESOURCES]"), "{why}");
    let public = place.path("public.json");
    let public = public.to_str().unwrap();
    let renamed = place.muster(&["replay", file, "--without-names", public]);
    assert!(renamed.status.success(), "{}", said(&renamed));
    let told = place.muster(&["replay", public]);
    assert!(said(&told).contains("the same plan, byte for byte"), "{}", said(&told));
    let text = std::fs::read_to_string(public).unwrap();
    let here = place.path("").to_string_lossy().into_owned();
    assert!(!text.contains(&here) && !text.contains("node1"), "names are gone");
    let running = place.muster(&["replay", file, "--why", &holder.to_string()]);
    assert_eq!(running.status.code(), Some(1), "{}", said(&running));
}

#[test]
fn what_a_drain_or_a_submission_would_do_is_told_and_not_done() {
    let place = Place::new();
    let _daemon = place.try_start(&["--practice", "2x4"], &[]).unwrap();
    let script = place.path("wide.sh");
    std::fs::write(&script, "#!/bin/sh\n#SBATCH --nodes=2 --exclusive --time=30\ntrue\n").unwrap();
    let script = script.to_str().unwrap();
    place.submit("sleep 1000", &["--nodes=1", "--exclusive", "--time=60"]);
    place.submit("sleep 1000", &["--nodes=1", "--exclusive", "--time=60"]);
    let waits = place.submit("true", &["--nodes=1", "--exclusive", "--time=5", "--job-name=small"]);
    let ask = |words: &[&str]| {
        let output = place.muster(&[&["whatif"], words].concat());
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let told = ask(&["drain", "node[1-2]"]);
    assert!(told.contains("1 waiting job would start later"), "{told}");
    assert!(told.contains("small") && told.contains("cannot be foreseen"), "{told}");
    let told = ask(&["submit", "--nice=-1000", script]);
    assert!(told.contains("wide would start") || told.contains("wide.sh would start"), "{told}");
    let told = ask(&["nodes", "1"]);
    assert!(told.contains("1 earlier") && told.contains("now"), "{told}");
    let view = place.client().job(&crate::place::job(waits.job_id)).unwrap();
    assert_eq!(view.jobs.len(), 1, "it still waits alone");
    assert_eq!(place.client().stats().unwrap().pending, 1);
    let wrong = place.muster(&["whatif", "drain", "tea"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("tea"), "{}", said(&wrong));
}

#[test]
fn what_is_on_record_is_planned_anew_beside_the_daemon() {
    let place = Place::new();
    let _daemon = place.try_start(&["--practice", "1x1"], &[]).unwrap();
    for _ in 0..3 {
        place.submit("true", &["--exclusive", "--time=5"]);
    }
    let state = place.path("state");
    let state = state.to_str().unwrap();
    let replay = |words: &[&str]| {
        let output = place.muster(&[&["sim", "replay", state, "--json"], words].concat());
        said(&output)
    };
    until("three jobs in the log that are over", || {
        replay(&[]).contains("\"jobs\": 3").then_some(())
    });
    assert!(replay(&["--policy", "easy"]).contains("\"policy\": \"easy\""));
    assert!(
        replay(&["--mtbf", "5", "--nodes", "1"]).contains("for traces"),
        "nothing is passed over"
    );
    let told = replay(&["--by-user"]);
    assert!(told.contains("\"policy\": \"as logged\"") && told.contains("\"by_user\""), "{told}");
    assert!(told.contains("\"unfit\": 0") && told.contains("\"endless\": 0"), "{told}");
    let report = place.path("report.html");
    let words = ["sim", "compare", state, "--policy", "fifo", "--json", "--report"];
    let told = said(&place.muster(&[&words[..], &[report.to_str().unwrap()]].concat()));
    assert!(told.contains("\"policy\": \"as logged\"") && told.contains("\"fifo\""), "{told}");
    assert!(told.contains("\"made_anew\""), "{told}");
    assert!(std::fs::read_to_string(report).unwrap().contains("as logged"));
    let sweep = |words: &[&str]| said(&place.muster(&[&["sim", "sweep", state], words].concat()));
    let told = sweep(&["guard_first=300,500"]);
    assert!(told.contains("as it is") && told.contains("guard_first=500"), "{told}");
    assert!(told.contains("events in the log"), "{told}");
    assert!(sweep(&["guard_first=300", "--seeds", "2"]).contains("not of muster's own log"));
}
