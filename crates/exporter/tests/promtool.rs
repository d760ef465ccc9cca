//! What Prometheus itself says of the exposition and the rules, where it is installed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use muster_exporter::{Owners, Settings, exposition, rules};
use muster_node_metrics::collector::{Collector, Options};

/// Whether there is a promtool; prints why a test does nothing where there is none.
fn has_promtool() -> bool {
    let there = Command::new("promtool").arg("--version").output().is_ok();
    if !there {
        println!("skipped: promtool is not installed (Debian's package prometheus)");
    }
    there
}

fn captured() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captured/gpu-node");
    let options = Options { root, processes: true, ..Options::default() };
    exposition(&Collector::new(&options).collect(), &Owners::default(), &Settings::default()).text()
}

#[test]
fn promtool_reads_the_exposition_and_lints_what_is_ours() {
    if !has_promtool() {
        return;
    }
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("promtool");
    child.stdin.take().expect("stdin").write_all(captured().as_bytes()).expect("written");
    let answer = child.wait_with_output().expect("answer");
    let said = String::from_utf8_lossy(&answer.stderr).into_owned()
        + &String::from_utf8_lossy(&answer.stdout);
    // 3 is what it ends with where it read all and does not like a name; the names of others
    // (DCGM's, cgroup_exporter's) are theirs to keep.
    assert!(matches!(answer.status.code(), Some(0 | 3)), "{said}");
    assert!(!said.to_lowercase().contains("error while linting"), "{said}");
    let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("muster_")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[test]
fn promtool_accepts_the_rules() {
    if !has_promtool() {
        return;
    }
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("rules.yml");
    std::fs::write(&file, rules()).expect("written");
    let answer = Command::new("promtool").args(["check", "rules"]).arg(&file).output();
    let answer = answer.expect("promtool");
    let said = String::from_utf8_lossy(&answer.stdout).into_owned()
        + &String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success() && said.contains("SUCCESS"), "{said}");
}

/// Alerts fire on what they are for and stay silent beside it.
#[test]
fn promtool_sees_the_alerts_fire() {
    if !has_promtool() {
        return;
    }
    let directory = tempfile::tempdir().expect("directory");
    std::fs::write(directory.path().join("rules.yml"), rules()).expect("written");
    let tests = r#"
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'muster_gpu_xid_total{instance="a",pci_bus_id="p",xid="79",class="drain_reboot"}', values: '0x5 1x20'}
      - {series: 'muster_gpu_xid_total{instance="b",pci_bus_id="q",xid="95",class="drain_reset"}', values: '_x24 1x20'}
      - {series: 'muster_gpu_xid_total{instance="a",pci_bus_id="p",xid="31",class="application"}', values: '0+1x25'}
      - {series: 'DCGM_FI_DEV_GPU_UTIL{instance="a",gpu="0",hpc_job="7"}', values: '0x40'}
      - {series: 'DCGM_FI_DEV_GPU_UTIL{instance="a",gpu="1"}', values: '0x40'}
      - {series: 'DCGM_FI_DEV_GPU_UTIL{instance="a",gpu="2",hpc_job="8"}', values: '0x20 1x20'}
    alert_rule_test:
      - eval_time: 4m
        alertname: MusterGpuNeedsDrain
        exp_alerts: []
      - eval_time: 8m
        alertname: MusterGpuNeedsDrain
        exp_alerts:
          - exp_labels: {severity: critical, instance: a, pci_bus_id: p, xid: "79", class: drain_reboot}
            exp_annotations:
              summary: "Xid 79 on GPU p of a"
              description: "Drain the node; reset the GPU, or start the machine anew for drain_reboot."
      - eval_time: 26m
        alertname: MusterGpuNeedsDrain
        exp_alerts:
          - exp_labels: {severity: critical, instance: b, pci_bus_id: q, xid: "95", class: drain_reset}
            exp_annotations:
              summary: "Xid 95 on GPU q of b"
              description: "Drain the node; reset the GPU, or start the machine anew for drain_reboot."
      - eval_time: 44m
        alertname: MusterGpuNeedsDrain
        exp_alerts: []
      - eval_time: 38m
        alertname: MusterGpuHeldIdle
        exp_alerts:
          - exp_labels: {severity: info, instance: a, gpu: "0", hpc_job: "7"}
            exp_annotations:
              summary: "Job 7 holds GPU 0 of a and does not use it"
              description: "Ask its owner; `muster job` names them."
"#;
    let file = directory.path().join("tests.yml");
    std::fs::write(&file, tests).expect("written");
    let answer = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
    let answer = answer.expect("promtool");
    let said = String::from_utf8_lossy(&answer.stdout).into_owned()
        + &String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{said}");
}
