//! One question to a daemon, for `muster up`, `down` and `status`: no need for a whole client.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer, bytes.
const ANSWER_MAX: u64 = 4 * 1024 * 1024;

/// The status and body of the daemon's answer.
pub(crate) fn ask(socket: &Path, method: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: muster\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(broken)?;
    Ok((status, body.to_owned()))
}
