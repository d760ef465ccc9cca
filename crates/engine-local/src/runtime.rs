//! Where job directories lie: in memory where there is a fit place, else in the state directory.
//!
//! They live no longer than the boot they belong to, and there is one for every job: on a disk's
//! file system making and removing them costs more than starting the job, and the daemon's synced
//! writes would wait for them too. `jobs` in the state directory is then a link. What was launched
//! before the machine went down is known from the journal.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::{FsFlags, statvfs};

/// Memory file systems that outlive a login, the better one first.
const PLACES: [&str; 2] = ["/run", "/dev/shm"];

/// Makes `jobs` below `root`, as a link into memory where there is a fit place.
///
/// A directory that is there already and holds jobs stays as it is.
pub(crate) fn place_jobs(root: &Path, instance: &str) -> io::Result<()> {
    let jobs = root.join("jobs");
    let target = match fs::symlink_metadata(&jobs) {
        Ok(found) if found.is_symlink() => fs::read_link(&jobs).ok(),
        // Only an empty directory gives way.
        Ok(_) if fs::remove_dir(&jobs).is_err() => return Ok(()),
        _ => None,
    };
    let wanted = in_memory(instance);
    match (target, wanted) {
        (Some(target), Some(wanted)) if target == wanted => Ok(()),
        (Some(target), _) if fs::read_dir(&target).is_ok_and(|mut jobs| jobs.next().is_some()) => {
            Ok(())
        }
        (Some(_), wanted) => {
            // A link to another place; what it led to is gone or empty.
            fs::remove_file(&jobs)?;
            link_or_make(&jobs, wanted)
        }
        (None, wanted) => link_or_make(&jobs, wanted),
    }
}

fn link_or_make(jobs: &Path, target: Option<PathBuf>) -> io::Result<()> {
    match target {
        Some(target) => symlink(target, jobs),
        None => fs::DirBuilder::new().recursive(true).mode(0o711).create(jobs),
    }
}

/// Removes the directory in memory when no job is in it, so that a state directory that is given
/// up leaves nothing behind.
pub(crate) fn leave(root: &Path) {
    if let Ok(target) = fs::read_link(root.join("jobs")) {
        // One that still holds jobs stays.
        fs::remove_dir(target).ok();
    }
}

/// A directory of ours in memory, made if missing. Only for root: a user's files there may be
/// removed at the end of a login, and the jobs shall go on.
fn in_memory(instance: &str) -> Option<PathBuf> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let mut places: Vec<&str> = PLACES.into_iter().filter(|place| is_memory(place)).collect();
    // Where programs may not be run, scripts are started through their interpreter.
    places.sort_by_key(|place| forbids_programs(place));
    places.into_iter().find_map(|place| own_directory(place, instance))
}

fn is_memory(place: &str) -> bool {
    statfs(place).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC)
}

fn forbids_programs(place: &str) -> bool {
    statvfs(place).is_ok_and(|found| found.flags().contains(FsFlags::ST_NOEXEC))
}

/// `PLACE/muster/INSTANCE`; others may write to some of the places, so whose it is counts.
fn own_directory(place: &str, instance: &str) -> Option<PathBuf> {
    let top = Path::new(place).join("muster");
    let own = top.join(instance);
    for directory in [&top, &own] {
        match fs::DirBuilder::new().mode(0o711).create(directory) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        let found = fs::symlink_metadata(directory).ok()?;
        if !found.is_dir() || found.uid() != 0 || found.mode() & 0o022 != 0 {
            return None;
        }
    }
    Some(own)
}
