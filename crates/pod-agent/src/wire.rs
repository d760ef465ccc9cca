//! What muster in one pod of a job says to muster in another: one request, proven by the job's key,
//! then frames both ways.
//!
//! The server sends a number that it never sent before; the client answers with a request and with
//! what only somebody can make of both who has the key (HMAC, RFC 2104, with SHA-256). So nobody else
//! has anything run, and nothing can be said twice. What follows is as open as all that a job's ranks
//! tell each other.

use hmac::{Hmac, Mac};
use muster_engine::book::unguessable;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

/// Where muster listens in each pod but the first.
pub(crate) const PORT: u16 = 7117;

/// The key's name beside the order to launch.
const KEY: &str = "key";

/// A request is not longer: words and environment of a task.
const REQUEST_MAX: u64 = 8 << 20;

/// A frame is not longer.
const FRAME_MAX: u32 = 1 << 20;

/// Whoever connects says what for within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the other pod is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Whether it is there.
    Ping,
    /// The job is over.
    Leave,
    /// Run this.
    Run(Task),
}

/// One task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) directory: String,
    pub(crate) umask: u32,
}

/// What goes to and fro while a task runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Standard input; empty at its end.
    Input(Vec<u8>),
    Output(Vec<u8>),
    Error(Vec<u8>),
    Signal(u8),
    /// The exit code.
    Exited(u8),
    /// The signal that ended it.
    Killed(u8),
}

/// A request with its proof.
#[derive(Serialize, Deserialize)]
struct Proven {
    request: String,
    proof: Vec<u8>,
}

/// The job's key.
pub(crate) struct Key(Vec<u8>);

impl Key {
    pub(crate) fn read(orders: &Path) -> io::Result<Self> {
        let key = std::fs::read(orders.join(KEY))?;
        if key.len() < 16 {
            return Err(io::Error::other("the job's key is too short"));
        }
        Ok(Self(key))
    }

    fn over(&self, once: &str, request: &str) -> Hmac<Sha256> {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!());
        mac.update(once.as_bytes());
        mac.update(b"\n");
        mac.update(request.as_bytes());
        mac
    }
}

/// Asks the other pod, at this address; gives the connection for what follows.
pub(crate) fn ask(host: &str, key: &Key, request: &Request) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, PORT).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return introduce(stream, key, request),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn introduce(stream: TcpStream, key: &Key, request: &Request) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let once = line(&stream)?;
    let request = serde_json::to_string(request)?;
    let proof = key.over(&once, &request).finalize().into_bytes().to_vec();
    let mut text = serde_json::to_vec(&Proven { request, proof })?;
    text.push(b'\n');
    (&stream).write_all(&text)?;
    stream.set_read_timeout(None)?;
    Ok(stream)
}

/// Listens for the other pods of the job.
pub(crate) fn listen() -> io::Result<TcpListener> {
    // A pod has an address of its own.
    let own = std::env::var("MUSTER_POD_IP").unwrap_or_else(|_| "0.0.0.0".to_owned());
    TcpListener::bind((own.as_str(), PORT))
}

/// What whoever connected asks for; an error where he has not the key.
pub(crate) fn hear(stream: &TcpStream, key: &Key) -> io::Result<Request> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let once = unguessable()?;
    let mut out = stream;
    out.write_all(format!("{once}\n").as_bytes())?;
    let proven: Proven = serde_json::from_str(&line(stream)?)?;
    let mac = key.over(&once, &proven.request);
    mac.verify_slice(&proven.proof).map_err(|_| io::Error::other("it has not the job's key"))?;
    stream.set_read_timeout(None)?;
    Ok(serde_json::from_str(&proven.request)?)
}

/// A line, read byte by byte: what is behind it belongs to somebody else.
fn line(stream: &TcpStream) -> io::Result<String> {
    let mut text = Vec::new();
    let mut reader = BufReader::with_capacity(1, stream).take(REQUEST_MAX);
    reader.read_until(b'\n', &mut text)?;
    if text.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    String::from_utf8(text).map_err(io::Error::other)
}

/// Writes a frame: its kind, its length (big endian), and what it has.
pub(crate) fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let one;
    let (kind, bytes): (u8, &[u8]) = match frame {
        Frame::Input(bytes) => (0, bytes),
        Frame::Output(bytes) => (1, bytes),
        Frame::Error(bytes) => (2, bytes),
        Frame::Signal(number) => (3, {
            one = [*number];
            &one
        }),
        Frame::Exited(code) => (4, {
            one = [*code];
            &one
        }),
        Frame::Killed(signal) => (5, {
            one = [*signal];
            &one
        }),
    };
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut text = Vec::with_capacity(5 + bytes.len());
    text.push(kind);
    text.extend_from_slice(&length.to_be_bytes());
    text.extend_from_slice(bytes);
    to.write_all(&text)
}

/// Reads a frame; `None` at the end of the connection.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut head = [0; 5];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let [kind, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    if length > FRAME_MAX {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    let one = || bytes.first().copied().ok_or(io::ErrorKind::InvalidData);
    Ok(Some(match kind {
        0 => Frame::Input(bytes),
        1 => Frame::Output(bytes),
        2 => Frame::Error(bytes),
        3 => Frame::Signal(one()?),
        4 => Frame::Exited(one()?),
        5 => Frame::Killed(one()?),
        other => return Err(io::Error::other(format!("a frame of kind {other}"))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_as_they_went_and_others_are_refused() {
        let frames = [
            Frame::Input(Vec::new()),
            Frame::Output(b"out\n".to_vec()),
            Frame::Error(vec![0, 255]),
            Frame::Signal(15),
            Frame::Exited(7),
            Frame::Killed(9),
        ];
        let mut text = Vec::new();
        for frame in &frames {
            write(&mut text, frame).expect("written");
        }
        let mut from = text.as_slice();
        for frame in &frames {
            assert_eq!(read(&mut from).expect("a frame").as_ref(), Some(frame));
        }
        assert_eq!(read(&mut from).expect("the end"), None);
        for bad in [&[9, 0, 0, 0, 0][..], &[1, 255, 0, 0, 0], &[1, 0, 0, 0, 5, 1], &[4, 0, 0, 0, 0]]
        {
            assert!(read(&mut &*bad).is_err(), "{bad:?}");
        }
    }

    /// Both ends over the loopback, each with a key.
    fn talk(server: &str, client: &str) -> (io::Result<Request>, io::Result<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let own = Key(client.as_bytes().to_vec());
        let client = std::thread::spawn(move || {
            introduce(TcpStream::connect(address)?, &own, &Request::Ping)
        });
        let (stream, _) = listener.accept().expect("a client");
        let heard = hear(&stream, &Key(server.as_bytes().to_vec()));
        (heard, client.join().expect("no panic"))
    }

    #[test]
    fn only_who_has_the_key_is_heard() {
        let (heard, _) = talk("the key of the job", "the key of the job");
        assert!(matches!(heard, Ok(Request::Ping)));
        let (heard, _) = talk("the key of the job", "the key of another");
        assert!(heard.expect_err("refused").to_string().contains("key"));
    }
}
