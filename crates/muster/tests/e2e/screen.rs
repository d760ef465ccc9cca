//! A person at a terminal: a program on a real pseudo terminal, its keys and its screen.

use crate::place::{MUSTER, PATIENCE, Place, until};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

/// A program on a terminal of its own.
pub(crate) struct Screen {
    child: Child,
    keys: File,
    path: PathBuf,
    shown: Receiver<Vec<u8>>,
    text: String,
    /// How much of the text was looked at.
    read: usize,
}

impl Screen {
    /// Starts a Slurm name, or `muster` itself, at this place on a terminal of this size.
    pub(crate) fn start(place: &Place, size: (u16, u16), words: &[&str]) -> Self {
        for name in ["srun", "salloc"] {
            let link = place.path(name);
            if !link.exists() {
                std::os::unix::fs::symlink(MUSTER, &link).unwrap();
            }
        }
        let pty = openpty(None, None).unwrap();
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let path = nix::unistd::ttyname(&pty.slave).unwrap();
        let slave = || Stdio::from(pty.slave.try_clone().unwrap());
        set_size(&path, size);
        let program = match words[0] {
            "muster" => PathBuf::from(MUSTER),
            name => place.path(name),
        };
        // Makes a session whose terminal is standard input, then becomes the program.
        let mut command = place.command("setsid");
        let links = format!("{}:/usr/bin:/bin", place.path("").display());
        command.arg("--ctty").arg(program).args(&words[1..]);
        command
            .env("PATH", links)
            .env("SHELL", "/bin/sh")
            .env("PS1", crate::terminal::PROMPT)
            .env_remove("ENV");
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        drop((command, pty.slave));
        let (tell, shown) = mpsc::channel();
        let keys = File::from(pty.master);
        let mut screen = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The last program that leaves the terminal ends this.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if tell.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, path, shown, text: String::new(), read: 0 }
    }

    /// Presses keys.
    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until one of these is shown after what was waited for before; says which.
    pub(crate) fn see_one<'w>(&mut self, wanted: &[&'w str]) -> &'w str {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rest = &self.text[self.read..];
            let first = wanted.iter().filter_map(|w| Some((rest.find(w)?, *w))).min();
            if let Some((at, word)) = first {
                self.read += at + word.len();
                return word;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!("{wanted:?} not seen ({why}) in:\n{}", self.text),
            }
        }
    }

    /// Waits until this is shown after what was waited for before.
    pub(crate) fn see(&mut self, wanted: &str) {
        self.see_one(&[wanted]);
    }

    /// Makes the window larger or smaller.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        set_size(&self.path, size);
    }

    /// True where keys are taken by lines and shown as they are typed, as a shell leaves it.
    pub(crate) fn takes_lines(&self) -> bool {
        let output = stty(&self.path).arg("-a").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let has = |word: &str| text.split([' ', '\n', ';']).any(|w| w == word);
        has("icanon") && has("echo")
    }

    /// The exit code, once the program is gone.
    pub(crate) fn code(mut self) -> i32 {
        let status = until("the program at the terminal ends", || self.child.try_wait().unwrap());
        status.code().unwrap_or_else(|| panic!("{status}:\n{}", self.text))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(path: &PathBuf, (rows, columns): (u16, u16)) {
    let set = stty(path).args(["rows", &rows.to_string(), "cols", &columns.to_string()]).status();
    assert!(set.unwrap().success());
}

fn stty(path: &PathBuf) -> Command {
    let mut options = OpenOptions::new();
    let terminal = options.read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(path);
    let mut command = Command::new("stty");
    command.stdin(terminal.unwrap());
    command
}
