//! `cargo xtask dist`: a static binary and a Debian package, in `dist/`.

mod check;
mod deb;

use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::{root, sh, web};

pub(crate) use check::checks;

const MUSL: &str = "x86_64-unknown-linux-musl";
const GNU: &str = "x86_64-unknown-linux-gnu";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `cargo xtask dist [--profile NAME]`.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    let mut args = Args::new(words);
    let profile = args.value("--profile")?.unwrap_or_else(|| "dist".to_owned());
    args.finish()?;
    web::build_where_possible();
    let out = root::dir().join("dist");
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let fixed = out.join(format!("muster-{VERSION}-x86_64-linux"));
    copy(&build_static(&profile)?, &fixed)?;
    println!("{} ({} MiB, static)", fixed.display(), mib(&fixed)?);
    let package = deb::build(&build(&profile)?, &out, VERSION)?;
    println!("{} ({} MiB)", package.display(), mib(&package)?);
    Ok(())
}

/// A released binary has everything.
fn cargo_build(profile: &str) -> std::process::Command {
    let what = ["--package", "muster", "--features", "kubernetes,parquet", "--profile", profile];
    sh::cargo(&[&["build", "--locked"], &what[..]].concat())
}

/// The binary of the package: linked against this machine's C library, so that it can load
/// NVIDIA's library and ask every source of users that the machine has.
fn build(profile: &str) -> Result<PathBuf, String> {
    sh::run(&mut cargo_build(profile))?;
    Ok(root::target().join(folder(profile)).join("muster"))
}

/// The binary that runs anywhere; `docs/operations/install.md` says what it cannot do.
fn build_static(profile: &str) -> Result<PathBuf, String> {
    let target = if has_musl() { MUSL } else { GNU };
    let mut build = cargo_build(profile);
    build.args(["--target", target]);
    // Named by target, so that build scripts and macros stay as they are.
    let flags = "-C target-feature=+crt-static -C relocation-model=static";
    build.env(format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_")), flags);
    sh::run(&mut build)?;
    let binary = root::target().join(target).join(folder(profile)).join("muster");
    let file = sh::read(sh::command("ldd").arg(&binary));
    match file {
        Ok(said) if said.contains("=>") => Err(format!("{} is not static", binary.display())),
        _ => Ok(binary),
    }
}

fn has_musl() -> bool {
    sh::read(sh::command("rustc").args(["--print", "sysroot"])).is_ok_and(|sysroot| {
        Path::new(sysroot.trim()).join("lib/rustlib").join(MUSL).join("lib").is_dir()
    })
}

fn folder(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", to.display()))
}

fn mib(file: &Path) -> Result<u64, String> {
    let data = file.metadata().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(data.len().div_ceil(1 << 20))
}
