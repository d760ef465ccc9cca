//! What every test bed stands on: a folder, processes that carry its name, and the guarantee that
//! nothing of either stays.
//!
//! What ends a bed is a keeper, a shell that waits for the end of a pipe: it comes when the bed is
//! dropped, and also when this program is interrupted or killed. It ends every process that carries
//! the bed's mark in its environment and removes the folder.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::root;

/// What marks the processes of a bed.
const MARK: &str = "MUSTER_BED";

/// Ports are looked for from here on, below those that systems give to clients.
const PORTS_FROM: u16 = 21_000;
const PORTS_TO: u16 = 31_000;

/// Waits for the end of its input, ends whatever carries the mark, and clears the folder.
const KEEPER: &str = r#"
read -r _
for round in 1 2 3 4 5; do
    found=$(grep -lsaF "MUSTER_BED=$1" /proc/[0-9]*/environ)
    [ -n "$found" ] || break
    for one in $found; do
        pid=${one#/proc/}
        kill -9 "${pid%/environ}" 2>/dev/null
    done
    sleep 0.2
done
rm -rf "$1"
"#;

/// The folder of a bed and who keeps it.
pub(crate) struct Ground {
    dir: PathBuf,
    keeper: Child,
}

impl Ground {
    /// A new folder with its keeper.
    ///
    /// # Errors
    /// There is no room for temporary files, or no shell.
    pub(crate) fn new() -> Result<Self, String> {
        let dir = TempDir::with_prefix("muster-bed-").map_err(|error| error.to_string())?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(dir.path())
            // A group of its own: an interrupt from the keyboard does not reach it.
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        // From here on the folder is the keeper's.
        Ok(Self { dir: dir.keep(), keeper })
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A program of the bed, which ends with it.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(MARK, &self.dir).stdin(Stdio::null()).current_dir(&self.dir);
        command
    }

    /// Starts a command that goes on, with what it prints in the file `log` of the folder.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn detach(&self, command: &mut Command, log: &str) -> Result<Child, String> {
        let log = self.dir.join(log);
        let failed = |error: std::io::Error| format!("{}: {error}", log.display());
        let file = File::create(&log).map_err(failed)?;
        let copy = file.try_clone().map_err(failed)?;
        // A group of its own: an interrupt from the keyboard is for us alone.
        command.stdout(file).stderr(copy).process_group(0);
        command
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))
    }

    /// Lets the bed go on without this program; its folder is all that is needed to end it.
    pub(crate) fn leave(mut self) {
        let _ = self.keeper.kill();
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Ends every process of the bed in `dir` and removes that folder.
///
/// # Errors
/// Something of it is left.
pub(crate) fn clear(dir: &Path) -> Result<(), String> {
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper"]).arg(dir).stdin(Stdio::null());
    let status = keeper.status().map_err(|error| format!("sh: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("what is left of {}: {status}", dir.display()))
}

/// Where it is written down which bed is up: a file of the build folder, so one for a work tree.
pub(crate) struct Record {
    /// The file.
    pub(crate) name: &'static str,
    /// What lies in the folder of such a bed.
    pub(crate) sign: &'static str,
    /// The task that starts and ends it.
    pub(crate) task: &'static str,
}

impl Record {
    fn file(&self) -> PathBuf {
        root::target().join(self.name)
    }

    /// The folder of the bed that is up.
    ///
    /// # Errors
    /// None is.
    pub(crate) fn up(&self) -> Result<PathBuf, String> {
        self.standing().ok_or_else(|| format!("none is up: cargo xtask {} up", self.task))
    }

    /// No bed is up.
    ///
    /// # Errors
    /// One is.
    pub(crate) fn vacant(&self) -> Result<(), String> {
        let says = |dir: PathBuf| {
            format!("one is up in {}: cargo xtask {} down", dir.display(), self.task)
        };
        self.standing().map_or(Ok(()), |dir| Err(says(dir)))
    }

    fn standing(&self) -> Option<PathBuf> {
        let dir = PathBuf::from(std::fs::read_to_string(self.file()).ok()?.trim());
        dir.join(self.sign).is_file().then_some(dir)
    }

    /// Writes down that the bed in `dir` is up.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), String> {
        let file = self.file();
        std::fs::write(&file, format!("{}\n", dir.display()))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Ends the bed that is up, and says so.
    ///
    /// # Errors
    /// None is up, or something of it is left.
    pub(crate) fn down(&self) -> Result<(), String> {
        clear(&self.up()?)?;
        std::fs::remove_file(self.file()).map_err(|error| error.to_string())?;
        println!("down: nothing of it is left");
        Ok(())
    }
}

/// The first of `count` ports in a row of which those that `needed` names, counted from the first,
/// are free.
///
/// # Errors
/// There is no such row.
pub(crate) fn free_ports(count: u16, needed: &[u16]) -> Result<u16, String> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (PORTS_FROM..PORTS_TO - count)
        .step_by(usize::from(count))
        .find(|first| needed.iter().all(|n| is_free(first + n)))
        .ok_or_else(|| "no free ports for a bed".to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{Ground, free_ports};

    #[test]
    fn nothing_of_a_dropped_bed_stays() {
        let ground = Ground::new().expect("a folder");
        let dir = ground.dir().to_owned();
        let mut child = ground.detach(ground.command("sleep").arg("1000"), "log").expect("sleep");
        drop(ground);
        assert!(!dir.exists());
        assert!(!child.wait().expect("it was killed").success());
    }

    #[test]
    fn a_port_in_use_is_passed_over() {
        let first = free_ports(2, &[0, 1]).expect("two ports");
        let taken = TcpListener::bind(("127.0.0.1", first + 1)).expect("free");
        assert_ne!(free_ports(2, &[0, 1]), Ok(first));
        drop(taken);
    }
}
