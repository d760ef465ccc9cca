//! From `[policy]` to the policy that the core plans by.

use crate::sections::PolicySection;
use muster_model::{BackfillDepth, Policy, RunTimePolicy, WaitGuard};

impl From<&PolicySection> for Policy {
    fn from(section: &PolicySection) -> Self {
        let PolicySection {
            order,
            guard_first,
            guard_promise,
            guard_memory,
            backfill,
            backfill_order,
            run_time,
            run_time_correction,
            run_time_promises,
            backfill_depth,
            backfill_by_wait,
            backfill_per_partition,
            backfill_per_user,
            backfill_per_account,
            backfill_window,
            nodes,
            kill_wait,
            min_job_age,
            max_array_size,
            max_job_count,
            enforce_partition_limits,
            kill_invalid_dependency,
            requeue,
            max_restarts,
            gpu_whole_for_parts,
            gpu_memory_is_part,
            gpu_typical_cpus,
            gpu_typical_memory,
            max_switch_wait,
            time_slice,
        } = section;
        Self {
            order: *order,
            wait_guard: WaitGuard {
                first: *guard_first,
                promised: *guard_promise,
                memory: (*guard_memory).into(),
            },
            backfill: *backfill,
            backfill_order: *backfill_order,
            run_time: RunTimePolicy {
                source: *run_time,
                correction: *run_time_correction,
                promises: *run_time_promises,
            },
            backfill_depth: BackfillDepth {
                total: *backfill_depth,
                per_partition: *backfill_per_partition,
                per_user: *backfill_per_user,
                per_account: *backfill_per_account,
                by_wait: *backfill_by_wait,
                window: (*backfill_window).map(Into::into),
            },
            nodes: *nodes,
            kill_wait: (*kill_wait).into(),
            min_job_age: (*min_job_age).into(),
            max_array_size: *max_array_size,
            max_job_count: *max_job_count,
            enforce_partition_limits: *enforce_partition_limits,
            kill_invalid_dependency: *kill_invalid_dependency,
            requeue: *requeue,
            max_restarts: *max_restarts,
            devices: muster_model::DevicePolicy {
                whole_for_parts: *gpu_whole_for_parts,
                memory_is_part: *gpu_memory_is_part,
                typical_cpus_per_gpu: *gpu_typical_cpus,
                typical_memory_per_gpu: gpu_typical_memory.map(Into::into),
                ..muster_model::DevicePolicy::default()
            },
            max_switch_wait: (*max_switch_wait).into(),
            time_slice: (*time_slice).into(),
            ..Self::default()
        }
    }
}

impl From<&Policy> for PolicySection {
    /// The section that makes this policy, but for what it does not say.
    fn from(policy: &Policy) -> Self {
        let (depth, devices) = (&policy.backfill_depth, &policy.devices);
        Self {
            order: policy.order,
            guard_first: policy.wait_guard.first,
            guard_promise: policy.wait_guard.promised,
            guard_memory: policy.wait_guard.memory.into(),
            backfill: policy.backfill,
            backfill_order: policy.backfill_order,
            run_time: policy.run_time.source,
            run_time_correction: policy.run_time.correction,
            run_time_promises: policy.run_time.promises,
            backfill_depth: depth.total,
            backfill_by_wait: depth.by_wait,
            backfill_per_partition: depth.per_partition,
            backfill_per_user: depth.per_user,
            backfill_per_account: depth.per_account,
            backfill_window: depth.window.map(Into::into),
            nodes: policy.nodes,
            kill_wait: policy.kill_wait.into(),
            min_job_age: policy.min_job_age.into(),
            max_array_size: policy.max_array_size,
            max_job_count: policy.max_job_count,
            enforce_partition_limits: policy.enforce_partition_limits,
            kill_invalid_dependency: policy.kill_invalid_dependency,
            requeue: policy.requeue,
            max_restarts: policy.max_restarts,
            gpu_whole_for_parts: devices.whole_for_parts,
            gpu_memory_is_part: devices.memory_is_part,
            gpu_typical_cpus: devices.typical_cpus_per_gpu,
            gpu_typical_memory: devices.typical_memory_per_gpu.map(Into::into),
            max_switch_wait: policy.max_switch_wait.into(),
            time_slice: policy.time_slice.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_a_section_that_makes_it() {
        let text = "[policy]\norder = \"fifo\"\nbackfill = \"mixed\"\nbackfill_window = \"1d\"\n\
            backfill_per_user = 3\nkill_wait = 7\ngpu_typical_memory = \"12G\"\nrequeue = false\n";
        let section = crate::Config::parse(text, "test").unwrap().policy;
        let made = Policy::from(&section);
        assert_ne!(made, Policy::standard());
        assert_eq!(PolicySection::from(&made), section);
        let standard = PolicySection::from(&Policy::standard());
        assert_eq!(standard, PolicySection::default());
    }

    #[test]
    fn the_default_policy_is_the_standard_one() {
        assert_eq!(Policy::from(&PolicySection::default()), Policy::standard());
    }
}
