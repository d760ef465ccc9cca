//! The book's links and pages: every relative link in a Markdown file leads somewhere, and
//! every page of the book is in its table of contents.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::root;

fn markdown() -> Result<Vec<(PathBuf, String)>, String> {
    let mut pages = Vec::new();
    for file in root::files()? {
        if file.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(root::dir().join(&file))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            pages.push((file, text));
        }
    }
    Ok(pages)
}

/// Relative links whose file or heading does not exist.
///
/// # Errors
/// A page cannot be read.
pub(super) fn broken_links() -> Result<Vec<String>, String> {
    let pages = markdown()?;
    let mut broken = Vec::new();
    for (file, text) in &pages {
        for (line, link) in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { file.clone() } else { beside(file, path) };
            let at = format!("{}:{line}", file.display());
            if !root::dir().join(&target).exists() {
                broken.push(format!("{at}: no such file: {link}"));
            } else if let Some((_, there)) = pages.iter().find(|(page, _)| *page == target)
                && !heading.is_empty()
                && !headings(there).contains(heading)
            {
                broken.push(format!("{at}: no such heading: {link}"));
            }
        }
    }
    Ok(broken)
}

/// Pages under `docs/` that `docs/SUMMARY.md` does not list.
///
/// # Errors
/// A page cannot be read.
pub(super) fn unlisted_pages() -> Result<Vec<String>, String> {
    let summary = PathBuf::from("docs/SUMMARY.md");
    let pages = markdown()?;
    let text = pages.iter().find(|(file, _)| *file == summary).map_or("", |(_, text)| text);
    let listed: BTreeSet<PathBuf> =
        links(text).into_iter().map(|(_, link)| beside(&summary, &link)).collect();
    Ok(pages
        .iter()
        .map(|(file, _)| file)
        .filter(|file| file.starts_with("docs") && **file != summary && !listed.contains(*file))
        .map(|file| format!("{} is not in docs/SUMMARY.md", file.display()))
        .collect())
}

/// The path of a link relative to the page that has it, dots resolved.
fn beside(page: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in page.parent().unwrap_or(Path::new("")).join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Every `[text](target)` outside code, with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        let mut rest = content.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            found.push((line, target.trim_matches(['<', '>']).to_owned()));
            rest = &rest[end..];
        }
    }
    found
}

/// The anchors of a page's headings.
fn headings(text: &str) -> BTreeSet<String> {
    prose(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| slug(line.trim_start_matches('#').trim()))
        .collect()
}

/// The anchor of a heading, as mdBook and common hosts make it.
fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// The lines outside fenced blocks, inline code blanked, numbered from 1.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let heading = line.starts_with('#');
            // In a heading the code's words are part of the anchor.
            let plain = if heading {
                line.replace('`', "")
            } else {
                line.split('`').step_by(2).collect::<Vec<_>>().join("``")
            };
            lines.push((index + 1, plain));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{beside, broken_links, headings, links, unlisted_pages};

    #[test]
    fn every_relative_link_of_this_checkout_leads_somewhere() {
        let found = broken_links().expect("pages");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn every_page_is_in_the_table_of_contents() {
        let found = unlisted_pages().expect("pages");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn code_has_no_links() {
        let text = "a [b](c.md) `[d](e.md)` [`f`](g.md#h)\n```\n[i](j)\n```\n";
        let found: Vec<String> = links(text).into_iter().map(|(_, link)| link).collect();
        assert_eq!(found, ["c.md", "g.md#h"]);
    }

    #[test]
    fn headings_become_anchors() {
        let found = headings("# Time limits\n## `--mem=0`: all of it\n");
        assert!(found.contains("time-limits"));
        assert!(found.contains("--mem0-all-of-it"));
    }

    #[test]
    fn dots_in_links_are_resolved() {
        assert_eq!(beside(Path::new("docs/a/b.md"), "../c.md"), Path::new("docs/c.md"));
    }
}
