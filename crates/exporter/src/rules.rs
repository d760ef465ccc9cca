//! Prometheus's alert rules, made from the table of metrics.

use std::fmt::Write as _;

use crate::families::{self, Family};

/// One alert. In its expression each `$N` stands for the name of the Nth metric.
struct Alert {
    name: &'static str,
    about: &'static [&'static Family],
    expression: &'static str,
    /// How long it must hold.
    holds: &'static str,
    severity: &'static str,
    summary: &'static str,
    todo: &'static str,
}

const ALERTS: &[Alert] = &[
    Alert {
        name: "MusterGpuNeedsDrain",
        about: &[&families::GPU_XID_COUNT],
        // The first of its kind comes with a series of its own, which does not grow to it.
        expression: "increase($0{class=~\"drain_.*\"}[15m]) > 0 \
                     or ($0{class=~\"drain_.*\"} unless $0{class=~\"drain_.*\"} offset 15m) > 0",
        holds: "0m",
        severity: "critical",
        summary: "Xid {{ $labels.xid }} on GPU {{ $labels.pci_bus_id }} of {{ $labels.instance }}",
        todo: "Drain the node; reset the GPU, or start the machine anew for drain_reboot.",
    },
    Alert {
        name: "MusterGpuLost",
        about: &[&families::GPU_LOST, &families::GPU_RECOVERY],
        expression: "$0 == 1 or $1 > 0",
        holds: "1m",
        severity: "critical",
        summary: "GPU {{ $labels.gpu }} of {{ $labels.instance }} does not answer or wants a reset",
        todo: "Drain the node and do what the recovery action says.",
    },
    Alert {
        name: "MusterGpuRowsUsedUp",
        about: &[&families::GPU_ROW_FAILURE],
        expression: "$0 == 1",
        holds: "1m",
        severity: "critical",
        summary: "A memory row of GPU {{ $labels.gpu }} of {{ $labels.instance }} cannot be replaced",
        todo: "Drain the node and run the vendor's field diagnostics.",
    },
    Alert {
        name: "MusterGpuHot",
        about: &[&families::GPU_TEMP],
        expression: "$0 > 88",
        holds: "10m",
        severity: "warning",
        summary: "GPU {{ $labels.gpu }} of {{ $labels.instance }} has {{ $value }} degrees",
        todo: "Look at fans, filters and the room's temperature.",
    },
    Alert {
        name: "MusterGpuHeldIdle",
        about: &[&families::GPU_UTIL],
        expression: "max_over_time($0{hpc_job!=\"\"}[30m]) == 0",
        holds: "5m",
        severity: "info",
        summary: "Job {{ $labels.hpc_job }} holds GPU {{ $labels.gpu }} of {{ $labels.instance }} and does not use it",
        todo: "Ask its owner; `muster job` names them.",
    },
    Alert {
        name: "MusterInfinibandFlaps",
        about: &[&families::IB_LINK_DOWNED],
        expression: "increase($0[1h]) > 2",
        holds: "0m",
        severity: "warning",
        summary: "Port {{ $labels.device }}/{{ $labels.port }} of {{ $labels.instance }} went down {{ $value }} times in an hour",
        todo: "Drain the node; look at the cable and the switch's port.",
    },
    Alert {
        name: "MusterInfinibandErrors",
        about: &[&families::IB_SYMBOL_ERROR, &families::IB_RX_ERRORS, &families::IB_INTEGRITY],
        expression: "increase($0[1h]) > 100 or increase($1[1h]) > 100 or increase($2[1h]) > 100",
        holds: "0m",
        severity: "warning",
        summary: "Port {{ $labels.device }}/{{ $labels.port }} of {{ $labels.instance }} has errors",
        todo: "Look at the cable and its ends.",
    },
    Alert {
        name: "MusterLinkSpeedUnknown",
        about: &[&families::SPEED_UNKNOWN],
        expression: "$0 == 1",
        holds: "15m",
        severity: "info",
        summary: "{{ $labels.device }} of {{ $labels.instance }} has a carrier and no known speed",
        todo: "Look at it with ethtool.",
    },
    Alert {
        name: "MusterFilesystemNearlyFull",
        about: &[
            &families::SPACE_AVAILABLE,
            &families::SPACE_SIZE,
            &families::SPACE_INODES_FREE,
            &families::SPACE_INODES,
            &families::SPACE_READ_ONLY,
        ],
        expression: "($0 / $1 < 0.05 or $2 / $3 < 0.05) and $4 == 0",
        holds: "15m",
        severity: "warning",
        summary: "{{ $labels.mountpoint }} of {{ $labels.instance }} is nearly full",
        todo: "Make room: jobs that write there will fail.",
    },
    Alert {
        name: "MusterLinkSlow",
        about: &[&families::NETWORK_SPEED, &families::SPEED_MAX],
        expression: "$0 < $1",
        holds: "15m",
        // It may be meant: a fast card at a slower switch.
        severity: "info",
        summary: "{{ $labels.device }} of {{ $labels.instance }} is slower than its card can be",
        todo: "Look at the cable, the module and the switch's port; `ethtool` shows the link modes.",
    },
    Alert {
        name: "MusterNetworkLoss",
        about: &[&families::NETWORK_RX_ERRS, &families::NETWORK_TX_ERRS],
        expression: "rate($0[10m]) > 10 or rate($1[10m]) > 10",
        holds: "10m",
        severity: "warning",
        summary: "{{ $labels.device }} of {{ $labels.instance }} loses packets",
        todo: "Look at the counters of `ethtool -S`, the cable and the switch's port.",
    },
    Alert {
        name: "MusterDiskSlow",
        about: &[&families::DISK_READ_SECONDS, &families::DISK_READS, &families::DISK_BUSY_SECONDS],
        expression: "rate($0[10m]) / (rate($1[10m]) > 0) > 0.1 and rate($2[10m]) > 0.8",
        holds: "15m",
        severity: "warning",
        summary: "Reads from {{ $labels.device }} of {{ $labels.instance }} take {{ $value }} s",
        todo: "Look which job reads: muster_job_reads_total.",
    },
    Alert {
        name: "MusterMemoryPressure",
        about: &[&families::PRESSURE_MEMORY_FULL],
        expression: "rate($0[5m]) > 0.1",
        holds: "5m",
        severity: "warning",
        summary: "Tasks of {{ $labels.instance }} stand still for want of memory",
        todo: "Look which job is at its limit: cgroup_memory_used_bytes.",
    },
    Alert {
        name: "MusterJobKilledForMemory",
        about: &[&families::JOB_OOM],
        expression: "increase($0{step=\"\"}[10m]) > 0",
        holds: "0m",
        severity: "info",
        summary: "Processes of job {{ $labels.jobid }} of {{ $labels.user }} were killed because memory was out",
        todo: "Its owner may ask for more with --mem.",
    },
    Alert {
        name: "MusterNfsSlow",
        about: &[&families::NFS_RTT, &families::NFS_REQUESTS],
        expression: "rate($0[10m]) / (rate($1[10m]) > 1) > 0.2",
        holds: "15m",
        severity: "warning",
        summary: "{{ $labels.operation }} on {{ $labels.mountpoint }} of {{ $labels.instance }} takes the server {{ $value }} s",
        todo: "Look at the server, and which jobs use the mount.",
    },
    Alert {
        name: "MusterSourceBroken",
        about: &[&families::SOURCE_UP],
        expression: "$0 == 0",
        holds: "15m",
        severity: "warning",
        summary: "{{ $labels.source }} of {{ $labels.instance }} cannot be read",
        todo: "A filesystem that hangs or a driver that is gone; `muster export --once` says more.",
    },
    Alert {
        name: "MusterSeriesLeftOut",
        about: &[&families::EXPORT_DROPPED],
        expression: "$0 > 0",
        holds: "15m",
        severity: "info",
        summary: "{{ $value }} series of {{ $labels.family }} of {{ $labels.instance }} are left out",
        todo: "Raise --series-max or --jobs-max, or switch sets off.",
    },
    Alert {
        name: "MusterUnmappedCgroups",
        about: &[&families::UNMAPPED],
        expression: "$0 > 0",
        holds: "15m",
        severity: "info",
        summary: "{{ $value }} cgroups of {{ $labels.engine }} jobs on {{ $labels.instance }} are nobody's",
        todo: "Set CgroupJobIdPaths=yes in Slurm's cgroup.conf, or run the exporter as root.",
    },
];

