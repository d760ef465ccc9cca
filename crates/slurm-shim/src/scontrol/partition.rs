//! A partition as `scontrol show partition` has it.

use muster_api::PartitionView;
use muster_client::Client;
use muster_model::{Seconds, TimeLimit};
use muster_slurm_syntax::duration::print_long;
use std::fmt::Write as _;

use super::Style;
use crate::fail::{Failure, Outcome};
use crate::out;
use crate::sacct::mebibytes;

/// Shows one partition or all.
pub(super) fn show(client: &Client, name: Option<&str>, style: Style) -> Outcome {
    let failed = |error: muster_client::ClientError| Failure::client("scontrol", &error);
    let partitions = client.partitions().map_err(failed)?;
    let nodes = client.nodes().map_err(failed)?;
    let mut text = String::new();
    for partition in partitions.iter().filter(|p| name.is_none_or(|name| p.name == name)) {
        let here = nodes.iter().filter(|node| partition.nodes.contains(&node.name));
        text.push_str(&record(partition, here.map(|node| node.memory_mib).sum(), style));
    }
    match name {
        Some(name) if text.is_empty() => Err(Failure::says(format!("Partition {name} not found"))),
        _ => {
            out::print(&text);
            Ok(0)
        }
    }
}

fn record(partition: &PartitionView, memory_mib: u64, style: Style) -> String {
    let p = partition;
    let limit = |s: Option<u64>, none: &str| {
        s.map_or(none.to_owned(), |s| print_long(TimeLimit::Of(Seconds(s))))
    };
    let number = |n: Option<u32>| n.map_or("UNLIMITED".to_owned(), |n| n.to_string());
    let accounts: Vec<String> = p.allow_accounts.iter().cloned().collect();
    let accounts = if accounts.is_empty() { "ALL".to_owned() } else { accounts.join(",") };
    let default = if p.default { "YES" } else { "NO" };
    let mut tres = format!(
        "cpu={},mem={},node={},billing={}",
        p.cpus,
        mebibytes(memory_mib),
        p.nodes.len(),
        p.cpus
    );
    if p.gpus > 0 {
        let _ = write!(tres, ",gres/gpu={}", p.gpus);
    }
    let lines = [
        format!("PartitionName={}", p.name),
        format!("AllowGroups=ALL AllowAccounts={accounts} AllowQos=ALL"),
        format!("AllocNodes=ALL Default={default} QoS=N/A"),
        format!(
            "DefaultTime={} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
            default_time(p)
        ),
        format!(
            "MaxNodes={} MaxTime={} MinNodes={} LLN=NO MaxCPUsPerNode=UNLIMITED",
            number(p.max_nodes),
            limit(p.max_time_s, "UNLIMITED"),
            p.min_nodes
        ),
        format!("Nodes={}", p.node_list),
        format!(
            "PriorityJobFactor={} PriorityTier={} RootOnly=NO ReqResv=NO OverSubscribe={}",
            p.priority.max(1),
            p.tier,
            over_subscribe(p)
        ),
        format!("OverTimeLimit=NONE PreemptMode={}", if p.sharers > 1 { "GANG" } else { "OFF" }),
        format!(
            "State={} TotalCPUs={} TotalNodes={} SelectTypeParameters=NONE",
            p.state.to_uppercase(),
            p.cpus,
            p.nodes.len()
        ),
        "JobDefaults=(null)".to_owned(),
        format!("{} MaxMemPerNode=UNLIMITED", default_memory(p)),
        format!("TRES={tres}"),
    ];
    if style.one_line { lines.join(" ") + "\n" } else { lines.join("\n   ") + "\n\n" }
}

/// Slurm shows no default where it is the maximum.
fn default_time(partition: &PartitionView) -> String {
    match partition.default_time_s.filter(|_| partition.default_time_s != partition.max_time_s) {
        Some(seconds) => print_long(TimeLimit::Of(Seconds(seconds))),
        None => "NONE".to_owned(),
    }
}

/// Jobs that take turns are Slurm's gangs.
fn over_subscribe(partition: &PartitionView) -> String {
    match partition.sharers {
        0 | 1 => "NO".to_owned(),
        sharers => format!("FORCE:{sharers}"),
    }
}

fn default_memory(partition: &PartitionView) -> String {
    match (partition.default_memory_per_cpu_mib, partition.default_memory_per_node_mib) {
        (Some(mib), _) => format!("DefMemPerCPU={mib}"),
        (None, Some(mib)) => format!("DefMemPerNode={mib}"),
        (None, None) => "DefMemPerNode=UNLIMITED".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_laid_out_as_slurm_does() {
        let partition = PartitionView {
            name: "main".into(),
            default: true,
            state: "up".into(),
            nodes: ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec(),
            node_list: "n[1-4]".into(),
            cpus: 32,
            gpus: 16,
            default_time_s: Some(3600),
            default_memory_per_cpu_mib: Some(100),
            tier: 1,
            ..PartitionView::default()
        };
        assert_eq!(
            record(&partition, 64_000, Style::default()),
            "PartitionName=main
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=n[1-4]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=32 TotalNodes=4 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerCPU=100 MaxMemPerNode=UNLIMITED
   TRES=cpu=32,mem=62.50G,node=4,billing=32,gres/gpu=16

"
        );
    }
}
