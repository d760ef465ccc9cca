//! Writing to the standard streams without falling over a reader that went away.

use std::io::Write;

/// Writes data to standard output. A closed pipe is no error: the reader had enough.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Writes a line for people to standard error.
pub(crate) fn say(line: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(line.as_bytes());
    let _ = err.write_all(b"\n");
}

/// Data and, where it is JSON, the line end after it.
pub(crate) fn print_json(value: &serde_json::Value) {
    print(&format!("{value:#}\n"));
}
