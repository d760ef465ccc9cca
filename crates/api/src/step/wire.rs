//! Frames on the step socket: a header of eight bytes, a body, and descriptors beside them.
//!
//! Header: kind (`J` for JSON, `D` for terminal data), a zero byte, the number of descriptors that
//! came with the frame (u16, little endian), the body's length (u32, little endian). Descriptors
//! travel as `SCM_RIGHTS` with the header's first byte, at most [`FDS_PER_FRAME_MAX`] a frame.
// Received descriptors arrive as plain numbers; owning them needs one unsafe call.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, recvmsg, sendmsg, socket,
};
use serde::{Serialize, de::DeserializeOwned};

/// The longest frame body; a step's environment must fit into it.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// The most descriptors one frame may carry (the kernel's bound is 253).
pub const FDS_PER_FRAME_MAX: usize = 240;

/// The most bytes kept for a peer that does not read.
pub const OUTBOX_BYTES_MAX: usize = 16 << 20;

const HEADER_BYTES: usize = 8;

/// Why talking over the step socket failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The system refused.
    #[error("step socket: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("the other side closed the step connection")]
    Closed,
    /// A frame that is too long, too short or not of this protocol.
    #[error("malformed frame on the step socket: {0}")]
    Malformed(String),
    /// The peer does not read what it asked for.
    #[error("the other side does not read its messages")]
    Stuck,
}

impl From<Errno> for WireError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// One frame as it came in.
#[derive(Debug)]
pub struct Frame {
    /// What it says.
    pub message: Message,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// The body of a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A JSON value, still as text.
    Json(Vec<u8>),
    /// Bytes of a terminal.
    Data(Vec<u8>),
}

impl Message {
    /// Reads a JSON body as `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, WireError> {
        match self {
            Self::Json(body) => {
                serde_json::from_slice(body).map_err(|e| WireError::Malformed(e.to_string()))
            }
            Self::Data(_) => Err(WireError::Malformed("expected JSON, found data".to_owned())),
        }
    }
}

