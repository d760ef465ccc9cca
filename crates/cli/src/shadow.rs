//! `muster shadow`: a running Slurm seen with muster's eyes. Reads only.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use muster_engine_slurm::read::{CALLS, Cluster, Order, read};
use muster_engine_slurm::{Commands, Pace, Rest, SlurmError};
use muster_model::{JobId, Seconds, Timestamp};
use muster_shadow::{Entry, Look, Waiting, look};

use crate::say::{self, Failure, Outcome, tell};
use crate::table::{Table, Yield, terminal_width};

/// Looks are at least and at most so far apart.
const LOOKS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(2));

/// What Slurm starts within this after it could is no delay but its cycle.
const GRACE: Seconds = Seconds(60);

/// Jobs of a report that are listed.
const LISTED: usize = 10;

const YIELDS: &[Yield] =
    &[Yield::Shorten("NAME", 12), Yield::Drop("PARTITION"), Yield::Drop("USER")];

/// Look at another scheduler's queue; nothing there is changed.
#[derive(Subcommand)]
pub(crate) enum Shadow {
    /// Why the jobs of a Slurm wait, when they can start, and what would start them now
    Slurm(SlurmArgs),
    /// What a log of `muster shadow slurm --log` comes to
    Report(ReportArgs),
}

/// Words of `muster shadow slurm`.
#[derive(Args)]
pub(crate) struct SlurmArgs {
    /// Explain these jobs in full, in place of the head of the queue
    jobs: Vec<u32>,
    /// Look once, in place of again and again
    #[arg(long)]
    once: bool,
    /// Print JSON, one object a look
    #[arg(long)]
    json: bool,
    /// The slurm.conf of the Slurm to look at, in place of the machine's
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Ask this slurmrestd for jobs, nodes and reservations, with the token in SLURM_JWT:
    /// unix:/path/of/its/socket or http://host:port; the commands where it does not answer
    #[arg(long, value_name = "URL")]
    rest: Option<String>,
    /// Whose order the queue has: Slurm's priorities, or one of muster's on Slurm's records
    #[arg(long, value_enum, default_value_t = OrderBy::Slurm)]
    order: OrderBy,
    /// Add a line for each look to this file, for `muster shadow report`
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// At most so many calls of Slurm's commands a minute; a look takes eight
    #[arg(long, value_name = "N", default_value_t = 60)]
    calls_per_minute: u32,
}

/// Whose order a queue has.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum OrderBy {
    /// Slurm's priorities
    Slurm,
    /// Muster's sum of factors, with Slurm's weights, shares and past use
    Multifactor,
    /// Who used least of their share by Slurm's records
    FairShare,
    /// As submitted, within partition tier and QOS
    Fifo,
}

impl From<OrderBy> for Order {
    fn from(order: OrderBy) -> Self {
        match order {
            OrderBy::Slurm => Self::Slurm,
            OrderBy::Multifactor => Self::Multifactor,
            OrderBy::FairShare => Self::FairShare,
            OrderBy::Fifo => Self::Fifo,
        }
    }
}

/// Words of `muster shadow report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// The log
    log: PathBuf,
    /// The last so many days of it
    #[arg(long, default_value_t = 7)]
    days: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carries it out.
pub(crate) fn run(shadow: &Shadow) -> Outcome {
    match shadow {
        Shadow::Slurm(args) => slurm(args),
        Shadow::Report(args) => report(args),
    }
}

fn failed(error: &SlurmError) -> Failure {
    Failure::new(format!("{error} [{}]", error.code()))
}

