//! Orders to an attempt that runs, from a process that was started in its pod for that.

use crate::error::AgentError;
use muster_engine::{Engine, EngineError, Order};
use muster_engine_local::LocalEngine;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The socket's name in the state directory.
const SOCKET: &str = "orders";

/// An order is not longer.
const BYTES_MAX: u64 = 4096;

/// Whoever gives or takes an order does so within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What has not begun is tried again after so long.
const AGAIN: Duration = Duration::from_millis(20);

/// The answer to an order that was carried out.
const DONE: &str = "done";

/// Opens the mailbox: what comes from now on is kept.
pub(crate) fn open(state: &Path) -> Result<UnixListener, AgentError> {
    let path = state.join(SOCKET);
    UnixListener::bind(&path).map_err(AgentError::file(&path))
}

/// Takes orders as long as the process lives.
pub(crate) fn take_orders(listener: UnixListener, engine: Arc<LocalEngine>) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One that breaks off gives no order.
            serve(stream, &engine).ok();
        }
    });
}

fn serve(mut stream: UnixStream, engine: &LocalEngine) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    (&stream).take(BYTES_MAX).read_to_string(&mut text)?;
    let answer = match serde_json::from_str(&text) {
        Ok(order) => carry_out(&order, engine),
        Err(error) => format!("no order: {error}"),
    };
    stream.write_all(answer.as_bytes())
}

fn carry_out(order: &Order, engine: &LocalEngine) -> String {
    if !matches!(order, Order::Signal { .. } | Order::Suspend { .. } | Order::Limit { .. }) {
        return "no order for an attempt that runs".to_owned();
    }
    // The script may be about to begin.
    let done = again(|| match engine.execute(1, order) {
        Err(error @ EngineError::Unreachable { .. }) => Err(error),
        done => Ok(done),
    });
    match done {
        Ok(Ok(())) => DONE.to_owned(),
        Ok(Err(error)) | Err(error) => error.to_string(),
    }
}

/// Tries until it goes well, or the last error once there was time enough.
fn again<T, E>(mut what: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let until = Instant::now() + PATIENCE / 2;
    loop {
        match what() {
            Err(_) if Instant::now() < until => std::thread::sleep(AGAIN),
            done => return done,
        }
    }
}

/// Gives an order to the attempt of this pod.
pub(crate) fn send(state: &Path, order: &str) -> Result<(), AgentError> {
    let path = state.join(SOCKET);
    let asked = || -> std::io::Result<String> {
        // Muster in the pod may be about to begin.
        let mut stream = again(|| UnixStream::connect(&path))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(order.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.take(BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    };
    match asked().map_err(AgentError::file(&path))?.as_str() {
        DONE => Ok(()),
        other => Err(AgentError::Order(other.to_owned())),
    }
}