/// One end of a step connection, blocking or not as its descriptor is.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    inbox: Vec<u8>,
    fds: VecDeque<OwnedFd>,
    outbox: Vec<u8>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Connection {
    /// Takes over a connected stream socket.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, inbox: Vec::new(), fds: VecDeque::new(), outbox: Vec::new() }
    }

    /// Connects to the step socket at `path`, which may be longer than a socket address allows.
    pub fn open(path: &Path) -> Result<Self, WireError> {
        let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        with_short_path(path, |short| connect(fd.as_raw_fd(), &UnixAddr::new(short)?))?;
        Ok(Self::new(fd))
    }

    /// Sends a JSON frame with descriptors and waits until the kernel has all of it.
    pub fn send<T: Serialize>(
        &mut self,
        value: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), WireError> {
        let body = serde_json::to_vec(value).map_err(|e| WireError::Malformed(e.to_string()))?;
        self.send_frame(b'J', &body, fds)
    }

    /// Sends terminal bytes and waits until the kernel has all of them.
    pub fn send_data(&mut self, data: &[u8]) -> Result<(), WireError> {
        for part in data.chunks(FRAME_BYTES_MAX) {
            self.send_frame(b'D', part, &[])?;
        }
        Ok(())
    }

    fn send_frame(
        &mut self,
        kind: u8,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), WireError> {
        if fds.len() > FDS_PER_FRAME_MAX {
            return Err(WireError::Malformed(format!("{} descriptors in one frame", fds.len())));
        }
        let frame = encode(kind, body, fds.len())?;
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let mut sent = 0;
        while sent < frame.len() {
            let control = [ControlMessage::ScmRights(&raw)];
            let with_fds = sent == 0 && !raw.is_empty();
            let result = sendmsg::<UnixAddr>(
                self.fd.as_raw_fd(),
                &[IoSlice::new(&frame[sent..])],
                if with_fds { &control[..] } else { &[] },
                MsgFlags::MSG_NOSIGNAL,
                None,
            );
            match result {
                Ok(n) => sent += n,
                Err(Errno::EINTR) => {}
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(WireError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Queues a JSON frame; [`Connection::flush`] sends it. For ends that must not wait.
    pub fn queue<T: Serialize>(&mut self, value: &T) -> Result<(), WireError> {
        let body = serde_json::to_vec(value).map_err(|e| WireError::Malformed(e.to_string()))?;
        self.queue_frame(b'J', &body)
    }

    /// Queues terminal bytes.
    pub fn queue_data(&mut self, data: &[u8]) -> Result<(), WireError> {
        self.queue_frame(b'D', data)
    }

    fn queue_frame(&mut self, kind: u8, body: &[u8]) -> Result<(), WireError> {
        if self.outbox.len() + body.len() > OUTBOX_BYTES_MAX {
            return Err(WireError::Stuck);
        }
        self.outbox.extend_from_slice(&encode(kind, body, 0)?);
        Ok(())
    }

    /// Sends what is queued as far as the peer takes it now.
    pub fn flush(&mut self) -> Result<(), WireError> {
        while !self.outbox.is_empty() {
            let result = sendmsg::<UnixAddr>(
                self.fd.as_raw_fd(),
                &[IoSlice::new(&self.outbox)],
                &[],
                MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
                None,
            );
            match result {
                Ok(n) => drop(self.outbox.drain(..n)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(WireError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Whether queued bytes wait for the peer.
    pub fn has_queued(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Waits for the next frame.
    pub fn recv(&mut self) -> Result<Frame, WireError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(frame);
            }
            self.fill(MsgFlags::empty())?;
        }
    }

    /// The next frame if one is there already; never waits.
    pub fn try_recv(&mut self) -> Result<Option<Frame>, WireError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(Some(frame));
            }
            match self.fill(MsgFlags::MSG_DONTWAIT) {
                Ok(()) => {}
                Err(WireError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(other) => return Err(other),
            }
        }
    }

    fn fill(&mut self, flags: MsgFlags) -> Result<(), WireError> {
        let mut buffer = [0_u8; 16 << 10];
        let mut control = nix::cmsg_space!([RawFd; FDS_PER_FRAME_MAX]);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let received = loop {
            let result = recvmsg::<UnixAddr>(
                self.fd.as_raw_fd(),
                &mut slices,
                Some(&mut control),
                flags | MsgFlags::MSG_CMSG_CLOEXEC,
            );
            match result {
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNRESET) => return Err(WireError::Closed),
                other => break other?,
            }
        };
        let bytes = received.bytes;
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just made these descriptors for us; nobody else owns them.
                self.fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        if bytes == 0 {
            return Err(WireError::Closed);
        }
        self.inbox.extend_from_slice(&buffer[..bytes]);
        Ok(())
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        let Some(header) = self.inbox.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [kind, _, f0, f1, b0, b1, b2, b3] = *header;
        let fd_count = usize::from(u16::from_le_bytes([f0, f1]));
        let length = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        if length > FRAME_BYTES_MAX || fd_count > FDS_PER_FRAME_MAX {
            return Err(WireError::Malformed(format!(
                "{length} bytes with {fd_count} descriptors"
            )));
        }
        if self.inbox.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        if self.fds.len() < fd_count {
            return Err(WireError::Malformed("descriptors are missing".to_owned()));
        }
        let fds = self.fds.drain(..fd_count).collect();
        let body = self.inbox[HEADER_BYTES..HEADER_BYTES + length].to_vec();
        self.inbox.drain(..HEADER_BYTES + length);
        let message = match kind {
            b'J' => Message::Json(body),
            b'D' => Message::Data(body),
            other => return Err(WireError::Malformed(format!("frame kind {other}"))),
        };
        Ok(Some(Frame { message, fds }))
    }
}

fn encode(kind: u8, body: &[u8], fd_count: usize) -> Result<Vec<u8>, WireError> {
    if body.len() > FRAME_BYTES_MAX {
        return Err(WireError::Malformed(format!("a body of {} bytes", body.len())));
    }
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.push(kind);
    frame.push(0);
    frame.extend_from_slice(&(fd_count as u16).to_le_bytes());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(body);
    Ok(frame)
}

/// Runs `use_path` with a path that fits into a socket address.
///
/// A socket address holds 107 bytes; a longer path is reached through its directory's descriptor.
pub fn with_short_path<T>(
    path: &Path,
    use_path: impl FnOnce(&Path) -> Result<T, Errno>,
) -> Result<T, Errno> {
    const ADDRESS_BYTES_MAX: usize = 107;
    if path.as_os_str().as_bytes().len() <= ADDRESS_BYTES_MAX {
        return use_path(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::EINVAL);
    };
    let flags = nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_CLOEXEC;
    let directory = nix::fcntl::open(parent, flags, nix::sys::stat::Mode::empty())?;
    use_path(&Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name))
}

#[cfg(test)]
mod tests {
    use super::{Connection, Message, WireError, with_short_path};
    use crate::step::{Request, Stream, TaskLaunch};
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn pair() -> (Connection, Connection) {
        let (a, b) = UnixStream::pair().expect("socket pair");
        (Connection::new(a.into()), Connection::new(b.into()))
    }

    #[test]
    fn a_frame_carries_its_descriptors() {
        let (mut client, mut server) = pair();
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let request = Request::Launch {
            tasks: vec![TaskLaunch {
                procid: 3,
                stdin: Stream::Null,
                stdout: Stream::Fd(0),
                stderr: Stream::Fd(0),
                argv: None,
            }],
        };
        client.send(&request, &[writer.as_fd()]).expect("sent");
        drop(writer);
        client.send_data(b"typed").expect("sent");
        let frame = server.recv().expect("frame");
        assert_eq!(frame.message.parse::<Request>().expect("request"), request);
        let fd = frame.fds.into_iter().next().expect("descriptor");
        std::fs::File::from(fd).write_all(b"hello").expect("written");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
        assert_eq!(server.recv().expect("data").message, Message::Data(b"typed".to_vec()));
        assert!(server.try_recv().expect("nothing").is_none());
        drop(client);
        assert!(matches!(server.try_recv(), Err(WireError::Closed)));
    }

    #[test]
    fn queued_frames_flow_when_the_peer_reads() {
        let (mut client, mut server) = pair();
        let big = vec![7_u8; 3 << 20];
        server.queue_data(&big).expect("queued");
        server.flush().expect("flushed");
        assert!(server.has_queued());
        let reader = std::thread::spawn(move || client.recv().expect("frame").message);
        while server.has_queued() {
            server.flush().expect("flushed");
            std::thread::yield_now();
        }
        assert_eq!(reader.join().expect("reader"), Message::Data(big));
    }

    #[test]
    fn nonsense_is_refused() {
        let (a, b) = UnixStream::pair().expect("socket pair");
        let mut server = Connection::new(b.into());
        (&a).write_all(&[b'J', 0, 0, 0, 255, 255, 255, 255]).expect("written");
        assert!(matches!(server.recv(), Err(WireError::Malformed(_))));
    }

    #[test]
    fn a_long_path_is_reached() {
        let root = std::env::temp_dir().join(format!("muster-wire-{}", std::process::id()));
        let deep = root.join("x".repeat(120));
        std::fs::create_dir_all(&deep).expect("directory");
        let path = deep.join("step.sock");
        let listener = with_short_path(&path, |short| {
            UnixListener::bind(short).map_err(|_| nix::errno::Errno::EIO)
        })
        .expect("bound");
        let mut client = Connection::open(&path).expect("connected");
        client.send(&Request::Describe, &[]).expect("sent");
        let (stream, _) = listener.accept().expect("accepted");
        let mut server = Connection::new(stream.into());
        assert_eq!(
            server.recv().expect("frame").message.parse::<Request>().expect("request"),
            Request::Describe
        );
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
