//! The same metrics, pushed by OTLP/HTTP in its JSON form to whoever asks for them.
//!
//! Off unless an endpoint is named. What is pushed is collected as for a scrape, once a period; it
//! waits in a queue of its own, so a receiver that is slow or away costs scrapes nothing.

mod body;
mod queue;
mod send;
mod settings;
mod starts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::MissedTickBehavior;

use crate::Exposition;
use queue::Queue;
use starts::Starts;

pub use settings::{OtlpError, Push, PushWish};

/// Pushes what `collect` tells until the program ends; `note` is called with a line for people when
/// that stops going well, and when it goes well again.
///
/// # Errors
/// A thread could not be started, or the system's certificates cannot be read.
pub fn push(
    push: Push,
    collect: impl FnMut() -> Exposition + Send + 'static,
    note: impl Fn(&str) + Send + Sync + 'static,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = send::client(&push)?;
    let run = move || runtime.block_on(run(push, client, collect, note));
    std::thread::Builder::new().name("otlp".to_owned()).spawn(run)?;
    Ok(())
}

async fn run(
    push: Push,
    client: send::Client,
    collect: impl FnMut() -> Exposition + Send + 'static,
    note: impl Fn(&str) + Send + Sync + 'static,
) {
    let queue = Arc::new(Queue::default());
    let mut ticks = tokio::time::interval(push.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let push = Arc::new(push);
    tokio::spawn(send::send_all(Arc::clone(&push), client, Arc::clone(&queue), note));
    let made = Arc::new(Mutex::new((collect, Starts::default())));
    loop {
        ticks.tick().await;
        let (made, push) = (Arc::clone(&made), Arc::clone(&push));
        let body = tokio::task::spawn_blocking(move || {
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            let (collect, starts) = &mut *made;
            let all = collect();
            body::body(&all, &push.resource, starts, now())
        });
        // A collector that fails is told of by its own metrics; the next round may go well.
        if let Ok(body) = body.await {
            queue.put(body);
        }
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
