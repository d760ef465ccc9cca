//! AMD's GPUs by `amdgpu`'s files in `/sys/class/drm`.

use std::path::Path;

use super::state::GpuState;
use crate::files::{ReadError, names, number, text};

const CLASS: &str = "sys/class/drm";

/// Every GPU that `amdgpu` drives.
///
/// # Errors
/// There is none.
pub fn gpus(root: &Path) -> Result<Vec<GpuState>, ReadError> {
    let is_card = |name: &String| {
        name.strip_prefix("card").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let found: Vec<GpuState> = names(root, CLASS)
        .into_iter()
        .filter(is_card)
        .filter_map(|name| gpu(root, &format!("{CLASS}/{name}/device")))
        .collect();
    if found.is_empty() { Err(ReadError::Absent(CLASS.to_owned())) } else { Ok(found) }
}

fn gpu(root: &Path, base: &str) -> Option<GpuState> {
    if text(root, &format!("{base}/vendor"))? != "0x1002" {
        return None;
    }
    let of = |file: &str| number::<u64>(root, &format!("{base}/{file}"));
    let address = std::fs::read_link(root.join(base)).ok();
    let pci = address.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    let unique = text(root, &format!("{base}/unique_id")).filter(|id| !id.is_empty());
    let sensors = names(root, &format!("{base}/hwmon"));
    let sensor = |file: &str| {
        sensors.iter().find_map(|name| number::<u64>(root, &format!("{base}/hwmon/{name}/{file}")))
    };
    let percent = |file: &str| of(file).map(|percent| percent as f64 / 100.0);
    let (total, used) = (of("mem_info_vram_total"), of("mem_info_vram_used"));
    // Partitions but the first have no sensors and say 0 watts.
    let power = sensor("power1_average").or_else(|| sensor("power1_input")).filter(|uw| *uw > 0);
    Some(GpuState {
        uuid: match (unique, &pci) {
            (Some(id), _) => format!("GPU-{id}"),
            (None, Some(pci)) => pci.clone(),
            (None, None) => base.to_owned(),
        },
        pci,
        product: text(root, &format!("{base}/product_name")).filter(|name| !name.is_empty()),
        busy: percent("gpu_busy_percent"),
        memory_busy: percent("mem_busy_percent"),
        memory_total: total,
        memory_used: used,
        memory_free: total.zip(used).map(|(total, used)| total.saturating_sub(used)),
        temperature: sensor("temp1_input").map(|milli| milli as f64 / 1e3),
        memory_temperature: sensor("temp3_input").map(|milli| milli as f64 / 1e3),
        power: power.map(|micro| micro as f64 / 1e6),
        power_limit: sensor("power1_cap").map(|micro| micro as f64 / 1e6),
        sm_clock: sensor("freq1_input").map(|hertz| hertz / 1_000_000),
        memory_clock: sensor("freq2_input").map(|hertz| hertz / 1_000_000),
        pcie_replays: of("pcie_replay_count"),
        ..GpuState::default()
    })
}

#[cfg(test)]
mod tests {
    use super::gpus;
    use crate::test_tree::tree;

    #[test]
    fn sensors_are_read_and_no_sensor_is_no_watts() {
        let root = tree(
            r"
            sys/class/drm/card0/device/vendor: 0x10de
            sys/class/drm/card1/device/vendor: 0x1002
            sys/class/drm/card1/device/unique_id: a1b2
            sys/class/drm/card1/device/gpu_busy_percent: 75
            sys/class/drm/card1/device/mem_info_vram_total: 1000
            sys/class/drm/card1/device/mem_info_vram_used: 400
            sys/class/drm/card1/device/hwmon/hwmon3/temp1_input: 45500
            sys/class/drm/card1/device/hwmon/hwmon3/power1_average: 250000000
            sys/class/drm/card1/device/hwmon/hwmon3/freq1_input: 1700000000
            sys/class/drm/card1-DP-1/status: disconnected
            sys/class/drm/card2/device/vendor: 0x1002
            sys/class/drm/card2/device/hwmon/hwmon4/power1_average: 0
            ",
        );
        let found = gpus(root.path()).expect("gpus");
        assert_eq!(found.len(), 2);
        let gpu = &found[0];
        assert_eq!(
            (gpu.uuid.as_str(), gpu.busy, gpu.memory_free),
            ("GPU-a1b2", Some(0.75), Some(600))
        );
        assert_eq!(
            (gpu.temperature, gpu.power, gpu.sm_clock),
            (Some(45.5), Some(250.0), Some(1_700))
        );
        assert_eq!((found[1].power, found[1].busy), (None, None));
        assert!(gpus("/nowhere".as_ref()).is_err());
    }
}
