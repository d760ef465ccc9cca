//! Everything a developer or CI runs: `cargo xtask demo | test | bench | slurm | k8s | dist | tidy`.
//!
//! Plain Rust and few dependencies, so that nothing but a Rust toolchain is needed to begin.
//! What else a command needs it looks for, installs from Debian packages where it may, and
//! otherwise says that it is missing (see [`need`]).

mod args;
mod bed;
mod bench;
mod book;
mod demo;
mod dist;
mod instance;
mod k8s;
mod metadata;
mod need;
mod root;
mod sh;
mod slurm;
mod stage;
mod test;
mod tidy;
mod web;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo [--keep] [--page]                 builds muster and runs a training pipeline here
  test [--long] [--only STAGE[,STAGE]]   every check, timed, with a table at the end
  bench [--only NAME] [--json FILE]      the figures that must hold, as table and JSON
  bench topology                         ring bandwidth of placements, by a model
  bench core [--quick] [--json FILE]     those of the scheduling core alone, on one core
  bench k8s [--quick] [--json FILE]      pods bound a second, beside kube-scheduler and a bare client
  bench slurm [--json FILE]              a queue planned beside a real Slurm's backfill
  bench drive [--json FILE]              a partition driven, beside the same decided by Slurm
  bench sim [--json FILE]                replays of public traces, and a peer's
  slurm up|down|status                   a real Slurm of six nodes, with accounting and REST
  k8s up|down|status                     a real Kubernetes control plane with played nodes
  web [shots]                            the page of `muster web`; pictures of it
  book                                   writes the generated parts of docs/
  dist [--profile NAME]                  a static binary and a Debian package, in dist/
  tidy                                   the house rules alone (seconds)
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let result = match command.as_str() {
        "demo" => demo::main(&rest),
        "bench" => bench::main(&rest),
        "book" => book::main(&rest),
        "dist" => dist::main(&rest),
        "k8s" => k8s::main(&rest),
        "slurm" => slurm::main(&rest),
        "test" => test::main(&rest),
        "tidy" => tidy::main(&rest),
        "web" => web::main(&rest),
        "" | "help" | "-h" | "--help" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => Err(format!("unknown command {other:?}\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
