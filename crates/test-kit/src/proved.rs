//! A failing case told as a scenario.

use crate::lab::Lab;
use proptest::test_runner::TestCaseError;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Tries a property on a lab. Where it fails or panics, the failure ends with what was done to the
/// lab as a scenario, up to the round that fails: `muster sim scenario FILE` runs it again.
///
/// # Errors
/// The property's own, with the scenario.
pub fn proved(
    lab: &mut Lab,
    property: impl FnOnce(&mut Lab) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    match catch_unwind(AssertUnwindSafe(|| property(lab))) {
        Ok(Err(TestCaseError::Fail(why))) => Err(TestCaseError::fail(told(why.message(), lab))),
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            match text.or_else(|| panic.downcast_ref::<&str>().copied()) {
                Some(why) => Err(TestCaseError::fail(told(why, lab))),
                None => resume_unwind(panic),
            }
        }
    }
}

fn told(why: &str, lab: &Lab) -> String {
    format!("{why}\n\nAs a scenario:\n\n{}> plan\n", lab.script())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_failure_ends_with_its_scenario() {
        let mut lab = Lab::new("node n1 cpus=4");
        let failed = proved(&mut lab, |lab| {
            lab.submit("j cpus=2 time=10");
            prop_assert!(lab.state.jobs.is_empty(), "there is a job");
            Ok(())
        });
        let told = failed.unwrap_err().to_string();
        let script = "> node n1 cpus=4\n> submit j cpus=2 time=10\n  job 1 j\n> plan\n";
        assert!(told.contains("there is a job") && told.ends_with(script), "{told}");

        let panicked = proved(&mut lab, |_| panic!("out of {}", "range"));
        let told = panicked.unwrap_err().to_string();
        assert!(told.contains("out of range") && told.ends_with(script), "{told}");
    }
}
