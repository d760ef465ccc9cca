//! Parts of the book that follow from other files: the lists of codes in the table of contents
//! and on the index pages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::codes;
use crate::root;

const TABLE: &str = "\n| code | meaning |\n| --- | --- |\n";

/// Every file with a generated part, as it should be.
///
/// # Errors
/// A page cannot be read, or lacks the place of its generated part.
pub(super) fn all() -> Result<Vec<(PathBuf, String)>, String> {
    let mut summary = read(Path::new("docs/SUMMARY.md"))?;
    let mut files = Vec::new();
    for folder in ["errors", "reasons"] {
        summary = with_pages(&summary, folder)?;
        let index = PathBuf::from(format!("docs/{folder}/index.md"));
        let text = with_table(&read(&index)?, folder)?;
        files.push((index, text));
    }
    files.push((PathBuf::from("docs/SUMMARY.md"), summary));
    Ok(files)
}

/// Files whose generated part is not as it should be.
///
/// # Errors
/// As for [`all`].
pub(super) fn stale() -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (file, wanted) in all()? {
        if read(&file)? != wanted {
            found.push(format!("{} is stale: cargo xtask book writes it", file.display()));
        }
    }
    Ok(found)
}

/// The table of contents with a line for each page of `folder` below its index.
fn with_pages(summary: &str, folder: &str) -> Result<String, String> {
    let mark = format!("({folder}/index.md)");
    let mut out = String::new();
    let mut below = false;
    for line in summary.lines() {
        below &= line.starts_with("  - ");
        if !below {
            out.push_str(line);
            out.push('\n');
        }
        if line.ends_with(&mark) {
            below = true;
            for page in codes::pages(folder)? {
                let _ = writeln!(out, "  - [{page}]({folder}/{page}.md)");
            }
        }
    }
    if out.contains(&mark) { Ok(out) } else { Err(format!("docs/SUMMARY.md lacks {mark}")) }
}

/// The index page with each code and the first paragraph of its page.
fn with_table(index: &str, folder: &str) -> Result<String, String> {
    let head = index.split(TABLE).next().unwrap_or_default().trim_end();
    let mut out = format!("{head}\n{TABLE}");
    for page in codes::pages(folder)? {
        let text = read(&PathBuf::from(format!("docs/{folder}/{page}.md")))?;
        let first = text.lines().nth(2).unwrap_or_default();
        let meaning = first.split(" In `squeue`").next().unwrap_or_default();
        let _ = writeln!(out, "| [{page}]({page}.md) | {meaning} |");
    }
    Ok(out)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(root::dir().join(file))
        .map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::stale;

    #[test]
    fn generated_parts_are_fresh() {
        let found = stale().expect("pages");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
