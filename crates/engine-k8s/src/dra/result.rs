//! An allocation, as it is written into a claim.

use super::read::{Allocated, ClaimRecord, Class, Reach, tolerations};
use crate::read::node_term;
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult,
    DeviceRequestAllocationResult,
};
use muster_devices::{Alternative, Claim, DeviceId, Grant};
use muster_model::Node;
use std::collections::BTreeMap;

/// The allocation of these devices, as it is written and as it counts.
pub(super) fn allocation<'a>(
    record: &ClaimRecord,
    claim: &Claim,
    grants: &[Grant],
    classes: &BTreeMap<String, Class>,
    reach: impl Fn(&DeviceId) -> Option<&'a Reach>,
    node: &Node,
) -> (serde_json::Value, Allocated) {
    let way = |grant: &Grant| &claim.requests[grant.request].alternatives[grant.alternative];
    let results = grants.iter().map(|grant| {
        let way = way(grant);
        DeviceRequestAllocationResult {
            request: way.name.clone(),
            driver: grant.device.driver.to_string(),
            pool: grant.device.pool.to_string(),
            device: grant.device.device.to_string(),
            admin_access: way.admin.then_some(true),
            tolerations: record.raw.as_ref().and_then(|raw| tolerations(raw, &way.name)),
            ..DeviceRequestAllocationResult::default()
        }
    });
    let selector = selector(grants.iter().filter_map(|grant| reach(&grant.device)), node);
    let mut ways: Vec<&Alternative> = grants.iter().map(way).collect();
    ways.dedup();
    let config = config(record, &ways, classes);
    let told = AllocationResult {
        devices: Some(DeviceAllocationResult {
            results: Some(results.collect()),
            config: (!config.is_empty()).then_some(config),
        }),
        node_selector: selector.clone(),
        allocation_timestamp: None,
    };
    let own = grants.iter().filter(|grant| !way(grant).admin);
    let places = selector.map(|selector| {
        let terms = selector.node_selector_terms.iter();
        terms.filter_map(|term| node_term(term).ok()).collect()
    });
    let allocated = Allocated { devices: own.map(|grant| grant.device.clone()).collect(), places };
    (serde_json::to_value(told).unwrap_or_default(), allocated)
}

/// Who can reach all of them: this node where one of them is only its own, else the nodes of which
/// all selectors hold; `None` is every node.
fn selector<'a>(all: impl Iterator<Item = &'a Reach>, node: &Node) -> Option<NodeSelector> {
    let only = |requirement: NodeSelectorRequirement| NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_fields: Some(vec![requirement]),
            match_expressions: None,
        }],
    };
    let mut whole = NodeSelectorTerm::default();
    for reach in all {
        let told = match reach {
            Reach::All => continue,
            Reach::Nodes(_, told) if told.node_selector_terms.len() == 1 => {
                &told.node_selector_terms[0]
            }
            Reach::Nodes(..) | Reach::Node(_) | Reach::Nobody => {
                return Some(only(NodeSelectorRequirement {
                    key: "metadata.name".to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![node.name.clone()]),
                }));
            }
        };
        add(&mut whole.match_expressions, told.match_expressions.as_ref());
        add(&mut whole.match_fields, told.match_fields.as_ref());
    }
    let says = whole.match_expressions.is_some() || whole.match_fields.is_some();
    says.then(|| NodeSelector { node_selector_terms: vec![whole] })
}

fn add(to: &mut Option<Vec<NodeSelectorRequirement>>, more: Option<&Vec<NodeSelectorRequirement>>) {
    for one in more.into_iter().flatten() {
        let all = to.get_or_insert_default();
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// What drivers are told: by the classes of what was given, and by the claim for it.
fn config(
    record: &ClaimRecord,
    ways: &[&Alternative],
    classes: &BTreeMap<String, Class>,
) -> Vec<DeviceAllocationConfiguration> {
    let mut all = Vec::new();
    for way in ways {
        for one in classes.get(&way.class).into_iter().flat_map(|class| &class.config) {
            all.push(DeviceAllocationConfiguration {
                opaque: one.opaque.clone(),
                requests: Some(vec![way.name.clone()]),
                source: "FromClass".to_owned(),
            });
        }
    }
    let own = record.raw.as_ref().and_then(|raw| raw.config.as_ref());
    for one in own.into_iter().flatten() {
        let of = one.requests.as_ref().filter(|requests| !requests.is_empty());
        let concerns = |request: &String| {
            let part = |way: &&&Alternative| {
                way.name == *request || way.name.split_once('/').is_some_and(|w| w.0 == request)
            };
            ways.iter().any(|way| part(&way))
        };
        if of.is_none_or(|requests| requests.iter().any(concerns)) {
            all.push(DeviceAllocationConfiguration {
                opaque: one.opaque.clone(),
                requests: one.requests.clone(),
                source: "FromClaim".to_owned(),
            });
        }
    }
    all
}
