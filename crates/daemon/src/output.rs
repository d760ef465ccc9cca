//! Files that a request has the daemon write: backups and saved rounds.

use crate::http::error::Refusal;
use std::path::{Path, PathBuf};

/// A file that a request names and that is to be made: the daemon's folder is not the caller's, and no
/// file is written over.
///
/// # Errors
/// Why it cannot be, with this code.
pub(crate) fn new_file(path: &str, code: &'static str) -> Result<PathBuf, Refusal> {
    let refuse =
        |why: &str, hint: &str| Err(Refusal::invalid(code, format!("{path:?} {why}")).hint(hint));
    let file = Path::new(path);
    if path.is_empty() || path.contains('\0') {
        return refuse("cannot be a file", "name a new file by its absolute path");
    }
    if !file.is_absolute() {
        return refuse("is not absolute", "name a new file by its absolute path");
    }
    let (Some(_), Some(folder)) = (file.file_name(), file.parent()) else {
        return refuse("names no file", "name a new file in that folder");
    };
    if !folder.is_dir() {
        return refuse("has no folder to be in", "make the folder first, or name another");
    }
    // Also a link that leads nowhere is in the way.
    if file.symlink_metadata().is_ok() {
        return refuse("is there already", "no file is written over: name a new one");
    }
    Ok(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_file_in_a_folder_by_its_absolute_path() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        assert!(new_file(&path("new"), "E_CYCLE_FILE").is_ok());
        std::fs::write(path("old"), "x").expect("it can be written");
        std::os::unix::fs::symlink("nowhere", path("link")).expect("it can be made");
        for (name, why) in [
            (String::new(), "cannot be a file"),
            ("a\0b".to_owned(), "cannot be a file"),
            ("relative".to_owned(), "is not absolute"),
            ("/".to_owned(), "names no file"),
            (path("old"), "is there already"),
            (path("link"), "is there already"),
            (path("no/folder"), "has no folder to be in"),
            (path("old/file"), "has no folder to be in"),
        ] {
            let refusal = new_file(&name, "E_BACKUP_PATH").expect_err(why);
            assert_eq!(refusal.error.code, "E_BACKUP_PATH");
            assert!(refusal.error.message.contains(why), "{}", refusal.error.message);
            assert!(refusal.error.hint.is_some());
        }
    }
}
