//! `muster replay`: a planning round as a file, and the same round once more.

use std::fmt::Write as _;
use std::fs::File;

use muster_api::step::fold_hosts;
use muster_client::Client;
use muster_model::{Decision, JobId, Plan, Preempt, Promise, Start, State};
use muster_sim::{Cycle, CycleError, Replayed};
use serde_json::json;

use crate::args::ReplayArgs;
use crate::say::{self, Failure, Outcome, instant, note, print};

/// Runs the command: code 1 where the plan is another or breaks a rule.
pub(crate) fn run(args: &ReplayArgs) -> Outcome {
    if args.save {
        return save(args);
    }
    let failed = |error: CycleError| {
        Failure::new(format!("{}: {}: {error}", args.file.display(), error.code()))
    };
    let file = File::open(&args.file).map_err(|error| failed(error.into()))?;
    let cycle = Cycle::read(file).map_err(failed)?;
    if let Some(to) = &args.without_names {
        return without_names(&cycle, to).map_err(failed);
    }
    if let Some(job) = args.why {
        return why(&cycle, JobId(job), args.json);
    }
    let replayed = cycle.replay();
    if args.json {
        say::json(&json!({
            "same": replayed.same,
            "violations": replayed.violations,
            "plan": replayed.plan,
            "waiting": replayed.waiting,
        }))?;
    } else {
        print(&told(&cycle, &replayed));
    }
    Ok(i32::from(!replayed.same || !replayed.violations.is_empty()))
}

/// Has the daemon write its newest round.
fn save(args: &ReplayArgs) -> Outcome {
    let path = std::path::absolute(&args.file)
        .map_err(|error| Failure::new(format!("{}: {error}", args.file.display())))?;
    let path = path.to_str().ok_or_else(|| Failure::usage("the path is not in UTF-8"))?;
    let written = Client::connect()?.cycle(path)?;
    if args.json {
        return say::json(&written);
    }
    note(&format!(
        "wrote {} ({} bytes): the round of {}, after event {}",
        written.path,
        written.bytes,
        instant(written.now_ms),
        written.seq
    ));
    Ok(0)
}

/// Writes the round to another file without what names the site.
fn without_names(cycle: &Cycle, to: &std::path::Path) -> Result<i32, CycleError> {
    let renamed = cycle.without_names()?;
    renamed.write(File::create_new(to)?)?;
    note(&format!("wrote {}: the same round, with numbers for names", to.display()));
    Ok(0)
}

/// One job of a saved round.
fn why(cycle: &Cycle, job: JobId, json: bool) -> Outcome {
    let Some(record) = cycle.state.job(job).filter(|job| job.is_pending()) else {
        return Err(Failure::new(format!("job {job} does not wait in this round")));
    };
    let found = cycle.explain(job);
    if json {
        let suggestions: Vec<String> = found.suggestions.iter().map(ToString::to_string).collect();
        let start = found.start.map(|window| (window.not_before, window.expected));
        return say::json(
            &json!({ "job": job, "reasons": found.reasons, "start": start, "suggestions": suggestions }),
        );
    }
    let mut text = format!("job {} waited at {}\n", record.display_id(), instant(cycle.plan.now));
    for (at, reason) in found.reasons.iter().enumerate() {
        let word = if at == 0 { "because" } else { "also" };
        let _ = writeln!(text, "  {word}: {reason} [{}]", reason.code());
    }
    if let Some(window) = found.start {
        let start = match window.expected {
            Some(at) => format!("{} at the latest", instant(at)),
            None => format!("not before {}", instant(window.not_before)),
        };
        let _ = writeln!(text, "  start: {start}");
    }
    for suggestion in &found.suggestions {
        let _ = writeln!(text, "  would start it: {suggestion}");
    }
    print(&text);
    Ok(0)
}

