//! Signals by name or number, and `--signal=[{R|B}:]signal[@seconds]`.
//!
//! Rule: sbatch manual, `--signal`; the numbers are Linux's (signal(7), x86 and ARM).

use muster_model::{Seconds, SignalSpec, SignalTarget};

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;
use muster_model::nearest;

/// Seconds before the end when `@` gives none.
pub const BEFORE_DEFAULT_S: u64 = 60;

/// Most seconds before the end.
pub const BEFORE_MAX_S: u64 = 65_535;

/// Linux's standard signals by number.
const SIGNALS: [(&str, u8); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// Reads a signal: `USR1`, `SIGUSR1` (any case) or a number from 1 to 64.
///
/// # Errors
/// [`Code::SignalBad`] for unknown names and numbers out of range.
pub fn parse_signal(text: &str) -> Result<u8, Problem> {
    if let Some(number) = digits(text) {
        return match u8::try_from(number) {
            Ok(number @ 1..=64) => Ok(number),
            _ => Err(bad(text).hint("signals are numbered from 1 to 64")),
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    Err(match nearest(name, SIGNALS.iter().map(|(known, _)| *known)) {
        Some(near) => bad(text).hint(format!("did you mean {near}?")),
        None => bad(text),
    })
}

/// The name of a signal without `SIG`, or its number.
pub fn print_signal(number: u8) -> String {
    match SIGNALS.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => (*name).to_owned(),
        None => number.to_string(),
    }
}

fn bad(text: &str) -> Problem {
    Problem::new(Code::SignalBad, format!("{} is not a signal", quoted(text)))
}

/// Reads the argument of `--signal`.
///
/// # Errors
/// [`Code::SignalBad`] for unknown flags and signals, and for times above [`BEFORE_MAX_S`].
pub fn parse(text: &str) -> Result<SignalSpec, Problem> {
    let (flags, rest) = match text.split_once(':') {
        Some((flags, rest)) => (flags, rest),
        None => ("", text),
    };
    let (mut target, mut on_reservation) = (SignalTarget::Steps, false);
    for flag in flags.chars() {
        match flag.to_ascii_uppercase() {
            'B' => target = SignalTarget::Batch,
            'R' => on_reservation = true,
            _ => {
                return Err(bad(text).hint("before the colon stand B (batch shell only) or R"));
            }
        }
    }
    if flags.is_empty() && rest.len() < text.len() || flags.len() > 2 {
        return Err(bad(text));
    }
    let (signal, before) = match rest.split_once('@') {
        Some((signal, before)) => (
            signal,
            digits(before).filter(|&before| before <= BEFORE_MAX_S).ok_or_else(|| {
                Problem::new(
                    Code::SignalBad,
                    format!("{} is not a number of seconds up to {BEFORE_MAX_S}", quoted(before)),
                )
            })?,
        ),
        None => (rest, BEFORE_DEFAULT_S),
    };
    Ok(SignalSpec {
        signal: parse_signal(signal)?,
        before: Seconds(before),
        target,
        on_reservation,
    })
}

/// Prints what [`parse`] reads back.
pub fn print(spec: &SignalSpec) -> String {
    let flags = match (spec.on_reservation, spec.target) {
        (false, SignalTarget::Steps) => "",
        (true, SignalTarget::Steps) => "R:",
        (false, SignalTarget::Batch) => "B:",
        (true, SignalTarget::Batch) => "RB:",
    };
    format!("{flags}{}@{}", print_signal(spec.signal), spec.before.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_of_the_manual() {
        for (text, out) in [
            ("USR1", "USR1@60"),
            ("10", "USR1@60"),
            ("SIGUSR1@120", "USR1@120"),
            ("B:usr2@0", "B:USR2@0"),
            ("R:TERM@65535", "R:TERM@65535"),
            ("BR:9", "RB:KILL@60"),
            ("34", "34@60"),
        ] {
            assert_eq!(print(&parse(text).expect(text)), out, "{text}");
        }
        for text in [
            "",
            "USR9",
            "0",
            "65",
            "B:",
            ":USR1",
            "X:USR1",
            "USR1@",
            "USR1@-1",
            "USR1@65536",
            "USR1@1m",
            "BRB:9",
        ] {
            assert_eq!(parse(text).expect_err(text).code, Code::SignalBad, "{text}");
        }
        assert!(parse_signal("TREM").unwrap_err().hints[0].contains("TERM"));
    }

    proptest! {
        #[test]
        fn print_then_parse(signal in 1_u8..=64, before in 0..=BEFORE_MAX_S, batch in any::<bool>(), on_reservation in any::<bool>()) {
            let target = if batch { SignalTarget::Batch } else { SignalTarget::Steps };
            let spec = SignalSpec { signal, before: Seconds(before), target, on_reservation };
            prop_assert_eq!(parse(&print(&spec)), Ok(spec));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}", near in "[RBSIGUSR0-9:@]{0,20}") {
            let _ = parse(&text);
            let _ = parse(&near);
        }
    }
}
