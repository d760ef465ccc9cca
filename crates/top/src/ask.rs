//! The thread that asks the daemon.

use crate::app::View;
use crate::meters;
use crate::seen::{Detail, Seen};
use muster_api::{JobRef, PlanQuery, QueueQuery};
use muster_client::{Client, ClientError};
use muster_model::JobId;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Rounds are so far apart where answers come at once.
const PERIOD: Duration = Duration::from_secs(2);

/// And at least so many times as long as the answers took, so that many who look on cost the
/// daemon no more than a tenth of its time each.
const REST: u32 = 10;

/// A plan shows at most so many nodes.
const LANES_MAX: u32 = 1_000;

/// What is looked at, which says what has to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    /// The view.
    pub(crate) view: View,
    /// The job that is open, by raw number.
    pub(crate) job: Option<u32>,
}

/// Asks until nobody listens. A new wish is followed at once.
pub(crate) fn keep(client: &Client, wants: &Receiver<Want>, out: &Sender<Result<Seen, String>>) {
    let Ok(mut want) = wants.recv() else { return };
    let mut seen = Seen::default();
    loop {
        while let Ok(newer) = wants.try_recv() {
            want = newer;
        }
        let begun = Instant::now();
        let answer = round(client, want, &mut seen);
        let told = answer.map(|()| seen.clone()).map_err(|error| error.to_string());
        if out.send(told).is_err() {
            return;
        }
        match wants.recv_timeout(PERIOD.max(begun.elapsed() * REST)) {
            Ok(newer) => want = newer,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Asks for everything that is shown now.
pub(crate) fn round(client: &Client, want: Want, seen: &mut Seen) -> Result<(), ClientError> {
    let ping = client.ping()?;
    (seen.cluster, seen.user, seen.now) = (ping.cluster, ping.principal, ping.now_ms);
    seen.queue = client.queue_all(&QueueQuery { starts: Some(true), ..QueueQuery::default() })?;
    seen.sort_queue();
    seen.nodes = client.nodes()?;
    match want.view {
        View::Plan => {
            let query = PlanQuery { limit: Some(LANES_MAX), ..PlanQuery::default() };
            seen.plan = client.plan(&query)?;
        }
        View::Shares => seen.shares = client.shares()?.rows,
        View::Queue | View::Nodes | View::Gpus => {}
    }
    let measures = matches!(want.view, View::Nodes | View::Gpus) || want.job.is_some();
    if measures {
        let newest = meters::read(&client.metrics()?);
        let before = std::mem::replace(&mut seen.meters, newest);
        let at = Instant::now();
        seen.earlier = seen.measured.map(|then| ((at - then).as_secs_f64(), before));
        seen.measured = Some(at);
    }
    seen.job = match want.job {
        Some(id) => detail(client, id)?.map(Box::new),
        None => None,
    };
    Ok(())
}

/// A job whole; `None` where it is forgotten.
fn detail(client: &Client, id: u32) -> Result<Option<Detail>, ClientError> {
    let name = JobRef::Job(JobId(id));
    let page = match client.job(&name) {
        Ok(page) => page,
        Err(ClientError::Refused { status: 404, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // A leader's or an array's number names all of it.
    let one = page.jobs.iter().position(|job| job.row.id == id).unwrap_or(0);
    let Some(view) = page.jobs.into_iter().nth(one) else { return Ok(None) };
    let why = client.why(&name)?.jobs;
    let one = why.iter().position(|view| view.id == id).unwrap_or(0);
    let why = why.into_iter().nth(one);
    // Another user's job is not told of.
    let diagnosis = client.diagnosis(&name).ok().and_then(|page| {
        let one = page.jobs.into_iter().find(|job| job.id == id)?;
        Some((page.period_s, one))
    });
    Ok(Some(Detail { view, why, diagnosis }))
}
