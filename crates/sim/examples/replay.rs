//! Replays a trace under policies and prints a line for each: to be timed, or for a table.
//!
//! `replay TRACE POLICY...`, where a policy may be followed by `:learned` or `:clairvoyant`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a program of its own

use muster_model::RunTimeCorrection;
use muster_sim::trace::{Cleaned, Cleaning, Swf, unpacked};
use muster_sim::twin::{Estimates, Finished, PolicyName, Rounds, Setting, Totals, learned, replay};
use std::error::Error;
use std::fs::File;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let trace = words.next().ok_or("which trace?")?;
    for word in words {
        let (name, told) = word.split_once(':').unwrap_or((&word, "requested"));
        let mut policy = name.parse::<PolicyName>()?.policy();
        let mut estimates = Estimates::Requested;
        match told {
            "learned" => policy.run_time = learned(RunTimeCorrection::Limit),
            "clairvoyant" => estimates = Estimates::Clairvoyant,
            _ => {}
        }
        let swf = Swf::new(unpacked(File::open(&trace)?)?)?;
        let mut jobs = Cleaned::new(swf, Cleaning::default())?;
        let setting = Setting {
            processors: jobs.machine(),
            policy,
            estimates,
            faults: None,
            rounds: Rounds::Each,
        };
        let mut totals = Totals::default();
        let count = |done: &Finished| {
            totals.add(done);
            Ok(())
        };
        replay(&setting, &mut jobs, count)?;
        let summary = totals.summary(&word, setting.processors);
        println!("{}", serde_json::to_string(&summary)?);
    }
    Ok(())
}
