//! On small made-up nodes: devices are found exactly where trying every choice finds some, and what
//! is given meets every rule, counted again from zero.

mod common;

use common::{DRIVER, amount, claim, device, fit, offer, request};
use muster_devices::{
    Alternative, Attribute, Claim, Constraint, Consumption, Device, Effect, Grant, Mode, Offer,
    Request, Rule, Taint, Toleration, allocate, capacity,
};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that look made up, and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn made_up(dice: &mut Dice) -> (Offer, Vec<Claim>, BTreeSet<String>) {
    let mut devices = Vec::new();
    for at in 0..=dice.below(6) {
        let mut attributes = vec![("m", Attribute::Int(dice.below(2) as i64))];
        if dice.is(80) {
            attributes.push(("root", Attribute::Int(dice.below(3) as i64)));
        }
        let mut one: Device = device(&format!("d{at}"), &attributes);
        if dice.is(15) {
            let (key, value) = ("k".to_owned(), String::new());
            one.taints.push(Taint { key, value, effect: Effect::NoSchedule });
        }
        if dice.is(40) {
            let set = ["s", "t"][dice.below(2) as usize].to_owned();
            let counters =
                BTreeMap::from([("c".to_owned(), amount(["1", "2"][dice.below(2) as usize]))]);
            one.consumes.push(Consumption { set, counters });
        }
        devices.push(one);
    }
    let mut offer = offer(devices);
    for set in ["s", "t"] {
        let key = (DRIVER.into(), "p".into(), set.to_owned(), "c".to_owned());
        offer.counters.insert(key, amount(["1", "2", "3"][dice.below(3) as usize]));
    }
    if dice.is(5) {
        offer.unknown.push("a pool".to_owned());
    }
    let taken = offer.devices.iter().filter(|_| dice.is(20)).map(|d| d.id.device.to_string());
    let taken = taken.collect();
    let mut claims = Vec::new();
    for _ in 0..=dice.below(2) {
        let mut requests: Vec<Request> = Vec::new();
        for at in 0..=dice.below(2) {
            let name = format!("r{at}");
            let mut one = request(&name, Mode::Count(1), &[]);
            one.alternatives = ways(dice, &name);
            requests.push(one);
        }
        let mut one = claim(requests);
        if dice.is(40) {
            let name = format!("{DRIVER}/root");
            let rule = if dice.is(60) { Rule::Match(name) } else { Rule::Distinct(name) };
            let requests = match dice.below(4) {
                0 => vec!["r0".to_owned()],
                1 => vec!["r0/a1".to_owned(), "r1".to_owned()],
                _ => Vec::new(),
            };
            one.constraints.push(Constraint { requests, rule });
        }
        claims.push(one);
    }
    (offer, claims, taken)
}

fn ways(dice: &mut Dice, name: &str) -> Vec<Alternative> {
    let count = if dice.is(30) { 2 } else { 1 };
    let one = |dice: &mut Dice, at: u64| {
        let name = if count == 1 { name.to_owned() } else { format!("{name}/a{at}") };
        let selectors: Vec<String> = match dice.below(3) {
            0 => vec![format!("device.attributes['{DRIVER}'].m == {}", dice.below(2))],
            _ => Vec::new(),
        };
        let selectors: Vec<&str> = selectors.iter().map(String::as_str).collect();
        let mode = if dice.is(15) { Mode::All } else { Mode::Count(1 + dice.below(3) as u32) };
        let mut one = common::alternative(&name, mode, &selectors);
        one.admin = dice.is(10);
        if dice.is(50) {
            one.tolerations.push(Toleration { key: None, value: None, effect: None });
        }
        one
    };
    (0..count).map(|at| one(dice, at)).collect()
}

/// What a rule of selectors comes to, said again without CEL.
fn matches(way: &Alternative, device: &Device) -> bool {
    way.selectors.iter().all(|text| {
        let wanted = i64::from(text.ends_with('1'));
        device.attributes.get(&format!("{DRIVER}/m")) == Some(&Attribute::Int(wanted))
    })
}

/// Every set of devices for a request, one alternative at a time.
fn choices(offer: &Offer, way: &Alternative) -> Vec<Vec<usize>> {
    let count = offer.devices.len();
    let fits = |at: &usize| matches(way, &offer.devices[*at]);
    let all: Vec<usize> = (0..count).filter(fits).collect();
    match way.mode {
        Mode::All if all.is_empty() || !offer.unknown.is_empty() => Vec::new(),
        Mode::All => vec![all],
        Mode::Count(n) => (0u32..1 << count)
            .filter(|set| set.count_ones() == n)
            .map(|set| (0..count).filter(|at| set >> at & 1 == 1).collect::<Vec<_>>())
            .filter(|set| set.iter().all(fits))
            .collect(),
    }
}

type Given = Vec<Vec<(usize, usize, usize)>>;

