//! What `nvidia-smi --query-gpu=… --format=csv` prints, for where its library cannot be loaded.
//!
//! Cells are taken by the name of their column; a word that stands for no value is none, never 0.

use super::state::{GpuState, recovery_action, short_address};
use crate::files::{ReadError, Skipped};

/// What is asked for. A name that the driver does not know makes the whole command fail, so only
/// those that `--help-query-gpu` lists are sent.
pub const FIELDS: [&str; 24] = [
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "mig.mode.current",
    "utilization.gpu",
    "utilization.memory",
    "memory.total",
    "memory.used",
    "memory.free",
    "memory.reserved",
    "temperature.gpu",
    "temperature.memory",
    "power.draw",
    "power.limit",
    "clocks.current.sm",
    "clocks.current.memory",
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.active",
    "fan.speed",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
    "pcie.link.gen.current",
    "gpu_recovery_action",
];

/// A GPU that says so in a cell does not work.
const LOST: [&str; 3] = ["[Unknown Error]", "[GPU is lost]", "[GPU requires reset]"];

/// How a line begins that stands in the place of a GPU's row, or before all of them.
const NO_HANDLE: &str = "Unable to determine the device handle for GPU";

const MIB: f64 = 1_048_576.0;

/// The fields of [`FIELDS`] that a driver's help lists.
pub fn known_fields(help: &str) -> Vec<&'static str> {
    let listed = |field: &&str| help.contains(&format!("\"{field}\""));
    FIELDS.iter().copied().filter(listed).collect()
}

/// The GPUs of an answer.
///
/// # Errors
/// It has no header and tells of no GPU that is lost.
pub fn parse(text: &str, skipped: &mut Skipped) -> Result<Vec<GpuState>, ReadError> {
    let mut found: Vec<GpuState> = text.lines().filter_map(lost).collect();
    let rest = |line: &&str| !line.trim().is_empty() && lost(line).is_none();
    let mut lines = text.lines().filter(rest);
    let header: Vec<&str> = lines.next().map(columns).unwrap_or_default();
    let names: Vec<&str> =
        header.iter().map(|name| name.split(" [").next().unwrap_or(name)).collect();
    if !names.contains(&"index") && !names.contains(&"uuid") {
        return match found.is_empty() {
            true => Err(ReadError::Garbled("nvidia-smi --query-gpu".to_owned())),
            false => Ok(found),
        };
    }
    for line in lines {
        let cells = columns(line);
        if cells.len() < names.len() {
            skipped.note(line);
            continue;
        }
        found.push(gpu(&names, &cells));
    }
    Ok(found)
}

/// The GPU that a line says cannot be reached any more: by its address, all that is known of it.
fn lost(line: &str) -> Option<GpuState> {
    let words = line.trim().strip_prefix(NO_HANDLE)?.split_whitespace();
    let address = |word: &str| {
        let word = word.trim_matches(':');
        (word.matches(':').count() == 2 && word.contains('.')).then(|| short_address(word))
    };
    let pci = words.take(2).find_map(address);
    Some(GpuState { pci, lost: true, ..GpuState::default() })
}

