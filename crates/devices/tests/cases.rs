//! What is given, by the reference of `resource.k8s.io` and KEPs 4381 (claims), 4815 (counters),
//! 4816 (alternatives), 5018 (administration) and 5055 (taints).

mod common;

use common::{
    DRIVER, alternative, amount, claim, device, fit, found, matching, offer, part, request, text,
    with_counters,
};
use muster_devices::{
    Attribute, Claim, Constraint, Device, Effect, Mode, Offer, Request, Rule, Taint, Toleration,
    capacity,
};

fn gpus(count: usize) -> Offer {
    offer((0..count).map(|at| device(&format!("g{at}"), &[])).collect())
}

fn one(mode: Mode) -> Claim {
    claim(vec![request("r", mode, &[])])
}

fn times(offer: &Offer, claims: &[Claim], taken: &[&str]) -> u32 {
    let fit = fit(offer, claims).expect("selectors");
    capacity(offer, claims, &fit, |id| taken.contains(&id.device.as_ref()))
}

#[test]
fn so_many_devices_are_given_as_are_asked_for_none_twice() {
    assert_eq!(found(&gpus(4), &[one(Mode::Count(2))], &["g1"]).expect("some"), ["r: g0 g2"]);
    let two = [one(Mode::Count(2)), one(Mode::Count(1))];
    assert_eq!(found(&gpus(4), &two, &["g1"]).expect("some"), ["r: g0 g2", "r: g3"]);
    assert_eq!(found(&gpus(3), &two, &["g1"]), None);
    assert_eq!(found(&gpus(40), &[one(Mode::Count(32))], &[]).expect("some").len(), 1);
    assert_eq!(found(&gpus(40), &[one(Mode::Count(33))], &[]), None, "32 a claim are the most");
    assert_eq!(found(&gpus(4), &[one(Mode::Count(u32::MAX))], &[]), None);
}

#[test]
fn all_are_all_that_match_and_at_least_one() {
    let all = [one(Mode::All)];
    assert_eq!(found(&gpus(4), &all, &["g2"]), None);
    assert_eq!(found(&gpus(0), &all, &[]), None);
    assert_eq!(found(&gpus(3), &all, &[]).expect("some"), ["r: g0 g1 g2"]);
    assert_eq!(found(&gpus(33), &all, &[]), None);
    // For administration what others have is no hindrance, and nothing is taken from anyone.
    let mut admin = one(Mode::All);
    admin.requests[0].alternatives[0].admin = true;
    assert_eq!(found(&gpus(4), &[admin.clone()], &["g2"]).expect("some"), ["r: g0 g1 g2 g3"]);
    let both = [admin, one(Mode::Count(3))];
    assert_eq!(found(&gpus(4), &both, &["g2"]).expect("some")[1], "r: g0 g1 g3");
    // Where a pool is not known whole nobody knows all.
    let mut half = gpus(3);
    half.unknown.push("pool p is incomplete".to_owned());
    assert_eq!(found(&half, &all, &[]), None);
    assert_eq!(found(&half, &[one(Mode::Count(1))], &[]).expect("some"), ["r: g0"]);
}

#[test]
fn the_first_alternative_that_can_be_met_is() {
    let big = |free: usize, small: usize| {
        let model =
            |kind: &str, at: usize| device(&format!("{kind}{at}"), &[("model", text(kind))]);
        offer(
            (0..free)
                .map(|at| model("H100-", at))
                .chain((0..small).map(|at| model("L4-", at)))
                .collect(),
        )
    };
    let is = |kind: &str| format!("device.attributes['{DRIVER}'].model == '{kind}-'");
    let either = Request {
        name: "gpu".to_owned(),
        alternatives: vec![
            alternative("gpu/big", Mode::Count(1), &[&is("H100")]),
            alternative("gpu/small", Mode::Count(2), &[&is("L4")]),
        ],
    };
    let claims = [claim(vec![either])];
    assert_eq!(found(&big(0, 2), &claims, &[]).expect("some"), ["gpu/small: L4-0 L4-1"]);
    assert_eq!(found(&big(1, 2), &claims, &[]).expect("some"), ["gpu/big: H100-0"]);
    assert_eq!(found(&big(0, 1), &claims, &[]), None);
    assert_eq!(times(&big(2, 5), &claims, &[]), 4, "two big ones, and two pairs");
}