fn slurm(args: &SlurmArgs) -> Outcome {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut commands = Commands::find(&path).map_err(|error| failed(&error))?;
    if let Some(conf) = &args.conf {
        commands = commands.with_conf(conf);
    }
    if let Some(url) = &args.rest {
        commands = commands.with_rest(Rest::as_caller(url).map_err(|error| failed(&error))?);
    }
    let jobs: Vec<JobId> = args.jobs.iter().copied().map(JobId).collect();
    let mut pace = Pace::new(LOOKS.0, LOOKS.1, args.calls_per_minute);
    let mut before = None;
    loop {
        let begin = Instant::now();
        let seen = see(&commands, &jobs, args.order);
        let took = begin.elapsed();
        if let Some(trouble) = commands.rest().and_then(Rest::trouble) {
            say::note(&format!("{trouble} [{}]; the commands were asked instead", trouble.code()));
        }
        let mut changed = false;
        match seen {
            Ok((cluster, look)) => {
                if let Some(log) = &args.log {
                    append(log, &muster_shadow::entry(&cluster, &look))?;
                }
                show(args, &look)?;
                let state = (look.running, look.waiting.iter().map(|r| r.id).collect::<Vec<_>>());
                changed = before.as_ref() != Some(&state);
                before = Some(state);
            }
            Err(error) if args.once => return Err(failed(&error)),
            // A slurmctld that restarts is waited for.
            Err(error) => say::note(&format!("{error} [{}]", error.code())),
        }
        if args.once {
            return Ok(0);
        }
        std::thread::sleep(pace.after(changed, CALLS, took));
    }
}

fn see(commands: &Commands, jobs: &[JobId], order: OrderBy) -> Result<(Cluster, Look), SlurmError> {
    // Slurm's times are whole seconds.
    let now = Timestamp::from_secs(say::now().millis().div_euclid(1000));
    let cluster = read(commands, now)?.ordered(order.into());
    let look = look(&cluster, jobs)?;
    Ok((cluster, look))
}

fn append(log: &Path, entry: &Entry) -> Result<(), Failure> {
    let told = |what: String| Failure::new(format!("{}: {what}", log.display()));
    let line = serde_json::to_string(entry).map_err(|error| told(error.to_string()))?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(|error| told(error.to_string()))?;
    writeln!(file, "{line}").map_err(|error| told(error.to_string()))
}

fn show(args: &SlurmArgs, look: &Look) -> Result<(), Failure> {
    if args.json && args.once {
        return say::json(look).map(drop);
    }
    if args.json {
        let line = serde_json::to_string(look).map_err(|e| Failure::new(e.to_string()))?;
        say::print(&format!("{line}\n"));
        return Ok(());
    }
    say::print(&head(look));
    if args.jobs.is_empty() {
        say::print(&table(look));
        tell(&early(look));
        return Ok(());
    }
    let texts: Vec<String> = look.waiting.iter().map(|row| explained(look, row)).collect();
    tell(&texts.join("\n"));
    for id in args.jobs.iter().filter(|id| look.waiting.iter().all(|row| row.id != **id)) {
        let unsaid = look.left_out.iter().find(|unsaid| unsaid.id == *id);
        match unsaid {
            Some(unsaid) => say::note(&format!("job {id} cannot be told: {}", unsaid.why)),
            None => say::note(&format!("job {id} does not wait there")),
        }
    }
    Ok(())
}

fn head(look: &Look) -> String {
    let (cluster, version) = (&look.cluster, &look.version);
    let left = match look.left_out.len() {
        0 => String::new(),
        left => format!(", {} left out", say::plural(left as u64, "job")),
    };
    format!(
        "{cluster} (Slurm {version}) at {}: {} running, {} waiting{left}\n",
        say::instant(look.at_ms),
        look.running,
        look.waiting.len(),
    )
}

fn table(look: &Look) -> String {
    let mut table =
        Table::new(&["JOB", "NAME", "USER", "PARTITION", "START", "SLURM", "WHY"]).yielding(YIELDS);
    for row in &look.waiting {
        let why = row.reasons.first().map_or("", |why| why.text.as_str());
        table.row(vec![
            row.job.clone(),
            row.name.clone(),
            row.user.clone(),
            row.partition.clone(),
            row.start_ms.map_or("-".to_owned(), say::instant),
            row.slurm_reason.clone(),
            why.to_owned(),
        ]);
    }
    table.text(terminal_width())
}

fn early(look: &Look) -> String {
    let mut text = String::new();
    for early in look.early.iter().filter(|early| early.could()) {
        let (id, nodes) = (early.id, &early.nodes);
        let _ = writeln!(text, "job {id} could start now on {nodes}; plan-check agrees");
    }
    text
}

