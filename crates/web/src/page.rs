//! The files of the page, as they were when this program was built.

use crate::answer::{Answer, bytes, header};
use hyper::StatusCode;

/// A file of the page.
pub(crate) struct File {
    pub(crate) path: &'static str,
    pub(crate) bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// True where Node was there to build the page; else the plain one serves.
pub(crate) fn is_built() -> bool {
    !FILES.is_empty()
}

/// The file at a path; `/` is the page itself.
pub(crate) fn file(path: &str) -> Option<Answer> {
    let path = if path == "/" { "/index.html" } else { path };
    let file = FILES.iter().find(|file| file.path == path)?;
    let mut answer = bytes(StatusCode::OK, kind(path), file.bytes);
    if path.starts_with("/assets/") {
        // Their names tell their content.
        header(answer.headers_mut(), "cache-control", "private, max-age=31536000, immutable");
    }
    Some(answer)
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json" | "webmanifest") => "application/json",
        _ => "application/octet-stream",
    }
}
