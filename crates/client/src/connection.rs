//! One kept connection, driven by a runtime of its own on the calling thread.

use crate::ClientError;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use muster_api::{ApiError, BODY_MAX, Endpoint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// The largest answer that is taken, bytes.
const ANSWER_MAX: usize = 512 * 1024 * 1024;

/// How long an answer may take. Longer than any wait that the daemon offers.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// How often a daemon that does not answer is looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// A connection to the daemon. It is made when first needed and made anew when it broke.
pub struct Client {
    runtime: Runtime,
    socket: PathBuf,
    sender: RefCell<Option<Sender>>,
    /// The daemon's process, where it is one of this machine.
    process: Cell<Option<i32>>,
}

impl Client {
    /// Connects to the daemon that the environment names.
    ///
    /// # Errors
    /// No daemon answers there.
    pub fn connect() -> Result<Self, ClientError> {
        Self::connect_to(&Endpoint::from_environment()?.socket)
    }

    /// Connects to the daemon at this socket.
    ///
    /// # Errors
    /// No daemon answers there.
    pub fn connect_to(socket: &Path) -> Result<Self, ClientError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(ClientError::Start)?;
        let (sender, process) = runtime.block_on(open(socket))?;
        let (sender, process) = (RefCell::new(Some(sender)), Cell::new(process));
        Ok(Self { runtime, socket: socket.to_owned(), sender, process })
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks and reads the JSON answer.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(&Method::GET, path, Bytes::new())
    }

    /// Asks and reads the answer as text; what is no UTF-8 is replaced.
    pub(crate) fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.call_bytes(&Method::GET, path, Bytes::new())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends JSON and reads the JSON answer.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let what = format!("{method} {path}");
        let body = serde_json::to_vec(body)
            .map_err(|error| ClientError::BadAnswer { what, why: error.to_string() })?;
        if body.len() > BODY_MAX {
            // The daemon would stop reading in the middle; its answer might not be seen.
            let message = format!("the request has {} bytes; {BODY_MAX} are taken", body.len());
            let error = Box::new(ApiError::new("E_BODY_LARGE", message));
            return Err(ClientError::Refused { status: 413, error });
        }
        self.call(method, path, body.into())
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let bytes = self.call_bytes(method, path, body)?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::BadAnswer {
            what: format!("{method} {path}"),
            why: error.to_string(),
        })
    }

    fn call_bytes(&self, method: &Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let what = format!("{method} {path}");
        let answer = self.runtime.block_on(async {
            let call = self.exchange(method, path, body, &what);
            tokio::select! {
                answer = tokio::time::timeout(ANSWER_TIMEOUT, call) => Ok(answer),
                process = stopped(&self.process) => Err(process),
            }
        });
        let answer = answer.map_err(|process| {
            self.sender.replace(None);
            ClientError::Stopped { what: what.clone(), process }
        })?;
        let (status, bytes) = match answer {
            Ok(answer) => answer?,
            Err(_) => {
                self.sender.replace(None);
                return Err(ClientError::Late { what, seconds: ANSWER_TIMEOUT.as_secs() });
            }
        };
        if !status.is_success() {
            return Err(refusal(status, &bytes));
        }
        Ok(bytes)
    }

    /// One request over the kept connection; a connection that the daemon had closed is made anew.
    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
        what: &str,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let lost = |source: hyper::Error| ClientError::Lost {
            what: what.to_owned(),
            source: Box::new(source),
        };
        let mut kept = self.sender.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.open().await?,
        };
        let request = || build(method, path, body.clone());
        let response = match sender.send_request(request()?).await {
            Ok(response) => response,
            // Nothing of it was sent, or it may be asked twice without harm.
            Err(error) if error.is_canceled() || method == Method::GET => {
                sender = self.open().await?;
                sender.send_request(request()?).await.map_err(lost)?
            }
            Err(error) => return Err(lost(error)),
        };
        let (status, bytes) = read(response, what).await?;
        self.sender.replace(Some(sender));
        Ok((status, bytes))
    }

    async fn open(&self) -> Result<Sender, ClientError> {
        let (sender, process) = open(&self.socket).await?;
        self.process.set(process);
        Ok(sender)
    }

    /// A connection and a response of its own, for streams.
    pub(crate) fn stream(&self, path: &str) -> Result<(Sender, Response<Incoming>), ClientError> {
        let what = format!("GET {path}");
        self.runtime.block_on(async {
            let mut sender = self.open().await?;
            let request = build(&Method::GET, path, Bytes::new())?;
            let lost = |source| ClientError::Lost { what: what.clone(), source: Box::new(source) };
            // The stream itself may be silent for as long as it likes.
            let response = tokio::select! {
                response = sender.send_request(request) => response.map_err(lost)?,
                process = stopped(&self.process) => {
                    return Err(ClientError::Stopped { what, process });
                }
            };
            if response.status().is_success() {
                return Ok((sender, response));
            }
            let (status, bytes) = read(response, &what).await?;
            Err(refusal(status, &bytes))
        })
    }

    /// Runs a future on this client's thread.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

async fn read(
    response: Response<Incoming>,
    what: &str,
) -> Result<(StatusCode, Bytes), ClientError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|source| ClientError::Lost { what: what.to_owned(), source })?;
    Ok((status, body.to_bytes()))
}

fn refusal(status: StatusCode, bytes: &[u8]) -> ClientError {
    let error = serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let text: String = String::from_utf8_lossy(bytes).chars().take(500).collect();
        ApiError::new("E_ANSWER_BAD", format!("the daemon answered {status}: {}", text.trim()))
    });
    ClientError::Refused { status: status.as_u16(), error: Box::new(error) }
}

fn build(method: &Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "muster")
        .header("content-type", "application/json")
        .body(Full::new(body))
        .map_err(|error| ClientError::BadAnswer {
            what: format!("{method} {path}"),
            why: error.to_string(),
        })
}

/// Ends when the daemon's process stands still in two looks one after the other: it would answer
/// nothing before somebody lets it go on.
async fn stopped(process: &Cell<Option<i32>>) -> i32 {
    let mut looks = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        match process.get().filter(|process| is_stopped(*process)) {
            Some(process) if looks > 0 => return process,
            Some(_) => looks += 1,
            None => looks = 0,
        }
    }
}

/// Whether a process is stopped, by a signal or by a debugger.
fn is_stopped(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it may hold anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't'))
}

/// A connection, and the process at its other end.
async fn open(socket: &Path) -> Result<(Sender, Option<i32>), ClientError> {
    let fail = |source: std::io::Error| {
        let socket = socket.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied => ClientError::Denied { socket, source },
            _ => ClientError::NoDaemon { socket, source },
        }
    };
    let stream = UnixStream::connect(socket).await.map_err(fail)?;
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| *pid > 0);
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| fail(std::io::Error::other(error)))?;
    // The task ends with the connection; the sender sees why.
    tokio::spawn(async move { drop(connection.await) });
    Ok((sender, process))
}
