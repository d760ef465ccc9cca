//! What a machine is and does: CPUs, memory, GPUs, read from a given root.
