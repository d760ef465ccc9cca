//! `scancel`: ends jobs or sends them signals (scancel manual).

use std::io::{BufRead, Write};

use muster_api::{
    Action, ActionRequest, ActionResponse, JobFilter, JobRef, QueueQuery, SignalScope,
};
use muster_client::Client;
use muster_slurm_syntax::{hostlist, signal, state};

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, Takes, alias, flag, value};
use crate::squeue::wire_state;
use crate::{ident, out};

const TABLE: &[Opt] = &[
    value("account", 'A'),
    flag("batch", 'b'),
    value("clusters", 'M'),
    value("cluster", NO_SHORT),
    flag("cron", NO_SHORT),
    flag("ctld", NO_SHORT),
    flag("full", 'f'),
    flag("help", NO_SHORT),
    flag("hurry", 'H'),
    flag("interactive", 'i'),
    value("jobname", 'n'),
    alias("name", "jobname", Takes::Value),
    flag("me", NO_SHORT),
    value("nodelist", 'w'),
    value("partition", 'p'),
    value("qos", 'q'),
    flag("quiet", 'Q'),
    value("reservation", 'R'),
    value("sibling", NO_SHORT),
    value("signal", 's'),
    value("state", 't'),
    flag("usage", NO_SHORT),
    value("user", 'u'),
    flag("verbose", 'v'),
    flag("version", 'V'),
    value("wckey", NO_SHORT),
];

/// A job to cancel, or one of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    job: JobRef,
    step: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Batch,
    Number(u32),
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let parsed = getopt::parse("scancel", TABLE, args, Order::Mixed)
        .map_err(|message| Failure::usage("scancel", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") || parsed.has("usage") {
        return crate::help("scancel", TABLE);
    }
    let targets = targets(&parsed.words)?;
    let filter = filter(&parsed)?;
    if targets.is_empty() && filter.is_none() {
        return Err(Failure::error("scancel", "No job identification provided"));
    }
    let base = base(&parsed)?;
    let client = Client::connect().map_err(|error| Failure::client("scancel", &error))?;
    let targets = if parsed.has("interactive") {
        confirmed(&client, &targets, filter.as_ref())?
    } else {
        targets
    };
    let mut code = 0;
    for request in requests(&base, &targets, filter.as_ref().filter(|_| !parsed.has("interactive")))
    {
        if parsed.has("verbose") && !parsed.has("quiet") {
            for job in &request.jobs {
                out::say(&spoken(&request, job));
            }
        }
        let answer = client.act(&request).map_err(|error| Failure::client("scancel", &error))?;
        let told = Told { quiet: parsed.has("quiet"), verbose: parsed.has("verbose") };
        code = code.max(report(&answer, told, request.signal.is_some_and(|signal| signal != 9)));
    }
    Ok(code)
}

fn targets(words: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for word in words {
        let invalid = || Failure::error("scancel", &format!("Invalid job id {word}"));
        let (job, step) = match word.split_once('.') {
            None => (word.as_str(), None),
            Some((job, "batch")) => (job, Some(Step::Batch)),
            Some((job, step)) => (job, Some(Step::Number(step.parse().map_err(|_| invalid())?))),
        };
        for job in split_outside_brackets(job) {
            targets.push(Target { job: job.parse().map_err(|_| invalid())?, step });
        }
    }
    Ok(targets)
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let at_comma = move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    };
    text.split(at_comma).collect()
}

/// The filter that the options make, or `None` where they make none.
fn filter(parsed: &Parsed) -> Result<Option<JobFilter>, Failure> {
    let list = |key: &str| -> Vec<String> {
        parsed.last(key).map(|t| t.split(',').map(str::to_owned).collect()).unwrap_or_default()
    };
    let mut users = list("user");
    if parsed.has("me") {
        users.push(ident::own_name());
    }
    for name in &mut users {
        let uid = ident::uid_of(name)
            .ok_or_else(|| Failure::error("scancel", &format!("Invalid user name: {name}")))?;
        *name = ident::user_name(uid);
    }
    let mut states = Vec::new();
    for word in list("state") {
        let state = state::parse(&word).map_err(|_| {
            Failure::error("scancel", &format!("Invalid job state specified. Only PENDING, RUNNING and SUSPENDED are allowed: {word}"))
        })?;
        states.push(wire_state(state));
    }
    let nodes = match parsed.last("nodelist") {
        Some(text) => hostlist::expand(text, 65_536)
            .map_err(|problem| Failure::error("scancel", &problem.to_string()))?,
        None => Vec::new(),
    };
    let filter = JobFilter {
        users,
        names: list("jobname"),
        partitions: list("partition"),
        accounts: list("account"),
        qos: list("qos"),
        states,
        nodes,
        reservations: list("reservation"),
    };
    Ok((filter != JobFilter::default()).then_some(filter))
}

