//! The machine: CPUs, memory, pressure, disks, networks.

const CPU_MODE: &[&str] = &["cpu", "mode"];
const NONE: &[&str] = &[];
const DEVICE: &[&str] = &["device"];
const DIRECTION: &[&str] = &["device", "direction"];
const DEVICE_REASON: &[&str] = &["device", "reason"];
const MOUNTED: &[&str] = &["device", "fstype", "mountpoint"];
const PORT: &[&str] = &["device", "port"];
const PORT_COUNTER: &[&str] = &["device", "port", "counter"];
const PROCESS: &[&str] = &["pid", "name"];

families! {
    CPU_SECONDS Counter Node "node_cpu_seconds_total" "seconds" CPU_MODE
        "Time that each CPU spent in each mode."
    CONTEXT_SWITCHES Counter Node "node_context_switches_total" "" NONE
        "Switches between tasks."
    FORKS Counter Node "node_forks_total" "" NONE
        "Processes started."
    BOOT_TIME Gauge Node "node_boot_time_seconds" "seconds" NONE
        "When the machine started, in seconds since 1970."
    PROCS_RUNNING Gauge Node "node_procs_running" "" NONE
        "Tasks that can run now."
    PROCS_BLOCKED Gauge Node "node_procs_blocked" "" NONE
        "Tasks that wait for I/O now."
    LOAD_1 Gauge Node "node_load1" "" NONE
        "Tasks that run or wait to run, on average over a minute."
    LOAD_5 Gauge Node "node_load5" "" NONE
        "Tasks that run or wait to run, on average over five minutes."
    LOAD_15 Gauge Node "node_load15" "" NONE
        "Tasks that run or wait to run, on average over fifteen minutes."
    MEMORY_MEM_TOTAL Gauge Node "node_memory_MemTotal_bytes" "bytes" NONE
        "MemTotal of /proc/meminfo."
    MEMORY_MEM_FREE Gauge Node "node_memory_MemFree_bytes" "bytes" NONE
        "MemFree of /proc/meminfo."
    MEMORY_MEM_AVAILABLE Gauge Node "node_memory_MemAvailable_bytes" "bytes" NONE
        "MemAvailable of /proc/meminfo."
    MEMORY_BUFFERS Gauge Node "node_memory_Buffers_bytes" "bytes" NONE
        "Buffers of /proc/meminfo."
    MEMORY_CACHED Gauge Node "node_memory_Cached_bytes" "bytes" NONE
        "Cached of /proc/meminfo."
    MEMORY_SWAP_CACHED Gauge Node "node_memory_SwapCached_bytes" "bytes" NONE
        "SwapCached of /proc/meminfo."
    MEMORY_SWAP_TOTAL Gauge Node "node_memory_SwapTotal_bytes" "bytes" NONE
        "SwapTotal of /proc/meminfo."
    MEMORY_SWAP_FREE Gauge Node "node_memory_SwapFree_bytes" "bytes" NONE
        "SwapFree of /proc/meminfo."
    MEMORY_DIRTY Gauge Node "node_memory_Dirty_bytes" "bytes" NONE
        "Dirty of /proc/meminfo."
    MEMORY_WRITEBACK Gauge Node "node_memory_Writeback_bytes" "bytes" NONE
        "Writeback of /proc/meminfo."
    MEMORY_ANON_PAGES Gauge Node "node_memory_AnonPages_bytes" "bytes" NONE
        "AnonPages of /proc/meminfo."
    MEMORY_MAPPED Gauge Node "node_memory_Mapped_bytes" "bytes" NONE
        "Mapped of /proc/meminfo."
    MEMORY_SHMEM Gauge Node "node_memory_Shmem_bytes" "bytes" NONE
        "Shmem of /proc/meminfo."
    MEMORY_SLAB Gauge Node "node_memory_Slab_bytes" "bytes" NONE
        "Slab of /proc/meminfo."
    MEMORY_SRECLAIMABLE Gauge Node "node_memory_SReclaimable_bytes" "bytes" NONE
        "SReclaimable of /proc/meminfo."
    MEMORY_SUNRECLAIM Gauge Node "node_memory_SUnreclaim_bytes" "bytes" NONE
        "SUnreclaim of /proc/meminfo."
    MEMORY_PAGE_TABLES Gauge Node "node_memory_PageTables_bytes" "bytes" NONE
        "PageTables of /proc/meminfo."
    MEMORY_COMMIT_LIMIT Gauge Node "node_memory_CommitLimit_bytes" "bytes" NONE
        "CommitLimit of /proc/meminfo."
    MEMORY_COMMITTED_AS Gauge Node "node_memory_Committed_AS_bytes" "bytes" NONE
        "Committed_AS of /proc/meminfo."
    SWAPPED_IN Counter Node "node_vmstat_pswpin" "" NONE
        "Pages swapped in."
    SWAPPED_OUT Counter Node "node_vmstat_pswpout" "" NONE
        "Pages swapped out."
    MAJOR_FAULTS Counter Node "node_vmstat_pgmajfault" "" NONE
        "Pages read from a disk before a task could go on."
    OOM_KILLS Counter Node "node_vmstat_oom_kill" "" NONE
        "Tasks killed because memory was out."
    PRESSURE_CPU_SOME Counter Node "node_pressure_cpu_waiting_seconds_total" "seconds" NONE
        "Time in which some task had no CPU."
    PRESSURE_MEMORY_SOME Counter Node "node_pressure_memory_waiting_seconds_total" "seconds" NONE
        "Time in which some task waited for memory."
    PRESSURE_MEMORY_FULL Counter Node "node_pressure_memory_stalled_seconds_total" "seconds" NONE
        "Time in which no task could go on for want of memory."
    PRESSURE_IO_SOME Counter Node "node_pressure_io_waiting_seconds_total" "seconds" NONE
        "Time in which some task waited for I/O."
    PRESSURE_IO_FULL Counter Node "node_pressure_io_stalled_seconds_total" "seconds" NONE
        "Time in which no task could go on because of I/O."
    DISK_READS Counter Node "node_disk_reads_completed_total" "" DEVICE
        "Reads finished."
    DISK_READS_MERGED Counter Node "node_disk_reads_merged_total" "" DEVICE
        "Reads merged into others."
    DISK_READ_BYTES Counter Node "node_disk_read_bytes_total" "bytes" DEVICE
        "Bytes read."
    DISK_READ_SECONDS Counter Node "node_disk_read_time_seconds_total" "seconds" DEVICE
        "Time that reads took together."
    DISK_WRITES Counter Node "node_disk_writes_completed_total" "" DEVICE
        "Writes finished."
    DISK_WRITES_MERGED Counter Node "node_disk_writes_merged_total" "" DEVICE
        "Writes merged into others."
    DISK_WRITTEN_BYTES Counter Node "node_disk_written_bytes_total" "bytes" DEVICE
        "Bytes written."
    DISK_WRITE_SECONDS Counter Node "node_disk_write_time_seconds_total" "seconds" DEVICE
        "Time that writes took together."
    DISK_BUSY_SECONDS Counter Node "node_disk_io_time_seconds_total" "seconds" DEVICE
        "Time in which at least one request was under way."
    DISK_WEIGHTED_SECONDS Counter Node "node_disk_io_time_weighted_seconds_total" "seconds" DEVICE
        "Time, each second times the requests under way in it."
    DISK_DISCARDS Counter Node "node_disk_discards_completed_total" "" DEVICE
        "Discards finished."
    DISK_DISCARDS_MERGED Counter Node "node_disk_discards_merged_total" "" DEVICE
        "Discards merged into others."
    DISK_DISCARDED_SECTORS Counter Node "node_disk_discarded_sectors_total" "" DEVICE
        "Sectors of 512 bytes discarded."
    DISK_DISCARD_SECONDS Counter Node "node_disk_discard_time_seconds_total" "seconds" DEVICE
        "Time that discards took together."
    DISK_FLUSHES Counter Node "node_disk_flush_requests_total" "" DEVICE
        "Flushes finished."
    DISK_FLUSH_SECONDS Counter Node "node_disk_flush_requests_time_seconds_total" "seconds" DEVICE
        "Time that flushes took together."
    DISK_NOW Gauge Node "node_disk_io_now" "" DEVICE
        "Requests under way now."
    SPACE_SIZE Gauge Node "node_filesystem_size_bytes" "bytes" MOUNTED
        "How large a filesystem is."
    SPACE_FREE Gauge Node "node_filesystem_free_bytes" "bytes" MOUNTED
        "What is not in use of it."
    SPACE_AVAILABLE Gauge Node "node_filesystem_avail_bytes" "bytes" MOUNTED
        "What others than root may still use of it."
    SPACE_INODES Gauge Node "node_filesystem_files" "" MOUNTED
        "Its inodes; no series where it makes them as they are needed."
    SPACE_INODES_FREE Gauge Node "node_filesystem_files_free" "" MOUNTED
        "Its inodes that are free."
    SPACE_READ_ONLY Gauge Node "node_filesystem_readonly" "" MOUNTED
        "1 where it takes no writes."
    SPACE_ERROR Gauge Node "node_filesystem_device_error" "" MOUNTED
        "1 where it does not answer."
    NETWORK_RX_BYTES Counter Node "node_network_receive_bytes_total" "bytes" DEVICE
        "Bytes that came."
    NETWORK_RX_PACKETS Counter Node "node_network_receive_packets_total" "" DEVICE
        "Packets that came."
    NETWORK_RX_ERRS Counter Node "node_network_receive_errs_total" "" DEVICE
        "Packets that came broken."
    NETWORK_RX_DROP Counter Node "node_network_receive_drop_total" "" DEVICE
        "Packets that came and were thrown away."
    NETWORK_RX_FIFO Counter Node "node_network_receive_fifo_total" "" DEVICE
        "Packets that came faster than they were taken."
    NETWORK_RX_FRAME Counter Node "node_network_receive_frame_total" "" DEVICE
        "Packets whose frame was broken."
    NETWORK_RX_COMPRESSED Counter Node "node_network_receive_compressed_total" "" DEVICE
        "Compressed packets that came."
    NETWORK_RX_MULTICAST Counter Node "node_network_receive_multicast_total" "" DEVICE
        "Packets to many that came."
    NETWORK_TX_BYTES Counter Node "node_network_transmit_bytes_total" "bytes" DEVICE
        "Bytes that went."
    NETWORK_TX_PACKETS Counter Node "node_network_transmit_packets_total" "" DEVICE
        "Packets that went."
    NETWORK_TX_ERRS Counter Node "node_network_transmit_errs_total" "" DEVICE
        "Packets that could not go."
    NETWORK_TX_DROP Counter Node "node_network_transmit_drop_total" "" DEVICE
        "Packets thrown away before they went."
    NETWORK_TX_FIFO Counter Node "node_network_transmit_fifo_total" "" DEVICE
        "Packets lost in the sending queue."
    NETWORK_TX_COLLS Counter Node "node_network_transmit_colls_total" "" DEVICE
        "Collisions."
    NETWORK_TX_CARRIER Counter Node "node_network_transmit_carrier_total" "" DEVICE
        "Packets lost with the carrier."
    NETWORK_TX_COMPRESSED Counter Node "node_network_transmit_compressed_total" "" DEVICE
        "Compressed packets that went."
    NETWORK_CARRIER_CHANGES Counter Node "node_network_carrier_changes_total" "" DEVICE
        "How often the carrier came or went."
    NETWORK_UP Gauge Node "node_network_up" "" DEVICE
        "1 where the interface is up."
    NETWORK_CARRIER Gauge Node "node_network_carrier" "" DEVICE
        "1 where there is a carrier."
    NETWORK_SPEED Gauge Node "node_network_speed_bytes" "bytes" DEVICE
        "Bytes a second in one direction; no series where nobody knows."
    NETWORK_MTU Gauge Node "node_network_mtu_bytes" "bytes" DEVICE
        "The largest packet."
    IB_TX_BYTES Counter Node "node_infiniband_port_data_transmitted_bytes_total" "bytes" PORT
        "Bytes sent."
    IB_RX_BYTES Counter Node "node_infiniband_port_data_received_bytes_total" "bytes" PORT
        "Bytes received."
    IB_TX_PACKETS Counter Node "node_infiniband_port_packets_transmitted_total" "" PORT
        "Packets sent."
    IB_RX_PACKETS Counter Node "node_infiniband_port_packets_received_total" "" PORT
        "Packets received."
    IB_TX_WAIT Counter Node "node_infiniband_port_transmit_wait_total" "" PORT
        "Ticks of the device with data to send and no credit."
    IB_TX_DISCARDS Counter Node "node_infiniband_port_discards_transmitted_total" "" PORT
        "Packets thrown away before they went."
    IB_RX_ERRORS Counter Node "node_infiniband_port_errors_received_total" "" PORT
        "Packets that came broken."
    IB_LINK_DOWNED Counter Node "node_infiniband_link_downed_total" "" PORT
        "How often the link went down."
    IB_LINK_RECOVERY Counter Node "node_infiniband_link_error_recovery_total" "" PORT
        "How often the link recovered from an error."
    IB_SYMBOL_ERROR Counter Node "node_infiniband_symbol_error_total" "" PORT
        "Errors of symbols."
    IB_INTEGRITY Counter Node "node_infiniband_local_link_integrity_errors_total" "" PORT
        "Local errors of the link beyond its threshold."
    IB_OVERRUN Counter Node "node_infiniband_excessive_buffer_overrun_errors_total" "" PORT
        "Overruns of buffers one after the other."
    IB_VL15 Counter Node "node_infiniband_vl15_dropped_total" "" PORT
        "Management packets thrown away."
    IB_RATE Gauge Node "node_infiniband_rate_bytes_per_second" "bytes per second" PORT
        "Bytes a second that the link carries in one direction."
    IB_ACTIVE Gauge Muster "muster_infiniband_active" "" PORT
        "1 where data can flow."
    IB_DEVICE Counter Muster "muster_infiniband_device_total" "" PORT_COUNTER
        "Counters of the device itself (hw_counters), by their names."
    SPEED_UNKNOWN Gauge Muster "muster_network_speed_unknown" "" DEVICE
        "1 where an interface has a carrier and nobody knows its speed."
    SPEED_MAX Gauge Muster "muster_network_speed_max_bytes" "bytes" DEVICE
        "Bytes a second in one direction of the fastest link that a card can do."
    PAUSE_ENABLED Gauge Muster "muster_network_pause_enabled" "" DIRECTION
        "1 where a card waits when asked (receive), or asks the other end to wait (transmit)."
    PAUSE_FRAMES Counter Muster "muster_network_pause_frames_total" "" DIRECTION
        "How often a card was asked to wait (receive), or asked (transmit)."
    RING Gauge Muster "muster_network_ring_packets" "packets" DIRECTION
        "Packets that fit into a card's ring."
    RING_MAX Gauge Muster "muster_network_ring_max_packets" "packets" DIRECTION
        "Packets that could fit into a card's ring at most."
    LINK_DOWN Gauge Muster "muster_network_link_down" "" DEVICE_REASON
        "1 where a card tells why it has no link."
    PROCESS_READ Counter Muster "muster_process_read_bytes_total" "bytes" PROCESS
        "Bytes that a process had read from disks, of those that moved most."
    PROCESS_WRITTEN Counter Muster "muster_process_written_bytes_total" "bytes" PROCESS
        "Bytes that a process had written to disks, of those that moved most."
}
