//! Network interfaces, InfiniBand and RoCE ports, what NCCL says of the way it took, and what iperf3 measured.

pub(crate) mod cards;
pub mod ethtool;
pub mod infiniband;
pub mod interfaces;
pub mod iperf3;
pub mod nccl;
mod netlink;
