//! Figures that others published, on the log that they are for.
//!
//! predictsim (Gaussier, Glesser, Reis and Trystram, SC 2015), KTH-SP2 of the Parallel Workloads
//! Archive. The log is no part of this repository; without it the tests say so and pass.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the log is the test's data

use muster_model::{Policy, RunTimeCorrection};
use muster_sim::trace::{Cleaned, Cleaning, Swf, unpacked};
use muster_sim::twin::{Estimates, PolicyName, Rounds, Setting, Summary, Totals, learned, replay};
use std::path::PathBuf;

fn trace() -> Option<PathBuf> {
    muster_test_kit::trace("kth-sp2.swf.gz")
}

fn summary(file: &std::path::Path, policy: Policy, estimates: Estimates) -> Summary {
    summary_of(file, policy, estimates, Rounds::Each)
}

fn summary_of(
    file: &std::path::Path,
    policy: Policy,
    estimates: Estimates,
    rounds: Rounds,
) -> Summary {
    let mut jobs = Cleaned::new(
        Swf::new(unpacked(std::fs::File::open(file).unwrap()).unwrap()).unwrap(),
        Cleaning::default(),
    )
    .unwrap();
    let setting = Setting { processors: jobs.machine(), policy, estimates, faults: None, rounds };
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

/// The study's estimate (Tsafrir's: the mean of the user's last two run times) with its three
/// corrections. The figures are those of a simulation that was written from the study's description
/// without the core, and that gives the published ones above to all digits.
#[test]
fn learned_run_times_on_kth_sp2() {
    let Some(file) = trace() else { return };
    let (limit, double, steps) =
        (RunTimeCorrection::Limit, RunTimeCorrection::Double, RunTimeCorrection::Steps);
    let (shortest, queue) = (PolicyName::EasySjbf, PolicyName::Easy);
    for (name, rounds, correction, flow, slowdown) in [
        (shortest, Rounds::Each, limit, 14_513.686_633_194_06, 62.856_882_727_292_2),
        (shortest, Rounds::Each, double, 15_085.663_003_405_78, 64.527_474_221_915_8),
        (shortest, Rounds::Each, steps, 15_095.780_028_791_12, 63.500_677_170_407_6),
        (queue, Rounds::Fitting, limit, 14_647.138_794_283_91, 65.723_589_440_049_1),
        (queue, Rounds::Fitting, double, 15_352.415_259_295_67, 76.922_442_322_375_9),
        (queue, Rounds::Fitting, steps, 16_041.518_942_452_86, 85.442_905_586_027_9),
    ] {
        let policy = Policy { run_time: learned(correction), ..name.policy() };
        let found = summary_of(&file, policy, Estimates::Requested, rounds);
        assert_close(found.average_flow_time_s, flow);
        assert_close(found.average_bounded_slowdown, slowdown);
    }
}
