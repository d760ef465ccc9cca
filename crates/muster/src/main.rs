//! One scheduler for this machine, Slurm and Kubernetes.
fn main() {}
