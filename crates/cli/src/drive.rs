//! `muster drive`: partitions of a running Slurm and pods of a Kubernetes cluster, decided by muster.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use muster_drive::{By, Drive as Driving, DriveError, Happened, Lapse, Settings, Turn};
use muster_engine_slurm::read::{CALLS_AGAIN, read};
use muster_engine_slurm::{Commands, Pace, Rest, SlurmError};
use muster_model::{Seconds, Timestamp};

use crate::interrupt;
use crate::say::{self, Failure, Outcome};
use crate::shadow::OrderBy;
use crate::table::{Table, terminal_width};

/// Turns are at least and at most so far apart.
const TURNS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// Slurm is left alone for so many times as long as an answer took.
const REST_TIMES: u32 = 1;

/// While it waits it looks so often whether it is to end.
const GLANCE: Duration = Duration::from_millis(100);

/// Decide for partitions of a Slurm or pods of a Kubernetes cluster, which go on running them.
#[derive(Subcommand)]
pub(crate) enum Drive {
    /// Take partitions over and decide for them until ^C, which gives them back
    Slurm(SlurmArgs),
    /// Schedule the pods of a Kubernetes cluster that name muster, until ^C
    Kubernetes(crate::pods::KubernetesArgs),
    /// Give partitions back, whoever drives them; running jobs go on
    Stop(WhichArgs),
    /// Which partitions are driven, until when, and what is about to start in them
    Status(StatusArgs),
    /// Gives partitions back once whoever started it is gone
    #[command(hide = true)]
    Watchdog(WhichArgs),
}

/// How a partition is handed over.
#[derive(Clone, Copy, ValueEnum)]
enum ByWhat {
    /// Behind a short reservation of its nodes
    Lease,
    /// By an administrator's hold on each job that waits
    Hold,
}

/// Words of `muster drive slurm`.
#[derive(Args)]
pub(crate) struct SlurmArgs {
    /// A partition to take over; may be said several times
    #[arg(long, required = true, value_name = "NAME")]
    partition: Vec<String>,
    /// How it is handed over: by a lease, or by holds where the site cannot reserve
    #[arg(long, value_enum, default_value_t = ByWhat::Lease)]
    by: ByWhat,
    /// The slurm.conf of the Slurm to drive, in place of the machine's
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Read from this slurmrestd, unix:/path or http://host:port (token in SLURM_JWT), and from the
    /// commands only where it does not answer; what is told goes by the commands
    #[arg(long, value_name = "URL")]
    rest: Option<String>,
    /// Without muster Slurm decides again after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(20..=3600))]
    lease: u32,
    /// At most so many calls that only read a minute; a turn takes three
    #[arg(long, value_name = "N", default_value_t = 360)]
    calls_per_minute: u32,
    /// Whose order the queue has: Slurm's priorities, or one of muster's on Slurm's records
    #[arg(long, value_enum, default_value_t = OrderBy::Slurm)]
    order: OrderBy,
    /// Print JSON, one object a turn in which something happened
    #[arg(long)]
    json: bool,
}

/// Words of `muster drive stop`.
#[derive(Args)]
pub(crate) struct WhichArgs {
    /// Only this partition; may be said several times
    #[arg(long, value_name = "NAME")]
    partition: Vec<String>,
    /// Only those that nobody drives any more, whose jobs are held still: for cron
    #[arg(long)]
    lapsed: bool,
    /// The slurm.conf of the Slurm, in place of the machine's
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
}

/// Words of `muster drive status`.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// The slurm.conf of the Slurm, in place of the machine's
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carries it out.
pub(crate) fn run(drive: &Drive) -> Outcome {
    match drive {
        Drive::Slurm(args) => slurm(args),
        Drive::Kubernetes(args) => crate::pods::run(args),
        Drive::Stop(args) => stop(args),
        Drive::Status(args) => status(args),
        Drive::Watchdog(args) => watchdog(args),
    }
}

fn failed(error: impl Into<DriveError>) -> Failure {
    let error = error.into();
    Failure::new(format!("{error} [{}]", error.code()))
}

fn commands(conf: Option<&PathBuf>) -> Result<Commands, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Result<Commands, SlurmError> = Commands::find(&path);
    let commands = found.map_err(failed)?;
    Ok(match conf {
        Some(conf) => commands.with_conf(conf),
        None => commands,
    })
}

