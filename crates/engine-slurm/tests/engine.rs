//! The engine contract on a real Slurm, and what is special to one.
//!
//! `cargo xtask test --only slurm` starts one and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without that nothing is tested here.

use muster_engine::contract::Subject;
use muster_engine::{EngineError, Order};
use muster_engine_slurm::{Commands, SlurmConfig, SlurmEngine};
use muster_model::{ArrayTask, EndCause, EngineName, JobId, Owner};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// The bed's configuration.
fn conf() -> Option<PathBuf> {
    std::env::var_os("MUSTER_TEST_SLURM_CONF").map(PathBuf::from)
}

fn config(conf: &Path, state: &Path) -> SlurmConfig {
    let path = std::env::var_os("PATH").unwrap_or_default();
    SlurmConfig {
        name: EngineName("slurm".to_owned()),
        state_directory: state.to_owned(),
        commands: Commands::find(&path).expect("Slurm's commands").with_conf(conf),
        partitions: BTreeMap::new(),
        least: Duration::from_millis(200),
        most: Duration::from_secs(2),
        per_minute: 6000,
    }
}

/// The bed's configuration, free of jobs that tests before these left; or a line that there is
/// none.
fn bed() -> Option<PathBuf> {
    static CLEARED: Once = Once::new();
    let Some(conf) = conf() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return None;
    };
    CLEARED.call_once(|| {
        let mut scancel = Command::new("scancel");
        let said = scancel.args(["--full", "--user=root"]).env("SLURM_CONF", &conf).output();
        assert!(said.is_ok_and(|said| said.status.success()), "scancel");
    });
    Some(conf)
}

fn watched(conf: &Path, config: SlurmConfig) -> Subject {
    let engine = SlurmEngine::start(config).expect("engine");
    let subject = Subject::new(Arc::new(engine), conf.parent().expect("a folder"));
    // Slurm knows no working directory that is not on this machine; accounts it knows.
    subject.spoiled_by(|spec| "nosuch".clone_into(&mut spec.account))
}

fn subject() -> Option<Subject> {
    let conf = bed()?;
    let state = tempfile::tempdir().expect("a folder");
    Some(watched(&conf, config(&conf, state.path())).keeping(state))
}

muster_engine::contract_suite!(subject());

