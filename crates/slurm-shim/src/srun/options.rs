//! The options of `srun` (srun manual), and which of them say something about a step.

use muster_api::step::{CpuBind, Distribution, GpuBind, StepGpus, StepSpec};
use muster_model::NodeOrder;
use muster_slurm_syntax::{binding, count, duration, export, gres, hostlist, memory};

use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, flag, maybe, value};

/// Hosts that a node list may name.
const HOSTS_MAX: usize = 65_536;

/// The largest file of hosts, bytes.
const HOSTFILE_MAX: u64 = 4 << 20;

/// Every option that srun has.
pub(crate) const TABLE: &[Opt] = &[
    value("account", 'A'),
    value("acctg-freq", NO_SHORT),
    value("bb", NO_SHORT),
    value("bbf", NO_SHORT),
    value("bcast-exclude", NO_SHORT),
    maybe("bcast", NO_SHORT),
    value("begin", 'b'),
    value("cluster-constraint", NO_SHORT),
    value("clusters", 'M'),
    value("comment", NO_SHORT),
    maybe("compress", NO_SHORT),
    value("constraint", 'C'),
    value("container", NO_SHORT),
    flag("contiguous", NO_SHORT),
    value("core-spec", 'S'),
    value("cores-per-socket", NO_SHORT),
    value("cpu-bind", NO_SHORT),
    value("cpu-freq", NO_SHORT),
    value("cpus-per-gpu", NO_SHORT),
    value("cpus-per-task", 'c'),
    value("chdir", 'D'),
    value("deadline", NO_SHORT),
    value("delay-boot", NO_SHORT),
    value("dependency", 'd'),
    flag("disable-status", 'X'),
    value("distribution", 'm'),
    value("epilog", NO_SHORT),
    value("error", 'e'),
    flag("exact", NO_SHORT),
    value("exclude", 'x'),
    maybe("exclusive", NO_SHORT),
    value("export", NO_SHORT),
    flag("external", NO_SHORT),
    value("extra-node-info", 'B'),
    value("gid", NO_SHORT),
    value("gpu-bind", NO_SHORT),
    value("gpu-freq", NO_SHORT),
    value("gpus", 'G'),
    value("gpus-per-node", NO_SHORT),
    value("gpus-per-socket", NO_SHORT),
    value("gpus-per-task", NO_SHORT),
    value("gres", NO_SHORT),
    value("gres-flags", NO_SHORT),
    value("het-group", NO_SHORT),
    flag("help", 'h'),
    value("hint", NO_SHORT),
    flag("hold", 'H'),
    maybe("immediate", 'I'),
    value("input", 'i'),
    flag("interactive", NO_SHORT),
    value("job-name", 'J'),
    value("jobid", NO_SHORT),
    maybe("kill-on-bad-exit", 'K'),
    flag("label", 'l'),
    value("licenses", 'L'),
    value("mail-type", NO_SHORT),
    value("mail-user", NO_SHORT),
    value("mcs-label", NO_SHORT),
    value("mem", NO_SHORT),
    value("mem-bind", NO_SHORT),
    value("mem-per-cpu", NO_SHORT),
    value("mem-per-gpu", NO_SHORT),
    value("mincpus", NO_SHORT),
    value("mpi", NO_SHORT),
    value("msg-timeout", NO_SHORT),
    flag("multi-prog", NO_SHORT),
    value("network", NO_SHORT),
    maybe("nice", NO_SHORT),
    maybe("no-kill", 'k'),
    flag("no-allocate", 'Z'),
    value("nodefile", 'F'),
    value("nodelist", 'w'),
    value("nodes", 'N'),
    value("ntasks", 'n'),
    value("ntasks-per-core", NO_SHORT),
    value("ntasks-per-gpu", NO_SHORT),
    value("ntasks-per-node", NO_SHORT),
    value("ntasks-per-socket", NO_SHORT),
    value("open-mode", NO_SHORT),
    value("output", 'o'),
    flag("overcommit", 'O'),
    flag("overlap", NO_SHORT),
    flag("oversubscribe", 's'),
    value("partition", 'p'),
    value("power", NO_SHORT),
    value("prefer", NO_SHORT),
    value("preserve-env", 'E'),
    value("priority", NO_SHORT),
    value("profile", NO_SHORT),
    value("prolog", NO_SHORT),
    maybe("propagate", NO_SHORT),
    maybe("pty", NO_SHORT),
    value("qos", 'q'),
    flag("quiet", 'Q'),
    flag("quit-on-interrupt", NO_SHORT),
    flag("reboot", NO_SHORT),
    value("relative", 'r'),
    value("reservation", NO_SHORT),
    flag("resv-ports", NO_SHORT),
    value("send-libs", NO_SHORT),
    value("signal", NO_SHORT),
    value("slurmd-debug", NO_SHORT),
    value("sockets-per-node", NO_SHORT),
    flag("spread-job", NO_SHORT),
    value("switches", NO_SHORT),
    value("task-epilog", NO_SHORT),
    value("task-prolog", NO_SHORT),
    flag("test-only", NO_SHORT),
    value("thread-spec", NO_SHORT),
    value("threads", 'T'),
    value("threads-per-core", NO_SHORT),
    value("time", 't'),
    value("time-min", NO_SHORT),
    value("tmp", NO_SHORT),
    value("tres-bind", NO_SHORT),
    value("tres-per-task", NO_SHORT),
    value("uid", NO_SHORT),
    flag("unbuffered", 'u'),
    flag("usage", NO_SHORT),
    flag("use-min-nodes", NO_SHORT),
    flag("verbose", 'v'),
    flag("version", 'V'),
    value("wait", 'W'),
    value("wckey", NO_SHORT),
    flag("whole", NO_SHORT),
];