/// Slurm's times are whole seconds.
fn now() -> Timestamp {
    Timestamp::from_secs(say::now().secs())
}

fn own_name() -> Result<String, Failure> {
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    user.map(|user| user.name).ok_or_else(|| Failure::new(format!("user {uid} has no name here")))
}

fn pause(time: Duration, ending: &AtomicBool) {
    let until = Instant::now() + time;
    while !ending.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
    }
}

fn slurm(args: &SlurmArgs) -> Outcome {
    let ending = Arc::new(AtomicBool::new(false));
    interrupt::sets(&ending);
    let settings = Settings {
        partitions: args.partition.iter().cloned().collect(),
        by: match args.by {
            ByWhat::Lease => By::Lease,
            ByWhat::Hold => By::Hold,
        },
        user: own_name()?,
        lease: Seconds(u64::from(args.lease)),
        order: args.order.into(),
    };
    let names = args.partition.join(", ");
    let wait = |time: Duration| {
        say::note(&format!(
            "there is a lease already; is anybody extending it? ({} s)",
            time.as_secs()
        ));
        pause(time, &ending);
    };
    let mut commands = commands(args.conf.as_ref())?;
    let rest = args.rest.as_deref().map(Rest::as_caller).transpose().map_err(failed)?;
    if let Some(rest) = &rest {
        commands = commands.with_rest(rest.clone());
    }
    // Before anything is held there is who releases it.
    let watchdog = match args.by {
        ByWhat::Lease => None,
        ByWhat::Hold => Some(begin_watchdog(args)?),
    };
    let mut driving = Driving::begin(commands, settings, &now, &wait).map_err(failed)?;
    let until = match args.by {
        ByWhat::Lease => format!("when the lease of {} s has lapsed", args.lease),
        ByWhat::Hold => format!("{} s after its last turn, when its watchdog releases", args.lease),
    };
    say::note(&format!(
        "{names}: muster decides. ^C gives back; without muster Slurm decides again {until}"
    ));
    let mut passed_over = None;
    let mut pace = Pace::new(TURNS.0, TURNS.1, args.calls_per_minute).resting(REST_TIMES);
    while !ending.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let mut changed = false;
        match driving.turn(&now) {
            Ok(turn) => {
                changed = !turn.happened.is_empty() || turn.waiting > 0;
                tell(&turn, args.json)?;
            }
            // A slurmctld that restarts is waited for.
            Err(DriveError::Slurm(error)) => say::note(&format!("{error} [{}]", error.code())),
            Err(error) => return Err(failed(error)),
        }
        // Told as often as it changes.
        let trouble = rest.as_ref().and_then(Rest::trouble);
        if let Some(trouble) = trouble.as_ref().filter(|new| passed_over.as_ref() != Some(*new)) {
            say::note(&format!("{trouble} [{}]; the commands were asked instead", trouble.code()));
        }
        passed_over = trouble;
        // However slow Slurm is, the lease has to be extended in time.
        let rest = pace.after(changed, CALLS_AGAIN, begin.elapsed());
        pause(rest.min(Duration::from_secs(u64::from(args.lease)) / 4), &ending);
    }
    let happened = driving.end(&now, &std::thread::sleep).map_err(failed)?;
    tell(&Turn { at_ms: now(), happened, ..Turn::default() }, args.json)?;
    // It sees that there is nothing left to do.
    drop(watchdog);
    say::note(&format!("{names}: Slurm decides again"));
    Ok(0)
}

/// Starts what gives the partitions back where this program is killed: it waits for the end of its
/// standard input. No signal to this program's group reaches it.
fn begin_watchdog(args: &SlurmArgs) -> Result<ChildStdin, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("no watchdog: {error}"));
    let own = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(own);
    command.args(["drive", "watchdog"]).process_group(0);
    command.args(args.partition.iter().flat_map(|name| ["--partition", name]));
    if let Some(conf) = &args.conf {
        command.arg("--conf").arg(conf);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(failed)?;
    child.stdin.take().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))
}

