//! Talks to the deployed service as any client would.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const READY: Duration = Duration::from_secs(20);
const REPLY: Duration = Duration::from_secs(10);
const LINE: &str = "the skipper steers the boat into the harbour at dusk";

/// Waits until the service says where it is, then asks it.
pub(crate) fn ask(work: &Path) -> Result<(), String> {
    let address = address(work)?;
    println!("\ndeploy is ready on {address}");
    println!("$ curl {address}/healthz\n  {}", request(&address, "GET", "/healthz", "")?);
    let topic = request(&address, "POST", "/classify", LINE)?;
    println!("$ curl -d '{LINE}' {address}/classify\n  {topic}");
    if topic.contains("topic") { Ok(()) } else { Err(format!("the service answered {topic:?}")) }
}

/// The service writes its address beside its checkpoints once it listens.
fn address(work: &Path) -> Result<String, String> {
    let file = work.join("work/service.url");
    let deadline = Instant::now() + READY;
    loop {
        if let Ok(text) = std::fs::read_to_string(&file) {
            return Ok(text.trim().to_owned());
        }
        if Instant::now() > deadline {
            let log = std::fs::read_to_string(work.join("deploy.log")).unwrap_or_default();
            return Err(format!("the service did not become ready: {log}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn request(address: &str, method: &str, path: &str, body: &str) -> Result<String, String> {
    let host = address.trim_start_matches("http://");
    let fail = |error: std::io::Error| format!("{method} {address}{path}: {error}");
    let mut stream = TcpStream::connect(host).map_err(fail)?;
    stream.set_read_timeout(Some(REPLY)).map_err(fail)?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(fail)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).map_err(fail)?;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    if head.split(' ').nth(1) == Some("200") {
        return Ok(body.trim().to_owned());
    }
    Err(format!("{method} {address}{path}: {}", head.lines().next().unwrap_or_default()))
}
