//! `muster logs`: what a job wrote, read as the user who asks.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use muster_api::{JobRef, JobView, WaitResponse};
use muster_client::{Client, ClientError};

use crate::act;
use crate::args::LogsArgs;
use crate::say::{Failure, Outcome, note};

/// How often a growing file is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn run(args: &LogsArgs) -> Outcome {
    let job = act::job(&args.job)?;
    let client = Client::connect()?;
    let page = client.job(&job)?;
    let views: Vec<&JobView> = page.jobs.iter().collect();
    let [view] = views[..] else {
        let names: Vec<&str> = views.iter().map(|view| view.row.job.as_str()).collect();
        return Err(Failure::new(format!(
            "{} has several outputs [E_JOB_SEVERAL]\nhint: name one of them: {}",
            args.job,
            names.join(", ")
        )));
    };
    let path = if args.error { &view.stderr_path } else { &view.stdout_path };
    if path.is_empty() {
        return Err(Failure::new(format!(
            "job {} has no output yet [E_NO_OUTPUT]\nhint: muster why {}",
            args.job, args.job
        )));
    }
    let mut tail = Tail::new(PathBuf::from(path));
    if !args.follow {
        return match tail.copy(&mut std::io::stdout()) {
            Ok(_) => Ok(0),
            // A reader that has enough (`| head`) is no failure.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(0),
            Err(error) => Err(Failure::new(format!("{path}: {error} [E_NO_OUTPUT]"))),
        };
    }
    if view.row.started_ms.is_none() {
        note(&format!("job {} has not started yet; its output will be {path}", args.job));
    }
    let end = watch(client, job);
    let gone = || Err(Failure { code: 0, text: String::new() });
    follow(&mut [(&mut tail, &mut std::io::stdout())], &end, &mut || Ok(()), &gone)?;
    Ok(0)
}

/// Waits for a job's end beside the caller.
pub(crate) fn watch(client: Client, job: JobRef) -> Receiver<Result<WaitResponse, ClientError>> {
    let (send, receive) = channel();
    // The client is not shared between threads: it makes a connection of its own over there.
    let socket = client.socket().to_owned();
    drop(client);
    std::thread::spawn(move || {
        let over = Client::connect_to(&socket).and_then(|client| client.wait_over(&job));
        // The caller may be gone.
        let _ = send.send(over);
    });
    receive
}

/// Copies growing files until the job is over, and what is left of them then. `beside` is called
/// again and again, `gone` where nobody reads what is shown any more.
pub(crate) fn follow(
    files: &mut [(&mut Tail, &mut dyn Write)],
    end: &Receiver<Result<WaitResponse, ClientError>>,
    beside: &mut dyn FnMut() -> Result<(), Failure>,
    gone: &dyn Fn() -> Result<(), Failure>,
) -> Result<WaitResponse, Failure> {
    loop {
        beside()?;
        let over = match end.recv_timeout(LOOK) {
            Ok(over) => Some(over?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the wait for the job's end broke off"));
            }
        };
        for (tail, to) in files.iter_mut() {
            // A file that is not there yet has nothing to show.
            let copied = tail.copy(*to);
            if copied.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
                gone()?;
            }
        }
        if let Some(answer) = over {
            return Ok(answer);
        }
    }
}

/// A file that grows, and how much of it was shown.
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
}

impl Tail {
    /// A file that may not be there yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Copies what has come since the last time; returns how many bytes.
    pub(crate) fn copy(&mut self, to: &mut dyn Write) -> std::io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path)?),
        };
        let mut bytes = vec![0; 64 << 10];
        let mut copied = 0;
        loop {
            let count = file.read(&mut bytes)?;
            if count == 0 {
                return Ok(copied);
            }
            to.write_all(&bytes[..count])?;
            to.flush()?;
            copied += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_as_it_grows() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("out");
        let mut tail = Tail::new(path.clone());
        let mut shown = Vec::new();
        assert!(tail.copy(&mut shown).is_err());
        std::fs::write(&path, "one\n").expect("written");
        tail.copy(&mut shown).expect("copied");
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("open");
        file.write_all(b"two\n").expect("written");
        tail.copy(&mut shown).expect("copied");
        assert_eq!(shown, b"one\ntwo\n");
    }
}
