//! A job that has its nodes and does not run says why.

use crate::place::{Place, until};

const CONFIG: &str = "[practice]\ncpus = 2\n";

#[test]
fn a_suspended_job_says_what_lets_it_go_on() {
    let place = Place::new();
    let file = place.path("muster.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let words = ["--practice", "1x0", "--config", file.to_str().unwrap()];
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let submit =
        || place.submit("sleep 600", &["--cpus-per-task=2", "--mem=64M", "--time=60"]).job_id;
    let state = |job: u32| {
        let job = job.to_string();
        let output = place.slurm("squeue", &["-h", "-t", "all", "-o", "%t", "-j", &job]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let why = |job: u32| {
        let output = place.muster(&["why", &job.to_string()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = submit();
    until("the first runs", || (state(first) == "R").then_some(()));
    assert!(!why(first).contains("suspended"), "{}", why(first));
    assert!(place.slurm("scontrol", &["suspend", &first.to_string()]).status.success());
    until("it stands still", || (state(first) == "S").then_some(()));
    let text = why(first);
    assert!(text.contains(&format!("`scontrol resume {first}`")), "{text}");
    let second = submit();
    until("another has its CPUs", || (state(second) == "R").then_some(()));
    assert!(place.slurm("scontrol", &["resume", &first.to_string()]).status.success());
    let text = why(first);
    assert!(text.contains("goes on as soon as nobody runs on its CPUs"), "{text}");
    assert!(text.contains(&format!("\n    job {second}\n")), "{text}");
    assert!(place.muster(&["cancel", &second.to_string()]).status.success());
    until("it goes on", || (state(first) == "R").then_some(()));
    assert!(!why(first).contains("goes on"), "{}", why(first));
    assert!(place.muster(&["cancel", &first.to_string()]).status.success());
}
