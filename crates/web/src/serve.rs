//! Listens on 127.0.0.1 and answers.

use crate::answer::{Answer, Refusal, guard, header, json};
use crate::gate::{Asked, Gate, MARK, Verdict, forwarded};
use crate::{Options, WebError, forward, logs, page, plain};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_api::Endpoint;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The most connections at once: some tabs, each with a stream.
const CONNECTIONS_MAX: usize = 256;

/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

struct Server {
    gate: Gate,
    socket: PathBuf,
    port: u16,
    act: bool,
    user: String,
}

/// What the page is told about itself.
#[derive(serde::Serialize)]
struct Session<'a> {
    user: &'a str,
    act: bool,
    version: &'a str,
}

pub(crate) fn run(options: &Options) -> Result<(), WebError> {
    let socket = Endpoint::from_environment()?.socket;
    std::os::unix::net::UnixStream::connect(&socket)
        .map_err(|source| WebError::NoDaemon { socket: socket.clone(), source })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WebError::Start)?;
    runtime.block_on(async {
        let port = |source| WebError::Port { port: options.port, source };
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.map_err(port)?;
        let bound = listener.local_addr().map_err(port)?.port();
        let server = Server {
            gate: Gate::new(bound).map_err(WebError::Start)?,
            socket,
            port: bound,
            act: options.act,
            user: user(),
        };
        announce(&server, options);
        accept(listener, Arc::new(server)).await;
        Ok(())
    })
}

/// The name of the user who runs this: the daemon is asked as that user.
fn user() -> String {
    let uid = nix::unistd::geteuid();
    let found = nix::unistd::User::from_uid(uid).ok().flatten();
    found.map_or_else(|| uid.to_string(), |user| user.name)
}

impl Server {
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.gate.token())
    }
}

/// Says where the page is, and opens it where asked.
fn announce(server: &Server, options: &Options) {
    let _ = writeln!(std::io::stdout(), "{}", server.address());
    let may = if server.act { "shows, cancels, holds and requeues" } else { "shows only" };
    say(&format!("the page {may}, as {}; the address opens it once; ctrl-c ends it", server.user));
    if !page::is_built() {
        say("built without Node: a plain page serves (`cargo xtask web` builds the whole one)");
    }
    if options.open
        && let Err(error) = open(&server.address())
    {
        say(&format!("no browser could be opened: {error}"));
    }
}

fn say(text: &str) {
    // A closed terminal is no reason to end.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Opens a browser at a file that leads on: all users see the words of a command, and the token is
/// for one.
fn open(address: &str) -> std::io::Result<()> {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = dir.join(format!("muster-web-{}.html", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    write!(file, "<!doctype html><meta http-equiv=refresh content=\"0; url={address}\">muster")?;
    let mut browser = std::process::Command::new("xdg-open");
    browser.arg(&path).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    browser.spawn().map(drop)
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    connection(stream, server).await;
                    drop(place);
                });
            }
            // Out of descriptors: give connections time to end.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(guard(answer(&server, request).await)) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // How a browser ends its connection is its own affair.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(server: &Server, request: Request<Incoming>) -> Answer {
    let front = request.uri().path() == "/";
    match judge(server, &request) {
        Ok(Verdict::Enter) => {
            say(&format!("opened; for another browser: {}", server.address()));
            let mut answer = plain::entered();
            header(answer.headers_mut(), "set-cookie", &server.gate.cookie());
            answer
        }
        Ok(Verdict::Pass) => route(server, request).await.unwrap_or_else(Refusal::answer),
        Err(refusal) if front => plain::refused(&refusal),
        Err(refusal) => refusal.answer(),
    }
}

fn judge(server: &Server, request: &Request<Incoming>) -> Result<Verdict, Refusal> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let cookies = request.headers().get_all("cookie").iter();
    server.gate.judge(&Asked {
        method: request.method().clone(),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        host: text("host"),
        origin: text("origin"),
        site: text("sec-fetch-site"),
        cookies: cookies.filter_map(|value| value.to_str().ok()).collect(),
        marked: request.headers().contains_key(MARK),
    })
}

async fn route(server: &Server, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let path = request.uri().path();
    if path.starts_with("/v1/") {
        forwarded(request.method(), path, server.act)?;
        return forward::forward(&server.socket, request).await;
    }
    if let Some(job) = path.strip_prefix("/web/logs/") {
        return logs::logs(&server.socket, job, request.uri().query().unwrap_or_default()).await;
    }
    if path == "/web/session" {
        let version = env!("CARGO_PKG_VERSION");
        let session = Session { user: &server.user, act: server.act, version };
        return Ok(json(StatusCode::OK, &session));
    }
    match page::file(path) {
        Some(file) => Ok(file),
        None => plain::answer(&server.socket, path).await,
    }
}
