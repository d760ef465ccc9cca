//! What a GPU does now, in the same terms whoever tells it.

/// What a GPU does now. What its driver does not know is `None`; under MIG that is the use of the
/// whole GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuState {
    /// The vendor's unique id: the only name that is the same everywhere.
    pub uuid: String,
    /// Its number in the vendor's library, in PCI order.
    pub index: Option<u32>,
    /// Its PCI address as the kernel writes it, `0000:3b:00.0`.
    pub pci: Option<String>,
    /// The vendor's name for the product.
    pub product: Option<String>,
    /// The share of time in which any kernel ran, 0 to 1.
    pub busy: Option<f64>,
    /// The share of time in which memory was read or written.
    pub memory_busy: Option<f64>,
    /// The share of cycles in which multiprocessors had work.
    pub sm_active: Option<f64>,
    /// Resident warps against the most there can be.
    pub sm_occupancy: Option<f64>,
    /// The share of cycles in which tensor pipes worked.
    pub tensor_active: Option<f64>,
    /// The share of cycles in which memory moved data.
    pub dram_active: Option<f64>,
    /// Memory, bytes.
    pub memory_total: Option<u64>,
    /// Of that in use.
    pub memory_used: Option<u64>,
    /// Of that free.
    pub memory_free: Option<u64>,
    /// Of that kept by the driver.
    pub memory_reserved: Option<u64>,
    /// Degrees Celsius.
    pub temperature: Option<f64>,
    /// Degrees Celsius, of the memory.
    pub memory_temperature: Option<f64>,
    /// Watts.
    pub power: Option<f64>,
    /// The most it may draw, watts.
    pub power_limit: Option<f64>,
    /// Energy since the driver was loaded, millijoules.
    pub energy_mj: Option<u64>,
    /// MHz.
    pub sm_clock: Option<u64>,
    /// MHz.
    pub memory_clock: Option<u64>,
    /// Why clocks are lower than they could be: NVML's bits.
    pub clock_reasons: Option<u64>,
    /// The share of its fan's speed, 0 to 1.
    pub fan: Option<f64>,
    /// Memory errors that were corrected, since the driver was loaded.
    pub ecc_corrected: Option<u64>,
    /// And those that were not.
    pub ecc_uncorrected: Option<u64>,
    /// Rows replaced after errors that were corrected.
    pub rows_corrected: Option<u64>,
    /// Rows replaced after errors that were not.
    pub rows_uncorrected: Option<u64>,
    /// A row could not be replaced.
    pub row_failure: Option<bool>,
    /// Packets sent again on its PCIe link.
    pub pcie_replays: Option<u64>,
    /// Bytes a second to the host, seen from the GPU.
    pub pcie_tx: Option<f64>,
    /// Bytes a second from the host.
    pub pcie_rx: Option<f64>,
    /// Generation and lanes of its PCIe link now.
    pub pcie_link: Option<(u32, u32)>,
    /// What brings it back: 0 none, 1 reset, 2 reboot, 3 drain its peers, 4 drain and reset.
    pub recovery_action: Option<u8>,
    /// It does not answer, or waits for a reset.
    pub lost: bool,
    /// It is cut into MIG instances.
    pub mig: bool,
    /// Its MIG instances.
    pub instances: Vec<InstanceState>,
    /// Processes on it: number and bytes, where those are known.
    pub processes: Vec<(u32, Option<u64>)>,
}

/// What one MIG instance does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceState {
    /// The GPU instance's number.
    pub id: u32,
    /// Its profile, `1g.10gb`.
    pub profile: Option<String>,
    /// The share of time in which its engines worked; needs two readings.
    pub active: Option<f64>,
    /// Its memory, bytes.
    pub memory_total: Option<u64>,
    /// Of that in use.
    pub memory_used: Option<u64>,
}

/// Bits of NVML's clock reasons that are no slowing down: idle, and clocks an administrator set.
pub const NO_THROTTLE: u64 = 0x1 | 0x2;
/// Bits that tell of power.
pub const POWER_THROTTLE: u64 = 0x4 | 0x80;
/// Bits that tell of heat.
pub const HEAT_THROTTLE: u64 = 0x20 | 0x40;

/// What recovery the driver asks for, by its words.
pub(super) fn recovery_action(word: &str) -> Option<u8> {
    Some(match word {
        "None" => 0,
        "GPU Reset" | "Reset" => 1,
        "Node Reboot" | "Reboot" => 2,
        "Drain P2P" => 3,
        "Drain and Reset" => 4,
        _ => return None,
    })
}

/// NVIDIA writes the domain with eight digits, the kernel with four, in lower case; messages leave
/// out the function.
pub fn short_address(address: &str) -> String {
    let lower = address.trim().to_lowercase();
    let lower = match lower.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 && domain.is_ascii() && rest.contains(':') => {
            format!("{}:{rest}", &domain[domain.len() - 4..])
        }
        _ => lower,
    };
    match lower.rsplit_once(':') {
        Some((_, device)) if !device.contains('.') => format!("{lower}.0"),
        _ => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::short_address;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        for (said, wanted) in [
            ("00000000:C1:00.0", "0000:c1:00.0"),
            ("0000:c1:00", "0000:c1:00.0"),
            ("0002:01:00", "0002:01:00.0"),
            ("10000000:01:00.1", "0000:01:00.1"),
        ] {
            assert_eq!(short_address(said), wanted, "{said}");
        }
    }
}
