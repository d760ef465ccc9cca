//! The search: devices for all claims of a pod, or the knowledge that there are none.
//!
//! Requests are gone through in their order, their alternatives in theirs, and for each the devices
//! in the [`order`](crate::order) that leaves most; what does not work out is undone. Devices that are
//! alike in everything that matters are tried once.

use crate::order::order;
use crate::select::Fit;
use crate::{Alternative, Attribute, Claim, Device, DeviceId, Mode, Offer, RESULTS_MAX, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// So many devices are tried for a pod on a node at most.
const TRIES_MAX: u32 = 20_000;

/// So often a pod is counted on a node at most.
const CAPACITY_MAX: u32 = 64;

/// A device for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The request, by its place in the claim.
    pub request: usize,
    /// The alternative, by its place in the request.
    pub alternative: usize,
    /// The device.
    pub device: DeviceId,
}

/// Why there are no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There are not enough that fit.
    #[error("cannot allocate all claims")]
    None,
    /// The search was given up.
    #[error("no devices were found within {TRIES_MAX} tries")]
    GivenUp,
}

/// Devices for all claims, those of each in the order of its requests. `taken` are those that others
/// have.
///
/// # Errors
/// [`Refusal`].
pub fn allocate(
    offer: &Offer,
    claims: &[Claim],
    fit: &Fit,
    taken: impl Fn(&DeviceId) -> bool,
) -> Result<Vec<Vec<Grant>>, Refusal> {
    Search::new(offer, claims, fit, taken).run()
}

/// How often devices for all claims are there, one after the other.
pub fn capacity(
    offer: &Offer,
    claims: &[Claim],
    fit: &Fit,
    taken: impl Fn(&DeviceId) -> bool,
) -> u32 {
    if let Some(count) = plain(offer, claims) {
        let usable = fit.usable(0, 0, 0);
        let free = offer.devices.iter().zip(usable);
        let free = free.filter(|(device, usable)| **usable && !taken(&device.id)).count();
        return (u32::try_from(free).unwrap_or(u32::MAX) / count).min(CAPACITY_MAX);
    }
    let mut own: BTreeSet<DeviceId> = BTreeSet::new();
    let mut times = 0;
    while times < CAPACITY_MAX {
        let found = allocate(offer, claims, fit, |id| taken(id) || own.contains(id));
        let Ok(grants) = found else { break };
        times += 1;
        let each = claims.iter().zip(grants);
        own.extend(each.flat_map(|(claim, grants)| {
            let takes = move |grant: &Grant| {
                !claim.requests[grant.request].alternatives[grant.alternative].admin
            };
            grants.into_iter().filter(takes).map(|grant| grant.device)
        }));
    }
    times
}

/// How many devices it is where nothing but their number matters.
fn plain(offer: &Offer, claims: &[Claim]) -> Option<u32> {
    let [claim] = claims else { return None };
    let [request] = claim.requests.as_slice() else { return None };
    let [Alternative { mode: Mode::Count(count), admin: false, .. }] =
        request.alternatives.as_slice()
    else {
        return None;
    };
    let is_plain = claim.constraints.is_empty() && offer.counters.is_empty() && *count > 0;
    (is_plain && *count as usize <= RESULTS_MAX).then_some(*count)
}

/// A device that was chosen.
#[derive(Clone, Copy)]
struct Chosen {
    claim: usize,
    request: usize,
    alternative: usize,
    device: usize,
}

/// What is left of a counter.
type Left<'a> = BTreeMap<(&'a str, &'a str, &'a str, &'a str), i128>;

struct Search<'a> {
    offer: &'a Offer,
    claims: &'a [Claim],
    fit: &'a Fit,
    used: Vec<bool>,
    left: Left<'a>,
    /// Sets of counters of which something is used, by driver, pool and set.
    touched: BTreeMap<(&'a str, &'a str, &'a str), u32>,
    /// Devices with the same number are alike in everything that matters.
    alike: Vec<u32>,
    chosen: Vec<Chosen>,
    tries: u32,
}

