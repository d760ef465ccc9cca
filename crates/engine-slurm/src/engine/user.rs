//! Running a command as the user whose job it is.

// What happens between fork and exec is the system's own calls: `std` sets a user without his
// groups, and cannot tie a child's life to this process.
#![allow(unsafe_code)]

use muster_model::Owner;
use nix::unistd::{Gid, Uid, User};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A user as the system knows him.
pub(super) struct Person {
    uid: u32,
    gid: u32,
    groups: Vec<libc::gid_t>,
    /// What the system says of him, for the environment.
    pub(super) variables: BTreeMap<String, String>,
}

/// Who a job's owner is here; a sentence where this process may not act for him.
pub(super) fn person(owner: &Owner) -> Result<Person, String> {
    let own = nix::unistd::geteuid().as_raw();
    if own != 0 && own != owner.uid {
        return Err(format!(
            "the daemon runs as user {own} and may not submit to Slurm for {}\nhint: run it as \
             root, or submit as the user that it runs as",
            owner.user
        ));
    }
    let entry = User::from_uid(Uid::from_raw(owner.uid)).ok().flatten();
    let name = entry.as_ref().map_or(owner.user.as_str(), |entry| entry.name.as_str());
    let groups = CString::new(name)
        .ok()
        .filter(|_| entry.is_some())
        .and_then(|name| nix::unistd::getgrouplist(&name, Gid::from_raw(owner.gid)).ok());
    let groups =
        groups.map_or_else(|| vec![owner.gid], |all| all.iter().map(|g| g.as_raw()).collect());
    let mut variables =
        BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    for (variable, value) in [
        ("USER", Some(name.to_owned())),
        ("LOGNAME", Some(name.to_owned())),
        ("HOME", entry.as_ref().map(|e| e.dir.to_string_lossy().into_owned())),
        ("SHELL", entry.as_ref().map(|e| e.shell.to_string_lossy().into_owned())),
    ] {
        variables.extend(value.map(|value| (variable.to_owned(), value)));
    }
    Ok(Person { uid: owner.uid, gid: owner.gid, groups, variables })
}

impl Person {
    /// Has the command run as this user, in this directory where he can be there (else in `/`), and
    /// no longer than this process lives: a submission whose answer nobody hears must not be made.
    pub(super) fn runs(self, command: &mut Command, directory: &str) {
        let root = nix::unistd::geteuid().is_root();
        let directory = CString::new(directory).unwrap_or_default();
        let Self { uid, gid, groups, .. } = self;
        let parent = std::process::id();
        let failed = |done: libc::c_int| match done {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        let prepare = move || {
            // SAFETY: system calls on values that were made before the fork; none allocates.
            unsafe {
                if root {
                    // A pipe belongs to who made it: as `/dev/stdin` the user has to open it anew.
                    libc::fchown(0, uid, gid);
                    failed(libc::setgroups(groups.len(), groups.as_ptr()))?;
                    failed(libc::setgid(gid))?;
                    failed(libc::setuid(uid))?;
                }
                failed(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                if libc::getppid().cast_unsigned() != parent {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                if libc::chdir(directory.as_ptr()) != 0 {
                    failed(libc::chdir(c"/".as_ptr()))?;
                }
            }
            Ok(())
        };
        // SAFETY: the closure only makes system calls (see above).
        unsafe { command.pre_exec(prepare) };
    }
}
