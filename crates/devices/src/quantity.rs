//! Kubernetes quantities: `500m`, `2`, `1.5Gi`, `1e3`, exact to a billionth.
//!
//! The grammar is that of `resource.Quantity` in the API reference. What is finer than a billionth
//! is rounded up, as there.

use std::fmt;

/// Billionths in a unit.
const NANO: i128 = 1_000_000_000;

/// Digits of a number at most; longer ones are no amounts of anything.
const DIGITS_MAX: usize = 40;

/// An amount, in billionths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no quantity (write it as 500m, 2, 1.5Gi or 1e3)")]
pub struct BadQuantity(pub String);

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// [`BadQuantity`] where the text is none, or is beyond 2^63 units.
    pub fn parse(text: &str) -> Result<Self, BadQuantity> {
        Self::read(text).ok_or_else(|| BadQuantity(text.chars().take(64).collect()))
    }

    fn read(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = whole.len() + part.len();
        if digits == 0 || digits > DIGITS_MAX || part.contains('.') {
            return None;
        }
        let (factor, divisor) = scale(suffix)?;
        let parse = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse().ok() };
        let of_part = 10i128.checked_pow(u32::try_from(part.len()).ok()?)?;
        let all = i128::checked_mul(parse(whole)?, of_part)?.checked_add(parse(part)?)?;
        let scaled = all.checked_mul(factor)?.checked_mul(NANO)?;
        let divisor = of_part.checked_mul(divisor)?;
        let nanos = scaled / divisor + i128::from(scaled % divisor > 0);
        if nanos / NANO > i128::from(i64::MAX) {
            return None;
        }
        Some(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// Whole units, rounded up; nothing below zero.
    pub fn units(self) -> u64 {
        self.per(NANO)
    }

    /// Thousandths, rounded up; nothing below zero.
    pub fn millis(self) -> u64 {
        self.per(NANO / 1000)
    }

    /// Billionths, exactly.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// So many billionths.
    pub const fn of_nanos(nanos: i128) -> Self {
        Self { nanos }
    }

    fn per(self, nanos: i128) -> u64 {
        let up = self.nanos.max(0) / nanos + i128::from(self.nanos.max(0) % nanos > 0);
        u64::try_from(up).unwrap_or(u64::MAX)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

/// What a suffix multiplies with and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1i128 << (10 * power), 1));
    let decimal = |power: u32| Some((10i128.pow(power), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let power: i32 = digits.strip_prefix('+').unwrap_or(digits).parse().ok()?;
            let size = 10i128.checked_pow(power.unsigned_abs().min(38))?;
            Some(if power < 0 { (1, size) } else { (size, 1) })
        }
    }
}

impl fmt::Display for Quantity {
    /// Whole units, or thousandths with `m`, rounded up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos % NANO == 0 {
            return write!(f, "{}", self.nanos / NANO);
        }
        write!(f, "{}m", self.millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_the_api_reference_says() {
        for (text, millis) in [
            ("500m", 500),
            ("2", 2000),
            ("0.5", 500),
            (".5", 500),
            ("5.", 5000),
            ("+1", 1000),
            ("1e3", 1_000_000),
            ("1E-1", 100),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("3k", 3_000_000),
            ("100u", 1),
            ("1n", 1),
            ("0", 0),
            ("-5", 0),
        ] {
            let read = Quantity::parse(text).expect(text);
            assert_eq!(read.millis(), millis, "{text}");
        }
        assert_eq!(Quantity::parse("1500m").expect("read").units(), 2);
        assert_eq!(Quantity::parse("8Ei"), Err(BadQuantity("8Ei".to_owned())));
        assert!(Quantity::parse("-5").expect("read") < Quantity::default());
    }

    #[test]
    fn what_is_none_is_refused() {
        let long = "9".repeat(99);
        for text in ["", "-", ".", "1.2.3", "1 Gi", "12GB", "1ki", "0x10", "1e", "ten", &long] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
