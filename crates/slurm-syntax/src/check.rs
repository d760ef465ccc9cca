//! What a request asks for as a whole: options that exclude, need or contradict one another.
//!
//! Rules: the sbatch manual's notes on each option, and case S-11. A rule that names two options
//! points at the one given last in the order of precedence.

use muster_model::{GpuCount, GpuScope, NodeCount, Request, Seconds, TimeLimit};

use crate::duration::print_long;
use crate::merge::{Setting, Settings};
use crate::options::Opt;
use crate::problem::{Code, Diagnostic, Place, Problem};
use crate::submission::{ComponentRequest, Context, Found};

/// Pairs that exclude one another when both are in force.
const EXCLUDE: [(Opt, Opt); 12] = [
    (Opt::Mem, Opt::MemPerCpu),
    (Opt::Mem, Opt::MemPerGpu),
    (Opt::MemPerCpu, Opt::MemPerGpu),
    (Opt::CpusPerTask, Opt::CpusPerGpu),
    (Opt::Exclusive, Opt::Oversubscribe),
    (Opt::NtasksPerGpu, Opt::GpusPerTask),
    (Opt::NtasksPerGpu, Opt::GpusPerSocket),
    (Opt::NtasksPerGpu, Opt::NtasksPerNode),
    (Opt::GpuShare, Opt::GpuPieces),
    (Opt::GpuShare, Opt::Mig),
    (Opt::GpuPieces, Opt::Mig),
    (Opt::GpuMemory, Opt::Mig),
];

/// Checks one component and settles what follows from several options together.
pub(crate) fn component(
    settings: &Settings,
    component: &mut ComponentRequest,
    context: &Context,
    found: &mut Found<'_>,
) {
    // One order whatever options the counts came from; it is that of the printer.
    component.spec.request.gpus.sort_by_key(|gpus| gpus.scope);
    let mut check = Check { settings, found };
    for (first, second) in EXCLUDE {
        check.exclude(first, second);
    }
    check.gpus_by_gres();
    check.tres_per_task();
    gpus_for_tasks(&mut component.spec.request);
    check.gpu_parts(&mut component.spec.request);
    check.needs_gpus(&component.spec.request);
    check.tasks_for_gpus(&mut component.spec.request);
    check.nodes(&mut component.spec.request);
    check.gpus_and_nodes(&component.spec.request);
    check.times(component, context);
    if component.spec.mail.as_ref().is_some_and(|mail| mail.events.is_empty() && mail.to.is_empty())
    {
        component.spec.mail = None;
    }
}

/// Checks what concerns several components.
pub(crate) fn heterogeneous(components: &[ComponentRequest], errors: &mut Vec<Diagnostic>) {
    if components.len() < 2 {
        return;
    }
    let mut error = |option: &str, problem: Problem| {
        errors.push(Diagnostic::at(Place::Request, Some(option.to_owned()), problem));
    };
    if components.iter().any(|component| component.spec.array.is_some()) {
        error("--array", Problem::new(Code::Conflict, "a heterogeneous job cannot be an array"));
    }
    if components[1..].iter().any(|component| !component.spec.request.licences.is_empty()) {
        let problem = Problem::new(Code::Conflict, "only the first component may ask for licences")
            .hint("ask for all of them in the first component");
        error("--licenses", problem);
    }
}

/// Tasks per GPU with a task count and no GPUs: the GPUs follow (`--ntasks-per-gpu`).
fn gpus_for_tasks(request: &mut Request) {
    if let (Some(per_gpu), Some(tasks)) = (request.tasks_per_gpu, request.tasks)
        && request.gpus.is_empty()
    {
        let count = tasks.div_ceil(per_gpu);
        request.gpus.push(GpuCount { model: None, count, scope: GpuScope::Job });
    }
}