/// The request without its jobs.
fn base(parsed: &Parsed) -> Result<ActionRequest, Failure> {
    let scope = if parsed.has("batch") {
        SignalScope::Batch
    } else if parsed.has("full") {
        SignalScope::All
    } else {
        SignalScope::Steps
    };
    let signal = match parsed.last("signal") {
        Some(text) => Some(
            signal::parse_signal(text)
                .map_err(|_| Failure::error("scancel", &format!("Unknown job signal: {text}")))?,
        ),
        None if parsed.has("batch") || parsed.has("full") => Some(9),
        None => None,
    };
    let action = if signal.is_some() { Action::Signal } else { Action::Cancel };
    Ok(ActionRequest {
        action,
        signal,
        scope,
        hurry: parsed.has("hurry"),
        ..ActionRequest::default()
    })
}

/// One request for the jobs, and one for each step.
fn requests(
    base: &ActionRequest,
    targets: &[Target],
    filter: Option<&JobFilter>,
) -> Vec<ActionRequest> {
    let mut requests = Vec::new();
    let jobs: Vec<JobRef> =
        targets.iter().filter(|t| t.step.is_none()).map(|t| t.job.clone()).collect();
    if !jobs.is_empty() || filter.is_some() && targets.is_empty() {
        requests.push(ActionRequest { jobs, filter: filter.cloned(), ..base.clone() });
    }
    for target in targets {
        let Some(step) = target.step else { continue };
        let (scope, step) = match step {
            Step::Batch => (SignalScope::Batch, None),
            Step::Number(number) => (SignalScope::Step, Some(number)),
        };
        requests.push(ActionRequest {
            action: Action::Signal,
            jobs: vec![target.job.clone()],
            signal: base.signal.or(Some(9)),
            scope,
            step,
            ..base.clone()
        });
    }
    requests
}

fn spoken(request: &ActionRequest, job: &JobRef) -> String {
    match (request.signal, request.step) {
        (Some(signal), Some(step)) => format!("scancel: Signal {signal} to step {job}.{step}"),
        (Some(signal), None) => format!("scancel: Signal {signal} to job {job}"),
        _ => format!("scancel: Terminating job {job}"),
    }
}

/// How much is said.
#[derive(Clone, Copy, Default)]
struct Told {
    quiet: bool,
    verbose: bool,
}

/// Says what was not done, whatever the cause. As in Slurm 22.05, that a job is over or unknown is said with `-v` only
/// and is no failure, unless a signal was to be sent to it.
fn report(answer: &ActionResponse, told: Told, sends_signal: bool) -> i32 {
    let mut code = 0;
    for result in &answer.results {
        let Some(error) = &result.error else { continue };
        let (why, gone) = match error.code.as_str() {
            code if code.contains("DENIED") => ("Access/permission denied", false),
            "E_JOB_UNKNOWN" => ("Invalid job id specified", true),
            "E_JOB_OVER" => ("Job/step already completing or completed", true),
            _ => (error.message.as_str(), false),
        };
        if !gone || sends_signal {
            code = 1;
        }
        if !told.quiet && (!gone || told.verbose) {
            let job = &result.job;
            out::say(&format!("scancel: error: Kill job error on job id {job}: {why}"));
        }
    }
    code
}

