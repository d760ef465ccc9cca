//! Jobs that a daemon hands to a real Slurm, beside those that it runs on this machine.
//!
//! `cargo xtask test --only slurm` starts that Slurm and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without it nothing is tested here.

use crate::place::{Daemon, MUSTER, Place, said, until};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Muster with a Slurm, and the pipeline's folder to submit from.
struct Site {
    place: Place,
    conf: PathBuf,
    work: PathBuf,
}

impl Site {
    fn find() -> Option<Self> {
        let Some(conf) = std::env::var_os("MUSTER_TEST_SLURM_CONF").map(PathBuf::from) else {
            eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
            return None;
        };
        let place = Place::new();
        let text = format!(
            "[slurm]\npartitions = {{ hpc = \"main\" }}\nconf = \"{}\"\npoll_least = \"1s\"\n",
            conf.display()
        );
        std::fs::write(place.path("muster.toml"), text).unwrap();
        let work = place.path("pipeline");
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pipeline");
        copy(&from, &work);
        Some(Self { place, conf, work })
    }

    fn start(&self) -> Daemon {
        let file = self.place.path("muster.toml");
        let words = ["--practice", "2x8", "--config", file.to_str().unwrap()];
        let started = self.place.try_start(&words, &[("MUSTER_BED", self.bed())]);
        started.unwrap_or_else(|| panic!("{}", self.place.log()))
    }

    /// The mark of the bed, which ends with it whatever carries it.
    fn bed(&self) -> &str {
        self.conf.parent().unwrap().to_str().unwrap()
    }

    fn muster(&self, words: &[&str]) -> Output {
        let mut command = self.place.command(MUSTER);
        command.current_dir(&self.work).env("MUSTER_BED", self.bed()).env("EPOCH_S", "0");
        command.args(words).output().unwrap()
    }

    /// What a command that succeeds prints.
    fn says(&self, words: &[&str]) -> String {
        let output = self.muster(words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn submit(&self, words: &[&str]) -> String {
        self.says(&[&["submit", "--parsable"], words].concat())
    }

    fn until_running(&self, job: &str) {
        until("it runs", || self.says(&["job", job]).contains("RUNNING").then_some(()));
    }

    /// preprocess, train, evaluate and deploy, each on one of these engines; every step waits for
    /// the one before it.
    fn pipeline(&self, engines: [&str; 4]) {
        let mut before = String::new();
        let mut ids = Vec::new();
        for (step, on) in ["preprocess", "train", "evaluate", "deploy"].iter().zip(engines) {
            let (script, after) = (format!("{step}.sh"), format!("--dependency=afterok:{before}"));
            let mut words = vec!["--on", on];
            // A node of the bed has half of the GPUs that the script asks for.
            words.extend((*step == "train").then_some("--gpus-per-node=4"));
            words.extend((!before.is_empty()).then_some(after.as_str()));
            words.push(&script);
            before = self.submit(&words);
            ids.push(before.clone());
        }
        let (evaluate, deploy) = (&ids[2], &ids[3]);
        self.says(&["wait", evaluate]);
        assert!(self.says(&["logs", evaluate]).contains("accuracy"));
        for (id, on) in ids.iter().zip(engines) {
            let wanted = if on == "slurm" { "hpc" } else { "main" };
            let told = self.says(&["job", id]);
            let partition = told.lines().find(|line| line.trim().starts_with("partition"));
            assert!(partition.is_some_and(|line| line.ends_with(wanted)), "{told}");
            // Which CPUs and GPUs of a node a job has Slurm says, not muster.
            let counted = told.contains("of its engine's choice");
            assert!(counted == (on == "slurm" && told.contains("  on  ")), "{told}");
        }
        self.until_running(deploy);
        self.says(&["cancel", deploy]);
        // It was ended, so waiting for it is no success.
        let waited = self.muster(&["wait", deploy]);
        assert!(said(&waited).contains("CANCELLED"), "{}", said(&waited));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn the_pipeline_runs_on_slurm() {
    let Some(site) = Site::find() else { return };
    let _daemon = site.start();
    site.pipeline(["slurm"; 4]);
    let log = std::fs::read_to_string(site.work.join("train.log")).unwrap();
    assert!(log.contains("epoch 40"), "{log}");
}

#[test]
fn half_of_the_pipeline_runs_on_slurm_and_half_on_this_machine() {
    let Some(site) = Site::find() else { return };
    let _daemon = site.start();
    site.pipeline(["local", "slurm", "local", "slurm"]);
}

#[test]
fn a_daemon_that_is_killed_finds_its_jobs_in_slurm_again() {
    let Some(site) = Site::find() else { return };
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
    let Some(site) = Site::find() else { return };
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
