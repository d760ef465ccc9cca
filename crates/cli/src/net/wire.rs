//! One connection from a sender to a receiver, which says at its end what arrived.
//!
//! The sender begins with a line that only it can know; then there is data until the sender has sent
//! enough; then the receiver answers with a line of JSON. Time and bytes are bounded at both ends.

use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read, Result, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What is sent in one go.
const BLOCK: usize = 256 * 1024;

/// How long the ends look for each other.
pub(super) const MEET: Duration = Duration::from_secs(30);

/// How long one may keep the other waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest line.
const LINE_MAX: u64 = 4096;

/// What bounds a test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The sender stops after so long.
    pub(super) time: Duration,
    /// And after so many bytes.
    pub(super) bytes: u64,
}

/// What arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Segments that were sent again, as the sender's kernel counts them.
    pub(super) retransmits: Option<u64>,
}

impl Measured {
    pub(super) fn bits_per_second(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds
    }
}

fn hello(token: &str) -> String {
    format!("muster-net 1 {token}\n")
}

/// Takes the one sender that knows the token, and says how much came.
pub(super) fn receive(listener: &TcpListener, token: &str, bounds: Bounds) -> Result<()> {
    let end = Instant::now() + MEET;
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                // One who is not the sender does not end the test.
                if let Some(done) = served(&stream, token, bounds) {
                    return done;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
        }
        if Instant::now() > end {
            return Err(Error::new(ErrorKind::TimedOut, "the other node did not come"));
        }
    }
}

/// `None` where it was not the sender.
fn served(stream: &TcpStream, token: &str, bounds: Bounds) -> Option<Result<()>> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let wanted = hello(token);
    let mut said = vec![0; wanted.len()];
    let mut reader = stream;
    reader.read_exact(&mut said).ok()?;
    (said == wanted.as_bytes()).then(|| counted(stream, bounds))
}

fn counted(mut stream: &TcpStream, bounds: Bounds) -> Result<()> {
    let begun = Instant::now();
    let latest = bounds.time + PATIENCE;
    let (mut block, mut bytes, mut last) = (vec![0; BLOCK], 0_u64, begun);
    while begun.elapsed() < latest && bytes <= bounds.bytes {
        let count = stream.read(&mut block)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        last = Instant::now();
    }
    let seconds = (last - begun).as_secs_f64().max(1e-6);
    let measured = Measured { bytes, seconds, retransmits: None };
    let mut line = serde_json::to_string(&measured)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Sends until a bound is met, and gives what the receiver says came.
pub(super) fn send(address: SocketAddr, token: &str, bounds: Bounds) -> Result<Measured> {
    let stream = connected(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writer = &stream;
    writer.write_all(hello(token).as_bytes())?;
    let (block, begun, mut left) = (vec![0x5a; BLOCK], Instant::now(), bounds.bytes);
    while left > 0 && begun.elapsed() < bounds.time {
        let count = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        left -= writer.write(&block[..count])? as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut line = String::new();
    BufReader::new((&stream).take(LINE_MAX)).read_line(&mut line)?;
    let mut measured: Measured = serde_json::from_str(&line)?;
    measured.retransmits = retransmits(&stream);
    Ok(measured)
}

/// The receiver may not listen yet.
fn connected(address: SocketAddr) -> Result<TcpStream> {
    let end = Instant::now() + MEET;
    loop {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => std::thread::park_timeout(Duration::from_millis(50)),
        }
    }
}

/// Segments of this connection that were sent again.
#[allow(unsafe_code)]
fn retransmits(stream: &TcpStream) -> Option<u64> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the descriptor is open as long as `stream` is borrowed, and the kernel writes at most
    // `length` bytes, which is the size of `info`.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (done == 0).then_some(u64::from(info.tcpi_total_retrans))
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Measured, receive, send};
    use std::io::Write as _;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    fn receiver(bounds: Bounds) -> (SocketAddr, std::thread::JoinHandle<std::io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (address, std::thread::spawn(move || receive(&listener, "t0ken", bounds)))
    }

    #[test]
    fn bytes_bound_a_test_and_all_of_them_are_counted() {
        let bounds = Bounds { time: Duration::from_mins(1), bytes: 3_000_001 };
        let (address, receiver) = receiver(bounds);
        let measured: Measured = send(address, "t0ken", bounds).unwrap();
        receiver.join().unwrap().unwrap();
        assert_eq!(measured.bytes, 3_000_001);
        assert!(measured.seconds > 0.0 && measured.bits_per_second() > 0.0, "{measured:?}");
        assert!(measured.retransmits.is_some());
    }

    #[test]
    fn time_bounds_a_test() {
        let bounds = Bounds { time: Duration::from_millis(50), bytes: u64::MAX };
        let (address, receiver) = receiver(bounds);
        let measured = send(address, "t0ken", bounds).unwrap();
        receiver.join().unwrap().unwrap();
        assert!(measured.bytes > 0 && measured.seconds < 10.0, "{measured:?}");
    }

    #[test]
    fn who_does_not_know_the_token_is_not_the_sender() {
        let bounds = Bounds { time: Duration::from_mins(1), bytes: 1_000 };
        let (address, receiver) = receiver(bounds);
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(b"muster-net 1 guess\n and a lot more").unwrap();
        drop(stranger);
        let wrong = send(address, "other", bounds);
        assert!(wrong.is_err(), "{wrong:?}");
        assert_eq!(send(address, "t0ken", bounds).unwrap().bytes, 1_000);
        receiver.join().unwrap().unwrap();
    }
}