/// Asks about each job; what is not confirmed is left out.
fn confirmed(
    client: &Client,
    targets: &[Target],
    filter: Option<&JobFilter>,
) -> Result<Vec<Target>, Failure> {
    let mut query = QueueQuery::default();
    if targets.is_empty() {
        let joined = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
        let filter = filter.cloned().unwrap_or_default();
        query = QueueQuery {
            users: joined(&filter.users),
            names: joined(&filter.names),
            partitions: joined(&filter.partitions),
            accounts: joined(&filter.accounts),
            qos: joined(&filter.qos),
            states: joined(&filter.states),
            nodes: joined(&filter.nodes),
            ..query
        };
    } else {
        let jobs: Vec<String> = targets.iter().map(|target| target.job.to_string()).collect();
        query.jobs = Some(jobs.join(","));
    }
    let rows = client.queue_all(&query).map_err(|error| Failure::client("scancel", &error))?;
    let mut kept = Vec::new();
    let mut answers = std::io::stdin().lock();
    for row in rows {
        out::print(&format!(
            "Cancel job_id={} name={} partition={} [y/n]? ",
            row.job, row.name, row.partition
        ));
        let _ = std::io::stdout().flush();
        let mut answer = String::new();
        if answers.read_line(&mut answer).is_ok()
            && answer.trim().eq_ignore_ascii_case("y")
            && let Ok(job) = row.job.split('%').next().unwrap_or(&row.job).parse()
        {
            kept.push(Target { job, step: None });
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{ActionResult, Problem};

    fn parse(line: &str) -> Parsed {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        getopt::parse("scancel", TABLE, &words, Order::Mixed).expect("read")
    }

    fn asks(line: &str) -> Vec<ActionRequest> {
        let parsed = parse(line);
        let targets = targets(&parsed.words).unwrap_or_else(|f| panic!("{}", f.text));
        let filter = filter(&parsed).unwrap_or_else(|f| panic!("{}", f.text));
        let base = base(&parsed).unwrap_or_else(|f| panic!("{}", f.text));
        requests(&base, &targets, filter.as_ref())
    }

    #[test]
    fn jobs_tasks_and_steps() {
        let requests = asks("12 900_3 900_[1,5] 13.0 13.batch");
        assert_eq!(requests[0].action, Action::Cancel);
        assert_eq!(requests[0].jobs.len(), 3);
        assert_eq!(
            (requests[1].scope, requests[1].step, requests[1].signal),
            (SignalScope::Step, Some(0), Some(9))
        );
        assert_eq!(requests[2].scope, SignalScope::Batch);
    }

    #[test]
    fn signals_go_where_they_are_asked_to() {
        // As submitit asks: the value behind the job.
        let requests = asks("12_3 --signal USR2");
        assert_eq!((requests[0].action, requests[0].signal), (Action::Signal, Some(12)));
        assert_eq!(requests[0].scope, SignalScope::Steps);
        assert_eq!(asks("-b -s TERM 12")[0].scope, SignalScope::Batch);
    }

    #[test]
    fn filters_name_jobs_too() {
        let requests = asks("-u root -t PD -p main");
        let filter = requests[0].filter.clone().expect("a filter");
        assert_eq!(
            (filter.users, filter.states, filter.partitions),
            (vec!["root".into()], vec!["pending".into()], vec!["main".into()])
        );
    }

    #[test]
    fn wrong_ids_are_refused() {
        let refused = targets(&["abc".to_owned()]).expect_err("refused");
        assert_eq!(refused.text, "scancel: error: Invalid job id abc");
    }

    #[test]
    fn what_is_gone_is_no_error_unless_a_signal_was_to_be_sent_and_all_else_is() {
        let result = |id, code: &str| ActionResult {
            job: "7".into(),
            id,
            error: Some(Problem { code: code.into(), ..Problem::default() }),
        };
        let answer = |result| ActionResponse { results: vec![result] };
        let quiet = Told { quiet: true, ..Told::default() };
        for (id, code, cancelled, signalled) in [
            (None, "E_JOB_UNKNOWN", 0, 1),
            (Some(7), "E_JOB_OVER", 0, 1),
            (Some(7), "E_DENIED", 1, 1),
            (Some(7), "E_STORE_FULL", 1, 1),
        ] {
            let answer = answer(result(id, code));
            assert_eq!(report(&answer, quiet, false), cancelled, "{code}");
            assert_eq!(report(&answer, quiet, true), signalled, "{code}");
        }
    }
}
