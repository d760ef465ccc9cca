//! Slurm's commands on a running daemon: what clients read, byte for byte, and exit codes.
//! Names of the cases (S-…) are those of the scheduling cases that scheduler projects share.

use crate::place::{Place, said, until};
use std::process::Output;

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Writes a script into the place.
fn script(place: &Place, name: &str, body: &str) {
    std::fs::write(place.path(name), format!("#!/bin/bash\n{body}\n")).unwrap();
}

fn sbatch(place: &Place, words: &[&str]) -> String {
    let output = place.slurm("sbatch", &[&["--parsable"], words].concat());
    assert!(output.status.success(), "{}", said(&output));
    out(&output).trim().to_owned()
}

fn states(place: &Place, job: &str) -> String {
    out(&place.slurm("squeue", &["-h", "-t", "all", "-o", "%i %t", "-j", job]))
}

fn until_state(place: &Place, job: &str, wanted: &str) {
    until(wanted, || (states(place, job) == wanted).then_some(()));
}

#[test]
fn sbatch_answers_as_clients_read_it() {
    // S-54
    let place = Place::new();
    let _daemon = place.start();
    script(&place, "ok.sh", "true");
    script(&place, "bad.sh", "#SBATCH --time=4h\ntrue");
    script(&place, "warned.sh", "#SBATCH --acctg-freq=30\ntrue");
    let plain = place.slurm("sbatch", &["ok.sh"]);
    assert_eq!((out(&plain).as_str(), code(&plain)), ("Submitted batch job 1\n", 0));
    assert_eq!(out(&place.slurm("sbatch", &["--parsable", "ok.sh"])), "2\n");
    let cluster = place.slurm("sbatch", &["--parsable", "--clusters=muster", "ok.sh"]);
    assert_eq!(out(&cluster), "3;muster\n");
    let refused = place.slurm("sbatch", &["bad.sh"]);
    assert_eq!((out(&refused).as_str(), code(&refused)), ("", 255));
    assert!(err(&refused).contains("bad.sh:2:9: --time: `4h` is not a time"), "{}", err(&refused));
    let warned = place.slurm("sbatch", &["warned.sh"]);
    assert_eq!(out(&warned), "Submitted batch job 4\n");
    assert!(err(&warned).starts_with("sbatch: warning: "), "{}", err(&warned));
    let partition = place.slurm("sbatch", &["-p", "nope", "ok.sh"]);
    assert_eq!(code(&partition), 1);
    let sentence = "sbatch: error: Batch job submission failed: Invalid partition name specified";
    assert!(err(&partition).lines().any(|line| line == sentence), "{}", err(&partition));
    let trial = place.slurm("sbatch", &["--test-only", "-n2", "ok.sh"]);
    assert_eq!((out(&trial).as_str(), code(&trial)), ("", 0));
    assert!(
        err(&trial).contains("using 2 processors on nodes node1 in partition main"),
        "{}",
        err(&trial)
    );
    assert_eq!(out(&place.slurm("sbatch", &["--parsable", "ok.sh"])), "5\n");
}

#[test]
fn what_is_changed_or_missing_is_said_at_submission() {
    let place = Place::new();
    let _daemon = place.start();
    std::fs::create_dir(place.path("run")).unwrap();
    script(&place, "where.sh", "echo $SLURM_SUBMIT_DIR $PWD $SLURM_NNODES");
    let run = place.path("run").display().to_string();
    let cut = place.slurm("sbatch", &["--wait", "-N4", "-n2", "-D", &run, "where.sh"]);
    assert_eq!((code(&cut), out(&cut).as_str()), (0, "Submitted batch job 1\n"));
    let sentence = "can't run 2 processes on 4 nodes, setting nnodes to 2";
    assert!(err(&cut).contains(sentence), "{}", err(&cut));
    let here = place.path("").display().to_string();
    let here = here.trim_end_matches('/');
    let told = std::fs::read_to_string(place.path("run/slurm-1.out")).unwrap();
    assert_eq!(told, format!("{here} {run} 2\n"));
    // A client of the interface is treated alike.
    let answer = place.submit("true", &["-N4", "-n2", "--hold"]);
    assert!(answer.warnings.iter().any(|w| w.message.contains(sentence)), "{answer:?}");
    let missing = place.slurm("sbatch", &["--hold", "-o", "logs/%j.out", "where.sh"]);
    assert_eq!(code(&missing), 0);
    let text = err(&missing);
    assert!(
        text.contains(&format!("the directory {here}/logs of --output does not exist")),
        "{text}"
    );
    std::fs::create_dir(place.path("logs")).unwrap();
    let there = place.slurm("sbatch", &["--hold", "-o", "logs/%j.out", "where.sh"]);
    assert_eq!(err(&there), "");
}

