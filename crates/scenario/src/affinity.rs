//! Labels, taints, and what jobs ask of them, from words.
//!
//! ```text
//! labels=zone:a,gpu:h100  taints=gpu=h100:NoSchedule,maint:NoExecute
//! require=zone=a+b&gpu!=t4|rack  prefer=50:zone=a
//! near=rack:app=db  apart=node:app=web  prefer-near=10:rack:app=db  prefer-apart=10:node:app=web
//! even=rack:1:app=web  even=rack:1:app=web:soft,min=3,taints,any-node
//! tolerate=gpu=h100:NoSchedule,maint
//! ```

use crate::error::{Read, ScenarioError};
use crate::text::{count, number, pair};
use muster_model::{
    Affinity, Expression, Heed, JobTerm, Labels, Operator, Request, Seconds, SpreadRule, Taint,
    TaintEffect, Term, Toleration, Wish,
};
use std::sync::Arc;

/// Words of a job that are read here.
pub(crate) const JOB: &[&str] =
    &["require", "prefer", "near", "apart", "prefer-near", "prefer-apart", "even", "tolerate"];

/// `zone:a,gpu:h100`.
pub(crate) fn labels(text: &str) -> Labels {
    let label = |word: &str| {
        let (key, value) = word.split_once(':').unwrap_or((word, ""));
        (key.to_owned(), value.to_owned())
    };
    text.split(',').map(label).collect()
}

fn effect(word: &str) -> Read<TaintEffect> {
    TaintEffect::of_word(word).ok_or_else(|| {
        ScenarioError::value(word, "an effect of a taint")
            .hint("write NoSchedule, PreferNoSchedule or NoExecute")
    })
}

/// `key=value:Effect`, without an effect `NoSchedule`.
pub(crate) fn taint(text: &str) -> Read<Taint> {
    let (name, word) = text.split_once(':').unwrap_or((text, "NoSchedule"));
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect(word)? })
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
pub(crate) fn term(text: &str) -> Term {
    let all = text.split('&').filter(|t| !t.is_empty() && *t != "-");
    Term { all: all.map(expression).collect() }
}

fn job_term(text: &str) -> Read<JobTerm> {
    let (key, selector) = pair(text, ':', "KEY:SELECTOR, such as rack:app=db")?;
    Ok(JobTerm { key: key.to_owned(), selector: term(selector) })
}

fn wish<T>(text: &str, term: impl Fn(&str) -> Read<T>) -> Read<Wish<T>> {
    let (weight, rest) = pair(text, ':', "WEIGHT:TERM, such as 50:zone=a")?;
    Ok(Wish { weight: number(weight)?, term: term(rest)? })
}

fn even(text: &str) -> Read<SpreadRule> {
    let mut pieces = text.splitn(4, ':');
    let (Some(key), Some(skew), Some(selector)) = (pieces.next(), pieces.next(), pieces.next())
    else {
        return Err(ScenarioError::value(text, "KEY:SKEW:SELECTOR, such as rack:1:app=web"));
    };
    let mut rule = SpreadRule {
        key: key.to_owned(),
        max_skew: count(skew)?,
        selector: term(selector),
        min_domains: None,
        soft: false,
        node_affinity: Heed::Honor,
        taints: Heed::Ignore,
    };
    for word in pieces.next().unwrap_or_default().split(',').filter(|w| !w.is_empty()) {
        match word {
            "soft" => rule.soft = true,
            "taints" => rule.taints = Heed::Honor,
            "any-node" => rule.node_affinity = Heed::Ignore,
            _ => match word.strip_prefix("min=") {
                Some(n) => rule.min_domains = Some(count(n)?),
                None => {
                    let known = ["soft", "taints", "any-node", "min=N"];
                    return Err(ScenarioError::option("even spreading", word, &known));
                }
            },
        }
    }
    Ok(rule)
}

fn toleration(text: &str) -> Read<Toleration> {
    let (text, seconds) = text.split_once('@').map_or((text, None), |(t, s)| (t, Some(s)));
    let (name, word) = text.split_once(':').map_or((text, None), |(n, e)| (n, Some(e)));
    let (key, value) = name.split_once('=').map_or((name, None), |(k, v)| (k, Some(v)));
    Ok(Toleration {
        key: (key != "*").then(|| key.to_owned()),
        value: value.map(str::to_owned),
        effect: word.map(effect).transpose()?,
        seconds: seconds.map(|s| number(s).map(Seconds)).transpose()?,
    })
}

/// Takes a word of a job up; false where it is another.
pub(crate) fn job_field(request: &mut Request, key: &str, value: &str) -> Read<bool> {
    if !JOB.contains(&key) {
        return Ok(false);
    }
    let mut affinity = request.affinity.as_deref().cloned().unwrap_or_default();
    match key {
        "require" => affinity.node.required = value.split('|').map(term).collect(),
        "prefer" => affinity.node.preferred.push(wish(value, |text| Ok(term(text)))?),
        "near" => affinity.near.required.push(job_term(value)?),
        "apart" => affinity.apart.required.push(job_term(value)?),
        "prefer-near" => affinity.near.preferred.push(wish(value, job_term)?),
        "prefer-apart" => affinity.apart.preferred.push(wish(value, job_term)?),
        "even" => affinity.spread.push(even(value)?),
        _ => affinity.tolerations = value.split(',').map(toleration).collect::<Read<_>>()?,
    }
    request.affinity = (affinity != Affinity::default()).then(|| Arc::new(affinity));
    Ok(true)
}
