//! GPUs.

const GPU: &[&str] =
    &["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "hostname", "hpc_job"];
const GPU_PART: &[&str] = &[
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "Hostname",
    "hostname",
    "hpc_job",
    "GPU_I_ID",
    "GPU_I_PROFILE",
];
const XID: &[&str] = &["pci_bus_id", "UUID", "xid", "class"];
const GPU_UUID: &[&str] = &["gpu", "UUID"];

families! {
    GPU_UTIL Gauge Dcgm "DCGM_FI_DEV_GPU_UTIL" "percent" GPU
        "Per cent of time in which any kernel ran."
    GPU_MEM_COPY Gauge Dcgm "DCGM_FI_DEV_MEM_COPY_UTIL" "percent" GPU
        "Per cent of time in which memory was read or written."
    GPU_FB_USED Gauge Dcgm "DCGM_FI_DEV_FB_USED" "MiB" GPU_PART
        "Memory in use."
    GPU_FB_FREE Gauge Dcgm "DCGM_FI_DEV_FB_FREE" "MiB" GPU
        "Memory that is free."
    GPU_FB_RESERVED Gauge Dcgm "DCGM_FI_DEV_FB_RESERVED" "MiB" GPU
        "Memory that the driver keeps."
    GPU_SM_CLOCK Gauge Dcgm "DCGM_FI_DEV_SM_CLOCK" "MHz" GPU
        "Clock of the multiprocessors."
    GPU_MEM_CLOCK Gauge Dcgm "DCGM_FI_DEV_MEM_CLOCK" "MHz" GPU
        "Clock of the memory."
    GPU_TEMP Gauge Dcgm "DCGM_FI_DEV_GPU_TEMP" "celsius" GPU
        "Temperature."
    GPU_MEMORY_TEMP Gauge Dcgm "DCGM_FI_DEV_MEMORY_TEMP" "celsius" GPU
        "Temperature of the memory."
    GPU_POWER Gauge Dcgm "DCGM_FI_DEV_POWER_USAGE" "watts" GPU
        "Power."
    GPU_ENERGY Counter Dcgm "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" "mJ" GPU
        "Energy since the driver was loaded."
    GPU_REPLAYS Counter Dcgm "DCGM_FI_DEV_PCIE_REPLAY_COUNTER" "" GPU
        "Packets sent again on the PCIe link."
    GPU_XID Gauge Dcgm "DCGM_FI_DEV_XID_ERRORS" "" GPU
        "Number of the last Xid; it stays for ever. Alert on muster_gpu_xid_total."
    GPU_ROWS_UNC Counter Dcgm "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS" "" GPU
        "Rows replaced after errors that were not corrected."
    GPU_ROWS_COR Counter Dcgm "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS" "" GPU
        "Rows replaced after errors that were corrected."
    GPU_ROW_FAILURE Gauge Dcgm "DCGM_FI_DEV_ROW_REMAP_FAILURE" "" GPU
        "1 where a row could not be replaced."
    GPU_ECC_SBE Counter Dcgm "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL" "" GPU
        "Memory errors that were corrected, since the driver was loaded."
    GPU_ECC_DBE Counter Dcgm "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" "" GPU
        "Memory errors that were not corrected, since the driver was loaded."
    GPU_CLOCK_REASONS Gauge Dcgm "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" "" GPU
        "Why clocks are lower than they could be: bits of NVML."
    GPU_GR_ENGINE Gauge Dcgm "DCGM_FI_PROF_GR_ENGINE_ACTIVE" "ratio" GPU_PART
        "Share of time in which the engine worked; the one that works with MIG."
    GPU_SM_ACTIVE Gauge Dcgm "DCGM_FI_PROF_SM_ACTIVE" "ratio" GPU
        "Share of cycles in which multiprocessors had work."
    GPU_SM_OCCUPANCY Gauge Dcgm "DCGM_FI_PROF_SM_OCCUPANCY" "ratio" GPU
        "Resident warps against the most there can be."
    GPU_TENSOR Gauge Dcgm "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" "ratio" GPU
        "Share of cycles in which tensor pipes worked."
    GPU_DRAM Gauge Dcgm "DCGM_FI_PROF_DRAM_ACTIVE" "ratio" GPU
        "Share of cycles in which memory moved data."
    GPU_PCIE_TX Gauge Dcgm "DCGM_FI_PROF_PCIE_TX_BYTES" "bytes per second" GPU
        "Bytes a second to the host."
    GPU_PCIE_RX Gauge Dcgm "DCGM_FI_PROF_PCIE_RX_BYTES" "bytes per second" GPU
        "Bytes a second from the host."
    GPU_XID_COUNT Counter Muster "muster_gpu_xid_total" "" XID
        "Xid messages since the machine started, with what they ask for."
    GPU_XID_LAST Gauge Muster "muster_gpu_xid_last_time_seconds" "seconds" XID
        "When the last one came, in seconds since 1970."
    GPU_LOST Gauge Muster "muster_gpu_lost" "" GPU_UUID
        "1 where a GPU does not answer or waits for a reset."
    GPU_RECOVERY Gauge Muster "muster_gpu_recovery_action" "" GPU_UUID
        "What brings a GPU back: 0 nothing, 1 reset, 2 reboot, 3 drain its peers, 4 drain and \
         reset."
    GPU_POWER_LIMIT Gauge Muster "muster_gpu_power_limit_watts" "watts" GPU_UUID
        "The most power it may draw."
    GPU_MEMORY Gauge Muster "muster_gpu_memory_bytes" "bytes" GPU_UUID
        "Memory of a GPU."
}
