//! Jobs that a daemon runs as pods of a real Kubernetes, beside those that it runs on this machine.
//!
//! `cargo xtask test --only k8s` starts that Kubernetes, whose pods are processes of this host, and
//! names it in `MUSTER_TEST_KUBECONFIG`. Without it nothing is tested here.

use crate::elsewhere::{self, Site};
use crate::place::MUSTER;
use std::path::PathBuf;

/// A daemon with a Kubernetes, whose pods share this test's folder.
fn site() -> Option<Site> {
    let Some(kubeconfig) = std::env::var_os("MUSTER_TEST_KUBECONFIG").map(PathBuf::from) else {
        eprintln!("skipped: MUSTER_TEST_KUBECONFIG is not set; cargo xtask test --only k8s");
        return None;
    };
    let text = format!(
        "[kubernetes]\npartitions = {{ k8s = \"\" }}\nkubeconfig = \"{}\"\nimage = \"none\"\n\
         program = \"{MUSTER}\"\nmounts = [\"{{work}}:{{work}}\"]\n",
        kubeconfig.display()
    );
    Some(Site::new(kubeconfig.parent()?, ["kubernetes", "k8s"], &text))
}

#[test]
fn the_pipeline_runs_on_kubernetes() {
    let Some(site) = site() else { return };
    elsewhere::the_pipeline_runs(&site);
}

#[test]
fn half_of_the_pipeline_runs_on_kubernetes_and_half_on_this_machine() {
    let Some(site) = site() else { return };
    elsewhere::half_of_the_pipeline_runs(&site);
}

#[test]
fn a_job_that_may_go_anywhere_goes_where_it_starts_first() {
    let Some(site) = site() else { return };
    let _daemon = site.start();
    std::fs::write(site.work.join("long.sh"), "#!/bin/sh\nsleep 100000\n").unwrap();
    let long = ["--output=/dev/null", "--time=60", "--mem=64M", "long.sh"];
    let submit = |words: &[&str]| site.submit(&[words, &long].concat());
    // This machine comes first as long as it has room.
    let partition = |job: &str| {
        site.until_running(job);
        let told = site.says(&["job", job]);
        let line = told.lines().find(|line| line.trim().starts_with("partition")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let jobs = [(); 3].map(|()| submit(&["--on", "any", "--gpus-per-node=8"]));
    let went: Vec<String> = jobs.iter().map(|job| partition(job)).collect();
    assert_eq!(went, ["main", "main", "k8s"]);
    for job in &jobs {
        site.cancel(job);
    }
}

#[test]
fn a_daemon_that_is_killed_finds_its_pods_again() {
    let Some(site) = site() else { return };
    elsewhere::what_runs_is_found_again(&site);
}
