//! HTTP/1.1 over the daemon's unix socket, kept open: what a fast client does, by hand, so that
//! nothing of the client library is measured.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const REPLY: Duration = Duration::from_mins(2);
const BODY_BYTES_MAX: usize = 256 << 20;

/// One open connection.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket.
    ///
    /// # Errors
    /// Nobody listens.
    pub(crate) fn connect(socket: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(socket)
            .map_err(|error| format!("{}: {error}", socket.display()))?;
        stream.set_read_timeout(Some(REPLY)).map_err(|error| error.to_string())?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a request and returns the body of the answer.
    ///
    /// # Errors
    /// The connection broke, or the status is not 2xx.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let fail = |error: std::io::Error| format!("{method} {path}: {error}");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: muster\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes()).map_err(fail)?;
        let status = self.line().map_err(fail)?;
        let mut length = 0;
        loop {
            let line = self.line().map_err(fail)?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        if length > BODY_BYTES_MAX {
            return Err(format!("{method} {path}: an answer of {length} bytes"));
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).map_err(fail)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        if status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
            return Ok(body);
        }
        Err(format!("{method} {path}: {status}: {body}"))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
