//! Reservations that stand in the configuration: made, changed and ended with their sections.

use crate::app::App;
use crate::http::error::Refusal;
use crate::http::jobs::command;
use crate::identity;
use crate::reservation::{Clock, read};
use muster_api::{Place, Problem, ReservationRequest};
use muster_config::{Config, ReservationSection};
use muster_control::command::Command;
use muster_control::reservations::ReservationOrder;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// One that could not be made is tried again after this.
const RETRY: Duration = Duration::from_secs(30);

/// The request that a section is.
fn request(of: &ReservationSection) -> ReservationRequest {
    let joined = |names: &BTreeSet<String>| {
        (!names.is_empty()).then(|| names.iter().cloned().collect::<Vec<_>>().join(","))
    };
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    // A plain number counts nodes, anything else names them.
    let nodes = of.nodes.as_ref().map(|text| text.0.clone());
    let (node_count, nodes) = match nodes {
        Some(text) if text.parse::<u32>().is_ok() => (Some(text), None),
        names => (None, names),
    };
    let endless = || of.duration.is_none().then(|| "infinite".to_owned());
    ReservationRequest {
        name: Some(of.name.clone()),
        start: of.start.clone(),
        duration: of.duration.as_ref().map(|text| text.0.clone()).or_else(endless),
        at: of.at.clone(),
        tz: of.tz.clone(),
        every: of.every.clone(),
        nodes,
        node_count,
        cores: number(of.cores),
        cores_per_node: number(of.cores_per_node),
        gpus: of.gpus.as_ref().map(|text| text.0.clone()),
        features: of.features.clone(),
        partition: of.partition.clone(),
        licences: of.licences.clone(),
        nvlink: of.nvlink.then_some(true),
        whole: of.whole.then_some(true),
        users: joined(&of.users),
        accounts: joined(&of.accounts),
        groups: joined(&of.groups),
        flags: joined(&of.flags),
        comment: of.comment.clone(),
        ..ReservationRequest::default()
    }
}

/// What says whether a reservation is still the one that a section made.
fn text(of: &ReservationSection) -> String {
    serde_json::to_string(of).unwrap_or_default()
}

/// Makes what is not there or was another, and ends what stands nowhere any more. What could not be
/// done is told; it does not keep a configuration from being taken.
pub(crate) async fn establish(app: &App, config: &Config) -> Vec<Problem> {
    let mut refused = Vec::new();
    let there = app.handle.state();
    let gone = there.reservations.values().filter(|r| r.standing.is_some());
    let gone = gone.filter(|r| !config.reservation.iter().any(|of| of.name == r.name));
    for name in gone.map(|r| r.name.clone()) {
        let order = Command::DeleteReservation { name: name.clone(), standing: true };
        if let Err(error) = command(&app.handle, &identity::daemon(), order).await {
            refused.push(problem(&name, &Refusal::from(error)));
        }
    }
    for of in &config.reservation {
        let text = text(of);
        let known = there.reservations.get(&of.name).and_then(|r| r.standing.as_ref());
        if known == Some(&text) {
            continue;
        }
        if let Err(refusal) = make(app, of, text).await {
            refused.push(problem(&of.name, &refusal));
        }
    }
    refused
}

async fn make(app: &App, of: &ReservationSection, text: String) -> Result<(), Refusal> {
    let clock = Clock { now: App::now(), zone: &app.zone };
    let order = read(&request(of), None, &app.handle.state(), &clock)?;
    let order = ReservationOrder { standing: Some(text), ..order };
    let order = Command::CreateReservation(Box::new(order));
    command(&app.handle, &identity::daemon(), order).await?;
    tracing::info!(reservation = of.name, "made as the configuration says");
    Ok(())
}

fn problem(name: &str, refusal: &Refusal) -> Problem {
    Problem {
        code: refusal.error.code.clone(),
        message: refusal.error.message.clone(),
        place: Some(Place { source: format!("[[reservation]] {name}"), line: None, column: None }),
        hint: refusal.error.hint.clone(),
    }
}

/// Tries again what could not be made: nodes come and jobs end. Says each refusal once.
pub(crate) async fn keep(app: Arc<App>) {
    let mut told = BTreeSet::new();
    loop {
        let config = app.config.load_full();
        let refused: BTreeSet<String> =
            establish(&app, &config).await.iter().map(ToString::to_string).collect();
        for text in refused.difference(&told) {
            tracing::warn!("{text}");
        }
        told = refused;
        tokio::time::sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_the_request_that_the_command_would_send() {
        let text = "[[reservation]]\nname = \"class\"\nevery = \"weekly\"\nat = \"09:00\"\n\
                    tz = \"Asia/Seoul\"\nduration = \"3h\"\nnodes = 2\ngpus = \"a100:8\"\n\
                    nvlink = true\nusers = [\"b\", \"a\"]\nflags = [\"MAINT\"]\n\
                    [[reservation]]\nname = \"own\"\nnodes = \"n[1-2]\"\nusers = [\"a\"]\n";
        let config = Config::parse(text, "m").unwrap_or_else(|error| panic!("{error}"));
        let class = request(&config.reservation[0]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!((class.node_count, class.nodes), (some("2"), None));
        assert_eq!((class.gpus, class.nvlink, class.whole), (some("a100:8"), Some(true), None));
        assert_eq!((class.users, class.flags), (some("a,b"), some("MAINT")));
        assert_eq!(class.duration, some("3h"));
        let own = request(&config.reservation[1]);
        assert_eq!((own.nodes, own.duration), (some("n[1-2]"), some("infinite")));
    }
}
