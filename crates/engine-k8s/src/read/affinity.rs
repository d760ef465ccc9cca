//! What a pod says of nodes, taints and other pods, as muster's affinity.
//!
//! The rules are those of the Kubernetes scheduling reference: required node terms are
//! alternatives and a node selector holds beside each; pods count in the pod's own namespace
//! unless it names others; the required terms of pods that run keep others away too.

use super::ports;
use super::selector::{self, NAMESPACE, expression, is_one_of, node_label, pod_label};
use super::{Context, Refusal};
use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, Toleration as Tolerated,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use muster_model::{
    Affinity, Heed, JobTerm, Labels, Rules, Seconds, SpreadRule, TaintEffect, Term, Toleration,
    Wish,
};

/// The affinity of a pod without what it says of nodes' labels ([`nodes`]).
pub(super) fn affinity(pod: &Pod, spec: &PodSpec, context: &Context) -> Affinity {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let said = spec.affinity.as_ref();
    let near = said.and_then(|a| a.pod_affinity.as_ref());
    let apart = said.and_then(|a| a.pod_anti_affinity.as_ref());
    let place = |term: &PodAffinityTerm| job_term(term, namespace, &labels, context);
    let rules = |required: Option<&Vec<PodAffinityTerm>>,
                 preferred: Option<&Vec<WeightedPodAffinityTerm>>| Rules {
        required: required.into_iter().flatten().map(place).collect(),
        preferred: preferred
            .into_iter()
            .flatten()
            .map(|t| wish(t.weight, place(&t.pod_affinity_term)))
            .collect(),
    };
    let mut affinity = Affinity {
        near: near.map_or_else(Rules::default, |a| {
            rules(
                a.required_during_scheduling_ignored_during_execution.as_ref(),
                a.preferred_during_scheduling_ignored_during_execution.as_ref(),
            )
        }),
        apart: apart.map_or_else(Rules::default, |a| {
            rules(
                a.required_during_scheduling_ignored_during_execution.as_ref(),
                a.preferred_during_scheduling_ignored_during_execution.as_ref(),
            )
        }),
        spread: spec
            .topology_spread_constraints
            .iter()
            .flatten()
            .map(|rule| spread(rule, namespace, &labels))
            .collect(),
        tolerations: spec.tolerations.iter().flatten().filter_map(toleration).collect(),
        ..Affinity::default()
    };
    affinity.apart.required.extend(ports::apart(spec));
    affinity
}

fn wish<T>(weight: i32, term: T) -> Wish<T> {
    Wish { weight: u32::try_from(weight).unwrap_or(1).clamp(1, 100), term }
}

/// Node selector and node affinity.
///
/// # Errors
/// [`Refusal`] where it cannot be said in muster's words.
pub(super) fn nodes(spec: &PodSpec) -> Result<Rules<Term>, Refusal> {
    let said = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required =
        said.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let selector: Vec<_> = spec
        .node_selector
        .iter()
        .flatten()
        .map(|(key, value)| is_one_of(&node_label(key), [value.clone()]))
        .collect();
    let mut terms = Vec::new();
    for term in required.iter().flat_map(|r| &r.node_selector_terms) {
        let mut one = node_term(term)?;
        // An empty term matches no node, whatever stands beside it.
        if !one.all.is_empty() {
            one.all.extend(selector.iter().cloned());
            terms.push(one);
        }
    }
    if required.is_some() && terms.is_empty() {
        terms.push(Term::default());
    }
    if required.is_none() && !selector.is_empty() {
        terms.push(Term { all: selector });
    }
    let preferred =
        said.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let mut wishes = Vec::new();
    for one in preferred.into_iter().flatten() {
        let term = node_term(&one.preference)?;
        if !term.all.is_empty() {
            wishes.push(wish(one.weight, term));
        }
    }
    Ok(Rules { required: terms, preferred: wishes })
}

