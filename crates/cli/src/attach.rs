//! `muster attach`: this terminal connected to a job's.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_api::JobRef;
use muster_api::step::{Connection, EndCause, Event, Message, Request, WireError};
use muster_client::Client;
use muster_client::terminal::Raw;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::act;
use crate::say::{Failure, Outcome, note};

/// The key that detaches: control and `]`.
const DETACH: u8 = 0x1d;

/// Milliseconds between two looks at whether the terminal changed its size.
const LOOK_MS: u16 = 200;

/// Runs the command.
pub(crate) fn run(job: &str) -> Outcome {
    let job = act::job(job)?;
    connect(&Client::connect()?, &job)
}

/// Connects until the job ends, which gives the exit code, or the user detaches.
pub(crate) fn connect(client: &Client, job: &JobRef) -> Outcome {
    let access = client.steps(job)?;
    let failed = |error: WireError| Failure::new(format!("{error} [E_STEP]"));
    let mut connection = Connection::open(Path::new(&access.socket)).map_err(failed)?;
    let (rows, columns) = size();
    connection.send(&Request::Attach { rows, columns }, &[]).map_err(failed)?;
    loop {
        match connection.recv().map_err(failed)?.message.parse::<Event>() {
            Ok(Event::Attached) => break,
            Ok(Event::Refused { message, hint, .. }) => {
                let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                return Err(Failure::new(format!("{message} [E_ATTACH]{hint}")));
            }
            _ => {}
        }
    }
    note(&format!("connected to job {job}; control-] detaches"));
    let raw = Raw::enter();
    let detached = pass(&mut connection, rows, columns);
    drop(raw);
    match detached {
        Ok(true) => {
            note(&format!("\ndetached; muster attach {job} connects again"));
            Ok(0)
        }
        Ok(false) => Ok(act::exit_code(&client.wait_over(job)?.jobs)),
        Err(error) => Err(failed(error)),
    }
}

/// Passes data both ways; true where the user detached.
fn pass(connection: &mut Connection, mut rows: u16, mut columns: u16) -> Result<bool, WireError> {
    let resized = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGWINCH, Arc::clone(&resized))?;
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut open = true;
    loop {
        loop {
            match connection.try_recv() {
                Ok(Some(frame)) => match frame.message {
                    Message::Data(bytes) => {
                        let mut out = std::io::stdout().lock();
                        let _ = out.write_all(&bytes).and_then(|()| out.flush());
                    }
                    json @ Message::Json(_) => {
                        if let Ok(Event::Ending { cause }) = json.parse::<Event>()
                            && cause != EndCause::Exited
                        {
                            note(&format!("\r\nthe job ends: {cause:?}\r"));
                        }
                    }
                },
                Ok(None) => break,
                Err(WireError::Closed) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if resized.swap(false, Ordering::Relaxed) && size() != (rows, columns) {
            (rows, columns) = size();
            connection.send(&Request::Resize { rows, columns }, &[])?;
        }
        let ready = {
            let mut fds = vec![PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
            if open {
                fds.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut fds, PollTimeout::from(LOOK_MS)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            fds.get(1).and_then(PollFd::any).unwrap_or(false)
        };
        if ready {
            let mut bytes = [0; 4096];
            let count = input.read(&mut bytes).unwrap_or(0);
            if count == 0 {
                open = false;
                // End of file, as somebody at the terminal would type it.
                connection.send_data(&[4])?;
            } else if let Some(at) = bytes[..count].iter().position(|byte| *byte == DETACH) {
                connection.send_data(&bytes[..at])?;
                return Ok(true);
            } else {
                connection.send_data(&bytes[..count])?;
            }
        }
    }
}

/// Rows and columns of the caller's terminal.
fn size() -> (u16, u16) {
    terminal_size::terminal_size().map_or((24, 80), |(width, height)| (height.0, width.0))
}
