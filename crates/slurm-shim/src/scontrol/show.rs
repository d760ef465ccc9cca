//! `scontrol show …`.

use muster_api::{QueueQuery, QueueRow};
use muster_client::Client;
use muster_slurm_syntax::hostlist;

use super::{
    Style, assoc_mgr, config, connect, job, job_of, node, partition, reservation, too_few,
};
use crate::fail::{Failure, Outcome, is_unknown};
use crate::{clock, out};

/// Hosts that a list may name.
const HOSTS_MAX: usize = 65_536;

/// Shows what the first word names.
pub(super) fn run(words: &[&str], style: Style) -> Outcome {
    let Some((what, rest)) = words.split_first() else { return Err(too_few("show")) };
    let name = rest.first().copied();
    match entity(what) {
        Some("jobs") => jobs(&connect()?, name, style),
        Some("nodes") => node::show(&connect()?, name, style),
        Some("partitions") => partition::show(&connect()?, name, style),
        Some("config") => config::show(&connect()?),
        Some("hostnames") => hostnames(name),
        Some("hostlist") => hostlist(name, false),
        Some("hostlistsorted") => hostlist(name, true),
        Some("reservations") => reservation::show(&connect()?, name, style),
        Some("steps") => steps(&connect()?, name, style),
        Some("licenses") => licenses(&connect()?, name, style),
        Some("topology") => topology(&connect()?, name),
        Some("assoc_mgr") => assoc_mgr::show(&connect()?, rest),
        Some("daemons") => {
            out::print("slurmctld slurmd \n");
            Ok(0)
        }
        Some(later) => Err(Failure::error("scontrol", &format!("show {later} is not offered yet"))),
        None => Err(Failure::says(format!("invalid entity:{what} for keyword:show "))),
    }
}

/// The entity that a word, or the beginning of one, names.
fn entity(word: &str) -> Option<&'static str> {
    const ENTITIES: &[(&str, &str)] = &[
        ("aliases", "aliases"),
        ("assoc_mgr", "assoc_mgr"),
        ("bbstat", "bbstat"),
        ("burstbuffer", "burstbuffer"),
        ("config", "config"),
        ("daemons", "daemons"),
        ("dwstat", "dwstat"),
        ("federation", "federation"),
        ("frontends", "frontends"),
        ("hostlist", "hostlist"),
        ("hostlistsorted", "hostlistsorted"),
        ("hostnames", "hostnames"),
        ("jobs", "jobs"),
        ("jobid", "jobs"),
        ("licenses", "licenses"),
        ("nodes", "nodes"),
        ("partitions", "partitions"),
        ("powercap", "powercap"),
        ("reservations", "reservations"),
        ("slurmd", "slurmd"),
        ("steps", "steps"),
        ("stepmgr", "stepmgr"),
        ("topology", "topology"),
    ];
    let lower = word.to_ascii_lowercase();
    let exact = ENTITIES.iter().find(|(name, _)| *name == lower);
    let begins = || ENTITIES.iter().find(|(name, _)| lower.len() >= 3 && name.starts_with(&lower));
    exact.or_else(begins).map(|(_, entity)| *entity)
}

fn jobs(client: &Client, name: Option<&str>, style: Style) -> Outcome {
    let now = clock::now();
    let absent = || Failure::says("slurm_load_jobs error: Invalid job id specified");
    let (views, rows): (Vec<_>, Vec<QueueRow>) = match name {
        Some(text) => {
            let page = match client.job(&job_of(text).map_err(|_| absent())?) {
                Ok(page) => page,
                Err(error) if is_unknown(&error) => return Err(absent()),
                Err(error) => return Err(Failure::client("scontrol", &error)),
            };
            if page.jobs.is_empty() {
                return Err(absent());
            }
            (page.jobs, Vec::new())
        }
        None => {
            let query = QueueQuery {
                states: Some("all".to_owned()),
                wide: Some(true),
                starts: Some(true),
                ..QueueQuery::default()
            };
            let rows = client.queue_all(&query).map_err(|e| Failure::client("scontrol", &e))?;
            (Vec::new(), rows)
        }
    };
    let all: Vec<job::Shown<'_>> = views
        .iter()
        .map(|view| job::Shown { row: &view.row, view: Some(view) })
        .chain(rows.iter().map(|row| job::Shown { row, view: None }))
        .collect();
    if style.json {
        let cluster = client.ping().map(|ping| ping.cluster).unwrap_or_default();
        let jobs: Vec<_> =
            all.iter().map(|job| crate::squeue::json::job(job.row, &cluster)).collect();
        out::print_json(&crate::squeue::json::envelope("jobs", &jobs));
        return Ok(0);
    }
    if all.is_empty() {
        out::print("No jobs in the system\n");
    }
    let text: String = all.iter().map(|shown| shown.text(style, now)).collect();
    out::print(&text);
    Ok(0)
}