#[test]
fn a_match_is_found_by_going_back_and_a_device_without_the_attribute_has_none() {
    let devices = vec![
        device("d0", &[("root", text("A"))]),
        device("d1", &[("root", text("B"))]),
        device("d2", &[]),
        device("d3", &[("root", text("B"))]),
    ];
    let mut pair = one(Mode::Count(2));
    pair.constraints.push(matching(&[], "root"));
    assert_eq!(found(&offer(devices.clone()), &[pair.clone()], &[]).expect("some"), ["r: d1 d3"]);
    assert_eq!(found(&offer(devices.clone()), &[pair], &["d3"]), None);
    let mut single = one(Mode::Count(1));
    single.constraints.push(matching(&["r"], "root"));
    assert_eq!(found(&offer(devices.clone()), &[single], &["d0", "d1", "d3"]), None);
    let mut apart = one(Mode::Count(2));
    let rule = Rule::Distinct(format!("{DRIVER}/root"));
    apart.constraints.push(Constraint { requests: Vec::new(), rule });
    assert_eq!(found(&offer(devices.clone()), &[apart.clone()], &[]).expect("some"), ["r: d0 d1"]);
    assert_eq!(found(&offer(devices), &[apart], &["d0"]), None);
    // A number is not the text that reads the same, and several values are not one.
    let mixed = vec![
        device("d0", &[("root", Attribute::Int(1))]),
        device("d1", &[("root", text("1"))]),
        device("d2", &[("root", Attribute::Many(vec![text("1")]))]),
    ];
    let mut pair = one(Mode::Count(2));
    pair.constraints.push(matching(&[], "root"));
    assert_eq!(found(&offer(mixed), &[pair], &[]), None);
}

#[test]
fn counters_are_shared_and_what_is_allocated_is_counted_once() {
    let card = || {
        vec![part("full", "s", "80Gi"), part("half-0", "s", "40Gi"), part("half-1", "s", "40Gi")]
    };
    let card = with_counters(offer(card()), &[("s", "80Gi")]);
    let named = |name: &str| {
        let selector = format!("device.capacity['{DRIVER}'].memory == quantity('{name}')");
        claim(vec![request("r", Mode::Count(1), &[&selector])])
    };
    let mut sized = card.clone();
    for device in &mut sized.devices {
        let mut one = Device::clone(device);
        let memory = one.consumes[0].counters["memory"];
        one.capacity.insert(format!("{DRIVER}/memory"), memory);
        *device = one.into();
    }
    assert_eq!(found(&sized, &[named("80Gi")], &["half-0"]), None);
    assert_eq!(found(&sized, &[named("40Gi")], &["half-0"]).expect("some"), ["r: half-1"]);
    assert_eq!(found(&sized, &[named("40Gi")], &["full"]), None);
    assert_eq!(found(&sized, &[named("80Gi")], &[]).expect("some"), ["r: full"]);
    assert_eq!(times(&sized, &[one(Mode::Count(1))], &[]), 2, "the halves, not the whole");
    // A set of which nothing is told has nothing.
    assert_eq!(
        found(&with_counters(sized, &[("other", "1Gi")]), &[named("80Gi")], &[]).map(|f| f.len()),
        Some(1)
    );
    assert_eq!(found(&offer(vec![part("full", "s", "80Gi")]), &[one(Mode::Count(1))], &[]), None);
}

#[test]
fn partitions_go_where_something_is_broken_up_already() {
    let devices = vec![
        part("a-full", "a", "80Gi"),
        part("a-0", "a", "40Gi"),
        part("a-1", "a", "40Gi"),
        part("b-full", "b", "80Gi"),
        part("b-0", "b", "40Gi"),
        part("b-1", "b", "40Gi"),
    ];
    let cards = with_counters(offer(devices), &[("a", "80Gi"), ("b", "80Gi")]);
    assert_eq!(found(&cards, &[one(Mode::Count(1))], &["b-0"]).expect("some"), ["r: b-1"]);
    let two = [one(Mode::Count(1)), one(Mode::Count(1))];
    assert_eq!(found(&cards, &two, &[]).expect("some"), ["r: a-0", "r: a-1"]);
}

