//! Jobs that a daemon hands to a real Slurm, beside those that it runs on this machine.
//!
//! `cargo xtask test --only slurm` starts that Slurm and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without it nothing is tested here.

use crate::elsewhere::{self, Site};
use crate::place::{said, until, until_or};
use std::path::PathBuf;
use std::process::Command;

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
    elsewhere::the_pipeline_runs(&site);
}

#[test]
fn half_of_the_pipeline_runs_on_slurm_and_half_on_this_machine() {
    let Some(site) = site() else { return };
    elsewhere::half_of_the_pipeline_runs(&site);
}

#[test]
fn a_daemon_that_is_killed_finds_its_jobs_in_slurm_again() {
    let Some(site) = site() else { return };
    elsewhere::what_runs_is_found_again(&site);
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

#[test]
fn slurms_own_word_for_why_a_job_waits_there_is_told() {
    let Some(site) = site() else { return };
    let _daemon = site.start();
    let conf = std::env::var_os("MUSTER_TEST_SLURM_CONF").unwrap();
    let limit = |jobs: &str| {
        let words = ["-i", "modify", "user", "root", "set", jobs];
        let set = Command::new("sacctmgr").args(words).env("SLURM_CONF", &conf).output().unwrap();
        assert!(set.status.success(), "{}", said(&set));
    };
    // A limit that only Slurm knows.
    limit("MaxJobs=0");
    let job = site.submit(&["--on", "slurm", "small.sh"]);
    let told = until_or(|| {
        let told = site.says(&["why", &job]);
        told.contains("slurm lets it wait: AssocMaxJobsLimit").then_some(told)
    });
    limit("MaxJobs=-1");
    assert!(told.is_some(), "{}", site.says(&["why", &job]));
    until("it is over", || site.says(&["job", &job]).contains("COMPLETED").then_some(()));
    assert!(!site.says(&["why", &job]).contains("lets it wait"));
}
