//! The further pods of a job: they run what the first one asks for, until it is over.

use crate::error::AgentError;
use crate::wire::{self, Frame, Key, Request, Task};
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// So much is read from a task at a time.
const CHUNK: usize = 64 << 10;

/// Serves until the job is over.
pub(crate) fn serve(orders: &Path) -> Result<i32, AgentError> {
    let key = Arc::new(Key::read(orders).map_err(AgentError::file(orders.join("key")))?);
    let listener = wire::listen().map_err(AgentError::file("the port for other pods"))?;
    loop {
        let (stream, peer) = listener.accept().map_err(AgentError::file("a connection"))?;
        // One that says nothing must not keep others waiting, and whoever leaves ends this process.
        let key = Arc::clone(&key);
        thread::spawn(move || match wire::hear(&stream, &key) {
            Ok(Request::Ping) => {}
            Ok(Request::Leave) => std::process::exit(0),
            Ok(Request::Run(task)) => {
                if let Err(error) = run(&stream, &task) {
                    eprintln!("muster pod: a task of {peer}: {error}");
                }
            }
            Err(error) => eprintln!("muster pod: {peer}: {error}"),
        });
    }
}

/// Runs a task for whoever is at the other end, and ends it when he is gone.
fn run(stream: &TcpStream, task: &Task) -> io::Result<()> {
    let out = Arc::new(Mutex::new(stream.try_clone()?));
    let mut child = match start(task) {
        Ok(child) => child,
        Err(error) => {
            let name = task.argv.first().map_or("", String::as_str);
            let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            tell(&out, &Frame::Error(format!("{name}: {error}\n").into_bytes()))?;
            return tell(&out, &Frame::Exited(code));
        }
    };
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    let pumps = [
        pump(child.stdout.take(), Frame::Output, &out),
        pump(child.stderr.take(), Frame::Error, &out),
    ];
    let (mut from, input) = (stream.try_clone()?, child.stdin.take());
    thread::spawn(move || {
        let mut input = input;
        while let Ok(Some(frame)) = wire::read(&mut from) {
            match frame {
                Frame::Input(bytes) if bytes.is_empty() => input = None,
                // A task that reads no more gets no more.
                Frame::Input(bytes) => {
                    if input.as_mut().is_some_and(|to| to.write_all(&bytes).is_err()) {
                        input = None;
                    }
                }
                Frame::Signal(number) => signal(group, i32::from(number)),
                _ => break,
            }
        }
        signal(group, libc::SIGKILL);
    });
    let status = child.wait()?;
    // What it left behind ends with it.
    signal(group, libc::SIGKILL);
    for pump in pumps.into_iter().flatten() {
        pump.join().ok();
    }
    tell(
        &out,
        &match status.signal() {
            Some(signal) => Frame::Killed(u8::try_from(signal).unwrap_or(u8::MAX)),
            None => Frame::Exited(u8::try_from(status.code().unwrap_or(1)).unwrap_or(u8::MAX)),
        },
    )
}

fn start(task: &Task) -> io::Result<Child> {
    let Some((program, words)) = task.argv.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(words).current_dir(&task.directory);
    command.env_clear().envs(task.environment.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(task.umask));
    command.spawn()
}

/// Passes on what a task writes, to its end.
fn pump(
    from: Option<impl Read + Send + 'static>,
    frame: fn(Vec<u8>) -> Frame,
    to: &Arc<Mutex<TcpStream>>,
) -> Option<thread::JoinHandle<()>> {
    let (mut from, to) = (from?, Arc::clone(to));
    Some(thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut chunk) {
            // Nobody hears it any more: the task is about to be ended.
            if tell(&to, &frame(chunk[..length].to_vec())).is_err() {
                return;
            }
        }
    }))
}

fn tell(to: &Mutex<TcpStream>, frame: &Frame) -> io::Result<()> {
    wire::write(&mut *to.lock().unwrap_or_else(PoisonError::into_inner), frame)
}

fn signal(group: i32, number: i32) {
    if let Ok(signal) = nix::sys::signal::Signal::try_from(number) {
        // A group that is gone needs none.
        nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), signal).ok();
    }
}
