//! The files, and the steps.

use super::{Gpus, Host};
use std::fmt::Write as _;

/// A Slurm to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// `ClusterName`.
    pub cluster: String,
    /// The host of slurmctld.
    pub controller: String,
    /// The machines that run jobs.
    pub hosts: Vec<Host>,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// So much of a machine's memory is left to the system: a twentieth, at least 1 GiB where there is
/// that much.
fn memory(host: &Host) -> u64 {
    let kept = (host.memory_mib / 20).max(1024);
    if host.memory_mib > 2 * kept { host.memory_mib - kept } else { host.memory_mib }
}

/// All of them: slurm.conf(5), gres.conf(5), cgroup.conf(5) and the steps.
pub fn files(site: &Site) -> Vec<File> {
    let mut files = vec![
        File { name: "slurm.conf", text: slurm_conf(site) },
        File { name: "cgroup.conf", text: CGROUP.to_owned() },
        File { name: "STEPS.md", text: steps(site) },
    ];
    if site.hosts.iter().any(|host| !host.gpus.is_empty()) {
        files.push(File { name: "gres.conf", text: gres_conf(site) });
    }
    files
}

/// Processes of a job are found by their cgroup, and see no more than it was given.
const CGROUP: &str = "ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainDevices=yes
";

fn slurm_conf(site: &Site) -> String {
    let mut text = format!(
        "# Made by muster slurm init. The same file goes to every machine.
ClusterName={}
SlurmctldHost={}
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
# A machine that was away comes back by itself.
ReturnToService=1
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
# Accounts and fair share need slurmdbd: this goes without.
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/cgroup
",
        site.cluster, site.controller
    );
    if site.hosts.iter().any(|host| !host.gpus.is_empty()) {
        text.push_str("GresTypes=gpu\n");
    }
    text.push('\n');
    for host in &site.hosts {
        let _ = write!(
            text,
            "NodeName={} Sockets={} CoresPerSocket={} ThreadsPerCore={} RealMemory={}",
            host.name,
            host.sockets,
            host.cores,
            host.threads,
            memory(host),
        );
        let gpus: Vec<String> =
            host.gpus.iter().map(|gpus| format!("gpu:{}:{}", gpus.model, gpus.count)).collect();
        if !gpus.is_empty() {
            let _ = write!(text, " Gres={}", gpus.join(","));
        }
        text.push_str(" State=UNKNOWN\n");
    }
    let names: Vec<&str> = site.hosts.iter().map(|host| host.name.as_str()).collect();
    // Without limits of their own jobs have room for four hours and their share of the memory.
    let _ = writeln!(
        text,
        "PartitionName=main Nodes={} Default=YES DefaultTime=04:00:00 MaxTime=14-00:00:00 \
         DefMemPerCPU={} State=UP",
        names.join(","),
        memory_per_cpu(site),
    );
    text
}

/// The least that a hardware thread has of its machine's memory.
fn memory_per_cpu(site: &Site) -> u64 {
    let each = |host: &Host| {
        let cpus = u64::from(host.sockets) * u64::from(host.cores) * u64::from(host.threads);
        memory(host) / cpus.max(1)
    };
    site.hosts.iter().map(each).min().unwrap_or(1).max(1)
}

fn gres_conf(site: &Site) -> String {
    let mut text =
        String::from("# Made by muster slurm init. The same file goes to every machine.\n");
    for host in &site.hosts {
        let mut next = 0;
        for Gpus { model, count } in &host.gpus {
            let last = next + count - 1;
            let which = if next == last { next.to_string() } else { format!("[{next}-{last}]") };
            let _ = writeln!(
                text,
                "NodeName={} Name=gpu Type={model} File=/dev/nvidia{which}",
                host.name
            );
            next = last + 1;
        }
    }
    text
}

fn steps(site: &Site) -> String {
    let Site { cluster, controller, hosts } = site;
    let mut all: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    if !all.contains(&controller.as_str()) {
        all.insert(0, controller);
    }
    let all = all.join(" ");
    let nodes = hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(" ");
    let gres = if hosts.iter().any(|host| !host.gpus.is_empty()) { " gres.conf" } else { "" };
    format!(
        "# Starting {cluster}

As root on {controller}, in this folder. Debian's packages; root reaches the others by ssh.

1. The packages, and the same users with the same numbers, on every machine:

       for host in {all}; do ssh $host apt-get install -y slurmd slurmctld slurm-client munge; done

2. One munge key for all, and clocks that agree within five minutes:

       for host in {all}; do scp /etc/munge/munge.key $host:/etc/munge/munge.key
           ssh $host 'chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key; systemctl restart munge'
       done
       for host in {all}; do munge -n | ssh $host unmunge | head -1; done

3. The files, and the folders that they name:

       for host in {all}; do scp slurm.conf cgroup.conf{gres} $host:/etc/slurm/
           ssh $host 'mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm
                      chown slurm: /var/lib/slurm/slurmctld /var/log/slurm'
       done

4. The daemons:

       systemctl enable --now slurmctld
       for host in {nodes}; do ssh $host systemctl enable --now slurmd; done

5. Every node is to be idle, and a job to run on all of them:

       sinfo -N -o '%N %t %G'
       srun -N{count} hostname

6. See it with muster, and let it decide when you like what you see:

       muster shadow slurm --once
       muster drive slurm --partition main
",
        count = hosts.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            cluster: "lab".to_owned(),
            controller: "head".to_owned(),
            hosts: vec![
                Host::written("g1:sockets=2,cores=8,memory=64000,gpus=4,gpu=h100").expect("g1"),
                Host::written("c1:cores=4,memory=8000").expect("c1"),
            ],
        }
    }

    fn text(name: &str) -> String {
        files(&site()).into_iter().find(|file| file.name == name).expect(name).text
    }

    #[test]
    fn each_machine_and_each_gpu_is_named() {
        let conf = text("slurm.conf");
        assert!(conf.contains(
            "NodeName=g1 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=60800 \
             Gres=gpu:h100:4 State=UNKNOWN\n"
        ));
        assert!(conf.contains("PartitionName=main Nodes=g1,c1 ") && conf.contains("GresTypes=gpu"));
        // 6976 MiB of four CPUs.
        assert!(conf.contains("DefMemPerCPU=1744 "), "{conf}");
        assert!(
            text("gres.conf").ends_with("NodeName=g1 Name=gpu Type=h100 File=/dev/nvidia[0-3]\n")
        );
    }

    #[test]
    fn the_steps_reach_every_machine() {
        let steps = text("STEPS.md");
        assert!(steps.contains("for host in head g1 c1;") && steps.contains("srun -N2 hostname"));
    }

    #[test]
    fn without_gpus_nothing_speaks_of_them() {
        let site = Site { hosts: vec![site().hosts.remove(1)], ..site() };
        let all = files(&site);
        assert!(
            all.iter().all(|file| !file.text.contains("gres.conf") && !file.text.contains("gpu"))
        );
    }
}
