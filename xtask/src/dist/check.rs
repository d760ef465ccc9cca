//! The package tried for real on this machine: install, upgrade with a running job, backup and
//! restore, removal that keeps data, purge.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{VERSION, deb};
use crate::instance::Instance;
use crate::stage::{End, Outcome, Report, Skip};
use crate::{need, sh};

const STATE: &str = "/var/lib/muster";
const BINARY: &str = "/usr/bin/muster";

/// The stage dist of a long run.
pub(crate) fn checks(long: bool, report: &mut Report) {
    if !long {
        let skip = || Err(Skip::unavoidable("only in a long run (--long)").into());
        report.check("static binary, package", skip);
        return;
    }
    report.check("static binary", static_binary);
    let mut bed = None;
    report.check("package", || {
        bed = Some(Bed::new()?);
        Ok(String::new())
    });
    let Some(bed) = bed else { return };
    report.check("install", || bed.install());
    report.check("upgrade with a running job", || bed.upgrade());
    report.check("backup and restore", || bed.restore());
    report.check("remove keeps data, purge does not", Bed::remove);
}

/// The static binary answers, and knows the users of this machine.
fn static_binary() -> Outcome {
    let binary = super::build_static("release")?;
    let version = sh::read(sh::command(&binary).arg("--version"))?;
    let mut instance = Instance::start(&binary, &["--practice", "1x1"])?;
    let mut run = instance.slurm("srun");
    run.args(["--mem=32M", "id", "-un"]);
    let user = sh::read(&mut run);
    let stopped = instance.stop();
    let (user, me) = (user?, sh::read(sh::command("id").arg("-un"))?);
    stopped?;
    if user != me {
        return Err(End::Failed(format!("a job runs as {user:?} instead of {me:?}")));
    }
    Ok(version.trim().to_owned())
}

struct Bed {
    dir: TempDir,
    old: PathBuf,
    new: PathBuf,
}

impl Bed {
    fn new() -> Result<Self, End> {
        if !need::is_root() {
            return Err(Skip::unavoidable("not root: a package cannot be installed").into());
        }
        if need::which("dpkg").is_none() {
            return Err(Skip::unavoidable("no dpkg here").into());
        }
        let there = Path::new(STATE).read_dir().is_ok_and(|mut dir| dir.next().is_some());
        if there || Path::new(BINARY).exists() {
            let reason = "muster is installed here, or has data here: not touched";
            return Err(Skip::unavoidable(reason).into());
        }
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let binary = super::build("release")?;
        let old = deb::build(&binary, dir.path(), VERSION)?;
        let new = deb::build(&binary, dir.path(), &format!("{VERSION}+next"))?;
        Ok(Self { dir, old, new })
    }

    fn install(&self) -> Outcome {
        sh::run(sh::command("dpkg").arg("-i").arg(&self.old))?;
        for file in [
            BINARY,
            "/usr/lib/muster/slurm/sbatch",
            "/usr/lib/systemd/system/muster.service",
            "/usr/share/bash-completion/completions/muster",
            "/usr/share/man/man1/muster.1.gz",
            "/etc/muster/muster.toml",
        ] {
            if !Path::new(file).exists() {
                return Err(End::Failed(format!("the package lacks {file}")));
            }
        }
        sh::read(sh::command(BINARY).arg("--version"))?;
        Ok(String::new())
    }

    /// A job that began before the upgrade ends after it, under the new daemon.
    fn upgrade(&self) -> Outcome {
        let mut instance = Instance::on_state(Path::new(BINARY), Path::new(STATE))?;
        let gate = self.dir.path().join("go");
        let script = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
        let mut sbatch = instance.slurm("sbatch");
        sbatch.args(["--parsable", "--mem=32M", "--time=5", "--wrap", &script]);
        let job = sh::read(&mut sbatch)?.trim().to_owned();
        expect(&mut instance, &job, "RUNNING")?;
        sh::run(sh::command("dpkg").arg("-i").arg(&self.new))?;
        instance.restart()?;
        expect(&mut instance, &job, "RUNNING")?;
        std::fs::write(&gate, "").map_err(|error| error.to_string())?;
        expect(&mut instance, &job, "COMPLETED")?;
        instance.stop()?;
        Ok(format!("job {job} ran through it"))
    }

    fn restore(&self) -> Outcome {
        let copy = self.dir.path().join("backup");
        let mut instance = Instance::on_state(Path::new(BINARY), Path::new(STATE))?;
        sh::run(instance.muster().arg("backup").arg(&copy))?;
        instance.stop()?;
        std::fs::remove_dir_all(STATE).map_err(|error| format!("{STATE}: {error}"))?;
        sh::run(instance.muster().arg("restore").arg(&copy))?;
        let mut instance = Instance::on_state(Path::new(BINARY), Path::new(STATE))?;
        let known = sh::read(instance.slurm("sacct").args(["-X", "-n", "-P", "-o", "State"]))?;
        instance.stop()?;
        if known.lines().any(|line| line == "COMPLETED") {
            return Ok(String::new());
        }
        Err(End::Failed(format!("the job from before the backup is not known: {known:?}")))
    }

    fn remove() -> Outcome {
        sh::run(sh::command("dpkg").args(["--remove", "muster"]))?;
        if !Path::new(STATE).exists() || Path::new(BINARY).exists() {
            return Err(End::Failed("removal must take the program and leave the data".into()));
        }
        sh::run(sh::command("dpkg").args(["--purge", "muster"]))?;
        if Path::new(STATE).exists() || Path::new("/etc/muster").exists() {
            return Err(End::Failed("purge must take data and configuration".into()));
        }
        Ok(String::new())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Whatever failed, the machine is left as it was found.
        let _ = sh::read(sh::command("dpkg").args(["--purge", "muster"]));
    }
}

/// Waits until a job is in that state.
fn expect(instance: &mut Instance, job: &str, state: &str) -> Result<(), String> {
    let mut last = String::new();
    let seen = instance.until(60, |instance| {
        let mut sacct: Command = instance.slurm("sacct");
        sacct.args(["-X", "-n", "-P", "-o", "State", "-j", job]);
        last = sh::read(&mut sacct).unwrap_or_else(|message| message);
        (last.trim() == state).then_some(())
    });
    seen.ok_or_else(|| format!("job {job} is {last:?} and not {state}"))
}
