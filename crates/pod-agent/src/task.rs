//! A task of a step that belongs on another pod: this process stands for it, as `ssh` would.

use crate::error::AgentError;
use crate::wire::{self, Frame, Key, Request, Task};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What is passed on.
const SIGNALS: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT];

/// So much of standard input is passed on at a time.
const CHUNK: usize = 64 << 10;

/// Runs a task on another pod, and ends as it ends.
pub(crate) fn task(orders: &Path, host: &str, argv: &[String]) -> Result<i32, AgentError> {
    let failed = || AgentError::file(format!("node {host}"));
    let key = Key::read(orders).map_err(AgentError::file(orders.join("key")))?;
    let directory = std::env::current_dir().map_err(AgentError::file("."))?;
    let umask = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    nix::sys::stat::umask(umask);
    let request = Request::Run(Task {
        argv: argv.to_vec(),
        environment: environment(),
        directory: directory.to_string_lossy().into_owned(),
        umask: umask.bits(),
    });
    // Before anything runs, so that none is lost.
    let signals = Signals::new(SIGNALS).map_err(AgentError::file("signals"))?;
    let stream = wire::ask(&address(host), &key, &request).map_err(failed())?;
    pass_on(&stream, signals).map_err(failed())?;
    let mut from = stream;
    loop {
        match wire::read(&mut from).map_err(failed())? {
            Some(Frame::Output(bytes)) => put(&mut io::stdout().lock(), &bytes),
            Some(Frame::Error(bytes)) => put(&mut io::stderr().lock(), &bytes),
            Some(Frame::Exited(code)) => return Ok(i32::from(code)),
            Some(Frame::Killed(number)) => return Ok(end_by(i32::from(number))),
            Some(Frame::Input(_) | Frame::Signal(_)) => {}
            None => {
                let why = "its pod ended".to_owned();
                return Err(AgentError::File { path: format!("node {host}").into(), why });
            }
        }
    }
}

/// All of it; what is no text there is none here either.
fn environment() -> Vec<(String, String)> {
    let text = |word: std::ffi::OsString| word.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// The pod of that name, in the job's own service: `muster-7-1-INSTANCE-0.muster-7-1-INSTANCE`.
pub(crate) fn address(host: &str) -> String {
    match host.rsplit_once('-') {
        Some((service, _)) => format!("{host}.{service}"),
        None => host.to_owned(),
    }
}

/// Standard input and signals, as long as this process lives.
fn pass_on(stream: &TcpStream, mut signals: Signals) -> io::Result<()> {
    // Frames of both threads come one after the other.
    let to = Arc::new(Mutex::new(stream.try_clone()?));
    let also = Arc::clone(&to);
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = io::stdin().lock().read(&mut chunk).unwrap_or(0);
            let sent = send(&to, &Frame::Input(chunk[..length].to_vec()));
            if length == 0 || sent.is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for number in signals.forever() {
            let frame = Frame::Signal(u8::try_from(number).unwrap_or(0));
            if send(&also, &frame).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn send(to: &Mutex<TcpStream>, frame: &Frame) -> io::Result<()> {
    wire::write(&mut *to.lock().unwrap_or_else(PoisonError::into_inner), frame)
}

/// Where nobody reads any more the task is told of that by its own pipe.
fn put(to: &mut impl io::Write, bytes: &[u8]) {
    to.write_all(bytes).and_then(|()| to.flush()).ok();
}

/// Ends this process by the signal that ended the task, as far as that can be done.
fn end_by(number: i32) -> i32 {
    signal_hook::low_level::emulate_default_handler(number).ok();
    128 + number
}
