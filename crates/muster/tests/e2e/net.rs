//! The network between two nodes, tested by a job on both; and what iperf3 measured, taken over.

use crate::place::{Place, said};

#[test]
fn the_network_between_two_nodes_is_tested_and_shown() {
    let place = Place::new();
    let words = ["--practice", "2x4"];
    let daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let names: Vec<String> =
        place.client().nodes().unwrap().into_iter().map(|node| node.name).collect();
    let pair = [names[1].as_str(), names[0].as_str()];
    let test = place.muster(&["net", "test", pair[0], pair[1], "--seconds", "1", "--mib", "64"]);
    assert!(test.status.success(), "{} {}", said(&test), place.log());
    let text = said(&test);
    assert!(text.contains(&format!("{} -> {}: ", pair[0], pair[1])), "{text}");
    assert!(text.contains("b/s over ") && text.contains("segments sent again"), "{text}");
    // Practice nodes are one machine: its loopback has no speed, and none is made up.
    assert!(text.contains("the link's speed is unknown"), "{text}");

    let iperf3 = r#"{"start": {"test_start": {"reverse": 1}}, "end": {"sum_sent": {"retransmits": 7},
        "sum_received": {"seconds": 10.0, "bits_per_second": 20.0e9}}}"#;
    std::fs::write(place.path("iperf3.json"), iperf3).unwrap();
    let file = place.path("iperf3.json").to_string_lossy().into_owned();
    let ends = ["--client", "cn1", "--server", "cn2", "--link", "25000"];
    let read = place.muster(&[&["net", "read", file.as_str()][..], &ends].concat());
    let wanted =
        "cn2 -> cn1: 20 Gb/s over 10.0 s, 80 % of the link (25 Gb/s), 7 segments sent again\n";
    assert_eq!(said(&read), wanted);

    // Both are told of, also after a new start.
    drop(daemon);
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let tests = place.client().machine().unwrap().bandwidth;
    let told: Vec<_> = tests.iter().map(|test| (&*test.from, &*test.to, &*test.tool)).collect();
    assert_eq!(told, [("cn2", "cn1", "iperf3"), (pair[0], pair[1], "muster")]);
    assert!(tests[1].retransmits.is_some() && tests[1].link_bits_per_second.is_none());
    let list = said(&place.muster(&["net", "list"]));
    assert!(list.contains("80 %") && list.contains(pair[0]), "{list}");

    let unknown = place.muster(&["net", "test", "nowhere", pair[0]]);
    assert!(said(&unknown).contains("nowhere"), "{}", said(&unknown));
    let same = place.muster(&["net", "test", pair[0], pair[0]]);
    assert_eq!(same.status.code(), Some(2), "{}", said(&same));
    std::fs::write(place.path("none.json"), "iperf3: error").unwrap();
    let none = place.path("none.json").to_string_lossy().into_owned();
    let failed = place.muster(&[&["net", "read", none.as_str()][..], &ends].concat());
    assert!(said(&failed).contains("iperf3's JSON"), "{}", said(&failed));
}
