//! A daemon that pushes its metrics.

use crate::place::Place;
use crate::report::one_post;
use std::net::TcpListener;

#[test]
fn a_daemon_pushes_where_it_is_told_to() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = place.path("muster.toml");
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::fs::write(&file, format!("[otlp]\nendpoint = \"{endpoint}\"\n")).unwrap();
    let file = file.to_string_lossy().into_owned();
    let words = ["--practice", "2x4", "--config", file.as_str()];
    let _daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    let pushed: serde_json::Value = serde_json::from_str(&one_post(&listener)).unwrap();
    let all = &pushed["resourceMetrics"][0];
    let resource = all["resource"]["attributes"].as_array().unwrap();
    assert!(resource.iter().any(|one| one["key"] == "host.name"), "{resource:?}");
    let service = resource.iter().find(|one| one["key"] == "service.name").unwrap();
    assert_eq!(service["value"]["stringValue"], "muster");
    let metrics = all["scopeMetrics"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|one| one["name"] == "muster_export_info"), "{metrics:?}");
    assert!(place.log().contains(&format!("metrics go to {endpoint}/v1/metrics")));
}
