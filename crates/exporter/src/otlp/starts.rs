//! Since when each counter counts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::exposition::Value;

/// When each counter was first seen, or seen to begin anew.
///
/// What /proc, cgroups and drivers count began at a time that they do not tell. The data model has a
/// form for that: the first point begins where it is, and those after it count from there.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    known: HashMap<(&'static str, Arc<str>), Seen>,
    round: u64,
}

#[derive(Debug)]
struct Seen {
    start: u64,
    value: Value,
    round: u64,
}

impl Starts {
    /// The start of a counter that has this value now.
    pub(crate) fn of(
        &mut self,
        name: &'static str,
        labels: &Arc<str>,
        value: Value,
        now: u64,
    ) -> u64 {
        let round = self.round;
        let fresh = || Seen { start: now, value, round };
        let seen = self.known.entry((name, Arc::clone(labels))).or_insert_with(fresh);
        if value.real() < seen.value.real() {
            seen.start = now;
        }
        seen.value = value;
        seen.round = round;
        seen.start
    }

    /// Ends a round: a counter that was not in it is gone, and is another one if it comes back.
    pub(crate) fn end_round(&mut self) {
        let round = self.round;
        self.known.retain(|_, seen| seen.round == round);
        self.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Starts;
    use crate::exposition::Value;
    use std::sync::Arc;

    #[test]
    fn a_counter_that_falls_or_comes_back_begins_anew() {
        let mut starts = Starts::default();
        let labels: Arc<str> = Arc::from("{device=\"sda\"}");
        let mut at = |value: Option<u64>, now| {
            let start = value.map(|value| starts.of("x_total", &labels, Value::Whole(value), now));
            starts.end_round();
            start
        };
        assert_eq!(at(Some(10), 100), Some(100));
        assert_eq!(at(Some(10), 200), Some(100));
        assert_eq!(at(Some(17), 300), Some(100));
        assert_eq!(at(Some(3), 400), Some(400));
        assert_eq!(at(Some(9), 500), Some(400));
        assert_eq!(at(None, 600), None);
        assert_eq!(at(Some(20), 700), Some(700));
    }
}
