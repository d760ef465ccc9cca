//! Traces in the Standard Workload Format: what is read, what is refused, what is counted.

#![allow(clippy::unwrap_used)]

use muster_sim::trace::{
    Cleaned, Cleaning, Counts, Oversized, Swf, SwfJob, TraceError, Unrequested,
};

/// A line with the fields that replays look at; the rest is not known.
fn line(number: i64, submit: i64, run: i64, procs: i64, asked: i64, requested_time: i64) -> String {
    format!(
        "{number} {submit} -1 {run} {procs} -1 -1 {asked} {requested_time} -1 1 3 -1 -1 -1 -1 -1 -1\n"
    )
}

fn cleaned(text: &str, rules: Cleaning) -> (Vec<Result<SwfJob, TraceError>>, Counts) {
    let mut jobs = Cleaned::new(Swf::new(text.as_bytes()).unwrap(), rules).unwrap();
    let found = jobs.by_ref().collect();
    (found, *jobs.counts())
}

fn numbers(found: &[Result<SwfJob, TraceError>]) -> Vec<i64> {
    found.iter().map(|job| job.as_ref().unwrap().number).collect()
}

#[test]
fn every_field_of_a_line_and_of_the_header_is_read() {
    let text = "; Version: 2.2\n; MaxProcs: 128 (and 4 for login)\n;UnixStartTime: 1000\n\
                ; Note: one\n; Note: two\n; no label here\n;\n\
                \t 7 10 2 30 4 5.5 600 8 70 800 1 9 10 11 12 13 14 15 \r\n";
    let mut swf = Swf::new(text.as_bytes()).unwrap();
    let header = swf.header().clone();
    assert_eq!((header.first("version"), header.processors()), (Some("2.2"), Some(128)));
    assert_eq!((header.unix_start(), header.all("Note").len()), (Some(1000), 2));
    let job = swf.next().unwrap().unwrap();
    let expected = SwfJob {
        line: 8,
        number: 7,
        submit: 10,
        wait: 2,
        run: 30,
        allocated: 4,
        cpu_time: 5.5,
        memory: 600,
        requested: 8,
        requested_time: 70,
        requested_memory: 800,
        status: 1,
        user: 9,
        group: 10,
        executable: 11,
        queue: 12,
        partition: 13,
        preceding: 14,
        think_time: 15,
    };
    assert_eq!(job, expected);
    assert!(swf.next().is_none());
}

#[test]
fn a_malformed_line_is_told_with_its_field_or_counted() {
    let good = line(1, 0, 5, 1, 1, 10);
    for (bad, told) in [
        ("2 0 -1 5", "line 3, field 5 (allocated processors): expected 18 fields"),
        (
            "2 0 -1 five 1 -1 -1 1 9 -1 1 1 1 1 1 1 1 1",
            "line 3, field 4 (run time): expected a whole",
        ),
        ("2 0 -1 5.5 1 -1 -1 1 9 -1 1 1 1 1 1 1 1 1", "field 4 (run time)"),
        ("2 0 -1 99999999999999999999 1 -1 -1 1 9 -1 1 1 1 1 1 1 1 1", "field 4 (run time)"),
        ("2 0 -1 5 1 x -1 1 9 -1 1 1 1 1 1 1 1 1", "field 6 (average CPU time): expected a number"),
        ("2 0 -1 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 1 1 1", "line 3: expected 18 fields, found 1"),
    ] {
        let text = format!("; MaxProcs: 4\n{good}{bad}\n{}", line(3, 1, 5, 1, 1, 10));
        let (found, _) = cleaned(&text, Cleaning::default());
        let error = found.iter().find_map(|job| job.as_ref().err()).unwrap();
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(error.code(), "E_TRACE_LINE");
        let lenient = Cleaning { lenient: true, ..Cleaning::default() };
        let (found, counts) = cleaned(&text, lenient);
        assert_eq!((numbers(&found), counts.malformed, counts.lines), (vec![1, 3], 1, 3));
    }
}

