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
    let running = place.muster(&["replay", file, "--why", &holder.to_string()]);
    assert_eq!(running.status.code(), Some(1), "{}", said(&running));
}
