//! Small files below a root.

use std::fs;
use std::io::Read;
use std::path::Path;

/// No file of /proc and /sys that is read here is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file's text without the white space around it.
pub(crate) fn text(root: &Path, path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(root.join(path)).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
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
        entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
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

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn kernel_lists_unfold() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(list(""), []);
        assert_eq!(list("x,3-1,5"), [5]);
    }
}
