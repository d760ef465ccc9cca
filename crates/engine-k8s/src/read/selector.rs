//! Label selectors, and how labels of pods and nodes are named in muster.
//!
//! muster's selectors know words of their own beside labels: `name`, `user` and `account` of a job,
//! `node` as a place. Labels that happen to be called so get a slash at their end, which no
//! Kubernetes label can have; what muster adds itself begins with a dot, which none can either.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_model::{Expression, Operator, Term};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The namespace of a pod, as a label of its job.
pub const NAMESPACE: &str = ".namespace";

/// A pod that is being deleted has this as a label of its job.
pub(super) const LEAVING: &str = ".leaving";

/// Every node of a mirror has this label, with one value: the cluster as one place.
pub const EVERYWHERE: &str = ".cluster";

/// A pod's label in muster's words.
pub(super) fn pod_label(key: &str) -> Cow<'_, str> {
    match key {
        "name" | "user" | "account" => Cow::Owned(format!("{key}/")),
        _ => Cow::Borrowed(key),
    }
}

/// A node's label in muster's words.
pub(super) fn node_label(key: &str) -> Cow<'_, str> {
    match key {
        "node" => Cow::Borrowed("node/"),
        _ => Cow::Borrowed(key),
    }
}

/// An expression; `None` where Kubernetes has no such operator.
pub(super) fn expression(key: String, operator: &str, values: &[String]) -> Option<Expression> {
    let operator = match operator {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    };
    Some(Expression { key, operator, values: values.to_vec() })
}

/// That a label has one of these values.
pub(super) fn is_one_of(key: &str, values: impl IntoIterator<Item = String>) -> Expression {
    let values = values.into_iter().collect();
    Expression { key: key.to_owned(), operator: Operator::In, values }
}

/// What selects those that are not being deleted.
pub(super) fn stays() -> Expression {
    Expression { key: LEAVING.to_owned(), operator: Operator::DoesNotExist, values: Vec::new() }
}

/// What selects nothing.
pub(super) fn nothing() -> Term {
    Term { all: vec![is_one_of(NAMESPACE, [])] }
}

/// A selector of pods. None at all selects nothing, an empty one everything.
pub(super) fn pods(selector: Option<&LabelSelector>) -> Term {
    let Some(selector) = selector else { return nothing() };
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| Some(is_one_of(&pod_label(key), [value.clone()])));
    let others = selector.match_expressions.iter().flatten().map(|e| {
        expression(pod_label(&e.key).into_owned(), &e.operator, e.values.as_deref().unwrap_or(&[]))
    });
    match equal.chain(others).collect() {
        Some(all) => Term { all },
        None => nothing(),
    }
}

/// The namespaces that a selector picks by their labels.
pub(super) fn namespaces(
    selector: &LabelSelector,
    all: &BTreeMap<String, BTreeMap<String, String>>,
) -> BTreeSet<String> {
    let term = pods(Some(selector));
    let picked = all.iter().filter(|(_, labels)| {
        term.selects(|key| labels.get(key.trim_end_matches('/')).map(String::as_str))
    });
    picked.map(|(name, _)| name.clone()).collect()
}