impl<'a> Search<'a> {
    fn new(
        offer: &'a Offer,
        claims: &'a [Claim],
        fit: &'a Fit,
        taken: impl Fn(&DeviceId) -> bool,
    ) -> Self {
        let used: Vec<bool> = offer.devices.iter().map(|device| taken(&device.id)).collect();
        let key = |k: &'a (std::sync::Arc<str>, std::sync::Arc<str>, String, String)| {
            (k.0.as_ref(), k.1.as_ref(), k.2.as_str(), k.3.as_str())
        };
        let left = offer.counters.iter().map(|(k, has)| (key(k), has.nanos())).collect();
        let mut search = Self {
            offer,
            claims,
            fit,
            alike: alike(offer, claims, fit),
            used,
            left,
            touched: BTreeMap::new(),
            chosen: Vec::new(),
            tries: 0,
        };
        let others = offer.beside.iter().filter(|device| taken(&device.id));
        for device in others {
            search.consume(device, 1);
        }
        for at in 0..offer.devices.len() {
            if search.used[at] {
                search.consume(&offer.devices[at], 1);
            }
        }
        search
    }

    fn run(mut self) -> Result<Vec<Vec<Grant>>, Refusal> {
        if !self.request(0, 0) {
            return Err(match self.tries >= TRIES_MAX {
                true => Refusal::GivenUp,
                false => Refusal::None,
            });
        }
        let mut grants = vec![Vec::new(); self.claims.len()];
        for chosen in &self.chosen {
            grants[chosen.claim].push(Grant {
                request: chosen.request,
                alternative: chosen.alternative,
                device: self.offer.devices[chosen.device].id.clone(),
            });
        }
        Ok(grants)
    }

    /// Takes a device's share of the counters (`sign` 1), or gives it back (-1).
    fn consume(&mut self, device: &'a Device, sign: i128) {
        let (driver, pool) = (device.id.driver.as_ref(), device.id.pool.as_ref());
        for part in &device.consumes {
            let touched = self.touched.entry((driver, pool, &part.set)).or_default();
            *touched = if sign > 0 { *touched + 1 } else { touched.saturating_sub(1) };
            for (counter, amount) in &part.counters {
                if let Some(left) = self.left.get_mut(&(driver, pool, &*part.set, &**counter)) {
                    *left -= sign * amount.nanos();
                }
            }
        }
    }

    /// True where the counters have a device's share; those of a set that is not told have none.
    fn has_counters(&self, device: &Device) -> bool {
        let (driver, pool) = (device.id.driver.as_ref(), device.id.pool.as_ref());
        device.consumes.iter().all(|part| {
            part.counters.iter().all(|(counter, amount)| {
                let left = self.left.get(&(driver, pool, &*part.set, &**counter));
                left.is_some_and(|left| *left >= amount.nanos())
            })
        })
    }

    /// From this request on; true where all of them are met.
    fn request(&mut self, claim: usize, request: usize) -> bool {
        let Some(asked) = self.claims.get(claim) else { return true };
        let Some(one) = asked.requests.get(request) else { return self.request(claim + 1, 0) };
        (0..one.alternatives.len()).any(|alternative| match one.alternatives[alternative].mode {
            Mode::All => self.all(claim, request, alternative),
            Mode::Count(count) => {
                let free = self.ordered(claim, request, alternative, count);
                let left = count as usize;
                left > 0 && self.some(claim, request, alternative, &free, left)
            }
        })
    }

    fn alternative(&self, claim: usize, request: usize, alternative: usize) -> &'a Alternative {
        &self.claims[claim].requests[request].alternatives[alternative]
    }

    /// The devices that may serve, in the order in which they are tried.
    fn ordered(&self, claim: usize, request: usize, alternative: usize, count: u32) -> Vec<usize> {
        let admin = self.alternative(claim, request, alternative).admin;
        let usable = self.fit.usable(claim, request, alternative);
        let may = |at: &usize| usable[*at] && (admin || !self.used[*at]);
        let free: Vec<usize> = (0..self.offer.devices.len()).filter(may).collect();
        let device = |at: usize| self.offer.devices[at].as_ref();
        let broken = |at: usize| {
            let one = device(at);
            one.consumes.iter().any(|part| {
                let set = (one.id.driver.as_ref(), one.id.pool.as_ref(), part.set.as_str());
                self.touched.get(&set).is_some_and(|n| *n > 0)
            })
        };
        let size = |at: usize| {
            let amounts = device(at).consumes.iter().flat_map(|part| part.counters.values());
            amounts.map(|amount| amount.nanos()).fold(0, i128::saturating_add)
        };
        order(&free, count, device, broken, size)
    }

    /// So many of these, and then the requests behind.
    fn some(&mut self, c: usize, r: usize, a: usize, free: &[usize], count: usize) -> bool {
        if count == 0 {
            return self.request(c, r + 1);
        }
        let mut failed = BTreeSet::new();
        for (at, device) in free.iter().enumerate() {
            if free.len() - at < count || self.tries >= TRIES_MAX {
                return false;
            }
            if failed.contains(&self.alike[*device]) || !self.take(c, r, a, *device) {
                continue;
            }
            if self.some(c, r, a, &free[at + 1..], count - 1) {
                return true;
            }
            self.put_back();
            failed.insert(self.alike[*device]);
        }
        false
    }

    /// All that match, and then the requests behind.
    fn all(&mut self, c: usize, r: usize, a: usize) -> bool {
        let matching = self.fit.matching(c, r, a);
        let usable = self.fit.usable(c, r, a);
        let all: Vec<usize> = (0..matching.len()).filter(|at| matching[*at]).collect();
        if all.is_empty() || !self.offer.unknown.is_empty() {
            return false;
        }
        let before = self.chosen.len();
        if all.iter().all(|at| usable[*at] && self.take(c, r, a, *at)) && self.request(c, r + 1) {
            return true;
        }
        while self.chosen.len() > before {
            self.put_back();
        }
        false
    }

    /// Takes a device where nothing speaks against it.
    fn take(&mut self, claim: usize, request: usize, alternative: usize, at: usize) -> bool {
        self.tries += 1;
        let asked = &self.claims[claim];
        let by = self.alternative(claim, request, alternative);
        let device = self.offer.devices[at].as_ref();
        let mut own = self.chosen.iter().filter(|chosen| chosen.claim == claim);
        if own.clone().count() >= RESULTS_MAX
            || own.any(|chosen| chosen.device == at)
            || !by.admin && (self.used[at] || !self.has_counters(device))
        {
            return false;
        }
        let own = || self.chosen.iter().filter(|chosen| chosen.claim == claim);
        let holds = asked.constraints.iter().all(|constraint| {
            if !constraint.is_for(&asked.requests[request], by) {
                return true;
            }
            let mut others = own().filter(|chosen| {
                let of = self.alternative(claim, chosen.request, chosen.alternative);
                constraint.is_for(&asked.requests[chosen.request], of)
            });
            let value = |at: usize, name: &String| single(&self.offer.devices[at], name);
            match &constraint.rule {
                Rule::Match(name) => value(at, name)
                    .is_some_and(|own| others.all(|o| value(o.device, name) == Some(own))),
                Rule::Distinct(name) => value(at, name)
                    .is_some_and(|own| others.all(|o| value(o.device, name) != Some(own))),
            }
        });
        if !holds {
            return false;
        }
        if !by.admin {
            self.used[at] = true;
            self.consume(device, 1);
        }
        self.chosen.push(Chosen { claim, request, alternative, device: at });
        true
    }

    /// Gives the last one back.
    fn put_back(&mut self) {
        let Some(Chosen { claim, request, alternative, device }) = self.chosen.pop() else {
            return;
        };
        if !self.alternative(claim, request, alternative).admin {
            self.used[device] = false;
            self.consume(&self.offer.devices[device], -1);
        }
    }
}

/// An attribute with one value.
fn single<'a>(device: &'a Device, name: &str) -> Option<&'a Attribute> {
    device.attributes.get(name).filter(|value| !matches!(value, Attribute::Many(_)))
}

/// Numbers devices so that those with the same may stand for each other in every request.
fn alike(offer: &Offer, claims: &[Claim], fit: &Fit) -> Vec<u32> {
    let rules = claims.iter().flat_map(|claim| &claim.constraints);
    let names: BTreeSet<&str> = rules
        .map(|constraint| match &constraint.rule {
            Rule::Match(name) | Rule::Distinct(name) => name.as_str(),
        })
        .collect();
    let mut known = BTreeMap::new();
    let mut numbers = Vec::with_capacity(offer.devices.len());
    for (at, device) in offer.devices.iter().enumerate() {
        let values: Vec<Option<&Attribute>> = names.iter().map(|n| single(device, n)).collect();
        // Only devices of one pool share counters.
        let counters = (!device.consumes.is_empty()).then_some((
            &device.id.driver,
            &device.id.pool,
            &device.consumes,
        ));
        let key = (fit.of(at), values, counters);
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        numbers.push(*known.entry(key).or_insert(next));
    }
    numbers
}
