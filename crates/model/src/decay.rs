//! Half-lives in integers: the same bits on every machine.
//!
//! Powers are fixed-point numbers at a scale of 2^62 ([`ONE`]); the exponent has 40 bits after the
//! point, so a power is exact to about 10^-12.

/// One, as a power is written: 2^62.
pub const ONE: u64 = 1 << 62;

/// Bits of an exponent after the point.
const FRACTION_BITS: u32 = 40;

/// `2^(-1/2)`, `2^(-1/4)`, … each the square root of the one before.
const ROOTS: [u64; FRACTION_BITS as usize] = roots();

/// `1 / ln 2` at the scale of [`ONE`].
const INVERSE_LN2: u128 = 6_653_256_548_922_161_245;

const fn roots() -> [u64; FRACTION_BITS as usize] {
    let mut table = [0; FRACTION_BITS as usize];
    let mut last = ONE / 2;
    let mut at = 0;
    while at < FRACTION_BITS as usize {
        last = ((last as u128) << 62).isqrt() as u64;
        table[at] = last;
        at += 1;
    }
    table
}

/// `2^-(numerator/denominator)` at the scale of [`ONE`]; zero where the denominator is zero.
///
/// The denominator is at most 2^87.
pub fn half_to(numerator: u128, denominator: u128) -> u64 {
    if denominator == 0 {
        return 0;
    }
    let whole = numerator / denominator;
    if whole > 62 {
        return 0;
    }
    let fraction = ((numerator % denominator) << FRACTION_BITS) / denominator;
    let mut power = u128::from(ONE);
    for (nth, root) in (1..).zip(ROOTS) {
        if fraction >> (FRACTION_BITS - nth) & 1 == 1 {
            power = (power * u128::from(root)) >> 62;
        }
    }
    (power >> whole) as u64
}

/// `amount` after so much of its half-lives; as it was where there is no half-life.
pub fn decayed(amount: u128, elapsed_ms: u64, half_life_ms: Option<u64>) -> u128 {
    let Some(half_life) = half_life_ms.filter(|ms| *ms > 0) else { return amount };
    let power = u128::from(half_to(u128::from(elapsed_ms), u128::from(half_life)));
    // In two halves, so that no product is too large.
    let (high, low) = (amount >> 62, amount & u128::from(ONE - 1));
    (high * power).saturating_add((low * power) >> 62)
}

/// What use at a steady rate of one adds up to over so long a time, each moment decayed to its end:
/// milliseconds, never more than the time itself.
pub fn accrued_ms(elapsed_ms: u64, half_life_ms: Option<u64>) -> u64 {
    let Some(half_life) = half_life_ms.filter(|ms| *ms > 0) else { return elapsed_ms };
    let gone = ONE - half_to(u128::from(elapsed_ms), u128::from(half_life));
    // The integral of 2^-(x/h) is h/ln 2 times what has gone of one.
    let most = (u128::from(half_life) * INVERSE_LN2) >> 42;
    let sum = (most.min(u128::from(u64::MAX)) * u128::from(gone)) >> 82;
    (sum as u64).min(elapsed_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_a_half() {
        assert_eq!(half_to(0, 7), ONE);
        assert_eq!(half_to(7, 7), ONE / 2);
        assert_eq!(half_to(70, 7), ONE >> 10);
        assert_eq!(half_to(1, 0), 0);
        assert_eq!(half_to(700, 7), 0);
        // 2^-0.5 = 0.70710678118654752…
        let close = half_to(1, 2).abs_diff(3_260_954_456_333_195_553);
        assert!(close < 1 << 10, "{close}");
        // 2^-(1/3) squared and times itself again is a half.
        let third = u128::from(half_to(1, 3));
        let half = (((third * third) >> 62) * third) >> 62;
        assert!(half.abs_diff(u128::from(ONE / 2)) < 1 << 24);
    }

    #[test]
    fn use_that_goes_on_adds_up_to_what_its_parts_do() {
        const WEEK: u64 = 7 * 86_400_000;
        // A long time at rate one approaches h / ln 2.
        assert_eq!(accrued_ms(200 * WEEK, Some(WEEK)), 872_541_960);
        assert_eq!(accrued_ms(5000, None), 5000);
        // A short time is hardly decayed at all.
        assert!(accrued_ms(60_000, Some(WEEK)).abs_diff(60_000) <= 3);
        // One day, and then another day: the first decays through the second.
        let day = 86_400_000;
        let both = decayed(u128::from(accrued_ms(day, Some(WEEK))), day, Some(WEEK))
            + u128::from(accrued_ms(day, Some(WEEK)));
        assert!(both.abs_diff(u128::from(accrued_ms(2 * day, Some(WEEK)))) <= 3);
    }
}
