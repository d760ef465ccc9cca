//! Gathers the docs' pages of codes into one table for `muster explain-code`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut table = String::from("const PAGES: &[(&str, &str)] = &[\n");
    for folder in ["errors", "reasons"] {
        let folder = docs.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut pages: Vec<PathBuf> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "md"))
            .collect();
        pages.sort();
        for page in pages {
            let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if name != "index" {
                // Writing to a string cannot fail.
                let _ =
                    writeln!(table, "    ({name:?}, include_str!({:?})),", page.to_string_lossy());
            }
        }
    }
    table.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("pages.rs");
    if let Err(error) = std::fs::write(&out, table) {
        panic!("{}: {error}", out.display());
    }
}
