//! Parts of GPUs: shares, MIG profiles, isolation classes.
//!
//! Rules: the GRES page on sharing (`shard`, `mps`); for muster's own words
//! `muster_model::sharing`. A share is written `0.5`, `.25` or `50%`, to the thousandth.

use muster_model::{DeviceMilli, GpuShare, Isolation};

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Reads a share of a GPU: more than nothing, at most the whole.
///
/// # Errors
/// [`Code::ValueBad`] for what is no such share, or finer than a thousandth.
pub fn parse_share(text: &str) -> Result<DeviceMilli, Problem> {
    let bad = |what: &str| {
        Problem::new(Code::ValueBad, format!("{} {what}", quoted(text)))
            .hint("write a share such as 0.5 or 25%, in thousandths of a GPU")
    };
    let (number, places) = match text.strip_suffix('%') {
        Some(number) => (number, 1),
        None => (text, 3),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let plain = |t: &str| t.is_empty() || digits(t).is_some();
    if number.is_empty() || number == "." || !plain(whole) || !plain(part) {
        return Err(bad("is no share of a GPU"));
    }
    let fraction = part.trim_end_matches('0');
    if fraction.len() > places {
        return Err(bad("is finer than a thousandth of a GPU"));
    }
    let scale = 10_u64.pow(places as u32);
    let whole = digits(whole).unwrap_or(0).saturating_mul(scale);
    let fraction = digits(&format!("{fraction:0<places$}")).unwrap_or(0);
    match whole.saturating_add(fraction) {
        0 => Err(bad("is no part of a GPU at all")),
        milli if milli > 1000 => Err(bad("is more than one GPU")),
        milli => Ok(DeviceMilli(milli as u32)),
    }
}

/// Prints a share as [`parse_share`] takes it.
pub fn print_share(share: DeviceMilli) -> String {
    let DeviceMilli(milli) = share;
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Reads an isolation class.
///
/// # Errors
/// [`Code::ValueBad`] for other words.
pub fn parse_isolation(text: &str) -> Result<Isolation, Problem> {
    text.parse().map_err(|_| {
        Problem::new(Code::ValueBad, format!("{} is no class of isolation", quoted(text)))
            .hint("write none, time-slice, mps or mig")
    })
}

/// Reads a MIG profile.
///
/// # Errors
/// [`Code::ValueBad`] for what is not of the form `1g.10gb`.
pub fn parse_profile(text: &str) -> Result<String, Problem> {
    if muster_model::mig::is_profile(text) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(Problem::new(Code::ValueBad, format!("{} is no MIG profile", quoted(text)))
        .hint("write a profile such as 1g.10gb, as nvidia-smi mig -lgip lists them"))
}

/// True for `--gres=shard:N` and `--gres=mps:N`, which ask for pieces of a GPU.
pub(crate) fn is_pieces(name: &str) -> bool {
    matches!(name, "shard" | "mps")
}

/// The isolation that such a name brings.
pub(crate) fn isolation_of(name: &str) -> Option<Isolation> {
    (name == "mps").then_some(Isolation::Mps)
}

/// A share in words: `0.5` or `3 pieces`.
pub fn share_words(share: GpuShare) -> String {
    match share {
        GpuShare::Milli(milli) => print_share(milli),
        GpuShare::Pieces(1) => "1 piece".to_owned(),
        GpuShare::Pieces(n) => format!("{n} pieces"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn c26_bad_shares_are_refused_at_the_door() {
        for text in [
            "NaN",
            "Inf",
            "0",
            "-0.5",
            "1.5",
            "abc",
            "0.3333333",
            "1e-9",
            "",
            ".",
            "%",
            "0.0",
            "101%",
            "33.33%",
            "9223372036854775807",
            "+0.5",
            "0.5.5",
        ] {
            assert_eq!(parse_share(text).expect_err(text).code, Code::ValueBad, "{text}");
        }
        for (text, milli) in
            [("0.5", 500), (".25", 250), ("50%", 500), ("1", 1000), ("12.5%", 125), ("0.3330", 333)]
        {
            assert_eq!(parse_share(text).expect(text), DeviceMilli(milli), "{text}");
        }
    }

    #[test]
    fn profiles_are_named_as_the_driver_names_them() {
        assert_eq!(parse_profile("1G.10GB+ME").as_deref(), Ok("1g.10gb+me"));
        assert!(parse_profile("a100").is_err());
        assert!(parse_isolation("mps").is_ok() && parse_isolation("soft").is_err());
    }

    proptest! {
        #[test]
        fn print_then_parse(milli in 1_u32..=1000) {
            prop_assert_eq!(parse_share(&print_share(DeviceMilli(milli))), Ok(DeviceMilli(milli)));
        }

        #[test]
        fn never_panics(text in "\\PC{0,20}", near in "[0-9.%e+-]{0,12}") {
            let _ = parse_share(&text);
            let _ = parse_share(&near);
            let _ = parse_profile(&text);
        }
    }
}
