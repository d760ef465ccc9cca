//! Submissions over the socket, from one client and from many.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::figure::quantile;
use super::http::Client;
use super::{Bound, Figure, Scale};
use crate::instance::Instance;

const CLIENTS: u32 = 16;
const AIM_PER_S: f64 = 5_000.0;
/// How much longer a submission may take while many wait.
const MORE_MS: f64 = 10.0;
/// Tasks of one array when the queue is filled.
const ARRAY: u32 = 10_000;
/// Jobs of one round when events are made.
const ROUND: u32 = 20_000;
const WAIT: Duration = Duration::from_mins(10);

/// One submission's body.
pub(super) struct Load(String);

impl Load {
    /// A script that does nothing, with these options.
    pub(super) fn trivial(words: &[String]) -> Self {
        let mut options = vec!["--mem=1M".to_owned(), "--time=5".to_owned()];
        options.extend_from_slice(words);
        Self::script("exec true", &options)
    }

    fn script(body: &str, options: &[String]) -> Self {
        Self(
            json!({
                "script": format!("#!/bin/sh\n{body}\n"),
                "options": options,
                "environment": { "PATH": "/usr/bin:/bin" },
                "cwd": "/tmp",
            })
            .to_string(),
        )
    }
}

/// A client that knows the two calls of the benches.
pub(super) struct Submitter(Client);

/// Connects to the instance's socket.
///
/// # Errors
/// Nobody listens there.
pub(super) fn connect(instance: &Instance) -> Result<Submitter, String> {
    Client::connect(&instance.path("socket")).map(Submitter)
}

impl Submitter {
    /// Submits and returns the id.
    ///
    /// # Errors
    /// Refused, or the answer has no id.
    pub(super) fn submit(&mut self, load: &Load) -> Result<u64, String> {
        let answer = self.0.send("POST", "/v1/jobs", &load.0)?;
        let value: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        value["job_id"].as_u64().ok_or_else(|| format!("no id in {answer}"))
    }

    /// Waits until a job, with all its tasks, has ended.
    ///
    /// # Errors
    /// It has not ended in time.
    pub(super) fn wait(&mut self, job: u64) -> Result<(), String> {
        let deadline = Instant::now() + WAIT;
        while Instant::now() < deadline {
            let answer = self.0.send("GET", &format!("/v1/jobs/{job}/wait?timeout_s=30"), "")?;
            let value: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
            if value["over"].as_bool() == Some(true) {
                return Ok(());
            }
        }
        Err(format!("job {job} has not ended after {} s", WAIT.as_secs()))
    }
}

/// Makes events, by submitting held jobs from many clients and cancelling them, until the log
/// has so many; how many it has then.
///
/// # Errors
/// A request failed.
pub(super) fn make_events(instance: &Instance, count: u32) -> Result<u64, String> {
    let mut client = connect(instance)?;
    let cancel = json!({ "action": "cancel", "filter": { "states": ["pending"] } }).to_string();
    loop {
        let ping = client.0.send("GET", "/v1/ping", "")?;
        let ping: Value = serde_json::from_str(&ping).map_err(|error| error.to_string())?;
        let last = ping["seq"].as_u64().ok_or_else(|| format!("no seq in {ping}"))?;
        if last >= u64::from(count) {
            return Ok(last);
        }
        volley(instance, count.min(ROUND))?;
        client.0.send("POST", "/v1/jobs/actions", &cancel)?;
    }
}

/// Fills the queue with jobs that wait for the machine, which one job has to itself.
///
/// # Errors
/// A submission failed.
pub(super) fn fill(instance: &Instance, count: u32) -> Result<(), String> {
    let mut client = connect(instance)?;
    let whole = ["--exclusive", "--mem=1M", "--time=60", "--output=/dev/null"].map(str::to_owned);
    let holder = client.submit(&Load::script("exec sleep 3600", &whole))?;
    client.0.send("GET", &format!("/v1/jobs/{holder}/wait?started=true&timeout_s=30"), "")?;
    let mut left = count;
    while left > 0 {
        let tasks = left.min(ARRAY);
        let words = [format!("--array=0-{}", tasks - 1), "--output=/dev/null".to_owned()];
        client.submit(&Load::trivial(&words))?;
        left -= tasks;
    }
    Ok(())
}

/// Durable submissions from many clients, with an empty and with a long queue.
pub(super) fn submissions(binary: &Path, scale: Scale) -> Result<Vec<Figure>, String> {
    let instance = Instance::start(binary, &[])?;
    let begin = Instant::now();
    let mut empty = volley(&instance, scale.submissions)?;
    let rate = f64::from(scale.submissions) / begin.elapsed().as_secs_f64();
    drop(instance);
    let instance = Instance::start(binary, &[])?;
    fill(&instance, scale.waiting)?;
    let mut full = volley(&instance, scale.submissions / 4)?;
    let (few, many) = (quantile(&mut empty, 0.99), quantile(&mut full, 0.99));
    Ok(vec![
        Figure::bounded(
            "submissions",
            rate,
            "jobs/s",
            Bound::AtLeast(AIM_PER_S),
            format!("{} durable submissions from {CLIENTS} clients", scale.submissions),
        ),
        Figure::baseline("submission p99, empty queue", few, "ms", "of the same submissions"),
        Figure::bounded(
            "submission p99, long queue",
            many,
            "ms",
            Bound::AtMost(few + MORE_MS),
            format!("while {} jobs wait", scale.waiting),
        ),
    ])
}

/// The times of all submissions, in milliseconds.
fn volley(instance: &Instance, count: u32) -> Result<Vec<f64>, String> {
    let each = count.div_ceil(CLIENTS);
    let one = || -> Result<Vec<f64>, String> {
        let mut client = connect(instance)?;
        // Held, so that only submissions are measured.
        let load = Load::trivial(&["--hold".to_owned()]);
        let mut took = Vec::with_capacity(each as usize);
        for _ in 0..each {
            let begin = Instant::now();
            client.submit(&load)?;
            took.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(took)
    };
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        for client in clients {
            all.extend(client.join().map_err(|_| "a client panicked".to_owned())??);
        }
        Ok(all)
    })
}
