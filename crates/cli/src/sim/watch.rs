//! Long work: how far it is, at a terminal; an interrupt ends it in good order; many at a time.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::say::Failure;

/// How often the line is written anew.
const STEP: Duration = Duration::from_millis(250);

/// What is done and what is to be done, in bytes of traces, and whether to go on.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    read: AtomicU64,
    total: AtomicU64,
    interrupted: Arc<AtomicBool>,
}

/// A file whose bytes are counted as they are read.
pub(super) struct Counted(File, Watch);

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.0.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Watch {
    /// Minds interrupts: the first ends the work after the job at hand, a second one at once.
    pub(super) fn begin() -> Self {
        let watch = Self::default();
        crate::interrupt::sets(&watch.0.interrupted);
        watch
    }

    /// Work of so many bytes is still to come.
    pub(super) fn expect(&self, bytes: u64) {
        self.0.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file that is part of the work.
    pub(super) fn counted(&self, file: File) -> Counted {
        Counted(file, self.clone())
    }

    /// So much of the work is done that is not in a file.
    pub(super) fn passed(&self, amount: u64) {
        self.0.read.fetch_add(amount, Ordering::Relaxed);
    }

    /// An error where somebody interrupted.
    pub(super) fn go_on(&self) -> io::Result<()> {
        match self.0.interrupted.load(Ordering::Relaxed) {
            true => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }

    /// True where somebody interrupted.
    pub(super) fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Relaxed)
    }

    /// Does the work; at a terminal a line says how far it is.
    pub(super) fn show<T>(&self, work: impl FnOnce() -> T) -> T {
        if !io::stderr().is_terminal() {
            return work();
        }
        let over = (Mutex::new(false), Condvar::new());
        thread::scope(|scope| {
            scope.spawn(|| self.show_until(&over));
            let done = work();
            *over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            over.1.notify_all();
            done
        })
    }

    fn show_until(&self, (over, changed): &(Mutex<bool>, Condvar)) {
        let mut is_over = over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            let waited = changed.wait_timeout(is_over, STEP);
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
            let (read, total) =
                (self.0.read.load(Ordering::Relaxed), self.0.total.load(Ordering::Relaxed));
            let mut err = io::stderr().lock();
            let line = if *is_over { String::new() } else { line(read, total) };
            // A terminal that is gone misses nothing.
            let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
        }
    }
}

/// A bar of twenty steps and the per cent.
fn line(read: u64, total: u64) -> String {
    let part = (read.min(total) * 100).checked_div(total).unwrap_or(0);
    let full = (part / 5) as usize;
    format!("[{}{}] {part} %", "#".repeat(full), ".".repeat(20 - full))
}

/// Does so many things, as many at a time as there are processors; the results in order.
pub(super) fn in_parallel<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<T, Failure>)>> = Mutex::new(Vec::with_capacity(count));
    let most = thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let result = work(at);
                    let failed = result.is_err();
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                    if failed {
                        // Nobody begins anything more: the whole has failed.
                        next.fetch_max(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_a_failure_is_told() {
        let all = in_parallel(50, |at| Ok(at * 2)).map_err(|f| f.text);
        assert_eq!(all, Ok((0..50).map(|at| at * 2).collect()));
        let one = |at| if at == 7 { Err(Failure::new("seven")) } else { Ok(at) };
        assert_eq!(in_parallel(50, one).map_err(|f| f.text), Err("seven".to_owned()));
    }

    #[test]
    fn the_bar_fills() {
        assert_eq!(line(0, 0), "[....................] 0 %");
        assert_eq!(line(52, 100), "[##########..........] 52 %");
        assert_eq!(line(900, 100), "[####################] 100 %");
    }
}
