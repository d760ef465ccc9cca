//! Requests passed on to the daemon, as the user who runs this.

use crate::answer::{Answer, Refusal};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use muster_api::{Action, ActionRequest};
use serde::de::DeserializeOwned;
use std::path::Path;
use tokio::net::UnixStream;

/// The largest body that the page sends, bytes.
const BODY_MAX: usize = 64 << 10;

/// The largest answer that is read here and not passed on, bytes.
const READ_MAX: usize = 16 << 20;

/// What a request brings along to the daemon.
const PASSED: [HeaderName; 3] = [ACCEPT, CONTENT_TYPE, HeaderName::from_static("last-event-id")];

/// Passes a request on; the answer streams through.
pub(crate) async fn forward(socket: &Path, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await.map_err(|_| {
        let message = format!("the request has more than {BODY_MAX} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "E_BODY_LARGE", message, "ask for less at once")
    })?;
    let body = body.to_bytes();
    if head.uri.path() == "/v1/jobs/actions" {
        harmless(&body)?;
    }
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let answer = ask(socket, &head.method, target, Some(&head.headers), body).await?;
    let (from, body) = answer.into_parts();
    let mut passed = Response::new(body.map_err(Into::into).boxed());
    *passed.status_mut() = from.status;
    if let Some(kind) = from.headers.get(CONTENT_TYPE) {
        passed.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    Ok(passed)
}

/// The page cancels, holds, releases and requeues; what else there is, it does not do.
fn harmless(body: &[u8]) -> Result<(), Refusal> {
    let bad = |message: String| {
        let hint = "the page cancels, holds, releases and requeues named jobs";
        Refusal::new(StatusCode::FORBIDDEN, "E_WEB_READ_ONLY", message, hint)
    };
    let asked: ActionRequest = serde_json::from_slice(body).map_err(|e| bad(e.to_string()))?;
    let known = matches!(
        asked.action,
        Action::Cancel | Action::Hold | Action::Uhold | Action::Release | Action::Requeue
    );
    match known && asked.filter.is_none() {
        true => Ok(()),
        false => Err(bad("this is not done from the page".to_owned())),
    }
}

/// Asks the daemon and reads the answer.
pub(crate) async fn read<T: DeserializeOwned>(socket: &Path, target: &str) -> Result<T, Refusal> {
    let answer = ask(socket, &Method::GET, target, None, Bytes::new()).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), READ_MAX).collect().await;
    let body = body.map_err(|error| gone(&error.to_string()))?.to_bytes();
    if !status.is_success() {
        let error: muster_api::ApiError = serde_json::from_slice(&body)
            .unwrap_or_else(|_| muster_api::ApiError::new("E_ANSWER_BAD", status.to_string()));
        let hint = "ask on the command line";
        return Err(Refusal::new(status, "E_ANSWER_BAD", error.to_string(), hint));
    }
    serde_json::from_slice(&body).map_err(|error| gone(&error.to_string()))
}

async fn ask(
    socket: &Path,
    method: &Method,
    target: &str,
    headers: Option<&HeaderMap>,
    body: Bytes,
) -> Result<Response<Incoming>, Refusal> {
    let stream = UnixStream::connect(socket).await.map_err(|error| gone(&error.to_string()))?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| gone(&error.to_string()))?;
    // The task ends with the connection; whoever reads the answer sees why.
    tokio::spawn(async move { drop(connection.await) });
    let mut request = Request::builder().method(method).uri(target).header("host", "muster");
    for name in &PASSED {
        if let Some(value) = headers.and_then(|headers| headers.get(name)) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Full::new(body)).map_err(|error| gone(&error.to_string()))?;
    sender.send_request(request).await.map_err(|error| gone(&error.to_string()))
}

fn gone(why: &str) -> Refusal {
    let message = format!("the daemon does not answer: {why}");
    let hint = "it may be starting again; this page asks on";
    Refusal::new(StatusCode::BAD_GATEWAY, "E_NO_DAEMON", message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_does_what_its_buttons_do_and_no_more() {
        assert!(harmless(br#"{"action":"cancel","jobs":["12"]}"#).is_ok());
        assert!(harmless(br#"{"action":"hold","jobs":["900_3"]}"#).is_ok());
        for body in [
            &br#"{"action":"signal","jobs":["12"],"signal":9}"#[..],
            br#"{"action":"cancel","filter":{}}"#,
            b"{}x",
        ] {
            assert!(harmless(body).is_err(), "{}", String::from_utf8_lossy(body));
        }
    }
}
