//! Taking a job: its directory is made whole under another name and renamed into place.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use muster_api::step::SOCKET_NAME;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};

use crate::directory::{LAUNCH_FILE, NEW_PREFIX, SCRIPT_FILE};
use crate::machine::now_ms;
use crate::shepherd::Shared;
use crate::spec::{LaunchRecord, LaunchSpec, ProcessId, Program};

/// Claims the attempt for this process and listens for its steps; `None` when it was claimed before.
pub(super) fn claim(
    shared: &Shared,
    process: ProcessId,
    spec: &LaunchSpec,
) -> io::Result<Option<OwnedFd>> {
    let key = spec.key();
    let jobs = shared.state.jobs();
    let new = jobs.join(format!("{NEW_PREFIX}{key}.{}", std::process::id()));
    let make = || fs::DirBuilder::new().mode(0o711).create(&new);
    match make() {
        // Somebody removed the directory of all jobs (a cleaner of temporary files): made again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            shared.state.place_jobs()?;
            make()?;
        }
        made => made?,
    }
    let made = fill(shared, process, spec, &new);
    let renamed = made.and_then(|listener| {
        fs::rename(&new, jobs.join(key.to_string()))?;
        Ok(listener)
    });
    match renamed {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            fs::remove_dir_all(&new).ok();
            match error.raw_os_error() {
                Some(libc::ENOTEMPTY | libc::EEXIST) => Ok(None),
                _ => Err(error),
            }
        }
    }
}

fn fill(shared: &Shared, process: ProcessId, spec: &LaunchSpec, new: &Path) -> io::Result<OwnedFd> {
    // Everything in it has a short name from here.
    std::env::set_current_dir(new)?;
    let record = LaunchRecord {
        job: spec.job,
        attempt: spec.attempt,
        supervisor: process,
        boot_id: shared.boot_id.clone(),
        launched_ms: now_ms(),
        uid: spec.user.uid,
        nodes: spec.nodes.iter().map(|n| n.name.clone()).collect(),
        cgroups: shared.cgroups.directories(&spec.key().to_string()),
    };
    fs::write(LAUNCH_FILE, serde_json::to_vec(&record)?)?;
    let root = nix::unistd::geteuid().is_root();
    if let Program::Script { text, .. } = &spec.program {
        use io::Write;
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o500).open(SCRIPT_FILE)?;
        file.write_all(text.as_bytes())?;
        if root && spec.user.uid != 0 {
            std::os::unix::fs::fchown(&file, Some(spec.user.uid), Some(spec.user.gid))?;
        }
    }
    let listener = listen_for_steps()?;
    if root && spec.user.uid != 0 {
        chown(SOCKET_NAME, Some(spec.user.uid), Some(spec.user.gid))?;
    }
    Ok(listener)
}

fn listen_for_steps() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(listener.as_raw_fd(), &UnixAddr::new(SOCKET_NAME)?)?;
    fs::set_permissions(SOCKET_NAME, fs::Permissions::from_mode(0o600))?;
    listen(&listener, Backlog::new(64).map_err(|_| Errno::EINVAL)?)?;
    Ok(listener)
}
