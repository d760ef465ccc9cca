//! Why this node and not that, and why that job and not this.

use crate::app::App;
use crate::reasons::Known;
use muster_api::{BesideRow, BesideView, ReasonView, WhyQuery};
use muster_control::{Choice, Comparison, NodeAnswer, ScorePart, Standing, Verdict};
use muster_model::{JobId, LinkSpeed, NodeChoice, Timestamp};

/// The answer about the node or the other job that was asked for.
pub(super) fn answer(
    app: &App,
    known: &Known,
    job: JobId,
    query: &WhyQuery,
    other: Option<JobId>,
) -> Option<BesideView> {
    if let Some(node) = &query.node {
        let Some(found) = app.reasons.why_not_on(&known.state, job, node) else {
            let text = format!("there is no node {node}, or the job is over");
            return Some(BesideView { text, ..BesideView::default() });
        };
        return Some(about_node(known, job, node, found));
    }
    let other = other?;
    Some(match app.reasons.why_over(&known.state, job, other) {
        Some(found) => about_job(known, &found),
        None => BesideView { text: "the job does not wait".to_owned(), ..BesideView::default() },
    })
}

fn about_node(known: &Known, job: JobId, node: &str, found: NodeAnswer) -> BesideView {
    match found {
        NodeAnswer::Elsewhere => {
            let text = format!("{node} is in no partition of the job");
            BesideView { text, ..BesideView::default() }
        }
        NodeAnswer::There => {
            BesideView { text: format!("it is on {node}"), ..BesideView::default() }
        }
        NodeAnswer::Waits { cause, but } if cause.is_free() => BesideView {
            text: format!("{node} could take its part now, but it waits all the same"),
            cause: Some(cause),
            reasons: but.iter().map(ReasonView::full).collect(),
            ..BesideView::default()
        },
        NodeAnswer::Waits { cause, .. } => {
            BesideView { text: node.to_owned(), cause: Some(cause), ..BesideView::default() }
        }
        NodeAnswer::Placed(choice) => placed(known, job, &choice),
    }
}

fn placed(known: &Known, job: JobId, choice: &Choice) -> BesideView {
    let name = |id| known.state.node_name(id);
    let (has, other) = (name(choice.has.node), name(choice.other.node));
    let fullest = if choice.choice == NodeChoice::Spread { "emptiest" } else { "fullest" };
    let text = match (choice.cause.is_free(), choice.decides) {
        (false, _) => format!("as things are now, {other} would not do"),
        (true, None) => format!("{has} comes before {other} in the order of nodes"),
        (true, Some(part)) => {
            let (a, b) = (part.of(&choice.has), part.of(&choice.other));
            let prefers = (a > b) == part.more_is_better(choice.choice);
            match prefers {
                true => format!(
                    "{has} comes before {other} by {}; the {fullest} nodes come first",
                    part.word()
                ),
                false => format!(
                    "as things are now {other} would come before {has} by {}: it was otherwise \
                     when the job started, or its other nodes decided",
                    part.word()
                ),
            }
        }
    };
    let row = |part: ScorePart| BesideRow {
        what: part.word().to_owned(),
        own: part.of(&choice.has).to_string(),
        other: part.of(&choice.other).to_string(),
        decides: choice.decides == Some(part),
        ..BesideRow::default()
    };
    BesideView {
        text,
        heads: vec![has, other],
        rows: ScorePart::ALL.into_iter().map(row).chain(speeds(known, job, choice)).collect(),
        cause: (!choice.cause.is_free()).then(|| choice.cause.clone()),
        reasons: Vec::new(),
    }
}

/// What the placement costs with this node and with the other, and the ideal; nothing where no link
/// speed is known.
fn speeds(known: &Known, job: JobId, choice: &Choice) -> Vec<BesideRow> {
    let placement = known.state.job(job).and_then(|job| job.placement.clone());
    let Some(placement) = placement else { return Vec::new() };
    let own = muster_control::cost(&known.state, &placement);
    let (has, other) = (choice.has.node, choice.other.node);
    let other = muster_control::cost_instead(&known.state, &placement, has, other);
    if own.ring.0 == 0 && other.ring.0 == 0 {
        return Vec::new();
    }
    let row = |what: &str, own: LinkSpeed, other: LinkSpeed| BesideRow {
        what: what.to_owned(),
        own: own.to_string(),
        other: other.to_string(),
        ..BesideRow::default()
    };
    vec![
        row("predicted ring speed", own.ring, other.ring),
        row("at best, if nothing ran", own.ideal, other.ideal),
    ]
}

