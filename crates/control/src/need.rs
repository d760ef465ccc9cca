//! What earlier runs of the same script used, and the figure that this says to ask for.
//!
//! Runs are of the same script where name, user and command are equal. Only what was measured
//! counts: a run without a figure says nothing. The newest runs count, at most [`RUNS_MAX`].

use muster_model::{Job, JobSpec, JobState, MemoryRequest, Mib, Request};

/// So many of the newest runs are looked at.
pub const RUNS_MAX: usize = 20;

/// Fewer runs than this say nothing about how much is too much.
const RUNS_FOR_LESS: usize = 3;

/// A figure that earlier runs propose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The option to write: `--mem=4G`.
    pub option: String,
    /// Why, as a sentence without a full stop.
    pub text: String,
}

/// Whether a run was of the same script as this job's.
pub fn is_same_script(run: &Job, spec: &JobSpec) -> bool {
    run.spec.name == spec.name
        && run.spec.owner.uid == spec.owner.uid
        && run.spec.command == spec.command
}

/// What the runs, in the order of their ends, propose for the request; empty where it is about
/// right, or where nothing is known.
pub fn advice(runs: &[&Job], spec: &JobSpec) -> Vec<Advice> {
    let newest = &runs[runs.len().saturating_sub(RUNS_MAX)..];
    let mut found: Vec<Advice> = memory(newest, spec).into_iter().collect();
    found.extend(gpu_memory(newest, &spec.request));
    found
}

/// Memory that a run had, and the most that it held at once.
fn figures(run: &Job) -> Option<(Mib, Mib)> {
    let had = run.placement.as_ref()?.memory();
    let peak = Mib(run.usage.memory_peak_kib.div_ceil(1024));
    (!peak.is_zero() && !had.is_zero()).then_some((had, peak))
}

fn memory(runs: &[&Job], spec: &JobSpec) -> Option<Advice> {
    let last = runs.last()?;
    let had = last.placement.as_ref().map(|p| p.memory()).unwrap_or_default();
    let asked = asked(&spec.request).unwrap_or(had);
    let nodes = u64::from(spec.request.nodes_min());
    if last.state == JobState::OutOfMemory {
        // A larger run that ended well says what is enough.
        let enough = runs
            .iter()
            .filter(|run| run.state == JobState::Completed)
            .filter_map(|run| figures(run))
            .filter(|(room, _)| *room > had)
            .map(|(_, peak)| with_room(peak))
            .max();
        let figure = enough.unwrap_or_else(|| rounded(Mib(had.0 + had.0 / 2)));
        let figure = figure.max(rounded(had.plus(Mib(1))));
        return (asked < figure).then(|| Advice {
            option: option(spec, figure, nodes),
            text: format!(
                "the last run of this script ({}) was ended for memory with {had}; {figure} is the \
                 next figure to try",
                last.display_id()
            ),
        });
    }
    let good: Vec<(Mib, Mib)> = runs
        .iter()
        .filter(|run| run.state == JobState::Completed)
        .filter_map(|run| figures(run))
        .collect();
    let peak = good.iter().map(|(_, peak)| *peak).max()?;
    let figure = with_room(peak);
    (good.len() >= RUNS_FOR_LESS && peak.0.saturating_mul(2) <= asked.0 && figure < asked).then(
        || Advice {
            option: option(spec, figure, nodes),
            text: format!(
                "{} earlier runs of this script used {peak} at most, and {asked} is asked for; \
                 {figure} leaves room and may start it earlier",
                good.len()
            ),
        },
    )
}

/// What the request asks for in all, where that follows from it alone.
fn asked(request: &Request) -> Option<Mib> {
    let nodes = request.nodes_min();
    let tasks = request.tasks_on(nodes);
    let cpus = u64::from(tasks) * u64::from(request.cpus_per_task());
    match request.memory {
        MemoryRequest::PerNode(memory) => Some(memory.times(u64::from(nodes))),
        MemoryRequest::PerCpu(memory) => Some(memory.times(cpus)),
        MemoryRequest::PerGpu(memory) => {
            request.gpus_in_total(nodes).map(|gpus| memory.times(u64::from(gpus)))
        }
        MemoryRequest::Default | MemoryRequest::WholeNode => None,
    }
}

/// The option in the form that the script uses.
fn option(spec: &JobSpec, total: Mib, nodes: u64) -> String {
    let request = &spec.request;
    let each = |count: u64| rounded(Mib(total.0.div_ceil(count.max(1))));
    let tasks = request.tasks_on(request.nodes_min());
    match request.memory {
        MemoryRequest::PerCpu(_) => {
            let cpus = u64::from(tasks) * u64::from(request.cpus_per_task());
            format!("--mem-per-cpu={}", each(cpus))
        }
        MemoryRequest::PerGpu(_) => {
            let gpus = request.gpus_in_total(request.nodes_min()).unwrap_or(1);
            format!("--mem-per-gpu={}", each(u64::from(gpus)))
        }
        _ => format!("--mem={}", each(nodes)),
    }
}

/// A quarter more than was used, as a round figure.
fn with_room(peak: Mib) -> Mib {
    rounded(Mib(peak.0 + peak.0 / 4))
}

/// Up to the next 64 MiB below 1 GiB, 256 MiB below 8 GiB, 1 GiB beyond.
fn rounded(memory: Mib) -> Mib {
    let step = match memory.0 {
        0..1024 => 64,
        1024..8192 => 256,
        _ => 1024,
    };
    Mib(memory.0.div_ceil(step).max(1) * step)
}

