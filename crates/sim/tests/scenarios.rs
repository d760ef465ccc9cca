//! Every file of `scenarios/` comes out as it stands.
//!
//! After a wanted change: `MUSTER_BLESS=1 cargo test -p muster-sim --test scenarios`, or
//! `muster sim scenario --bless scenarios`; then read the difference.

#![allow(clippy::disallowed_methods)] // the files are the test's data

use muster_sim::run_scenario;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Every scenario with its path.
fn scenarios() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(dir()).expect("scenarios").map(|e| e.expect("an entry").path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("text");
            (path, text)
        })
        .collect()
}

#[test]
fn scenarios_come_out_as_written() {
    let bless = std::env::var_os("MUSTER_BLESS").is_some();
    let mut wrong = Vec::new();
    for (file, text) in scenarios() {
        let outcome = run_scenario(&text);
        match outcome {
            Ok(outcome) if outcome.text == text => assert_eq!(outcome.difference, None),
            Ok(outcome) if bless => std::fs::write(&file, &outcome.text).unwrap(),
            Ok(outcome) => wrong.push(format!("{}: {:#?}", file.display(), outcome.difference)),
            Err(error) => wrong.push(format!("{}: {error}", file.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every scenario stands in the table of the README, and every point has one.
#[test]
fn every_point_has_a_scenario() {
    let readme = std::fs::read_to_string(dir().join("README.md")).unwrap();
    let rows = readme.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let point: u32 = cells.next()?.parse().ok()?;
        Some((point, cells.last()?.trim_end_matches('|').trim().to_owned()))
    });
    let rows: BTreeMap<u32, String> = rows.collect();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    let named: Vec<&str> = rows.values().flat_map(|cell| cell.split(", ")).collect();
    let files: Vec<String> = scenarios()
        .iter()
        .map(|(path, _)| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    for name in &named {
        assert!(files.iter().any(|file| file == name), "there is no {name}.txt");
    }
    for file in &files {
        assert!(named.contains(&file.as_str()), "{file}.txt is in no row of the README");
    }
}

/// Transcripts in the book are the scenarios themselves.
#[test]
fn transcripts_in_the_book_are_scenarios() {
    let texts: Vec<String> = scenarios().into_iter().map(|(_, text)| text).collect();
    let mut found = 0;
    for folder in ["concepts", "guides"] {
        for entry in std::fs::read_dir(dir().join("../docs").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap();
            let blocks = page.split("```\n").filter(|block| block.contains("\n> plan\n"));
            for block in blocks {
                found += 1;
                assert!(texts.iter().any(|text| text == block), "{}: {block}", path.display());
            }
        }
    }
    assert!(found >= 2);
}
