//! Each finding on a series that shows it, and a near miss that does not.

use muster_diagnosis::{Confidence, Gpu, RULES, Sample, Signal, Verdict, diagnose};

/// A job on four CPUs that computes and has nothing to complain of, at the `n`th of 61 instants, 30 s
/// apart.
fn healthy(n: u32) -> Sample {
    let t = f64::from(n) * 30.0;
    Sample {
        at: t,
        cpu_seconds: Some(2.0 * t),
        cpus: Some(4.0),
        throttled_seconds: Some(0.0),
        memory: Some(4e9),
        memory_limit: Some(16e9),
        limit_hits: Some(0.0),
        refaults: Some(0.0),
        cpu_waiting: Some(0.02 * t),
        memory_stalled: Some(0.0),
        io_waiting: Some(0.01 * t),
        io_stalled: Some(0.0),
        disk_reads: Some(10.0 * t),
        disk_read_bytes: Some(10.0 * t * 1e6),
        disk_written_bytes: Some(1e5 * t),
        machine_reads: None,
        machine_read_bytes: None,
        machine_written_bytes: None,
        shared_reads: Some(0.0),
        shared_read_bytes: Some(0.0),
        shared_written_bytes: Some(0.0),
        shared_metadata: Some(0.0),
        rdma_bytes: Some(1e9 * t),
        ethernet_bytes: Some(1e5 * t),
        gpus: vec![gpu("a", 0.95), gpu("b", 0.93)],
    }
}

fn gpu(uuid: &str, busy: f64) -> Gpu {
    Gpu {
        uuid: uuid.to_owned(),
        busy: Some(busy),
        sm_active: Some(busy * 0.8),
        memory: Some(0.7),
        from_host: Some(0.1),
        heat: Some(false),
        power: Some(false),
        ..Gpu::default()
    }
}

/// What is found where each sample is changed so.
fn found(change: impl Fn(u32, f64, &mut Sample)) -> Vec<&'static str> {
    let samples: Vec<Sample> = (0..61)
        .map(|n| {
            let mut sample = healthy(n);
            let t = sample.at;
            change(n, t, &mut sample);
            sample
        })
        .collect();
    diagnose(&samples).findings.iter().map(|finding| finding.rule).collect()
}

/// GPU use that comes and goes.
fn swing(n: u32, sample: &mut Sample) {
    let busy = if n.is_multiple_of(3) { 0.9 } else { 0.1 };
    sample.gpus = vec![gpu("a", busy), gpu("b", busy)];
}

fn small_reads(t: f64, sample: &mut Sample) {
    sample.io_waiting = Some(0.4 * t);
    sample.shared_reads = Some(3_000.0 * t);
    sample.shared_read_bytes = Some(3_000.0 * 8_192.0 * t);
    sample.shared_metadata = Some(5_900.0 * t);
    (sample.disk_reads, sample.disk_read_bytes) = (Some(0.0), Some(0.0));
}

#[test]
fn a_job_that_is_fine_has_no_finding() {
    let samples: Vec<Sample> = (0..61).map(healthy).collect();
    let report = diagnose(&samples);
    assert_eq!((report.verdict, report.findings, report.missing), (Verdict::Fine, vec![], vec![]));
}

#[test]
fn small_files_are_told_from_large_ones_and_packed_from_unpacked() {
    let unpacked = found(|n, t, sample| {
        swing(n, sample);
        small_reads(t, sample);
    });
    assert_eq!(unpacked, ["GPU_WAITS_SMALL_FILES"]);
    // The same files packed: large reads, nobody waits.
    let packed = found(|_, t, sample| {
        sample.shared_reads = Some(24.0 * t);
        sample.shared_read_bytes = Some(24.0 * 1_048_576.0 * t);
        sample.shared_metadata = Some(1.0 * t);
    });
    assert!(packed.is_empty(), "{packed:?}");
    // Many small reads that keep nobody waiting.
    let cached = found(|_, t, sample| {
        small_reads(t, sample);
        sample.io_waiting = Some(0.05 * t);
    });
    assert!(cached.is_empty(), "{cached:?}");
    let bandwidth = found(|n, t, sample| {
        swing(n, sample);
        sample.io_waiting = Some(0.4 * t);
        sample.shared_reads = Some(2_000.0 * t);
        sample.shared_read_bytes = Some(2_000.0 * 1_048_576.0 * t);
    });
    assert_eq!(bandwidth, ["GPU_WAITS_BANDWIDTH"]);
}

