//! One `GET` a connection, HTTP/1.1, bounded in time and size.

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A call has so long.
const LIMIT: Duration = Duration::from_mins(1);

/// So much of an answer is taken.
const BYTES_MAX: usize = 1 << 30;

/// Where somebody listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Socket(PathBuf),
    /// Host and port.
    Port(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
            Self::Port(host) => write!(f, "http://{host}"),
        }
    }
}

/// What ended a call without an answer.
#[derive(Debug)]
pub(super) enum Trouble {
    Io(io::Error),
    NoHttp(String),
    Long(u64),
    Late(Duration),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<hyper::Error> for Trouble {
    fn from(error: hyper::Error) -> Self {
        let mut why = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            why.push_str(": ");
            why.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self::NoHttp(why)
    }
}

/// What bounds a call.
#[derive(Clone, Copy)]
struct Bounds {
    limit: Duration,
    bytes: usize,
}

const BOUNDS: Bounds = Bounds { limit: LIMIT, bytes: BYTES_MAX };

impl Address {
    /// `unix:/path` or `http://host:port`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return path.is_absolute().then_some(Self::Socket(path));
        }
        let host = text.strip_prefix("http://")?.trim_end_matches('/');
        let (name, port) = host.rsplit_once(':')?;
        let plain = |c: char| c.is_ascii_graphic() && c != '/';
        let fine = !name.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok();
        fine.then(|| Self::Port(host.to_owned()))
    }

    /// Asks for a path; the status and the body.
    pub(super) fn get(
        &self,
        path: &str,
        token: Option<(&str, &str)>,
    ) -> Result<(u16, Vec<u8>), Trouble> {
        self.within(path, token, BOUNDS)
    }

    fn within(
        &self,
        path: &str,
        token: Option<(&str, &str)>,
        bounds: Bounds,
    ) -> Result<(u16, Vec<u8>), Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let call = async {
            match self {
                Self::Socket(socket) => {
                    let stream = UnixStream::connect(socket).await?;
                    exchange(stream, "localhost", path, token, bounds.bytes).await
                }
                Self::Port(host) => {
                    let stream = TcpStream::connect(host.as_str()).await?;
                    exchange(stream, host, path, token, bounds.bytes).await
                }
            }
        };
        let answer = runtime.block_on(async { tokio::time::timeout(bounds.limit, call).await });
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        answer.unwrap_or(Err(Trouble::Late(bounds.limit)))
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    path: &str,
    token: Option<(&str, &str)>,
    bytes: usize,
) -> Result<(u16, Vec<u8>), Trouble> {
    let mut request = Request::get(path)
        .header("host", host)
        .header("accept", "application/json")
        .header("connection", "close");
    if let Some((user, token)) = token {
        request = request.header("x-slurm-user-name", user).header("x-slurm-user-token", token);
    }
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| Trouble::NoHttp(error.to_string()))?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with the runtime at the latest; what goes wrong in it, the sender is told.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), bytes).collect().await;
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => Trouble::from(*error),
        Err(error) if error.is::<LengthLimitError>() => Trouble::Long(bytes as u64),
        Err(error) => Trouble::NoHttp(error.to_string()),
    })?;
    Ok((status, body.to_bytes().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    const FEW: Bounds = Bounds { limit: Duration::from_secs(20), bytes: 100 };

    /// What is made of this answer to one call; the line stays open for as long as the call.
    fn ask(answer: &'static str, bounds: Bounds, open: bool) -> Result<(u16, Vec<u8>), Trouble> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a call");
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(answer.as_bytes());
            if open {
                // To its end, which is when the other side gives up.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).expect("an address");
        let said = address.within("/x", None, bounds);
        served.join().expect("it served");
        said
    }

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let whole = ask("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more", FEW, false);
        assert_eq!(whole.expect("whole"), (200, b"{}".to_vec()));
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        assert_eq!(ask(chunks, FEW, false).expect("in chunks"), (200, b"{}".to_vec()));
        let refused = ask("HTTP/1.1 401 No\r\n\r\nno", FEW, false).expect("refused");
        assert_eq!(refused, (401, b"no".to_vec()));
        for bad in [
            "",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX",
            "HTTP/1.1 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        ] {
            let trouble = ask(bad, FEW, false).expect_err(bad);
            assert!(matches!(trouble, Trouble::NoHttp(_)), "{bad:?}: {trouble:?}");
        }
    }

    #[test]
    fn one_that_is_too_long_or_never_ends_is_given_up() {
        let long = ask(
            "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n\
             0123456789012345678901234567890123456789012345678901234567890123456789\
             0123456789012345678901234567890",
            FEW,
            false,
        );
        assert!(matches!(long, Err(Trouble::Long(100))), "{long:?}");
        let soon = Bounds { limit: Duration::from_millis(50), ..FEW };
        let late = ask("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", soon, true);
        assert!(matches!(late, Err(Trouble::Late(_))), "{late:?}");
    }
}
