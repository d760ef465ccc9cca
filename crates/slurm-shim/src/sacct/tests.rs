use super::*;
use muster_api::{PauseView, StepView, UsageView};
use muster_model::ExitStatus;

fn row(id: u32, job: &str, state: JobState) -> HistoryRow {
    let at = |s| Some(Timestamp::from_secs(s));
    HistoryRow {
        id,
        job: job.to_owned(),
        attempt: 1,
        array: None,
        task: None,
        het_leader: None,
        name: "okjob".to_owned(),
        user: "root".to_owned(),
        uid: 0,
        gid: 0,
        account: "root".to_owned(),
        partition: "main".to_owned(),
        qos: "normal".to_owned(),
        state,
        cancelled_by: None,
        submitted_ms: Timestamp::from_secs(1000),
        eligible_ms: at(1000),
        started_ms: at(1002),
        ended_ms: at(1019),
        pause: None,
        time_limit_s: Some(3600),
        exit: ExitStatus::SUCCESS,
        nodes: 1,
        node_list: "n1".to_owned(),
        tasks: 1,
        cpus: 1,
        memory_mib: 100,
        gpus: 0,
        tres: "cpu=1,mem=100M,node=1,billing=1".to_owned(),
        tres_wanted: "cpu=1,mem=100M,node=1,billing=1".to_owned(),
        cwd: "/tmp".to_owned(),
        command: "ok.sh".to_owned(),
        comment: String::new(),
        message: String::new(),
        reason: String::new(),
        usage: UsageView::default(),
        steps: vec![batch(ExitStatus::SUCCESS)],
    }
}

fn batch(exit: ExitStatus) -> StepView {
    StepView {
        id: "batch".to_owned(),
        name: "batch".to_owned(),
        tasks: 1,
        nodes: 1,
        started_ms: Timestamp::from_secs(1002),
        ended_ms: Some(Timestamp::from_secs(1019)),
        paused_ms: 0,
        exit,
        usage: UsageView {
            memory_peak_kib: 2048,
            cpu_user_ms: 1500,
            cpu_system_ms: 250,
            ..UsageView::default()
        },
    }
}

fn cancelled(id: u32, job: &str, by: u32) -> HistoryRow {
    let steps = vec![batch(ExitStatus { code: 0, signal: 15 })];
    let exit = ExitStatus { code: 0, signal: 15 };
    HistoryRow { cancelled_by: Some(by), steps, exit, ..row(id, job, JobState::Cancelled) }
}

fn waiting(id: u32, array: u32, task: u32) -> HistoryRow {
    HistoryRow {
        array: Some(array),
        task: Some(task),
        started_ms: None,
        ended_ms: None,
        node_list: String::new(),
        steps: Vec::new(),
        ..row(id, &format!("{array}_{task}"), JobState::Pending)
    }
}

fn shown(args: &[&str], rows: &[HistoryRow]) -> String {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let parsed = getopt::parse("sacct", TABLE, &args, Order::Mixed).expect("read");
    let columns = columns(&format_of(&parsed)).unwrap_or_else(|f| panic!("{}", f.text));
    let lines = lines(rows, "bed", Timestamp::from_secs(1050), !parsed.has("allocations"), &[]);
    table(&columns, &style(&parsed), &lines)
}

#[test]
fn the_default_table_is_slurms() {
    let failed = HistoryRow {
        name: "steps.sh".into(),
        exit: ExitStatus { code: 2, signal: 0 },
        steps: vec![batch(ExitStatus { code: 2, signal: 0 })],
        ..row(17, "17", JobState::Failed)
    };
    assert_eq!(
        shown(&[], &[cancelled(2, "2", 0), failed]),
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode 
------------ ---------- ---------- ---------- ---------- ---------- -------- 
2                 okjob       main       root          1 CANCELLED+      0:0 
2.batch           batch                  root          1  CANCELLED     0:15 
17             steps.sh       main       root          1     FAILED      2:0 
17.batch          batch                  root          1     FAILED      2:0 
"
    );
    assert_eq!(
        shown(&["-b", "-X"], &[row(6, "6", JobState::Pending)]),
        "JobID             State ExitCode 
------------ ---------- -------- 
6               PENDING      0:0 
"
    );
}

#[test]
fn what_submitit_and_snakemake_read() {
    let mut rows = vec![
        row(900, "900_1", JobState::Completed),
        cancelled(901, "900_2", 1000),
        waiting(902, 900, 3),
        waiting(903, 900, 4),
    ];
    fold_waiting(&mut rows, &BTreeMap::from([(900, 2)]));
    assert_eq!(
        shown(&["-o", "JobID,State,NodeList", "--parsable2"], &rows),
        "JobID|State|NodeList
900_1|COMPLETED|n1
900_1.batch|COMPLETED|n1
900_2|CANCELLED by 1000|n1
900_2.batch|CANCELLED|n1
900_[3-4%2]|PENDING|None assigned
"
    );
    assert_eq!(
        shown(&["-X", "--parsable2", "--noheader", "--format=JobIdRaw,State"], &rows[..2]),
        "900|COMPLETED\n901|CANCELLED by 1000\n"
    );
    assert_eq!(shown(&["-X", "-p", "-n", "-o", "jobid,state"], &rows[..1]), "900_1|COMPLETED|\n");
    assert_eq!(
        shown(&["-X", "-P", "--delimiter=,", "-o", "jobid,state"], &rows[..1]),
        "JobID,State\n900_1,COMPLETED\n"
    );
}

