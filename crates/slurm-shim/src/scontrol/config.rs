//! `scontrol show config`: the keys that clients look up, with what is true of muster.

use muster_client::Client;
use std::fmt::Write as _;

use crate::fail::{Failure, Outcome};
use crate::{clock, out};

/// Prints the keys in Slurm's form, `Key                     = value`.
pub(super) fn show(client: &Client) -> Outcome {
    let ping = client.ping().map_err(|error| Failure::client("scontrol", &error))?;
    let array_max = ping.policy.max_array_size.to_string();
    let kill_wait = format!("{} sec", ping.policy.kill_wait_s);
    let min_job_age = format!("{} sec", ping.policy.min_job_age_s);
    let release = crate::release();
    let host = format!("{}(127.0.0.1)", crate::submit::host());
    let state_dir = ping.state_dir.clone();
    let boot = clock::instant(ping.started_ms);
    let keys: &[(&str, &str)] = &[
        ("AccountingStorageType", "accounting_storage/muster"),
        ("AuthType", "auth/muster"),
        ("BOOT_TIME", &boot),
        ("ClusterName", &ping.cluster),
        ("GresTypes", "gpu"),
        ("JobAcctGatherType", "jobacct_gather/cgroup"),
        ("JobRequeue", "1"),
        ("KillOnBadExit", "0"),
        ("KillWait", &kill_wait),
        ("MaxArraySize", &array_max),
        ("MinJobAge", &min_job_age),
        ("MpiDefault", "none"),
        ("PreemptType", "preempt/none"),
        ("PriorityType", "priority/multifactor"),
        ("PrivateData", "none"),
        ("ProctrackType", "proctrack/cgroup"),
        ("SchedulerType", "sched/backfill"),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_CPU_MEMORY"),
        ("SlurmctldHost[0]", &host),
        ("SLURM_CONF", "(null)"),
        ("SLURM_VERSION", &release),
        ("StateSaveLocation", &state_dir),
        ("TaskPlugin", "task/cgroup"),
    ];
    let mut text = format!("Configuration data as of {}\n", clock::instant(clock::now()));
    for (key, value) in keys {
        let _ = writeln!(text, "{key:<23} = {value}");
    }
    let _ = write!(text, "\nSlurmctld(primary) at {} is UP\n", crate::submit::host());
    out::print(&text);
    Ok(0)
}
