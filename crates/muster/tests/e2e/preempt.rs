//! A more important job takes the place of a less important one, which goes on from its checkpoint.

use crate::place::{Place, until};

const CONFIG: &str = r#"
[preemption]
mode = "checkpoint"
grace = "5s"

[[qos]]
name = "low"

[[qos]]
name = "high"
priority = 10
preempts = ["low"]
"#;

fn state(place: &Place, job: u32) -> String {
    let output = place.slurm("squeue", &["-h", "-t", "all", "-o", "%t", "-j", &job.to_string()]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_preempted_job_goes_on_from_its_checkpoint_after_the_other() {
    let place = Place::new();
    let file = place.path("muster.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let words = ["--practice", "1x4", "--config", file.to_str().unwrap()];
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let dir = place.path("checkpoints");
    let output = place.path("low.out");
    // It writes a checkpoint when it is asked, and goes on until it is told to end.
    let body = r#"
        if [ -n "$SLURM_RESTART_COUNT" ]; then
            echo "restart $SLURM_RESTART_COUNT from $(cat "$MUSTER_CHECKPOINT_DIR/step")"
            exit 0
        fi
        trap 'mkdir -p "$MUSTER_CHECKPOINT_DIR"; echo step 7 > "$MUSTER_CHECKPOINT_DIR/step"' USR1
        echo ready
        while true; do sleep 600 & wait $!; done
    "#;
    let low = place.submit(
        body,
        &[
            "--qos=low",
            "--gpus=4",
            "--time=60",
            "--requeue",
            &format!("--output={}", output.display()),
            &format!("--checkpoint-dir={}", dir.display()),
            "--checkpoint-signal=USR1@2",
        ],
    );
    let text = || std::fs::read_to_string(&output).unwrap_or_default();
    until("the first runs", || text().contains("ready").then_some(()));
    let high = place.submit("exec sleep 600", &["--qos=high", "--gpus=4", "--time=60"]);
    until("room is made", || (state(&place, high.job_id) == "R").then_some(()));
    assert_eq!(state(&place, low.job_id), "PD");
    assert!(text().contains("DUE TO PREEMPTION"), "{}", text());
    // The end of the other is the start of the first one's second attempt.
    assert!(place.muster(&["cancel", &high.job_id.to_string()]).status.success());
    until("it goes on", || text().contains("restart 1 from step 7").then_some(()));
    until("it ends", || (state(&place, low.job_id) == "CD").then_some(()));
    let words = ["-n", "-X", "-D", "-P", "-o", "State", "-j", &low.job_id.to_string()];
    let sacct = place.slurm("sacct", &words);
    let rows = String::from_utf8_lossy(&sacct.stdout).into_owned();
    assert!(rows.contains("PREEMPTED") && rows.contains("COMPLETED"), "{rows}");
}
