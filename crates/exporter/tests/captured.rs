//! The whole exposition of a captured machine: a GPU node with Lustre.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use muster_exporter::families::{Set, all};
use muster_exporter::{Exposition, Owner, Owners, Settings, exposition};
use muster_node_metrics::collector::{Collector, Options};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captured/gpu-node")
}

fn settings() -> Settings {
    Settings { hostname: "gpu08".to_owned(), ..Settings::default() }
}

fn told(owners: &Owners, settings: &Settings) -> Exposition {
    let options = Options { root: root(), processes: true, ..Options::default() };
    exposition(&Collector::new(&options).collect(), owners, settings)
}

/// What differs from one reading to the next.
fn is_timed(line: &str) -> bool {
    line.starts_with("muster_source_age_seconds{")
        || line.starts_with("muster_source_duration_seconds{")
        || line.starts_with("muster_export_info{")
}

#[test]
fn the_whole_exposition_is_as_it_was_reviewed() {
    let text = told(&Owners::default(), &settings()).open_metrics();
    let lines: Vec<&str> = text.lines().filter(|line| !is_timed(line)).collect();
    let kept = lines.join("\n") + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captured/gpu-node.prom");
    if std::env::var_os("MUSTER_BLESS").is_some() {
        std::fs::write(&path, &kept).expect("written");
    }
    let wanted = std::fs::read_to_string(&path).expect("the reviewed exposition");
    let (kept, wanted): (BTreeSet<&str>, BTreeSet<&str>) =
        (kept.lines().collect(), wanted.lines().collect());
    let new: Vec<_> = kept.difference(&wanted).collect();
    let gone: Vec<_> = wanted.difference(&kept).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\ngone: {gone:#?}");
}

#[test]
fn figures_are_in_the_units_that_their_names_say() {
    let text = told(&Owners::default(), &settings()).text();
    let gpu = "gpu=\"0\",UUID=\"GPU-0a000000-1111-2222-3333-000000000001\"";
    for line in [
        "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\",port=\"1\"} 4020000000000",
        "node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"1\"} 308",
        "node_network_speed_bytes{device=\"eth0\"} 3125000000",
        "muster_network_speed_unknown{device=\"eth1\"} 1",
        "node_disk_read_bytes_total{device=\"nvme0n1\"} 32931840000",
        "node_disk_read_time_seconds_total{device=\"nvme0n1\"} 912",
        "node_pressure_io_stalled_seconds_total 31.00711",
        "cgroup_cpu_total_seconds{jobid=\"42\",engine=\"local\"} 360",
        "cgroup_memory_total_bytes{jobid=\"42\",engine=\"local\"} 17179869184",
        "cgroup_cpu_total_seconds{jobid=\"42\",step=\"0\",engine=\"local\"} 300",
        "muster_unmapped_cgroups{engine=\"slurm\"} 1",
        "lustre_job_read_bytes_total{component=\"obdfilter\",target=\"work-OST0003\",jobid=\"c1.4217\"} 1887436800",
        "lustre_job_stats_total{component=\"mdt\",target=\"work-MDT0000\",jobid=\"my \\\"prog\\\".1001\",operation=\"open\"} 1",
        "lustre_job_stats_total{component=\"mdt\",target=\"work-MDT0000\",jobid=\"unknown\",operation=\"statfs\"} 6",
        "gpfs_perf_operations_total{fs=\"scratch\",operation=\"opens\"} 2704",
        "muster_gpu_xid_last_time_seconds{pci_bus_id=\"0000:c1:00.0\",UUID=\"GPU-0a000000-1111-2222-3333-000000000001\",xid=\"31\",class=\"application\"} 1790026300",
        "muster_source_skipped_total{source=\"infiniband\"} 1",
        &format!("muster_gpu_memory_bytes{{{gpu}}} 42949672960"),
    ] {
        assert!(text.lines().any(|found| found == line), "missing: {line}\n{text}");
    }
    // What a GPU does not know is not told as nought, and what has no limit has none.
    let of = |name: &str, with: &str| {
        text.lines().filter(|l| l.starts_with(name) && l.contains(with)).count()
    };
    assert_eq!(of("DCGM_FI_DEV_GPU_UTIL{", ""), 1);
    assert_eq!(of("DCGM_FI_DEV_FB_USED{", "gpu=\"2\""), 0);
    assert_eq!(of("cgroup_memory_total_bytes{", "step=\"0\""), 0);
    assert_eq!(of("node_infiniband_link_downed_total{", "mlx5_0"), 0);
}

#[test]
fn every_metric_of_the_table_but_these_is_told() {
    // What this machine has not: profiling, a library, and more jobs than are told.
    let absent = [
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "muster_job_gpu_info",
        "muster_lustre_rest_jobs",
        "muster_lustre_rest_operations",
        "muster_export_dropped_series",
    ];
    let all_told = told(&Owners::default(), &settings());
    let names: BTreeSet<&str> = all_told.names().collect();
    let table: BTreeSet<&str> = all().map(|family| family.name).collect();
    let missing: Vec<&str> = table.difference(&names).copied().collect();
    let absent: BTreeSet<&str> = absent.into();
    assert_eq!(missing, absent.into_iter().collect::<Vec<_>>());
}

#[test]
fn jobs_carry_their_owners_and_gpus_their_jobs() {
    let owner = |user: &str| Owner {
        user: user.to_owned(),
        account: "physics".to_owned(),
        partition: "gpu".to_owned(),
        name: "train".to_owned(),
    };
    let mut owners = Owners {
        instance: "abcd".to_owned(),
        jobs: BTreeMap::from([(42, owner("ana")), (4217, owner("not hers"))]),
        // By the unique id, not by the number that the job sees.
        gpus: BTreeMap::from([(
            "GPU-0a000000-1111-2222-3333-000000000001".to_owned(),
            vec![42, 43],
        )]),
        ..Owners::default()
    };
    let text = told(&owners, &settings()).text();
    for line in [
        "muster_job_info{jobid=\"42\",user=\"ana\",account=\"physics\",partition=\"gpu\",name=\"train\",engine=\"local\"} 1",
        // A job of Slurm with the number of one of ours is another job.
        "muster_job_info{jobid=\"4217\",engine=\"slurm\"} 1",
        "cgroup_cpus{jobid=\"42\",step=\"0\",user=\"ana\",account=\"physics\",engine=\"local\"} 8",
        "muster_job_gpu_info{jobid=\"43\",UUID=\"GPU-0a000000-1111-2222-3333-000000000001\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "missing: {line}\n{text}");
    }
    let busy = text.lines().filter(|line| line.starts_with("DCGM_FI_DEV_GPU_UTIL{"));
    let jobs: Vec<bool> = busy
        .map(|line| line.contains("hpc_job=\"42\"") || line.contains("hpc_job=\"43\""))
        .collect();
    assert_eq!(jobs, [true, true]);
    // Another muster's job has the same number.
    let other = Owners { instance: "other".to_owned(), ..owners.clone() };
    assert!(!told(&other, &settings()).text().contains("jobid=\"42\",user"));
    // One who sees some jobs only sees those and nothing of the machine.
    owners.only_these = true;
    let told = told(&owners, &settings());
    let others: Vec<&str> = told
        .names()
        .filter(|name| name.starts_with("node_") || name.starts_with("lustre"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(told.text().contains("jobid=\"42\"") && !told.text().contains("4217"));
}

#[test]
fn sets_can_be_switched_off_and_jobs_are_bounded() {
    let own = Settings { sets: BTreeSet::from([Set::Own]), ..settings() };
    assert!(told(&Owners::default(), &own).names().all(|name| name.starts_with("muster_")));
    let few = Settings { jobs_max: 1, ..settings() };
    let text = told(&Owners::default(), &few).text();
    // Job 42 used most CPU time; of the server's jobs c1.4217 did most.
    assert!(text.contains("muster_export_dropped_series{family=\"cgroup_cpu_total_seconds\"} 1\n"));
    assert!(
        text.contains("muster_lustre_rest_jobs{component=\"mdt\",target=\"work-MDT0000\"} 2\n")
    );
    assert!(text.contains("muster_lustre_rest_operations{component=\"mdt\",target=\"work-MDT0000\",operation=\"statfs\"} 6\n"));
    assert!(!text.contains("jobid=\"4217\""), "{text}");
}