/// A folder with Slurm's commands, of which some are scripts of our own.
fn commands(folder: &Path, own: &[(&str, String)]) -> Commands {
    for name in ["squeue", "scontrol", "sbatch", "scancel", "sacct"] {
        let text = own.iter().find(|(own, _)| *own == name).map(|(_, text)| text.clone());
        let text = text.unwrap_or_else(|| format!("exec /usr/bin/{name} \"$@\""));
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    Commands::of(folder).expect("all of them")
}

/// sbatch that submits and says that nobody answered; a line in a file for each call.
fn mute(calls: &Path) -> String {
    let calls = calls.display();
    format!(
        "echo call >> {calls}\n/usr/bin/sbatch \"$@\" > /dev/null || exit 1\n\
         echo 'sbatch: error: Socket timed out on send/recv operation' >&2\nexit 1"
    )
}

/// The lines that jobs were submitted with, as the accounting has them.
fn accounted(conf: &Path) -> String {
    let words = ["-n", "-P", "-X", "--allusers", "-S", "now-1hour", "-o", "submitline"];
    let said = Command::new("sacct").args(words).env("SLURM_CONF", conf).output().expect("sacct");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn an_answer_that_got_lost_is_found_by_the_mark_and_nothing_runs_twice() {
    let Some(conf) = bed() else { return };
    // Either slurmctld still knows the job, or it has forgotten it and the accounting knows it.
    for forgets in [false, true] {
        let (state, folder) =
            (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let calls = folder.path().join("calls");
        let mut own = vec![("sbatch", mute(&calls))];
        if forgets {
            own.push(("squeue", "echo '{\"jobs\":[]}'".to_owned()));
        }
        let commands = commands(folder.path(), &own).with_conf(&conf);
        let subject = watched(&conf, SlurmConfig { commands, ..config(&conf, state.path()) });
        let marker = folder.path().join("ran");
        let script = format!("#!/bin/sh\necho x >> {}\n", marker.display());
        let name = folder.path().to_string_lossy().into_owned();
        let launch = subject.launch_of(1, &script, |spec| spec.name.clone_from(&name));
        let lost = subject.engine().execute(1, &launch);
        assert!(matches!(lost, Err(EngineError::Unreachable { .. })), "{lost:?}");
        // slurmctld forgets a job long after the accounting has heard of it (MinJobAge, 300 s).
        let until = Instant::now() + Duration::from_mins(1);
        while forgets && !accounted(&conf).contains(&name) {
            assert!(Instant::now() < until, "the accounting does not hear of {name}");
        }
        while let Err(error) = subject.engine().execute(1, &launch) {
            assert!(matches!(error, EngineError::Unreachable { .. }), "{error}");
        }
        let report = subject.wait_for_exit(1);
        assert_eq!(report.cause, EndCause::Exited, "{report:?}");
        assert_eq!(fs::read_to_string(&marker).expect("it ran"), "x\n");
        let asked = fs::read_to_string(&calls).expect("calls").lines().count();
        assert_eq!(asked, 1, "sbatch was asked again");
    }
}

#[test]
fn a_slurmctld_that_is_away_is_unreachable_and_the_order_can_be_repeated() {
    let Some(conf) = bed() else { return };
    let (state, folder) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
    let away = folder.path().join("away");
    let gate = |name: &str| {
        let away = away.display();
        format!(
            "[ ! -e {away} ] || {{ echo '{name}: error: Unable to contact slurm controller \
             (connect failure)' >&2; exit 1; }}\nexec /usr/bin/{name} \"$@\""
        )
    };
    let own = ["squeue", "scontrol", "sbatch", "scancel"].map(|name| (name, gate(name)));
    let commands = commands(folder.path(), &own).with_conf(&conf);
    let subject = watched(&conf, SlurmConfig { commands, ..config(&conf, state.path()) });
    let launch = subject.launch(1, "#!/bin/sh\nsleep 100000\n");
    fs::write(&away, "").expect("written");
    let refused = subject.engine().execute(1, &launch);
    assert!(matches!(refused, Err(EngineError::Unreachable { .. })), "{refused:?}");
    fs::remove_file(&away).expect("removed");
    subject.order(&launch);
    subject.wait_for_start(1);
    fs::write(&away, "").expect("written");
    let stop =
        Order::Stop { job: JobId(1), attempt: 1, cause: None, grace: muster_model::Seconds(0) };
    let refused = subject.engine().execute(1, &stop);
    assert!(matches!(refused, Err(EngineError::Unreachable { .. })), "{refused:?}");
    fs::remove_file(&away).expect("removed");
    subject.order(&stop);
    assert_eq!(subject.wait_for_exit(1).cause, EndCause::Stopped);
}

/// What a command of Slurm prints.
fn says(conf: &Path, program: &str, words: &[&str]) -> String {
    let said = Command::new(program).args(words).env("SLURM_CONF", conf).output().expect(program);
    assert!(said.status.success(), "{program} {words:?}: {said:?}");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

#[test]
fn a_mark_that_somebody_else_wrote_is_not_believed() {
    let Some(conf) = bed() else { return };
    let state = tempfile::tempdir().expect("a folder");
    let subject = watched(&conf, config(&conf, state.path()));
    let name = state.path().to_string_lossy().into_owned();
    subject.order(&subject.launch_of(1, "#!/bin/sh\nsleep 100000\n", |spec| {
        spec.name.clone_from(&name);
    }));
    subject.wait_for_start(1);
    let mark = says(&conf, "squeue", &["-h", "-n", &name, "-o", "%k"]);
    assert!(mark.ends_with(":1.1"), "{mark}");
    // The mark of a job to come, on a job that anybody may submit.
    let forged = format!("--comment={}", mark.replace(":1.1", ":2.1"));
    let said = Command::new("sbatch")
        .args(["--parsable", "-o", "/dev/null", "--wrap", "sleep 100000", &forged])
        .env("SLURM_CONF", &conf)
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output();
    let theirs = String::from_utf8_lossy(&said.expect("sbatch").stdout).trim().to_owned();
    // An attempt that begins and ends behind it: a look has seen it.
    subject.order(&subject.launch(3, "#!/bin/sh\nexit 0\n"));
    subject.wait_for_exit(3);
    assert!(subject.listing().running.iter().all(|running| running.job != JobId(2)));
    subject.order(&subject.launch(2, "#!/bin/sh\nexit 5\n"));
    assert_eq!(subject.wait_for_exit(2).status.code, 5, "its own script runs");
    let still = says(&conf, "squeue", &["-h", "-j", &theirs, "-o", "%T"]);
    assert!(["PENDING", "RUNNING"].contains(&still.as_str()), "{still}");
    says(&conf, "scancel", &[&theirs]);
    subject.stop(1);
    subject.wait_for_exit(1);
}

#[test]
fn an_engine_that_starts_anew_knows_what_runs_and_what_ended_meanwhile() {
    let Some(conf) = bed() else { return };
    let state = tempfile::tempdir().expect("a folder");
    let first = watched(&conf, config(&conf, state.path()));
    first.order(&first.launch(1, "#!/bin/sh\nsleep 100000\n"));
    first.order(&first.launch(2, "#!/bin/sh\nexit 3\n"));
    first.wait_for_start(1);
    drop(first);
    let second = watched(&conf, config(&conf, state.path()));
    assert_eq!(second.wait_for_exit(2).status.code, 3);
    let listing = second.listing();
    assert!(listing.running.iter().any(|running| running.job == JobId(1)), "{listing:?}");
    assert_eq!(listing.highest, JobId(2));
    second.stop(1);
    assert_eq!(second.wait_for_exit(1).cause, EndCause::Stopped);
}

#[test]
fn a_job_runs_as_its_owner_with_what_its_script_asked_for() {
    let Some(conf) = bed() else { return };
    let (state, folder) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    // Debian's nobody, who has an account in the bed.
    let owner = Owner { uid: 65_534, gid: 65_534, user: "nobody".to_owned() };
    let subject = watched(&conf, config(&conf, state.path())).as_owner(owner);
    let script = "#!/bin/bash\n#SBATCH --array=3-9 --dependency=afterok:999999\n\
                  #SBATCH --mem-per-gpu=100 --hold --begin=now+1hour\n\
                  echo \"$(id -un) $1 $2|$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID \
                  $SLURM_ARRAY_TASK_COUNT|$PWD|$SLURM_JOB_NAME|$MINE|$(umask)\"\nexit 9\n";
    let order = subject.launch_of(12, script, |spec| {
        "a name".clone_into(&mut spec.name);
        spec.cwd = folder.path().to_string_lossy().into_owned();
        spec.stdio.output = Some("out-%A_%a-50%%.txt".to_owned());
    });
    let Order::Launch(mut launch) = order else { panic!("{order:?}") };
    let job = Arc::make_mut(&mut launch.job);
    job.array = Some(ArrayTask { array: JobId(10), index: 5 });
    launch.array = Some(muster_engine::ArrayFacts { size: 7, min: 3, max: 9, step: 1 });
    let payload = Arc::make_mut(&mut launch.payload);
    payload.args = vec!["one".to_owned(), "and two".to_owned()];
    payload.environment.push(("MINE".to_owned(), "kept".to_owned()));
    payload.environment.push(("SBATCH_PARTITION".to_owned(), "nosuch".to_owned()));
    payload.umask = 0o027;
    subject.order(&Order::Launch(launch));
    let report = subject.wait_for_exit(12);
    assert_eq!((report.cause, report.status.code), (EndCause::Exited, 9), "{report:?}");
    let said = fs::read_to_string(folder.path().join("out-10_5-50%.txt")).expect("its output");
    let here = folder.path().display();
    assert_eq!(said, format!("nobody one and two|10 5 7|{here}|a name|kept|0027\n"));
}