/// Where a task's stream goes to or comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// srun's own stream, for every task.
    Srun,
    /// srun's own stream, for this task alone.
    Task(u32),
    /// Nowhere.
    Nothing,
    /// A file by pattern.
    File(String),
}

/// What srun was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Everything as it was read.
    pub(crate) parsed: Parsed,
    /// Standard output of the tasks.
    pub(crate) output: Target,
    /// Standard error of the tasks; `None` goes where the output goes.
    pub(crate) error: Option<Target>,
    /// Standard input of the tasks.
    pub(crate) input: Target,
    /// Output files are appended to.
    pub(crate) append: bool,
    /// Lines carry the number of their task.
    pub(crate) label: bool,
    /// No more than errors is said.
    pub(crate) quiet: bool,
    /// The command is a file of programs by task.
    pub(crate) multi_prog: bool,
    /// Task 0 gets a terminal.
    pub(crate) pty: bool,
    /// An interrupt goes to the tasks at once.
    pub(crate) disable_status: bool,
    /// The job to run in, where it is not the one around.
    pub(crate) jobid: Option<String>,
}

/// An environment to look variables up in.
pub(crate) type Environment = dyn Fn(&str) -> Option<String>;

/// Reads the words behind `srun`.
///
/// # Errors
/// A message as Slurm says it, without the command's name.
pub(crate) fn read(args: &[String], environment: &Environment) -> Result<Options, String> {
    let parsed = getopt::parse("srun", TABLE, args, Order::OptionsFirst)?;
    let target = |key: &str, variable: &str| {
        parsed.last(key).map(str::to_owned).or_else(|| environment(variable)).map(|t| target_of(&t))
    };
    let set = |variable: &str| {
        environment(variable).is_some_and(|text| !text.is_empty() && text != "0" && text != "no")
    };
    let append = parsed
        .last("open-mode")
        .map(str::to_owned)
        .or_else(|| environment("SLURM_OPEN_MODE"))
        .is_some_and(|mode| mode.starts_with(['a', 'A']));
    Ok(Options {
        output: target("output", "SLURM_STDOUTMODE").unwrap_or(Target::Srun),
        error: target("error", "SLURM_STDERRMODE"),
        input: target("input", "SLURM_STDINMODE").unwrap_or(Target::Srun),
        append,
        label: parsed.has("label") || set("SLURM_LABELIO"),
        quiet: parsed.has("quiet"),
        multi_prog: parsed.has("multi-prog") || set("SLURM_MULTI_PROG"),
        pty: parsed.has("pty") && parsed.last("pty") != Some("0"),
        disable_status: parsed.has("disable-status") || set("SLURM_DISABLE_STATUS"),
        jobid: parsed.last("jobid").map(str::to_owned),
        parsed,
    })
}

