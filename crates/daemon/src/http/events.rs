//! Changes as server-sent events.

use super::error::Refusal;
use super::extract::Asked;
use super::filter::job_refs;
use crate::app::Shared;
use crate::wait::jobs_of;
use axum::extract::State as Given;
use axum::response::IntoResponse;
use axum::response::sse::{Event as Sse, KeepAlive, Sse as Stream};
use hyper::HeaderMap;
use muster_api::{ApiError, EventQuery, EventView, JobRef};
use muster_control::{Numbered, Subscription};
use muster_model::State;
use std::convert::Infallible;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Events that wait for a slow reader before it is told that it missed some.
const WAITING_MAX: usize = 256;

/// Events taken at once.
const AT_ONCE: usize = 256;

/// Changes from a sequence number on. The header `Last-Event-ID` counts as `after`. A reader that
/// is too slow, or comes back too late, gets an event named `lagged` with the number to go on from.
#[utoipa::path(get, path = "/v1/events", params(EventQuery), responses(
    (status = 200, body = EventView, content_type = "text/event-stream"),
    (status = 422, body = ApiError)))]
pub(crate) async fn events(
    Given(app): Given<Shared>,
    headers: HeaderMap,
    Asked(query): Asked<EventQuery>,
) -> Result<impl IntoResponse, Refusal> {
    let jobs = job_refs(query.jobs.as_ref())?;
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()?.parse().ok());
    let subscription = match query.after.or(last) {
        Some(after) => app.handle.subscribe_after(after),
        None => app.handle.subscribe(),
    };
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(send(app, subscription, jobs, sender));
    Ok(Stream::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

type Out = mpsc::Sender<Result<Sse, Infallible>>;

/// Sends until the reader is gone or the daemon ends.
async fn send(app: Shared, mut events: Subscription, jobs: Option<Vec<JobRef>>, out: Out) {
    let mut seq = app.seq.clone();
    let mut stop = app.stop.subscribe();
    loop {
        seq.borrow_and_update();
        let batch = match events.try_next(AT_ONCE) {
            Ok(batch) => batch,
            Err(lagged) => {
                let told = Sse::default()
                    .event("lagged")
                    .id(lagged.resume.to_string())
                    .data(format!("{{\"missed\":{},\"resume\":{}}}", lagged.missed, lagged.resume));
                if out.send(Ok(told)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        if batch.is_empty() {
            tokio::select! {
                changed = seq.changed() => if changed.is_err() { return },
                () = out.closed() => return,
                _ = stop.wait_for(|stop| *stop) => return,
            }
            continue;
        }
        let state = app.handle.state();
        for event in &batch {
            if !meant(&state, jobs.as_deref(), event) {
                continue;
            }
            let Some(sse) = wire(event) else { continue };
            if out.send(Ok(sse)).await.is_err() {
                return;
            }
        }
    }
}

fn meant(state: &State, jobs: Option<&[JobRef]>, (_, event): &Numbered) -> bool {
    let Some(jobs) = jobs else { return true };
    jobs_of(&event.kind).iter().any(|id| {
        let job = state.job(*id);
        jobs.iter().any(|wanted| match wanted {
            JobRef::Job(base) => {
                id == base
                    || job.is_some_and(|j| {
                        j.array.is_some_and(|a| a.array == *base)
                            || j.het.is_some_and(|h| h.leader == *base)
                    })
            }
            JobRef::Tasks(array, set) => job
                .and_then(|j| j.array)
                .is_some_and(|a| a.array == *array && set.rank(a.index).is_some()),
            JobRef::Component(leader, offset) => {
                job.and_then(|j| j.het).is_some_and(|h| h.leader == *leader && h.offset == *offset)
            }
        })
    })
}

fn wire((seq, event): &Numbered) -> Option<Sse> {
    let view = EventView {
        seq: *seq,
        at_ms: event.at,
        jobs: jobs_of(&event.kind).iter().map(|id| id.0).collect(),
        data: event.kind.clone(),
    };
    // JSON has no line ends outside of escapes, as the form demands.
    let data = serde_json::to_string(&view).ok()?;
    Some(Sse::default().id(seq.to_string()).data(data))
}
