//! When jobs end: what was seen of them is kept, and a report goes to the webhook.

use super::Watch;
use crate::programs::Programs;
use muster_config::WebAddress;
use muster_control::Handle;
use muster_model::{EventKind, JobId};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Events that are looked at in one go.
const READ_MAX: usize = 1024;

/// How long a quiet thread sleeps at the most.
const QUIET: Duration = Duration::from_hours(1);

/// How long it sleeps while programs run, to see them end.
const BUSY: Duration = Duration::from_secs(1);

/// Starts the thread; it ends with the controller.
///
/// # Errors
/// The thread could not be started.
pub(crate) fn start(
    handle: Handle,
    watch: Arc<Watch>,
    hook: Option<WebAddress>,
) -> std::io::Result<()> {
    let run = move || run(&handle, &watch, hook.as_ref());
    std::thread::Builder::new().name("endings".to_owned()).spawn(run)?;
    Ok(())
}

fn run(handle: &Handle, watch: &Watch, hook: Option<&WebAddress>) {
    let mut events = handle.subscribe();
    let mut programs = Programs::new("webhook");
    loop {
        let timeout = if programs.reap() == 0 { QUIET } else { BUSY };
        match events.wait(READ_MAX, timeout) {
            Ok(Some(new)) => {
                let state = handle.state();
                let ended = new.iter().filter_map(|(_, event)| exited(&event.kind));
                let jobs = ended.filter_map(|id| state.job(id));
                for job in jobs.filter(|job| job.state.is_over()) {
                    watch.finish(job);
                    if let Some(hook) = hook {
                        let report = watch.report(&state, job);
                        post(&mut programs, hook, &report);
                    }
                }
            }
            Ok(None) => return,
            Err(lagged) => {
                tracing::warn!(missed = lagged.missed, "reports of some jobs were not posted");
            }
        }
    }
}

/// The job that ran and does not any more; those that never ran have nothing to report.
fn exited(event: &EventKind) -> Option<JobId> {
    match event {
        EventKind::JobExited { job, .. } => Some(*job),
        _ => None,
    }
}

/// By curl, which knows proxies and certificates. The address may hold a secret: it goes in by
/// standard input, not by the command line, which everybody can read.
fn post(programs: &mut Programs, hook: &WebAddress, report: &muster_api::ReportView) {
    let Ok(json) = serde_json::to_string(report) else { return };
    let mut curl = Command::new("curl");
    curl.args(["--disable", "--config", "-"]);
    programs.hand(curl, &options(hook.as_str(), &json));
}

/// Options as a file of curl has them.
fn options(url: &str, json: &str) -> String {
    let quoted: String = json
        .chars()
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            c => vec![c],
        })
        .collect();
    format!(
        "silent\nfail\nmax-time = 30\nproto = \"=http,https\"\nurl = \"{url}\"\ngloboff\n\
         header = \"content-type: application/json\"\ndata-raw = \"{quoted}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::options;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::Command;

    #[test]
    fn what_is_posted_is_the_json_byte_for_byte() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?key=[a]", listener.local_addr().unwrap());
        let json = r#"{"name":"a \"b\" \\n @x","n":1}"#;
        if Command::new("curl").arg("--version").output().is_err() {
            assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "curl is not installed");
            println!("skipped: curl is not installed");
            return;
        }
        let server = std::thread::spawn(move || received(&listener));
        let mut curl = Command::new("curl");
        curl.args(["--disable", "--config", "-"]);
        let mut programs = crate::programs::Programs::new("test");
        programs.hand(curl, &options(&url, json));
        // It fails by itself where nobody answers.
        programs.wait();
        let (head, body) = server.join().unwrap();
        assert_eq!(head[0], "post /hook?key=[a] http/1.1");
        assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
        assert_eq!(body, json);
    }

    /// The lines of the head of one request, in small letters, and its body.
    fn received(listener: &std::net::TcpListener) -> (Vec<String>, String) {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let (mut head, mut line) = (Vec::<String>::new(), String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            head.push(std::mem::take(&mut line).trim().to_lowercase());
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        (&stream).write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        (head, String::from_utf8(body).unwrap())
    }
}
