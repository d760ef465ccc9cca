//! What `nvidia-smi -q -x` prints: what the table has, and MIG instances and processes with it.
//!
//! The document type changes with each driver and is not held against it.

use roxmltree::{Document, Node, ParsingOptions};

use super::smi_csv::{is_value, number};
use super::state::{GpuState, InstanceState, recovery_action, short_address};
use crate::files::ReadError;

const MIB: f64 = 1_048_576.0;

/// The GPUs of an answer.
///
/// # Errors
/// It is no XML.
pub fn parse(text: &str) -> Result<Vec<GpuState>, ReadError> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: 1_000_000, ..Default::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| ReadError::Failed("nvidia-smi -q -x".to_owned(), error.to_string()))?;
    let gpus = document.root_element().children().filter(|node| node.has_tag_name("gpu"));
    Ok((0..).zip(gpus).map(|(index, node)| gpu(index, node)).collect())
}

/// The element at a path of names.
fn at<'a, 'b>(node: Node<'a, 'b>, path: &str) -> Option<Node<'a, 'b>> {
    path.split('/').try_fold(node, |node, name| node.children().find(|n| n.has_tag_name(name)))
}

/// The text of the first of these paths that has a value.
fn value<'a>(node: Node<'a, '_>, paths: &[&str]) -> Option<&'a str> {
    let text = |path: &&str| at(node, path)?.text().map(str::trim).filter(|text| is_value(text));
    paths.iter().find_map(text)
}

fn gpu(index: u32, node: Node<'_, '_>) -> GpuState {
    let amount = |paths: &[&str]| number(value(node, paths)?);
    let whole = |paths: &[&str]| amount(paths).map(|value| value as u64);
    let share = |paths: &[&str]| amount(paths).map(|percent| percent / 100.0);
    let bytes = |paths: &[&str]| amount(paths).map(|mib| (mib * MIB) as u64);
    let mig = value(node, &["mig_mode/current_mig"]) == Some("Enabled");
    GpuState {
        uuid: value(node, &["uuid"]).unwrap_or_default().to_owned(),
        index: Some(index),
        pci: node.attribute("id").map(short_address),
        product: value(node, &["product_name"]).map(str::to_owned),
        busy: share(&["utilization/gpu_util"]),
        memory_busy: share(&["utilization/memory_util"]),
        memory_total: bytes(&["fb_memory_usage/total"]),
        memory_used: bytes(&["fb_memory_usage/used"]),
        memory_free: bytes(&["fb_memory_usage/free"]),
        memory_reserved: bytes(&["fb_memory_usage/reserved"]),
        temperature: amount(&["temperature/gpu_temp"]),
        memory_temperature: amount(&["temperature/memory_temp"]),
        power: amount(&[
            "gpu_power_readings/instant_power_draw",
            "gpu_power_readings/power_draw",
            "power_readings/power_draw",
        ]),
        power_limit: amount(&[
            "gpu_power_readings/current_power_limit",
            "power_readings/power_limit",
        ]),
        sm_clock: whole(&["clocks/sm_clock"]),
        memory_clock: whole(&["clocks/mem_clock"]),
        fan: share(&["fan_speed"]),
        ecc_corrected: whole(&["ecc_errors/volatile/dram_correctable"]),
        ecc_uncorrected: whole(&["ecc_errors/volatile/dram_uncorrectable"]),
        rows_corrected: whole(&["remapped_rows/remapped_row_corr"]),
        rows_uncorrected: whole(&["remapped_rows/remapped_row_unc"]),
        row_failure: value(node, &["remapped_rows/remapped_row_failure"]).map(|word| word == "Yes"),
        pcie_replays: whole(&["pci/replay_counter"]),
        recovery_action: value(node, &["gpu_recovery_action"]).and_then(recovery_action),
        mig,
        instances: if mig { instances(node) } else { Vec::new() },
        processes: processes(node),
        ..GpuState::default()
    }
}

fn instances(node: Node<'_, '_>) -> Vec<InstanceState> {
    let Some(all) = at(node, "mig_devices") else { return Vec::new() };
    all.children()
        .filter(|node| node.has_tag_name("mig_device"))
        .filter_map(|node| {
            let bytes = |path| Some((number(value(node, &[path])?)? * MIB) as u64);
            Some(InstanceState {
                id: value(node, &["gpu_instance_id"])?.parse().ok()?,
                memory_total: bytes("fb_memory_usage/total"),
                memory_used: bytes("fb_memory_usage/used"),
                ..InstanceState::default()
            })
        })
        .collect()
}

fn processes(node: Node<'_, '_>) -> Vec<(u32, Option<u64>)> {
    let Some(all) = at(node, "processes") else { return Vec::new() };
    all.children()
        .filter(|node| node.has_tag_name("process_info"))
        .filter_map(|node| {
            let used = value(node, &["used_memory"]).and_then(number);
            let pid = value(node, &["pid"])?.parse().ok()?;
            Some((pid, used.map(|mib| (mib * MIB) as u64)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn instances_and_processes_are_read_with_the_rest() {
        let text = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>550.1</driver_version>
  <gpu id="00000000:C1:00.0">
    <product_name>NVIDIA A100</product_name><uuid>GPU-a</uuid>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <mig_devices><mig_device><index>0</index><gpu_instance_id>9</gpu_instance_id>
      <fb_memory_usage><total>9856 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device></mig_devices>
    <fb_memory_usage><total>40960 MiB</total><reserved>600 MiB</reserved><used>100 MiB</used><free>40260 MiB</free></fb_memory_usage>
    <utilization><gpu_util>N/A</gpu_util><memory_util>N/A</memory_util></utilization>
    <power_readings><power_draw>61.05 W</power_draw></power_readings>
    <remapped_rows><remapped_row_unc>1</remapped_row_unc><remapped_row_failure>No</remapped_row_failure></remapped_rows>
    <processes><process_info><pid>77</pid><used_memory>N/A</used_memory></process_info>
      <process_info><pid>78</pid><used_memory>5 MiB</used_memory></process_info></processes>
  </gpu>
</nvidia_smi_log>"#;
        let gpu = parse(text).expect("gpus").remove(0);
        assert_eq!((gpu.pci.as_deref(), gpu.busy, gpu.mig), (Some("0000:c1:00.0"), None, true));
        assert_eq!((gpu.memory_reserved, gpu.power), (Some(600 << 20), Some(61.05)));
        assert_eq!((gpu.instances[0].id, gpu.instances[0].memory_used), (9, Some(12 << 20)));
        assert_eq!(gpu.processes, [(77, None), (78, Some(5 << 20))]);
        assert_eq!((gpu.rows_uncorrected, gpu.row_failure), (Some(1), Some(false)));
        assert!(parse("no xml").is_err());
    }
}
