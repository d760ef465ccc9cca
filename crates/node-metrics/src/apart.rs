//! Questions that may never be answered.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A question that may never be answered (a filesystem whose server is gone), asked in a thread of
/// its own: nobody waits for it for long, and it is not asked again before it answers.
pub struct Apart<T> {
    ask: Sender<()>,
    answers: Receiver<Option<T>>,
    asked: bool,
    late: bool,
}

impl<T: Send + 'static> Apart<T> {
    /// Starts the thread; it asks by `read` whenever it is told to.
    pub fn new(mut read: impl FnMut() -> Option<T> + Send + 'static) -> Self {
        let ((ask, asked), (send, answers)) = (channel(), channel());
        // It ends with the one who asks, or when a question that hangs comes back after that.
        std::thread::spawn(move || while asked.recv().is_ok() && send.send(read()).is_ok() {});
        Self { ask, answers, asked: false, late: false }
    }

    /// Asks, where the question before is answered.
    pub fn ask(&mut self) {
        self.late = self.asked;
        self.asked = self.asked || self.ask.send(()).is_ok();
    }

    /// What it says until then; who was late before is not waited for again.
    pub fn answer(&mut self, end: Instant) -> Option<T> {
        let left = end.saturating_duration_since(Instant::now());
        self.wait(if self.late { Duration::ZERO } else { left })
    }

    /// Asks and waits so long, also for who was late before.
    pub fn get(&mut self, patience: Duration) -> Option<T> {
        self.ask();
        self.wait(patience)
    }

    fn wait(&mut self, patience: Duration) -> Option<T> {
        let answer = self.answers.recv_timeout(patience).ok()?;
        self.asked = false;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::Apart;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn one_that_hangs_is_asked_once_and_waited_for_once() {
        let (answer, hangs) = channel::<u64>();
        let (tell, told) = channel();
        let mut apart = Apart::new(move || {
            tell.send(()).ok()?;
            hangs.recv().ok()
        });
        for _ in 0..3 {
            apart.ask();
            assert_eq!(apart.answer(Instant::now() + Duration::from_millis(1)), None);
        }
        answer.send(7).expect("it waits");
        told.recv().expect("asked");
        // It is back: what it says is taken where it has come.
        let end = Instant::now() + Duration::from_mins(1);
        let found = loop {
            if let Some(found) = apart.answer(end) {
                break found;
            }
            assert!(Instant::now() < end);
        };
        assert_eq!(found, 7);
        assert!(told.try_recv().is_err(), "it was asked again");
    }

    #[test]
    fn a_filesystem_that_hangs_is_asked_once_and_waited_for_no_longer() {
        let (answer, hangs) = channel::<f64>();
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let mut space = Apart::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            hangs.recv().ok()
        });
        for _ in 0..3 {
            assert_eq!(space.get(Duration::from_millis(1)), None);
        }
        answer.send(0.5).unwrap();
        assert_eq!(space.get(Duration::from_mins(1)), Some(0.5));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // It is back.
        answer.send(0.25).unwrap();
        assert_eq!(space.get(Duration::from_mins(1)), Some(0.25));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
