//! Starts foreseen over a made-up trace: as often right as they say, better than time limits, and
//! blind to what is still to come.

#![allow(clippy::unwrap_used)]

use muster_sim::generate::Lublin;
use muster_sim::trace::SwfJob;
use muster_sim::twin::{
    Estimates, Foreseeing, Foreseen, PolicyName, Rounds, Setting, foresee, score,
};

fn foreseen(jobs: &[SwfJob], every: u32) -> Vec<Foreseen> {
    let (policy, estimates) = (PolicyName::Easy.policy(), Estimates::Requested);
    let setting = Setting { processors: 64, policy, estimates, faults: None, rounds: Rounds::Each };
    let mut all = Vec::new();
    let found = |one: &Foreseen| {
        all.push(*one);
        Ok(())
    };
    let how = Foreseeing { every, samples: 10, seed: 1 };
    foresee(&setting, how, jobs.iter().map(|job| Ok(*job)), found).unwrap();
    all
}

fn jobs() -> Vec<SwfJob> {
    let model = Lublin { processors: 64, load: Some(0.8), estimates: 4.0, seed: 5 };
    model.jobs().take(2600).collect()
}

#[test]
fn intervals_hold_as_often_as_they_say_and_beat_time_limits() {
    let score = score(&foreseen(&jobs(), 4));
    assert!(score.jobs > 100, "{score:?}");
    assert!((score.coverage - 0.8).abs() < 0.08, "{score:?}");
    assert!(score.pinball_s < score.pinball_by_limits_s, "{score:?}");
}

#[test]
fn what_comes_later_changes_nothing_that_was_foreseen() {
    let all = jobs();
    let half = all[1100].submit;
    let before = foreseen(&all, 4);
    let mut other = all[..1500].to_vec();
    // Nobody comes after the cut, and who is there may run otherwise.
    let seen: Vec<Foreseen> =
        before.iter().filter(|one| one.submit_s + one.waited_s < half).copied().collect();
    for job in &mut other {
        if job.submit >= half {
            job.run = (job.run / 2).max(1);
        }
    }
    let after = foreseen(&other, 4);
    assert!(seen.len() > 20, "{}", seen.len());
    let same = |one: &Foreseen| after.iter().find(|two| two.job == one.job).map(|t| t.wait_s);
    assert!(seen.iter().all(|one| same(one) == Some(one.wait_s)));
}
