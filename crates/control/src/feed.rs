//! Changes as they are stored, for any number of readers, none of which the writer waits for.

use muster_model::Event;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many of the newest events are kept for readers.
pub const FEED_MAX: usize = 16_384;

/// An event with its number.
pub type Numbered = (u64, Arc<Event>);

type Waker = Arc<dyn Fn(u64) + Send + Sync>;

/// The newest events. Readers keep their own place in it.
#[derive(Default)]
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    grown: Condvar,
}

#[derive(Default)]
struct Ring {
    /// The number of the newest event that was ever stored.
    last: u64,
    events: VecDeque<Numbered>,
    wakers: Vec<Waker>,
    closed: bool,
}

/// Events were dropped before this reader came to them: it has to read the state anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{missed} events passed before they were read; read the state anew and go on after event {resume}"
)]
pub struct Lagged {
    /// How many.
    pub missed: u64,
    /// Go on after this one.
    pub resume: u64,
}

/// A reader's place in the events.
#[derive(Clone)]
pub struct Subscription {
    feed: Arc<Feed>,
    after: u64,
}

impl Feed {
    pub(crate) fn starting_after(last: u64) -> Self {
        let feed = Self::default();
        feed.lock().last = last;
        feed
    }

    pub(crate) fn push(&self, events: impl IntoIterator<Item = Numbered>) {
        let (last, wakers) = {
            let mut ring = self.lock();
            for (seq, event) in events {
                ring.last = seq;
                ring.events.push_back((seq, event));
            }
            while ring.events.len() > FEED_MAX {
                ring.events.pop_front();
            }
            (ring.last, ring.wakers.clone())
        };
        self.grown.notify_all();
        for wake in wakers {
            wake(last);
        }
    }

    pub(crate) fn close(&self) {
        let (last, wakers) = {
            let mut ring = self.lock();
            ring.closed = true;
            (ring.last, std::mem::take(&mut ring.wakers))
        };
        self.grown.notify_all();
        for wake in wakers {
            wake(last);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn on_change(&self, wake: Waker) {
        self.lock().wakers.push(wake);
    }

    pub(crate) fn subscribe(self: &Arc<Self>, after: Option<u64>) -> Subscription {
        let after = after.unwrap_or_else(|| self.lock().last);
        Subscription { feed: Arc::clone(self), after }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn read(&self, after: u64, limit: usize) -> Result<Vec<Numbered>, Lagged> {
        if after >= self.last {
            return Ok(Vec::new());
        }
        let oldest = self.events.front().map_or(self.last + 1, |e| e.0);
        if after + 1 < oldest {
            return Err(Lagged { missed: oldest - 1 - after, resume: self.last });
        }
        let skip = (after + 1 - oldest) as usize;
        Ok(self.events.iter().skip(skip).take(limit).cloned().collect())
    }
}

impl Subscription {
    /// The number of the last event that was read.
    pub const fn position(&self) -> u64 {
        self.after
    }

    /// What came since the last call, at most `limit` events; empty where nothing did.
    ///
    /// # Errors
    /// [`Lagged`] where the reader was too slow; the next call goes on with what comes after.
    pub fn try_next(&mut self, limit: usize) -> Result<Vec<Numbered>, Lagged> {
        let read = self.feed.lock().read(self.after, limit);
        self.settle(read)
    }

    /// As [`Subscription::try_next`], but waits up to `timeout` for something. `None` once the
    /// controller has stopped and everything was read.
    ///
    /// # Errors
    /// See there.
    pub fn wait(
        &mut self,
        limit: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<Numbered>>, Lagged> {
        let deadline = Instant::now() + timeout;
        let feed = Arc::clone(&self.feed);
        let mut ring = feed.lock();
        loop {
            if ring.last > self.after {
                let read = ring.read(self.after, limit);
                drop(ring);
                return self.settle(read).map(Some);
            }
            if ring.closed {
                return Ok(None);
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(Some(Vec::new()));
            };
            ring = feed.grown.wait_timeout(ring, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn settle(&mut self, read: Result<Vec<Numbered>, Lagged>) -> Result<Vec<Numbered>, Lagged> {
        match &read {
            Ok(events) => self.after = events.last().map_or(self.after, |e| e.0),
            Err(lagged) => self.after = lagged.resume,
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{EventKind, Timestamp};

    fn numbered(from: u64, to: u64) -> Vec<Numbered> {
        let event = Arc::new(Event { at: Timestamp::default(), kind: EventKind::Round });
        (from..=to).map(|seq| (seq, Arc::clone(&event))).collect()
    }

    #[test]
    fn a_reader_gets_every_event_once_and_in_order() {
        let feed = Arc::new(Feed::starting_after(10));
        let mut reader = feed.subscribe(None);
        feed.push(numbered(11, 15));
        let first: Vec<u64> = reader.try_next(2).unwrap().iter().map(|e| e.0).collect();
        let rest: Vec<u64> = reader.try_next(9).unwrap().iter().map(|e| e.0).collect();
        assert_eq!((first, rest), (vec![11, 12], vec![13, 14, 15]));
        assert!(reader.try_next(9).unwrap().is_empty());
    }

    #[test]
    fn a_slow_reader_is_told_how_much_it_missed() {
        let feed = Arc::new(Feed::starting_after(0));
        let mut reader = feed.subscribe(Some(0));
        let end = FEED_MAX as u64 + 5;
        feed.push(numbered(1, end));
        assert_eq!(reader.try_next(9), Err(Lagged { missed: 5, resume: end }));
        assert!(reader.try_next(9).unwrap().is_empty());
    }

    #[test]
    fn a_closed_feed_ends_its_readers() {
        let feed = Arc::new(Feed::starting_after(0));
        let mut reader = feed.subscribe(None);
        feed.close();
        assert_eq!(reader.wait(9, Duration::from_mins(1)), Ok(None));
    }
}
