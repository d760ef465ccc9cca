//! What waits to be sent.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Rounds that wait at the most.
const WAITING_MAX: usize = 10;

/// Their bytes together at the most; the newest is kept whatever its size.
const BYTES_MAX: usize = 16 << 20;

/// Rounds that wait, the oldest first. Everything in them is a total or a state as of its time, so
/// where there are too many it is the oldest that goes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<(u64, Bytes)>,
    bytes: usize,
    next: u64,
    dropped: u64,
}

impl Inner {
    fn pop(&mut self) {
        if let Some((_, body)) = self.waiting.pop_front() {
            self.bytes -= body.len();
        }
    }
}

impl Queue {
    /// Adds a round.
    pub(crate) fn put(&self, body: Bytes) {
        let mut inner = self.inner();
        while !inner.waiting.is_empty()
            && (inner.waiting.len() >= WAITING_MAX || inner.bytes + body.len() > BYTES_MAX)
        {
            inner.pop();
            inner.dropped += 1;
        }
        inner.bytes += body.len();
        let number = inner.next;
        inner.next += 1;
        inner.waiting.push_back((number, body));
        self.came.notify_one();
    }

    /// The oldest round and its number; it stays until it is [`Self::done`].
    pub(crate) async fn oldest(&self) -> (u64, Bytes) {
        loop {
            let oldest = self.inner().waiting.front().cloned();
            match oldest {
                Some(oldest) => return oldest,
                None => self.came.notified().await,
            }
        }
    }

    /// Takes a round out, if it is still there.
    pub(crate) fn done(&self, number: u64) {
        let mut inner = self.inner();
        if inner.waiting.front().is_some_and(|(front, _)| *front == number) {
            inner.pop();
        }
    }

    /// How many were dropped since this was last asked.
    pub(crate) fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.inner().dropped)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Queue, WAITING_MAX};
    use bytes::Bytes;

    #[tokio::test]
    async fn it_is_bounded_in_rounds_and_the_oldest_go() {
        let queue = Queue::default();
        for round in 0..WAITING_MAX + 3 {
            queue.put(Bytes::from(round.to_string()));
        }
        let (number, body) = queue.oldest().await;
        assert_eq!((number, &body[..]), (3, &b"3"[..]));
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (3, 0));
        // One that was dropped in the meantime takes no other with it.
        queue.done(2);
        assert_eq!(queue.oldest().await.0, 3);
        queue.done(3);
        assert_eq!(queue.oldest().await.0, 4);
    }

    #[tokio::test]
    async fn it_is_bounded_in_bytes_and_the_newest_stays() {
        let queue = Queue::default();
        queue.put(Bytes::from(vec![b'a'; BYTES_MAX / 2]));
        queue.put(Bytes::from(vec![b'b'; BYTES_MAX / 2]));
        assert_eq!(queue.take_dropped(), 0);
        queue.put(Bytes::from(vec![b'c'; BYTES_MAX + 1]));
        assert_eq!(queue.take_dropped(), 2);
        assert_eq!(queue.oldest().await.1[0], b'c');
    }
}
