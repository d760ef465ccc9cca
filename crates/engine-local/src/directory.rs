//! The state directory on disk: one directory per job that runs or whose end is not yet stored.
//!
//! `jobs/JOB.ATTEMPT/` is made under another name and renamed, so that it exists whole or not at
//! all: the rename is what makes a launch happen at most once. It holds `launch.json` (who
//! supervises), `script`, the step socket and, at the end, `exit.json`. The daemon removes it when
//! it has stored the exit.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::spec::{ExitRecord, JobKey, LaunchRecord};

/// The launch record's file name.
pub(crate) const LAUNCH_FILE: &str = "launch.json";
/// The exit record's file name.
pub(crate) const EXIT_FILE: &str = "exit.json";
/// The exit record's name while it is written.
pub(crate) const EXIT_FILE_NEW: &str = "exit.json.new";
/// The script's file name.
pub(crate) const SCRIPT_FILE: &str = "script";
/// The daemon's datagram socket.
pub(crate) const POKE_SOCKET: &str = "poke.sock";
/// The shepherd's stream socket.
pub(crate) const SHEPHERD_SOCKET: &str = "shepherd.sock";
/// Locked by the shepherd as long as it lives.
pub(crate) const SHEPHERD_LOCK: &str = "shepherd.lock";
/// What the shepherd and supervisors have to say that fits nowhere else.
pub(crate) const SHEPHERD_LOG: &str = "shepherd.log";
/// First part of the name of a directory that is being made.
pub(crate) const NEW_PREFIX: &str = ".new.";

/// The largest record that is read back.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// The engine's part of muster's state directory.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    root: PathBuf,
}

impl StateDirectory {
    /// Makes what is missing of it. Users must be able to pass through to their own job's
    /// directory, so the directories can be entered by all and listed by their owner.
    ///
    /// `jobs` may be a link into memory, see [`runtime`](crate::runtime).
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o711).create(root)?;
        let root = root.canonicalize()?;
        let state = Self { root };
        state.place_jobs()?;
        if nix::unistd::geteuid().is_root() {
            for directory in [state.root.clone(), state.jobs()] {
                let mode = fs::metadata(&directory)?.permissions().mode();
                if mode & 0o011 != 0o011 {
                    fs::set_permissions(directory, fs::Permissions::from_mode(mode | 0o011))?;
                }
            }
        }
        Ok(state)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// The directory of all jobs.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// The directory of one job.
    pub(crate) fn job(&self, key: JobKey) -> PathBuf {
        self.root.join("jobs").join(key.to_string())
    }

    /// A short name for this state directory, different for each on a machine.
    pub(crate) fn instance(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        // FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
        let hash =
            self.root.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
                (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
            });
        format!("{hash:016x}")
    }

    /// Makes the directory of all jobs where it is missing.
    pub(crate) fn place_jobs(&self) -> io::Result<()> {
        crate::runtime::place_jobs(&self.root, &self.instance())
    }

    /// Every job that has a directory, in order.
    pub(crate) fn list(&self) -> io::Result<Vec<JobKey>> {
        let mut keys: Vec<JobKey> = fs::read_dir(self.jobs())?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Removes directories that a supervisor began to make and did not finish.
    ///
    /// Only when no shepherd lives: a living one may be making them.
    pub(crate) fn sweep_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.jobs())? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(NEW_PREFIX)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// A job's launch record.
    pub(crate) fn launch_record(&self, key: JobKey) -> io::Result<LaunchRecord> {
        read_record(&self.job(key).join(LAUNCH_FILE))
    }

    /// A job's exit record, if it ended.
    pub(crate) fn exit_record(&self, key: JobKey) -> io::Result<Option<ExitRecord>> {
        match read_record(&self.job(key).join(EXIT_FILE)) {
            Ok(record) => Ok(Some(record)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Removes a job's directory; one that is gone already is fine.
    ///
    /// The exit record goes last of the files: whoever is killed in between leaves a directory
    /// that still tells how the job ended, or one without any record, which says by that that it
    /// was being removed.
    pub(crate) fn remove(&self, key: JobKey) -> io::Result<()> {
        let directory = self.job(key);
        // The usual files first, by name: cheaper than listing. A missing one is no matter.
        for name in [SCRIPT_FILE, muster_api::step::SOCKET_NAME, LAUNCH_FILE, EXIT_FILE] {
            fs::remove_file(directory.join(name)).ok();
        }
        let removed = match fs::remove_dir(&directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) => fs::remove_dir_all(&directory),
            Ok(()) => Ok(()),
        };
        match removed {
            // Another look finished the same removal.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

fn read_record<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    use std::io::Read;
    let mut text = Vec::new();
    fs::File::open(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut text)?;
    serde_json::from_slice(&text)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display())))
}

/// Writes a record whole or not at all.
pub(crate) fn write_exit_record(directory: &Path, record: &ExitRecord) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(record)?;
    let new = directory.join(EXIT_FILE_NEW);
    fs::write(&new, &text)?;
    fs::rename(&new, directory.join(EXIT_FILE))?;
    Ok(text)
}
