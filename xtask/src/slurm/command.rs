//! `cargo xtask slurm up|down|status`: a bed that stays until it is told to go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Bed, KEEPER, SMALL, available};
use crate::args::Args;
use crate::root;

const USAGE: &str = "usage: cargo xtask slurm up|down|status";

/// Runs `cargo xtask slurm`.
///
/// # Errors
/// A wrong command line, a Slurm that does not start, or none that is up.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    let (first, rest) = words.split_first().ok_or(USAGE)?;
    Args::new(rest).finish()?;
    match first.as_str() {
        "up" => up(),
        "down" => down(),
        "status" => status(),
        _ => Err(USAGE.to_owned()),
    }
}

/// Says where the bed of this work tree lies.
fn record() -> PathBuf {
    root::target().join("slurm-bed")
}

/// The folder of the bed that is up.
fn standing() -> Option<PathBuf> {
    let dir = PathBuf::from(std::fs::read_to_string(record()).ok()?.trim());
    dir.join("slurm.conf").is_file().then_some(dir)
}

fn up() -> Result<(), String> {
    if let Some(dir) = standing() {
        return Err(format!("one is up in {}: cargo xtask slurm down", dir.display()));
    }
    available()?;
    let bed = Bed::start(SMALL)?;
    let dir = bed.dir().to_owned();
    std::fs::write(record(), format!("{}\n", dir.display())).map_err(|error| error.to_string())?;
    bed.leave();
    tell(&dir)
}

fn down() -> Result<(), String> {
    let dir = standing().ok_or("none is up")?;
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper"]).arg(&dir).stdin(Stdio::null());
    let status = keeper.status().map_err(|error| format!("sh: {error}"))?;
    if !status.success() {
        return Err(format!("what is left of {}: {status}", dir.display()));
    }
    std::fs::remove_file(record()).map_err(|error| error.to_string())?;
    println!("down: nothing of it is left");
    Ok(())
}

fn status() -> Result<(), String> {
    match standing() {
        Some(dir) => tell(&dir),
        None => Err("none is up: cargo xtask slurm up".to_owned()),
    }
}

/// How to reach it and how it stands.
fn tell(dir: &Path) -> Result<(), String> {
    println!("export SLURM_CONF={}", dir.join("slurm.conf").display());
    println!("export MUSTER_SLURMREST=unix:{}", dir.join("rest/socket").display());
    for (program, words) in [
        ("sinfo", &["-a", "-o", "%P %D %t %N %G"][..]),
        ("squeue", &["-a", "-o", "%i %P %u %T %r %N"][..]),
    ] {
        println!("\n$ {program}");
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", dir.join("slurm.conf")).stdin(Stdio::null());
        print!("{}", crate::sh::read(&mut command)?);
    }
    Ok(())
}
