//! What `scontrol update NumNodes=` leaves for a job that gives up nodes from inside: files that set
//! its variables anew.
//!
//! Names and contents are Slurm's (scontrol manual and the question on changing a job's size in its
//! FAQ): `slurm_job_ID_resize.sh` and `.csh` in the working directory, where the command runs with a
//! job's variables. Each variable is set anew that is there; those on tasks are taken away, since they
//! do not follow from the nodes.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use muster_api::{JobRef, JobView};
use muster_client::Client;
use muster_model::CpuSet;
use muster_slurm_syntax::repeat;

use crate::fail::{Failure, Outcome};
use crate::out;

/// How long the nodes may take to be given up, before the command ends without having seen it.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// How often it is looked whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until a running job has so many nodes, and leaves the files where somebody can use them.
pub(super) fn follow(client: &Client, job: &JobRef, wanted: u32) -> Outcome {
    let since = Instant::now();
    loop {
        let page = client.job(job).map_err(|error| super::told(&error, &job.to_string()))?;
        let Some(found) = page.jobs.into_iter().next() else { return Ok(0) };
        if !found.row.state.holds_resources() {
            return Ok(0);
        }
        if found.row.nodes <= wanted {
            let inside = std::env::var_os("SLURM_JOB_ID").is_some();
            return Ok(if inside { leave(&found) } else { 0 });
        }
        if since.elapsed() > WAIT_MAX {
            let text = format!("job {job} is still giving up nodes; see: scontrol show job {job}");
            return Err(Failure::error("scontrol", &text));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Writes the files that set a shell's variables anew; gives the command's exit code.
fn leave(job: &JobView) -> i32 {
    let (sh, csh) = texts(job, |name| std::env::var_os(name).is_some());
    let name = |kind: &str| format!("slurm_job_{}_resize.{kind}", job.row.id);
    for (kind, text) in [("sh", sh), ("csh", csh)] {
        let path = name(kind);
        let written = std::fs::write(&path, text)
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)));
        if let Err(error) = written {
            out::say(&format!("Could not create file {path}: {error}"));
            return 1;
        }
    }
    out::print(&format!(
        "To reset Slurm environment variables, execute\n  For bash or sh shells:  . ./{}\n  \
         For csh shells:         source ./{}\n",
        name("sh"),
        name("csh")
    ));
    0
}

/// The two files, for the variables that are set.
fn texts(job: &JobView, is_set: impl Fn(&str) -> bool) -> (String, String) {
    let (mut sh, mut csh) = (String::new(), String::new());
    let cpus = |text: &str| CpuSet::parse(text).map_or(0, |cpus| cpus.len());
    let counts: Vec<u32> = job.shares.iter().map(|share| cpus(&share.cpus)).collect();
    let nodes = job.row.nodes.to_string();
    let quoted = |text: &str| format!("\"{text}\"");
    let values = [
        ("SLURM_NODELIST", quoted(&job.row.node_list)),
        ("SLURM_JOB_NODELIST", quoted(&job.row.node_list)),
        ("SLURM_NNODES", nodes.clone()),
        ("SLURM_JOB_NUM_NODES", nodes),
        ("SLURM_JOB_CPUS_PER_NODE", quoted(&repeat::print(&counts))),
    ];
    for (name, value) in values.iter().filter(|(name, _)| is_set(name)) {
        let _ = writeln!(sh, "export {name}={value}");
        let _ = writeln!(csh, "setenv {name} {value}");
    }
    if is_set("SLURM_TASKS_PER_NODE") {
        for name in ["SLURM_NPROCS", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"] {
            let _ = writeln!(sh, "unset {name}");
            let _ = writeln!(csh, "unsetenv {name}");
        }
    }
    (sh, csh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_set_anew() {
        let share = |node: &str, cpus: &str| serde_json::json!({"node": node, "tasks": 1, "cpus": cpus, "memory_mib": 500});
        let job: JobView = serde_json::from_value(serde_json::json!({
            "id": 9, "job": "9", "name": "big", "user": "root", "uid": 0, "account": "root",
            "partition": "main", "qos": "normal", "state": "running", "submitted_ms": 0,
            "time_limit_s": 600, "nodes": 2, "node_list": "n[1-2]", "tasks": 2, "cpus": 8,
            "memory_mib": 1000, "gpus": 0, "tres": "", "priority": 1, "request": {}, "stdio": {},
            "attempt": 1, "submit_host": "vm", "shares": [share("n1", "0-3"), share("n2", "4-7")],
        }))
        .expect("a view");
        let (sh, csh) = texts(&job, |name| name != "SLURM_NODELIST");
        let expected = "export SLURM_JOB_NODELIST=\"n[1-2]\"\nexport SLURM_NNODES=2\n\
                        export SLURM_JOB_NUM_NODES=2\nexport SLURM_JOB_CPUS_PER_NODE=\"4(x2)\"\n\
                        unset SLURM_NPROCS\nunset SLURM_NTASKS\nunset SLURM_TASKS_PER_NODE\n";
        assert_eq!(sh, expected);
        assert!(csh.starts_with("setenv SLURM_JOB_NODELIST \"n[1-2]\"\n"));
        assert!(csh.ends_with("unsetenv SLURM_TASKS_PER_NODE\n"));
    }
}
