//! Captured trees in a few lines, for the tests beside the sources.

use std::fs;

/// A tree of files, each line `path: text` with `\n` and `\t` written out.
pub(crate) fn tree(lines: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("directory");
    add(root.path(), lines);
    root
}

/// Writes more files, or the same ones anew.
pub(crate) fn add(root: &std::path::Path, lines: &str) {
    for line in lines.lines().map(str::trim_start).filter(|l| !l.is_empty()) {
        let (path, text) = line.split_once(": ").expect("path and text");
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, text.replace("\\n", "\n").replace("\\t", "\t")).expect("file");
    }
}
