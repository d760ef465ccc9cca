//! Jobs that ask for CPUs and nothing else, and stand as such jobs do.

use muster_model::{
    Exclusive, Job, MemoryRequest, Mib, Request, Seconds, State, TimeLimit, TopologyRequest,
};

/// A job of a pool of processors, as far as planning is concerned.
pub(crate) enum Simple {
    /// It needs nothing any more.
    Over,
    /// It is free to start.
    Waits {
        /// So many CPUs.
        cpus: u32,
        /// So long it is taken to be there.
        length: Seconds,
        /// So long it is likely to run.
        likely: Seconds,
    },
    /// It has CPUs of the pool.
    Runs {
        /// So many.
        cpus: u32,
    },
}

/// How a job counts in a pool; `None` where anything about it could decide but counts and times.
pub(crate) fn simple(state: &State, job: &Job, partition: &str) -> Option<Simple> {
    if job.state.is_over() {
        return Some(Simple::Over);
    }
    let spec = job.spec.as_ref();
    let cpus = cpus_only(&spec.request)?;
    let plain = [spec.partitions.as_slice()] == [&[partition]]
        && job.array.is_none()
        && job.het.is_none()
        && job.gates.is_empty()
        && job.claim.is_none()
        && job.eviction.is_none()
        && job.paused == Seconds(0)
        && spec.gang.is_none()
        && spec.deadline.is_none()
        && spec.time_min.is_none()
        && spec.priority.is_none()
        && spec.nice == 0;
    if !plain {
        return None;
    }
    if job.is_pending() {
        let free = job.hold.is_none() && job.eligible == Some(job.submitted);
        let length = state.expected_run(job, job.time_limit).seconds();
        let likely = state.likely_run(job).seconds()?;
        return Some(Simple::Waits { cpus, length: length.filter(|_| free)?, likely });
    }
    let TimeLimit::Of(_) = job.time_limit else { return None };
    let [share] = job.placement.as_ref()?.nodes.as_slice() else { return None };
    Some(Simple::Runs { cpus: share.cpu_pool })
}

/// The CPUs of a request that says nothing else; every field is looked at.
fn cpus_only(request: &Request) -> Option<u32> {
    let Request {
        nodes,
        tasks,
        tasks_per_node,
        tasks_per_gpu,
        tasks_per_socket,
        tasks_per_core,
        distribution,
        cpus_per_task: _,
        cpus_per_gpu,
        cpus_per_node_min,
        memory,
        scratch,
        gpus,
        gpu_memory,
        gpu_share,
        gpu_isolation,
        sockets_per_node,
        cpus_near_gpus,
        gres,
        constraint,
        node_list,
        exclude,
        exclusive,
        contiguous,
        switches,
        topology,
        affinity,
        licences,
        reservation,
    } = request;
    let counts = [nodes.is_none(), tasks.is_none(), tasks_per_node.is_none()];
    let per = [tasks_per_gpu, tasks_per_socket, tasks_per_core, cpus_per_gpu, cpus_per_node_min];
    let plain = counts.into_iter().all(|yes| yes)
        && per.into_iter().all(Option::is_none)
        && *memory == MemoryRequest::Default
        && *scratch == Mib(0)
        && gpus.is_empty()
        && gpu_memory.is_none()
        && gpu_share.is_none()
        && gpu_isolation.is_none()
        && sockets_per_node.is_none()
        && distribution.is_none()
        && !cpus_near_gpus
        && gres.is_empty()
        && constraint.is_none()
        && node_list.is_empty()
        && exclude.is_empty()
        && *exclusive == Exclusive::No
        && !contiguous
        && switches.is_none()
        && *topology == TopologyRequest::default()
        && affinity.is_none()
        && licences.is_empty()
        && reservation.is_none();
    plain.then(|| request.cpus_per_task())
}
