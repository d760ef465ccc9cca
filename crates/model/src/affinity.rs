//! What a job asks of its nodes' labels and of the jobs beside it: affinity, spread, taints.
//!
//! The rules are those of Kubernetes (its scheduling reference), so that one set of types serves
//! scripts and pods: terms are alternatives, expressions inside a term all hold, a term without
//! expressions matches nothing, and what is missing satisfies `NotIn` and `DoesNotExist`.

use crate::{Node, Seconds, is_default};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Labels of a node or a job.
pub type Labels = BTreeMap<String, String>;

/// How an expression compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The value is one of the list.
    In,
    /// There is no value, or it is none of the list.
    NotIn,
    /// There is a value.
    Exists,
    /// There is none.
    DoesNotExist,
    /// Both are whole numbers and the value is greater.
    Gt,
    /// Both are whole numbers and the value is less.
    Lt,
}

/// A condition on one label or field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// The label's name; in a node term, a name that begins with a dot is a field
    /// ([`Node::field`]).
    pub key: String,
    /// How it compares.
    pub operator: Operator,
    /// With what; empty for the operators that need nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub values: Vec<String>,
}

/// Conditions that all hold; empty is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term {
    /// The conditions.
    pub all: Vec<Expression>,
}

/// What is wished for, and how much.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wish<T> {
    /// From 1 to 100.
    pub weight: u32,
    /// The wish.
    pub term: T,
}

/// Jobs near which, or away from which, a job wants to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobTerm {
    /// What counts as one place: `node`, a level of the topology, or a node label.
    pub key: String,
    /// Which jobs, by their labels; `name`, `user` and `account` stand for the job's own.
    pub selector: Term,
}

/// Requirements and wishes of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules<T> {
    /// What must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<T>,
    /// What is wished for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<Wish<T>>,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { required: Vec::new(), preferred: Vec::new() }
    }
}

/// Whether something counts that keeps the job from nodes anyhow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Heed {
    /// Places that it keeps the job from do not count.
    Honor,
    /// They count all the same.
    #[default]
    Ignore,
}

/// Even numbers of jobs over places (Kubernetes' topology spread constraints).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpreadRule {
    /// What counts as one place, as in [`JobTerm::key`].
    pub key: String,
    /// A place may have so many more of the jobs than the emptiest.
    pub max_skew: u32,
    /// Which jobs are counted, once for each node they are on.
    pub selector: Term,
    /// With fewer places than this the emptiest counts as empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_domains: Option<u32>,
    /// Only a wish (Kubernetes' `ScheduleAnyway`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub soft: bool,
    /// Whether places without a node that the job's node affinity allows are left out.
    #[serde(default = "honor", skip_serializing_if = "is_honor")]
    pub node_affinity: Heed,
    /// Whether places whose nodes all have taints that the job does not tolerate are left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub taints: Heed,
}

const fn honor() -> Heed {
    Heed::Honor
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives a reference
fn is_honor(heed: &Heed) -> bool {
    *heed == Heed::Honor
}

/// What a taint does to jobs that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaintEffect {
    /// They do not start there.
    NoSchedule,
    /// They start there last.
    PreferNoSchedule,
    /// They do not start there, and those that run there are ended.
    NoExecute,
}

/// A mark on a node that keeps jobs away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

/// A job's leave to be on nodes with a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's name; `None` is every taint.
    #[serde(skip_serializing_if = "is_default")]
    pub key: Option<String>,
    /// The taint's value; `None` is any (Kubernetes' `Exists`).
    #[serde(skip_serializing_if = "is_default")]
    pub value: Option<String>,
    /// The effect; `None` is any.
    #[serde(skip_serializing_if = "is_default")]
    pub effect: Option<TaintEffect>,
    /// Only so long after the job began or the taint came; for `NoExecute` only.
    #[serde(skip_serializing_if = "is_default")]
    pub seconds: Option<Seconds>,
}

/// All that a job asks of labels, taints and the jobs beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Affinity {
    /// Node labels and fields; the required terms are alternatives.
    #[serde(skip_serializing_if = "is_default")]
    pub node: Rules<Term>,
    /// Where its volumes can be had: of each list one term holds. As hard as the required terms, but
    /// even spreading does not honour them.
    #[serde(skip_serializing_if = "is_default")]
    pub volumes: Vec<Vec<Term>>,
    /// Jobs to be near; all required ones hold.
    #[serde(skip_serializing_if = "is_default")]
    pub near: Rules<JobTerm>,
    /// Jobs to be away from; they keep away from it too.
    #[serde(skip_serializing_if = "is_default")]
    pub apart: Rules<JobTerm>,
    /// Even spreading.
    #[serde(skip_serializing_if = "is_default")]
    pub spread: Vec<SpreadRule>,
    /// Taints that do not keep it away.
    #[serde(skip_serializing_if = "is_default")]
    pub tolerations: Vec<Toleration>,
}