/// The round in words.
fn told(cycle: &Cycle, replayed: &Replayed) -> String {
    let (state, plan) = (&cycle.state, &replayed.plan);
    let mut text = format!(
        "the round of {}, after event {}: {} jobs wait, {} nodes\n",
        instant(plan.now),
        plan.seq,
        state.index.pending.len(),
        state.nodes.len(),
    );
    text.push_str(if replayed.same {
        "planned again: the same plan, byte for byte\n"
    } else {
        "planned again: ANOTHER plan than the one in the file\n"
    });
    for violation in &replayed.violations {
        let _ = writeln!(text, "  BREAKS A RULE: {violation}");
    }
    if !plan.complete {
        text.push_str("its budget ended before every job was looked at\n");
    }
    lines_of(&mut text, state, plan);
    if !replayed.same {
        text.push_str("the plan in the file:\n");
        lines_of(&mut text, state, &cycle.plan);
    }
    if !replayed.waiting.is_empty() {
        text.push_str("waiting:\n");
    }
    for (job, reason) in &replayed.waiting {
        let _ = writeln!(text, "  {}: {reason} [{}]", title(state, *job), reason.code());
    }
    text
}

fn lines_of(text: &mut String, state: &State, plan: &Plan) {
    for decision in &plan.decisions {
        match decision {
            Decision::Start(starts) => starts.iter().for_each(|start| {
                let _ = writeln!(text, "  {}", start_line(state, start));
            }),
            Decision::Reject { job, reason } => {
                let _ = writeln!(text, "  reject {}: {reason}", title(state, *job));
            }
            Decision::Preempt(preempt) => preempt_lines(text, state, preempt),
            Decision::Grow(victim) => {
                let keeps = victim.keeps.iter().flat_map(|keeps| &keeps.nodes);
                let names: Vec<String> = keeps.map(|share| state.node_name(share.node)).collect();
                let (title, mode) = (title(state, victim.job), victim.mode.word());
                let _ = writeln!(text, "  grow {title} to {}: {mode}", fold_hosts(&names));
            }
            Decision::Evict { job, node, taint, .. } => {
                let node = state.node_name(*node);
                let _ = writeln!(text, "  end {} on {node}: {taint}", title(state, *job));
            }
            Decision::Resume { job } => {
                let _ = writeln!(text, "  resume {}", title(state, *job));
            }
            Decision::Turns(changes) => changes.iter().for_each(|change| {
                let word = match change.turn {
                    None => "shares no more",
                    Some(turn) if turn.runs => "takes its turn",
                    Some(_) => "waits for its turn",
                };
                let _ = writeln!(text, "  {} {word}", title(state, change.job));
            }),
        }
    }
    for Promise { job, start, nodes, .. } in &plan.promises {
        let names: Vec<String> = nodes.iter().map(|node| state.node_name(*node)).collect();
        let (title, at) = (title(state, *job), instant(*start));
        let _ = writeln!(text, "  promise {title} at {at} on {}", fold_hosts(&names));
    }
}

fn preempt_lines(text: &mut String, state: &State, preempt: &Preempt) {
    let until = instant(preempt.until);
    for victim in &preempt.victims {
        let mode = format!("{:?}", victim.mode).to_lowercase();
        let title = title(state, victim.job);
        let _ = writeln!(text, "  preempt {title}: {mode}, gone by {until}");
    }
    for start in &preempt.starts {
        let line = start_line(state, start);
        let _ = writeln!(text, "  held for it from {until}: {line}");
    }
}

fn start_line(state: &State, start: &Start) -> String {
    let placement = &start.placement;
    let names: Vec<String> = placement.nodes.iter().map(|n| state.node_name(n.node)).collect();
    format!(
        "start {} on {}: {} CPUs, {} devices, {}",
        title(state, start.job),
        fold_hosts(&names),
        placement.cpus(),
        placement.devices(),
        say::limit(start.time_limit.seconds().map(|s| s.0)),
    )
}

fn title(state: &State, job: JobId) -> String {
    state
        .job(job)
        .map_or_else(|| job.to_string(), |job| format!("{} {}", job.display_id(), job.spec.name))
}
