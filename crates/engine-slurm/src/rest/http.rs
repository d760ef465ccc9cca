//! One `GET` a connection, HTTP/1.1, bounded in time and size.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A call has so long.
const LIMIT: Duration = Duration::from_mins(1);

/// So much of an answer is taken.
const BYTES_MAX: u64 = 1 << 30;

/// A line of an answer's head is at most so long, and there are at most so many of them.
const LINE_MAX: u64 = 16 * 1024;
const LINES_MAX: usize = 200;

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
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late(LIMIT),
            _ => Self::Io(error),
        }
    }
}

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
        let host = match self {
            Self::Socket(_) => "localhost",
            Self::Port(host) => host,
        };
        let token = token.map_or(String::new(), |(user, token)| {
            format!("X-SLURM-USER-NAME: {user}\r\nX-SLURM-USER-TOKEN: {token}\r\n")
        });
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\
             Connection: close\r\n{token}\r\n"
        );
        match self {
            Self::Socket(socket) => {
                let stream = UnixStream::connect(socket)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                exchange(stream, &head)
            }
            Self::Port(host) => {
                let address = host.to_socket_addrs()?.next();
                let address = address.ok_or_else(|| io::Error::other("no address of its name"))?;
                let stream = TcpStream::connect_timeout(&address, LIMIT)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                exchange(stream, &head)
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write, head: &str) -> Result<(u16, Vec<u8>), Trouble> {
    stream.write_all(head.as_bytes())?;
    let until = Instant::now() + LIMIT;
    answer(BufReader::new(Timely { stream, until }))
}

/// A stream that ends with an error at an instant, however slowly it trickles.
struct Timely<S> {
    stream: S,
    until: Instant,
}

impl<S: Read> Read for Timely<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(into)
    }
}

/// Reads an answer: status, head, and a body of the length that the head names, or to the end.
fn answer(mut from: impl BufRead) -> Result<(u16, Vec<u8>), Trouble> {
    let no_http = |line: &str| Trouble::NoHttp(format!("{:?} is no HTTP", line.trim()));
    let first = head_line(&mut from)?;
    let mut words = first.split_whitespace();
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let status = words.next().and_then(|word| word.parse::<u16>().ok());
    let Some(status) = status.filter(|_| is_http) else { return Err(no_http(&first)) };
    let mut length = None;
    for lines in 0.. {
        let line = head_line(&mut from)?;
        if line.trim().is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':').filter(|_| lines < LINES_MAX) else {
            return Err(no_http(&line));
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<u64>().map_err(|_| no_http(&line))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // slurmrestd never does; a proxy in front of it may.
            return Err(Trouble::NoHttp("its body comes in chunks".to_owned()));
        }
    }
    if length.is_some_and(|length| length > BYTES_MAX) {
        return Err(Trouble::Long(BYTES_MAX));
    }
    let mut body = Vec::new();
    from.take(length.unwrap_or(BYTES_MAX + 1)).read_to_end(&mut body)?;
    match length {
        Some(length) if (body.len() as u64) < length => {
            Err(Trouble::NoHttp(format!("it broke off after {} of {length} bytes", body.len())))
        }
        None if body.len() as u64 > BYTES_MAX => Err(Trouble::Long(BYTES_MAX)),
        _ => Ok((status, body)),
    }
}

fn head_line(from: &mut impl BufRead) -> Result<String, Trouble> {
    let mut line = Vec::new();
    from.take(LINE_MAX).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(String::from_utf8_lossy(&line).into_owned()),
        _ => Err(Trouble::NoHttp("its head breaks off".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_to_the_length_that_it_names() {
        let read = |text: &str| answer(text.as_bytes()).map_err(|trouble| format!("{trouble:?}"));
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more";
        assert_eq!(read(whole), Ok((200, b"{}".to_vec())));
        assert_eq!(read("HTTP/1.1 401 No\r\n\r\nno").map(|(status, _)| status), Ok(401));
        let short = read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}").expect_err("short");
        assert!(short.contains("2 of 9"), "{short}");
        for bad in ["", "SSH-2.0\r\n\r\n", "HTTP/1.1 200 OK\r\nX", "HTTP/1.1 x\r\n\r\n"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_that_trickles_for_ever_is_given_up() {
        let stream = io::repeat(b'x');
        let late = Timely { stream, until: Instant::now() };
        let trouble = io::read_to_string(late).map_err(Trouble::from).expect_err("late");
        assert!(matches!(trouble, Trouble::Late(_)), "{trouble:?}");
    }
}
