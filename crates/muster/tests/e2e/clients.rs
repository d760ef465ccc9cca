//! Real clients of Slurm, as PyPI has them, doing real work on muster: submitit, Snakemake with
//! its Slurm executor, dask-jobqueue.
//!
//! They come from a Python environment: the one that `MUSTER_TEST_VENV` names, or one made below
//! the build folder. Without it, and without a way to make it, the tests say that they skip; with
//! `CI=true` they must run.

use crate::place::{Place, said};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What the environment must be able to import.
const MODULES: &str = "import submitit, snakemake, snakemake_executor_plugin_slurm, dask_jobqueue";

/// The same as `cargo xtask test` installs.
const PACKAGES: &[&str] = &[
    "submitit>=1.5,<2",
    "snakemake>=8,<10",
    "snakemake-executor-plugin-slurm>=1,<3",
    "dask-jobqueue>=0.9,<1",
];

/// The environment's folder of programs, or `None` after saying why there is none.
fn programs() -> Option<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(find) {
        Ok(bin) => Some(bin),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "no Slurm clients: {why}");
            println!("skipped: no Slurm clients from PyPI: {why}");
            None
        }
    }
}

fn find() -> Result<PathBuf, String> {
    if let Some(venv) = std::env::var_os("MUSTER_TEST_VENV") {
        let bin = PathBuf::from(venv).join("bin");
        return if imports(&bin) { Ok(bin) } else { Err(format!("{} lacks them", bin.display())) };
    }
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients-venv");
    let bin = venv.join("bin");
    if imports(&bin) {
        return Ok(bin);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let mut pip = Command::new(bin.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    run(&mut pip)?;
    if imports(&bin) {
        Ok(bin)
    } else {
        Err("they were installed and cannot be imported".to_owned())
    }
}

fn imports(bin: &Path) -> bool {
    let python = Command::new(bin.join("python")).args(["-c", MODULES]).output();
    python.is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(said(&output)) }
}

/// A client's command in the place, with the Slurm names before everything else in PATH.
fn client(place: &Place, bin: &Path, program: &str) -> Command {
    let links = place.path("slurm-bin");
    let made = place.muster(&["slurm-links", &links.to_string_lossy()]);
    assert!(made.status.success(), "{}", said(&made));
    let mut path = links.into_os_string();
    for more in [bin.as_os_str(), &std::env::var_os("PATH").unwrap_or_default()] {
        path.push(":");
        path.push(more);
    }
    let mut command = place.command(bin.join(program));
    // What a job of the real Slurm around this test would say is not for them.
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SLURM_"))
    {
        command.env_remove(name);
    }
    command.env("PATH", path).env("HOME", place.path("home")).env("PYTHONUNBUFFERED", "1");
    command
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn succeeded(place: &Place, output: &Output) {
    let queue = place.slurm("sacct", &["-a", "-o", "jobid,jobname%20,state,exitcode,nodelist"]);
    assert!(output.status.success(), "{}\n{}", said(output), said(&queue));
    println!("{}", said(output));
}

#[test]
fn submitit_runs_functions() {
    let Some(bin) = programs() else { return };
    let place = Place::new();
    let _daemon = place.start();
    let output = client(&place, bin, "python").arg(script("submitit_client.py")).output().unwrap();
    succeeded(&place, &output);
}

#[test]
fn snakemake_runs_a_workflow() {
    let Some(bin) = programs() else { return };
    let place = Place::new();
    let _daemon = place.start();
    let output = client(&place, bin, "snakemake")
        .args(["--snakefile".into(), script("snakemake/Snakefile")])
        .args(["--executor", "slurm", "--jobs", "4", "--latency-wait", "10"])
        .args(["--default-resources", "slurm_account=default", "slurm_partition=main"])
        .args(["--slurm-init-seconds-before-status-checks", "1"])
        .output()
        .unwrap();
    succeeded(&place, &output);
    assert_eq!(std::fs::read_to_string(place.path("checked.txt")).unwrap(), "6\n");
}

#[test]
fn dask_computes_on_workers() {
    let Some(bin) = programs() else { return };
    let place = Place::new();
    let _daemon = place.start();
    let output = client(&place, bin, "python").arg(script("dask_client.py")).output().unwrap();
    succeeded(&place, &output);
}