fn columns(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

fn gpu(names: &[&str], cells: &[&str]) -> GpuState {
    let cell = |name: &str| {
        let at = names.iter().position(|known| *known == name)?;
        cells.get(at).copied().filter(|cell| is_value(cell))
    };
    let number = |name: &str| number(cell(name)?);
    let whole = |name: &str| number(name).map(|value| value as u64);
    let share = |name: &str| number(name).map(|percent| percent / 100.0);
    let bytes = |name: &str| number(name).map(|mib| (mib * MIB) as u64);
    let bits = |name: &str| u64::from_str_radix(cell(name)?.strip_prefix("0x")?, 16).ok();
    GpuState {
        uuid: cell("uuid").unwrap_or_default().to_owned(),
        index: whole("index").map(|index| index as u32),
        pci: cell("pci.bus_id").map(short_address),
        product: cell("name").map(str::to_owned),
        busy: share("utilization.gpu"),
        memory_busy: share("utilization.memory"),
        memory_total: bytes("memory.total"),
        memory_used: bytes("memory.used"),
        memory_free: bytes("memory.free"),
        memory_reserved: bytes("memory.reserved"),
        temperature: number("temperature.gpu"),
        memory_temperature: number("temperature.memory"),
        power: number("power.draw"),
        power_limit: number("power.limit"),
        sm_clock: whole("clocks.current.sm"),
        memory_clock: whole("clocks.current.memory"),
        clock_reasons: bits("clocks_event_reasons.active")
            .or_else(|| bits("clocks_throttle_reasons.active")),
        fan: share("fan.speed"),
        ecc_corrected: whole("ecc.errors.corrected.volatile.total"),
        ecc_uncorrected: whole("ecc.errors.uncorrected.volatile.total"),
        recovery_action: cell("gpu_recovery_action").and_then(recovery_action),
        lost: cells.iter().any(|cell| LOST.contains(cell)),
        mig: cell("mig.mode.current") == Some("Enabled"),
        ..GpuState::default()
    }
}

/// Whether a cell has a value: everything in brackets and `N/A` has none.
pub(super) fn is_value(cell: &str) -> bool {
    !cell.is_empty() && !cell.starts_with('[') && cell != "N/A" && cell != "-"
}

/// The number in front of a unit.
pub(super) fn number(cell: &str) -> Option<f64> {
    let value: f64 = cell.split(' ').next()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{FIELDS, known_fields, parse};
    use crate::files::Skipped;

    fn is(value: Option<f64>, wanted: f64) -> bool {
        value.is_some_and(|value| (value - wanted).abs() < 1e-9)
    }

    #[test]
    fn a_cell_without_a_value_is_none_and_no_gpu_is_idle_for_that() {
        let text = "index, uuid, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], temperature.gpu, power.draw [W], fan.speed [%], gpu_recovery_action
0, GPU-0a000000-1111-2222-3333-000000000001, 31 %, 12 %, 20481 MiB, 40960 MiB, 47, 142.40 W, [N/A], None
1, GPU-0a000000-1111-2222-3333-000000000002, [N/A], [N/A], 75 MiB, 40960 MiB, 36, 61.05 W, [N/A], None
2, GPU-0a000000-1111-2222-3333-000000000003, [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], GPU Reset
3, half a line";
        let mut skipped = Skipped::default();
        let found = parse(text, &mut skipped).expect("gpus");
        assert_eq!((found.len(), skipped.count), (3, 1));
        assert!(is(found[0].busy, 0.31) && is(found[0].power, 142.4));
        assert_eq!((found[0].memory_used, found[0].fan), (Some(20_481 << 20), None));
        assert_eq!((found[1].busy, found[1].lost), (None, false));
        assert_eq!(
            (found[2].memory_used, found[2].lost, found[2].recovery_action),
            (None, true, Some(1))
        );
        assert!(parse("", &mut skipped).is_err() && parse("x, y\n1, 2", &mut skipped).is_err());
    }

    #[test]
    fn a_gpu_that_is_lost_takes_no_other_with_it() {
        let row = "index, uuid, temperature.gpu\n0, GPU-a, 40\n";
        // As drivers of several years write it; the last words differ.
        for line in [
            "Unable to determine the device handle for GPU 0000:C1:00.0: GPU is lost.  Reboot",
            "Unable to determine the device handle for GPU0000:C1:00.0: Unknown Error",
            "Unable to determine the device handle for GPU1: 0000:C1:00.0: Unknown Error",
        ] {
            let mut skipped = Skipped::default();
            for text in [format!("{line}\n{row}"), format!("{row}{line}\n")] {
                let found = parse(&text, &mut skipped).expect("gpus");
                let told: Vec<_> =
                    found.iter().map(|gpu| (gpu.lost, gpu.pci.as_deref(), &*gpu.uuid)).collect();
                assert_eq!(told, [(true, Some("0000:c1:00.0"), ""), (false, None, "GPU-a")]);
            }
            // Some say nothing else.
            assert!(parse(line, &mut skipped).expect("gpus")[0].lost);
            assert_eq!(skipped.count, 0);
        }
        let bare = "Unable to determine the device handle for GPU";
        assert_eq!(parse(bare, &mut Skipped::default()).expect("gpus")[0].pci, None);
    }

    #[test]
    fn m04_words_for_no_value_differ_and_cost_nothing_else() {
        let text = "index, uuid, utilization.gpu [%], utilization.memory [%], fan.speed [%], memory.used [MiB], temperature.gpu
3, GPU-04, [N/A], 14 %, [Not Supported], [Insufficient Permissions], 51";
        let mut skipped = Skipped::default();
        let gpu = parse(text, &mut skipped).expect("gpus").remove(0);
        assert!(is(gpu.memory_busy, 0.14) && is(gpu.temperature, 51.0));
        assert_eq!((gpu.busy, gpu.fan, gpu.memory_used), (None, None, None));
        assert_eq!((skipped.count, gpu.lost), (0, false));
    }

    #[test]
    fn older_drivers_name_clock_reasons_otherwise_and_only_known_fields_are_asked_for() {
        let text = "uuid, clocks_throttle_reasons.active, clocks.current.sm [MHz]\nGPU-1, 0x0000000000000024, 1410 MHz";
        let gpu = parse(text, &mut Skipped::default()).expect("gpus").remove(0);
        assert_eq!((gpu.clock_reasons, gpu.sm_clock), (Some(0x24), Some(1_410)));
        let help = "\"index\"\nSection about \"uuid\" or \"gpu_uuid\"\n\"power.draw\"";
        assert_eq!(known_fields(help), ["index", "uuid", "power.draw"]);
        assert!(known_fields("").is_empty() && FIELDS.len() > 3);
    }
}