/// A term on a node's labels and fields, of a pod or of a volume.
pub(crate) fn node_term(term: &NodeSelectorTerm) -> Result<Term, Refusal> {
    let mut all = Vec::new();
    for one in term.match_expressions.iter().flatten() {
        let key = node_label(&one.key).into_owned();
        let values = one.values.as_deref().unwrap_or(&[]);
        all.push(expression(key, &one.operator, values).ok_or_else(|| unknown(&one.operator))?);
    }
    for one in term.match_fields.iter().flatten() {
        if one.key != "metadata.name" {
            return Err(Refusal { what: format!("node field `{}`", one.key) });
        }
        let values = one.values.as_deref().unwrap_or(&[]);
        let name = ".name".to_owned();
        all.push(expression(name, &one.operator, values).ok_or_else(|| unknown(&one.operator))?);
    }
    Ok(Term { all })
}

fn unknown(operator: &str) -> Refusal {
    Refusal { what: format!("node selector operator `{operator}`") }
}

/// A term on other pods: its selector with the labels that it takes from the pod, and the
/// namespaces that count.
fn job_term(term: &PodAffinityTerm, own: &str, labels: &Labels, context: &Context) -> JobTerm {
    let mut selector = selector::pods(term.label_selector.as_ref());
    take_labels(&mut selector, term.match_label_keys.as_deref(), labels, "In");
    take_labels(&mut selector, term.mismatch_label_keys.as_deref(), labels, "NotIn");
    let named = term.namespaces.iter().flatten().cloned();
    match &term.namespace_selector {
        None => {
            let mut names: Vec<String> = named.collect();
            if names.is_empty() {
                names.push(own.to_owned());
            }
            selector.all.push(is_one_of(NAMESPACE, names));
        }
        Some(all) if all.match_labels.is_none() && all.match_expressions.is_none() => {}
        Some(by_labels) => {
            let mut names = selector::namespaces(by_labels, &context.namespaces);
            names.extend(named);
            selector.all.push(is_one_of(NAMESPACE, names));
        }
    }
    JobTerm { key: node_label(&term.topology_key).into_owned(), selector }
}

/// The pod's own values of these labels hold beside a selector (`matchLabelKeys`). The API server
/// adds them by itself where it knows the field; twice is no harm.
fn take_labels(selector: &mut Term, keys: Option<&[String]>, labels: &Labels, operator: &str) {
    for key in keys.into_iter().flatten() {
        if let Some(value) = labels.get(key) {
            let key = pod_label(key).into_owned();
            selector.all.extend(expression(key, operator, std::slice::from_ref(value)));
        }
    }
}

fn spread(rule: &TopologySpreadConstraint, namespace: &str, labels: &Labels) -> SpreadRule {
    let mut selector = selector::pods(rule.label_selector.as_ref());
    take_labels(&mut selector, rule.match_label_keys.as_deref(), labels, "In");
    // Other than elsewhere, what says nothing counts nobody; and nobody counts who is leaving.
    if selector.all.is_empty() {
        selector = selector::nothing();
    }
    selector.all.push(is_one_of(NAMESPACE, [namespace.to_owned()]));
    selector.all.push(selector::stays());
    let heed = |policy: Option<&str>, default: Heed| match policy {
        Some("Honor") => Heed::Honor,
        Some("Ignore") => Heed::Ignore,
        _ => default,
    };
    SpreadRule {
        key: node_label(&rule.topology_key).into_owned(),
        max_skew: u32::try_from(rule.max_skew).unwrap_or(1).max(1),
        selector,
        min_domains: rule.min_domains.and_then(|n| u32::try_from(n).ok()),
        soft: rule.when_unsatisfiable == "ScheduleAnyway",
        node_affinity: heed(rule.node_affinity_policy.as_deref(), Heed::Honor),
        taints: heed(rule.node_taints_policy.as_deref(), Heed::Ignore),
    }
}

/// `None` where it tolerates nothing that muster knows.
fn toleration(said: &Tolerated) -> Option<Toleration> {
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let key = text(&said.key);
    let value = match said.operator.as_deref() {
        Some("Exists") => None,
        None | Some("" | "Equal") => {
            key.as_ref()?;
            Some(said.value.clone().unwrap_or_default())
        }
        Some(_) => return None,
    };
    let effect = match text(&said.effect) {
        None => None,
        Some(word) => Some(TaintEffect::of_word(&word)?),
    };
    let seconds = said.toleration_seconds.map(|s| Seconds(u64::try_from(s).unwrap_or(0)));
    Some(Toleration { key, value, effect, seconds })
}
