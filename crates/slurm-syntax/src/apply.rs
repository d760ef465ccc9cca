//! What each honoured option does to a component or to the client.

use muster_model::sharing::GpuShare;
use muster_model::{
    Affinity, Checkpoint, Elastic, Exclusive, GpuCount, GpuScope, MailSpec, MemoryRequest, Mib,
    OpenMode, Request, Seconds, Segments, SwitchWish, TimeLimit, Volume,
};
use std::sync::Arc;

use crate::count::{parse_count, parse_nodes};
use crate::duration::{parse_limit, parse_seconds, rounded_to_minutes};
use crate::gpu_part;
use crate::gres::Gres;
use crate::options::{Opt, OptionSpec};
use crate::problem::{Code, Problem, quoted};
use crate::submission::{ClientFlags, ComponentRequest, Context};
use crate::values::{
    flag_word, free_text, mail_events, name, nice, one_name, path, priority, reservations, variable,
};
use crate::{
    affinity, array, binding, constraint, dependency, export, gres, hostlist, license, memory,
    pattern, signal, topology, tres, when,
};

/// Longest argument of an option, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;

/// Most partitions that one job may name.
const PARTITIONS_MAX: usize = 256;

/// What options are applied to.
pub(crate) struct Target<'a> {
    pub(crate) component: &'a mut ComponentRequest,
    pub(crate) client: &'a mut ClientFlags,
    pub(crate) warnings: Vec<Problem>,
}

/// Applies one option with its values (several only for options that may be repeated).
///
/// # Errors
/// The value's problem; options that are not honoured have no values to be wrong about.
pub(crate) fn apply(
    spec: &OptionSpec,
    values: &[Option<String>],
    context: &Context,
    target: &mut Target<'_>,
) -> Result<(), Problem> {
    let value = values.last().and_then(Option::as_deref).unwrap_or("");
    if value.len() > VALUE_BYTES_MAX {
        return Err(Problem::new(
            Code::OptionArgument,
            format!("its argument has more than {VALUE_BYTES_MAX} bytes"),
        ));
    }
    if apply_client(spec.opt, values, target.client)
        || identity(spec.opt, value, target)?
        || times(spec.opt, value, context, target)?
        || amounts(spec.opt, value, target)?
        || gpus(spec.opt, value, &mut target.component.spec.request)?
        || places(spec.opt, value, context, target)?
        || files(spec.opt, value, target)?
    {
        return Ok(());
    }
    own(spec.opt, value, values, &mut target.component.spec)
}

/// Applies an option for the client; true if the option is one.
pub(crate) fn apply_client(opt: Opt, values: &[Option<String>], client: &mut ClientFlags) -> bool {
    let value = values.last().and_then(Option::as_ref);
    match opt {
        Opt::Parsable => client.parsable = true,
        Opt::Wait => client.wait = true,
        Opt::TestOnly => client.test_only = true,
        Opt::Quiet => client.quiet = true,
        Opt::Help => client.help = true,
        Opt::Usage => client.usage = true,
        Opt::Version => client.version = true,
        Opt::IgnorePbs => client.ignore_pbs = true,
        Opt::Wrap => client.wrap = value.cloned(),
        // In the environment the variable holds how often (sbatch manual, SBATCH_DEBUG).
        Opt::Verbose => {
            let times = value.and_then(|value| value.parse().ok());
            client.verbose = times.unwrap_or(values.len() as u32).min(10);
        }
        Opt::Exact
        | Opt::HetGroup
        | Opt::PackGroup
        | Opt::Immediate
        | Opt::Jobid
        | Opt::KillCommand
        | Opt::KillOnBadExit
        | Opt::Label
        | Opt::MultiProg
        | Opt::NoBell
        | Opt::NoShell
        | Opt::Overlap
        | Opt::Pty
        | Opt::QuitOnInterrupt
        | Opt::Relative
        | Opt::Unbuffered
        | Opt::WaitForChildren
        | Opt::WaitStep => {
            client.step.retain(|(other, _)| *other != opt);
            client.step.push((opt, value.cloned()));
        }
        _ => return false,
    }
    true
}

