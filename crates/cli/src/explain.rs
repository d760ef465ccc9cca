//! `muster explain-code`: the docs' page of an error, a warning or a reason.

use muster_model::nearest;
use std::fmt::Write as _;

use crate::say::{Failure, Outcome, tell};

// Every page of docs/errors and docs/reasons by its code; made by build.rs.
include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Prints the page.
pub(crate) fn run(code: &str) -> Outcome {
    match page(code) {
        Some(text) => {
            tell(text);
            Ok(0)
        }
        None => {
            let mut message = format!("there is no code {code} [E_CODE_UNKNOWN]");
            if let Some(near) = nearest(code, PAGES.iter().map(|(name, _)| *name)) {
                let _ = write!(message, "\nhint: did you mean {near}?");
            }
            Err(Failure::new(message))
        }
    }
}

/// The page of a code in any case.
fn page(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| name.eq_ignore_ascii_case(code)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_pages() {
        assert!(page("e_time_bad").is_some_and(|text| text.contains("E_TIME_BAD")));
        assert!(page("RESOURCES").is_some());
        let refused = run("E_TIME_BDA").expect_err("refused");
        assert!(refused.text.contains("did you mean E_TIME_BAD?"), "{}", refused.text);
    }

    #[test]
    fn every_reason_has_its_page() {
        for reason in muster_model::Reason::samples() {
            assert!(page(reason.code()).is_some(), "{}", reason.code());
        }
    }
}