fn watchdog(args: &WhichArgs) -> Outcome {
    let commands = commands(args.conf.as_ref())?;
    let partitions: BTreeSet<String> = args.partition.iter().cloned().collect();
    // Nothing is ever written to it: it ends with whoever holds the other end.
    let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    ended.map_err(|error| Failure::new(error.to_string()))?;
    let happened =
        muster_drive::give_back_lapsed(&commands, &partitions, &now, &std::thread::sleep);
    if !happened.is_empty() {
        tell(&Turn { at_ms: now(), happened, ..Turn::default() }, false)?;
        say::note(&format!("{}: muster is gone; Slurm decides again", args.partition.join(", ")));
    }
    Ok(0)
}

fn tell(turn: &Turn, json: bool) -> Result<(), Failure> {
    if turn.happened.is_empty() {
        return Ok(());
    }
    if json {
        let line = serde_json::to_string(turn).map_err(|e| Failure::new(e.to_string()))?;
        say::print(&format!("{line}\n"));
        return Ok(());
    }
    let at = say::instant(turn.at_ms);
    for one in &turn.happened {
        say::print(&format!("{at} {}\n", sentence(one)));
    }
    Ok(())
}

fn sentence(happened: &Happened) -> String {
    match happened {
        Happened::Held { job } => format!("job {job} is held until it is to start"),
        Happened::Released { job, nodes } => format!("job {job} is to start on {nodes}"),
        Happened::Started { job, nodes } => format!("job {job} started on {nodes}"),
        Happened::Elsewhere { job, nodes, meant } => {
            format!("job {job} started on {nodes}, not on {meant} as planned")
        }
        Happened::NotStarted { job, why } => {
            format!("job {job} was not started by Slurm ({why}); it is let be for a while")
        }
        Happened::TakenBack { job } => format!("job {job} waits again as its user asked"),
        Happened::Broken { job, rule } => format!("job {job} is not started: {rule}"),
        Happened::Lost { partition, code, why } => {
            format!("partition {partition} is not driven any more: {why} [{code}]")
        }
        Happened::Refused { said } => format!("Slurm refused: {said}"),
    }
}

fn stop(args: &WhichArgs) -> Outcome {
    let commands = commands(args.conf.as_ref())?;
    let cluster = read(&commands, now()).map_err(failed)?;
    let leases = muster_drive::leases(&cluster).into_iter();
    let leases = leases.filter(|lease| !args.lapsed || lease.until_ms <= cluster.now);
    let driven: BTreeSet<String> = leases.map(|lease| lease.partition).collect();
    let named: BTreeSet<String> = args.partition.iter().cloned().collect();
    if let Some(other) = named.difference(&driven).next().filter(|_| !args.lapsed) {
        say::note(&format!("partition {other} is not driven; what is left of it is tidied"));
    }
    let which = match (named.is_empty(), args.lapsed) {
        (true, _) => driven,
        (false, true) => named.intersection(&driven).cloned().collect(),
        (false, false) => named,
    };
    if which.is_empty() {
        // cron is to have nothing to say.
        if !args.lapsed {
            say::note("no partition is driven");
        }
        return Ok(0);
    }
    let happened = if args.lapsed {
        muster_drive::give_back_lapsed(&commands, &which, &now, &std::thread::sleep)
    } else {
        muster_drive::hand_back(&commands, &which, &now, &std::thread::sleep).map_err(failed)?
    };
    tell(&Turn { at_ms: now(), happened, ..Turn::default() }, false)?;
    let names: Vec<String> = which.into_iter().collect();
    say::note(&format!("{}: Slurm decides again; running jobs go on", names.join(", ")));
    Ok(0)
}

fn status(args: &StatusArgs) -> Outcome {
    let commands = commands(args.conf.as_ref())?;
    let leases: Vec<Lapse> = muster_drive::leases(&read(&commands, now()).map_err(failed)?);
    if args.json {
        return say::json(&leases);
    }
    if leases.is_empty() {
        say::note("no partition is driven");
        return Ok(0);
    }
    let mut table = Table::new(&["PARTITION", "BY", "UNTIL", "ABOUT TO START"]);
    for lease in leases {
        let released =
            if lease.released.is_empty() { "-".to_owned() } else { lease.released.join(",") };
        let by = match lease.by {
            By::Lease => "lease",
            By::Hold => "hold",
        };
        let mut until = say::instant(lease.until_ms);
        if lease.until_ms <= now() {
            until.push_str(" (nobody drives it)");
        }
        table.row(vec![lease.partition, by.to_owned(), until, released]);
    }
    say::print(&table.text(terminal_width()));
    Ok(0)
}
