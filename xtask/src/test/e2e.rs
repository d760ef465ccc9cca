//! The whole program from outside: crates/muster/tests against the built binary, with real
//! clients. What a test finds in its environment is said in `docs/contributing/testing.md`.

use std::path::Path;

use super::{Options, cargo_test};
use crate::stage::{Outcome, Report, Skip};
use crate::{need, sh};

const LIMIT_S: u32 = 2400;

/// Runs the black-box tests.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("python with venv", python);
    report.check("open mpi", open_mpi);
    report.check("tmux", || Ok(need::need("tmux", "tmux", "")?.version));
    report.check("cargo test -p muster", || {
        let test = cargo_test(options, &["-p", "muster", "--no-fail-fast"]);
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        Ok(String::new())
    });
}

/// The tests install clients from the Python package index into an environment of their own;
/// Debian keeps what makes one in a package of its own.
fn python() -> Outcome {
    let python = need::need("python3", "python3", need::minimum("python3"))?;
    if !makes_venv(&python.path) {
        need::install(&["python3-venv"]).map_err(Skip::avoidable)?;
    }
    if makes_venv(&python.path) {
        return Ok(python.version);
    }
    Err(Skip::avoidable("python3 -m venv does not work").into())
}

/// Debian's `openmpi-bin` brings `mpicc`, but not the headers that it compiles with.
fn open_mpi() -> Outcome {
    let tool = need::need("openmpi-bin", "mpirun", "4")?;
    if !compiles_mpi() {
        need::install(&["libopenmpi-dev", "gcc", "libc6-dev"]).map_err(Skip::avoidable)?;
    }
    if compiles_mpi() {
        return Ok(tool.version);
    }
    Err(Skip::avoidable("mpicc does not compile a program that includes mpi.h").into())
}

fn compiles_mpi() -> bool {
    let mut ask = sh::command("mpicc");
    ask.args(["-fsyntax-only", "-include", "mpi.h", "-x", "c", "/dev/null"]);
    sh::read(&mut ask).is_ok()
}

fn makes_venv(python: &Path) -> bool {
    let mut ask = sh::command(python);
    ask.args(["-c", "import venv, ensurepip"]);
    sh::read(&mut ask).is_ok()
}
