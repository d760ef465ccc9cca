//! Jobs that a daemon hands to a real Slurm, beside those that it runs on this machine.
//!
//! `cargo xtask test --only slurm` starts that Slurm and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without it nothing is tested here.

use crate::elsewhere::Site;
use crate::place::{said, until};
use std::path::PathBuf;

/// A daemon with a Slurm.
fn site() -> Option<Site> {
    let Some(conf) = std::env::var_os("MUSTER_TEST_SLURM_CONF").map(PathBuf::from) else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return None;
    };
    let text = format!(
        "[slurm]\npartitions = {{ hpc = \"main\" }}\nconf = \"{}\"\npoll_least = \"1s\"\n",
        conf.display()
    );
    Some(Site::new(conf.parent()?, ["slurm", "hpc"], &text))
}

#[test]
fn the_pipeline_runs_on_slurm() {
    let Some(site) = site() else { return };
    let _daemon = site.start();
    site.pipeline(["slurm"; 4]);
    let log = std::fs::read_to_string(site.work.join("train.log")).unwrap();
    assert!(log.contains("epoch 40"), "{log}");
}

#[test]
fn half_of_the_pipeline_runs_on_slurm_and_half_on_this_machine() {
    let Some(site) = site() else { return };
    let _daemon = site.start();
    site.pipeline(["local", "slurm", "local", "slurm"]);
}

#[test]
fn a_daemon_that_is_killed_finds_its_jobs_in_slurm_again() {
    let Some(site) = site() else { return };
    let daemon = site.start();
    std::fs::write(site.work.join("long.sh"), "#!/bin/sh\necho begun >> begun\nsleep 100000\n")
        .unwrap();
    let long = site.submit(&["--on", "slurm", "--requeue", "--output=/dev/null", "long.sh"]);
    site.until_running(&long);
    daemon.kill();
    let _daemon = site.start();
    assert!(site.says(&["job", &long]).contains("RUNNING"));
    let begun = || std::fs::read_to_string(site.work.join("begun")).unwrap_or_default();
    assert_eq!(begun(), "begun\n");
    // Once more from the beginning, by the user's wish.
    site.says(&["requeue", &long]);
    until("it begins again", || (begun() == "begun\nbegun\n").then_some(()));
    site.until_running(&long);
    site.says(&["cancel", &long]);
    until("it is over", || site.says(&["job", &long]).contains("CANCELLED").then_some(()));
}

#[test]
fn what_slurm_refuses_is_told_in_its_own_words() {
    let Some(site) = site() else { return };
    let _daemon = site.start();
    let refused = site.muster(&["submit", "--on", "nope", "small.sh"]);
    assert!(said(&refused).contains("E_ENGINE_UNKNOWN"), "{}", said(&refused));
    let other = site.muster(&["submit", "--on", "local", "-p", "hpc", "small.sh"]);
    assert!(said(&other).contains("E_ENGINE_OTHER"), "{}", said(&other));
    // muster knows the QOS that the configuration adds, Slurm does not.
    let file = site.place.path("muster.toml");
    let text = std::fs::read_to_string(&file).unwrap() + "[[qos]]\nname = \"urgent\"\n";
    std::fs::write(&file, text).unwrap();
    site.says(&["config", "reload"]);
    let job = site.submit(&["--on", "slurm", "--qos=urgent", "small.sh"]);
    let told = until("it is over", || {
        let told = site.says(&["job", &job]);
        told.contains("FAILED").then_some(told)
    });
    assert!(told.contains("Slurm refused it: Invalid qos specification"), "{told}");
}
