//! The figures of the scheduling core: rounds, outlooks and reasons on a large made-up cluster.
//!
//! `cargo xtask bench core [--quick] [--json FILE]` builds and runs it. Times are of one core.
//! With `--slurm CONF` it plans the queue of a running Slurm instead, for `cargo xtask bench slurm`.

mod cluster;
mod measure;
mod queue;
mod report;

use report::Report;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: muster-bench [--quick] [--json FILE] [--only NAME] [--slurm CONF]";

fn main() -> ExitCode {
    let mut quick = false;
    let mut json = None;
    let mut only = None;
    let mut slurm = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => quick = true,
            "--json" => json = words.next(),
            "--only" => only = words.next(),
            "--slurm" => slurm = words.next(),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::FAILURE;
            }
        }
    }
    let mut report = Report::default();
    match slurm {
        None => measure::all(quick, only.as_deref(), &mut report),
        Some(conf) => {
            if let Err(error) = queue::measure(Path::new(&conf), &mut report) {
                eprintln!("{}: {error}", error.code());
                return ExitCode::FAILURE;
            }
        }
    }
    print!("{}", report.table());
    if let Some(file) = json
        && let Err(error) = std::fs::write(&file, format!("{:#}\n", report.json()))
    {
        eprintln!("{file}: {error}");
        return ExitCode::FAILURE;
    }
    println!("{}", report.summary());
    if report.missed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
