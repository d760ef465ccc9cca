//! The unix socket: made, guarded, removed.

use crate::error::DaemonError;
use nix::sys::stat::{Mode, umask};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Says no where a daemon answers at the socket.
pub(crate) fn nobody_answers(socket: &Path) -> Result<(), DaemonError> {
    match UnixStream::connect(socket) {
        Ok(_) => Err(DaemonError::AlreadyUp { socket: socket.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// Makes the socket. Root's is for all users, who are told apart by their credentials; another
/// user's is for that user alone.
pub(crate) fn bind(socket: &Path) -> Result<UnixListener, DaemonError> {
    let fail = |source| DaemonError::Socket { socket: socket.to_owned(), source };
    let root = nix::unistd::geteuid().is_root();
    if let Some(dir) = socket.parent() {
        let mode = if root { 0o755 } else { 0o700 };
        std::fs::DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(fail)?;
    }
    nobody_answers(socket)?;
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(socket);
    umask(before);
    let listener = bound.map_err(fail)?;
    if root {
        let all = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(socket, all).map_err(fail)?;
    }
    Ok(listener)
}

/// Removes the socket. One that is gone already is no matter.
pub(crate) fn remove(socket: &Path) {
    let _ = std::fs::remove_file(socket);
}