#[test]
fn small_files_are_seen_by_the_machines_disks_where_cgroups_do_not_count() {
    let codes = found(|n, t, sample| {
        swing(n, sample);
        small_reads(t, sample);
        (sample.shared_reads, sample.shared_read_bytes) = (None, None);
        sample.shared_metadata = None;
        (sample.disk_reads, sample.disk_read_bytes) = (None, None);
        sample.machine_reads = Some(2_000.0 * t);
        sample.machine_read_bytes = Some(2_000.0 * 8_192.0 * t);
    });
    assert_eq!(codes, ["GPU_WAITS_SMALL_FILES"]);
}

#[test]
fn a_job_without_gpus_waits_for_small_files_too() {
    let loader = |wait: f64| {
        found(move |_, t, sample| {
            sample.gpus.clear();
            small_reads(t, sample);
            sample.io_waiting = Some(wait * t);
            sample.cpu_seconds = Some(1.0 * t);
        })
    };
    assert_eq!(loader(0.4), ["SMALL_FILES"]);
    assert!(loader(0.1).is_empty());
}

#[test]
fn gpus_that_wait_for_cpus_or_for_data_of_neither_size() {
    let cpu = |use_of_four: f64| {
        found(move |n, t, sample| {
            swing(n, sample);
            sample.cpu_seconds = Some(use_of_four * t);
        })
    };
    assert_eq!(cpu(3.9), ["GPU_WAITS_CPU"]);
    assert!(cpu(3.0).is_empty());
    let data = |wait: f64| {
        found(move |n, t, sample| {
            swing(n, sample);
            sample.io_waiting = Some(wait * t);
            sample.disk_reads = Some(100.0 * t);
            sample.disk_read_bytes = Some(100.0 * 131_072.0 * t);
        })
    };
    assert_eq!(data(0.3), ["GPU_WAITS_DATA"]);
    assert!(data(0.15).is_empty());
}

#[test]
fn writing_that_holds_all_up() {
    let checkpoint = |rate: f64| {
        found(move |_, t, sample| {
            sample.io_stalled = Some(0.25 * t);
            sample.io_waiting = Some(0.25 * t);
            sample.disk_written_bytes = Some(rate * t);
            (sample.disk_reads, sample.disk_read_bytes) = (Some(0.1 * t), Some(1e3 * t));
        })
    };
    assert_eq!(checkpoint(1e8), ["CHECKPOINT_STALL"]);
    assert!(checkpoint(1e6).is_empty());
}

#[test]
fn the_network_that_is_taken_and_the_one_there_is() {
    let network = |rdma: Option<f64>| {
        found(move |_, t, sample| {
            sample.ethernet_bytes = Some(5e8 * t);
            sample.rdma_bytes = rdma.map(|rate| rate * t);
        })
    };
    assert_eq!(network(Some(0.0)), ["NCCL_FALLBACK"]);
    // Both carry data, or there is no such port.
    assert!(network(Some(1e8)).is_empty());
    assert!(network(None).is_empty());
}

#[test]
fn gpus_that_are_held_back_by_heat_power_or_their_link() {
    let of = |change: fn(u32, &mut Gpu)| {
        found(move |n, _, sample| sample.gpus.iter_mut().for_each(|gpu| change(n, gpu)))
    };
    assert_eq!(of(|n, gpu| gpu.heat = Some(n.is_multiple_of(5))), ["GPU_HOT"]);
    assert!(of(|n, gpu| gpu.heat = Some(n == 0)).is_empty());
    assert_eq!(of(|n, gpu| gpu.power = Some(!n.is_multiple_of(3))), ["GPU_POWER_LIMIT"]);
    assert!(of(|n, gpu| gpu.power = Some(n.is_multiple_of(3))).is_empty());
    assert_eq!(of(|_, gpu| gpu.from_host = Some(0.8)), ["HOST_TRANSFER"]);
    assert!(of(|_, gpu| gpu.from_host = Some(0.6)).is_empty());
    assert_eq!(of(|_, gpu| gpu.sm_active = Some(0.2)), ["GPU_INEFFICIENT"]);
    assert!(of(|_, gpu| gpu.sm_active = Some(0.35)).is_empty());
}

