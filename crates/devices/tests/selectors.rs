//! Selectors, as the reference of `resource.k8s.io` has them.

mod common;

use common::{CLASS, DRIVER, amount, claim, classes, device, fit, found, offer, request, text};
use muster_devices::{Attribute, Device, Mode, Offer, SelectorError, Selectors};
use std::collections::BTreeMap;

fn one() -> Offer {
    let mut gpu: Device = device(
        "gpu-0",
        &[
            ("model", text("H200")),
            ("index", Attribute::Int(3)),
            ("ecc", Attribute::Bool(true)),
            ("driverVersion", Attribute::Version("1.2.10".to_owned())),
            ("resource.kubernetes.io/pcieRoot", text("pci0000:00")),
            ("links", Attribute::Many(vec![Attribute::Int(1), Attribute::Int(4)])),
        ],
    );
    gpu.capacity.insert(format!("{DRIVER}/memory"), amount("141Gi"));
    offer(vec![gpu])
}

fn holds(selector: &str) -> Result<bool, SelectorError> {
    let claims = [claim(vec![request("r", Mode::Count(1), &[selector])])];
    fit(&one(), &claims)?;
    Ok(found(&one(), &claims, &[]).is_some())
}

#[test]
fn a_selector_sees_driver_attributes_and_capacity() {
    let cases = [
        ("device.driver == 'gpu.example.com'", true),
        ("device.attributes['gpu.example.com'].model == 'H200'", true),
        ("device.attributes['gpu.example.com'].model.startsWith('H1')", false),
        ("device.attributes['gpu.example.com'].index > 2", true),
        ("device.attributes['gpu.example.com'].ecc", true),
        ("device.attributes['resource.kubernetes.io'].pcieRoot.matches('^pci[0-9]')", true),
        ("'model' in device.attributes['gpu.example.com']", true),
        ("has(device.attributes['gpu.example.com'].colour)", false),
        // Of a domain nothing may be said at all.
        ("has(device.attributes['other.example.com'].model)", false),
        ("4 in device.attributes['gpu.example.com'].links", true),
        ("device.attributes['gpu.example.com'].links.exists(l, l == 2)", false),
        ("device.attributes['gpu.example.com'].driverVersion.isLessThan(semver('1.3.0'))", true),
        ("device.attributes['gpu.example.com'].driverVersion.compareTo(semver('1.2.9')) > 0", true),
        ("device.attributes['gpu.example.com'].driverVersion == semver('1.2.10')", true),
        ("device.attributes['gpu.example.com'].driverVersion.major() == 1", true),
        ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('80Gi'))", true),
        ("device.capacity['gpu.example.com'].memory.compareTo(quantity('141Gi')) >= 0", true),
        ("device.capacity['gpu.example.com'].memory.isLessThan(quantity('141Gi'))", false),
        ("device.capacity['gpu.example.com'].memory == quantity('144384Mi')", true),
        ("device.capacity['gpu.example.com'].memory.asInteger() == 151397597184", true),
        ("quantity('1Gi').add(quantity('1Gi')).sub(1073741824) == quantity('1Gi')", true),
        ("isQuantity('20') && !isQuantity('x') && isSemver('1.0.0') && !isSemver('1')", true),
        ("device.allowMultipleAllocations", false),
    ];
    for (selector, expected) in cases {
        assert_eq!(holds(selector), Ok(expected), "{selector}");
    }
}

#[test]
fn a_selector_that_cannot_be_used_is_an_error_with_its_text_and_never_a_match() {
    let error = holds("device.attributes['gpu.example.com'].colour == 'red'").expect_err("no key");
    let said = error.to_string();
    assert!(said.contains("gpu-0") && said.contains("colour"), "{said}");
    assert!(matches!(error, SelectorError::Failed { .. }), "{error:?}");
    let malformed = [
        "device.driver ==",
        "device.driver == 'a' )",
        "",
        "1 +",
        "\"",
        "device.attributes[",
        "\u{0}",
        "has(device)",
    ];
    for selector in malformed {
        let error = holds(selector).expect_err(selector);
        assert!(!error.to_string().is_empty());
    }
    for selector in
        ["1", "device.driver", "device", "nothing", "device.driver > 1", "quantity('x')"]
    {
        assert!(matches!(holds(selector), Err(SelectorError::Failed { .. })), "{selector}");
    }
}

