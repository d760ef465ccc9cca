//! Two jobs on the same CPUs take turns: one is frozen while the other runs.

use crate::place::{Place, until};

const CONFIG: &str = r#"
[practice]
cpus = 4

[policy]
time_slice = "2s"

[[partition]]
name = "gang"
nodes = ["ALL"]
default = true
sharers = 2
"#;

fn queue(place: &Place, job: u32, format: &str) -> String {
    let output = place.slurm("squeue", &["-h", "-t", "all", "-o", format, "-j", &job.to_string()]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn two_gangs_take_turns_on_all_their_nodes() {
    let place = Place::new();
    let file = place.path("muster.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let words = ["--practice", "2x1", "--config", file.to_str().unwrap()];
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    // Each writes a line as often as it can: one that is frozen writes none.
    let submit = |name: &str| {
        let ticks = place.path(name);
        let body = format!("while true; do echo tick >> {}; sleep 0.05; done", ticks.display());
        let options = ["--nodes=2", "--cpus-per-task=4", "--mem=64M", "--time=60"];
        let job = place.submit(&body, &options);
        (job.job_id, ticks)
    };
    let (first, _) = submit("first");
    until("the first runs", || (queue(&place, first, "%t") == "R").then_some(()));
    let (second, ticks) = submit("second");
    until("the second waits for its turn", || {
        let state = queue(&place, second, "%t %N");
        state.starts_with("S ").then_some(())
    });
    let text = |job: u32| {
        let output = place.muster(&["why", &job.to_string()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let why = text(second);
    assert!(why.contains(&format!("takes turns with {first}, ")), "{why}");
    // It was never launched before its turn comes.
    until("turns change", || (queue(&place, second, "%t") == "R").then_some(()));
    until("the first stands still", || (queue(&place, first, "%t") == "S").then_some(()));
    until("the second works", || ticks.exists().then_some(()));
    until("turns change back", || (queue(&place, second, "%t") == "S").then_some(()));
    until("the first goes on", || (queue(&place, first, "%t") == "R").then_some(()));
    assert!(place.muster(&["cancel", &first.to_string()]).status.success());
    until("the second has all to itself", || {
        let why = text(second);
        (queue(&place, second, "%t") == "R" && !why.contains("takes turns")).then_some(())
    });
    assert!(place.muster(&["cancel", &second.to_string()]).status.success());
}
