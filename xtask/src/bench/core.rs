//! The scheduling core by itself: rounds, outlooks and reasons on a large made-up cluster, in a
//! small program of its own (crate `bench`) that builds without the daemon.

use std::path::PathBuf;

use crate::args::Args;
use crate::{root, sh};

/// `cargo xtask bench core [--quick] [--only CASE] [--json FILE]`.
pub(super) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let quick = args.switch("--quick");
    let only = args.value("--only")?;
    let json = args.value("--json")?.map(PathBuf::from);
    args.finish()?;
    sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster-bench"]))?;
    let json = json.unwrap_or_else(|| root::target().join("bench-core.json"));
    let mut bench = sh::command(root::target().join("release/muster-bench"));
    bench.arg("--json").arg(&json);
    if quick {
        bench.arg("--quick");
    }
    if let Some(only) = only {
        bench.args(["--only", only.as_str()]);
    }
    sh::run(&mut bench)
}
