//! A Grafana dashboard, made from the table of metrics.

use serde_json::{Value, json};

use crate::families::{self, Family, Kind};

/// A row of the dashboard and its panels: each a title, a metric, and what its lines are named by.
type Row = (&'static str, &'static [(&'static str, &'static Family, &'static str)]);

const ROWS: &[Row] = &[
    (
        "Jobs",
        &[
            ("CPUs in use", &families::CGROUP_CPU, "{{jobid}} {{step}} {{user}}"),
            ("Memory", &families::CGROUP_USED, "{{jobid}} {{step}} {{user}}"),
            ("Waiting for a resource", &families::JOB_PRESSURE, "{{jobid}} {{resource}} {{share}}"),
            ("Read from disks", &families::JOB_READ_BYTES, "{{jobid}} {{device}}"),
            ("Written to disks", &families::JOB_WRITTEN_BYTES, "{{jobid}} {{device}}"),
            ("Killed, memory was out", &families::JOB_OOM, "{{jobid}} {{user}}"),
        ],
    ),
    (
        "GPUs",
        &[
            ("Busy", &families::GPU_UTIL, "{{gpu}} {{hpc_job}}"),
            ("Multiprocessors active", &families::GPU_SM_ACTIVE, "{{gpu}} {{hpc_job}}"),
            ("MIG instances active", &families::GPU_GR_ENGINE, "{{gpu}} {{GPU_I_ID}}"),
            ("Memory in use", &families::GPU_FB_USED, "{{gpu}} {{hpc_job}}"),
            ("Power", &families::GPU_POWER, "{{gpu}}"),
            ("Temperature", &families::GPU_TEMP, "{{gpu}}"),
            ("Xid messages", &families::GPU_XID_COUNT, "{{pci_bus_id}} {{xid}} {{class}}"),
        ],
    ),
    (
        "Filesystems",
        &[
            ("Lustre, operations", &families::LUSTRE_STATS, "{{filesystem}} {{operation}}"),
            ("Lustre, bytes read", &families::LUSTRE_READ_BYTES, "{{component}} {{filesystem}}"),
            ("Storage Scale, operations", &families::GPFS_OPERATIONS, "{{fs}} {{operation}}"),
            ("NFS, operations", &families::NFS_REQUESTS, "{{mountpoint}} {{operation}}"),
            ("NFS, time at the server", &families::NFS_RTT, "{{mountpoint}} {{operation}}"),
        ],
    ),
    (
        "Network",
        &[
            ("InfiniBand, sent", &families::IB_TX_BYTES, "{{device}} {{port}}"),
            ("InfiniBand, received", &families::IB_RX_BYTES, "{{device}} {{port}}"),
            ("Interfaces, received", &families::NETWORK_RX_BYTES, "{{device}}"),
            ("Interfaces, sent", &families::NETWORK_TX_BYTES, "{{device}}"),
            ("Received and thrown away", &families::NETWORK_RX_DROP, "{{device}}"),
        ],
    ),
    (
        "Machine",
        &[
            ("CPU time by mode", &families::CPU_SECONDS, "{{mode}}"),
            ("Memory available", &families::MEMORY_MEM_AVAILABLE, "{{instance}}"),
            ("Waiting for I/O", &families::PRESSURE_IO_SOME, "{{instance}}"),
            ("Disks, read", &families::DISK_READ_BYTES, "{{device}}"),
            ("Disks, busy", &families::DISK_BUSY_SECONDS, "{{device}}"),
        ],
    ),
    (
        "Collector",
        &[
            ("Sources that work", &families::SOURCE_UP, "{{source}}"),
            ("Time of a reading", &families::SOURCE_COST, "{{source}}"),
            ("Series left out", &families::EXPORT_DROPPED, "{{family}}"),
        ],
    ),
];

/// Panels beside each other.
const COLUMNS: usize = 3;
/// Grafana's grid is so wide.
const GRID: usize = 24;
const HEIGHT: usize = 8;

/// The dashboard as Grafana imports it.
pub fn dashboard() -> Value {
    let mut panels = Vec::new();
    let mut y = 0;
    for (title, row) in ROWS {
        let place = json!({"x": 0, "y": y, "w": GRID, "h": 1});
        panels
            .push(json!({"type": "row", "title": title, "id": panels.len() + 1, "gridPos": place}));
        y += 1;
        for (at, (title, family, legend)) in row.iter().enumerate() {
            let width = GRID / COLUMNS;
            let top = y + at / COLUMNS * HEIGHT;
            let place = json!({"x": at % COLUMNS * width, "y": top, "w": width, "h": HEIGHT});
            panels.push(panel(panels.len() + 1, title, family, legend, &place));
        }
        y += row.len().div_ceil(COLUMNS) * HEIGHT;
    }
    json!({
        "title": "muster",
        "uid": "muster",
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {
                "name": "instance",
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": format!("label_values({}, instance)", families::EXPORT_INFO.name),
                "includeAll": true,
                "multi": true,
            },
        ]},
        "panels": panels,
    })
}

/// The expression of a metric: a counter is a rate, also one whose name does not say so.
fn expression(family: &Family) -> String {
    let chosen = format!("{}{{instance=~\"$instance\"}}", family.name);
    let counts = family.kind == Kind::Counter || family.name.starts_with("cgroup_cpu_");
    match counts && family.name != families::CGROUP_CPUS.name {
        true => format!("rate({chosen}[$__rate_interval])"),
        false => chosen,
    }
}

fn panel(id: usize, title: &str, family: &Family, legend: &str, place: &Value) -> Value {
    let rate = expression(family).starts_with("rate(");
    let unit = match (family.unit, rate) {
        ("bytes", false) => "bytes",
        ("bytes", true) | ("bytes per second", _) => "Bps",
        ("seconds", false) => "s",
        // Seconds a second: CPUs, or a share of the time.
        ("seconds", true) | ("", false) => "short",
        ("percent", _) => "percent",
        ("ratio", _) => "percentunit",
        ("MiB", _) => "mbytes",
        ("celsius", _) => "celsius",
        ("watts", _) => "watt",
        (_, true) => "ops",
        _ => "short",
    };
    json!({
        "id": id,
        "type": "timeseries",
        "title": title,
        "description": family.help,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "expr": expression(family), "legendFormat": legend}],
    })
}