#[test]
fn squeue_lists_arrays_and_finds_what_was() {
    // S-55, S-59
    let place = Place::new();
    let _daemon = place.start();
    let array = sbatch(&place, &["--array=1-9%2", "--wrap", "sleep 300"]);
    let running = format!("{array}_[3-9%2] PD\n{array}_1 R\n{array}_2 R\n");
    until("two tasks run", || (states(&place, &array) == running).then_some(()));
    let each = out(&place.slurm("squeue", &["-h", "-r", "-o", "%i", "-t", "PD"]));
    assert_eq!(each.lines().count(), 7);
    let reason = out(&place.slurm("squeue", &["-h", "-o", "%r", "-t", "PD"]));
    assert_eq!(reason, "JobArrayTaskLimit\n");
    let unknown = place.slurm("squeue", &["-j", "999999"]);
    assert_eq!(err(&unknown), "slurm_load_jobs error: Invalid job id specified\n");
    assert_eq!((code(&unknown), out(&unknown).as_str()), (1, ""));
    let ids = format!("999999,{array}_1");
    let known = place.slurm("squeue", &["-h", "-o", "%i", "-j", &ids]);
    assert_eq!((code(&known), out(&known)), (0, format!("{array}_1\n")));
    let ended = sbatch(&place, &["--wait", "--wrap", "true"]);
    assert_eq!(states(&place, &ended), format!("{ended} CD\n"));
    assert_eq!(out(&place.slurm("squeue", &["-h", "-j", &ended])), "");
    place.slurm("scancel", &[&array]);
    until("nothing is left", || out(&place.slurm("squeue", &["-h"])).is_empty().then_some(()));
}

#[test]
fn sacct_has_steps_states_and_who_cancelled() {
    // S-56, S-58
    let place = Place::new();
    let _daemon = place.start();
    let array = sbatch(&place, &["--array=1-5%2", "--wrap", "sleep 300"]);
    let running = format!("{array}_[3-5%2] PD\n{array}_1 R\n{array}_2 R\n");
    until("two tasks run", || (states(&place, &array) == running).then_some(()));
    place.slurm("scontrol", &["hold", &format!("{array}_[3-5]")]);
    place.slurm("scancel", &[&format!("{array}_2")]);
    let uid = nix::unistd::getuid();
    until_state(&place, &format!("{array}_2"), &format!("{array}_2 CA\n"));
    let list =
        place.slurm("sacct", &["-X", "-o", "JobID,State,NodeList", "--parsable2", "-j", &array]);
    assert_eq!(
        out(&list),
        format!(
            "JobID|State|NodeList\n{array}_1|RUNNING|node1\n{array}_2|CANCELLED by {uid}|node1\n\
             {array}_[3-5%2]|PENDING|None assigned\n"
        )
    );
    let of_task = |task: &str| place.slurm("sacct", &["-n", "-P", "-o", "JobID,State", "-j", task]);
    let live = of_task(&format!("{array}_1"));
    assert_eq!(out(&live), format!("{array}_1|RUNNING\n{array}_1.batch|RUNNING\n"));
    let running = out(&place.slurm("squeue", &["-h", "-s", "-o", "%i"]));
    assert_eq!(running, format!("{array}_1.batch\n"));
    let steps = of_task(&format!("{array}_2"));
    assert_eq!(out(&steps), format!("{array}_2|CANCELLED by {uid}\n{array}_2.batch|CANCELLED\n"));
    place.slurm("scancel", &[&array]);
    for (body, exit, reported, waited) in [
        ("exit 3", "3:0", "FAILED", 3),
        ("kill -9 $$", "0:9", "FAILED", 1),
        ("exit -1", "255:0", "FAILED", 255),
    ] {
        script(&place, "end.sh", body);
        let output = place.slurm("sbatch", &["--parsable", "--wait", "end.sh"]);
        assert_eq!(code(&output), waited, "{body}");
        let row = place
            .slurm("sacct", &["-X", "-n", "-P", "-o", "State,ExitCode", "-j", out(&output).trim()]);
        assert_eq!(out(&row), format!("{reported}|{exit}\n"), "{body}");
    }
    script(&place, "tasks.sh", "codes=(0 4 2); exit ${codes[$SLURM_ARRAY_TASK_ID]}");
    assert_eq!(code(&place.slurm("sbatch", &["--wait", "--array=0-2", "tasks.sh"])), 4);
}