/// srun manual, "IO redirection": `all`, `none`, a task number, or a file name pattern.
fn target_of(text: &str) -> Target {
    if text.eq_ignore_ascii_case("all") || text == "-" {
        return Target::Srun;
    }
    if text.eq_ignore_ascii_case("none") {
        return Target::Nothing;
    }
    match text.parse::<u32>() {
        Ok(task) if text.bytes().all(|b| b.is_ascii_digit()) => Target::Task(task),
        _ => Target::File(text.to_owned()),
    }
}

/// What the options say of the step; numbers that are absent the supervisor fills in.
///
/// # Errors
/// `Invalid --time specification` and its like.
pub(crate) fn step_spec(
    options: &Options,
    environment: &Environment,
    variables: Vec<(String, String)>,
    cwd: String,
) -> Result<StepSpec, String> {
    let parsed = &options.parsed;
    let number = |key: &str| number_of(parsed, key);
    let mut spec = StepSpec {
        name: name_of(options),
        tasks: number("ntasks")?,
        tasks_per_node: number("ntasks-per-node")?,
        cpus_per_task: number("cpus-per-task")?,
        relative: number("relative")?,
        overlap: parsed.has("overlap") || environment("SLURM_OVERLAP").is_some(),
        exact: parsed.has("exact")
            || parsed.has("exclusive")
            || environment("SLURM_EXACT").is_some(),
        immediate: parsed.has("immediate"),
        kill_on_bad_exit: kill_on_bad_exit(parsed, environment),
        wait_s: number("wait")?.filter(|seconds| *seconds > 0),
        pty: options.pty,
        cwd: parsed.last("chdir").map_or(cwd, str::to_owned),
        environment: exported(parsed, environment, variables)?,
        argv: parsed.words.clone(),
        ..StepSpec::default()
    };
    if spec.tasks.is_none() && spec.tasks_per_node.is_none() && !parsed.has("nodes") {
        let variable = environment("SLURM_NTASKS").or_else(|| environment("SLURM_NPROCS"));
        spec.tasks = variable.and_then(|text| text.parse().ok());
    }
    if spec.cpus_per_task.is_none() {
        spec.cpus_per_task = environment("SRUN_CPUS_PER_TASK").and_then(|text| text.parse().ok());
    }
    if let Some(text) = parsed.last("nodes") {
        let nodes = count::parse_nodes(text).map_err(|_| invalid("nodes"))?;
        (spec.nodes_min, spec.nodes_max) = (Some(nodes.least()), Some(nodes.most()));
    }
    if let Some(text) = parsed.last("time") {
        let limit = duration::parse_limit(text).map_err(|_| invalid("time"))?;
        spec.time_limit_s = duration::rounded_to_minutes(limit).seconds().map(|s| s.0);
    }
    if let Some(text) = parsed.last("mem") {
        spec.memory_mib_per_node = Some(memory::parse_mib(text).map_err(|_| invalid("mem"))?);
    }
    spec.nodelist = hosts(parsed, "nodelist")?;
    spec.exclude = hosts(parsed, "exclude")?;
    spec.gpus = gpus(parsed, environment)?;
    let bound = |key: &str, variable: &str| -> Result<Option<u32>, String> {
        let of_job = || environment(variable).and_then(|text| text.parse().ok());
        Ok(number(key)?.or_else(of_job))
    };
    spec.tasks_per_gpu = bound("ntasks-per-gpu", "SLURM_NTASKS_PER_GPU")?;
    spec.tasks_per_socket = bound("ntasks-per-socket", "SLURM_NTASKS_PER_SOCKET")?;
    spec.tasks_per_core = bound("ntasks-per-core", "SLURM_NTASKS_PER_CORE")?;
    spec.distribution = distribution(parsed, environment)?;
    spec.hosts = task_hosts(&mut spec.distribution, &spec.nodelist, environment)?;
    spec.cpu_bind = cpu_bind(parsed, environment)?;
    spec.gpu_bind = gpu_bind(parsed, environment)?;
    Ok(spec)
}