impl Expression {
    /// True where the value (`None` where there is none) satisfies the condition.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|v| v == value));
        let compared = |wanted: std::cmp::Ordering| {
            let number = |text: &str| text.parse::<i64>().ok();
            let bound = self.values.first().and_then(|v| number(v));
            let both = value.and_then(number).zip(bound);
            both.is_some_and(|(value, bound)| value.cmp(&bound) == wanted)
        };
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(std::cmp::Ordering::Greater),
            Operator::Lt => compared(std::cmp::Ordering::Less),
        }
    }
}

impl Term {
    /// True where all conditions hold on the node; never without a condition.
    pub fn holds_on(&self, node: &Node) -> bool {
        let holds = |e: &Expression| match e.key.strip_prefix('.') {
            Some(field) => e.holds(node.field(field).as_deref()),
            None => e.holds(node.labels.get(&e.key).map(String::as_str)),
        };
        !self.all.is_empty() && self.all.iter().all(holds)
    }

    /// True where all conditions hold for the names that `find` gives; also without any.
    pub fn selects<'a>(&self, find: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.all.iter().all(|e| e.holds(find(&e.key)))
    }
}

impl Affinity {
    /// True where a node's labels and fields are such as the job and its volumes require.
    pub fn admits(&self, node: &Node) -> bool {
        let can_be_had = |places: &Vec<Term>| places.iter().any(|term| term.holds_on(node));
        self.wants(node) && self.volumes.iter().all(can_be_had)
    }

    /// True where a node's labels and fields are such as the job itself requires.
    pub fn wants(&self, node: &Node) -> bool {
        self.node.required.is_empty() || self.node.required.iter().any(|term| term.holds_on(node))
    }

    /// True where it says something about other jobs.
    pub fn looks_at_jobs(&self) -> bool {
        self.near != Rules::default() || self.apart != Rules::default() || !self.spread.is_empty()
    }
}

impl Toleration {
    /// True where it lets the job be on nodes with this taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// The taints of a node with these effects that nothing in the list tolerates.
pub fn untolerated<'a>(
    node: &'a Node,
    tolerations: &'a [Toleration],
    effects: &'a [TaintEffect],
) -> impl Iterator<Item = &'a Taint> {
    node.taints.iter().filter(move |taint| {
        effects.contains(&taint.effect) && !tolerations.iter().any(|t| t.tolerates(taint))
    })
}

/// The effects that keep a job from starting on a node.
pub const BARRING: [TaintEffect; 2] = [TaintEffect::NoSchedule, TaintEffect::NoExecute];

impl Node {
    /// A fact about the node by name, as text: `name`, `engine`, `cpus`, `memory` (MiB), `gpus`,
    /// `gpu-model` (of its first GPU), `gpu-memory` (MiB, of its smallest), `weight`.
    pub fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let number = |n: u64| Some(Cow::Owned(n.to_string()));
        match name {
            "name" => Some(Cow::Borrowed(&self.name)),
            "engine" => Some(Cow::Owned(self.engine.to_string())),
            "cpus" => number(u64::from(self.cpu_count())),
            "memory" => number(self.memory.0),
            "gpus" => number(self.devices.len() as u64),
            "gpu-model" => self.devices.first().map(|d| Cow::Borrowed(d.model.as_str())),
            "gpu-memory" => self.devices.iter().map(|d| d.memory.0).min().and_then(number),
            "weight" => number(u64::from(self.weight)),
            _ => None,
        }
    }

    /// The names that [`Node::field`] knows.
    pub const FIELDS: [&'static str; 8] =
        ["name", "engine", "cpus", "memory", "gpus", "gpu-model", "gpu-memory", "weight"];
}

impl fmt::Display for Expression {
    /// As it is written: `zone in [a,b]`, `gpu!=t4`, `!spot`, `gpu-mem>40000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let one = self.values.first().map_or("", String::as_str);
        match (self.operator, self.values.len()) {
            (Operator::In, 1) => write!(f, "{key}={one}"),
            (Operator::NotIn, 1) => write!(f, "{key}!={one}"),
            (Operator::In, _) => write!(f, "{key} in [{}]", self.values.join(",")),
            (Operator::NotIn, _) => write!(f, "{key} notin [{}]", self.values.join(",")),
            (Operator::Exists, _) => f.write_str(key),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            (Operator::Gt, _) => write!(f, "{key}>{one}"),
            (Operator::Lt, _) => write!(f, "{key}<{one}"),
        }
    }
}