/// True where this breaks no rule: by claim the request, alternative and device of each grant.
fn is_sound(offer: &Offer, claims: &[Claim], taken: &BTreeSet<String>, given: &Given) -> bool {
    let mut used: BTreeSet<usize> = (0..offer.devices.len())
        .filter(|at| taken.contains(offer.devices[*at].id.device.as_ref()))
        .collect();
    for (claim, grants) in claims.iter().zip(given) {
        let mut own = BTreeSet::new();
        for (request, alternative, at) in grants {
            let way = &claim.requests[*request].alternatives[*alternative];
            let device = &offer.devices[*at];
            if !device.is_tolerated(&way.tolerations) || !own.insert(*at) {
                return false;
            }
            if !way.admin && !used.insert(*at) {
                return false;
            }
        }
        for constraint in &claim.constraints {
            let concerns = |request: usize, alternative: usize| {
                let one = &claim.requests[request];
                constraint.requests.is_empty()
                    || constraint.requests.contains(&one.name)
                    || constraint.requests.contains(&one.alternatives[alternative].name)
            };
            let of = grants.iter().filter(|grant| concerns(grant.0, grant.1));
            let (Rule::Match(name) | Rule::Distinct(name)) = &constraint.rule;
            let values: Vec<Option<&Attribute>> =
                of.map(|grant| offer.devices[grant.2].attributes.get(name)).collect();
            let kinds: BTreeSet<_> = values.iter().collect();
            let holds = match &constraint.rule {
                Rule::Match(_) => kinds.len() <= 1,
                Rule::Distinct(_) => kinds.len() == values.len(),
            };
            if !holds || values.contains(&None) {
                return false;
            }
        }
    }
    // Who was there before may have overdrawn; nobody who comes takes what is not there.
    let takes = |at: usize| !taken.contains(offer.devices[at].id.device.as_ref());
    offer.counters.iter().all(|(key, has)| {
        let of = |at: &usize| {
            let parts = offer.devices[*at].consumes.iter().filter(|part| part.set == key.2);
            parts.flat_map(|part| part.counters.values()).map(|n| n.nanos()).sum::<i128>()
        };
        let comes = used.iter().any(|at| takes(*at) && of(at) > 0);
        !comes || used.iter().map(of).sum::<i128>() <= has.nanos()
    })
}

/// True where any choice at all breaks no rule.
fn exists(offer: &Offer, claims: &[Claim], taken: &BTreeSet<String>) -> bool {
    fn go(
        (offer, claims, taken): (&Offer, &[Claim], &BTreeSet<String>),
        (claim, request): (usize, usize),
        given: &mut Given,
    ) -> bool {
        let Some(asked) = claims.get(claim) else { return is_sound(offer, claims, taken, given) };
        let Some(one) = asked.requests.get(request) else {
            return go((offer, claims, taken), (claim + 1, 0), given);
        };
        for (alternative, way) in one.alternatives.iter().enumerate() {
            for choice in choices(offer, way) {
                let before = given[claim].len();
                given[claim].extend(choice.iter().map(|at| (request, alternative, *at)));
                if go((offer, claims, taken), (claim, request + 1), given) {
                    return true;
                }
                given[claim].truncate(before);
            }
        }
        false
    }
    go((offer, claims, taken), (0, 0), &mut vec![Vec::new(); claims.len()])
}

fn given(offer: &Offer, grants: &[Vec<Grant>]) -> Given {
    let at =
        |grant: &Grant| offer.devices.iter().position(|d| d.id == grant.device).expect("known");
    let one = |grant: &Grant| (grant.request, grant.alternative, at(grant));
    grants.iter().map(|grants| grants.iter().map(one).collect()).collect()
}

#[test]
fn devices_are_found_exactly_where_there_are_some() {
    let (mut dice, mut some, mut none) = (Dice(2026), 0, 0);
    for round in 0..3000 {
        let (offer, claims, taken) = made_up(&mut dice);
        let fit = fit(&offer, &claims).expect("selectors");
        let found = allocate(&offer, &claims, &fit, |id| taken.contains(id.device.as_ref()));
        let again = allocate(&offer, &claims, &fit, |id| taken.contains(id.device.as_ref()));
        assert_eq!(found, again, "round {round}");
        let there = exists(&offer, &claims, &taken);
        assert_eq!(found.is_ok(), there, "round {round}: {offer:#?} {claims:#?} {taken:?}");
        let times = capacity(&offer, &claims, &fit, |id| taken.contains(id.device.as_ref()));
        assert_eq!(times > 0, there, "round {round}");
        match found {
            Ok(grants) => {
                some += 1;
                let given = given(&offer, &grants);
                assert!(is_sound(&offer, &claims, &taken, &given), "round {round}: {grants:?}");
            }
            Err(_) => none += 1,
        }
    }
    println!("{some} with devices, {none} without");
    assert!(some > 600 && none > 600, "{some} with devices, {none} without");
}
