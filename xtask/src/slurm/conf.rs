//! The configuration files of a bed.

use std::fmt::Write as _;

use super::{Bed, mode};

/// The associations of a bed with accounting: a tree of accounts, a QOS above the usual one, and
/// two users.
pub(super) const ASSOCIATIONS: [&[&str]; 9] = [
    &["add", "cluster", "bed"],
    &["add", "qos", "high", "Priority=10", "MaxJobsPerUser=20"],
    &["add", "account", "research", "Description=r", "Organization=o", "Fairshare=10"],
    &["add", "account", "ml", "parent=research", "Fairshare=3"],
    &["add", "account", "physics", "parent=research", "Fairshare=1"],
    &["add", "user", "root", "account=research", "AdminLevel=Admin"],
    // An account does not hand its QOS down to a user who is there before it has them.
    &["modify", "account", "research", "set", "QOS=normal,high"],
    &["add", "user", "nobody", "account=ml", "DefaultAccount=ml"],
    &["modify", "user", "root", "set", "DefaultAccount=research"],
];

impl Bed {
    /// Writes slurm.conf and what goes with it.
    pub(super) fn write_conf(&self) -> std::io::Result<()> {
        std::fs::write(self.conf(), self.slurm_conf(""))?;
        std::fs::write(self.dir().join("gres.conf"), self.gres_conf())?;
        if self.shape.accounting {
            std::fs::write(self.dir().join("topology.conf"), self.topology_conf())?;
            let file = self.dir().join("slurmdbd.conf");
            std::fs::write(&file, self.slurmdbd_conf())?;
            // slurmdbd refuses one that others may read.
            mode(&file, 0o600)?;
        }
        Ok(())
    }

    /// Names of nodes are `n0` and so on; a quarter of them is each `rack0` to `rack3`.
    pub(super) fn slurm_conf(&self, scheduler: &str) -> String {
        let (dir, port, shape) = (self.dir().display(), self.port, self.shape);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().split('.').next().unwrap_or_default();
        let mut text = format!(
            "ClusterName=bed
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/spool/%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile=/dev/null
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
Licenses=solver:4
MaxJobCount=200000
SlurmdTimeout=3600
MessageTimeout=100
"
        );
        text.push_str(&if shape.accounting { self.accounting() } else { NO_ACCOUNTING.to_owned() });
        if !scheduler.is_empty() {
            let _ = writeln!(text, "SchedulerParameters={scheduler}");
        }
        for rack in 0..4u16 {
            let of = |rack: u16| rack * shape.nodes / 4;
            let (first, last) = (of(rack), of(rack + 1) - 1);
            let _ = writeln!(
                text,
                "NodeName=n[{first}-{last}] NodeHostname={host} NodeAddr=127.0.0.1 \
                 Port=[{}-{}] CPUs={cpus} Sockets=2 CoresPerSocket={cores} ThreadsPerCore=1 \
                 RealMemory={memory} Gres=gpu:h100:{gpus} Feature=rack{rack} State=UNKNOWN",
                port + 1 + first,
                port + 1 + last,
                cpus = shape.cpus,
                cores = shape.cpus / 2,
                memory = shape.memory_mib,
                gpus = shape.gpus,
            );
        }
        let _ = writeln!(
            text,
            "PartitionName=main Nodes={main} Default=YES MaxTime=INFINITE DefaultTime=01:00:00 \
             DefMemPerCPU=100 State=UP",
            main = if shape.accounting { "n[0-3]" } else { "ALL" },
        );
        if shape.accounting {
            let _ = writeln!(
                text,
                "PartitionName=gpu Nodes=n[4-5] MaxTime=1-0 MaxNodes=2 DefaultTime=00:30:00 \
                 DefMemPerCPU=100 State=UP
PartitionName=back Nodes=n[0-1] Hidden=YES OverSubscribe=EXCLUSIVE MaxTime=60 State=UP"
            );
        }
        text
    }

    /// What a bed like a site's has beside the rest. The password of a
    /// slurmdbd that munge guards is munge's socket.
    fn accounting(&self) -> String {
        format!(
            "AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={dir}/jwt.key
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={dir}/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
JobAcctGatherType=jobacct_gather/linux
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightQOS=1000
PriorityWeightJobSize=1000
TopologyPlugin=topology/tree
",
            dir = self.dir().display(),
            port = self.ports().slurmdbd,
        )
    }

    fn gres_conf(&self) -> String {
        format!(
            "NodeName=n[0-{}] Name=gpu Type=h100 File={}/gpu/gpu[0-{}]\n",
            self.shape.nodes - 1,
            self.dir().display(),
            self.shape.gpus.saturating_sub(1),
        )
    }

    /// Two leaves under a root.
    fn topology_conf(&self) -> String {
        let (nodes, half) = (self.shape.nodes, (self.shape.nodes / 2).max(1));
        format!(
            "SwitchName=leaf0 Nodes=n[0-{}]\nSwitchName=leaf1 Nodes=n[{half}-{}]\n\
             SwitchName=spine Switches=leaf[0-1]\n",
            half - 1,
            nodes - 1,
        )
    }

    fn slurmdbd_conf(&self) -> String {
        let (dir, ports) = (self.dir().display(), self.ports());
        format!(
            "DbdHost=localhost
DbdPort={dbd}
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={dir}/jwt.key
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
LogFile={dir}/slurmdbd.log
PidFile={dir}/slurmdbd.pid
",
            dbd = ports.slurmdbd,
            db = ports.database,
        )
    }
}

const NO_ACCOUNTING: &str = "AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PriorityType=priority/basic
MinJobAge=1800
";
