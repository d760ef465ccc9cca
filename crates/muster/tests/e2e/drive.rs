//! A partition of a real Slurm, handed over, taken back, and left alone by a muster that is killed.
//!
//! `cargo xtask test --only slurm` starts that Slurm and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without it nothing is tested here.

mod faults;
mod hold;
mod rest;

use crate::place::until;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// One test at a time has the partition.
static ALONE: Mutex<()> = Mutex::new(());

struct Bed {
    conf: PathBuf,
    dir: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

/// A `muster drive slurm` that ends with the test.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bed {
    fn find() -> Option<Self> {
        let conf = PathBuf::from(std::env::var_os("MUSTER_TEST_SLURM_CONF")?);
        let dir = conf.parent().unwrap().to_owned();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { conf, dir, _alone: alone })
    }

    fn command(&self, program: impl AsRef<Path>, words: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command.args(words).env("SLURM_CONF", &self.conf).env("MUSTER_BED", &self.dir);
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        self.command(program, words).output().unwrap()
    }

    fn read(&self, program: &str, words: &[&str]) -> String {
        let said = self.run(program, words);
        assert!(said.status.success(), "{program} {words:?}: {said:?}");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    fn muster(&self, words: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_muster"), words).output().unwrap()
    }

    /// Takes the partition over, and says so once it has.
    fn drive(&self) -> Driver {
        self.drive_these(&["gpu"])
    }

    fn drive_these(&self, partitions: &[&str]) -> Driver {
        self.drive_by(partitions, "lease")
    }

    fn drive_by(&self, partitions: &[&str], by: &str) -> Driver {
        self.drive_with(partitions, &["--by", by])
    }

    fn drive_with(&self, partitions: &[&str], words: &[&str]) -> Driver {
        let log = std::fs::File::create(self.dir.join("drive.log")).unwrap();
        let all = [&["drive", "slurm", "--lease", "20"], words].concat();
        let mut command = self.command(env!("CARGO_BIN_EXE_muster"), &all);
        command.args(partitions.iter().flat_map(|name| ["--partition", name]));
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let driver = Driver(command.spawn().unwrap());
        until("muster decides", || self.log().contains("muster decides").then_some(()));
        driver
    }

    /// Waits until a lease is put off again.
    fn until_leased(&self, partition: &str) {
        until("the lease is put off again", || {
            let output = self.muster(&["drive", "status", "--json"]);
            let leases: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            let soon = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis() + 5_000;
            let ends = leases.as_array()?.iter().find(|lease| lease["partition"] == partition)?;
            (u128::from(ends["until_ms"].as_u64()?) > soon).then_some(())
        });
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("drive.log")).unwrap_or_default()
    }

    fn submit(&self, words: &[&str]) -> String {
        let first = ["--parsable", "-o", "/dev/null", "-p", "gpu", "-t", "10"];
        self.read("sbatch", &[&first[..], words, &["--wrap", "exec sleep 1000"]].concat())
    }

    /// State, nodes and required nodes of a job.
    fn job(&self, job: &str) -> [String; 3] {
        let text = self.read("squeue", &["-h", "-j", job, "-O", "State:|,NodeList:|,ReqNodes:|"]);
        let mut fields = text.lines().next().unwrap_or_default().split('|').map(str::to_owned);
        [(); 3].map(|()| fields.next().unwrap_or_default().replace("(null)", ""))
    }

    fn runs(&self, job: &str) -> [String; 3] {
        let what = format!("job {job} runs");
        until(&what, || Some(self.job(job)).filter(|fields| fields[0] == "RUNNING"))
    }

    fn cancel(&self, jobs: &[&str]) {
        self.read("scancel", jobs);
        for job in jobs {
            until("it is gone", || {
                let seen = self.run("squeue", &["-h", "-t", "R,PD,CG", "-j", job]);
                String::from_utf8_lossy(&seen.stdout).trim().is_empty().then_some(())
            });
        }
    }
}

