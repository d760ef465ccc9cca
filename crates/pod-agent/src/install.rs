//! Bringing muster into a pod whose images do not have it.

use crate::error::AgentError;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Copies this program; whole or not at all.
pub(crate) fn install(target: &Path) -> Result<(), AgentError> {
    let own = std::env::current_exe().map_err(AgentError::file("/proc/self/exe"))?;
    let beside = target.with_extension("new");
    fs::copy(&own, &beside).map_err(AgentError::file(&beside))?;
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&beside, target))
        .map_err(AgentError::file(target))
}

#[cfg(test)]
mod tests {
    use super::install;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_installed_is_this_program() {
        let dir = tempfile::tempdir().expect("a folder");
        let target = dir.path().join("muster");
        install(&target).expect("installed");
        let own = std::fs::metadata(std::env::current_exe().expect("a path")).expect("there");
        let new = std::fs::metadata(&target).expect("there");
        assert_eq!((new.len(), new.permissions().mode() & 0o777), (own.len(), 0o755));
        assert!(install(&dir.path().join("none/muster")).is_err());
    }
}
