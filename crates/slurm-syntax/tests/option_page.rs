//! The reference of options in the docs is made from the table.

// A test of files reads files.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use muster_slurm_syntax::docs::option_lists;

const MARK: &str =
    "<!-- Made from the option table in crates/slurm-syntax; a test compares. -->\n\n";

#[test]
fn the_page_in_the_docs_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sbatch.md");
    let page = std::fs::read_to_string(&path).expect("docs/reference/sbatch.md");
    let head = page.split(MARK).next().unwrap_or_default();
    let wanted = format!("{}\n\n{MARK}{}", head.trim_end(), option_lists());
    if std::env::var_os("MUSTER_BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("docs/reference/sbatch.md");
    }
    assert!(page == wanted, "stale: run the test again with MUSTER_BLESS=1");
}