/// An option's text, else the variable's.
fn said(parsed: &Parsed, key: &str, environment: &Environment, variable: &str) -> Option<String> {
    parsed.last(key).map(str::to_owned).or_else(|| environment(variable))
}

fn distribution(parsed: &Parsed, environment: &Environment) -> Result<Distribution, String> {
    let Some(text) = said(parsed, "distribution", environment, "SLURM_DISTRIBUTION") else {
        return Ok(Distribution::default());
    };
    let plane = environment("SLURM_DIST_PLANESIZE").and_then(|text| text.parse().ok());
    binding::distribution(&text, plane).map_err(|problem| bad_value("distribution", &problem))
}

/// The node of each task (srun manual, `--distribution=arbitrary`): the file that `SLURM_HOSTFILE`
/// names, whatever else is said, or the node list; with neither, tasks lie in blocks.
fn task_hosts(
    distribution: &mut Distribution,
    nodelist: &[String],
    environment: &Environment,
) -> Result<Vec<String>, String> {
    if let Some(path) = environment("SLURM_HOSTFILE").filter(|path| !path.is_empty()) {
        distribution.nodes = NodeOrder::Arbitrary;
        return hosts_in(&path);
    }
    if distribution.nodes != NodeOrder::Arbitrary {
        return Ok(Vec::new());
    }
    if nodelist.is_empty() {
        distribution.nodes = NodeOrder::Block;
    }
    Ok(nodelist.to_vec())
}

/// The hosts in a file: one a line or parted by commas, `#` begins a remark, `n1*2` is twice.
fn hosts_in(path: &str) -> Result<Vec<String>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("srun: error: {path}: {why}");
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut text = String::new();
    let read = std::io::Read::take(file, HOSTFILE_MAX);
    std::io::Read::read_to_string(&mut { read }, &mut text).map_err(|error| failed(&error))?;
    let mut hosts = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        let (names, times) = match line.rsplit_once('*') {
            Some((names, times)) => (names, count::parse_count(times.trim(), 1)),
            None => (line, Ok(1)),
        };
        let times = times.map_err(|problem| failed(&problem))?;
        if names.trim().is_empty() {
            continue;
        }
        let found =
            hostlist::expand(names.trim(), HOSTS_MAX).map_err(|problem| failed(&problem))?;
        for host in found {
            if hosts.len() + times as usize > HOSTS_MAX {
                return Err(failed(&format!("it names more than {HOSTS_MAX} hosts")));
            }
            hosts.extend(std::iter::repeat_n(host, times as usize));
        }
    }
    Ok(hosts)
}

fn cpu_bind(parsed: &Parsed, environment: &Environment) -> Result<Option<CpuBind>, String> {
    let text = said(parsed, "cpu-bind", environment, "SLURM_CPU_BIND");
    let read = text.map(|text| binding::cpu_bind(&text)).transpose();
    read.map_err(|problem| bad_value("cpu-bind", &problem))
}

fn gpu_bind(parsed: &Parsed, environment: &Environment) -> Result<Option<GpuBind>, String> {
    if let Some(text) = parsed.last("tres-bind") {
        let read = binding::tres_bind(text).map(Some);
        return read.map_err(|problem| bad_value("tres-bind", &problem));
    }
    let text = said(parsed, "gpu-bind", environment, "SLURM_GPU_BIND");
    let read = text.map(|text| binding::gpu_bind(&text)).transpose();
    read.map_err(|problem| bad_value("gpu-bind", &problem))
}

fn bad_value(option: &str, problem: &dyn std::fmt::Display) -> String {
    format!("{}: {problem}", invalid(option))
}

fn name_of(options: &Options) -> String {
    let command = options.parsed.words.first().map_or("", String::as_str);
    let base = command.rsplit('/').next().unwrap_or(command);
    options.parsed.last("job-name").unwrap_or(base).to_owned()
}

fn invalid(option: &str) -> String {
    format!("srun: error: Invalid --{option} specification")
}

