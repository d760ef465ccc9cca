//! The report at the end of a job: on the command line, by mail, by webhook, after a new start.

use crate::place::{Place, job, said, until};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

/// Answers one request and gives its body.
pub(crate) fn one_post(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn a_job_that_ended_is_reported_kept_mailed_and_posted() {
    let place = Place::new();
    let (program, mails) = (place.path("mail"), place.path("mails"));
    let script = format!("#!/bin/sh\n(echo \"$2 to $3\"; cat) >> {}\n", mails.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[daemon]\nmail_program = \"{}\"\nwatch_period = \"1s\"\n\
         report_webhook = \"http://{}/hook\"\n",
        program.display(),
        listener.local_addr().unwrap()
    );
    let file = place.path("muster.toml");
    std::fs::write(&file, config).unwrap();
    let file = file.to_string_lossy().into_owned();
    let words = ["--practice", "2x4", "--config", file.as_str()];
    let daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let options = ["--job-name=train", "--mail-type=END", "--mail-user=mara", "--time=30"];
    place.submit("while [ ! -e go ]; do sleep 0.05; done; exit 3", &options);
    let client = place.client();
    until("it was looked at twice", || {
        let page = client.diagnosis(&job(1)).unwrap();
        (page.jobs[0].samples > 1).then_some(())
    });
    let running = said(&place.muster(&["job", "1", "--report"]));
    assert!(running.contains("job 1 train") && running.contains("): running"), "{running}");
    std::fs::write(place.path("go"), "").unwrap();
    until("it is over", || {
        let over = client.report(&job(1)).unwrap().jobs[0].state.is_over();
        over.then_some(())
    });
    let ended = client.report(&job(1)).unwrap().jobs.remove(0);
    assert_eq!((ended.exit_code, ended.cpus > 0, ended.watched_s > 0), (3, true, true));
    assert_eq!(ended.diagnosis.as_ref().unwrap().verdict, "too_short");
    let text = said(&place.muster(&["job", "1", "--report"]));
    assert!(text.contains("failed, exit code 3\n  run time"), "{text}");
    assert!(text.contains("billing hours\n  finding"), "{text}");

    let posted: serde_json::Value = serde_json::from_str(&one_post(&listener)).unwrap();
    assert_eq!((&posted["id"], &posted["exit_code"]), (&1.into(), &3.into()));
    assert_eq!(posted["watched_s"], ended.watched_s);
    let mail = until("the mail is there", || {
        std::fs::read_to_string(&mails).ok().filter(|mail| mail.contains("finding"))
    });
    assert!(mail.starts_with("Slurm Job_id=1 Name=train Ended, "), "{mail}");
    assert!(mail.contains(" to mara\njob 1 train (") && mail.contains("  run time"), "{mail}");

    drop(client);
    daemon.stop();
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    assert_eq!(place.client().report(&job(1)).unwrap().jobs, [ended]);
    let unknown = place.muster(&["job", "77", "--report"]);
    assert!(said(&unknown).contains("[E_JOB_UNKNOWN]"), "{}", said(&unknown));
}
