//! Every error code and every reason has a page, and every page a code.
//!
//! Codes are read from the source text: an error's is a string that begins with `E_` or `W_`
//! anywhere in a crate, a reason's stands in `model`'s list of reasons.

use std::collections::BTreeSet;
use std::path::Path;

use crate::root;

const REASONS: &str = "crates/model/src/reason.rs";

/// Codes without a page, pages without a code, and pages that lack a part.
///
/// # Errors
/// A source file or page cannot be read.
pub(super) fn violations() -> Result<Vec<String>, String> {
    let mut errors = BTreeSet::new();
    let mut found = Vec::new();
    for file in root::files()? {
        let name = file.to_string_lossy();
        if name.starts_with("crates/") && name.contains("/src/") && name.ends_with(".rs") {
            let source = read(&file)?;
            errors.extend(error_codes(&source));
            if name.ends_with("/error.rs") {
                let odd = reason_codes(&source).into_iter().filter(|code| !is_error_code(code));
                found.extend(odd.map(|code| format!("{name}: {code} does not begin with E_")));
            }
        }
    }
    let reasons = reason_codes(&read(Path::new(REASONS))?);
    found.extend(compare("errors", &errors, &["## How it comes about", "## What to do"])?);
    let parts = ["## When it appears", "## What ends it", "## What you can do"];
    found.extend(compare("reasons", &reasons, &parts)?);
    Ok(found)
}

/// The codes that have a page in a folder of `docs/`, in order.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn pages(folder: &str) -> Result<BTreeSet<String>, String> {
    let dir = root::dir().join("docs").join(folder);
    let entries = std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".md")?.to_owned()))
        .filter(|name| name != "index")
        .collect())
}

fn compare(folder: &str, codes: &BTreeSet<String>, parts: &[&str]) -> Result<Vec<String>, String> {
    let pages = pages(folder)?;
    let mut found = Vec::new();
    for code in codes.difference(&pages) {
        found.push(format!("{code} has no page docs/{folder}/{code}.md"));
    }
    for page in pages.difference(codes) {
        found.push(format!("docs/{folder}/{page}.md is of a code that is not in the source"));
    }
    for page in &pages {
        let text = read(&Path::new("docs").join(folder).join(format!("{page}.md")))?;
        if !text.starts_with(&format!("# {page}\n\n")) {
            found.push(format!("docs/{folder}/{page}.md does not begin with its code"));
        }
        for part in parts.iter().filter(|part| !text.contains(**part)) {
            found.push(format!("docs/{folder}/{page}.md lacks {part:?}"));
        }
    }
    Ok(found)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(root::dir().join(file))
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// String literals that are error codes, outside comments and tests.
fn error_codes(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for text in line.split('"').skip(1).step_by(2) {
            // Whole, or in brackets at the end of a sentence.
            let bracketed = text.split('[').filter_map(|rest| rest.split_once(']'));
            let words = bracketed.map(|(word, _)| word).chain([text]);
            found.extend(words.filter(|word| is_error_code(word)).map(str::to_owned));
        }
    }
    found
}

/// The right sides of the arms of functions that are called `code`.
fn reason_codes(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in code.lines() {
        inside = (inside || line.contains(" fn code(")) && line != "    }";
        let arm = line.split_once("=> \"").and_then(|(_, rest)| rest.strip_suffix("\","));
        if inside && let Some(text) = arm.filter(|text| is_code(text)) {
            found.insert(text.to_owned());
        }
    }
    found
}

fn is_error_code(text: &str) -> bool {
    text.strip_prefix("E_").or_else(|| text.strip_prefix("W_")).is_some_and(is_code)
}

fn is_code(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{error_codes, reason_codes, violations};

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let found = violations().expect("sources and pages");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn codes_are_read_from_the_source() {
        let source =
            "// \"E_NOT\"\nA \"E_TIME_BAD\" \"no [E_B]\",\n#[cfg(test)]\nmod tests {\"E_TEST\"";
        assert_eq!(error_codes(source).into_iter().collect::<Vec<_>>(), ["E_B", "E_TIME_BAD"]);
        let source = "    fn code(&self) {\n X { .. } => \"HELD_BY_USER\",\n    }\nX => \"OTHER\",";
        assert_eq!(reason_codes(source).into_iter().collect::<Vec<_>>(), ["HELD_BY_USER"]);
    }
}
