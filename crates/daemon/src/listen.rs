//! The unix socket: made, guarded, removed.

use crate::error::DaemonError;
use nix::sys::stat::{Mode, umask};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
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
    // What another daemon left is a socket; anything else is somebody's.
    match std::fs::symlink_metadata(socket) {
        Ok(there) if there.file_type().is_socket() => {
            std::fs::remove_file(socket).map_err(fail)?;
        }
        Ok(_) => {
            let why = "there is something that is no socket";
            return Err(fail(std::io::Error::new(ErrorKind::AlreadyExists, why)));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
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

#[cfg(test)]
mod tests {
    use super::bind;

    #[tokio::test]
    async fn only_a_socket_that_nobody_answers_is_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("notes");
        std::fs::write(&file, "precious").expect("written");
        assert!(bind(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "precious");
        let socket = dir.path().join("sock");
        drop(bind(&socket).expect("bound"));
        assert!(socket.exists(), "it is left by whoever is killed");
        bind(&socket).expect("bound again");
    }
}
