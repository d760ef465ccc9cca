//! Where the daemon listens and clients find it.
//!
//! The order: `MUSTER_SOCKET`, `MUSTER_URL` (`unix:PATH`), `socket` below `MUSTER_STATE`, then the
//! user's own daemon, then the machine's.

use std::path::{Path, PathBuf};

/// The socket's name below a state directory.
pub const SOCKET_NAME: &str = "socket";

/// The socket of the daemon that root runs.
pub const SYSTEM_SOCKET: &str = "/run/muster/socket";

/// The longest path of a unix socket, bytes (`sun_path` without its final zero, unix(7)).
pub const SOCKET_PATH_MAX: usize = 107;

/// A daemon's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The unix socket's path.
    pub socket: PathBuf,
    /// What says so: a variable's name, or `default`.
    pub origin: &'static str,
}

/// An address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// TCP without TLS and tokens is not offered.
    #[error("MUSTER_URL {url} is not served: only unix sockets are, and TCP only with TLS (later)")]
    Tcp {
        /// The text.
        url: String,
    },
    /// Not an address.
    #[error("MUSTER_URL {url} is not an address: expected unix:/path/to/socket")]
    Malformed {
        /// The text.
        url: String,
    },
}

impl EndpointError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        "E_URL_BAD"
    }
}

impl Endpoint {
    /// The address that the environment names, or the first default that is there.
    ///
    /// # Errors
    /// `MUSTER_URL` is not an address of a unix socket.
    pub fn from_environment() -> Result<Self, EndpointError> {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        if let Some(path) = variable("MUSTER_SOCKET") {
            return Ok(Self { socket: path.into(), origin: "MUSTER_SOCKET" });
        }
        if let Some(url) = variable("MUSTER_URL") {
            let socket = socket_of_url(&url.to_string_lossy())?;
            return Ok(Self { socket, origin: "MUSTER_URL" });
        }
        if let Some(state) = variable("MUSTER_STATE") {
            return Ok(Self {
                socket: Path::new(&state).join(SOCKET_NAME),
                origin: "MUSTER_STATE",
            });
        }
        let own = own_socket();
        let system = PathBuf::from(SYSTEM_SOCKET);
        let socket = if !own.exists() && system.exists() { system } else { own };
        Ok(Self { socket, origin: "default" })
    }
}

/// The socket of the daemon that this user would run without saying where.
pub fn own_socket() -> PathBuf {
    if is_root() {
        return SYSTEM_SOCKET.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        Some(dir) => Path::new(&dir).join("muster").join(SOCKET_NAME),
        None => own_state_dir().join(SOCKET_NAME),
    }
}

/// The state directory of the daemon that this user would run without saying where:
/// `/var/lib/muster` for root, else `$XDG_STATE_HOME/muster` or `~/.local/state/muster`.
pub fn own_state_dir() -> PathBuf {
    if is_root() {
        return "/var/lib/muster".into();
    }
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    if let Some(dir) = variable("XDG_STATE_HOME") {
        return Path::new(&dir).join("muster");
    }
    let home = variable("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    home.join(".local/state/muster")
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The path in `unix:/path` or `unix:///path`.
fn socket_of_url(url: &str) -> Result<PathBuf, EndpointError> {
    let malformed = || EndpointError::Malformed { url: url.to_owned() };
    match url.split_once(':') {
        Some(("unix", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.starts_with('/') { Ok(path.into()) } else { Err(malformed()) }
        }
        Some(("http" | "https" | "tcp", _)) => Err(EndpointError::Tcp { url: url.to_owned() }),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unix_sockets_are_addresses() {
        assert_eq!(socket_of_url("unix:/run/a").unwrap(), Path::new("/run/a"));
        assert_eq!(socket_of_url("unix:///run/a").unwrap(), Path::new("/run/a"));
        assert!(matches!(socket_of_url("http://h:1"), Err(EndpointError::Tcp { .. })));
        assert!(matches!(socket_of_url("unix:a"), Err(EndpointError::Malformed { .. })));
        assert!(matches!(socket_of_url("a"), Err(EndpointError::Malformed { .. })));
    }
}
