//! What is the same of a daemon that hands jobs to another scheduler, whichever it is.

use crate::place::{Daemon, MUSTER, Place, said, until};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Muster with another scheduler, and the pipeline's folder to submit from.
pub(crate) struct Site {
    pub(crate) place: Place,
    /// The pipeline's folder.
    pub(crate) work: PathBuf,
    /// The folder of the other's bed: the mark that ends with it whatever carries it.
    bed: String,
    /// The name of the engine, and its partition.
    other: [&'static str; 2],
}

impl Site {
    /// With this in the configuration; `bed` is the other's folder.
    pub(crate) fn new(bed: &Path, other: [&'static str; 2], configuration: &str) -> Self {
        let place = Place::new();
        let work = place.path("pipeline");
        let text = configuration.replace("{work}", work.to_str().unwrap());
        std::fs::write(place.path("muster.toml"), text).unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pipeline");
        copy(&from, &work);
        Self { place, work, bed: bed.to_str().unwrap().to_owned(), other }
    }

    pub(crate) fn start(&self) -> Daemon {
        let file = self.place.path("muster.toml");
        let words = ["--practice", "2x8", "--config", file.to_str().unwrap()];
        let started = self.place.try_start(&words, &[("MUSTER_BED", self.bed.as_str())]);
        started.unwrap_or_else(|| panic!("{}", self.place.log()))
    }

    pub(crate) fn muster(&self, words: &[&str]) -> Output {
        let mut command = self.place.command(MUSTER);
        command.current_dir(&self.work).env("MUSTER_BED", self.bed.as_str()).env("EPOCH_S", "0");
        command.args(words).output().unwrap()
    }

    /// What a command that succeeds prints.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let output = self.muster(words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) fn submit(&self, words: &[&str]) -> String {
        self.says(&[&["submit", "--parsable"], words].concat())
    }

    pub(crate) fn cancel(&self, job: &str) {
        self.says(&["cancel", job]);
        until("it is over", || self.says(&["job", job]).contains("CANCELLED").then_some(()));
    }

    pub(crate) fn until_running(&self, job: &str) {
        until("it runs", || self.says(&["job", job]).contains("RUNNING").then_some(()));
    }

    /// preprocess, train, evaluate and deploy, each on one of these engines; every step waits for
    /// the one before it.
    pub(crate) fn pipeline(&self, engines: [&str; 4]) {
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
            let [other, partition] = self.other;
            let wanted = if on == other { partition } else { "main" };
            let told = self.says(&["job", id]);
            let partition = told.lines().find(|line| line.trim().starts_with("partition"));
            assert!(partition.is_some_and(|line| line.ends_with(wanted)), "{told}");
            // Which CPUs and GPUs of a node a job has the other says, not muster.
            let counted = told.contains("of its engine's choice");
            assert!(counted == (on == other && told.contains("  on  ")), "{told}");
        }
        self.until_running(deploy);
        self.says(&["cancel", deploy]);
        // It was ended, so waiting for it is no success.
        let waited = self.muster(&["wait", deploy]);
        assert!(said(&waited).contains("CANCELLED"), "{}", said(&waited));
    }
}

/// The pipeline runs wholly there.
pub(crate) fn the_pipeline_runs(site: &Site) {
    let _daemon = site.start();
    site.pipeline([site.other[0]; 4]);
    let log = std::fs::read_to_string(site.work.join("train.log")).unwrap();
    assert!(log.contains("epoch 40"), "{log}");
}

/// Every second step runs on this machine.
pub(crate) fn half_of_the_pipeline_runs(site: &Site) {
    let _daemon = site.start();
    site.pipeline(["local", site.other[0], "local", site.other[0]]);
}

/// A daemon that is killed finds what runs there again, and can still requeue and cancel it.
pub(crate) fn what_runs_is_found_again(site: &Site) {
    let daemon = site.start();
    std::fs::write(site.work.join("long.sh"), "#!/bin/sh\necho begun >> begun\nsleep 100000\n")
        .unwrap();
    let words = ["--on", site.other[0], "--requeue", "--output=/dev/null", "long.sh"];
    let long = site.submit(&words);
    site.until_running(&long);
    let begun = || std::fs::read_to_string(site.work.join("begun")).unwrap_or_default();
    until("its script has begun", || (begun() == "begun\n").then_some(()));
    daemon.kill();
    let _daemon = site.start();
    assert!(site.says(&["job", &long]).contains("RUNNING"));
    assert_eq!(begun(), "begun\n");
    // Once more from the beginning, by the user's wish.
    site.says(&["requeue", &long]);
    until("it begins again", || (begun() == "begun\nbegun\n").then_some(()));
    site.until_running(&long);
    site.cancel(&long);
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
