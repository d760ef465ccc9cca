//! Slurm's commands over muster: sbatch, srun, salloc, squeue, scancel, sinfo, scontrol, sacct.
//!
//! Clients parse these commands byte for byte, so columns, widths, words, exit codes and messages
//! are Slurm's own (22.05, which the tests' expected texts were taken from). Nothing is decided
//! here: the daemon parses scripts and knows the jobs, its supervisors run the steps.
//!
//! `muster` calls [`run`] when it is started under one of the [`NAMES`].

mod clock;
mod columns;
mod fail;
mod getopt;
mod ident;
mod out;
mod sacct;
mod sacctmgr;
mod salloc;
mod sbatch;
mod scancel;
mod scontrol;
mod signals;
mod sinfo;
mod small;
mod sprio;
mod squeue;
mod srun;
mod sshare;
mod submit;

use fail::{Failure, Outcome};
use getopt::{Opt, Takes};
use std::fmt::Write as _;

/// The commands there are.
pub const NAMES: &[&str] = &[
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "scancel", "scontrol", "sdiag", "sinfo",
    "sprio", "squeue", "srun", "sshare",
];

/// The release of Slurm whose texts these are.
pub(crate) const VERSION: (u32, u32, u32) = (22, 5, 8);

/// Runs the command `name` with the words behind it; returns the exit code.
pub fn run(name: &str, args: &[String]) -> i32 {
    let outcome = match name {
        "sacct" => sacct::run(args),
        "sacctmgr" => sacctmgr::run(args),
        "salloc" => salloc::run(args),
        "sattach" => small::sattach(args),
        "sbatch" => sbatch::run(args),
        "scancel" => scancel::run(args),
        "scontrol" => scontrol::run(args),
        "sdiag" => small::sdiag(args),
        "sinfo" => sinfo::run(args),
        "sprio" => small::sprio(args),
        "squeue" => squeue::run(args),
        "srun" => srun::run(args),
        "sshare" => sshare::run(args),
        _ => Err(Failure::says(format!("{name}: error: not a Slurm command that muster has"))),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            if !failure.text.is_empty() {
                out::say(&failure.text);
            }
            failure.code
        }
    }
}

/// `22.05.8`.
pub(crate) fn release() -> String {
    let (major, minor, micro) = VERSION;
    format!("{major}.{minor:02}.{micro}")
}

/// The answer to `--version`: clients look for the number behind the word.
#[expect(clippy::unnecessary_wraps, reason = "it ends a command, as every other end does")]
pub(crate) fn version() -> Outcome {
    out::print(&format!("slurm-muster {}\n", release()));
    Ok(0)
}

/// The answer to `--help`: every option by name, and where the manual is.
#[expect(clippy::unnecessary_wraps, reason = "it ends a command, as every other end does")]
pub(crate) fn help(name: &str, table: &[Opt]) -> Outcome {
    let mut text = format!("Usage: {name} [OPTIONS...]\n\n");
    for option in table {
        let value = match option.takes() {
            Takes::Nothing => "",
            Takes::Value => "=VALUE",
            Takes::MaybeValue => "[=VALUE]",
        };
        let short = option.short().map_or("    ".to_owned(), |c| format!("-{c}, "));
        let _ = writeln!(text, "  {short}--{}{value}", option.long());
    }
    text.push_str(
        "\nOptions mean what Slurm's manual says; docs/reference/slurm.md lists the rest.\n",
    );
    out::print(&text);
    Ok(0)
}