fn about_job(known: &Known, found: &Comparison) -> BesideView {
    let name =
        |id: JobId| known.state.job(id).map_or_else(|| id.to_string(), |job| job.display_id());
    let (job, other) = (name(found.job.job), name(found.other.job));
    let mut rows = rows(found);
    let word = match &found.verdict {
        Verdict::Tier => "tier",
        Verdict::Priority | Verdict::Behind => "priority",
        Verdict::Earlier | Verdict::First | Verdict::Waited => "free to start",
        _ => "",
    };
    for row in &mut rows {
        row.decides = row.what == word;
    }
    if let Verdict::EndsBefore { end, promise } = found.verdict {
        let (own_ms, other_ms) = (Some(promise), Some(end));
        let what = "promised start, latest end".to_owned();
        rows.push(BesideRow { what, own_ms, other_ms, decides: true, ..BesideRow::default() });
    }
    BesideView {
        text: sentence(&found.verdict, &job, &other),
        heads: vec![format!("job {job}"), format!("job {other}")],
        rows,
        cause: None,
        reasons: found.job.held.iter().map(ReasonView::full).collect(),
    }
}

fn sentence(verdict: &Verdict, job: &str, other: &str) -> String {
    match verdict {
        Verdict::Held => format!("job {job} is held back by itself, whatever job {other} does"),
        Verdict::Earlier => format!("job {other} started before job {job} was free to start"),
        Verdict::Tier => format!("job {other} comes first: reservation or partition tier"),
        Verdict::Priority => format!("job {other} comes first: its priority is higher"),
        Verdict::First => format!("job {other} comes first: equal priority, and it was first"),
        Verdict::Waited => {
            format!("job {other} comes first: it has waited too long to be passed any more")
        }
        Verdict::Lighter => format!(
            "job {other} comes first: by its user's last runs it is likely to be over sooner, or it \
             takes less"
        ),
        Verdict::Behind => format!("job {other} comes after job {job} and waits too"),
        Verdict::EndsBefore { .. } => format!(
            "job {other} was started by backfill: it is over before the promised start of job {job}"
        ),
        Verdict::Beside { shared: 0, .. } => {
            format!("job {other} was started by backfill on nodes that job {job} is not promised")
        }
        Verdict::Beside { .. } => {
            format!("job {other} was started by backfill on what the promise of job {job} leaves")
        }
        Verdict::NoPromise => {
            format!("job {other} was started by backfill; job {job} has no promised start")
        }
        Verdict::Over => format!("job {other} is over"),
    }
}

/// What both are ordered by, and where they stand.
fn rows(found: &Comparison) -> Vec<BesideRow> {
    let both = |what: &str, of: &dyn Fn(&Standing) -> String| BesideRow {
        what: what.to_owned(),
        own: of(&found.job),
        other: of(&found.other),
        ..BesideRow::default()
    };
    let times = |what: &str, of: &dyn Fn(&Standing) -> Option<Timestamp>| BesideRow {
        what: what.to_owned(),
        own_ms: of(&found.job),
        other_ms: of(&found.other),
        ..BesideRow::default()
    };
    let mut rows = vec![
        both("names a reservation", &|s| if s.reserved { "yes" } else { "no" }.to_owned()),
        both("tier", &|s| s.tier.to_string()),
        both("priority", &|s| s.priority.to_string()),
    ];
    if found.multifactor {
        rows.extend([
            both("  site", &|s| s.factors.site.to_string()),
            both("  age", &|s| s.factors.age.1.to_string()),
            both("  association", &|s| s.factors.association.1.to_string()),
            both("  fair share", &|s| s.factors.fair_share.1.to_string()),
            both("  job size", &|s| s.factors.job_size.1.to_string()),
            both("  partition", &|s| s.factors.partition.1.to_string()),
            both("  QOS", &|s| s.factors.qos.1.to_string()),
            both("  resources", &|s| s.factors.tres.values().map(|t| t.1).sum::<i64>().to_string()),
            both("  nice", &|s| s.factors.nice.saturating_neg().to_string()),
        ]);
    }
    rows.push(times("free to start", &|s| s.eligible));
    rows.push(times("started", &|s| s.started));
    rows.push(both("held by", &|s| {
        s.held.first().map_or_else(|| "nothing".to_owned(), |r| r.code().to_owned())
    }));
    rows
}
