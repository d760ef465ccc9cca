//! `muster config propose`: the best combination of a sweep as a change of the configuration.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_config::Source;
use serde_json::Value;

use crate::say::{Failure, Outcome, note, print};

/// The words of `muster config propose`.
#[derive(Args)]
pub(crate) struct ProposeArgs {
    /// What `muster sim sweep --json` wrote
    sweep: PathBuf,
    /// The configuration to change
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What is to be as low as may be
    #[arg(long, value_enum, default_value_t = Aim::Slowdown)]
    by: Aim,
}

#[derive(Clone, Copy, ValueEnum)]
enum Aim {
    /// The mean bounded slowdown
    Slowdown,
    /// The mean wait
    Wait,
    /// The longest wait
    WorstWait,
}

impl Aim {
    const fn key(self) -> &'static str {
        match self {
            Self::Slowdown => "average_bounded_slowdown",
            Self::Wait => "average_wait_s",
            Self::WorstWait => "max_wait_s",
        }
    }

    /// Where the interval of the difference stands.
    const fn difference(self) -> Option<&'static str> {
        match self {
            Self::Slowdown => Some("/confidence_95/slowdown_less_first"),
            Self::Wait => Some("/confidence_95/wait_less_first_s"),
            Self::WorstWait => None,
        }
    }
}

/// Prints the diff; what speaks for it goes to standard error.
pub(crate) fn run(args: &ProposeArgs) -> Outcome {
    let sweep = &args.sweep;
    let text = std::fs::read_to_string(sweep)
        .map_err(|error| Failure::new(format!("{}: {error}", sweep.display())))?;
    let (best, first) = chosen(&text, args.by).ok_or_else(|| {
        let hint = "hint: muster sim sweep TRACE KEY=V1,V2 --json > FILE makes one";
        Failure::new(format!("{}: this is no sweep\n{hint}", sweep.display()))
    })?;
    let source = Source::find(args.config.as_deref());
    let before = source.text().map_err(|error| Failure::new(error.to_string()))?;
    let edited = muster_config::set(&before.unwrap_or_default(), "policy", &best.settings)
        .map_err(|error| Failure::new(error.to_string()))?;
    let diff = edited.diff(&source.path.display().to_string());
    if diff.is_empty() {
        note("nothing to change: the configuration has the best of what was tried");
        return Ok(0);
    }
    let key = args.by.key();
    note(&format!("{key}: {:.3}, and {:.3} as it is", best.value, first.value));
    match best.difference {
        Some((low, high)) if low > 0.0 || high < 0.0 => note(&format!(
            "in 95 of 100 draws of weeks the difference is between {low:.3} and {high:.3}"
        )),
        Some((low, high)) => note(&format!(
            "warning: the weeks differ by more than this: 95 of 100 draws lie between {low:.3} \
            and {high:.3}"
        )),
        None => note("warning: how sure that is was not measured"),
    }
    print(&diff);
    Ok(0)
}

/// A combination of a sweep.
struct Tried {
    settings: Vec<(String, String)>,
    value: f64,
    difference: Option<(f64, f64)>,
}

/// The best combination and the first one; of equals the earlier.
fn chosen(text: &str, by: Aim) -> Option<(Tried, Tried)> {
    let sweep: Value = serde_json::from_str(text).ok()?;
    let read = |one: &Value| -> Option<Tried> {
        let settings = one.get("settings")?.as_object()?.iter();
        let settings: Option<Vec<_>> =
            settings.map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        let interval = by.difference().and_then(|place| one.pointer(place));
        let bound = |which: &str| interval?.get(which)?.as_f64();
        Some(Tried {
            settings: settings?,
            value: one.get(by.key())?.as_f64()?,
            difference: bound("low").zip(bound("high")),
        })
    };
    let mut best: Option<Tried> = None;
    let mut first = None;
    for one in sweep.get("combinations")?.as_array()? {
        let tried = read(one)?;
        if best.as_ref().is_none_or(|best| tried.value < best.value) {
            best = Some(tried);
        }
        first = first.or_else(|| read(one));
    }
    best.zip(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_by_what_is_asked_for_is_taken() {
        let text = r#"{"combinations": [
            {"settings": {}, "average_bounded_slowdown": 9.0, "average_wait_s": 5.0,
             "max_wait_s": 70, "confidence_95": null},
            {"settings": {"order": "\"slowdown\""}, "average_bounded_slowdown": 4.0,
             "average_wait_s": 6.0, "max_wait_s": 80,
             "confidence_95": {"slowdown_less_first": {"low": -6.0, "high": -4.0}}}]}"#;
        let (best, first) = chosen(text, Aim::Slowdown).unwrap();
        assert_eq!(best.settings, [("order".to_owned(), "\"slowdown\"".to_owned())]);
        assert_eq!((best.difference, first.value), (Some((-6.0, -4.0)), 9.0));
        assert!(chosen(text, Aim::Wait).unwrap().0.settings.is_empty());
        assert!(chosen(text, Aim::WorstWait).unwrap().0.settings.is_empty());
        assert!(chosen("{\"policies\": []}", Aim::Wait).is_none());
    }
}