#[test]
fn what_a_selector_costs_is_bounded_before_it_is_run() {
    let nested = |times: usize| {
        let list = "[1,2,3,4,5,6,7,8,9,10]";
        let open: Vec<String> = (0..times).map(|at| format!("{list}.all(x{at}, ")).collect();
        let open = open.concat();
        format!("{open}true{}", ")".repeat(times))
    };
    assert_eq!(holds(&nested(3)), Ok(true));
    let dear = [
        nested(7),
        "(".repeat(5000) + "true" + &")".repeat(5000),
        "!".repeat(5000) + "true",
        "[".repeat(4000) + &"]".repeat(4000) + " == []",
        "1".to_owned() + &"+1".repeat(5000) + " == 1",
        "device".to_owned() + &".a".repeat(4000),
        "true".to_owned() + &" ? true : true".repeat(600),
        "device".to_owned() + &"[0]".repeat(3000),
        "'".to_owned() + &"x".repeat(11_000) + "' == ''",
        "true".to_owned() + &" == true".repeat(1200),
        "device".to_owned() + &".a()".repeat(2400),
    ];
    // Long chains of choices are balanced, and so not deep.
    for longest in
        ["true".to_owned() + &" && true".repeat(190), "true".to_owned() + &" || true".repeat(190)]
    {
        assert_eq!(holds(&longest), Ok(true), "{longest}");
    }
    for read_and_refused in [
        "1".to_owned() + &"+1".repeat(390) + " == 391",
        "true".to_owned() + &" ? true : true".repeat(190),
        "true".to_owned() + &" == true".repeat(190),
        "device".to_owned() + &".a".repeat(390),
        "device".to_owned() + &"[0]".repeat(190),
    ] {
        holds(&read_and_refused).expect_err("too deep");
    }
    let deepest = "1".to_owned() + &"+1".repeat(28) + " == 29";
    assert_eq!(holds(&deepest), Ok(true));
    for selector in dear {
        let error = holds(&selector).expect_err("too dear");
        assert!(error.to_string().len() < 1000, "{error}");
    }
}

#[test]
fn any_text_is_an_answer_or_an_error() {
    let words = [
        "device",
        ".",
        "attributes",
        "[",
        "]",
        "'gpu.example.com'",
        "(",
        ")",
        "==",
        "&&",
        "||",
        "!",
        "?",
        ":",
        "true",
        "1",
        "-",
        "\"",
        "has",
        "all",
        ",",
        "x",
        "{",
        "}",
        "quantity",
        "in",
        "0x",
        "1e",
        "\\",
        "r'",
        "b'",
        "\u{fe0f}",
        "map",
        "exists",
        ".?",
        "[?",
        "/",
        "%",
        "null",
    ];
    let mut seed = 7u64;
    for _ in 0..1500 {
        let mut text = String::new();
        for _ in 0..14 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(seed >> 33) as usize % words.len()]);
        }
        drop(holds(&text));
    }
}

#[test]
fn the_class_of_a_request_has_to_be_there_and_its_selectors_hold_too() {
    let mut classes = classes();
    let claims = [claim(vec![request("r", Mode::Count(1), &["true"])])];
    classes.insert(CLASS.to_owned(), vec!["device.driver == 'another'".to_owned()]);
    let fit = Selectors::default().fit(&one(), &claims, &classes).expect("selectors");
    assert!(muster_devices::allocate(&one(), &claims, &fit, |_| false).is_err());
    let error = Selectors::default().fit(&one(), &claims, &BTreeMap::new()).expect_err("no class");
    assert_eq!(error.to_string(), "request \"r\": device class \"gpu\" does not exist");
}
