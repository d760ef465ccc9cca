//! Tables become jobs, and jobs lines of the Standard Workload Format.

#![allow(clippy::unwrap_used)]

use muster_sim::trace::{
    Mapping, Swf, SwfJob, Table, TraceError, sacct_json, write_swf, write_swf_header,
};

const SACCT: &str = "\
JobIDRaw|User|Account|Partition|Submit|Start|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|State\n\
101|ada|physics|main|1767225600|1767225660|300|10|8|16|COMPLETED\n\
102|bob|physics|main|1767225610|Unknown|0|UNLIMITED|4|0|CANCELLED by 0\n\
103|ada|chem|gpu|1767225700|1767225700|61|Partition_Limit|4|4|TIMEOUT\n";

fn jobs(text: &str, mapping: Mapping) -> Vec<SwfJob> {
    Table::new(text.as_bytes(), mapping).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn sacct_becomes_the_standard_workload_format() {
    let jobs = jobs(SACCT, Mapping::sacct());
    let mut swf = Vec::new();
    write_swf_header(&mut swf, 64, "a test").unwrap();
    for job in &jobs {
        write_swf(&mut swf, job).unwrap();
    }
    let text = String::from_utf8(swf).unwrap();
    assert!(!["ada", "bob", "physics", "main"].iter().any(|name| text.contains(name)), "{text}");
    assert!(text.contains("\n101 0 60 300 16 -1 -1 8 600 -1 1 1 1 -1 1 -1 -1 -1\n"), "{text}");
    let read = Swf::new(text.as_bytes()).unwrap();
    assert_eq!(read.header().processors(), Some(64));
    let read: Vec<SwfJob> = read.collect::<Result<_, _>>().unwrap();
    assert_eq!(read.iter().map(|job| job.user).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(read.iter().map(|job| job.status).collect::<Vec<_>>(), [1, 5, 0]);
    let limits: Vec<i64> = read.iter().map(|job| job.requested_time).collect();
    assert_eq!(limits, [600, -1, -1]);
}

#[test]
fn a_mapping_reads_other_tables() {
    let mapping = "# Helios\nsubmit = submit_time\nstart = start_time\nend = end_time\n\
        requested = gpu_num\nuser = user\nstate = state\n";
    let text = "job_id,user,gpu_num,submit_time,start_time,end_time,state\n\
        a,u1,8,2020-04-01 00:08:00,2020-04-01 00:09:00,2020-04-01 01:09:00,COMPLETED\n\
        b,\"u,2\",1,2020-04-01 00:08:30,,,FAILED\n";
    let jobs = jobs(text, Mapping::parse(mapping).unwrap());
    assert_eq!((jobs[0].submit, jobs[0].wait, jobs[0].run, jobs[0].requested), (0, 60, 3600, 8));
    assert_eq!((jobs[1].submit, jobs[1].run, jobs[1].user, jobs[1].status), (30, -1, 2, 0));
}

#[test]
fn instants_are_those_of_the_calendar() {
    let mapping = "submit = s\nrun = r\nrequested = n\n";
    let text = "s,r,n\n1970-01-01,1,1\n2000-02-29T12:00:01,1,1\n2026-12-02 00:00:00,1,1\n";
    let jobs = jobs(text, Mapping::parse(mapping).unwrap());
    let submits: Vec<i64> = jobs.iter().map(|job| job.submit).collect();
    // date -u -d "…" +%s
    assert_eq!(submits, [0, 951_825_601, 1_796_169_600]);
}

#[test]
fn faults_have_a_line_and_a_field() {
    let first = |text: &str| {
        let table = Table::new(text.as_bytes(), Mapping::sacct());
        table.and_then(|mut table| table.next().unwrap()).unwrap_err().to_string()
    };
    assert_eq!(
        first(&SACCT.replace("|300|", "|5m|")),
        "line 2, field 7 (run): expected a number, found 5m"
    );
    assert_eq!(
        first(&SACCT.replace("1767225600", "yesterday")),
        "line 2, field 5 (submit): expected seconds since 1970, or 2025-01-31 12:00:00, found \
         yesterday"
    );
    assert_eq!(
        first("a|b\n1|2\n"),
        "line 1: expected the titles of the columns, found no JobIDRaw"
    );
    let wrong = Mapping::parse("submit = a\nrnu = b\n").unwrap_err().to_string();
    assert!(wrong.starts_with("line 2: expected separator, limit_unit"), "{wrong}");
    assert!(Mapping::parse("submit = a\n").is_err(), "no processors");
}

/// One job as three versions of Slurm write it.
#[test]
fn sacct_in_json_becomes_the_same_in_each_of_its_forms() {
    let old = r#"{"meta": {"x": [1, 2]}, "errors": [], "jobs": [
      {"job_id": 7, "user": "ada", "account": "ml", "partition": "gpu", "unknown": {"a": 1},
       "state": {"current": "COMPLETED", "reason": "None"},
       "time": {"submission": 1000, "start": 1060, "elapsed": 300, "limit": 10},
       "tres": {"requested": [{"type": "mem", "count": 9}, {"type": "cpu", "count": 4}],
                "allocated": [{"type": "cpu", "count": 8}]}},
      {"job_id": 8, "user": "bob", "account": "ml", "partition": "cpu",
       "state": {"current": "CANCELLED"},
       "time": {"submission": 1100, "start": 0, "elapsed": 0, "limit": null},
       "tres": {"requested": [], "allocated": []}, "required": {"CPUs": 2}}]}"#;
    let new = old
        .replace("\"COMPLETED\"", "[\"COMPLETED\"]")
        .replace("\"limit\": 10", "\"limit\": {\"set\": true, \"infinite\": false, \"number\": 10}")
        .replace(
            "\"limit\": null",
            "\"limit\": {\"set\": false, \"infinite\": true, \"number\": 0}",
        );
    let read = |text: &str| -> Result<Vec<SwfJob>, TraceError> {
        let mut jobs = Vec::new();
        sacct_json(text.as_bytes(), |job| -> Result<(), TraceError> {
            jobs.push(job?);
            Ok(())
        })?;
        Ok(jobs)
    };
    let jobs = read(old).unwrap();
    assert_eq!(jobs, read(&new).unwrap());
    let first = jobs[0];
    assert_eq!((first.number, first.submit, first.wait, first.run), (7, 0, 60, 300));
    assert_eq!((first.requested, first.allocated, first.requested_time), (4, 8, 600));
    assert_eq!((first.status, first.user, first.group, first.queue), (1, 1, 1, 1));
    let second = jobs[1];
    assert_eq!((second.submit, second.wait, second.run), (100, -1, 0));
    assert_eq!((second.requested, second.requested_time, second.status), (2, -1, 5));
    assert_eq!((second.user, second.queue), (2, 2));

    for (text, wanted) in [
        ("{\"jobs\": [{\"job_id\": 1,", "line 1"),
        ("{\"meta\": 1}", "expected a list of jobs"),
        ("[]x", "line 1"),
        ("{\"jobs\": [{\"job_id\": 1}]}", "expected an instant"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
