//! A muster of our own for a while: a temporary state directory, a daemon in the foreground,
//! and the guarantee that nothing of it runs once it is stopped.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::sh;

/// How long the daemon may take until it answers.
const START_S: u64 = 60;
/// How long it and what it started may take to be gone.
const STOP_S: u64 = 20;
const POLL: Duration = Duration::from_millis(100);

/// A daemon with its state, its folder of Slurm names and its log.
pub(crate) struct Instance {
    /// Everything lies below; gone with the instance.
    dir: TempDir,
    state: PathBuf,
    binary: PathBuf,
    /// What `muster up` was told.
    words: Vec<String>,
    daemon: Option<Child>,
}

impl Instance {
    /// Starts `muster up` with these further words and waits until it answers.
    ///
    /// # Errors
    /// It does not start, or does not answer in time; with the end of its log.
    pub(crate) fn start(binary: &Path, words: &[&str]) -> Result<Self, String> {
        let dir = folder()?;
        let state = dir.path().join("state");
        Self::open(dir, state, binary, words)
    }

    /// The same on a state directory that is there already and stays.
    ///
    /// # Errors
    /// As for [`Instance::start`].
    pub(crate) fn on_state(binary: &Path, state: &Path) -> Result<Self, String> {
        Self::open(folder()?, state.to_path_buf(), binary, &[])
    }

    fn open(dir: TempDir, state: PathBuf, binary: &Path, words: &[&str]) -> Result<Self, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let mut instance = Self { dir, state, binary: binary.to_path_buf(), words, daemon: None };
        instance.launch()?;
        let links = instance.links();
        sh::read(instance.muster().arg("slurm-links").arg(links))?;
        Ok(instance)
    }

    fn launch(&mut self) -> Result<(), String> {
        let log = File::create(self.log()).map_err(|error| format!("log: {error}"))?;
        let copy = log.try_clone().map_err(|error| format!("log: {error}"))?;
        let mut up = self.muster();
        up.arg("up").arg("--foreground").arg("--state").arg(&self.state).args(&self.words);
        // A group of its own: an interrupt from the keyboard is for us alone, and we clean up.
        up.stdout(log).stderr(copy).process_group(0);
        let daemon = up.spawn().map_err(|error| format!("{}: {error}", self.binary.display()))?;
        self.daemon = Some(daemon);
        let answers = self.until(START_S, |instance| {
            if instance.exited() {
                return Some(false);
            }
            let mut status = instance.muster();
            status.arg("status").stdout(Stdio::null()).stderr(Stdio::null());
            status.status().is_ok_and(|status| status.success()).then_some(true)
        });
        match answers {
            Some(true) => Ok(()),
            _ => Err(format!("muster up does not answer:\n{}", self.log_end())),
        }
    }

    /// A file or folder of the instance.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder with sbatch, squeue and the others.
    pub(crate) fn links(&self) -> PathBuf {
        self.path("bin")
    }

    /// The daemon's process id; 0 when it is stopped.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().map_or(0, Child::id)
    }

    /// Ends the daemon alone and starts it again on the same state; how long the start took.
    /// Jobs go on meanwhile.
    ///
    /// # Errors
    /// It does not end, or does not start.
    pub(crate) fn restart(&mut self) -> Result<Duration, String> {
        signal(self.pid(), "TERM");
        self.until(STOP_S, |instance| instance.exited().then_some(()))
            .ok_or_else(|| format!("the daemon does not end within {STOP_S} s"))?;
        let begin = Instant::now();
        self.launch()?;
        Ok(begin.elapsed())
    }

    /// The muster command, talking to this daemon.
    pub(crate) fn muster(&self) -> Command {
        self.dressed(&self.binary)
    }

    /// One of Slurm's names, talking to this daemon.
    pub(crate) fn slurm(&self, name: &str) -> Command {
        self.dressed(&self.links().join(name))
    }

    /// Any program with this daemon in its environment.
    pub(crate) fn dressed(&self, program: &Path) -> Command {
        let mut path = self.links().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .env("PATH", path)
            .env("MUSTER_SOCKET", self.path("socket"))
            .env("MUSTER_STATE", &self.state)
            .env_remove("MUSTER_URL")
            .env_remove("MUSTER_CONFIG");
        command
    }

    /// Ends the daemon and checks that nothing it started is left.
    ///
    /// # Errors
    /// Something is still running after a while: its processes, by id and name. They are killed.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        if let Some(daemon) = &self.daemon {
            signal(daemon.id(), "TERM");
        }
        let gone = self.until(STOP_S, |instance| {
            (instance.exited() && instance.processes().is_empty()).then_some(())
        });
        if gone.is_some() {
            return Ok(());
        }
        let left = self.processes();
        let names: Vec<String> = left.iter().map(|(pid, name)| format!("{pid} {name}")).collect();
        self.kill();
        Err(format!("still running after {STOP_S} s: {}", names.join(", ")))
    }

    /// The processes that belong to this instance: those with its folder in their environment.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let mark = self.dir.path().as_os_str().as_encoded_bytes();
        let own = std::process::id();
        let me = std::fs::metadata("/proc/self").map_or(0, |data| data.uid());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            if pid == own || entry.metadata().map_or(1, |data| data.uid()) != me {
                continue;
            }
            let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
            if environment.windows(mark.len()).any(|part| part == mark) {
                let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                found.push((pid, name.trim().to_owned()));
            }
        }
        found
    }

    /// The last lines of the daemon's log.
    pub(crate) fn log_end(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Asks until there is an answer or the time is over.
    pub(crate) fn until<T>(
        &mut self,
        limit_s: u64,
        mut ask: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + Duration::from_secs(limit_s);
        loop {
            if let Some(answer) = ask(self) {
                return Some(answer);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Leaves the folder for a look after a failure, and says where it is.
    pub(crate) fn keep(&mut self) {
        self.kill();
        self.dir.disable_cleanup(true);
        println!("kept: {}", self.dir.path().display());
    }

    fn log(&self) -> PathBuf {
        self.path("daemon.log")
    }

    fn exited(&mut self) -> bool {
        self.daemon.as_mut().is_none_or(|daemon| !matches!(daemon.try_wait(), Ok(None)))
    }

    fn kill(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        self.daemon = None;
        for (pid, _) in self.processes() {
            signal(pid, "KILL");
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Short, for the path of a unix socket holds 107 bytes.
fn folder() -> Result<TempDir, String> {
    tempfile::Builder::new()
        .prefix("muster-")
        .tempdir_in("/tmp")
        .map_err(|error| format!("no temporary folder: {error}"))
}

/// Sends a signal by the shell's own `kill`.
pub(crate) fn signal(pid: u32, name: &str) {
    let _ = sh::command("sh").args(["-c", &format!("kill -{name} {pid} 2>/dev/null")]).status();
}
