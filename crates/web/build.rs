//! Takes the built page into the program, where `cargo xtask web` has built it.
//!
//! Without it the plain page serves: building muster needs neither Node nor a network.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let dist = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // The folder is always there, so that an absent page is not looked for in each build.
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        gather(&dist, &mut files);
        files.sort();
    }
    let mut code = String::from("pub(crate) const FILES: &[File] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&dist).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let whole = file.canonicalize().unwrap_or_else(|_| file.clone());
        // Writing to a String cannot fail.
        let _ = writeln!(
            code,
            "    File {{ path: \"/{name}\", bytes: include_bytes!({:?}) }},",
            whole.to_string_lossy()
        );
    }
    code.push_str("];\n");
    let out = Path::new(&variable("OUT_DIR")).join("page.rs");
    if let Err(error) = std::fs::write(&out, code) {
        panic!("{}: {error}", out.display());
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn gather(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, files);
        } else if !entry.file_name().to_string_lossy().starts_with('.') {
            files.push(path);
        }
    }
}