fn number_of(parsed: &Parsed, key: &str) -> Result<Option<u32>, String> {
    let Some(text) = parsed.last(key) else { return Ok(None) };
    match count::parse_count(text, u32::from(key != "relative" && key != "wait")) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(format!("srun: error: Invalid numeric value \"{text}\" for --{key}.")),
    }
}

fn kill_on_bad_exit(parsed: &Parsed, environment: &Environment) -> bool {
    if parsed.has("kill-on-bad-exit") {
        return parsed.last("kill-on-bad-exit") != Some("0");
    }
    environment("SLURM_KILL_BAD_EXIT").is_some_and(|text| text != "0")
}

fn hosts(parsed: &Parsed, key: &str) -> Result<Vec<String>, String> {
    let Some(text) = parsed.last(key) else { return Ok(Vec::new()) };
    hostlist::expand(text, HOSTS_MAX).map_err(|problem| format!("srun: error: {problem}"))
}

fn gpus(parsed: &Parsed, environment: &Environment) -> Result<Option<StepGpus>, String> {
    let total = |key: &str| -> Result<Option<u32>, String> {
        let Some(text) = parsed.last(key) else { return Ok(None) };
        if text == "0" || text.eq_ignore_ascii_case("none") {
            return Ok(Some(0));
        }
        let list = if key == "gres" { gres::parse(text) } else { gres::parse_gpus(text) };
        let list = list.map_err(|_| invalid(key))?;
        let gpus = list.iter().filter(|item| item.name == "gpu");
        Ok(Some(gpus.map(|item| item.count as u32).sum()))
    };
    if let Some(count) = total("gpus-per-task")? {
        return Ok(Some(StepGpus::Task(count)));
    }
    if let Some(count) = total("gpus")? {
        return Ok(Some(StepGpus::Step(count)));
    }
    if let Some(count) = total("gpus-per-node")?.or(total("gres")?) {
        return Ok(Some(StepGpus::Node(count)));
    }
    // As the job has them, each task its own.
    let of_job = environment("SLURM_GPUS_PER_TASK").and_then(|text| gres::parse_gpus(&text).ok());
    Ok(of_job.map(|list| StepGpus::Task(list.iter().map(|item| item.count as u32).sum())))
}

