//! A real Slurm that is looked at stays as it was, and every call of its commands only shows.
//!
//! `cargo xtask test --only slurm` starts one and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without that nothing is tested here.

use muster_engine_slurm::Commands;
use muster_engine_slurm::read::read;
use muster_model::Timestamp;
use muster_shadow::{Look, look};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A condition is waited for so long.
const WITHIN: Duration = Duration::from_mins(2);

/// All that `scontrol show` has of what a scheduler could change.
const KINDS: [&str; 7] =
    ["config", "node", "partition", "job", "reservation", "licenses", "topology"];

/// Fields that move by themselves.
const MOVING: [&str; 8] = [
    "RunTime=",
    "LastBusyTime=",
    "FreeMem=",
    "CPULoad=",
    "LastSchedEval=",
    "StartTime=",
    "EndTime=",
    "SchedNodeList=",
];

struct Bed {
    conf: PathBuf,
    dir: PathBuf,
}

impl Bed {
    fn find() -> Option<Self> {
        let conf = PathBuf::from(std::env::var_os("MUSTER_TEST_SLURM_CONF")?);
        let dir = conf.parent().expect("a folder").to_owned();
        Some(Self { conf, dir })
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let said = Command::new(program)
            .args(words)
            .env("SLURM_CONF", &self.conf)
            .env("MUSTER_BED", &self.dir)
            .current_dir(&self.dir)
            .output()
            .expect("a command of Slurm");
        assert!(said.status.success(), "{program} {words:?}: {said:?}");
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    fn submit(&self, words: &[&str]) -> u32 {
        let all = [&["--parsable", "-o", "/dev/null"], words, &["--wrap", "exec sleep 1000"]];
        let text = self.run("sbatch", &all.concat());
        text.trim().parse().unwrap_or_else(|_| panic!("no number: {text}"))
    }

    /// Everything that is to stay as it is.
    fn shown(&self) -> String {
        let all = KINDS.map(|kind| self.run("scontrol", &["show", kind]));
        let words = all.iter().flat_map(|text| text.lines());
        let kept = words.map(|line| {
            let fields = line.split_whitespace();
            let fields = fields.filter(|field| !MOVING.iter().any(|name| field.starts_with(name)));
            fields.collect::<Vec<_>>().join(" ")
        });
        // The first line of the configuration says when it was asked for.
        kept.filter(|line| !line.starts_with("Configuration data as of"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Slurm's commands with a line in a file for each call.
    fn logged(&self) -> (Commands, PathBuf) {
        let folder = self.dir.join("logged");
        fs::create_dir_all(&folder).expect("a folder");
        let calls = folder.join("calls");
        for name in ["squeue", "scontrol"] {
            let real = Path::new("/usr/bin").join(name);
            let text = format!(
                "#!/bin/sh\necho {name} \"$@\" >> {}\nexec {} \"$@\"\n",
                calls.display(),
                real.display()
            );
            let path = folder.join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        (Commands::of(&folder).expect("both").with_conf(&self.conf), calls)
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    Timestamp::from_secs(since.as_secs() as i64)
}

fn seen(commands: &Commands) -> Look {
    look(&read(commands, now()).expect("read"), &[]).expect("understood")
}

#[test]
fn looking_changes_nothing() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let (commands, calls) = bed.logged();
    // Another test may have left jobs.
    bed.run("scancel", &["--full", "--user=root"]);
    let first = bed.submit(&["-N4", "--exclusive", "-t", "60"]);
    let second = bed.submit(&["-N4", "--exclusive", "-t", "30"]);
    let until = Instant::now() + WITHIN;
    // The queue has settled once the first runs and Slurm has given the second its word.
    let settled = |look: &Look| {
        let row = look.waiting.iter().find(|row| row.id == second);
        look.waiting.len() == 1 && row.is_some_and(|row| row.slurm_reason == "Resources")
    };
    while !settled(&seen(&commands)) {
        assert!(Instant::now() <= until, "job {second}: {:?}", seen(&commands));
    }
    let before = bed.shown();
    let found = seen(&commands);
    assert_eq!(bed.shown(), before);
    let row = found.waiting.iter().find(|row| row.id == second).expect("it waits");
    assert!(row.reasons.iter().any(|why| why.code == "RESOURCES"), "{row:?}");
    assert!(row.start_ms.is_some(), "{row:?}");
    assert!(found.early.iter().all(|early| early.violations.is_empty()), "{:?}", found.early);
    let calls = fs::read_to_string(calls).expect("calls");
    for call in calls.lines() {
        let words: Vec<&str> = call.split_whitespace().collect();
        let shows = words[0] == "squeue" || words.contains(&"show");
        assert!(shows && !words.contains(&"update"), "{call}");
    }
    assert!(!calls.is_empty());
    bed.run("scancel", &[&first.to_string(), &second.to_string()]);
}
