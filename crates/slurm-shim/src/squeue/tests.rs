use super::*;
use muster_api::{ArrayView, PauseView, QueueDetail, ReasonView};
use muster_model::{ExitStatus, JobKind, JobState};

/// A running job of one CPU on n1, submitted and started at 1000 s, limit one hour.
fn row(id: u32, name: &str) -> QueueRow {
    QueueRow {
        id,
        job: id.to_string(),
        array: None,
        het: None,
        name: name.to_owned(),
        user: "root".to_owned(),
        uid: 0,
        account: "root".to_owned(),
        partition: "main".to_owned(),
        qos: "normal".to_owned(),
        kind: JobKind::Batch,
        state: JobState::Running,
        reason: None,
        submitted_ms: Timestamp::from_secs(1000),
        eligible_ms: Some(Timestamp::from_secs(1000)),
        started_ms: Some(Timestamp::from_secs(1000)),
        expected_ms: None,
        ended_ms: Some(Timestamp::from_secs(4600)),
        pause: None,
        time_limit_s: Some(3600),
        nodes: 1,
        node_list: "n1".to_owned(),
        tasks: 1,
        cpus: 1,
        memory_mib: 100,
        gpus: 0,
        tres: "cpu=1,mem=100M,node=1,billing=1".to_owned(),
        priority: 10_000,
        exit: None,
        restarts: 0,
        detail: None,
    }
}

fn waiting(id: u32, name: &str, word: &str) -> QueueRow {
    QueueRow {
        state: JobState::Pending,
        reason: Some(ReasonView {
            code: String::new(),
            word: word.to_owned(),
            text: String::new(),
            data: None,
            held_by: Vec::new(),
            until_ms: None,
            since_ms: None,
        }),
        started_ms: None,
        ended_ms: None,
        pause: None,
        node_list: String::new(),
        ..row(id, name)
    }
}

fn array(mut row: QueueRow, id: u32, tasks: &str) -> QueueRow {
    let waits = row.state == JobState::Pending;
    row.job = if waits { format!("{id}_[{tasks}%2]") } else { format!("{id}_{tasks}") };
    row.array = Some(ArrayView { id, tasks: tasks.to_owned(), count: 1, throttle: Some(2) });
    row
}

fn ended(id: u32, state: JobState) -> QueueRow {
    let exit = Some(ExitStatus { code: 1, signal: 0 });
    QueueRow { state, exit, ..row(id, "over") }
}

fn shown(format: &str, rows: &[QueueRow], plain: bool) -> String {
    table(&percent_layout(format), rows, Timestamp::from_secs(1007), plain)
}

#[test]
fn the_default_table_is_slurms() {
    let rows = [
        waiting(13, "okjob", "BeginTime"),
        array(waiting(8, "arr", "JobArrayTaskLimit"), 8, "3-9"),
        array(row(14, "arr"), 8, "1"),
        QueueRow { nodes: 2, node_list: "n[1-2]".into(), ..row(9, "a-very-long-name") },
    ];
    assert_eq!(
        shown(DEFAULT, &rows, false),
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                13      main    okjob     root PD       0:00      1 (BeginTime)
         8_[3-9%2]      main      arr     root PD       0:00      1 (JobArrayTaskLimit)
               8_1      main      arr     root  R       0:07      1 n1
                 9      main a-very-l     root  R       0:07      2 n[1-2]
"
    );
    assert_eq!(
        shown(LONG, &rows[..1], false),
        "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)
                13      main    okjob     root  PENDING       0:00   1:00:00      1 (BeginTime)
"
    );
    assert_eq!(
        shown(START, &rows[..1], false),
        "             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)
                13      main    okjob     root PD                 N/A      1 (null)               (BeginTime)
"
    );
}

#[test]
fn the_compact_list_has_two_words_a_line() {
    let rows = [
        array(row(900, "a"), 900, "1"),
        array(row(901, "a"), 900, "2"),
        array(waiting(902, "a", "JobArrayTaskLimit"), 900, "3-9"),
        ended(7, JobState::OutOfMemory),
        ended(8, JobState::Preempted),
        ended(9, JobState::Timeout),
    ];
    assert_eq!(
        shown("%i %t", &rows, true),
        "900_1 R\n900_2 R\n900_[3-9%2] PD\n7 OOM\n8 PR\n9 TO\n"
    );
}