#[test]
fn durations_have_two_forms() {
    // S-57
    let place = Place::new();
    let _daemon = place.start();
    let limited = sbatch(&place, &["--hold", "--time=1-02:03", "--wrap", "true"]);
    let unlimited = sbatch(&place, &["--hold", "--wrap", "true"]);
    let short = |job: &str| out(&place.slurm("squeue", &["-h", "-o", "%l %M", "-j", job]));
    assert_eq!(short(&limited), "1-02:03:00 0:00\n");
    assert_eq!(short(&unlimited), "UNLIMITED 0:00\n");
    let show = out(&place.slurm("scontrol", &["-o", "show", "job", &limited]));
    assert!(show.contains(" RunTime=00:00:00 TimeLimit=1-02:03:00 "), "{show}");
    assert!(show.contains(" JobState=PENDING Reason=JobHeldUser "), "{show}");
    place.slurm("scontrol", &["update", &format!("jobid={limited}"), "timelimit=30:00"]);
    assert_eq!(short(&limited), "30:00 0:00\n");
    let wrong = place.slurm("scontrol", &["update", &format!("jobid={limited}"), "timelimit=4h"]);
    assert_eq!(
        (err(&wrong).as_str(), code(&wrong)),
        ("scontrol: error: Invalid TimeLimit value\n", 1)
    );
    assert_eq!(short(&limited), "30:00 0:00\n");
}

#[test]
fn every_waiting_job_has_a_true_reason() {
    // S-60
    let place = Place::new();
    let _daemon = place.start();
    let blocker = sbatch(&place, &["-N4", "--exclusive", "--time=60", "--wrap", "sleep 300"]);
    until_state(&place, &blocker, &format!("{blocker} R\n"));
    let after = format!("--dependency=afterok:{blocker}");
    let cases = [
        (sbatch(&place, &["-N4", "--exclusive", "--time=60", "--wrap", "true"]), "Resources"),
        (sbatch(&place, &["-N4", "--exclusive", "--time=60", "--wrap", "true"]), "Priority"),
        (sbatch(&place, &[&after, "--wrap", "true"]), "Dependency"),
        (sbatch(&place, &["--begin=now+1hour", "--wrap", "true"]), "BeginTime"),
        (sbatch(&place, &["--hold", "--wrap", "true"]), "JobHeldUser"),
    ];
    for (job, word) in cases {
        until(word, || {
            let reason = out(&place.slurm("squeue", &["-h", "-o", "%r", "-j", &job]));
            (reason == format!("{word}\n")).then_some(())
        });
    }
}

#[test]
fn steps_have_labels_layouts_and_exit_codes() {
    // S-40
    let place = Place::new();
    let _daemon = place.start();
    // The link that the script finds first in PATH.
    assert_eq!(out(&place.slurm("srun", &["--version"])), "slurm-muster 22.05.8\n");
    script(
        &place,
        "steps.sh",
        "export PATH=$PWD:$PATH\n\
         srun -l hostname >/dev/null || exit 90\n\
         srun --ntasks=3 --label sh -c 'echo $SLURM_PROCID' | sort\n\
         echo tasks $SLURM_TASKS_PER_NODE cpus $SLURM_JOB_CPUS_PER_NODE on $SLURM_JOB_NODELIST\n\
         srun -n2 -o step-%j-%t.out echo apart\n\
         echo given | srun -n2 cat\n\
         srun -n3 sh -c 'exit $((SLURM_PROCID + 5))'\n\
         echo highest $?\n\
         srun no-such-program\n\
         echo absent $?",
    );
    let job = sbatch(
        &place,
        &[
            "--wait",
            "-N2",
            "--ntasks-per-node=2",
            "-c2",
            "-o",
            "out.txt",
            "-e",
            "err.txt",
            "steps.sh",
        ],
    );
    let text = std::fs::read_to_string(place.path("out.txt")).unwrap();
    assert_eq!(
        text,
        "0: 0\n1: 1\n2: 2\ntasks 2(x2) cpus 4(x2) on node[1-2]\ngiven\ngiven\nhighest 7\nabsent 2\n",
        "{}",
        std::fs::read_to_string(place.path("err.txt")).unwrap_or_default()
    );
    for task in 0..2 {
        let file = place.path(&format!("step-{job}-{task}.out"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "apart\n");
    }
    let names = out(&place.slurm("sacct", &["-n", "-P", "-o", "JobID,JobName,State", "-j", &job]));
    assert!(names.contains(&format!("{job}.1|sh|COMPLETED\n")), "{names}");
    assert!(names.contains(&format!("{job}.4|sh|FAILED\n")), "{names}");
}

#[test]
fn srun_and_salloc_make_jobs_of_their_own() {
    let place = Place::new();
    let _daemon = place.start();
    let step =
        place.slurm("srun", &["-n2", "-l", "sh", "-c", "echo in $SLURM_JOB_ID of $SLURM_NTASKS"]);
    let mut lines: Vec<String> = out(&step).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        (code(&step), lines),
        (0, vec!["0: in 1 of 2".to_owned(), "1: in 1 of 2".to_owned()])
    );
    let killed = place.slurm("srun", &["sh", "-c", "kill -9 $$"]);
    assert_eq!(code(&killed), 137);
    assert!(err(&killed).contains("srun: error: node1: task 0: Killed"), "{}", err(&killed));
    let shell = place.slurm("salloc", &["-n1", "sh", "-c", "echo $SLURM_JOB_ID; exit 4"]);
    assert_eq!((code(&shell), out(&shell).as_str()), (4, "3\n"));
    assert_eq!(
        err(&shell),
        "salloc: Granted job allocation 3\nsalloc: Relinquishing job allocation 3\n"
    );
    until("every allocation is given back", || {
        out(&place.slurm("squeue", &["-h"])).is_empty().then_some(())
    });
    let kept = place.slurm("salloc", &["--no-shell", "-n1"]);
    assert_eq!((code(&kept), err(&kept).as_str()), (0, "salloc: Granted job allocation 4\n"));
    let inside = place.slurm("srun", &["--jobid=4", "sh", "-c", "echo $SLURM_JOB_ID"]);
    assert_eq!(out(&inside), "4\n", "{}", err(&inside));
    place.slurm("scancel", &["4"]);
    until("it is given back", || out(&place.slurm("squeue", &["-h"])).is_empty().then_some(()));
}

