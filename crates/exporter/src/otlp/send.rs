//! To the receiver, and again where it says so.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::queue::Queue;
use super::settings::Push;

/// The longest pause between two tries where the receiver names none.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// The longest pause that a receiver can ask for.
const ASKED_MAX: Duration = Duration::from_hours(1);

/// What is read of an answer.
const ANSWER_MAX: usize = 64 * 1024;

/// What is shown of an answer.
const SHOWN_MAX: usize = 200;

/// To a receiver, with certificates only where they are needed.
pub(crate) enum Client {
    Plain(legacy::Client<HttpConnector, Full<Bytes>>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// For the receiver's kind of address.
pub(crate) fn client(push: &Push) -> std::io::Result<Client> {
    let builder = legacy::Client::builder(TokioExecutor::new());
    if push.address.scheme_str() != Some("https") {
        return Ok(Client::Plain(builder.build(HttpConnector::new())));
    }
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_native_roots()?;
    Ok(Client::Tls(builder.build(connector.https_only().enable_http1().build())))
}

/// What became of a round.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The receiver has it, or all but what it says.
    Taken(Option<String>),
    /// It will never take it.
    Refused(String),
    /// Later, perhaps; after so long where it said so.
    Later(String, Option<Duration>),
}

/// Sends what waits, one round after the other, until the program ends.
pub(crate) async fn send_all(
    push: Arc<Push>,
    client: Client,
    queue: Arc<Queue>,
    note: impl Fn(&str),
) {
    let (mut tries, mut said) = (0_u32, None::<String>);
    loop {
        let (number, body) = queue.oldest().await;
        let outcome = send(&push, &client, body).await;
        let complaint = match &outcome {
            Outcome::Taken(complaint) => complaint.clone(),
            Outcome::Refused(why) | Outcome::Later(why, _) => Some(why.clone()),
        };
        // A receiver that is away for a day is told of once.
        if complaint != said {
            match &complaint {
                Some(why) => note(&format!("OTLP: {push}: {why}")),
                None => note(&format!("OTLP: {push} takes metrics again")),
            }
            said = complaint;
        }
        if let Outcome::Later(_, asked) = outcome {
            tokio::time::sleep(pause(push.pause, tries, asked, random())).await;
            tries = tries.saturating_add(1);
            continue;
        }
        tries = 0;
        queue.done(number);
        match queue.take_dropped() {
            0 => {}
            dropped => {
                note(&format!("OTLP: {push}: {dropped} rounds waited too long and are lost"));
            }
        }
    }
}

/// How long to wait before the next try: what was asked for, else twice as long each time. `spread`
/// (0 to 1) takes off up to a quarter, so that many machines do not come back at once.
fn pause(first: Duration, tries: u32, asked: Option<Duration>, spread: f64) -> Duration {
    if let Some(asked) = asked {
        return asked.min(ASKED_MAX);
    }
    let doubled = first.saturating_mul(2_u32.saturating_pow(tries.min(16)));
    doubled.min(PAUSE_MAX.max(first)).mul_f64(1.0 - spread / 4.0)
}

/// From 0 to 1, without a crate for it.
fn random() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

async fn send(push: &Push, client: &Client, body: Bytes) -> Outcome {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = push.address.clone();
    *request.headers_mut() = push.headers.clone();
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let agent = HeaderValue::from_static(concat!("muster/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(USER_AGENT, agent);
    let answered = async {
        let response = match client {
            Client::Plain(client) => client.request(request).await,
            Client::Tls(client) => client.request(request).await,
        };
        match response {
            Ok(response) => judged(response).await,
            Err(error) => Outcome::Later(told(&error), None),
        }
    };
    let late = || Outcome::Later("it does not answer in time".to_owned(), None);
    tokio::time::timeout(push.timeout, answered).await.unwrap_or_else(|_| late())
}

/// An error with what lies behind it, which is what says something.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    shown(&text)
}

async fn judged(response: Response<hyper::body::Incoming>) -> Outcome {
    let status = response.status();
    let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    if status.is_success() {
        return Outcome::Taken(rejected(&body));
    }
    let text = shown(&String::from_utf8_lossy(&body));
    let why = format!("{status}: {text}");
    let why = why.trim_end_matches([':', ' ']).to_owned();
    // These, and no others, may go well a second time.
    match status.as_u16() {
        429 | 502..=504 => Outcome::Later(why, asked),
        _ => Outcome::Refused(why),
    }
}

/// What a receiver that answers with success did not take after all, or has to say.
fn rejected(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let partial = answer.get("partialSuccess")?;
    let count = match partial.get("rejectedDataPoints") {
        Some(Value::String(count)) => count.parse().ok(),
        count => count.and_then(Value::as_u64),
    };
    let message = shown(partial.get("errorMessage").and_then(Value::as_str).unwrap_or_default());
    match (count.unwrap_or(0), message.as_str()) {
        (0, "") => None,
        (0, message) => Some(message.to_owned()),
        (count, "") => Some(format!("{count} values were not taken")),
        (count, message) => Some(format!("{count} values were not taken: {message}")),
    }
}

/// A text from outside, short and without what could take over a terminal.
fn shown(text: &str) -> String {
    let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(SHOWN_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{pause, random, rejected, shown};
    use std::time::Duration;

    #[test]
    fn pauses_double_up_to_a_bound_and_what_is_asked_for_goes_before() {
        let second = Duration::from_secs(1);
        let pauses: Vec<u64> =
            [0, 1, 2, 5, 6, 40].map(|tries| pause(second, tries, None, 0.0).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60]);
        assert_eq!(pause(second, 2, None, 1.0).as_secs(), 3);
        assert_eq!(pause(second, 9, Some(Duration::from_secs(7)), 1.0).as_secs(), 7);
        let days = Some(Duration::from_hours(72));
        assert_eq!(pause(second, 0, days, 0.0), Duration::from_hours(1));
        assert!((0.0..=1.0).contains(&random()));
    }

    #[test]
    fn a_success_that_is_none_is_told() {
        assert_eq!(rejected(b""), None);
        assert_eq!(rejected(b"{}"), None);
        assert_eq!(rejected(br#"{"partialSuccess":{}}"#), None);
        let some =
            br#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"old\u001b[1m"}}"#;
        assert_eq!(rejected(some).unwrap(), "3 values were not taken: old [1m");
        let few = br#"{"partialSuccess":{"rejectedDataPoints":2}}"#;
        assert_eq!(rejected(few).unwrap(), "2 values were not taken");
        assert_eq!(shown(&"x".repeat(1_000)).len(), 200);
    }
}
