//! Network interfaces, InfiniBand and RoCE ports, and what NCCL says of the way it took.

pub(crate) mod cards;
pub mod ethtool;
pub mod infiniband;
pub mod interfaces;
pub mod nccl;
mod netlink;