fn gpu_memory(runs: &[&Job], request: &Request) -> Option<Advice> {
    let of = |run: &&&Job| {
        let device = run.placement.as_ref()?.nodes.first()?.devices.first()?;
        let peak = Mib(run.usage.gpu_memory_peak_mib);
        (!peak.is_zero()).then_some((device.memory, peak))
    };
    let known: Vec<(Mib, Mib)> =
        runs.iter().filter(|run| run.state == JobState::Completed).filter_map(|r| of(&r)).collect();
    let peak = known.iter().map(|(_, peak)| *peak).max()?;
    let asked = request.gpu_memory.or_else(|| known.last().map(|(had, _)| *had))?;
    let figure = with_room(peak);
    let less =
        request.wants_gpus() && known.len() >= RUNS_FOR_LESS && peak.0.saturating_mul(2) <= asked.0;
    less.then(|| Advice {
        option: format!("--gpu-memory={figure}"),
        text: format!(
            "{} earlier runs of this script used {peak} of a GPU's memory at most, and had {asked}; \
             a part of a GPU with {figure} would do",
            known.len()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{
        DeviceGrant, DeviceMilli, EndCause, EventKind, ExitReport, ExitStatus, NodeShare,
        Placement, Usage,
    };
    use muster_test_kit::Lab;
    use std::sync::Arc;

    fn spec(memory: MemoryRequest) -> JobSpec {
        let mut spec = Lab::new("node n1 cpus=1").spec("train time=10");
        spec.request.memory = memory;
        spec
    }

    /// A run with so much memory that ended in this state.
    fn run(state: JobState, had: u64, peak: u64) -> Job {
        let mut lab = Lab::new("node n1 cpus=1 gpus=1xa100:80G");
        let job = lab.submit("train time=10");
        let device =
            DeviceGrant { index: 0, share: DeviceMilli::WHOLE, memory: Mib(80 << 10), mig: None };
        let share = NodeShare {
            tasks: 1,
            cpus: [0].into_iter().collect(),
            memory: Mib(had),
            devices: vec![device],
            ..NodeShare::default()
        };
        let placement = Arc::new(Placement {
            partition: "main".to_owned(),
            nodes: vec![share],
            ..Placement::default()
        });
        let time_limit = lab.state.jobs[&job].time_limit;
        lab.event(EventKind::JobPlaced { job, attempt: 1, placement, time_limit });
        lab.event(EventKind::JobStarted { job, attempt: 1 });
        let cause = match state {
            JobState::OutOfMemory => EndCause::OutOfMemory,
            _ => EndCause::Exited,
        };
        let report = ExitReport {
            status: ExitStatus::SUCCESS,
            cause,
            started: None,
            ended: lab.now,
            usage: Usage { memory_peak_kib: peak * 1024, ..Usage::default() },
            message: String::new(),
            steps: Vec::new(),
        };
        lab.event(EventKind::JobExited { job, attempt: 1, report });
        lab.state.jobs[&job].as_ref().clone()
    }

    fn options(runs: &[Job], asked: MemoryRequest) -> Vec<String> {
        let runs: Vec<&Job> = runs.iter().collect();
        advice(&runs, &spec(asked)).into_iter().map(|a| a.option).collect()
    }

    #[test]
    fn far_too_much_is_told_with_a_figure_that_leaves_room() {
        let runs: Vec<Job> = (0..3).map(|_| run(JobState::Completed, 65_536, 3_000)).collect();
        let much = MemoryRequest::PerNode(Mib(65_536));
        assert_eq!(options(&runs, much), ["--mem=3840M"]);
        assert_eq!(options(&runs, MemoryRequest::PerCpu(Mib(65_536))), ["--mem-per-cpu=3840M"]);
        // About right, or too few runs: nothing to say.
        assert!(options(&runs, MemoryRequest::PerNode(Mib(4096))).is_empty());
        assert!(options(&runs[..2], much).is_empty());
    }

    #[test]
    fn a_run_that_died_of_memory_asks_for_more() {
        let died = || run(JobState::OutOfMemory, 8192, 8192);
        let same = MemoryRequest::PerNode(Mib(8192));
        assert_eq!(options(&[died()], same), ["--mem=12G"]);
        // Already more is asked for.
        assert!(options(&[died()], MemoryRequest::PerNode(Mib(16_384))).is_empty());
        // What once was enough is the figure.
        let well = run(JobState::Completed, 32_768, 20_000);
        assert_eq!(options(&[well, died()], same), ["--mem=25G"]);
    }

    #[test]
    fn a_gpu_that_is_hardly_used_could_be_a_part() {
        let mut runs: Vec<Job> = (0..3).map(|_| run(JobState::Completed, 1024, 1000)).collect();
        for run in &mut runs {
            run.usage.gpu_memory_peak_mib = 9_000;
        }
        let mut asked = spec(MemoryRequest::PerNode(Mib(1024)));
        let gpus =
            muster_model::GpuCount { model: None, count: 1, scope: muster_model::GpuScope::Job };
        asked.request.gpus.push(gpus);
        let runs: Vec<&Job> = runs.iter().collect();
        let found = advice(&runs, &asked);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].option, "--gpu-memory=11G");
    }

    #[test]
    fn another_users_or_another_script_is_not_the_same() {
        let own = run(JobState::Completed, 1, 1);
        assert!(is_same_script(&own, &spec(MemoryRequest::Default)));
        let other = JobSpec { command: "other.sh".to_owned(), ..spec(MemoryRequest::Default) };
        assert!(!is_same_script(&own, &other));
    }
}
