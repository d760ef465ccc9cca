//! What the daemon's machine does with its disks, filesystems and networks.

use crate::LineView;
use muster_model::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The machine between the last two looks at it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MachineView {
    /// When this was made.
    #[schema(value_type = i64)]
    pub now_ms: Timestamp,
    /// How long the looks were apart; none where there was one look, and then there are no rates.
    pub seconds: Option<f64>,
    /// The share of time in which some task waited for a CPU.
    pub cpu_waiting: Option<f64>,
    /// The share in which some task waited for memory.
    pub memory_waiting: Option<f64>,
    /// The share in which some task waited for I/O.
    pub io_waiting: Option<f64>,
    /// Disks, and the mounts of network filesystems.
    pub storage: Vec<StorageView>,
    /// How full filesystems are.
    pub filesystems: Vec<FilesystemView>,
    /// Interfaces with a device behind them, and ports of InfiniBand and RoCE.
    pub links: Vec<LinkView>,
    /// Sources that did not answer in time or failed, and how.
    pub silent: Vec<String>,
    /// The newest test between each two nodes, the newest first.
    #[serde(default)]
    pub bandwidth: Vec<BandwidthView>,
}

/// What a test of the network between two nodes came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BandwidthView {
    /// The node that sent.
    pub from: String,
    /// The node that received.
    pub to: String,
    /// What measured: `muster` or `iperf3`.
    pub tool: String,
    /// How long it took.
    pub seconds: f64,
    /// Bits a second that arrived.
    pub bits_per_second: f64,
    /// Segments that TCP sent again; none where nobody counted them.
    pub retransmits: Option<u64>,
    /// The interface of the node that sent; of the slower link where both are known.
    pub interface: Option<String>,
    /// Bits a second that the link can carry; none where nobody knows, as of a loopback.
    pub link_bits_per_second: Option<u64>,
    /// When it was reported; the daemon's clock.
    #[serde(default)]
    #[schema(value_type = i64)]
    pub at_ms: Timestamp,
}

impl BandwidthView {
    /// The share of the link that was used.
    pub fn share(&self) -> Option<f64> {
        let link = self.link_bits_per_second.filter(|link| *link > 0)?;
        Some(self.bits_per_second / link as f64)
    }
}

/// One disk or mount; what nobody knows is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StorageView {
    /// `disk`, `lustre`, `nfs`, `gpfs` or `beegfs`.
    pub kind: String,
    /// Its name: a device, a filesystem, an export; of BeeGFS its servers, `meta` or `storage`.
    pub name: String,
    /// Bytes read a second.
    pub read: Option<f64>,
    /// Bytes written a second.
    pub written: Option<f64>,
    /// Reads a second.
    pub reads: Option<f64>,
    /// Bytes of one read.
    pub read_size: Option<f64>,
    /// Metadata operations a second.
    pub metadata: Option<f64>,
    /// Milliseconds that a read took.
    pub wait_ms: Option<f64>,
    /// The share of time in which it was busy.
    pub busy: Option<f64>,
}

/// How full one filesystem is; what it does not say is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesystemView {
    /// Where it is mounted.
    pub path: String,
    /// What is mounted: a device, an export, a name.
    pub device: String,
    /// Its type: `ext4`, `lustre`, `nfs4`.
    pub kind: String,
    /// It takes no writes.
    pub read_only: bool,
    /// It said nothing in time; then nothing below is known.
    pub silent: bool,
    /// Less than a twentieth is left of its bytes or of its inodes.
    pub nearly_full: bool,
    /// Bytes.
    pub size: Option<u64>,
    /// Bytes in use.
    pub used: Option<u64>,
    /// Bytes free to others than root.
    pub free: Option<u64>,
    /// Inodes; none where it makes them as they are needed.
    pub inodes: Option<u64>,
    /// Inodes that are free.
    pub inodes_free: Option<u64>,
}

/// One interface or port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// `ethernet` or `infiniband`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is up; none where nobody knows.
    pub up: Option<bool>,
    /// Bytes a second that it can carry in one direction.
    pub speed: Option<u64>,
    /// Bytes a second of the fastest link that its card can do.
    pub speed_max: Option<u64>,
    /// Both directions at once.
    pub full_duplex: Option<bool>,
    /// Bytes received a second.
    pub received: Option<f64>,
    /// Bytes sent a second.
    pub sent: Option<f64>,
    /// Errors since it is there, both directions.
    pub errors: Option<u64>,
    /// Packets dropped since then.
    pub dropped: Option<u64>,
    /// How often it went away since then.
    pub lost: Option<u64>,
    /// Pauses since then: it asked the other end to wait, or was asked.
    pub pauses: Option<u64>,
    /// Why there is no link, where its card tells.
    pub down_because: Option<String>,
}

/// Which part of a machine's or node's past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct MachineSeriesQuery {
    /// From this instant on; without it a day before the other.
    pub from_ms: Option<i64>,
    /// Up to this instant; without it now.
    pub to_ms: Option<i64>,
    /// At most about so many stretches; 240 without it, and no more than 1,000.
    pub points: Option<u32>,
}

/// What a machine or node did over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MachineSeries {
    /// When the first stretch began.
    pub from_ms: i64,
    /// How long each stretch is.
    pub step_ms: u64,
    /// The lines that anybody knows a value of: `cpu`, `cpu_waiting`, `memory_waiting`,
    /// `io_waiting`, `load`, `memory_free`, `read`, `written`, `reads`, `disk_busy`, `received`,
    /// `sent`, `gpu`, `gpu_memory`, `gpu_power`, and of a node `cpus_held`, `memory_held` and
    /// `gpus_held`: what jobs held of it.
    pub lines: Vec<LineView>,
    /// What is older was noted down by sysstat; none where nothing is muster's own.
    pub own_from_ms: Option<i64>,
    /// What of the past cannot be told, and why.
    pub notes: Vec<String>,
}