#[test]
fn a_heterogeneous_job_is_one_job_of_parts() {
    // S-38
    let place = Place::new();
    let _daemon = place.start();
    script(&place, "het.sh", "sleep 300");
    let job = sbatch(
        &place,
        &["--hold", "--time=60", "-n1", "--mem-per-cpu=1G", ":", "-n8", "-c2", "het.sh"],
    );
    assert_eq!(states(&place, &job), format!("{job}+0 PD\n{job}+1 PD\n"));
    let limits = out(&place.slurm("squeue", &["-h", "-o", "%i %l %C", "-j", &job]));
    assert_eq!(limits, format!("{job}+0 1:00:00 1\n{job}+1 1:00:00 16\n"));
    place.slurm("scancel", &[&job]);
    until("both are gone", || out(&place.slurm("squeue", &["-h"])).is_empty().then_some(()));
}

#[test]
fn a_command_line_that_is_wrong_says_so() {
    let place = Place::new();
    let _daemon = place.start();
    for (name, words, message, exit) in [
        (
            "squeue",
            &["--bogus"][..],
            "squeue: unrecognized option '--bogus'\nTry \"squeue --help\" for more information\n",
            1,
        ),
        ("sacct", &["--bogus"][..], "sacct: unrecognized option '--bogus'\n", 1),
        ("sacct", &["-o", "bogus"][..], "sacct: error: Invalid field requested: \"bogus\"\n", 1),
        ("scancel", &["abc"][..], "scancel: error: Invalid job id abc\n", 1),
        ("scancel", &[][..], "scancel: error: No job identification provided\n", 1),
        (
            "scontrol",
            &["show", "job", "999999"][..],
            "slurm_load_jobs error: Invalid job id specified\n",
            1,
        ),
        ("scontrol", &["show", "node", "nope"][..], "Node nope not found\n", 1),
        ("scontrol", &["requeue", "999999"][..], "Invalid job id specified for job 999999\n", 1),
        ("scontrol", &["bogus"][..], "invalid keyword: bogus\n", 1),
        ("srun", &[][..], "srun: fatal: No command given to execute.\n", 1),
        (
            "sbatch",
            &["no-such-file.sh"][..],
            "sbatch: error: Unable to open file no-such-file.sh\n",
            1,
        ),
    ] {
        let output = place.slurm(name, words);
        assert_eq!((err(&output).as_str(), code(&output)), (message, exit), "{name} {words:?}");
    }
    let gone = place.slurm("scancel", &["999999"]);
    assert_eq!((code(&gone), err(&gone).as_str()), (0, ""));
    let told = place.slurm("scancel", &["-v", "999999"]);
    let line = "scancel: error: Kill job error on job id 999999: Invalid job id specified";
    assert!(code(&told) == 0 && err(&told).lines().any(|l| l == line), "{}", err(&told));
    assert_eq!(code(&place.slurm("scancel", &["-s", "USR1", "999999"])), 1);
    assert_eq!(
        out(&place.slurm("scontrol", &["show", "hostnames", "n[1-3],x05"])),
        "n1\nn2\nn3\nx05\n"
    );
    assert_eq!(
        out(&place.slurm("scontrol", &["show", "hostlist", "n1,n2,n3,x05"])),
        "n[1-3],x05\n"
    );
}
