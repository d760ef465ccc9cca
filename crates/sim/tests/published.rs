//! Figures that others published, on the log that they are for.
//!
//! predictsim (Gaussier, Glesser, Reis and Trystram, SC 2015), KTH-SP2 of the Parallel Workloads
//! Archive. The log is no part of this repository; without it the tests say so and pass.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the log is the test's data

use muster_model::{Policy, RunTimeCorrection};
use muster_sim::trace::{Cleaned, Cleaning, Swf, unpacked};
use muster_sim::twin::{Estimates, PolicyName, Setting, Summary, Totals, learned, replay};
use std::path::PathBuf;

fn trace() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = std::env::var_os("MUSTER_TRACES").map(PathBuf::from);
    let beside = [root.join("../shared/traces"), root.join("../../shared/traces")];
    let found = given.into_iter().chain(beside).map(|dir| dir.join("kth-sp2.swf.gz"));
    let found = found.into_iter().find(|file| file.exists());
    if found.is_none() {
        eprintln!("skipped: kth-sp2.swf.gz is not in ../shared/traces (or MUSTER_TRACES)");
    }
    found
}

fn summary(file: &std::path::Path, policy: Policy, estimates: Estimates) -> Summary {
    let mut jobs = Cleaned::new(
        Swf::new(unpacked(std::fs::File::open(file).unwrap()).unwrap()).unwrap(),
        Cleaning::default(),
    )
    .unwrap();
    let setting = Setting { processors: jobs.machine(), policy, estimates, faults: None };
    let mut totals = Totals::default();
    let count = |done: &muster_sim::twin::Finished| {
        totals.add(done);
        Ok(())
    };
    replay(&setting, &mut jobs, count).unwrap();
    assert_eq!((jobs.counts().no_run_time, jobs.counts().cut_to_limit), (8, 475));
    totals.summary("", setting.processors)
}

fn assert_close(found: f64, published: f64) {
    assert!((found / published - 1.0).abs() < 1e-12, "{found} is not {published}");
}

#[test]
fn easy_on_kth_sp2() {
    let Some(file) = trace() else { return };
    let found = summary(&file, PolicyName::Easy.policy(), Estimates::Requested);
    assert_eq!((found.jobs, found.max_flow_time_s), (28_481, 309_231));
    assert_close(found.average_bounded_slowdown, 92.576_539_733_629_5);
    assert_close(found.average_flow_time_s, 15_696.798_181_243_6);
    assert_close(found.max_bounded_slowdown, 14_805.2);
}

#[test]
fn shortest_first_on_kth_sp2() {
    let Some(file) = trace() else { return };
    for (estimates, flow, slowdown) in [
        (Estimates::Requested, 14_764.002_668_445_6, 69.405_400_580_303_5),
        (Estimates::Clairvoyant, 14_295.946_841_754_2, 49.847_718_931_340_6),
        (Estimates::Doubled, 14_063.917_594_185_6, 58.912_532_239_972_9),
    ] {
        let found = summary(&file, PolicyName::EasySjbf.policy(), estimates);
        assert_close(found.average_flow_time_s, flow);
        assert_close(found.average_bounded_slowdown, slowdown);
    }
}

/// No published figure, but that of a simulation written from the study's description without the
/// core.
#[test]
fn learned_run_times_on_kth_sp2() {
    let Some(file) = trace() else { return };
    let policy =
        Policy { run_time: learned(RunTimeCorrection::Steps), ..PolicyName::EasySjbf.policy() };
    let found = summary(&file, policy, Estimates::Requested).average_bounded_slowdown;
    assert!((found / 63.500_677_170_4 - 1.0).abs() < 1e-11, "{found}");
}