#[test]
fn every_letter_has_slurms_title_and_form() {
    let format = "%A|%a|%B|%c|%C|%d|%D|%E|%f|%F|%h|%H|%i|%I|%j|%J|%k|%K|%l|%L|%m|%M|%n|%N|%o|%O|%p|%P|%q|%Q|%r|%R|%t|%T|%u|%U|%v|%w|%W|%x|%X|%y|%Y|%z|%Z";
    let detail = QueueDetail {
        command: "/tmp/ok.sh".into(),
        cwd: "/tmp".into(),
        exclusive: "no".into(),
        cpus_per_task: 1,
        memory_wanted: "100Mc".into(),
        ..QueueDetail::default()
    };
    let row = QueueRow { detail: Some(Box::new(detail)), ..row(1, "okjob") };
    let text = shown(format, &[row], false);
    let (head, line) = text.split_once('\n').expect("two lines");
    assert_eq!(
        head,
        "JOBID|ACCOUNT|EXEC_HOST|MIN_CPUS|CPUS|MIN_TMP_DISK|NODES|DEPENDENCY|FEATURES|ARRAY_JOB_ID|OVER_SUBSCRIBE|SOCKETS_PER_NODE|JOBID|CORES_PER_SOCKET|NAME|THREADS_PER_CORE|COMMENT|ARRAY_TASK_ID|TIME_LIMIT|TIME_LEFT|MIN_MEMORY|TIME|REQ_NODES|NODELIST|COMMAND|CONTIGUOUS|PRIORITY|PARTITION|QOS|PRIORITY|REASON|NODELIST(REASON)|ST|STATE|USER|UID|RESERVATION|WCKEY|LICENSES|EXC_NODES|CORE_SPEC|NICE|SCHEDNODES|S:C:T|WORK_DIR"
    );
    assert_eq!(
        line.trim_end(),
        "1|root|n1|1|1|0|1|(null)|(null)|1|OK|*|1|*|okjob|*|(null)|N/A|1:00:00|59:53|100M|0:07||n1|/tmp/ok.sh|0|0.00000232830644|main|normal|10000|None|n1|R|RUNNING|root|0|(null)|(null)|(null)||N/A|0|(null)|*:*:*|/tmp"
    );
}

#[test]
fn named_columns_are_slurms() {
    let layout = named_layout("JobID:.10,Name:5,State,tres-alloc:12,UserName")
        .unwrap_or_else(|f| panic!("{}", f.text));
    assert_eq!(
        table(&layout, &[row(13, "okjob")], Timestamp::from_secs(1007), false),
        "     JOBIDNAME STATE               TRES_ALLOC  USER                \n        13okjobRUNNING             cpu=1,mem=10root                \n"
    );
    assert!(named_layout("bogus").is_err());
}

#[test]
fn waiting_jobs_come_first_then_by_priority() {
    let low = QueueRow { priority: 5, ..waiting(3, "x", "Priority") };
    let mut rows = vec![row(1, "x"), low, waiting(4, "x", "Priority"), waiting(2, "x", "Priority")];
    let parsed = getopt::parse("squeue", TABLE, &[], Order::Mixed).expect("read");
    sort(&mut rows, &sort_keys(&parsed), Timestamp::from_secs(1007));
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [2, 4, 3, 1]);
}

#[test]
fn dependencies_say_what_is_unmet() {
    let detail =
        QueueDetail { dependency: "afterok:2,afterany:3".into(), ..QueueDetail::default() };
    let row = QueueRow { detail: Some(Box::new(detail)), ..waiting(9, "x", "Dependency") };
    assert_eq!(shown("%E", &[row], true), "afterok:2(unfulfilled),afterany:3(unfulfilled)\n");
}

#[test]
fn states_are_read_and_refused() {
    let read = |text: &str| {
        let args = ["-t".to_owned(), text.to_owned()];
        states(&getopt::parse("squeue", TABLE, &args, Order::Mixed).expect("read"))
    };
    assert_eq!(read("pd,RUNNING,cf").unwrap_or_default(), ["pending", "running", "starting"]);
    let refused = read("BOGUS").expect_err("refused");
    assert!(refused.text.starts_with("squeue: error: Invalid job state specified: BOGUS\n"));
}

#[test]
fn job_numbers_may_stand_apart() {
    let words: Vec<String> =
        ["-j", "7,8", "--jobs", "9", "-j", "abc", "-s", "-u", "me"].map(str::to_owned).to_vec();
    assert_eq!(attach_numbers(&words), ["-j7,8", "--jobs=9", "-jabc", "-s", "-u", "me"]);
}

#[test]
fn the_time_of_a_suspended_job_stands_still() {
    let pause = PauseView {
        before_ms: 2_000,
        since_ms: Some(Timestamp::from_secs(1005)),
        resumed_ms: Some(Timestamp::from_secs(1003)),
    };
    let row = QueueRow {
        pause: Some(pause),
        ended_ms: None,
        state: JobState::Suspended,
        ..row(3, "shared")
    };
    assert_eq!(shown("%i %t %M %L %e", &[row], true), "3 S 0:03 59:57 N/A\n");
}
