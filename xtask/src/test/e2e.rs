//! The whole program from outside: crates/muster/tests against the built binary, with real
//! clients. What a test finds in its environment is said in `docs/contributing/testing.md`.

use std::path::{Path, PathBuf};

use super::{Options, cargo_test};
use crate::stage::{End, Outcome, Report, Skip};
use crate::{need, root, sh};

const LIMIT_S: u32 = 2400;

/// Real clients of Slurm, from the Python package index. The upper bounds keep a new major
/// version from breaking a run that changed nothing.
const CLIENTS: &[&str] = &[
    "submitit>=1.5,<2",
    "snakemake>=8,<10",
    "snakemake-executor-plugin-slurm>=1,<3",
    "dask-jobqueue>=0.9,<1",
];

/// Runs the black-box tests.
pub(super) fn checks(options: &Options, report: &mut Report) {
    let mut venv = None;
    report.check("clients", || {
        let path = clients()?;
        venv = Some(path);
        Ok(String::new())
    });
    report.check("open mpi", || {
        let tool = need::need("openmpi-bin", "mpirun", "4")?;
        Ok(tool.version)
    });
    report.check("cargo test -p muster", || {
        let mut test = cargo_test(options, &["-p", "muster", "--no-fail-fast"]);
        if let Some(venv) = &venv {
            test.env("MUSTER_TEST_VENV", venv);
        }
        sh::run(&mut sh::bounded(test, LIMIT_S))?;
        Ok(String::new())
    });
}

/// A Python environment with the clients, made once and remade when the list changes.
fn clients() -> Result<PathBuf, End> {
    let python = need::need("python3", "python3", need::minimum("python3"))?;
    let venv = root::target().join("e2e/venv");
    let stamp = venv.join("clients.txt");
    let wanted = CLIENTS.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(venv);
    }
    make_venv(&python.path, &venv)?;
    let mut pip = sh::command(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(CLIENTS);
    sh::run(&mut sh::bounded(pip, 900)).map_err(Skip::avoidable)?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(venv)
}

/// Debian keeps ensurepip in a package of its own.
fn make_venv(python: &Path, venv: &Path) -> Outcome {
    let make = || {
        let mut make = sh::command(python);
        make.args(["-m", "venv", "--clear"]).arg(venv);
        sh::read(&mut make)
    };
    if make().is_err() {
        need::install(&["python3-venv"]).map_err(Skip::avoidable)?;
        make().map_err(Skip::avoidable)?;
    }
    Ok(String::new())
}
