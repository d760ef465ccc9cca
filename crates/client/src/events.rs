//! The daemon's changes as they come.

use crate::connection::Sender;
use crate::{Client, ClientError};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use muster_api::EventView;
use std::collections::VecDeque;
use std::time::Duration;

/// The longest single event that is taken, bytes.
const EVENT_MAX: usize = 64 * 1024 * 1024;

/// A stream of events; ends when the daemon goes away.
pub struct Events<'a> {
    client: &'a Client,
    // Dropping it would end the connection.
    _sender: Sender,
    body: Incoming,
    parser: Parser,
}

impl<'a> Events<'a> {
    pub(crate) fn open(client: &'a Client, path: &str) -> Result<Self, ClientError> {
        let (sender, response) = client.stream(path)?;
        let body = response.into_body();
        Ok(Self { client, _sender: sender, body, parser: Parser::default() })
    }

    /// The next event, waiting at most so long; `None` where none came in time.
    ///
    /// # Errors
    /// The daemon went away, or an event cannot be read.
    pub fn next_within(&mut self, wait: Duration) -> Result<Option<EventView>, ClientError> {
        let parser = &mut self.parser;
        let body = &mut self.body;
        let next = async {
            loop {
                if let Some(event) = parser.next()? {
                    return Ok(event);
                }
                let frame = body.frame().await.ok_or_else(|| gone("the stream ended"))?;
                let frame = frame.map_err(gone)?;
                if let Ok(data) = frame.into_data() {
                    parser.push(&data)?;
                }
            }
        };
        // The timer has to be made inside the runtime.
        match self.client.block_on(async { tokio::time::timeout(wait, next).await }) {
            Ok(event) => event.map(Some),
            Err(_) => Ok(None),
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<EventView, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        const LONG: Duration = Duration::from_hours(1);
        loop {
            match self.next_within(LONG) {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn gone(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
    ClientError::Lost { what: "GET /v1/events".to_owned(), source: source.into() }
}

/// Cuts a stream of server-sent events into their data (HTML standard, section 9.2.6).
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    name: String,
    data: String,
    ready: VecDeque<(String, String)>,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches('\r');
            if text.is_empty() {
                if !self.data.is_empty() {
                    let event = (self.name.clone(), std::mem::take(&mut self.data));
                    self.ready.push_back(event);
                }
                self.name.clear();
            } else if let Some(data) = text.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            } else if let Some(name) = text.strip_prefix("event:") {
                name.trim().clone_into(&mut self.name);
            }
        }
        if self.line.len() + self.data.len() > EVENT_MAX {
            return Err(bad("an event is too long".to_owned()));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<EventView>, ClientError> {
        let Some((name, text)) = self.ready.pop_front() else { return Ok(None) };
        if name == "lagged" {
            return Err(ClientError::Lagged { what: text });
        }
        serde_json::from_str(&text).map(Some).map_err(|error| bad(error.to_string()))
    }
}

fn bad(why: String) -> ClientError {
    ClientError::BadAnswer { what: "GET /v1/events".to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let stream =
            ": hello\n\nid: 1\ndata: {\"seq\":1,\"at_ms\":0,\"data\":{\"event\":\"round\"}}\n\n";
        let mut parser = Parser::default();
        for byte in stream.bytes() {
            parser.push(&[byte]).unwrap();
        }
        assert_eq!(parser.next().unwrap().unwrap().seq, 1);
        assert!(parser.next().unwrap().is_none());
    }
}
