//! Slurm's commands: found by absolute path, never muster's own, bounded in time and size.

use crate::{Rest, SlurmError};
use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Where sites put Slurm's commands, beside the folders of `PATH`.
const PLACES: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/local/slurm/bin"];

/// A command has so long.
const LIMIT: Duration = Duration::from_mins(1);

/// So much of what a command says is taken.
const BYTES_MAX: u64 = 1 << 30;

/// So much of what a command complains of is told.
const COMPLAINT_MAX: u64 = 4096;

/// How the commands of one Slurm are run.
#[derive(Clone, Debug)]
pub struct Commands {
    squeue: PathBuf,
    scontrol: PathBuf,
    conf: Option<PathBuf>,
    rest: Option<Rest>,
    limit: Duration,
    bytes_max: u64,
}

impl Commands {
    /// Finds the commands in the folders of `path` (as the variable `PATH` has them) and where
    /// sites put them.
    ///
    /// # Errors
    /// [`SlurmError::Missing`], or [`SlurmError::Own`] where only muster's are there.
    pub fn find(path: &OsStr) -> Result<Self, SlurmError> {
        let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
        folders.extend(PLACES.iter().map(PathBuf::from));
        Self::among(&folders)
    }

    /// The commands of one folder.
    ///
    /// # Errors
    /// As [`Commands::find`].
    pub fn of(folder: &Path) -> Result<Self, SlurmError> {
        Self::among(&[folder.to_owned()])
    }

    fn among(folders: &[PathBuf]) -> Result<Self, SlurmError> {
        Ok(Self {
            squeue: find("squeue", folders)?,
            scontrol: find("scontrol", folders)?,
            conf: None,
            rest: None,
            limit: LIMIT,
            bytes_max: BYTES_MAX,
        })
    }

    /// The Slurm of this configuration file, in place of the machine's.
    #[must_use]
    pub fn with_conf(mut self, conf: &Path) -> Self {
        self.conf = Some(conf.to_owned());
        self
    }

    /// What slurmrestd tells is asked of it, and of the commands only where it does not answer.
    #[must_use]
    pub fn with_rest(mut self, rest: Rest) -> Self {
        self.rest = Some(rest);
        self
    }

    /// The slurmrestd that is asked first.
    pub const fn rest(&self) -> Option<&Rest> {
        self.rest.as_ref()
    }

    /// Each command has this long.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs `squeue`; what it printed.
    ///
    /// # Errors
    /// [`SlurmError::Failed`], [`SlurmError::Late`], [`SlurmError::Long`].
    pub fn squeue(&self, words: &[&str]) -> Result<Vec<u8>, SlurmError> {
        self.run(&self.squeue, words)
    }

    /// Runs `scontrol`; what it printed.
    ///
    /// # Errors
    /// As [`Commands::squeue`], and [`SlurmError::Answer`] for what is not UTF-8.
    pub fn scontrol(&self, words: &[&str]) -> Result<String, SlurmError> {
        let said = self.run(&self.scontrol, words)?;
        String::from_utf8(said).map_err(|error| SlurmError::Answer {
            command: line(&self.scontrol, words),
            what: error.to_string(),
        })
    }

    /// Has one `scontrol` carry out these lines, one after the other; what it complained of. A line
    /// that fails does not keep the next ones.
    ///
    /// # Errors
    /// As [`Commands::squeue`] but for a line that failed.
    pub fn scontrol_lines(&self, lines: &[String]) -> Result<String, SlurmError> {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let words = ["--quiet"];
        let (run, command) = (self.prepared(&self.scontrol, &words), line(&self.scontrol, &words));
        let said = self.ask(run, &command, Some(text.into_bytes()))?;
        // It says by its status only that one of them failed.
        match said.status.code() {
            Some(_) => Ok(said.complaint()),
            None => Err(said.failed(command)),
        }
    }

    /// Another command of the same Slurm, looked for beside `squeue` only.
    ///
    /// # Errors
    /// As [`Commands::find`].
    pub(crate) fn beside(&self, command: &str) -> Result<PathBuf, SlurmError> {
        let folder = self.squeue.parent().map(Path::to_owned);
        find(command, &folder.into_iter().collect::<Vec<_>>())
    }

    /// The configuration file, where it is not the machine's own.
    pub(crate) fn conf(&self) -> Option<PathBuf> {
        self.conf.clone().or_else(|| std::env::var_os("SLURM_CONF").map(PathBuf::from))
    }

