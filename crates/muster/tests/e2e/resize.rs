//! Running jobs give up nodes: by hand, and for others where they live with that.

use crate::place::{Place, until};

fn text(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn queue(place: &Place, job: u32, format: &str) -> String {
    let output = place.slurm("squeue", &["-h", "-t", "all", "-o", format, "-j", &job.to_string()]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A place of three practice nodes, where scripts find Slurm's commands beside them.
fn place(gpus: &str) -> (Place, Option<crate::place::Daemon>) {
    let place = Place::new();
    for name in ["srun", "scontrol"] {
        assert!(place.slurm(name, &["--version"]).status.success());
    }
    let daemon = place.try_start(&["--practice", gpus], &[]);
    assert!(daemon.is_some(), "{}", place.log());
    (place, daemon)
}

#[test]
fn a_job_gives_up_a_node_from_inside_and_goes_on() {
    let (place, _daemon) = place("3x1");
    let output = place.path("out");
    // A step on all three nodes: its task on the third ends, the others end by themselves.
    let body = r#"
        ./srun -N3 -n3 sh -c 'touch up.$SLURM_PROCID; while [ ! -e go ]; do sleep 0.05; done' &
        while [ ! -e up.0 ] || [ ! -e up.1 ] || [ ! -e up.2 ]; do sleep 0.05; done
        ./scontrol update JobId=$SLURM_JOB_ID NumNodes=2 || exit 9
        . ./slurm_job_${SLURM_JOB_ID}_resize.sh
        echo "now $SLURM_NNODES $SLURM_JOB_NODELIST ${SLURM_NTASKS-none}"
        touch go
        wait $! && echo "the step went on"
        ./srun -l sh -c 'echo $SLURMD_NODENAME of $SLURM_NNODES' | sort
        ./srun -N3 true 2>&1
        while [ ! -e done ]; do sleep 0.05; done
    "#;
    let options = ["--nodes=3", "--gpus-per-node=1", "--time=60", "--requeue"];
    let out = format!("--output={}", output.display());
    let job = place.submit(body, &[options.as_slice(), &[out.as_str()]].concat()).job_id;
    until("the later steps ran", || text(&output).contains("3 nodes").then_some(()));
    let said = text(&output);
    for line in [
        "To reset Slurm environment variables, execute",
        "now 2 node[1-2] none",
        "the step went on",
        "0: node1 of 2",
        "1: node2 of 2",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    assert_eq!(queue(&place, job, "%D %N"), "2 node[1-2]");
    // What it gave up is somebody else's.
    let other = place.submit("exec sleep 600", &["--nodes=1", "--gpus=1", "--time=60"]).job_id;
    until("the other has it", || (queue(&place, other, "%t %N") == "R node3").then_some(()));
    // More than it has it does not get.
    let update = ["update", &format!("JobId={job}"), "NumNodes=3"];
    let refused = place.slurm("scontrol", &update);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("gets no more while it runs"), "{why}");
    std::fs::write(place.path("done"), "").unwrap();
    until("it ends well", || (queue(&place, job, "%t") == "CD").then_some(()));
}

#[test]
fn one_that_lives_with_it_makes_room_and_goes_on() {
    let (place, _daemon) = place("3x1");
    let body = r"
        #MUSTER --elastic=1-3,live
        ./srun sh -c 'touch up.$SLURM_PROCID; while [ ! -e done ]; do sleep 0.05; done'
    ";
    let script: Vec<&str> = body.lines().map(str::trim).collect();
    let options = ["--gpus-per-node=1", "--time=60"];
    let job = place.submit(&script.join("\n"), &options).job_id;
    until("it runs on three", || place.path("up.2").exists().then_some(()));
    let other = place.submit("exec sleep 600", &["--nodes=1", "--gpus=1", "--time=60"]).job_id;
    until("the other runs", || (queue(&place, other, "%t") == "R").then_some(()));
    assert_eq!(queue(&place, job, "%t %D %N").split(' ').take(2).collect::<Vec<_>>(), ["R", "2"]);
    assert_ne!(queue(&place, other, "%N"), "node1");
    std::fs::write(place.path("done"), "").unwrap();
    until("it ends well", || (queue(&place, job, "%t") == "CD").then_some(()));
}
