//! Exit codes as `code:signal`: `3:0`, `0:9`.
//!
//! Rule: Slurm's job exit code page; a code of -1 shows as 255 (case S-58).

use muster_model::ExitStatus;

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Reads `code:signal`, or `code` alone.
///
/// # Errors
/// [`Code::ExitCodeBad`] unless both are numbers from 0 to 255.
pub fn parse(text: &str) -> Result<ExitStatus, Problem> {
    let (code, signal) = text.split_once(':').unwrap_or((text, "0"));
    let byte = |text: &str| digits(text).and_then(|n| u8::try_from(n).ok());
    match (byte(code), byte(signal)) {
        (Some(code), Some(signal)) => Ok(ExitStatus { code, signal }),
        _ => Err(Problem::new(Code::ExitCodeBad, format!("{} is not an exit code", quoted(text)))
            .hint("write code:signal, for example 1:0 or 0:9")),
    }
}

/// Prints `code:signal`.
pub fn print(status: ExitStatus) -> String {
    format!("{}:{}", status.code, status.signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s58_two_numbers() {
        for (text, code, signal) in [("3:0", 3, 0), ("0:9", 0, 9), ("255:0", 255, 0), ("4", 4, 0)] {
            assert_eq!(parse(text), Ok(ExitStatus { code, signal }));
        }
        assert_eq!(print(ExitStatus { code: 0, signal: 9 }), "0:9");
        for text in ["", ":", "1:", "256:0", "-1:0", "a:b", "1:2:3"] {
            assert_eq!(parse(text).expect_err(text).code, Code::ExitCodeBad);
        }
    }
}
