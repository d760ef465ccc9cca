//! A daemon of the real binary with a state directory of its own, and what tests ask of it.

use muster_api::{JobRef, SubmitRequest, SubmitResponse};
use muster_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest that anything here waits.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The binary under test.
pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

/// A folder with a state directory; what runs from it ends with it.
pub(crate) struct Place {
    dir: TempDir,
}

/// A running daemon.
pub(crate) struct Daemon {
    child: Child,
    /// Says when the process is gone.
    gone: Option<mpsc::Receiver<()>>,
}

impl Place {
    /// A fresh place that other users can pass through.
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("muster-e2e-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Any program, with this place's daemon in its environment.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .env("MUSTER_STATE", self.path("state"))
            .env("MUSTER_SOCKET", self.path("socket"))
            .env_remove("MUSTER_URL")
            .env_remove("MUSTER_CONFIG");
        command
    }

    /// `muster` with these words.
    pub(crate) fn muster(&self, words: &[&str]) -> Output {
        self.command(MUSTER).args(words).output().unwrap()
    }

    /// A Slurm name with these words, as this user.
    pub(crate) fn slurm_as(&self, uid: u32, name: &str, words: &[&str]) -> Output {
        use std::os::unix::process::CommandExt as _;
        let link = self.path(name);
        if !link.exists() {
            std::os::unix::fs::symlink(MUSTER, &link).unwrap();
        }
        let mut command = self.command(link);
        if uid != nix::unistd::getuid().as_raw() {
            command.uid(uid).gid(uid);
        }
        command.args(words).output().unwrap()
    }

    /// A Slurm name with these words.
    pub(crate) fn slurm(&self, name: &str, words: &[&str]) -> Output {
        self.slurm_as(nix::unistd::getuid().as_raw(), name, words)
    }

    /// Starts a daemon in the foreground and waits until it answers. `None` where it ended instead.
    pub(crate) fn try_start(&self, words: &[&str], environment: &[(&str, &str)]) -> Option<Daemon> {
        let mut log = std::fs::OpenOptions::new();
        let log = log.create(true).append(true).open(self.path("daemon.log")).unwrap();
        let mut command = self.command(MUSTER);
        command.args(["up", "--foreground", "--detached"]).args(words);
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said.trim() == "ready" {
            return Some(Daemon { child, gone: None });
        }
        child.wait().unwrap();
        None
    }

    /// Starts a daemon with practice nodes.
    pub(crate) fn start(&self) -> Daemon {
        self.try_start(&["--practice", "4x8"], &[]).unwrap_or_else(|| panic!("{}", self.log()))
    }

    /// A client of the daemon.
    pub(crate) fn client(&self) -> Client {
        Client::connect_to(&self.path("socket")).unwrap()
    }

    /// A submission of this script from this place.
    pub(crate) fn request(&self, script: &str, options: &[&str]) -> SubmitRequest {
        SubmitRequest {
            script: script.to_owned(),
            script_name: "job.sh".to_owned(),
            options: options.iter().map(ToString::to_string).collect(),
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            cwd: self.dir.path().to_string_lossy().into_owned(),
            ..SubmitRequest::default()
        }
    }

    /// Submits this body as a script.
    pub(crate) fn submit(&self, body: &str, options: &[&str]) -> SubmitResponse {
        self.client().submit(&self.request(&format!("#!/bin/sh\n{body}\n"), options)).unwrap()
    }

    /// The daemon's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    /// Processes that have this place in their environment or arguments, by id and arguments.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let mark = self.dir.path().as_os_str().as_encoded_bytes();
        let own = std::process::id() as i32;
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let (arguments, environment) = (read("cmdline"), read("environ"));
            let has = |text: &[u8]| text.windows(mark.len()).any(|part| part == mark);
            if pid != own && (has(&arguments) || has(&environment)) {
                let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
                found.push((pid, text.trim().to_owned()));
            }
        }
        found
    }

    /// Those that are neither the daemon nor the shepherd: jobs and their supervisors.
    pub(crate) fn job_processes(&self) -> Vec<(i32, String)> {
        let service = |text: &str| text.contains(" up --foreground") || text.contains(" shepherd ");
        let zombie = |pid: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
        };
        let all = self.processes().into_iter();
        all.filter(|(pid, text)| !service(text) && !zombie(*pid)).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- daemon.log\n{}", self.log());
        }
        for (pid, _) in self.processes() {
            // Gone already is as good.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if let Ok(jobs) = std::fs::read_link(self.path("state").join("jobs")) {
            let _ = std::fs::remove_dir_all(jobs);
        }
    }
}

impl Daemon {
    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Ends it as an admin does, and waits until it is gone.
    pub(crate) fn stop(mut self) {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        assert!(self.wait(PATIENCE).is_some(), "the daemon does not stop");
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) {
        kill(self.pid(), Signal::SIGKILL).unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it is gone by itself; `None` where it is still there after so long.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<()> {
        let pid = self.pid();
        let gone = self.gone.get_or_insert_with(|| {
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || {
                // Waits without reaping: the child is still ours.
                let _ = nix::sys::wait::waitid(
                    nix::sys::wait::Id::Pid(pid),
                    nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT,
                );
                let _ = tell.send(());
            });
            told
        });
        gone.recv_timeout(patience).ok()?;
        self.child.wait().ok().map(drop)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A job by its number.
pub(crate) fn job(id: u32) -> JobRef {
    id.to_string().parse().unwrap()
}

/// What a program printed, both streams.
pub(crate) fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    both.concat()
}

/// Asks until there is an answer.
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_or(ask).unwrap_or_else(|| panic!("waited too long until {what}"))
}

/// Asks until there is an answer, or for so long that there will be none.
pub(crate) fn until_or<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    let (_never, pause) = mpsc::channel::<()>();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() > deadline {
            return None;
        }
        let _ = pause.recv_timeout(Duration::from_millis(20));
    }
}
