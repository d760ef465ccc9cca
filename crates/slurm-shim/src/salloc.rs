//! `salloc`: an allocation and a shell, or a command, that uses it (salloc manual).

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Process};

use muster_api::Tool;
use muster_api::step::{Event, WireError};
use muster_client::Client;
use muster_model::JobKind;
use muster_slurm_syntax::options::{Command, Opt};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::fail::{Failure, Outcome};
use crate::signals::Signals;
use crate::srun::allocation::Allocation;
use crate::{out, submit};

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let line = submit::split(Command::Salloc, args)?;
    if line.client.version {
        return crate::version();
    }
    if line.client.help || line.client.usage {
        out::print(&muster_slurm_syntax::docs::help(Command::Salloc));
        return Ok(0);
    }
    let quiet = line.client.quiet;
    let no_shell = line.client.step.iter().any(|(opt, _)| *opt == Opt::NoShell);
    let request = submit::request(Tool::Salloc, JobKind::Allocation, &line)?;
    let client = Client::connect().map_err(|error| Failure::client("salloc", &error))?;
    let mut allocation = match Allocation::obtain("salloc", &client, &request, quiet)? {
        Ok(allocation) => allocation,
        Err(code) => return Ok(code),
    };
    let id = allocation.id;
    if no_shell {
        if !quiet {
            out::say(&format!("salloc: Granted job allocation {id}"));
        }
        return Ok(0);
    }
    let held = allocation.hold()?;
    if !quiet {
        out::say(&format!("salloc: Granted job allocation {id}"));
    }
    let command: Vec<String> = match line.script {
        Some(program) => std::iter::once(program).chain(line.arguments).collect(),
        None => vec![shell()],
    };
    // Taken before the child runs, so that its end is never missed.
    let signals = Signals::take(&[SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP])
        .map_err(|error| Failure::error("salloc", &format!("signals: {error}")))?;
    let child = Process::new(&command[0]).args(&command[1..]).envs(held.environment).spawn();
    let child = child.map_err(|error| {
        Failure::error("salloc", &format!("Unable to exec {}: {error}", command[0]))
    })?;
    let code = attend(child, signals, &mut allocation);
    if !quiet {
        out::say(&format!("salloc: Relinquishing job allocation {id}"));
    }
    allocation.release();
    code
}

fn shell() -> String {
    std::env::var("SHELL")
        .ok()
        .filter(|shell| !shell.is_empty())
        .unwrap_or_else(|| "/bin/sh".to_owned())
}

/// Waits for the command's end and says when the job goes away before it.
fn attend(mut child: Child, mut signals: Signals, allocation: &mut Allocation) -> Outcome {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
            }
            Ok(None) => {}
            Err(error) => return Err(Failure::error("salloc", &error.to_string())),
        }
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        if let Some(connection) = &allocation.connection {
            fds.push(PollFd::new(connection.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(Failure::error("salloc", &format!("poll: {errno}"))),
        }
        // Interrupts are the command's to handle: it has the terminal.
        for signal in signals.came() {
            if signal == SIGTERM || signal == SIGHUP {
                let pid = nix::unistd::Pid::from_raw(child.id() as i32);
                let number = nix::sys::signal::Signal::try_from(signal).ok();
                let _ = nix::sys::signal::kill(pid, number);
            }
        }
        if revoked(allocation) {
            out::say(&format!("salloc: Job allocation {} has been revoked.", allocation.id));
            allocation.release();
        }
    }
}

/// True once the job has ended by itself.
fn revoked(allocation: &mut Allocation) -> bool {
    let Some(connection) = &mut allocation.connection else { return false };
    loop {
        match connection.try_recv() {
            Ok(None) => return false,
            Ok(Some(frame)) => {
                if matches!(frame.message.parse::<Event>(), Ok(Event::Ending { .. })) {
                    return true;
                }
            }
            Err(WireError::Closed) => return true,
            Err(_) => return true,
        }
    }
}
