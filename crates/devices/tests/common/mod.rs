//! Devices and claims in few words.
#![allow(dead_code, unreachable_pub)] // each test takes its part

use muster_devices::quantity::Quantity;
use muster_devices::{
    Alternative, Attribute, Claim, Constraint, Consumption, Device, DeviceId, Fit, Grant, Mode,
    Offer, Request, Rule, SelectorError, Selectors, allocate,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const DRIVER: &str = "gpu.example.com";
pub const CLASS: &str = "gpu";

pub fn device(name: &str, attributes: &[(&str, Attribute)]) -> Device {
    let full = |name: &str| match name.contains('/') {
        true => name.to_owned(),
        false => format!("{DRIVER}/{name}"),
    };
    Device {
        id: DeviceId { driver: DRIVER.into(), pool: "p".into(), device: name.into() },
        attributes: attributes.iter().map(|(name, v)| (full(name), v.clone())).collect(),
        capacity: BTreeMap::new(),
        taints: Vec::new(),
        consumes: Vec::new(),
        shared: false,
        unusable: None,
    }
}

pub fn text(value: &str) -> Attribute {
    Attribute::Text(value.to_owned())
}

pub fn offer(devices: Vec<Device>) -> Offer {
    Offer { devices: devices.into_iter().map(Arc::new).collect(), ..Offer::default() }
}

pub fn amount(text: &str) -> Quantity {
    Quantity::parse(text).expect("a quantity")
}

/// A device that takes so much of the counter `memory` of a set.
pub fn part(name: &str, set: &str, memory: &str) -> Device {
    let counters = BTreeMap::from([("memory".to_owned(), amount(memory))]);
    let consumes = vec![Consumption { set: set.to_owned(), counters }];
    Device { consumes, ..device(name, &[]) }
}

pub fn with_counters(mut offer: Offer, sets: &[(&str, &str)]) -> Offer {
    for (set, memory) in sets {
        let key = (DRIVER.into(), "p".into(), (*set).to_owned(), "memory".to_owned());
        offer.counters.insert(key, amount(memory));
    }
    offer
}

pub fn alternative(name: &str, mode: Mode, selectors: &[&str]) -> Alternative {
    Alternative {
        name: name.to_owned(),
        class: CLASS.to_owned(),
        selectors: selectors.iter().map(|&text| text.to_owned()).collect(),
        mode,
        admin: false,
        tolerations: Vec::new(),
    }
}

pub fn request(name: &str, mode: Mode, selectors: &[&str]) -> Request {
    Request { name: name.to_owned(), alternatives: vec![alternative(name, mode, selectors)] }
}

pub fn claim(requests: Vec<Request>) -> Claim {
    Claim { requests, constraints: Vec::new() }
}

pub fn matching(requests: &[&str], name: &str) -> Constraint {
    Constraint {
        requests: requests.iter().map(|&name| name.to_owned()).collect(),
        rule: Rule::Match(format!("{DRIVER}/{name}")),
    }
}

pub fn classes() -> BTreeMap<String, Vec<String>> {
    let selector = format!("device.driver == \"{DRIVER}\"");
    BTreeMap::from([(CLASS.to_owned(), vec![selector])])
}

pub fn fit(offer: &Offer, claims: &[Claim]) -> Result<Fit, SelectorError> {
    Selectors::default().fit(offer, claims, &classes())
}

/// `request: device device`, a claim after the other; `None` where there are none.
pub fn found(offer: &Offer, claims: &[Claim], taken: &[&str]) -> Option<Vec<String>> {
    let fit = fit(offer, claims).expect("selectors");
    let grants = allocate(offer, claims, &fit, |id| taken.contains(&id.device.as_ref())).ok()?;
    Some(claims.iter().zip(grants).flat_map(|(claim, grants)| words(claim, &grants)).collect())
}

fn words(claim: &Claim, grants: &[Grant]) -> Vec<String> {
    let mut by: Vec<(String, Vec<String>)> = Vec::new();
    for grant in grants {
        let name = &claim.requests[grant.request].alternatives[grant.alternative].name;
        let device = grant.device.device.to_string();
        match by.last_mut().filter(|last| last.0 == *name) {
            Some(last) => last.1.push(device),
            None => by.push((name.clone(), vec![device])),
        }
    }
    by.into_iter().map(|(name, devices)| format!("{name}: {}", devices.join(" "))).collect()
}