/// Names, accounts and what becomes of the job.
fn identity(opt: Opt, value: &str, target: &mut Target<'_>) -> Result<bool, Problem> {
    let component = &mut *target.component;
    let spec = &mut component.spec;
    match opt {
        Opt::JobName | Opt::Comment if value.is_empty() => {}
        Opt::JobName => spec.name = free_text(value, 255)?,
        Opt::Account => spec.account = name(value)?,
        Opt::Qos => spec.qos = one_name(value)?,
        Opt::Partition => spec.partitions = partitions(value)?,
        Opt::On => component.on = Some(one_name(value)?),
        Opt::Comment => spec.comment = free_text(value, 4096)?,
        Opt::Hold => spec.hold = true,
        Opt::Nice => spec.nice = nice(value)?,
        Opt::Priority => spec.priority = Some(priority(value)?),
        Opt::Requeue if value.is_empty() => component.requeue = Some(true),
        Opt::Requeue => {
            return Err(Problem::new(
                Code::OptionRefused,
                format!("muster has no {} requeue", quoted(value)),
            )
            .hint("write --requeue"));
        }
        Opt::NoRequeue => component.requeue = Some(false),
        Opt::KillOnInvalidDep => spec.kill_on_invalid_dependency = Some(flag_word(value)?),
        Opt::Dependency => spec.dependency = dependency::parse(value)?,
        Opt::Signal => spec.signal = Some(signal::parse(value)?),
        Opt::MailType => {
            spec.mail.get_or_insert_with(MailSpec::default).events = mail_events(value)?;
        }
        Opt::MailUser => {
            spec.mail.get_or_insert_with(MailSpec::default).to = free_text(value, 255)?;
        }
        Opt::Export => component.export = Some(export::parse(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The partitions of a list, each once, in the order written.
fn partitions(value: &str) -> Result<Vec<String>, Problem> {
    let mut partitions = Vec::new();
    for word in value.split(',') {
        let partition = name(word)?;
        if !partitions.contains(&partition) {
            partitions.push(partition);
        }
        if partitions.len() > PARTITIONS_MAX {
            let what = format!("more than {PARTITIONS_MAX} partitions are named");
            return Err(Problem::new(Code::NameBad, what));
        }
    }
    Ok(partitions)
}

fn times(
    opt: Opt,
    value: &str,
    context: &Context,
    target: &mut Target<'_>,
) -> Result<bool, Problem> {
    let spec = &mut target.component.spec;
    match opt {
        Opt::Time => spec.time_limit = Some(rounded_to_minutes(parse_limit(value)?)),
        Opt::TimeMin => {
            spec.time_min = match rounded_to_minutes(parse_limit(value)?) {
                TimeLimit::Of(seconds) => Some(seconds),
                TimeLimit::Unlimited => None,
            }
        }
        Opt::Begin => {
            let instant = when::parse(value, context.now, &context.zone)?;
            spec.begin = (instant > context.now).then_some(instant);
        }
        Opt::Deadline => {
            spec.deadline = Some(when::parse(value, context.now, &context.zone)?);
        }
        Opt::Array => spec.array = Some(array::parse(value, context.array_size_max)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Amounts of nodes, tasks, CPUs and memory.
fn amounts(opt: Opt, value: &str, target: &mut Target<'_>) -> Result<bool, Problem> {
    let request = &mut target.component.spec.request;
    match opt {
        Opt::Nodes => request.nodes = Some(parse_nodes(value)?),
        Opt::Ntasks => request.tasks = Some(parse_count(value, 1)?),
        Opt::NtasksPerNode | Opt::TasksPerNode => {
            request.tasks_per_node = Some(parse_count(value, 1)?);
        }
        Opt::NtasksPerGpu => request.tasks_per_gpu = Some(parse_count(value, 1)?),
        Opt::NtasksPerSocket => request.tasks_per_socket = Some(parse_count(value, 1)?),
        Opt::NtasksPerCore => request.tasks_per_core = Some(parse_count(value, 1)?),
        Opt::CpusPerTask => request.cpus_per_task = Some(parse_count(value, 1)?),
        Opt::CpusPerGpu => request.cpus_per_gpu = Some(parse_count(value, 1)?),
        Opt::Mincpus => request.cpus_per_node_min = Some(parse_count(value, 1)?),
        Opt::Mem => request.memory = memory_of(value, MemoryRequest::PerNode)?,
        Opt::MemPerCpu => request.memory = memory_of(value, MemoryRequest::PerCpu)?,
        Opt::MemPerGpu => request.memory = memory_of(value, MemoryRequest::PerGpu)?,
        Opt::Tmp => request.scratch = Mib(memory::parse_mib(value)?),
        Opt::TresPerTask => tres_per_task(value, request)?,
        Opt::SocketsPerNode => {
            // `2` or `2:4`: at least the first.
            let least = value.split([':', '-']).next().unwrap_or_default();
            request.sockets_per_node = Some(parse_count(least, 1)?);
        }
        Opt::GresFlags => {
            for flag in value.split(',') {
                match flag.to_ascii_lowercase().as_str() {
                    "enforce-binding" => request.cpus_near_gpus = true,
                    "disable-binding" => request.cpus_near_gpus = false,
                    _ => {
                        let what = format!("the flag {} changes nothing", quoted(flag));
                        target.warnings.push(Problem::new(Code::WarnNotDone, what));
                    }
                }
            }
        }
        Opt::Distribution => request.distribution = Some(binding::distribution(value, None)?),
        // The step's own; read here for its errors, before anything waits.
        Opt::CpuBind => drop(binding::cpu_bind(value)?),
        // Applied by the checks, when all of the request is known.
        Opt::UseMinNodes => {}
        Opt::WaitAllNodes if matches!(value, "0" | "1") => {}
        Opt::WaitAllNodes => return Err(Problem::new(Code::ValueBad, "the value is 0 or 1")),
        _ => return Ok(false),
    }
    Ok(true)
}

fn memory_of(value: &str, kind: fn(Mib) -> MemoryRequest) -> Result<MemoryRequest, Problem> {
    let mib = memory::parse_mib(value)?;
    Ok(if mib == 0 { MemoryRequest::WholeNode } else { kind(Mib(mib)) })
}

fn tres_per_task(value: &str, request: &mut Request) -> Result<(), Problem> {
    for entry in tres::parse(value)? {
        let gpu = entry.name.strip_prefix("gpu");
        match (entry.kind.as_str(), gpu) {
            ("cpu", _) if entry.name.is_empty() => {
                request.cpus_per_task = Some(parse_count(&entry.amount.to_string(), 1)?);
            }
            ("gres", Some(kind)) if kind.is_empty() || kind.starts_with(':') => {
                request.gpus.push(GpuCount {
                    model: kind.strip_prefix(':').map(str::to_owned),
                    count: parse_count(&entry.amount.to_string(), 0)?,
                    scope: GpuScope::Task,
                });
            }
            _ => {
                return Err(Problem::new(
                    Code::OptionRefused,
                    format!("muster cannot give {} to each task", quoted(&entry.to_string())),
                )
                .hint("cpu=N and gres/gpu[:TYPE]=N can be given per task"));
            }
        }
    }
    Ok(())
}

fn gpus(opt: Opt, value: &str, request: &mut Request) -> Result<bool, Problem> {
    let scope = match opt {
        Opt::Gpus => GpuScope::Job,
        Opt::GpusPerNode => GpuScope::Node,
        Opt::GpusPerSocket => GpuScope::Socket,
        Opt::GpusPerTask => GpuScope::Task,
        Opt::Gres => {
            for entry in gres::parse(value)? {
                if entry.name == "gpu" {
                    request.gpus.push(gpu_count(entry, GpuScope::Node)?);
                } else if gpu_part::is_pieces(&entry.name) {
                    // A share of one GPU on each node (GRES page, sharing).
                    if entry.count == 0 {
                        continue;
                    }
                    let pieces = parse_count(&entry.count.to_string(), 1)?;
                    request.gpu_share = Some(GpuShare::Pieces(pieces));
                    request.gpu_isolation =
                        gpu_part::isolation_of(&entry.name).or(request.gpu_isolation);
                    request.gpus.push(GpuCount {
                        model: entry.kind,
                        count: 1,
                        scope: GpuScope::Node,
                    });
                } else if entry.count > 0 {
                    let key = match entry.kind {
                        Some(kind) => format!("{}:{kind}", entry.name),
                        None => entry.name,
                    };
                    request.gres.insert(key, entry.count);
                }
            }
            return Ok(true);
        }
        _ => return Ok(false),
    };
    for entry in gres::parse_gpus(value)? {
        request.gpus.push(gpu_count(entry, scope)?);
    }
    Ok(true)
}

fn gpu_count(entry: Gres, scope: GpuScope) -> Result<GpuCount, Problem> {
    let count = parse_count(&entry.count.to_string(), 0)?;
    Ok(GpuCount { model: entry.kind, count, scope })
}

/// Which nodes, and what else decides where the job fits.
fn places(
    opt: Opt,
    value: &str,
    context: &Context,
    target: &mut Target<'_>,
) -> Result<bool, Problem> {
    let request = &mut target.component.spec.request;
    match opt {
        Opt::Nodelist => request.node_list = hosts(value, context)?,
        Opt::Exclude => request.exclude = hosts(value, context)?,
        Opt::Constraint => request.constraint = Some(constraint::parse(value)?),
        Opt::Contiguous => request.contiguous = true,
        Opt::Exclusive => request.exclusive = exclusive(value)?,
        Opt::Oversubscribe => request.exclusive = Exclusive::No,
        Opt::Switches => request.switches = Some(switches(value)?),
        Opt::Segment => request.topology.segment = Some(parse_count(value, 1)?),
        Opt::SpreadSegments => request.topology.segments = Segments::Spread,
        Opt::ConsolidateSegments => request.topology.segments = Segments::Consolidate,
        Opt::Licenses => request.licences = license::parse(value)?,
        Opt::Reservation => request.reservation = Some(reservations(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn hosts(value: &str, context: &Context) -> Result<std::collections::BTreeSet<String>, Problem> {
    if value.contains('/') {
        return Err(Problem::new(
            Code::OptionRefused,
            format!("{} is a file, and muster does not read it", quoted(value)),
        )
        .hint("name the nodes, for example n[1-4],n7"));
    }
    Ok(hostlist::expand(value, context.hosts_max)?.into_iter().collect())
}

fn exclusive(value: &str) -> Result<Exclusive, Problem> {
    match value.to_ascii_lowercase().as_str() {
        "" | "allocation" | "exclusive" => Ok(Exclusive::Node),
        "user" => Ok(Exclusive::User),
        "mcs" | "topo" => Err(Problem::new(
            Code::OptionRefused,
            format!("muster cannot keep nodes for {}", quoted(value)),
        )
        .hint("write --exclusive or --exclusive=user")),
        _ => {
            Err(Problem::new(Code::ValueBad, format!("{} is no kind of exclusive", quoted(value)))
                .hint("write --exclusive or --exclusive=user"))
        }
    }
}

fn switches(value: &str) -> Result<SwitchWish, Problem> {
    let (count, wait) = match value.split_once('@') {
        Some((count, wait)) => (count, Some(Seconds(parse_seconds(wait)?))),
        None => (value, None),
    };
    Ok(SwitchWish { count: parse_count(count, 1)?, wait })
}

fn files(opt: Opt, value: &str, target: &mut Target<'_>) -> Result<bool, Problem> {
    let spec = &mut target.component.spec;
    match opt {
        Opt::GpuBind => spec.gpu_bind = Some(binding::gpu_bind(value)?),
        Opt::TresBind => spec.gpu_bind = Some(binding::tres_bind(value)?),
        Opt::Output => spec.stdio.output = Some(pattern::parse(value)?),
        Opt::Error => spec.stdio.error = Some(pattern::parse(value)?),
        Opt::Input => spec.stdio.input = Some(pattern::parse(value)?),
        Opt::Chdir => spec.cwd = path(value)?,
        Opt::OpenMode => {
            spec.stdio.open_mode = match value {
                "a" | "append" => OpenMode::Append,
                "t" | "truncate" => OpenMode::Truncate,
                _ => {
                    return Err(Problem::new(
                        Code::ValueBad,
                        format!("{} is no way to open a file", quoted(value)),
                    )
                    .hint("write append or truncate"));
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `NAME:SIZE`.
fn gang(value: &str) -> Result<muster_model::Gang, Problem> {
    let bad = || {
        Problem::new(Code::ValueBad, format!("{} is not a gang", quoted(value)))
            .hint("write NAME:SIZE with a size of at least 2, for example --gang=ensemble:4")
    };
    let (name, size) = value.rsplit_once(':').ok_or_else(bad)?;
    let size = size.parse().ok().filter(|size| (2..=1024).contains(size)).ok_or_else(bad)?;
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_whitespace) {
        return Err(bad());
    }
    Ok(muster_model::Gang { name: name.to_owned(), size })
}

/// `MIN-MAX` or `MIN-MAX,live`.
fn elastic(value: &str) -> Result<(muster_model::NodeCount, Elastic), Problem> {
    let bad = || {
        Problem::new(Code::ValueBad, format!("{} is not a range of nodes", quoted(value))).hint(
            "write MIN-MAX with MIN below MAX, for example --elastic=2-4 or --elastic=2-4,live",
        )
    };
    let (range, kind) = match value.split_once(',') {
        Some((range, "live")) => (range, Elastic::Live),
        Some(_) => return Err(bad()),
        None => (value, Elastic::Restart),
    };
    let (min, max) = range.split_once('-').ok_or_else(bad)?;
    let (min, max): (u32, u32) = min.parse().ok().zip(max.parse().ok()).ok_or_else(bad)?;
    if min == 0 || min >= max {
        return Err(bad());
    }
    Ok((muster_model::NodeCount::Range { min, max }, kind))
}

/// Muster's own options.
fn own(
    opt: Opt,
    value: &str,
    values: &[Option<String>],
    spec: &mut muster_model::JobSpec,
) -> Result<(), Problem> {
    let checkpoint = |spec: &mut muster_model::JobSpec| {
        spec.checkpoint.get_or_insert_with(Checkpoint::default).clone()
    };
    match opt {
        Opt::GpuMemory => {
            let mib = memory::parse_mib(value)?;
            spec.request.gpu_memory = (mib > 0).then_some(Mib(mib));
        }
        Opt::GpuShare => {
            spec.request.gpu_share = Some(GpuShare::Milli(gpu_part::parse_share(value)?));
        }
        Opt::GpuPieces => {
            spec.request.gpu_share = Some(GpuShare::Pieces(parse_count(value, 1)?));
        }
        Opt::GpuIsolation => {
            spec.request.gpu_isolation = Some(gpu_part::parse_isolation(value)?);
        }
        // Taken up by the checks, when all counts are known.
        Opt::Mig => {
            gpu_part::parse_profile(value)?;
        }
        Opt::Topology => topology::wish(value, &mut spec.request.topology)?,
        Opt::Affinity | Opt::Spread | Opt::Toleration => {
            let mut all = spec.request.affinity.as_deref().cloned().unwrap_or_default();
            for text in values.iter().flatten() {
                match opt {
                    Opt::Affinity => affinity::affinity(text, &mut all)?,
                    Opt::Spread => affinity::spread(text, &mut all)?,
                    _ => affinity::tolerations(text, &mut all)?,
                }
            }
            spec.request.affinity = (all != Affinity::default()).then(|| Arc::new(all));
        }
        Opt::Labels => {
            for text in values.iter().flatten() {
                affinity::labels(text, &mut spec.labels)?;
            }
        }
        Opt::Gang => spec.gang = Some(gang(value)?),
        Opt::Elastic => {
            let (nodes, kind) = elastic(value)?;
            spec.request.nodes = Some(nodes);
            spec.elastic = kind;
        }
        Opt::Image => spec.image = Some(free_text(value, 1024)?),
        Opt::Volume => {
            spec.volumes = values
                .iter()
                .flatten()
                .map(|value| crate::volume::parse(value))
                .collect::<Result<Vec<Volume>, _>>()?;
        }
        Opt::CheckpointDir => {
            spec.checkpoint = Some(Checkpoint { dir: path(value)?, ..checkpoint(spec) });
        }
        Opt::CheckpointSignal => {
            let asked = signal::parse(value)?;
            if value.contains(':') {
                return Err(Problem::new(
                    Code::SignalBad,
                    format!("{} has a flag; the signal goes to all of the job", quoted(value)),
                )
                .hint("write SIGNAL or SIGNAL@SECONDS"));
            }
            spec.checkpoint = Some(Checkpoint {
                signal: Some(asked.signal),
                grace: asked.before,
                ..checkpoint(spec)
            });
        }
        Opt::CheckpointEnv => {
            spec.checkpoint = Some(Checkpoint { variable: variable(value)?, ..checkpoint(spec) });
        }
        _ => {}
    }
    Ok(())
}
