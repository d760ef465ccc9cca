//! The grammar cases S-01 to S-09 that scheduler projects share, text by text.
//!
//! What they say of places and partitions (S-03's partition limit, S-05's CPUs) is tested where
//! jobs are planned.

use std::collections::BTreeMap;

use muster_model::{JobSpec, MemoryRequest, Mib, Seconds, TimeLimit, Timestamp};
use muster_slurm_syntax::options::Command;
use muster_slurm_syntax::problem::Diagnostic;
use muster_slurm_syntax::submission::{Context, Sources, submission};
use muster_slurm_syntax::{array, hostlist};

const HOSTS_MAX: usize = 65_536;

/// What a submission with this one option asks for.
fn asked(option: &str) -> Result<JobSpec, Vec<Diagnostic>> {
    let sources = Sources {
        command: Command::Sbatch,
        script: Some("#!/bin/sh\ntrue\n"),
        words: &[option.to_owned()],
        environment: &BTreeMap::new(),
    };
    let read = submission(sources, &Context::at(Timestamp::from_secs(1_800_000_000)))?;
    Ok(read.components[0].spec.clone())
}

/// It is refused, and the refusal names the option and the text.
fn refused(name: &str, text: &str) {
    let found = asked(&format!("--{name}={text}")).expect_err(text);
    let told = found.iter().any(|problem| {
        problem.option.as_deref().is_some_and(|option| option.contains(name))
            && (text.trim().is_empty() || problem.what.contains(text.trim()))
    });
    assert!(told, "--{name}={text}: {found:?}");
}

fn limit(text: &str) -> Option<TimeLimit> {
    asked(&format!("--time={text}")).unwrap_or_else(|e| panic!("{text}: {e:?}")).time_limit
}

#[test]
fn s01_time_limits_that_look_like_clock_times() {
    for (text, seconds) in [
        ("30", 1_800),
        ("4:00", 240),
        ("1:30:00", 5_400),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        // 86,430 seconds: a limit rounds up to the next minute.
        ("1-0:0:30", 1_441 * 60),
        ("0:90:0", 5_400),
        ("100:00:00", 360_000),
    ] {
        assert_eq!(limit(text), Some(TimeLimit::Of(Seconds(seconds))), "{text}");
    }
}

#[test]
fn s02_a_bad_time_is_an_error_never_no_limit() {
    for text in ["", "60:", "1::1", "1:2:3:4", "1-2-3", "4h", "1.5", "-60:10", " 10"] {
        refused("time", text);
        refused("time-min", text);
    }
}

#[test]
fn s03_the_only_spellings_of_no_limit() {
    for text in ["0", "UNLIMITED", "infinite", "-1"] {
        assert_eq!(limit(text), Some(TimeLimit::Unlimited), "{text}");
    }
    for text in ["none", "max", "-2", "forever"] {
        refused("time", text);
    }
}

#[test]
fn s04_memory_sizes() {
    for (text, mib) in
        [("1024", 1_024), ("4G", 4_096), ("4gb", 4_096), ("1T", 1 << 20), ("1500K", 2)]
    {
        let memory = asked(&format!("--mem={text}")).expect(text).request.memory;
        assert_eq!(memory, MemoryRequest::PerNode(Mib(mib)), "{text}");
    }
    assert_eq!(asked("--mem=0").expect("0").request.memory, MemoryRequest::WholeNode);
    for text in ["1.5G", "4GiB", "4X", "G", "-1"] {
        refused("mem", text);
    }
}

#[test]
fn s05_the_three_kinds_of_memory_exclude_one_another() {
    let words = ["--mem=1G", "--mem-per-cpu=1G", "--mem-per-gpu=1G"];
    for (at, one) in words.iter().enumerate() {
        for other in &words[at + 1..] {
            let sources = Sources {
                command: Command::Sbatch,
                script: Some("#!/bin/sh\ntrue\n"),
                words: &[(*one).to_owned(), (*other).to_owned(), "--gpus=1".to_owned()],
                environment: &BTreeMap::new(),
            };
            let context = Context::at(Timestamp::from_secs(1_800_000_000));
            assert!(submission(sources, &context).is_err(), "{one} {other}");
        }
    }
}

#[test]
fn s06_host_list_expansion_keeps_width() {
    for (text, hosts) in [
        ("b04-[09-10]", "b04-09 b04-10"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[1,03,5-6]", "n1 n03 n5 n6"),
        ("rack[1-2]n[01-02]", "rack1n01 rack1n02 rack2n01 rack2n02"),
        ("gpu[1-2]-ib0", "gpu1-ib0 gpu2-ib0"),
    ] {
        assert_eq!(hostlist::expand(text, HOSTS_MAX).expect(text).join(" "), hosts, "{text}");
    }
}

#[test]
fn s07_fold_and_expand_are_inverses() {
    for (hosts, folded) in [
        (&["n9", "n10"][..], Some("n[9-10]")),
        (&["n09", "n10"], Some("n[09-10]")),
        (&["n1", "n01"], None),
        (&["n099", "n100"], Some("n[099-100]")),
        (&["login", "n1", "n2"], None),
    ] {
        let text = hostlist::fold(hosts);
        if let Some(folded) = folded {
            assert_eq!(text, folded);
        }
        assert_eq!(hostlist::expand(&text, HOSTS_MAX).expect(&text), hosts, "{text}");
    }
    assert_eq!(hostlist::first("n[1,3],gpu2").expect("a list"), "n1");
}

#[test]
fn s08_a_malformed_node_list_is_refused_at_submission() {
    for text in ["n[3-1]", "n[1-", "n[]", "n[a-b]", "n[[1,3]", "n[0-99999999]"] {
        let found = asked(&format!("--nodelist={text}")).expect_err(text);
        let named = |d: &Diagnostic| d.option.as_deref().is_some_and(|o| o.contains("nodelist"));
        assert!(found.iter().any(named), "{text}: {found:?}");
    }
}

#[test]
fn s09_array_indices_and_throttle() {
    let read = |text: &str| array::parse(text, 1_001);
    for (text, indices, throttle) in [
        ("0-15:4", &[0, 4, 8, 12][..], None),
        ("1,3,5-7%2", &[1, 3, 5, 6, 7], Some(2)),
        ("3,3,1-3", &[1, 2, 3], None),
        ("0-9%0", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], None),
        ("1000", &[1_000], None),
    ] {
        let spec = read(text).expect(text);
        assert_eq!(spec.indices.iter().collect::<Vec<u32>>(), indices, "{text}");
        assert_eq!(spec.throttle, throttle, "{text}");
    }
    for text in ["5-1", "-1", "0-3:0", "a", "1001", "1-3%x"] {
        assert!(read(text).is_err(), "{text}");
    }
}
