//! The command line as `clap` reads it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// One scheduler for GPU and HPC clusters.
#[derive(Parser)]
#[command(name = "muster", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(after_help = "Slurm's names work as links to this program: muster slurm-links DIR")]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What there is to do.
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // read once a process
pub(crate) enum Command {
    /// Submit batch scripts, with sbatch's options
    Submit(SubmitArgs),
    /// Run a command as a job, show its output, end with its exit code
    Run(RunArgs),
    /// End jobs
    Cancel(Jobs),
    /// Keep waiting jobs from starting
    Hold(Jobs),
    /// Let held jobs go
    Release(Jobs),
    /// End jobs and put them back in the queue
    Requeue(Jobs),
    /// Checkpoints of running jobs
    #[command(subcommand)]
    Checkpoint(Checkpoint),
    /// Wait until jobs are over; ends with their highest exit code
    Wait(Jobs),
    /// Print what a job wrote
    Logs(LogsArgs),
    /// Connect to a job's terminal; control-] leaves it and the job goes on
    Attach {
        /// A job that `muster run --pty` started
        job: String,
    },
    /// What waits and runs
    Queue(QueueArgs),
    /// One job whole
    Job(JobArgs),
    /// Why a job waits, who holds what it needs, and what would help
    Why(WhyArgs),
    /// When a job is expected to start
    When(One),
    /// Whom a change would delay, and by how long; nothing is changed
    #[command(subcommand, name = "whatif")]
    WhatIf(WhatIf),
    /// Nodes and licences set aside for some people and a time
    #[command(subcommand)]
    Reservation(crate::reservation::Reservation),
    /// The nodes
    #[command(subcommand)]
    Node(Node),
    /// The partitions
    #[command(subcommand)]
    Partition(List),
    /// The accounts
    #[command(subcommand)]
    Account(List),
    /// The qualities of service
    #[command(subcommand)]
    Qos(List),
    /// The priority of waiting jobs, factor by factor
    Priority(crate::share::PriorityArgs),
    /// Shares and use of accounts and users
    Share(crate::share::ShareArgs),
    /// The switches above the nodes
    Topology(Json),
    /// Jobs of the past
    History(HistoryArgs),
    /// What the machine did over time: CPUs, memory, disks, network, GPUs, as sar shows it
    Machine(crate::machine::MachineArgs),
    /// What the network between two nodes carries
    #[command(subcommand)]
    Net(crate::net::Net),
    /// The configuration
    #[command(subcommand)]
    Config(Config),
    /// Make the Slurm names as links in a directory of their own
    SlurmLinks {
        /// The directory [default: slurm-bin in the state directory]
        dir: Option<PathBuf>,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// The directory [default: print the first page]
        dir: Option<PathBuf>,
    },
    /// Print the page of an error's or a reason's code
    ExplainCode {
        /// The code, such as `E_TIME_BAD` or RESOURCES
        code: String,
    },
    /// Save the newest planning round to a file, or plan a saved one again
    Replay(ReplayArgs),
    /// Look at another scheduler's queue; nothing there is changed
    #[command(subcommand)]
    Shadow(crate::shadow::Shadow),
    /// A first Slurm for machines that have none
    #[command(subcommand)]
    Slurm(crate::slurm::Slurm),
    /// Decide for partitions of another scheduler, which goes on running them
    #[command(subcommand)]
    Drive(crate::drive::Drive),
    /// The core without a daemon: replay traces, run scenarios
    #[command(subcommand)]
    Sim(crate::sim::Sim),
    /// Serve the page of queue, cluster and plan to a browser on this machine
    Web(WebArgs),
    /// The same on this terminal, live: queue with why and when, nodes, GPUs, plan, shares
    Top(crate::top::TopArgs),
    /// The version of this program and of the daemon
    Version(Json),
}

/// How the page is served.
#[derive(Args)]
pub(crate) struct WebArgs {
    /// The port on 127.0.0.1 [default: a free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Open a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Let the page cancel, hold, release and requeue; else it only shows
    #[arg(long)]
    pub(crate) act: bool,
}

/// What there is to do with checkpoints.
#[derive(Subcommand)]
pub(crate) enum Checkpoint {
    /// Say that a complete checkpoint is written: a job that makes room loses only what came after
    Report {
        /// The job [default: the one that this runs in]
        job: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// A change to try.
#[derive(Subcommand)]
pub(crate) enum WhatIf {
    /// Nodes are drained
    Drain {
        /// Their names, or a host list: node[1-3]
        #[arg(required = true)]
        names: Vec<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// More nodes are there
    Nodes {
        /// How many
        count: u32,
        /// The node that they are like [default: the first that is up]
        #[arg(long, value_name = "NODE")]
        like: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The policy of another configuration holds
    Config {
        /// Its file
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// A script is submitted
    Submit {
        /// sbatch's options, then the script; --json for JSON
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS SCRIPT")]
        words: Vec<String>,
    },
}

/// The words of `muster replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// Write the daemon's newest round there (for admins)
    #[arg(long, conflicts_with = "why")]
    pub(crate) save: bool,
    /// Write the round to another file with all names and texts of the site replaced
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "why"])]
    pub(crate) without_names: Option<PathBuf>,
    /// Everything about one job that waited in it, by number
    #[arg(long, value_name = "JOB")]
    pub(crate) why: Option<u32>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The words of `muster submit`.
#[derive(Args)]
pub(crate) struct SubmitArgs {
    /// sbatch's options, then scripts; `--` and arguments for them may follow
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS SCRIPT... [-- ARGS...]"
    )]
    pub(crate) words: Vec<String>,
}