impl fmt::Display for Term {
    /// Conditions joined with `&`; `*` where there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.all.is_empty() {
            return f.write_str("*");
        }
        for (at, expression) in self.all.iter().enumerate() {
            write!(f, "{}{expression}", if at > 0 { "&" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for JobTerm {
    /// `rack, app=db`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.key, self.selector)
    }
}

impl TaintEffect {
    /// Kubernetes' word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// The effect of this word, whatever its case.
    pub fn of_word(word: &str) -> Option<Self> {
        let all = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];
        all.into_iter().find(|effect| effect.word().eq_ignore_ascii_case(word))
    }
}

impl fmt::Display for Taint {
    /// `key=value:NoSchedule`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{sign}{}:{}", self.key, self.value, self.effect.word())
    }
}

impl fmt::Display for Toleration {
    /// `key=value:NoSchedule@300`, `*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.as_deref().unwrap_or("*"))?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        if let Some(effect) = self.effect {
            write!(f, ":{}", effect.word())?;
        }
        if let Some(seconds) = self.seconds {
            write!(f, "@{}", seconds.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
        let values = values.iter().map(|v| (*v).to_owned()).collect();
        Expression { key: key.to_owned(), operator, values }
    }

    fn node(labels: &[(&str, &str)]) -> Node {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Node { labels, ..Node::default() }
    }

    fn required(terms: Vec<Term>) -> Affinity {
        let node = Rules { required: terms, preferred: Vec::new() };
        Affinity { node, ..Affinity::default() }
    }

    #[test]
    fn c01_terms_are_alternatives_and_an_empty_one_matches_nothing() {
        let nodes = [
            node(&[("zone", "a"), ("gpu", "h100")]),
            node(&[("zone", "b"), ("gpu", "t4")]),
            node(&[("zone", "c")]),
            node(&[]),
        ];
        let term = Term {
            all: vec![
                expression("gpu", Operator::NotIn, &["t4"]),
                expression("zone", Operator::Exists, &[]),
            ],
        };
        let a = required(vec![Term::default(), term]);
        assert_eq!(nodes.each_ref().map(|n| a.admits(n)), [true, false, true, false]);
        let b = required(vec![Term::default()]);
        assert!(nodes.iter().all(|n| !b.admits(n)));
        // The node selector and the affinity both hold: one term with both.
        let c = required(vec![Term {
            all: vec![
                expression("zone", Operator::In, &["a"]),
                expression("gpu", Operator::In, &["t4"]),
            ],
        }]);
        assert!(nodes.iter().all(|n| !c.admits(n)));
    }

    #[test]
    fn each_volume_has_to_be_had_on_the_node() {
        let places = |values: &[&str]| -> Vec<Term> {
            let term =
                |value: &&str| Term { all: vec![expression("zone", Operator::In, &[value])] };
            values.iter().map(term).collect()
        };
        let volumes = vec![places(&["a", "b"]), places(&["b", "c"])];
        let job = Affinity { volumes, ..Affinity::default() };
        let on = |zone: &str| job.admits(&node(&[("zone", zone)]));
        assert_eq!(["a", "b", "c"].map(on), [false, true, false]);
        assert!(job.wants(&node(&[("zone", "a")])));
    }

    #[test]
    fn c02_gt_and_lt_compare_whole_numbers_and_never_match_a_bad_label() {
        let values = [Some("80000"), Some("80001"), Some("80GB"), Some("9"), None];
        let holds = |operator| {
            let e = expression("gpu-mem", operator, &["80000"]);
            values.map(|v| e.holds(v))
        };
        assert_eq!(holds(Operator::Gt), [false, true, false, false, false]);
        assert_eq!(holds(Operator::Lt), [false, false, false, true, false]);
    }

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let taint = |effect| Taint { key: "gpu".to_owned(), value: "h100".to_owned(), effect };
        let any = Toleration::default();
        let exists = Toleration { key: Some("gpu".to_owned()), ..any.clone() };
        let equal = Toleration { value: Some("a100".to_owned()), ..exists.clone() };
        let effect = Toleration { effect: Some(TaintEffect::NoExecute), ..exists.clone() };
        let no_schedule = taint(TaintEffect::NoSchedule);
        assert!(any.tolerates(&no_schedule) && exists.tolerates(&no_schedule));
        assert!(!equal.tolerates(&no_schedule) && !effect.tolerates(&no_schedule));
        assert!(effect.tolerates(&taint(TaintEffect::NoExecute)));
        assert_eq!(no_schedule.to_string(), "gpu=h100:NoSchedule");
    }
}
