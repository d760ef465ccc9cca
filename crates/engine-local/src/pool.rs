//! Supervisors that did their job and wait for the next one, so that a launch needs no fork.
//!
//! A supervisor still looks after one job at a time, and after jobs of one user only. When that is over and nothing of it is left,
//! it says so on a board in shared memory and waits on a socket of its own; the shepherd takes it
//! off the board and sends the next launch there. The board decides who was first where one side
//! gives up waiting while the other sends. A shepherd that is gone closes the sockets, and those
//! who wait end.
// Memory shared with forked children, and descriptors closed behind their owners' back.
#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::poll::{PollFd, PollFlags, poll};

/// How many supervisors may be used again; others end with their job.
const SEATS: usize = 64;
/// How long one waits for another job.
const WAIT_MS: u16 = 3_000;
/// How many jobs one looks after: what it has gathered in memory by then goes with it.
const JOBS_MAX: u32 = 1_000;
/// Longer launches get a new supervisor: this much fits into a socket at once, so that the
/// shepherd never waits for anybody to read.
const LAUNCH_BYTES_MAX: usize = 64 << 10;

/// Where a seat stands on the board.
const BUSY: u8 = 0;
const WAITING: u8 = 1;
const GONE: u8 = 2;

/// The shepherd's side.
pub(crate) struct Pool {
    board: Option<&'static [AtomicU8; SEATS]>,
    seats: [Option<Supervisor>; SEATS],
}

/// A supervisor that has a seat.
struct Supervisor {
    pid: i32,
    /// Whose jobs it has.
    uid: u32,
    socket: UnixStream,
}

/// A seat on its way to a supervisor that is about to be forked.
pub(crate) struct Offer {
    number: usize,
    kept: UnixStream,
    given: UnixStream,
}

/// The supervisor's side.
pub(crate) struct Seat {
    state: &'static AtomicU8,
    socket: UnixStream,
    jobs: u32,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self { board: shared_board(), seats: [const { None }; SEATS] }
    }

    /// Gives a user's launch to a supervisor that waits for one; says to whom.
    pub(crate) fn hand_over(&mut self, uid: u32, launch: &[u8]) -> Option<i32> {
        let board = self.board?;
        if launch.len() > LAUNCH_BYTES_MAX {
            return None;
        }
        for (state, seat) in board.iter().zip(&mut self.seats) {
            let Some(supervisor) = seat.as_mut().filter(|s| s.uid == uid) else { continue };
            let taken =
                state.compare_exchange(WAITING, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if !taken {
                continue;
            }
            if send(&mut supervisor.socket, launch).is_ok() {
                return Some(supervisor.pid);
            }
            // It died, and is collected in a moment.
            *seat = None;
        }
        None
    }

    /// A free seat for a supervisor that is about to be forked.
    pub(crate) fn offer(&self) -> Option<Offer> {
        let board = self.board?;
        let number = self.seats.iter().position(Option::is_none)?;
        let (kept, given) = UnixStream::pair().ok()?;
        board[number].store(BUSY, Ordering::Release);
        Some(Offer { number, kept, given })
    }

    /// The offer was taken by this process, for a job of this user.
    pub(crate) fn take(&mut self, offer: Offer, pid: i32, uid: u32) {
        self.seats[offer.number] = Some(Supervisor { pid, uid, socket: offer.kept });
    }

    /// A supervisor has ended.
    pub(crate) fn leave(&mut self, pid: i32) {
        for seat in &mut self.seats {
            if seat.as_ref().is_some_and(|supervisor| supervisor.pid == pid) {
                *seat = None;
            }
        }
    }

    /// In the forked child: takes the seat, and lets go of the shepherd's ends of all of them, so
    /// that they close with the shepherd.
    pub(crate) fn sit_down(&self, offer: Option<Offer>) -> Option<Seat> {
        for supervisor in self.seats.iter().flatten() {
            // SAFETY: the child never returns, so the owner of the descriptor is not used or
            // dropped in it.
            unsafe { libc::close(supervisor.socket.as_raw_fd()) };
        }
        let (board, offer) = (self.board?, offer?);
        Some(Seat { state: &board[offer.number], socket: offer.given, jobs: 1 })
    }
}

impl Seat {
    /// Waits for the next launch; `None` when this process shall end.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        if self.jobs >= JOBS_MAX {
            return None;
        }
        self.jobs += 1;
        self.state.store(WAITING, Ordering::Release);
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let came = poll(&mut fds, WAIT_MS).is_ok_and(|ready| ready > 0);
        let gone =
            || self.state.compare_exchange(WAITING, GONE, Ordering::AcqRel, Ordering::Acquire);
        if !came && gone().is_ok() {
            return None;
        }
        // It was sent or is being sent right now; or the shepherd is gone.
        receive(&mut self.socket).ok()
    }
}

fn send(socket: &mut UnixStream, launch: &[u8]) -> io::Result<()> {
    let mut message = (launch.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(launch);
    socket.write_all(&message)
}

fn receive(socket: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut launch = vec![0; (u32::from_le_bytes(length) as usize).min(LAUNCH_BYTES_MAX)];
    socket.read_exact(&mut launch)?;
    Ok(launch)
}

/// Memory that forked children share; without it nobody waits, and all is as slow as it was.
fn shared_board() -> Option<&'static [AtomicU8; SEATS]> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of our own; nothing else is touched.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), SEATS, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: zeroed memory of that size is an array of atomics, and it is never unmapped.
    Some(unsafe { &*memory.cast::<[AtomicU8; SEATS]>() })
}

#[cfg(test)]
mod tests {
    use super::{LAUNCH_BYTES_MAX, Pool};

    #[test]
    fn a_launch_goes_to_one_who_waits() {
        let mut pool = Pool::new();
        let offer = pool.offer().expect("a seat");
        let given = super::Offer {
            number: offer.number,
            kept: offer.kept.try_clone().expect("a socket"),
            given: offer.given.try_clone().expect("a socket"),
        };
        let mut seat = pool.sit_down(Some(given)).expect("seated");
        pool.take(offer, 7, 100);
        assert_eq!(pool.hand_over(100, b"launch"), None, "it is busy");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || (seat.next(), seat));
            assert_eq!(pool.hand_over(101, b"launch"), None, "of another user");
            let pid = loop {
                if let Some(pid) = pool.hand_over(100, b"launch") {
                    break pid;
                }
                std::thread::yield_now();
            };
            assert_eq!(pid, 7);
            let (launch, mut seat) = waiting.join().expect("a supervisor");
            assert_eq!(launch.as_deref(), Some(b"launch".as_slice()));
            assert_eq!(pool.hand_over(100, b"another"), None, "it is busy again");
            let waiting = scope.spawn(move || seat.next());
            assert_eq!(pool.hand_over(100, &vec![0; LAUNCH_BYTES_MAX + 1]), None, "too long");
            // The shepherd lets go of it.
            pool.leave(7);
            assert_eq!(waiting.join().expect("a supervisor"), None);
        });
    }
}
