//! Mail about jobs (`--mail-type`, `--mail-user`): what to send is decided in `letters`, the site's
//! mail program sends it.
//!
//! Mail is best effort: it never keeps the writer waiting, and what a slow mail program cannot take
//! in time is dropped with a line in the log.

mod letters;
mod post;

use crate::watch::Watch;
use letters::Letters;
use muster_control::Handle;
use muster_model::Timestamp;
use post::Post;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Events that are looked at in one go.
const READ_MAX: usize = 1024;

/// How long a quiet thread sleeps at the most.
const QUIET: Duration = Duration::from_hours(1);

/// How long it sleeps while mail programs run, to see them end.
const BUSY: Duration = Duration::from_secs(1);

/// Where the mail program usually is (Slurm's `MailProg`).
const USUAL: [&str; 2] = ["/usr/bin/mail", "/bin/mail"];

/// The mail program to use: the configured one, else the usual one where it is there.
pub(crate) fn program(configured: Option<&PathBuf>) -> Option<PathBuf> {
    match configured {
        Some(path) => Some(path.clone()),
        None => USUAL.iter().map(PathBuf::from).find(|path| path.is_file()),
    }
}

/// Starts the thread that sends mail; it ends with the controller.
///
/// # Errors
/// The thread could not be started.
pub(crate) fn start(handle: Handle, watch: Arc<Watch>, program: PathBuf) -> std::io::Result<()> {
    let run = move || run(&handle, &watch, program);
    std::thread::Builder::new().name("mail".to_owned()).spawn(run)?;
    Ok(())
}

fn run(handle: &Handle, watch: &Watch, program: PathBuf) {
    let mut events = handle.subscribe();
    let mut letters = Letters::new(&handle.state());
    let mut post = Post::new(program);
    loop {
        let timeout = match post.reap() {
            0 => letters.next_due().map_or(QUIET, until),
            _ => BUSY,
        };
        match events.wait(READ_MAX, timeout) {
            Ok(Some(new)) => {
                let state = handle.state();
                for (_, event) in &new {
                    letters.see(event, &state);
                }
                letters.look_at_clock(crate::app::App::now(), &state);
            }
            Ok(None) => return,
            Err(lagged) => {
                tracing::warn!(missed = lagged.missed, "mail about some jobs was not sent");
                letters = Letters::new(&handle.state());
            }
        }
        for letter in letters.take() {
            let state = handle.state();
            let job = letter.about.and_then(|id| state.job(id));
            let text = job.map(|job| watch.report(&state, job).text());
            post.send(&letter, &text.unwrap_or_default());
        }
    }
}

fn until(due: Timestamp) -> Duration {
    let ms = due.millis().saturating_sub(crate::app::App::now().millis());
    Duration::from_millis(ms.clamp(10, QUIET.as_millis() as i64) as u64)
}
