//! What a job wrote, read with the rights of the user who runs this.

use crate::answer::{Answer, Refusal, bytes, header};
use crate::forward;
use hyper::StatusCode;
use muster_api::{JobPage, JobRef};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The most of a file that is read at once, bytes.
const PIECE_MAX: u64 = 256 << 10;

/// How much of its end is shown first, bytes.
const END: u64 = 64 << 10;

/// A piece of a file.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    from: u64,
    size: u64,
    bytes: Vec<u8>,
}

/// `/web/logs/JOB?stream=stderr&from=BYTE`: from there on, or its end.
pub(crate) async fn logs(socket: &Path, job: &str, query: &str) -> Result<Answer, Refusal> {
    let job: JobRef = job.parse().map_err(|error: muster_api::JobRefError| {
        let hint = "a job, or one task of an array";
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "E_JOB_NAME", error.to_string(), hint)
    })?;
    let value = |name: &str| {
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)
    };
    let errors = value("stream").is_some_and(|(_, stream)| stream == "stderr");
    let from = value("from").and_then(|(_, from)| from.parse().ok());
    let page: JobPage = forward::read(socket, &format!("/v1/jobs/{job}")).await?;
    let [view] = &page.jobs[..] else {
        return Err(none("this names several jobs", "name one of them"));
    };
    let path = if errors { &view.stderr_path } else { &view.stdout_path };
    if path.is_empty() {
        return Err(none("there is no output", "what waits writes nothing yet"));
    }
    let path = path.clone();
    let read = tokio::task::spawn_blocking(move || {
        piece(Path::new(&path), from).map_err(|error| none(&format!("{path}: {error}"), "wait"))
    });
    let piece = read.await.map_err(|error| none(&error.to_string(), "ask again"))??;
    // Never as anything that a browser would run.
    let mut answer = bytes(StatusCode::OK, "application/octet-stream", piece.bytes);
    header(answer.headers_mut(), "x-muster-from", &piece.from.to_string());
    header(answer.headers_mut(), "x-muster-size", &piece.size.to_string());
    Ok(answer)
}

/// Reads from a byte on, or the end of a file. One that became shorter is read from its beginning.
fn piece(path: &Path, from: Option<u64>) -> std::io::Result<Piece> {
    /// Opening a pipe that nobody writes to would wait for ever.
    const WITHOUT_WAITING: i32 = 0o4000;
    let mut file = File::options().read(true).custom_flags(WITHOUT_WAITING).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(std::io::Error::other("not a file that can be read again"));
    }
    let size = data.len();
    let from = match from {
        Some(from) if from <= size => from,
        Some(_) => 0,
        None => size.saturating_sub(END),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(PIECE_MAX).read_to_end(&mut bytes)?;
    Ok(Piece { from, size, bytes })
}

fn none(message: &str, hint: &'static str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "E_NO_OUTPUT", message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_on_from_where_the_page_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "one\n").unwrap();
        let first = piece(&path, None).unwrap();
        assert_eq!((first.from, first.size, &first.bytes[..]), (0, 4, &b"one\n"[..]));
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(piece(&path, Some(4)).unwrap().bytes, b"two\n");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(piece(&path, Some(8)).unwrap().bytes, b"x");
    }

    #[test]
    fn of_a_long_file_its_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, vec![b'a'; (END + 10) as usize]).unwrap();
        let piece = piece(&path, None).unwrap();
        assert_eq!((piece.from, piece.bytes.len() as u64), (10, END));
    }

    #[test]
    fn a_directory_is_no_output() {
        assert!(piece(Path::new("/dev/null"), None).is_err());
        assert!(piece(Path::new("/tmp"), None).is_err());
    }
}