/// The variables that the tasks inherit (`--export`, and `SLURM_EXPORT_ENV` as a batch job has it).
fn exported(
    parsed: &Parsed,
    environment: &Environment,
    variables: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, String> {
    let asked =
        parsed.last("export").map(str::to_owned).or_else(|| environment("SLURM_EXPORT_ENV"));
    let Some(text) = asked else { return Ok(variables) };
    let wanted = export::parse(&text).map_err(|_| invalid("export"))?;
    let all: std::collections::BTreeMap<String, String> = variables.into_iter().collect();
    let mut kept = wanted.apply(&all);
    // Variables of the scheduler are not the caller's to withhold.
    let ours = |name: &str| name.starts_with("SLURM_") || name.starts_with("MUSTER_");
    kept.extend(all.into_iter().filter(|(name, _)| ours(name) || name == "PATH"));
    Ok(kept.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(line: &str, variables: &[(&str, &str)]) -> Result<StepSpec, String> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let owned: Vec<(String, String)> =
            variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let lookup = owned.clone();
        let environment: Box<Environment> = Box::new(move |name: &str| {
            lookup.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        });
        let options = read(&args, &environment)?;
        step_spec(&options, &environment, owned, "/work".into())
    }

    #[test]
    fn options_of_a_step() {
        let read = spec(
            "-n4 -N2-3 -c2 --gpus-per-task=1 -l -K --time=1:30 -w n[1-2] --overlap /bin/echo -n",
            &[("SLURM_NTASKS", "9")],
        )
        .expect("read");
        assert_eq!((read.tasks, read.cpus_per_task), (Some(4), Some(2)));
        assert_eq!((read.nodes_min, read.nodes_max), (Some(2), Some(3)));
        assert_eq!(read.gpus, Some(StepGpus::Task(1)));
        assert_eq!(read.time_limit_s, Some(120));
        assert_eq!(read.nodelist, ["n1", "n2"]);
        assert!(read.overlap && read.kill_on_bad_exit && !read.exact);
        assert_eq!(read.argv, ["/bin/echo", "-n"]);
        assert_eq!(read.name, "echo");
    }

    #[test]
    fn the_jobs_variables_fill_in_what_is_not_said() {
        let variables = [("SLURM_NTASKS", "3"), ("SRUN_CPUS_PER_TASK", "2")];
        let read = spec("hostname", &variables).expect("read");
        assert_eq!((read.tasks, read.cpus_per_task), (Some(3), Some(2)));
        assert_eq!(spec("-N2 hostname", &variables).expect("read").tasks, None);
    }

    #[test]
    fn binding_comes_from_options_and_from_the_jobs_variables() {
        let variables = [
            ("SLURM_DISTRIBUTION", "plane"),
            ("SLURM_DIST_PLANESIZE", "2"),
            ("SLURM_GPU_BIND", "closest"),
            ("SLURM_CPU_BIND", "verbose"),
            ("SLURM_NTASKS_PER_GPU", "2"),
            ("SLURM_GPUS_PER_TASK", "a100:1"),
        ];
        let read = spec("hostname", &variables).expect("read");
        assert_eq!(read.distribution.plane(), Some(2));
        assert_eq!(read.gpu_bind.map(|b| b.to_string()).as_deref(), Some("closest"));
        assert_eq!(read.cpu_bind.map(|b| b.to_string()).as_deref(), Some("verbose"));
        assert_eq!((read.tasks_per_gpu, read.gpus), (Some(2), Some(StepGpus::Task(1))));
        let line = "-m cyclic:block --cpu-bind=cores --gpu-bind=map:0,1 --gres=gpu:2 hostname";
        let read = spec(line, &variables).expect("read");
        assert_eq!(read.distribution.to_string(), "cyclic:block");
        assert_eq!(read.cpu_bind.map(|b| b.to_string()).as_deref(), Some("cores"));
        assert_eq!(read.gpu_bind.map(|b| b.to_string()).as_deref(), Some("map_gpu:0,1"));
        assert_eq!(read.gpus, Some(StepGpus::Node(2)));
        for line in ["-m x a", "--cpu-bind=x a", "--gpu-bind=x a", "--tres-bind=x a"] {
            let refused = spec(line, &[]).expect_err("refused");
            assert!(refused.starts_with("srun: error: Invalid --"), "{refused}");
        }
    }

    #[test]
    fn hosts_of_tasks_come_from_a_file_or_the_node_list() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("hosts");
        std::fs::write(&file, "n2 # first\n\nn[1-2],n1\nn3*2\n").expect("file");
        let path = file.to_string_lossy().into_owned();
        let read = spec("-m cyclic hostname", &[("SLURM_HOSTFILE", &path)]).expect("read");
        assert_eq!(read.hosts, ["n2", "n1", "n2", "n1", "n3", "n3"]);
        assert_eq!(read.distribution.nodes, NodeOrder::Arbitrary);
        drop(directory);
        let refused = spec("hostname", &[("SLURM_HOSTFILE", &path)]).expect_err("refused");
        assert!(refused.contains(&path), "{refused}");
        let read = spec("-m arbitrary -w n2,n1 hostname", &[]).expect("read");
        assert_eq!(read.hosts, ["n2", "n1"]);
        let read = spec("-m arbitrary hostname", &[]).expect("read");
        assert_eq!(read.distribution.nodes, NodeOrder::Block);
    }

    #[test]
    fn wrong_values_are_refused() {
        assert_eq!(
            spec("--time=4h hostname", &[]).expect_err("refused"),
            "srun: error: Invalid --time specification"
        );
        assert!(spec("-n x hostname", &[]).is_err());
        assert!(spec("-w n[1- hostname", &[]).is_err());
    }

    #[test]
    fn export_names_what_tasks_inherit() {
        let variables = [("A", "1"), ("B", "2"), ("SLURM_JOB_ID", "7")];
        let read = spec("--export=A,C=3 env", &variables).expect("read");
        let names: Vec<&str> = read.environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["A", "C", "SLURM_JOB_ID"]);
    }
}