/// `1 GPU`, `2 GPUs`.
fn plural(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

struct Check<'a, 'f> {
    settings: &'a Settings,
    found: &'a mut Found<'f>,
}

impl Check<'_, '_> {
    /// The setting whose place an error about these options names.
    fn latest(&self, opts: &[Opt]) -> Option<&Setting> {
        opts.iter()
            .filter_map(|opt| self.settings.get(opt))
            .max_by(|a, b| (a.rank, &a.given.place).cmp(&(b.rank, &b.given.place)))
    }

    fn error(&mut self, opts: &[Opt], problem: Problem) {
        let diagnostic = match self.latest(opts) {
            Some(setting) => setting.given.diagnostic(problem),
            None => Diagnostic::at(Place::Request, None, problem),
        };
        self.found.errors.push(diagnostic);
    }

    fn warn(&mut self, opts: &[Opt], what: String) {
        if let Some(setting) = self.latest(opts) {
            let problem = Problem::new(Code::WarnChanged, what);
            self.found.warnings.push(setting.given.diagnostic(problem));
        }
    }

    fn has(&self, opt: Opt) -> bool {
        self.settings.contains_key(&opt)
    }

    fn exclude(&mut self, first: Opt, second: Opt) {
        if self.has(first) && self.has(second) {
            let what =
                format!("--{} and --{} exclude one another", first.spec().long, second.spec().long);
            self.error(&[first, second], Problem::new(Code::Conflict, what));
        }
    }

    /// `--gres=gpu` counts per node, as `--gpus-per-node` does (S-11 g).
    fn gpus_by_gres(&mut self) {
        if !self.gres_names_gpus() {
            return;
        }
        let settings = self.settings;
        let others = [Opt::GpusPerNode, Opt::GpusPerSocket];
        for other in others.into_iter().filter(|other| settings.contains_key(other)) {
            let what = format!("--gres=gpu and --{} exclude one another", other.spec().long);
            let problem = Problem::new(Code::Conflict, what)
                .hint("--gres=gpu counts GPUs per node: keep one of the two");
            self.error(&[Opt::Gres, other], problem);
        }
    }

    /// Shares of GPUs beside whole ones, and profiles put into the counts (T-27, T-35).
    fn gpu_parts(&mut self, request: &mut Request) {
        let value =
            |opt: Opt| self.settings.get(&opt).and_then(|setting| setting.given.value.clone());
        let named = value(Opt::Gres).and_then(|gres| crate::gres::parse(&gres).ok());
        let shares: Vec<String> = named
            .into_iter()
            .flatten()
            .filter(|g| g.count > 0 && crate::gpu_part::is_pieces(&g.name))
            .map(|g| g.name)
            .collect();
        let profile = value(Opt::Mig).and_then(|p| crate::gpu_part::parse_profile(&p).ok());
        if let Some(name) = shares.first() {
            let counts = [
                (Opt::Gpus, self.has(Opt::Gpus)),
                (Opt::GpusPerNode, self.has(Opt::GpusPerNode)),
                (Opt::GpusPerSocket, self.has(Opt::GpusPerSocket)),
                (Opt::GpusPerTask, self.has(Opt::GpusPerTask)),
                (Opt::GpuShare, self.has(Opt::GpuShare)),
                (Opt::GpuPieces, self.has(Opt::GpuPieces)),
                (Opt::Mig, self.has(Opt::Mig)),
                (Opt::GpuFreq, self.has(Opt::GpuFreq)),
            ];
            let whole = self.gres_names_gpus().then(|| "--gres=gpu".to_owned());
            let other = counts.iter().find(|(_, has)| *has);
            let other = whole.or(other.map(|(opt, _)| format!("--{}", opt.spec().long)));
            let twice = (shares.len() > 1).then(|| format!("--gres={}", shares[1]));
            if let Some(other) = other.or(twice) {
                let what = format!("--gres={name} and {other} exclude one another");
                let problem = Problem::new(Code::Conflict, what).hint(
                    "a job has shares of GPUs or whole ones, and a share leaves the GPU as it is",
                );
                self.error(&[Opt::Gres], problem);
            }
        }
        for gpus in &mut request.gpus {
            let Some(profile) = &profile else { break };
            gpus.model = Some(match gpus.model.take() {
                Some(model) => format!("{model}_{profile}"),
                None => profile.clone(),
            });
        }
        if self.has(Opt::GpusPerSocket) && !self.has(Opt::SocketsPerNode) {
            let problem = Problem::new(Code::Missing, "GPUs per socket need a number of sockets")
                .hint("give --sockets-per-node too");
            self.error(&[Opt::GpusPerSocket], problem);
        }
    }

    /// `--tres-per-task` says the same as other options do, kind by kind.
    fn tres_per_task(&mut self) {
        let setting = self.settings.get(&Opt::TresPerTask);
        let value = setting.and_then(|setting| setting.given.value.as_deref()).unwrap_or_default();
        let list = crate::tres::parse(value).unwrap_or_default();
        let cpus = list.iter().any(|tres| tres.kind == "cpu");
        let gpus = crate::tres::gpus(&list) > 0;
        for (named, other) in [
            (cpus, Opt::CpusPerTask),
            (cpus, Opt::CpusPerGpu),
            (gpus, Opt::GpusPerTask),
            (gpus, Opt::NtasksPerGpu),
        ] {
            if named {
                self.exclude(Opt::TresPerTask, other);
            }
        }
    }

    fn gres_names_gpus(&self) -> bool {
        let value =
            self.settings.get(&Opt::Gres).and_then(|setting| setting.given.value.as_deref());
        value
            .and_then(|value| crate::gres::parse(value).ok())
            .is_some_and(|list| list.iter().any(|gres| gres.name == "gpu"))
    }

    fn needs_gpus(&mut self, request: &Request) {
        if request.wants_gpus() {
            return;
        }
        let needing = [
            Opt::MemPerGpu,
            Opt::CpusPerGpu,
            Opt::GpuMemory,
            Opt::GpuShare,
            Opt::GpuPieces,
            Opt::GpuIsolation,
            Opt::Mig,
        ];
        let settings = self.settings;
        for opt in needing.into_iter().filter(|opt| settings.contains_key(opt)) {
            let problem = Problem::new(Code::Missing, "the job asks for no GPU")
                .hint("ask for GPUs too, for example --gpus=1");
            self.error(&[opt], problem);
        }
        if self.has(Opt::NtasksPerGpu) && !self.has(Opt::Ntasks) {
            let problem = Problem::new(Code::Missing, "neither GPUs nor tasks are counted")
                .hint("give --gpus or --ntasks");
            self.error(&[Opt::NtasksPerGpu], problem);
        }
    }

    /// GPUs per task need a task count (S-11 h), which a total of GPUs gives.
    fn tasks_for_gpus(&mut self, request: &mut Request) {
        let of = |scope: GpuScope| {
            request
                .gpus
                .iter()
                .filter(move |gpus| gpus.scope == scope)
                .fold(0_u32, |sum, gpus| sum.saturating_add(gpus.count))
        };
        let (total, per_task) = (of(GpuScope::Job), of(GpuScope::Task));
        let opts = [Opt::GpusPerTask, Opt::TresPerTask, Opt::Gpus, Opt::Ntasks];
        if per_task == 0 {
            return;
        }
        match request.tasks {
            None if request.tasks_per_node.is_some() => {}
            None if total > 0 && total.is_multiple_of(per_task) => {
                request.tasks = Some(total / per_task);
            }
            None if total > 0 => {
                let what = format!("{total} GPUs cannot be shared out in groups of {per_task}");
                self.error(&opts, Problem::new(Code::Impossible, what));
            }
            None => {
                let problem = Problem::new(Code::Missing, "GPUs per task need a number of tasks")
                    .hint("give --ntasks, --ntasks-per-node or --gpus too");
                self.error(&opts[..2], problem);
            }
            Some(tasks) if total > 0 && tasks.checked_mul(per_task) != Some(total) => {
                let what = format!(
                    "{} of {} each do not make {}",
                    plural(tasks, "task"),
                    plural(per_task, "GPU"),
                    plural(total, "GPU")
                );
                self.error(&opts, Problem::new(Code::Impossible, what));
            }
            Some(_) => {}
        }
    }

    fn nodes(&mut self, request: &mut Request) {
        if self.has(Opt::UseMinNodes)
            && let Some(nodes) = &request.nodes
        {
            request.nodes = Some(NodeCount::exactly(nodes.least()));
        }
        if let (Some(tasks), Some(nodes)) = (request.tasks, &request.nodes) {
            let (least, most) = (nodes.least(), nodes.most());
            if tasks < least {
                // Slurm's own sentence: "nnodes" and "processes" are its words.
                self.warn(
                    &[Opt::Ntasks, Opt::Nodes],
                    format!(
                        "can't run {tasks} processes on {least} nodes, setting nnodes to {tasks}"
                    ),
                );
                request.nodes = Some(NodeCount::exactly(tasks));
            } else if let Some(per_node) = request.tasks_per_node
                && most.checked_mul(per_node).is_some_and(|room| room < tasks)
            {
                let what = format!(
                    "{tasks} tasks do not fit on {most} nodes with at most {per_node} tasks each"
                );
                let problem = Problem::new(Code::Impossible, what);
                self.error(&[Opt::Ntasks, Opt::NtasksPerNode, Opt::Nodes], problem);
            }
        }
        if self.has(Opt::NtasksPerGpu)
            && request.nodes.as_ref().is_some_and(|nodes| nodes.least() != nodes.most())
        {
            let problem = Problem::new(Code::Conflict, "tasks per GPU need one number of nodes")
                .hint("give --nodes without a range");
            self.error(&[Opt::NtasksPerGpu, Opt::Nodes], problem);
        }
        self.node_names(request);
        self.segments(request);
    }

    /// A number of nodes has to part into whole segments (case T-49); spread and consolidated
    /// segments exclude one another, and both need a segment size.
    fn segments(&mut self, request: &Request) {
        self.exclude(Opt::SpreadSegments, Opt::ConsolidateSegments);
        for opt in [Opt::SpreadSegments, Opt::ConsolidateSegments] {
            if self.has(opt) && request.topology.segment.is_none() {
                let problem = Problem::new(Code::Missing, "no segment size is given")
                    .hint("give --segment=N too");
                self.error(&[opt], problem);
            }
        }
        let (Some(size), Some(nodes)) = (request.topology.segment, &request.nodes) else { return };
        let parts = |n: u32| n <= size || n.is_multiple_of(size);
        let some = match nodes {
            NodeCount::OneOf(set) => set.iter().any(|n| parts(*n)),
            NodeCount::Range { min, max } => *min <= size || max / size * size >= *min,
        };
        if !some {
            let what =
                format!("{} do not part into segments of {size}", plural(nodes.least(), "node"));
            self.error(&[Opt::Segment, Opt::Nodes], Problem::new(Code::Impossible, what));
        }
    }

    fn node_names(&mut self, request: &mut Request) {
        let named = u32::try_from(request.node_list.len()).unwrap_or(u32::MAX);
        if let Some(both) = request.node_list.intersection(&request.exclude).next() {
            let what = format!("node {both} is both asked for and excluded");
            self.error(&[Opt::Nodelist, Opt::Exclude], Problem::new(Code::Impossible, what));
        }
        match &request.nodes {
            Some(nodes) if named > nodes.most() => {
                let what =
                    format!("{named} nodes are named, and at most {} asked for", nodes.most());
                self.error(&[Opt::Nodelist, Opt::Nodes], Problem::new(Code::Impossible, what));
            }
            None if named > 0 && request.tasks.is_none() => {
                request.nodes = Some(NodeCount::exactly(named));
            }
            _ => {}
        }
    }

    /// Each node must hold at least one GPU of a total (S-11 f), and totals must agree.
    fn gpus_and_nodes(&mut self, request: &Request) {
        let opts = [Opt::Gpus, Opt::GpusPerNode, Opt::Gres, Opt::Nodes];
        let (least, most) = (request.nodes_min(), request.nodes.as_ref().map(NodeCount::most));
        for gpus in request.gpus.iter().filter(|gpus| gpus.scope == GpuScope::Job && gpus.count > 0)
        {
            if gpus.count < least {
                let what = format!(
                    "{} in total cannot be spread over {least} nodes: each holds at least one",
                    plural(gpus.count, "GPU")
                );
                let problem = Problem::new(Code::Impossible, what)
                    .hint("ask for more GPUs or fewer nodes, or say --gpus-per-node");
                self.error(&opts, problem);
            }
            let per_node = request.gpus.iter().find(|other| {
                other.scope == GpuScope::Node && other.model == gpus.model && other.count > 0
            });
            if let (Some(per_node), Some(most)) = (per_node, most)
                && (u64::from(per_node.count) * u64::from(least) > u64::from(gpus.count)
                    || u64::from(per_node.count) * u64::from(most) < u64::from(gpus.count))
            {
                let what = format!(
                    "{} on each node do not make {} in total",
                    plural(per_node.count, "GPU"),
                    gpus.count
                );
                self.error(&opts, Problem::new(Code::Impossible, what));
            }
        }
    }

    fn times(&mut self, component: &ComponentRequest, context: &Context) {
        let spec = &component.spec;
        if let (Some(TimeLimit::Of(limit)), Some(least)) = (spec.time_limit, spec.time_min)
            && least > limit
        {
            let what = format!(
                "the minimum time {} is longer than the limit {}",
                print_long(TimeLimit::Of(least)),
                print_long(TimeLimit::Of(limit))
            );
            self.error(&[Opt::TimeMin, Opt::Time], Problem::new(Code::TimeOrder, what));
        }
        let Some(deadline) = spec.deadline else { return };
        if deadline <= context.now {
            let problem = Problem::new(Code::WhenOrder, "the deadline has passed");
            self.error(&[Opt::Deadline], problem);
            return;
        }
        let begin = spec.begin.unwrap_or(context.now);
        let shortest = match (spec.time_min, spec.time_limit) {
            (Some(least), _) | (None, Some(TimeLimit::Of(least))) => least,
            (None, _) => Seconds(0),
        };
        if begin.plus(shortest) > deadline {
            let what = if begin >= deadline {
                "the deadline is not after the begin time".to_owned()
            } else {
                format!(
                    "the job cannot run for {} and end by the deadline",
                    print_long(TimeLimit::Of(shortest))
                )
            };
            let problem = Problem::new(Code::WhenOrder, what)
                .hint("shorten --time, or say with --time-min how much would do");
            self.error(&[Opt::Deadline, Opt::Begin, Opt::Time, Opt::TimeMin], problem);
        }
    }
}
