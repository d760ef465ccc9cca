//! What is asked.

use crate::Toleration;

/// A claim has so many devices at most, as the API has it.
pub const RESULTS_MAX: usize = 32;

/// How many devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// So many.
    Count(u32),
    /// All that there are, at least one.
    All,
}

/// One way to meet a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alternative {
    /// The request's name, or `request/alternative`.
    pub name: String,
    /// The class of the devices.
    pub class: String,
    /// Selectors in CEL, beside those of the class: all of them hold.
    pub selectors: Vec<String>,
    /// How many.
    pub mode: Mode,
    /// For administration: devices that others have too, and are not taken from them.
    pub admin: bool,
    /// Taints that are no hindrance.
    pub tolerations: Vec<Toleration>,
}

/// A request: the first alternative that can be met is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// The ways to meet it, at least one.
    pub alternatives: Vec<Alternative>,
}

/// What the devices of a claim have to have to do with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// All have this attribute, and the same value of it.
    Match(String),
    /// All have this attribute, and each another value of it.
    Distinct(String),
}

/// A rule, and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    /// Requests, or `request/alternative`; none are all.
    pub requests: Vec<String>,
    /// The rule.
    pub rule: Rule,
}

impl Constraint {
    /// True where it is for devices of this request and alternative.
    pub(crate) fn is_for(&self, request: &Request, alternative: &Alternative) -> bool {
        self.requests.is_empty()
            || self.requests.iter().any(|name| *name == request.name || *name == alternative.name)
    }
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// What it asks for.
    pub requests: Vec<Request>,
    /// What holds between the devices.
    pub constraints: Vec<Constraint>,
}
