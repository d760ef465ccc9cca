//! From signals to findings.

use std::collections::BTreeSet;

use crate::rules::{Condition, RULES, Rule};
use crate::sample::Sample;
use crate::signals::{Signal, Signals};

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Something that belongs to it could not be looked at.
    Likely,
    /// Everything that belongs to it was looked at.
    Sure,
}

/// One thing that holds the job back.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Which rule.
    pub rule: &'static str,
    /// One sentence.
    pub title: &'static str,
    /// How sure.
    pub confidence: Confidence,
    /// The numbers that it rests on.
    pub evidence: Vec<(Signal, f64)>,
    /// What to do.
    pub remedy: &'static str,
}

/// The answer as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There are findings.
    Found,
    /// Everything could be looked at, and nothing is wrong.
    Fine,
    /// Nothing was found, but what is missing could hide something.
    CannotTell,
    /// The window is too short.
    TooShort,
}

/// What holds a job back, as far as can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The answer as a whole.
    pub verdict: Verdict,
    /// What was found, the surest first.
    pub findings: Vec<Finding>,
    /// What was not known and would have been needed.
    pub missing: Vec<Signal>,
}

/// Looks at a window of samples, the oldest first.
pub fn diagnose(samples: &[Sample]) -> Report {
    let Some(signals) = Signals::of(samples) else {
        return Report { verdict: Verdict::TooShort, findings: Vec::new(), missing: Vec::new() };
    };
    let mut missing = BTreeSet::new();
    let mut findings: Vec<Finding> = Vec::new();
    let mut replaced: BTreeSet<&str> = BTreeSet::new();
    let has_gpus = signals.get(Signal::Gpus).is_some_and(|count| count > 0.0);
    for rule in RULES.iter().filter(|rule| has_gpus || !is_about_gpus(rule)) {
        match rule.look(&signals) {
            Look::Found(finding) if !replaced.contains(rule.code) => {
                replaced.extend(rule.replaces);
                findings.push(finding);
            }
            Look::Found(_) | Look::Not => {}
            Look::Unknown(signals) => missing.extend(signals),
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.confidence));
    let verdict = match (findings.is_empty(), blinds(&missing)) {
        (false, _) => Verdict::Found,
        (true, true) => Verdict::CannotTell,
        (true, false) => Verdict::Fine,
    };
    Report { verdict, findings, missing: missing.into_iter().collect() }
}

/// Without these, "nothing wrong" would be a guess; others make a finding more exact only.
fn blinds(missing: &BTreeSet<Signal>) -> bool {
    [Signal::GpuBusy, Signal::IoStalled, Signal::CpuWaiting, Signal::MemoryUse]
        .iter()
        .any(|signal| missing.contains(signal))
}

fn is_about_gpus(rule: &Rule) -> bool {
    let about = |condition: &Condition| {
        matches!(
            condition.signal,
            Signal::Gpus
                | Signal::GpuBusy
                | Signal::GpuMost
                | Signal::GpuSpread
                | Signal::Heat
                | Signal::Power
                | Signal::FromHost
        )
    };
    rule.all.iter().any(about)
}

enum Look {
    Found(Finding),
    Not,
    Unknown(Vec<Signal>),
}

impl Rule {
    fn look(&self, signals: &Signals) -> Look {
        let holds = |condition: &Condition| condition.holds(signals);
        // What is known and does not hold settles it, whatever else is missing.
        let ruled_out = self.all.iter().any(|condition| holds(condition) == Some(false))
            || self.any.iter().any(|group| group.iter().all(|c| holds(c) == Some(false)));
        if ruled_out {
            return Look::Not;
        }
        let unknown = |conditions: &[Condition]| -> Vec<Signal> {
            conditions.iter().filter(|c| holds(c).is_none()).map(|c| c.signal).collect()
        };
        let mut missing = unknown(self.all);
        for group in self.any {
            if !group.iter().any(|condition| holds(condition) == Some(true)) {
                missing.extend(unknown(group));
            }
        }
        if !missing.is_empty() {
            return Look::Unknown(missing);
        }
        let conditions = || self.all.iter().chain(self.any.iter().copied().flatten());
        let whole = conditions().all(|condition| holds(condition).is_some());
        let mut seen = BTreeSet::new();
        let evidence = conditions()
            .filter(|condition| holds(condition) == Some(true) && seen.insert(condition.signal))
            .filter_map(|condition| Some((condition.signal, signals.get(condition.signal)?)))
            .collect();
        Look::Found(Finding {
            rule: self.code,
            title: self.title,
            confidence: if whole { Confidence::Sure } else { Confidence::Likely },
            evidence,
            remedy: self.remedy,
        })
    }
}

impl Finding {
    /// Its numbers in one line.
    pub fn evidence_text(&self) -> String {
        let parts: Vec<String> = self
            .evidence
            .iter()
            .map(|(signal, value)| format!("{} {}", signal.name(), signal.written(*value)))
            .collect();
        parts.join(", ")
    }
}