    /// Runs one of Slurm's commands; what it printed.
    ///
    /// # Errors
    /// As [`Commands::squeue`].
    pub(crate) fn run(&self, program: &Path, words: &[&str]) -> Result<Vec<u8>, SlurmError> {
        self.finish(self.prepared(program, words), line(program, words), None)
    }

    /// Runs what is prepared, with this on its standard input, to its end; what it printed.
    ///
    /// # Errors
    /// As [`Commands::squeue`].
    pub(crate) fn finish(
        &self,
        run: Command,
        command: String,
        input: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, SlurmError> {
        let said = self.ask(run, &command, input)?;
        if said.status.success() { Ok(said.out) } else { Err(said.failed(command)) }
    }

    /// Begins one of Slurm's commands: it, its output, and what it will have complained of.
    ///
    /// # Errors
    /// [`SlurmError::Failed`] where it cannot be run.
    pub(crate) fn begin(
        &self,
        program: &Path,
        words: &[&str],
    ) -> Result<(Child, ChildStdout, Receiver<Vec<u8>>), SlurmError> {
        let mut run = self.prepared(program, words);
        let failed = |said: String| SlurmError::Failed { command: line(program, words), said };
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().map_err(|error| failed(error.to_string()))?;
        match (child.stdout.take(), child.stderr.take()) {
            (Some(out), Some(complaint)) => Ok((child, out, collect(complaint, COMPLAINT_MAX))),
            _ => Err(failed("no pipe to it".to_owned())),
        }
    }

    fn prepared(&self, program: &Path, words: &[&str]) -> Command {
        let mut run = Command::new(program);
        run.args(words);
        // An interrupt from the keyboard is for muster, which ends what it has begun.
        run.process_group(0);
        // The same answer whatever the caller's own settings are; times as seconds since 1970.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["SLURM_", "SQUEUE_", "SCONTROL_", "SACCT_"].iter().any(|own| name.starts_with(own))
            {
                run.env_remove(name);
            }
        }
        run.env("SLURM_TIME_FORMAT", "%s").env("LC_ALL", "C");
        if let Some(conf) = self.conf() {
            run.env("SLURM_CONF", conf);
        }
        run
    }

    fn ask(
        &self,
        mut run: Command,
        command: &str,
        input: Option<Vec<u8>>,
    ) -> Result<Said, SlurmError> {
        let command = command.to_owned();
        let failed =
            |said: &str| SlurmError::Failed { command: command.clone(), said: said.into() };
        let from = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        run.stdin(from).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().map_err(|error| failed(&error.to_string()))?;
        let (out, complaint) = match (child.stdout.take(), child.stderr.take()) {
            (Some(out), Some(complaint)) => {
                (collect(out, self.bytes_max + 1), collect(complaint, COMPLAINT_MAX))
            }
            _ => return Err(failed("no pipe to it")),
        };
        if let (Some(input), Some(mut to)) = (input, child.stdin.take()) {
            // A program that ends before it has read all of it says so by how it ends.
            std::thread::spawn(move || drop(to.write_all(&input)));
        }
        let until = Instant::now() + self.limit;
        let said = out.recv_timeout(self.limit);
        let status = match &said {
            Ok(said) if said.len() as u64 <= self.bytes_max => end_of(&mut child, until),
            _ => None,
        };
        let Some(status) = status else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(match said {
                Ok(said) if said.len() as u64 > self.bytes_max => {
                    SlurmError::Long { command, bytes: self.bytes_max }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    SlurmError::Late { command, limit: self.limit }
                }
                Err(RecvTimeoutError::Disconnected) => failed("its output broke off"),
            });
        };
        let out = said.map_err(|_| failed("its output broke off"))?;
        Ok(Said { status, out, complaint, limit: self.limit })
    }
}

/// What a command that has ended said.
struct Said {
    status: ExitStatus,
    out: Vec<u8>,
    complaint: Receiver<Vec<u8>>,
    limit: Duration,
}

impl Said {
    /// What it complained of.
    fn complaint(&self) -> String {
        let complaint = self.complaint.recv_timeout(self.limit).unwrap_or_default();
        String::from_utf8_lossy(&complaint).trim().to_owned()
    }

    fn failed(&self, command: String) -> SlurmError {
        let said = format!("{}: {}", self.status, self.complaint());
        SlurmError::Failed { command, said }
    }
}

/// Reads to the end, or so far.
fn collect(from: impl Read + Send + 'static, bytes_max: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        if from.take(bytes_max).read_to_end(&mut said).is_ok() {
            // Nobody waits for it any more where the command was given up.
            let _ = sender.send(said);
        }
    });
    receiver
}