#[test]
fn a_job_runs_from_its_start_to_its_end() {
    let rows = [JobState::Starting, JobState::Running, JobState::Completing]
        .map(|state| row(6, "6", state));
    assert_eq!(shown(&["-X", "-P", "-n", "-o", "state"], &rows), "RUNNING\nRUNNING\nRUNNING\n");
}

#[test]
fn widths_may_be_asked_for() {
    assert_eq!(
        shown(&["-X", "-o", "jobid%20,jobname%-5,state%3"], &[row(6, "6", JobState::Pending)]),
        "               JobID JobNa Sta 
-------------------- ----- --- 
                   6 okjob PE+ 
"
    );
    let refused = columns("bogus").err().expect("refused");
    assert_eq!(refused.text, "sacct: error: Invalid field requested: \"bogus\"");
}

#[test]
fn times_and_amounts() {
    let format = "Elapsed,ElapsedRaw,Timelimit,TimelimitRaw,CPUTime,Planned,TotalCPU,MaxRSS,ReqMem,AllocTRES";
    assert_eq!(
        shown(&["-nP", "-o", format], &[row(6, "6", JobState::Completed)]),
        "00:00:17|17|01:00:00|60|00:00:17|00:00:02|00:00:00||100M|billing=1,cpu=1,mem=100M,node=1
00:00:17|17|||00:00:17||00:01.750|2048K||cpu=1,mem=100M,node=1
"
    );
    assert_eq!(
        [mebibytes(64_000), mebibytes(32_000), mebibytes(2048), mebibytes(100)],
        ["62.50G", "32000M", "2G", "100M"]
    );
}

#[test]
fn help_has_four_names_a_line() {
    let text = help_format();
    let first = text.lines().next().expect("a line");
    assert_eq!(
        first,
        "Account             AdminComment        AllocCPUS           AllocNodes         "
    );
    assert!(text.contains("JobID "));
}

#[test]
fn only_the_last_attempt_is_shown() {
    let mut rows = vec![
        HistoryRow { attempt: 1, ..row(6, "6", JobState::NodeFail) },
        HistoryRow { attempt: 1, started_ms: None, ..row(6, "6", JobState::Pending) },
        row(7, "7", JobState::Completed),
    ];
    last_attempts(&mut rows);
    assert_eq!(
        rows.iter().map(|r| r.state).collect::<Vec<_>>(),
        [JobState::Pending, JobState::Completed]
    );
}

#[test]
fn lists_grow_where_an_option_is_repeated() {
    // submitit asks for several jobs so.
    let words: Vec<String> = ["-j", "7", "-j", "8,9"].map(str::to_owned).to_vec();
    let parsed = getopt::parse("sacct", TABLE, &words, Order::Mixed);
    let parsed = parsed.unwrap_or_else(|_| panic!("not read"));
    assert_eq!(parsed.all("jobs").as_deref(), Some("7,8,9"));
    assert_eq!(parsed.all("state"), None);
}

#[test]
fn jobs_are_read_with_their_steps() {
    assert_eq!(bases("7,900_[1,3],8.batch").unwrap_or_default(), "7,900_[1,3],8");
    assert_eq!(step_filter("7,8.batch"), ["8.batch"]);
    assert!(bases("x").is_err());
}

#[test]
fn elapsed_leaves_out_what_a_job_stood_still() {
    let pause = |before_ms, since: Option<i64>| {
        let since_ms = since.map(Timestamp::from_secs);
        Some(PauseView { before_ms, since_ms, resumed_ms: None })
    };
    let over = HistoryRow {
        pause: pause(5_000, None),
        steps: vec![StepView { paused_ms: 5_000, ..batch(ExitStatus::SUCCESS) }],
        ..row(4, "4", JobState::Completed)
    };
    let stands = HistoryRow {
        pause: pause(2_000, Some(1030)),
        ended_ms: None,
        steps: vec![StepView { paused_ms: 2_000, ended_ms: None, ..batch(ExitStatus::SUCCESS) }],
        ..row(5, "5", JobState::Suspended)
    };
    assert_eq!(
        shown(&["-P", "-o", "JobID,State,Elapsed,Suspended"], &[over, stands]),
        "JobID|State|Elapsed|Suspended
4|COMPLETED|00:00:12|00:00:05
4.batch|COMPLETED|00:00:12|00:00:05
5|SUSPENDED|00:00:26|00:00:22
5.batch|SUSPENDED|00:00:26|00:00:22
"
    );
}
