//! Tasks on their nodes, CPUs and GPUs, from sbatch's options to what a task sees.

use crate::place::{Place, job, said};

/// Runs a script with `./srun` in it, and gives what it said.
fn run(place: &Place, body: &str, options: &[&str]) -> String {
    assert!(place.slurm("srun", &["--version"]).status.success());
    let options: Vec<&str> =
        options.iter().copied().chain(["--time=5", "--output=%j.out"]).collect();
    let id = place.submit(body, &options).job_id;
    place.client().wait_over(&job(id)).unwrap();
    std::fs::read_to_string(place.path(&format!("{id}.out"))).unwrap_or_default()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn steps_take_over_what_the_job_was_told() {
    let place = Place::new();
    let daemon = place.start();
    let body = "./srun sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'";
    // Two tasks on each GPU, of two GPUs on each of two nodes; ranks go round the nodes.
    let options = ["--nodes=2", "--gpus-per-node=2", "--ntasks=8", "--distribution=cyclic"];
    let plain = run(&place, body, &options);
    let ranks: Vec<&str> = sorted(&plain);
    assert_eq!(ranks.len(), 8, "{plain}");
    assert!(ranks[0].starts_with("0 node1 ") && ranks[1].starts_with("1 node2 "), "{plain}");
    assert!(ranks[0].ends_with(" 0,1"), "{plain}");
    let single = [&options[..], &["--gpu-bind=single:2"]].concat();
    let bound = run(&place, body, &single);
    let seen: Vec<&str> =
        sorted(&bound).iter().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
    assert_eq!(seen, ["0", "0", "0", "0", "1", "1", "1", "1"], "{bound}");
    // The step says it otherwise.
    let body = "./srun -n2 -N1 --gpu-bind=map_gpu:1,0 sh -c 'echo $CUDA_VISIBLE_DEVICES'";
    assert_eq!(sorted(&run(&place, body, &single)), ["0", "1"]);
    let body = "./srun -n1 -N1 --gpu-bind=map_gpu:7 true";
    let refused = run(&place, body, &single);
    assert!(refused.contains("GPU 7, of the node, is not the step's"), "{refused}");
    // A list of hosts, task by task.
    let body = "echo node2 > hosts; echo 'node1*2' >> hosts\n\
                SLURM_HOSTFILE=hosts ./srun -n3 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'";
    assert_eq!(sorted(&run(&place, body, &options)), ["0 node2", "1 node1", "2 node1"]);
    daemon.stop();
}

#[test]
fn tasks_of_this_machine_stay_on_their_cpus() {
    let place = Place::new();
    let daemon = place.try_start(&[], &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let nodes = place.client().nodes().unwrap();
    let body = "./srun -n1 --cpu-bind=verbose,map_cpu:$(cat cpu) \
                grep Cpus_allowed_list /proc/self/status";
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let last = list.rsplit([',', '-']).next().unwrap();
    std::fs::write(place.path("cpu"), last).unwrap();
    let bound = run(&place, body, &["--exclusive"]);
    assert!(bound.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{bound} {nodes:?}");
    assert!(bound.contains("cpu-bind=MASK - "), "{bound}");
    daemon.stop();
}

#[test]
fn a_job_reports_its_checkpoints() {
    let place = Place::new();
    let daemon = place.start();
    let body = format!("{} checkpoint report && sleep 1000", crate::place::MUSTER);
    let id = place.submit(&body, &["--time=5", "--export=NONE", "--checkpoint-dir=ckpt"]).job_id;
    crate::place::until("its checkpoint is known", || {
        let page = place.client().job(&job(id)).unwrap();
        page.jobs.first().and_then(|view| view.checkpointed_ms)
    });
    let shown = said(&place.muster(&["job", &id.to_string()]));
    assert!(shown.contains("reported ") && shown.contains("of work since"), "{shown}");
    // Outside of a job it has to be named; one that waits has none to report.
    assert!(!place.muster(&["checkpoint", "report"]).status.success());
    let waiting = place.submit("true", &["--hold"]).job_id;
    let refused = said(&place.muster(&["checkpoint", "report", &waiting.to_string()]));
    assert!(refused.contains("only a running job"), "{refused}");
    daemon.stop();
}

#[test]
fn a_submission_says_what_earlier_runs_used() {
    let place = Place::new();
    let daemon = place.start();
    std::fs::write(place.path("train.sh"), "#!/bin/sh\n#SBATCH --mem=64G\ntrue\n").unwrap();
    let submit = || place.slurm("sbatch", &["--parsable", "--output=/dev/null", "train.sh"]);
    for _ in 0..3 {
        let output = submit();
        assert!(!said(&output).contains("W_MEASURED"), "{}", said(&output));
        let id: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        place.client().wait_over(&job(id)).unwrap();
    }
    // What is known of a script is looked up once a second.
    let output = crate::place::until("the runs are known", || {
        let output = submit();
        said(&output).contains("W_MEASURED").then_some(output)
    });
    let (out, told) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.trim().parse::<u32>().is_ok(), "{out}");
    assert!(told.contains("and 64G is asked for") && told.contains("write --mem="), "{told}");
    // No client that reads both streams takes it for the answer.
    assert!(!told.contains("job 1") && !told.contains("Submitted batch job"), "{told}");
    daemon.stop();
}
