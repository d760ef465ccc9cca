//! Every reason has a page that names its Slurm word, and every page has a reason.

#![allow(clippy::disallowed_methods)] // the pages are the data of the test

use muster_model::Reason;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_reason_has_a_page_and_every_page_a_reason() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons");
    let mut pages: BTreeSet<String> = BTreeSet::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(code) = name.strip_suffix(".md").filter(|c| *c != "index") {
            pages.insert(code.to_owned());
        }
    }
    for reason in Reason::samples() {
        let code = reason.code();
        assert!(pages.remove(code), "docs/reasons/{code}.md is missing");
        let page = std::fs::read_to_string(dir.join(format!("{code}.md"))).unwrap();
        let word = format!("`({})`", reason.slurm_word());
        assert!(page.contains(&word), "docs/reasons/{code}.md does not say {word}");
    }
    assert!(pages.is_empty(), "pages without a reason: {pages:?}");
}
