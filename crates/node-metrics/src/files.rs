//! Small files below a root.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// No ordinary file of /proc and /sys that is read here is larger.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Names of one directory that are looked at.
const NAMES_MAX: usize = 100_000;

/// A file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not there: this machine does not have what it tells of.
    #[error("{0}: not there")]
    Absent(String),
    /// It may not be read.
    #[error("{0}: permission denied")]
    Denied(String),
    /// The kernel has it but cannot answer (switched off, or a virtual device).
    #[error("{0}: not supported by this kernel or device")]
    Unsupported(String),
    /// A reading failed.
    #[error("{0}: {1}")]
    Failed(String, String),
    /// What was read is not what it should be.
    #[error("{0}: cannot be understood")]
    Garbled(String),
}

/// What could not be understood in a source that was read: so many lines or values, and the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first of them, cut.
    pub first: Option<String>,
}

impl Skipped {
    /// Notes one that is left out.
    pub fn note(&mut self, what: &str) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(what.chars().take(80).collect());
        }
    }
}

/// A file's bytes, at most so many and one more.
pub(crate) fn bytes_up_to(root: &Path, path: &str, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(root.join(path))
        .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    read.map_err(|error| refused(path, &error))?;
    Ok(bytes)
}

/// A file's text, at most so many bytes of it and then up to the last whole line.
///
/// # Errors
/// It cannot be read; [`ReadError::Absent`] where it is not there.
pub fn read_up_to(root: &Path, path: &str, bytes_max: u64) -> Result<String, ReadError> {
    let mut bytes = bytes_up_to(root, path, bytes_max)?;
    if bytes.len() as u64 > bytes_max {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        bytes.truncate(whole);
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn refused(path: &str, error: &io::Error) -> ReadError {
    // EOPNOTSUPP is what pressure files say that are compiled in and off; EINVAL a link that is
    // down or a virtual port; ENODEV a group that ended in mid-read.
    const EINVAL: i32 = 22;
    const ENODEV: i32 = 19;
    const EOPNOTSUPP: i32 = 95;
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) | (_, Some(ENODEV)) => {
            ReadError::Absent(path.to_owned())
        }
        (io::ErrorKind::PermissionDenied, _) => ReadError::Denied(path.to_owned()),
        (_, Some(EINVAL | EOPNOTSUPP)) => ReadError::Unsupported(path.to_owned()),
        _ => ReadError::Failed(path.to_owned(), error.to_string()),
    }
}

/// An ordinary file's text.
///
/// # Errors
/// It cannot be read.
pub fn read(root: &Path, path: &str) -> Result<String, ReadError> {
    read_up_to(root, path, FILE_BYTES_MAX)
}

/// A file's text without the white space around it.
pub(crate) fn text(root: &Path, path: &str) -> Option<String> {
    Some(read(root, path).ok()?.trim().to_owned())
}

/// A file's number.
pub(crate) fn number<T: std::str::FromStr>(root: &Path, path: &str) -> Option<T> {
    text(root, path)?.parse().ok()
}

/// The numbers at the end of a directory's entries that start with `prefix`, in order.
pub(crate) fn numbered(root: &Path, path: &str, prefix: &str) -> Vec<u32> {
    let mut found: Vec<u32> = names(root, path)
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// The names in a directory, in order.
pub(crate) fn names(root: &Path, path: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join(path)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.take(NAMES_MAX).filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// A list of the kernel's, `0-3,8`, as numbers; what is malformed in it is left out.
pub(crate) fn list(text: &str) -> Vec<u32> {
    const NUMBER_MAX: u32 = 1 << 16;
    text.split(',')
        .filter_map(|part| {
            let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            Some((first.parse::<u32>().ok()?, last.parse::<u32>().ok()?.min(NUMBER_MAX)))
        })
        .flat_map(|(first, last)| first..=last)
        .collect()
}

/// The value of `key value` lines, as of `memory.stat` and `cpu.stat`.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::{ReadError, keyed, list, read, read_up_to};

    #[test]
    fn kernel_lists_unfold() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert!(list("").is_empty());
        assert_eq!(list("x,3-1,5"), [5]);
    }

    #[test]
    fn keys_are_matched_whole() {
        let text = "usage_usec 7\nuser_usec 5\nnr_throttled x\n";
        assert_eq!(keyed(text, "user_usec"), Some(5));
        assert_eq!(keyed(text, "usage"), None);
        assert_eq!(keyed(text, "nr_throttled"), None);
    }

    #[test]
    fn endless_files_end_with_a_whole_line() {
        let root = tempfile::tempdir().expect("directory");
        std::fs::write(root.path().join("long"), "one\ntwo\nthree\n").expect("file");
        std::fs::write(root.path().join("bytes"), [0xff, b'a', b'\n']).expect("file");
        assert_eq!(read_up_to(root.path(), "long", 9).expect("text"), "one\ntwo");
        assert_eq!(read_up_to(root.path(), "long", 2).expect("text"), "");
        assert_eq!(read_up_to(root.path(), "long", 14).expect("text"), "one\ntwo\nthree\n");
        assert_eq!(read(root.path(), "bytes").expect("text"), "\u{fffd}a\n");
        assert_eq!(read(root.path(), "none"), Err(ReadError::Absent("none".to_owned())));
    }
}
