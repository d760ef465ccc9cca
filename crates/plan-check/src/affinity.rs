//! Labels, taints and the jobs beside a job: not looked at yet.
