//! Small pages over HTTP/1.1, for probes and scrapes.
//!
//! Only `GET` and `HEAD` are answered. Connections, the time that a client takes to ask, and the time
//! that a connection lasts are bounded, so nobody keeps others from an answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections that are served at once; others wait.
const CONNECTIONS_MAX: usize = 16;

/// A client that sends nothing is let go.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection is closed after so long, however busy.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(10);

/// The content type of Prometheus's older text.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The content type of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status; one that is none is answered as 500.
    pub status: u16,
    /// The content type.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

impl Page {
    /// A page of plain text.
    pub fn plain(status: u16, text: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", text: text.into() }
    }
}

/// Who asks for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The path, without its query.
    pub path: String,
    /// What it says that it takes; empty where it says nothing.
    pub accept: String,
}

impl Asked {
    /// True where it would have OpenMetrics.
    pub fn takes_open_metrics(&self) -> bool {
        self.accept.contains("application/openmetrics-text")
    }
}

/// Answers until the future is dropped. `page` may take its time: it runs on a thread of its own.
pub async fn serve<F>(listener: TcpListener, page: F)
where
    F: Fn(&Asked) -> Page + Send + Sync + 'static,
{
    let page = Arc::new(page);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        // One that is gone before it was taken concerns nobody else.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let page = Arc::clone(&page);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&page), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
            drop(permit);
        });
    }
}

async fn answer<F>(
    page: Arc<F>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible>
where
    F: Fn(&Asked) -> Page + Send + Sync + 'static,
{
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(said(Page::plain(405, "only GET is answered\n")));
    }
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let asked = Asked {
        path: request.uri().path().to_owned(),
        accept: accept.unwrap_or_default().to_owned(),
    };
    let made = tokio::task::spawn_blocking(move || page(&asked)).await;
    Ok(said(made.unwrap_or_else(|_| Page::plain(500, "the page could not be made\n"))))
}

fn said(page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page.text)));
    *response.status_mut() =
        StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
    response
}