#[cfg(test)]
mod tests {
    use super::{ROWS, dashboard, expression};
    use crate::families::{CGROUP_CPU, CGROUP_CPUS, GPU_TEMP, NETWORK_RX_BYTES};

    #[test]
    fn counters_are_rates_and_gauges_are_not() {
        let rate =
            |name: &str| format!("rate({name}{{instance=~\"$instance\"}}[$__rate_interval])");
        assert_eq!(expression(&NETWORK_RX_BYTES), rate("node_network_receive_bytes_total"));
        assert_eq!(expression(&CGROUP_CPU), rate("cgroup_cpu_total_seconds"));
        assert_eq!(expression(&CGROUP_CPUS), "cgroup_cpus{instance=~\"$instance\"}");
        assert_eq!(expression(&GPU_TEMP), "DCGM_FI_DEV_GPU_TEMP{instance=~\"$instance\"}");
    }

    #[test]
    fn panels_do_not_overlap_and_name_labels_that_there_are() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().expect("panels");
        let places: std::collections::BTreeSet<(u64, u64)> = panels
            .iter()
            .map(|panel| &panel["gridPos"])
            .map(|at| (at["y"].as_u64().expect("y"), at["x"].as_u64().expect("x")))
            .collect();
        assert_eq!(places.len(), panels.len());
        for (title, family, legend) in ROWS.iter().flat_map(|(_, row)| *row) {
            for label in legend.split("{{").skip(1).filter_map(|part| part.split("}}").next()) {
                let known = label == "instance" || family.labels.contains(&label);
                assert!(known, "{title}: {} has no label {label}", family.name);
            }
        }
    }
}