/// `show hostnames [LIST]`: without a list that of the job around.
fn hostnames(list: Option<&str>) -> Outcome {
    let around = std::env::var("SLURM_JOB_NODELIST").or_else(|_| std::env::var("SLURM_NODELIST"));
    let Some(list) = list.map(str::to_owned).or(around.ok()) else {
        return Err(Failure::error("scontrol", "host list is empty"));
    };
    let names = hostlist::expand(&list, HOSTS_MAX)
        .map_err(|_| Failure::says(format!("Invalid hostlist: {list}")))?;
    out::print(&(names.join("\n") + "\n"));
    Ok(0)
}

/// `show hostlist LIST|FILE`.
fn hostlist(list: Option<&str>, sorted: bool) -> Outcome {
    let list = list.ok_or_else(|| too_few("show"))?;
    let text = if list.starts_with('/') {
        std::fs::read_to_string(list)
            .map_err(|error| Failure::error("scontrol", &format!("{list}: {error}")))?
    } else {
        list.to_owned()
    };
    let mut names = Vec::new();
    for part in text.split_whitespace() {
        let more = hostlist::expand(part, HOSTS_MAX)
            .map_err(|_| Failure::says(format!("Invalid hostlist: {list}")))?;
        names.extend(more);
    }
    let folded = if sorted { hostlist::fold_sorted(&names) } else { hostlist::fold(&names) };
    out::print(&format!("{folded}\n"));
    Ok(0)
}

fn steps(client: &Client, name: Option<&str>, style: Style) -> Outcome {
    let (job, step) = name.map_or((None, None), |text| match text.split_once('.') {
        Some((job, step)) => (Some(job.to_owned()), Some(step)),
        None => (Some(text.to_owned()), None),
    });
    let query = muster_api::HistoryQuery {
        live: Some(true),
        states: Some("starting,running,suspended,completing".to_owned()),
        jobs: job,
        ..muster_api::HistoryQuery::default()
    };
    let rows = crate::sacct::history(client, query).map_err(|e| Failure::client("scontrol", &e))?;
    let mut text = String::new();
    for row in &rows {
        for one in
            row.steps.iter().filter(|s| s.ended_ms.is_none() && step.is_none_or(|id| s.id == id))
        {
            let lines = [
                format!(
                    "StepId={}.{} UserId={} StartTime={} TimeLimit=UNLIMITED",
                    row.job,
                    one.id,
                    row.uid,
                    clock::instant(one.started_ms)
                ),
                format!("State=RUNNING Partition={} NodeList={}", row.partition, row.node_list),
                format!(
                    "Nodes={} CPUs=0 Tasks={} Name={} Network=(null)",
                    one.nodes, one.tasks, one.name
                ),
                "TRES=(null)".to_owned(),
                "ResvPorts=(null)".to_owned(),
                "CPUFreqReq=Default".to_owned(),
                "SrunHost:Pid=(null):0".to_owned(),
            ];
            text.push_str(&lines.join(if style.one_line { " " } else { "\n   " }));
            text.push_str(if style.one_line { "\n" } else { "\n\n" });
        }
    }
    if text.is_empty() {
        if let Some(asked) = name {
            return Err(Failure::says(format!("Job step {asked} not found")));
        }
        text.push_str("No job steps in the system\n");
    }
    out::print(&text);
    Ok(0)
}

fn licenses(client: &Client, name: Option<&str>, style: Style) -> Outcome {
    let mut licences = client.licences().map_err(|error| Failure::client("scontrol", &error))?;
    if let Some(name) = name {
        licences.retain(|licence| licence.name == name);
        if licences.is_empty() {
            return Err(Failure::says(format!("License {name} not found")));
        }
    }
    if licences.is_empty() {
        out::print("No licenses configured in Slurm.\n");
    }
    let gap = if style.one_line { " " } else { "\n    " };
    for licence in licences {
        out::print(&format!(
            "LicenseName={}{gap}Total={} Used={} Free={} Reserved=0 Remote=no\n",
            licence.name,
            licence.total,
            licence.used,
            licence.total.saturating_sub(licence.used)
        ));
    }
    Ok(0)
}

/// All switches, or the one of a name and those above a node (scontrol manual, `show topology`).
fn topology(client: &Client, name: Option<&str>) -> Outcome {
    let mut switches = client.topology().map_err(|error| Failure::client("scontrol", &error))?;
    if let Some(name) = name {
        let holds = |list: &str| {
            hostlist::expand(list, HOSTS_MAX).is_ok_and(|nodes| nodes.iter().any(|n| n == name))
        };
        switches.retain(|switch| switch.name == name || holds(&switch.node_list));
        if switches.is_empty() {
            return Err(Failure::error(
                "scontrol",
                &format!("Topology information contains no switch or node named {name}"),
            ));
        }
    }
    if switches.is_empty() {
        out::print("No topology information available\n");
    }
    for switch in switches {
        out::print(&format!(
            "SwitchName={} Level={} LinkSpeed=1 Nodes={}\n",
            switch.name, switch.level, switch.node_list
        ));
    }
    Ok(0)
}