/// The rules as Prometheus reads them.
pub fn rules() -> String {
    let mut out = "groups:\n  - name: muster\n    rules:\n".to_owned();
    for alert in ALERTS {
        let _ = write!(
            out,
            "      - alert: {}\n        expr: {}\n        for: {}\n        labels:\n          \
             severity: {}\n        annotations:\n          summary: {}\n          \
             description: {}\n",
            alert.name,
            quoted(&alert.written()),
            alert.holds,
            alert.severity,
            quoted(alert.summary),
            quoted(alert.todo),
        );
    }
    out
}

impl Alert {
    fn written(&self) -> String {
        let names = self.about.iter().enumerate();
        names.fold(self.expression.to_owned(), |text, (at, family)| {
            text.replace(&format!("${at}"), family.name)
        })
    }
}

/// As YAML's double-quoted text, which is that of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::{ALERTS, rules};

    #[test]
    fn every_metric_of_an_alert_stands_in_its_expression() {
        for alert in ALERTS {
            let written = alert.written();
            assert!(!written.contains('$'), "{written}");
            for family in alert.about {
                assert!(written.contains(family.name), "{}: {}", alert.name, family.name);
            }
        }
        assert!(rules().contains(
            "expr: \"increase(muster_gpu_xid_total{class=~\\\"drain_.*\\\"}[15m]) > 0 or ("
        ));
    }
}