/// The words of `muster run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// srun's options, then the command; --pty gives it a terminal
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS COMMAND...")]
    pub(crate) words: Vec<String>,
}

/// Jobs by name.
#[derive(Args)]
pub(crate) struct Jobs {
    /// Jobs: 12, 900_3, 900_[1-3], 12+1, or several as 12,13
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One job.
#[derive(Args)]
pub(crate) struct One {
    /// The job: 12, 900_3, 12+1
    pub(crate) job: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The words of `muster job`.
#[derive(Args)]
pub(crate) struct JobArgs {
    /// The job: 12, 900_3, 12+1
    pub(crate) job: String,
    /// What holds it back while it runs, and what would help
    #[arg(long)]
    pub(crate) diagnose: bool,
    /// What it used of what it had, in the end or so far: CPU, memory, GPUs, I/O, energy, cost
    #[arg(long, conflicts_with = "diagnose")]
    pub(crate) report: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The words of `muster why`.
#[derive(Args)]
pub(crate) struct WhyArgs {
    /// The job: 12, 900_3, 12+1
    pub(crate) job: String,
    /// Why it is not on this node
    #[arg(long, value_name = "NODE", conflicts_with = "over")]
    pub(crate) node: Option<String>,
    /// Why this other job comes first, or started before it
    #[arg(long, value_name = "JOB")]
    pub(crate) over: Option<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Nothing but the form of the answer.
#[derive(Args)]
pub(crate) struct Json {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The words of `muster logs`.
#[derive(Args)]
pub(crate) struct LogsArgs {
    /// The job
    pub(crate) job: String,
    /// Go on until the job is over
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// The standard error in place of the output
    #[arg(long)]
    pub(crate) error: bool,
}

/// The words of `muster queue`.
#[derive(Args)]
pub(crate) struct QueueArgs {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// Only these users' jobs
    #[arg(long, short, value_name = "NAMES")]
    pub(crate) user: Option<String>,
    /// Only your own jobs
    #[arg(long)]
    pub(crate) me: bool,
    /// Only these partitions' jobs
    #[arg(long, short, value_name = "NAMES")]
    pub(crate) partition: Option<String>,
    /// Ended jobs too, as long as the queue knows them
    #[arg(long, short)]
    pub(crate) all: bool,
    /// One line for each waiting array task
    #[arg(long, short = 'r')]
    pub(crate) expand: bool,
    /// Show it anew every two seconds
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What there is to do with nodes.
#[derive(Subcommand)]
pub(crate) enum Node {
    /// Every node with what is used of it
    List(Json),
    /// One node whole
    Show {
        /// Its name
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Give nodes no new work
    Drain {
        /// Their names, or a host list: node[1-3]
        #[arg(required = true)]
        names: Vec<String>,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Give nodes new work again
    Resume {
        /// Their names, or a host list
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// What there is to do with things that are only listed.
#[derive(Subcommand)]
pub(crate) enum List {
    /// All of them
    List(Json),
}

/// The words of `muster history`.
#[derive(Args)]
pub(crate) struct HistoryArgs {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// Only these users' jobs
    #[arg(long, short, value_name = "NAMES")]
    pub(crate) user: Option<String>,
    /// Only jobs in these states: completed, failed, timeout
    #[arg(long, short = 't', value_name = "STATES")]
    pub(crate) state: Option<String>,
    /// Jobs that ended since then: today (the default), 2026-12-01, now-2hours
    #[arg(long, short = 'S', value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Jobs submitted before then
    #[arg(long, short = 'E', value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// The newest so many jobs of that time, 0 for all of them [default: 1000, with --json all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What there is to do with the configuration.
#[derive(Subcommand)]
pub(crate) enum Config {
    /// Print the configuration in force
    Show {
        /// Say where each value comes from
        #[arg(long)]
        origin: bool,
        /// The file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with the configuration, and what in it is doubtful
    Check {
        /// The file
        file: Option<PathBuf>,
        /// End with 1 also where there are only warnings
        #[arg(long)]
        strict: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say as a diff what the best combination of a sweep would change in the configuration
    Propose(crate::propose::ProposeArgs),
    /// Let the daemon read it anew
    Reload(Json),
}
