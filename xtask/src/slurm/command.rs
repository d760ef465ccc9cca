//! `cargo xtask slurm up|down|status`: a bed that stays until it is told to go.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Bed, SMALL, available};
use crate::args::Args;
use crate::bed::Record;

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
        "down" => RECORD.down(),
        "status" => tell(&RECORD.up()?),
        _ => Err(USAGE.to_owned()),
    }
}

/// Says where the bed of this work tree lies.
const RECORD: Record = Record { name: "slurm-bed", sign: "slurm.conf", task: "slurm" };

fn up() -> Result<(), String> {
    RECORD.vacant()?;
    available()?;
    let bed = Bed::start(SMALL)?;
    let dir = bed.dir().to_owned();
    RECORD.write(&dir)?;
    bed.leave();
    tell(&dir)
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