#[test]
fn each_rule_counts_what_it_does() {
    let text = [
        "; MaxProcs: 8\n".to_owned(),
        line(1, 0, 50, 4, 4, 100),
        line(2, 1, 50, 9, 4, 100),
        line(3, 2, 50, -1, 2, 100),
        line(4, 3, 50, -1, -1, 100),
        line(5, 4, 0, 1, 1, 100),
        line(6, 5, 50, 1, 1, -1),
        line(7, 6, 500, 1, 1, 100),
        line(8, 7, 50, 1, 1, 100).replace(" 1 3 ", " 2 3 "),
    ]
    .concat();
    let (found, counts) = cleaned(&text, Cleaning::default());
    assert_eq!(numbers(&found), [1, 3, 7]);
    let expected = Counts {
        lines: 8,
        oversized_dropped: 1,
        processors_filled: 1,
        no_processors: 1,
        no_run_time: 1,
        no_requested_time: 1,
        cut_to_limit: 1,
        parts: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(found[2].as_ref().unwrap().run, 100);

    let other = Cleaning {
        oversized: Oversized::Cut,
        unrequested: Unrequested::RunTime,
        cut_to_limit: false,
        drop_parts: false,
        ..Cleaning::default()
    };
    let (found, counts) = cleaned(&text, other);
    assert_eq!(numbers(&found), [1, 2, 3, 6, 7, 8]);
    assert_eq!((counts.oversized_cut, counts.request_is_run_time), (1, 1));
    assert_eq!((found[1].as_ref().unwrap().requested, found[4].as_ref().unwrap().run), (4, 500));

    let refuse = Cleaning { oversized: Oversized::Refuse, ..Cleaning::default() };
    let (found, _) = cleaned(&text, refuse);
    assert_eq!(found[1].as_ref().unwrap_err().code(), "E_TRACE_OVERSIZED");
}

#[test]
fn a_trace_without_requested_times_takes_run_times_for_them() {
    let text = ["; MaxNodes: 8\n".to_owned(), line(1, 0, 50, 4, -1, -1), line(2, 0, 9, 1, -1, -1)];
    let (found, counts) = cleaned(&text.concat(), Cleaning::default());
    assert_eq!((numbers(&found), counts.request_is_run_time), (vec![1, 2], 2));
}

#[test]
fn jobs_are_put_in_order_of_submission_and_the_machine_must_be_known() {
    let text = [line(1, 5, 50, 1, 1, 60), line(2, 3, 50, 1, 1, 60), line(3, 5, 50, 1, 1, 60)];
    let swf = Swf::new(text.concat().leak().as_bytes()).unwrap();
    let unknown = Cleaned::new(swf, Cleaning::default()).err().unwrap();
    assert_eq!(unknown.code(), "E_TRACE_MACHINE");
    let told = Cleaning { processors: Some(4), ..Cleaning::default() };
    let (found, counts) = cleaned(&text.concat(), told);
    assert_eq!((numbers(&found), counts.reordered), (vec![2, 1, 3], 1));
}

#[test]
fn a_job_from_long_before_is_refused() {
    let mut text = "; MaxProcs: 4\n".to_owned();
    for number in 0..2000 {
        text += &line(number, 1000 + number, 5, 1, 1, 10);
    }
    text += &line(2000, 7, 5, 1, 1, 10);
    let (found, _) = cleaned(&text, Cleaning::default());
    assert_eq!(found.last().unwrap().as_ref().unwrap_err().code(), "E_TRACE_ORDER");
    let (found, counts) = cleaned(&text, Cleaning { lenient: true, ..Cleaning::default() });
    assert_eq!((found.len(), counts.malformed), (2000, 1));
}

#[test]
fn a_packed_file_that_is_cut_off_is_an_error() {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for number in 0..5000 {
        packer.write_all(line(number, number, 5, 1, 1, 10).as_bytes()).unwrap();
    }
    let whole = packer.finish().unwrap();
    let read = |bytes: &[u8]| {
        let swf =
            Swf::new(muster_sim::trace::unpacked(std::io::Cursor::new(bytes.to_vec())).unwrap())
                .unwrap();
        let rules = Cleaning { processors: Some(4), lenient: true, ..Cleaning::default() };
        Cleaned::new(swf, rules).unwrap().collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(read(&whole).unwrap().len(), 5000);
    let error = read(&whole[..whole.len() / 2]).unwrap_err();
    assert_eq!(error.code(), "E_TRACE_FILE");
}
