//! Labels, taints, and what jobs ask of them, from words.
//!
//! ```text
//! labels=zone:a,gpu:h100  taints=gpu=h100:NoSchedule,maint:NoExecute
//! require=zone=a+b&gpu!=t4|rack  prefer=50:zone=a
//! near=rack:app=db  apart=node:app=web  prefer-near=10:rack:app=db  prefer-apart=10:node:app=web
//! even=rack:1:app=web  even=rack:1:app=web:soft,min=3,taints,any-node
//! tolerate=gpu=h100:NoSchedule,maint
//! ```

use crate::text::number;
use muster_model::{
    Affinity, Expression, Heed, JobTerm, Labels, Operator, Request, Seconds, SpreadRule, Taint,
    TaintEffect, Term, Toleration, Wish,
};
use std::sync::Arc;

/// `zone:a,gpu:h100`.
pub(crate) fn labels(text: &str) -> Labels {
    let label = |word: &str| {
        let (key, value) = word.split_once(':').unwrap_or((word, ""));
        (key.to_owned(), value.to_owned())
    };
    text.split(',').map(label).collect()
}

/// `key=value:Effect`, without an effect `NoSchedule`.
pub(crate) fn taint(text: &str) -> Taint {
    let (name, effect) = text.split_once(':').unwrap_or((text, "NoSchedule"));
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    let effect = TaintEffect::of_word(effect).unwrap_or_else(|| panic!("no effect {effect:?}"));
    Taint { key: key.to_owned(), value: value.to_owned(), effect }
}

fn expression(text: &str) -> Expression {
    let of = |key: &str, operator, values: &str| Expression {
        key: key.to_owned(),
        operator,
        values: values.split('+').filter(|v| !v.is_empty()).map(str::to_owned).collect(),
    };
    if let Some((key, values)) = text.split_once("!=") {
        return of(key, Operator::NotIn, values);
    }
    if let Some(key) = text.strip_prefix('!') {
        return of(key, Operator::DoesNotExist, "");
    }
    for (sign, operator) in [('=', Operator::In), ('>', Operator::Gt), ('<', Operator::Lt)] {
        if let Some((key, values)) = text.split_once(sign) {
            return of(key, operator, values);
        }
    }
    of(text, Operator::Exists, "")
}

/// Conditions joined with `&`; none for `-`.
fn term(text: &str) -> Term {
    let all = text.split('&').filter(|t| !t.is_empty() && *t != "-");
    Term { all: all.map(expression).collect() }
}

fn job_term(text: &str) -> JobTerm {
    let (key, selector) = text.split_once(':').unwrap_or_else(|| panic!("KEY:SELECTOR {text:?}"));
    JobTerm { key: key.to_owned(), selector: term(selector) }
}

fn wish<T>(text: &str, term: impl Fn(&str) -> T) -> Wish<T> {
    let (weight, rest) = text.split_once(':').unwrap_or_else(|| panic!("WEIGHT:... {text:?}"));
    Wish { weight: number(weight), term: term(rest) }
}

fn even(text: &str) -> SpreadRule {
    let mut pieces = text.split(':');
    let mut next = || pieces.next().unwrap_or_default();
    let mut rule = SpreadRule {
        key: next().to_owned(),
        max_skew: number(next()),
        selector: term(next()),
        min_domains: None,
        soft: false,
        node_affinity: Heed::Honor,
        taints: Heed::Ignore,
    };
    for word in next().split(',').filter(|w| !w.is_empty()) {
        match word.split_once('=') {
            Some(("min", n)) => rule.min_domains = Some(number(n)),
            _ if word == "soft" => rule.soft = true,
            _ if word == "taints" => rule.taints = Heed::Honor,
            _ if word == "any-node" => rule.node_affinity = Heed::Ignore,
            _ => panic!("even spreading has no {word:?}"),
        }
    }
    rule
}

fn toleration(text: &str) -> Toleration {
    let (text, seconds) = text.split_once('@').map_or((text, None), |(t, s)| (t, Some(s)));
    let (name, effect) = text.split_once(':').map_or((text, None), |(n, e)| (n, Some(e)));
    let (key, value) = name.split_once('=').map_or((name, None), |(k, v)| (k, Some(v)));
    Toleration {
        key: (key != "*").then(|| key.to_owned()),
        value: value.map(str::to_owned),
        effect: effect.and_then(TaintEffect::of_word),
        seconds: seconds.map(|s| Seconds(number(s))),
    }
}

/// Takes a word of a job up; false where it is another.
pub(crate) fn job_field(request: &mut Request, key: &str, value: &str) -> bool {
    let mut affinity = request.affinity.as_deref().cloned().unwrap_or_default();
    match key {
        "require" => affinity.node.required = value.split('|').map(term).collect(),
        "prefer" => affinity.node.preferred.push(wish(value, term)),
        "near" => affinity.near.required.push(job_term(value)),
        "apart" => affinity.apart.required.push(job_term(value)),
        "prefer-near" => affinity.near.preferred.push(wish(value, job_term)),
        "prefer-apart" => affinity.apart.preferred.push(wish(value, job_term)),
        "even" => affinity.spread.push(even(value)),
        "tolerate" => affinity.tolerations = value.split(',').map(toleration).collect(),
        _ => return false,
    }
    request.affinity = (affinity != Affinity::default()).then(|| Arc::new(affinity));
    true
}