/// How the command ended; `None` where it has not by then. It has closed its output.
fn end_of(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => return None,
        }
    }
}

pub(crate) fn line(program: &Path, words: &[&str]) -> String {
    let name = program.to_string_lossy();
    std::iter::once(name.as_ref()).chain(words.iter().copied()).collect::<Vec<_>>().join(" ")
}

/// The first command of this name that is not muster's.
fn find(command: &str, folders: &[PathBuf]) -> Result<PathBuf, SlurmError> {
    let mut own = None;
    for folder in folders.iter().filter(|folder| folder.is_absolute()) {
        let path = folder.join(command);
        // What a link points to tells whose it is.
        let Ok(target) = path.canonicalize() else { continue };
        if !target.is_file() {
            continue;
        }
        if is_own(&target) {
            own.get_or_insert(path);
            continue;
        }
        return Ok(path);
    }
    let looked = || {
        let names = folders.iter().map(|folder| folder.to_string_lossy());
        names.collect::<Vec<_>>().join(":")
    };
    Err(match own {
        Some(path) => SlurmError::Own { path },
        None => SlurmError::Missing { command: command.to_owned(), looked: looked() },
    })
}

/// True for the one binary that all of muster's names are links to.
fn is_own(target: &Path) -> bool {
    let same = std::env::current_exe().and_then(|own| own.canonicalize());
    target.file_name() == Some(OsStr::new("muster")) || same.is_ok_and(|own| own == target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn script(folder: &Path, name: &str, text: &str) {
        let file = folder.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a script");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    fn slurm(squeue: &str) -> (tempfile::TempDir, Commands) {
        let folder = tempfile::tempdir().expect("a folder");
        script(folder.path(), "squeue", squeue);
        script(folder.path(), "scontrol", "exit 0");
        let commands = Commands::of(folder.path()).expect("both");
        (folder, commands)
    }

    #[test]
    fn musters_own_links_are_passed_over_and_refused_where_there_is_nothing_else() {
        let ours = tempfile::tempdir().expect("a folder");
        script(ours.path(), "muster", "exit 0");
        for name in ["squeue", "scontrol"] {
            symlink(ours.path().join("muster"), ours.path().join(name)).expect("a link");
        }
        let refused = Commands::of(ours.path()).expect_err("refused");
        assert_eq!(refused, SlurmError::Own { path: ours.path().join("squeue") });
        let (theirs, _) = slurm("exit 0");
        let folders = [ours.path().to_owned(), theirs.path().to_owned()];
        let found = Commands::among(&folders).expect("found");
        assert_eq!(found.squeue, theirs.path().join("squeue"));
    }

    #[test]
    fn what_is_nowhere_is_named_with_the_folders() {
        let empty = tempfile::tempdir().expect("a folder");
        let missing = Commands::of(empty.path()).expect_err("missing");
        assert_eq!(missing.code(), "E_SLURM_COMMAND");
        assert!(missing.to_string().contains(&*empty.path().to_string_lossy()), "{missing}");
    }

    #[test]
    fn a_failure_tells_what_the_command_complained_of() {
        let (_folder, commands) = slurm("echo 'slurm_load_jobs error' >&2; exit 1");
        let failed = commands.squeue(&["--json"]).expect_err("failed");
        assert_eq!(failed.code(), "E_SLURM_FAILED");
        assert!(failed.to_string().contains("slurm_load_jobs error"), "{failed}");
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let (_folder, commands) = slurm("exec sleep 1000");
        let late = commands.with_limit(Duration::from_millis(50)).squeue(&[]).expect_err("late");
        assert!(matches!(late, SlurmError::Late { .. }), "{late}");
    }

    #[test]
    fn a_command_that_says_too_much_is_ended() {
        let (_folder, mut commands) = slurm("while :; do echo more; done");
        commands.bytes_max = 100;
        let long = commands.squeue(&[]).expect_err("long");
        assert_eq!(long.code(), "E_SLURM_ANSWER");
    }

    #[test]
    fn the_callers_settings_do_not_reach_the_command() {
        let (_folder, commands) = slurm("echo \"$SLURM_TIME_FORMAT $SLURM_CONF\"");
        let said = commands.with_conf(Path::new("/x/slurm.conf")).squeue(&[]).expect("said");
        assert_eq!(String::from_utf8_lossy(&said), "%s /x/slurm.conf\n");
    }
}
