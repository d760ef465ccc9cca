//! The loop under simulated faults, by seed.
//!
//! The real writer, planner and checker run on a memory store, a scripted engine and a clock that
//! is stepped. Observations are lost, repeated and late; orders too; listings are stale; the store
//! refuses; nodes start again; the daemon is killed between any two steps, with and without a power
//! cut. Then the faults stop, and all jobs must finish.
//!
//! `MUSTER_SIM_SEEDS=FROM-TO` runs other seeds; `MUSTER_TEST_LONG` runs more.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

#[path = "../support/mod.rs"]
mod support;

mod invariants;
mod random;
mod world;

use world::World;

/// Steps of a run before the faults stop.
const STEPS: u32 = 400;

fn seeds() -> std::ops::RangeInclusive<u64> {
    let asked = std::env::var("MUSTER_SIM_SEEDS").ok();
    if let Some((from, to)) = asked.as_deref().and_then(|text| text.split_once('-'))
        && let (Ok(from), Ok(to)) = (from.parse(), to.parse())
    {
        return from..=to;
    }
    if std::env::var_os("MUSTER_TEST_LONG").is_some() { 1..=2000 } else { 1..=60 }
}

#[test]
fn all_jobs_finish_once_the_faults_stop() {
    for seed in seeds() {
        // Shown where a later line panics.
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        invariants::at_the_end(&world);
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let run = || {
        let mut world = World::new(7);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        world.state().clone()
    };
    assert_eq!(run(), run());
}
