//! House rules over the text of the files: what review should not have to look for.

use std::path::Path;

use super::outside::PURE;
use crate::root;

/// A Rust file beyond this is no longer one room with one purpose.
const LINES_MAX: usize = 600;

// Written in two parts so that this file does not break its own rules.
const UNFINISHED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[allow(", "dead_code)"),
];
const IGNORED: &[&str] = &[concat!("#[ig", "nore]")];
const SLEEPS: &[&str] = &[concat!("thread::", "sleep("), concat!("time::", "sleep(")];
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("crates.io", "/api"),
    concat!("registry.", "npmjs"),
    concat!("proxy.", "golang"),
    concat!("deb.", "debian.org"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted"),
];

/// The breaches of the house rules in this checkout, each with file and line.
///
/// # Errors
/// The list of files cannot be had.
pub(super) fn violations() -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for file in root::files()? {
        // A file that is not text has no lines to judge.
        let Ok(text) = std::fs::read_to_string(root::dir().join(&file)) else { continue };
        found.extend(judge(&file, &text));
    }
    Ok(found)
}

fn judge(file: &Path, text: &str) -> Vec<String> {
    let name = file.to_string_lossy();
    if name.ends_with(".lock") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut say = |line: usize, what: String| found.push(format!("{name}:{line}: {what}"));
    for (index, line) in text.lines().enumerate() {
        if let Some(place) = PLACES.iter().find(|place| line.contains(**place)) {
            say(index + 1, format!("names a machine path or a registry host ({place})"));
        }
    }
    if name.ends_with(".rs") {
        judge_rust(&name, text, &mut say);
    }
    found
}

fn judge_rust(name: &str, text: &str, say: &mut impl FnMut(usize, String)) {
    let count = text.lines().count();
    if count > LINES_MAX {
        say(count, format!("{count} lines, over {LINES_MAX}: split it by purpose"));
    }
    if name.ends_with("/src/lib.rs") && !text.starts_with("//!") {
        say(1, "a crate begins by saying what it is for (//!)".to_owned());
    }
    let pure = PURE.iter().any(|pure| name.starts_with(&format!("crates/{pure}/src/")));
    let mut in_test = name.contains("/tests/") || name.ends_with("/tests.rs");
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        in_test |= before == "#[cfg(test)]" && code.starts_with("mod ");
        before = code;
        if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
            say(index + 1, format!("unfinished: {word}"));
        }
        if code.starts_with("//") {
            continue;
        }
        if IGNORED.iter().any(|word| code.starts_with(word)) {
            say(index + 1, "an ignored test says why: #[ignore = \"...\"]".to_owned());
        }
        if in_test && SLEEPS.iter().any(|word| code.contains(word)) {
            say(index + 1, "a test that sleeps: wait on a condition".to_owned());
        }
        if in_test && code.contains("assert") && code.contains("elapsed()") {
            say(index + 1, "a timed assertion: count work instead".to_owned());
        }
        if pure && (has_word(code, "f64") || has_word(code, "f32")) {
            say(index + 1, "a float in a pure crate".to_owned());
        }
    }
}

fn has_word(code: &str, word: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word).any(|(at, _)| {
        !inside(code[..at].chars().next_back()) && !inside(code[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{LINES_MAX, judge, violations};

    #[test]
    fn this_checkout_keeps_the_house_rules() {
        let found = violations().expect("git ls-files");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn count(name: &str, text: &str) -> usize {
        judge(Path::new(name), text).len()
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(count("crates/x/src/a.rs", &"\n".repeat(LINES_MAX)), 0);
        assert_eq!(count("crates/x/src/a.rs", &"\n".repeat(LINES_MAX + 1)), 1);
    }

    #[test]
    fn sleep_is_judged_only_in_tests() {
        let sleep = concat!("thread::", "sleep(d);");
        assert_eq!(count("crates/x/src/a.rs", sleep), 0);
        assert_eq!(count("crates/x/tests/a.rs", sleep), 1);
        assert_eq!(count("crates/x/src/a.rs", &format!("#[cfg(test)]\nmod t {{\n{sleep}\n}}")), 1);
    }

    #[test]
    fn floats_are_judged_only_in_pure_crates() {
        assert_eq!(count("crates/planner/src/a.rs", "let x: f64 = 1.0;"), 1);
        assert_eq!(count("crates/planner/src/a.rs", "let buf64 = 1;"), 0);
        assert_eq!(count("crates/cli/src/a.rs", "let x: f64 = 1.0;"), 0);
    }

    #[test]
    fn an_unfinished_place_and_a_machine_path_are_found() {
        assert_eq!(count("crates/x/src/a.rs", concat!("todo", "!()")), 1);
        assert_eq!(count("docs/a.md", concat!("see /wo", "rk/main")), 1);
    }
}