#[test]
fn the_smallest_group_by_topology_that_has_enough_is_taken() {
    let at =
        |name: &str, root: &str| device(name, &[("resource.kubernetes.io/pcieRoot", text(root))]);
    let node = offer(vec![
        at("a0", "a"),
        at("a1", "a"),
        at("a2", "a"),
        at("b0", "b"),
        at("b1", "b"),
        at("c0", "c"),
    ]);
    assert_eq!(found(&node, &[one(Mode::Count(1))], &[]).expect("some"), ["r: c0"]);
    assert_eq!(found(&node, &[one(Mode::Count(2))], &[]).expect("some"), ["r: b0 b1"]);
    assert_eq!(found(&node, &[one(Mode::Count(3))], &[]).expect("some"), ["r: a0 a1 a2"]);
    assert_eq!(found(&node, &[one(Mode::Count(4))], &[]).expect("some"), ["r: a0 a1 a2 b0"]);
    assert_eq!(found(&node, &[one(Mode::Count(1))], &["a0", "a1", "c0"]).expect("some"), ["r: a2"]);
}

#[test]
fn a_taint_keeps_off_who_does_not_tolerate_it() {
    let taint = |effect| Taint { key: "broken".to_owned(), value: "yes".to_owned(), effect };
    let mut node = gpus(2);
    let tainted = |effect| Device { taints: vec![taint(effect)], ..device("g0", &[]) };
    node.devices[0] = tainted(Effect::NoSchedule).into();
    assert_eq!(found(&node, &[one(Mode::Count(1))], &[]).expect("some"), ["r: g1"]);
    assert_eq!(found(&node, &[one(Mode::All)], &[]), None, "all of them may not be given");
    let tolerating = |key: Option<&str>, value: Option<&str>, effect| {
        let mut claim = one(Mode::Count(2));
        let text = |text: &str| text.to_owned();
        claim.requests[0].alternatives[0].tolerations =
            vec![Toleration { key: key.map(text), value: value.map(text), effect }];
        found(&node, &[claim], &[]).is_some()
    };
    assert!(tolerating(None, None, None) && tolerating(Some("broken"), None, None));
    assert!(tolerating(Some("broken"), Some("yes"), Some(Effect::NoSchedule)));
    assert!(!tolerating(Some("broken"), Some("no"), None));
    assert!(!tolerating(Some("broken"), None, Some(Effect::NoExecute)));
    assert!(!tolerating(Some("other"), None, None));
    node.devices[0] = tainted(Effect::None).into();
    assert_eq!(found(&node, &[one(Mode::Count(2))], &[]).expect("some"), ["r: g0 g1"]);
}

#[test]
fn what_is_not_understood_is_given_to_nobody() {
    let mut node = gpus(2);
    node.devices[0] =
        Device { unusable: Some("binding conditions".to_owned()), ..device("g0", &[]) }.into();
    assert_eq!(found(&node, &[one(Mode::Count(1))], &[]).expect("some"), ["r: g1"]);
    assert_eq!(found(&node, &[one(Mode::Count(2))], &[]), None);
}

#[test]
fn a_hard_search_ends() {
    let attributes = |at: usize| {
        [("x", Attribute::Int((at % 7) as i64)), ("y", Attribute::Int((at * 5 % 11) as i64))]
    };
    let mut node = offer((0..96).map(|at| device(&format!("g{at:02}"), &attributes(at))).collect());
    for at in 0..96 {
        let mut one = Device::clone(&node.devices[at]);
        one.capacity.insert(format!("{DRIVER}/m"), amount(&at.to_string()));
        node.devices[at] = one.into();
    }
    let mut claim = one(Mode::Count(30));
    claim.constraints.push(matching(&[], "x"));
    claim.constraints.push(matching(&[], "y"));
    assert_eq!(found(&node, &[claim], &[]), None);
}