#[test]
fn gpus_that_are_held_and_not_used() {
    let idle = |memory: f64, instants: u32| {
        let samples: Vec<Sample> = (0..instants)
            .map(|n| {
                let mut sample = healthy(n);
                for gpu in &mut sample.gpus {
                    (gpu.busy, gpu.sm_active, gpu.memory) = (Some(0.0), Some(0.0), Some(memory));
                }
                sample
            })
            .collect();
        diagnose(&samples).findings.iter().map(|f| f.rule).collect::<Vec<_>>()
    };
    assert_eq!(idle(0.0, 61), ["GPU_IDLE"]);
    assert_eq!(idle(0.5, 61), ["GPU_MEMORY_UNUSED"]);
    // Ten minutes may be the loading of a model.
    assert!(idle(0.0, 21).is_empty());
    let uneven =
        |other: f64| found(move |_, _, sample| sample.gpus = vec![gpu("a", 0.9), gpu("b", other)]);
    assert_eq!(uneven(0.3), ["GPU_UNEVEN"]);
    assert!(uneven(0.6).is_empty());
}

#[test]
fn memory_and_cpus_that_are_short() {
    let memory = |stalled: f64, refaults: f64, hits: f64| {
        found(move |_, t, sample| {
            sample.memory_stalled = Some(stalled * t);
            sample.refaults = Some(refaults * t);
            sample.limit_hits = Some(hits * t);
        })
    };
    assert_eq!(memory(0.1, 500.0, 5.0), ["MEMORY_SHORT"]);
    // A full cache alone is what memory is for.
    assert!(memory(0.0, 500.0, 5.0).is_empty());
    assert_eq!(found(|_, _, s| s.memory = Some(15.5e9)), ["NEAR_OUT_OF_MEMORY"]);
    assert!(found(|_, _, s| s.memory = Some(15.0e9)).is_empty());
    assert_eq!(found(|_, t, s| s.cpu_waiting = Some(0.7 * t)), ["CPU_SHORT"]);
    assert!(found(|_, t, s| s.cpu_waiting = Some(0.4 * t)).is_empty());
    assert_eq!(found(|_, t, s| s.io_stalled = Some(0.4 * t)), ["WAITS_IO"]);
    assert!(found(|_, t, s| s.io_stalled = Some(0.2 * t)).is_empty());
}

#[test]
fn what_is_missing_is_said_and_makes_nothing_idle() {
    // MIG: nobody knows the use of the GPU.
    let samples: Vec<Sample> = (0..61)
        .map(|n| {
            let mut sample = healthy(n);
            sample.gpus = vec![Gpu { uuid: "a".to_owned(), ..Gpu::default() }];
            sample
        })
        .collect();
    let report = diagnose(&samples);
    assert_eq!((report.verdict, report.findings.len()), (Verdict::CannotTell, 0));
    assert!(report.missing.contains(&Signal::GpuBusy), "{:?}", report.missing);
}

#[test]
fn a_window_that_is_too_short_or_a_count_that_began_anew_says_nothing() {
    let two: Vec<Sample> = (0..2).map(healthy).collect();
    assert_eq!(diagnose(&two).verdict, Verdict::TooShort);
    let anew = found(|n, t, sample| {
        sample.io_stalled = Some(if n < 30 { 1e6 + t } else { t });
    });
    assert!(anew.is_empty(), "{anew:?}");
}

#[test]
fn numbers_stand_beside_the_finding() {
    let samples: Vec<Sample> = (0..61)
        .map(|n| {
            let mut sample = healthy(n);
            swing(n, &mut sample);
            small_reads(f64::from(n) * 30.0, &mut sample);
            sample
        })
        .collect();
    let report = diagnose(&samples);
    let finding = &report.findings[0];
    assert_eq!(finding.confidence, Confidence::Sure);
    let text = finding.evidence_text();
    assert!(text.contains("time waiting for I/O 40 %, size of a read 8.0 KiB"), "{text}");
    assert!(text.contains("metadata operations for each read 2.0"), "{text}");
}

#[test]
fn every_rule_has_a_code_a_remedy_and_known_replacements() {
    for rule in RULES {
        assert!(!rule.remedy.is_empty() && !rule.title.is_empty());
        for code in rule.replaces {
            assert!(RULES.iter().any(|other| other.code == *code), "{code}");
        }
    }
}