fn explained(look: &Look, row: &Waiting) -> String {
    let title = format!("job {} ({}, {}) waits", row.job, row.user, row.name);
    let mut text = format!("{}\n  Slurm says: {}", say::bold(&title), row.slurm_reason);
    if let Some(at) = row.slurm_start_ms {
        let _ = write!(text, ", start {}", say::instant(at));
    }
    text.push('\n');
    for (at, why) in row.reasons.iter().enumerate() {
        let lead = if at == 0 { "because" } else { "also" };
        let _ = writeln!(text, "  {lead}: {} [{}]", why.text, why.code);
    }
    let place = if row.nodes.is_empty() { String::new() } else { format!(" on {}", row.nodes) };
    match (row.start_ms.map(say::instant), row.not_before_ms.map(say::instant)) {
        (Some(at), Some(bound)) if at != bound => {
            let _ = writeln!(
                text,
                "  start: {at}{place} at the latest, {bound} if nobody waited before it"
            );
        }
        (Some(at), _) => {
            let _ = writeln!(text, "  start: {at}{place}");
        }
        (None, Some(bound)) => {
            let _ = writeln!(text, "  start: not before {bound}");
        }
        (None, None) => text
            .push_str("  start: cannot be foreseen: that depends on more than the ends of jobs\n"),
    }
    for early in look.early.iter().filter(|early| early.id == row.id) {
        let word = match (&early.slurm_rule, early.violations.first()) {
            (Some(rule), _) => format!("but Slurm has a rule against it: {rule}"),
            (None, Some(violation)) => format!("but plan-check says: {violation}"),
            (None, None) => "plan-check agrees".to_owned(),
        };
        let _ = writeln!(text, "  could start now on {}; {word}", early.nodes);
    }
    if !row.changes.is_empty() {
        text.push_str("  what would start it now (each was tried):\n");
        for change in &row.changes {
            let _ = writeln!(text, "    {change}");
        }
    }
    text
}

fn report(args: &ReportArgs) -> Outcome {
    let told = |what: String| Failure::new(format!("{}: {what}", args.log.display()));
    let file = std::fs::File::open(&args.log).map_err(|error| told(error.to_string()))?;
    let mut entries: Vec<Entry> = Vec::new();
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| told(error.to_string()))?;
        let entry = serde_json::from_str(&line);
        entries.push(entry.map_err(|error| told(format!("line {}: {error}", at + 1)))?);
    }
    let span = Seconds(u64::from(args.days) * 86_400);
    let last = entries.last().map_or(Timestamp::from_secs(0), |entry| entry.at_ms);
    let from = Timestamp::from_millis(last.millis().saturating_sub_unsigned(span.0 * 1000));
    let report = muster_shadow::report(&entries, from, GRACE);
    if args.json {
        return say::json(&report);
    }
    let (begin, end) = (say::instant(report.from_ms), say::instant(report.to_ms));
    let mut text = format!("{begin} to {end}, {}\n", say::plural(report.looks as u64, "look"));
    let total: u64 = report.earlier.iter().map(|job| job.later.0).sum();
    let _ = writeln!(
        text,
        "{} that Slurm started; {} could have started earlier, {} in all",
        say::plural(report.started as u64, "job"),
        report.earlier.len(),
        say::seconds(total),
    );
    let _ = writeln!(
        text,
        "{} more that muster would have started were refused by plan-check or a rule of Slurm",
        report.refused,
    );
    let mut table = Table::new(&["JOB", "COULD", "STARTED", ">LATER", "NODES"]);
    for job in report.earlier.iter().take(LISTED) {
        table.row(vec![
            job.id.to_string(),
            say::instant(job.could_ms),
            job.started_ms.map_or("-".to_owned(), say::instant),
            say::seconds(job.later.0),
            job.nodes.clone(),
        ]);
    }
    say::print(&text);
    say::print(&table.text(terminal_width()));
    Ok(0)
}