#[test]
fn a_partition_is_driven_through_kills_and_given_back() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    refuses(&bed);
    let driver = bed.drive();
    let gang = starts_where_planned(&bed);
    outlives_muster(&bed, driver, &gang);
    let mut driver = bed.drive();
    outlives_slurmctld(&bed);
    faults::outlives_munge(&bed, &mut driver);
    starts_every_form(&bed);
    keeps_an_array_one_record(&bed);
    survives_what_users_do(&bed);
    faults::tells_a_start_that_is_cancelled(&bed);
    gives_back(&bed, driver);
    faults::loses_a_partition(&bed);
}

/// What ended in that Slurm becomes a trace with the CPUs of its nodes, and can be replayed.
#[test]
fn the_past_of_a_slurm_becomes_a_trace() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let job = bed.read("sbatch", &["--parsable", "-o", "/dev/null", "-n2", "--wrap", "sleep 1"]);
    let trace = bed.dir.join("past.swf");
    let file = trace.to_str().unwrap();
    let text = until("it is in the past", || {
        let words = ["sim", "import", "slurm", "--since", "now-1hour", "-o", file];
        let output = bed.muster(&words);
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(&trace).unwrap();
        let done = |line: &str| {
            let fields: Vec<&str> = line.split(' ').collect();
            fields[0] == job && fields[4] == "2" && fields[10] == "1"
        };
        text.lines().any(done).then_some(text)
    });
    assert!(text.contains("; MaxProcs: 48\n"), "{text}");
    let output = bed.muster(&["sim", "replay", file, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let early = bed.muster(&["sim", "import", "slurm", "--since", "now", "--until", "now-1hour"]);
    let said = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(!early.status.success() && said.contains("--since"), "{said}");
}

fn refuses(bed: &Bed) {
    let said = |words: &[&str]| {
        let output = bed.muster(words);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let shared = said(&["drive", "slurm", "--partition", "main"]);
    assert!(shared.contains("E_DRIVE_SHARED") && shared.contains("back"), "{shared}");
    let unknown = said(&["drive", "slurm", "--partition", "gpux"]);
    assert!(unknown.contains("E_DRIVE_PARTITION") && unknown.contains("gpu"), "{unknown}");
}

/// A gang, tasks of an array and a held job; the gang, running.
fn starts_where_planned(bed: &Bed) -> String {
    let held = bed.submit(&["--hold"]);
    let gang = bed.submit(&["-N2", "--gres=gpu:2", "-c2"]);
    let array = bed.submit(&["--array=0-3%2", "-c2", "--gres=gpu:1"]);
    let [_, nodes, required] = bed.runs(&gang);
    assert_eq!((nodes.as_str(), required.as_str()), ("n[4-5]", "n[4-5]"));
    for task in [0, 1] {
        bed.runs(&format!("{array}_{task}"));
    }
    // The rest of the array is still one record, and a user's hold is the user's.
    let records = bed.read("squeue", &["-h", "-j", &array, "-o", "%i"]);
    assert!(records.contains(&format!("{array}_[2-3")), "{records}");
    let [state, _, required] = bed.job(&held);
    assert_eq!((state.as_str(), required.as_str()), ("PENDING", ""));
    bed.cancel(&[&held, &array]);
    gang
}

/// Killed with a job waiting: the lease lapses, and Slurm schedules.
fn outlives_muster(bed: &Bed, mut driver: Driver, gang: &str) {
    let wide = bed.submit(&["-N2", "--exclusive"]);
    until("the lease is told", || {
        let output = bed.muster(&["drive", "status", "--json"]);
        String::from_utf8_lossy(&output.stdout).contains("\"gpu\"").then_some(())
    });
    driver.0.kill().unwrap();
    driver.0.wait().unwrap();
    assert_eq!(bed.job(gang)[0], "RUNNING");
    bed.cancel(&[gang]);
    let [.., required] = bed.runs(&wide);
    assert_eq!(required, "", "muster had nothing to do with it");
    bed.cancel(&[&wide]);
}

/// A slurmctld that is killed and comes back is driven on.
fn outlives_slurmctld(bed: &Bed) {
    let pid = std::fs::read_to_string(bed.dir.join("slurmctld.pid")).unwrap();
    bed.read("kill", &["-9", pid.trim()]);
    bed.read("slurmctld", &["-f", bed.conf.to_str().unwrap()]);
    until("it is back", || bed.run("scontrol", &["ping"]).status.success().then_some(()));
    // One that was killed may have forgotten a cancellation.
    until("jobs from before are gone", || {
        bed.run("scancel", &["--partition=gpu"]);
        let seen = bed.run("squeue", &["-h", "-p", "gpu"]);
        (seen.status.success() && seen.stdout.is_empty()).then_some(())
    });
    // It forgot the newest seconds, with them the last extension of the lease it may be: as long as
    // there is none Slurm schedules by itself.
    bed.until_leased("gpu");
    let job = until("it takes jobs", || {
        let words = ["--parsable", "-o", "/dev/null", "-p", "gpu", "-N2", "--wrap", "sleep 1000"];
        let said = bed.run("sbatch", &words);
        let id = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        said.status.success().then_some(id)
    });
    let [.., required] = bed.runs(&job);
    assert_eq!(required, "n[4-5]");
    bed.cancel(&[&job]);
}

/// A range of nodes, a heterogeneous job, an interactive allocation and all ways to ask for GPUs.
fn starts_every_form(bed: &Bed) {
    let range = bed.submit(&["-N1-2", "-c2"]);
    let [_, nodes, required] = bed.runs(&range);
    assert_eq!(nodes, required, "Slurm takes no more nodes than were planned");
    bed.cancel(&[&range]);
    let script = bed.dir.join("sleep.sh");
    std::fs::write(&script, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    let part = ["-p", "gpu", "-t", "10", "-N1", "-c2"];
    let words = [&["--parsable", "-o", "/dev/null"], &part[..], &[":"], &part[..]].concat();
    let het = bed.read("sbatch", &[&words[..], &[script.to_str().unwrap()]].concat());
    let nodes = until("both components run", || {
        let nodes = bed.read("squeue", &["-h", "-t", "R", "-j", &het, "-o", "%N"]);
        (nodes.lines().count() == 2).then_some(nodes)
    });
    let nodes: BTreeSet<&str> = nodes.lines().map(str::trim).collect();
    assert_eq!(nodes, BTreeSet::from(["n4", "n5"]), "backfill gives a node to one component");
    bed.cancel(&[&het]);
    let ask = r#"squeue -h -j $SLURM_JOB_ID -O "NodeList:|,ReqNodes:|""#;
    let words = ["-p", "gpu", "-t", "10", "--gpus=1", "sh", "-c", ask];
    let mut salloc = bed.command("salloc", &words);
    salloc.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut salloc = Driver(salloc.spawn().unwrap());
    until("salloc ends", || salloc.0.try_wait().unwrap());
    let mut said = String::new();
    salloc.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let nodes = said.split('|').next().filter(|node| !node.is_empty()).expect("nodes");
    assert_eq!(said.trim(), format!("{nodes}|{nodes}|"));
    // All run at once, whatever is planned together: seven of eight GPUs, and who needs both nodes
    // comes first.
    let forms: [&[&str]; 5] = [
        &["-N2", "--gpus=2"],
        &["--gpus=1"],
        &["-N1", "--gpus-per-node=1"],
        &["-n2", "--gpus-per-task=1"],
        &["--gres=gpu:h100:1"],
    ];
    let jobs = forms.map(|form| bed.submit(form));
    for job in &jobs {
        let [_, nodes, required] = bed.runs(job);
        assert_eq!(nodes, required, "{job}");
    }
    bed.cancel(&jobs.each_ref().map(String::as_str));
}

/// Of an array that does not fit all tasks that wait are in the lease as one record; a gang with a
/// higher priority has it taken back as one.
fn keeps_an_array_one_record(bed: &Bed) {
    let array = bed.submit(&["--array=0-19", "-c2"]);
    until("eight tasks run", || {
        let running = bed.read("squeue", &["-h", "-t", "R", "-j", &array, "-o", "%i"]);
        (running.lines().count() == 8).then_some(())
    });
    let rest = || {
        let words = ["-h", "-t", "PD", "-j", &array, "-O", "JobArrayID:|,Reservation:|"];
        bed.read("squeue", &words).replace("(null)", "")
    };
    assert_eq!(rest(), format!("{array}_[8-19]|muster_gpu|"));
    let gang = bed.submit(&["-N2", "--exclusive", "--qos=high"]);
    until("the array waits for the gang", || (rest() == format!("{array}_[8-19]||")).then_some(()));
    bed.cancel(&[&array]);
    bed.runs(&gang);
    bed.cancel(&[&gang]);
}

/// Comments in any script stay as they are, and a job that its user cancels or holds between plan
/// and start, or whose node is drained then, holds nobody up.
fn survives_what_users_do(bed: &Bed) {
    let comment = "zwölf \"Affen\" 漢字 ;/'";
    let job = bed.submit(&["-N1", "--hold", "--comment", comment]);
    bed.read("scontrol", &["update", &format!("JobId={job}"), &format!("AdminComment={comment}")]);
    bed.read("scontrol", &["release", &job]);
    let [_, nodes, required] = bed.runs(&job);
    assert_eq!(nodes, required);
    let told = bed.read("scontrol", &["show", "job", &job]);
    assert!(told.contains(&format!("AdminComment={comment};muster:/")), "{told}");
    bed.cancel(&[&job]);
    // Slurm starts heterogeneous jobs in its next pass, so that they are released for a while.
    let script = bed.dir.join("sleep.sh");
    let part = ["-p", "gpu", "-t", "10", "-N1", "-c2"];
    let words = [&["--parsable", "-o", "/dev/null"], &part[..], &[":"], &part[..]].concat();
    let words = [&words[..], &[script.to_str().unwrap()]].concat();
    let released = |job: &str| {
        let words = ["-h", "-j", job, "-O", "Reservation:|"];
        let said = bed.run("squeue", &words);
        String::from_utf8_lossy(&said.stdout).contains("muster_gpu").then_some(())
    };
    let het = bed.read("sbatch", &words);
    until("it is released", || released(&het));
    bed.read("scontrol", &["update", "NodeName=n4", "State=DRAIN", "Reason=test"]);
    until("its room is gone", || {
        bed.log().contains(&format!("job {het} waits again")).then_some(())
    });
    bed.read("scontrol", &["update", "NodeName=n4", "State=RESUME"]);
    until("it is released again", || released(&het));
    bed.cancel(&[&het]);
    let next = bed.submit(&["-N2", "--exclusive"]);
    let [_, _, required] = bed.runs(&next);
    assert_eq!(required, "n[4-5]");
    bed.cancel(&[&next]);
}

/// `muster drive stop` with jobs running and waiting.
fn gives_back(bed: &Bed, mut driver: Driver) {
    let first = bed.submit(&["-N2", "--exclusive"]);
    bed.runs(&first);
    let second = bed.submit(&["-N2", "--exclusive"]);
    let stopped = bed.muster(&["drive", "stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    let status = until("its driver ends", || driver.0.try_wait().unwrap());
    assert!(!status.success() && bed.log().contains("E_DRIVE_HANDED_BACK"), "{}", bed.log());
    assert_eq!(bed.job(&first)[0], "RUNNING");
    bed.cancel(&[&first]);
    let [.., required] = bed.runs(&second);
    assert_eq!(required, "");
    bed.cancel(&[&second]);
}
