//! Parts of GPUs, from the configuration to what a job sees.

use crate::place::{Place, job, said, until};

const CONFIG: &str = r#"
[[gpu]]
nodes = ["node1"]
mode = "shared"
isolation = "mps"
pieces = 4

[[gpu]]
nodes = ["node2"]
mode = "mig"
"#;

/// Runs a script with these lines before it, and gives what it said.
fn run(place: &Place, lines: &str) -> String {
    let body = format!("{lines}\nenv | grep -E '^(CUDA|MUSTER_GPU)' | sort");
    let id = place.submit(&body, &["--time=5", "--output=%j.out"]).job_id;
    place.client().wait_over(&job(id)).unwrap();
    std::fs::read_to_string(place.path(&format!("{id}.out"))).unwrap_or_default()
}

#[test]
fn jobs_get_parts_of_practice_gpus() {
    let place = Place::new();
    let config = place.path("muster.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let config = config.to_str().unwrap();
    let words = ["--practice", "2x2", "--config", config];
    let daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let share = run(&place, "#SBATCH --gpus=1\n#MUSTER --gpu-share=0.25");
    for line in [
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=20480M",
        "MUSTER_GPU_SHARE=0.250",
    ] {
        assert!(share.contains(line), "{line} in {share}");
    }
    let piece = run(&place, "#SBATCH --gres=mps:2");
    assert!(piece.contains("MUSTER_GPU_SHARE=0.500"), "{piece}");
    let mig = run(&place, "#SBATCH --gpus=1\n#MUSTER --mig=3g.40gb");
    assert!(mig.contains("CUDA_VISIBLE_DEVICES=MIG-"), "{mig}");
    // Two on one GPU, side by side.
    let body = "#SBATCH --gpus=1\n#MUSTER --gpu-share=0.5\nsleep 1000";
    for _ in 0..2 {
        place.submit(body, &["--time=5"]);
    }
    until("both running", || {
        let shown = said(&place.muster(&["node", "show", "node1"]));
        shown.contains("given out by mps, 1.000 and 81920 MiB used").then_some(())
    });
    let shards = said(&place.slurm("scontrol", &["show", "node", "node1", "-d"]));
    assert!(shards.contains("shard:4(4/4,0/4)"), "{shards}");
    // What could never be had is refused with what there is.
    let script = place.path("big.sh");
    let text = "#!/bin/sh\n#SBATCH --gpus=1\n#MUSTER --gpu-memory=100G\ntrue\n";
    std::fs::write(&script, text).unwrap();
    let refused = place.muster(&["submit", script.to_str().unwrap()]);
    assert!(
        said(&refused).contains("no GPU of it has 100G; the largest has 80G"),
        "{}",
        said(&refused)
    );
    daemon.stop();
}
