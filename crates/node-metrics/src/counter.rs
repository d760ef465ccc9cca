//! What two readings of a counter say: how far it went, that it began anew, or nothing.
//!
//! A rate needs two readings of the same thing. A counter that is smaller than before has either
//! passed its largest number or begun anew, and only for the first of these is there a rate. A
//! value that the source does not know is `None` everywhere, never zero.

/// How many bits a counter has where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32: it passes its largest number in ordinary use.
    Bits32,
    /// 64, or a width that nobody has written down: it never does, so less than before is a new
    /// beginning.
    Bits64,
}

/// One counter of an object, read twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The earlier reading.
    pub before: Option<u64>,
    /// The later one.
    pub after: Option<u64>,
    /// Its width.
    pub width: Width,
}

impl Pair {
    /// A counter of 64 bits.
    pub fn wide(before: impl Into<Option<u64>>, after: impl Into<Option<u64>>) -> Self {
        Self { before: before.into(), after: after.into(), width: Width::Bits64 }
    }

    /// A counter of 32 bits.
    pub fn narrow(before: impl Into<Option<u64>>, after: impl Into<Option<u64>>) -> Self {
        Self { before: before.into(), after: after.into(), width: Width::Bits32 }
    }

    fn fell(self) -> bool {
        matches!((self.before, self.after), (Some(before), Some(after)) if after < before)
    }

    /// Whether a fall of it can only be a new beginning.
    fn cannot_wrap(self) -> bool {
        let upper_half = self.before.is_some_and(|before| before > u64::from(u32::MAX) / 2);
        self.width == Width::Bits64 || !upper_half || self.before > Some(u64::from(u32::MAX))
    }

    fn change(self, reset: bool) -> Change {
        match (self.before, self.after) {
            (_, None) => Change::Absent,
            (None, Some(_)) => Change::First,
            _ if reset => Change::Reset,
            (Some(before), Some(after)) if after >= before => Change::By(after - before),
            (Some(before), Some(after)) => Change::By((1 << 32) - before + after),
        }
    }
}

/// What two readings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It counted so many, past its largest number where need be.
    By(u64),
    /// It began anew in between: how many it counted is not known.
    Reset,
    /// It was not there before.
    First,
    /// It is not there now.
    Absent,
}

impl Change {
    /// How many it counted, where that is known.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::By(count) => Some(count),
            Self::Reset | Self::First | Self::Absent => None,
        }
    }
}

/// What the counters of *one* object say, which begin anew together.
///
/// A fall is taken as a passing of the largest number only where the counter is narrow, was in the
/// upper half of its range, and none of the others fell that cannot have done so.
pub fn changes<const N: usize>(pairs: [Pair; N]) -> [Change; N] {
    let reset = pairs.iter().any(|pair| pair.fell() && pair.cannot_wrap());
    pairs.map(|pair| pair.change(reset))
}

/// A count over a time; nothing where either is unknown or no time has passed.
pub fn per_second(count: Option<u64>, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| count.map(|count| count as f64 / seconds))?
}

/// One count over another; nothing where either is unknown or the second is none.
pub fn per(count: Option<u64>, of: Option<u64>) -> Option<f64> {
    match (count, of) {
        (Some(count), Some(of)) if of > 0 => Some(count as f64 / of as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Pair, changes, per, per_second};

    fn one(pair: Pair) -> Change {
        changes([pair])[0]
    }

    #[test]
    fn one_reading_is_not_a_rate() {
        assert_eq!(one(Pair::wide(None, 5)), Change::First);
        assert_eq!(one(Pair::wide(5, None)), Change::Absent);
        assert_eq!(one(Pair::wide(5, 5)), Change::By(0));
        assert_eq!(one(Pair::wide(5, 9)).count(), Some(4));
    }

    #[test]
    fn a_wide_counter_that_falls_began_anew() {
        assert_eq!(one(Pair::wide(u64::MAX, 3)), Change::Reset);
        assert_eq!(one(Pair::wide(10, 3)), Change::Reset);
    }

    #[test]
    fn a_narrow_one_wraps_only_from_the_upper_half() {
        assert_eq!(one(Pair::narrow(4_294_967_290, 10)), Change::By(16));
        assert_eq!(one(Pair::narrow(2_000_000_000, 10)), Change::Reset);
        // What was larger than 32 bits can hold is no counter of 32 bits.
        assert_eq!(one(Pair::narrow(1 << 40, 10)), Change::Reset);
    }

    #[test]
    fn a_sibling_that_cannot_wrap_tells_of_a_new_beginning() {
        let wraps = Pair::narrow(4_294_967_290, 10);
        let fell = Pair::wide(1_000, 1);
        let grew = Pair::wide(1_000, 2_000);
        assert_eq!(changes([wraps, fell, grew]), [Change::Reset; 3]);
        assert_eq!(changes([wraps, grew]), [Change::By(16), Change::By(1_000)]);
        // An absent sibling says nothing.
        assert_eq!(changes([wraps, Pair::wide(1_000, None)])[0], Change::By(16));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!(per_second(Some(5), 0.0), None);
        assert_eq!(per_second(None, 2.0), None);
        assert_eq!(per_second(Some(5), 2.0), Some(2.5));
        assert_eq!(per(Some(5), Some(0)), None);
        assert_eq!(per(Some(5), Some(2)), Some(2.5));
    }
}
