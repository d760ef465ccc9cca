//! An exposition as OTLP's request, in JSON: 64-bit integers are strings, enumerations numbers.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::starts::Starts;
use crate::Exposition;
use crate::exposition::{Value, read_labels};
use crate::families::{Family, Kind};

/// Totals since a start; the other form counts from one request to the next.
const CUMULATIVE: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_metrics: [ResourceMetrics<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    resource: Resource<'a>,
    scope_metrics: [ScopeMetrics<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeMetrics<'a> {
    scope: Scope,
    metrics: Vec<Metric<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Metric<'a> {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    #[serde(flatten)]
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    Gauge(Gauge<'a>),
    Sum(Sum<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gauge<'a> {
    data_points: Vec<Point<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sum<'a> {
    data_points: Vec<Point<'a>>,
    aggregation_temporality: u8,
    is_monotonic: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point<'a> {
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time_unix_nano: Option<String>,
    time_unix_nano: &'a str,
    #[serde(flatten)]
    value: Number,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Number {
    AsInt(String),
    AsDouble(f64),
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: Text,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    string_value: String,
}

fn attribute(key: &str, value: String) -> Attribute<'_> {
    Attribute { key, value: Text { string_value: value } }
}

/// The request with everything that is told, as of `now` in nanoseconds since 1970.
pub(crate) fn body(
    all: &Exposition,
    resource: &[(String, String)],
    starts: &mut Starts,
    now: u64,
) -> Bytes {
    let time = now.to_string();
    let metrics = all.families().map(|(family, samples)| {
        let points = samples.iter().map(|(labels, value)| {
            let start = || starts.of(family.name, labels, *value, now).to_string();
            point(labels, *value, (family.kind == Kind::Counter).then(start), &time)
        });
        metric(family, points.collect())
    });
    let request = Request {
        resource_metrics: [ResourceMetrics {
            resource: Resource {
                attributes: resource.iter().map(|(k, v)| attribute(k, v.clone())).collect(),
            },
            scope_metrics: [ScopeMetrics {
                scope: Scope { name: "muster", version: env!("CARGO_PKG_VERSION") },
                metrics: metrics.collect(),
            }],
        }],
    };
    // Structures of strings and finite numbers always have a JSON form.
    let json = serde_json::to_vec(&request).unwrap_or_default();
    starts.end_round();
    Bytes::from(json)
}

fn metric<'a>(family: &'static Family, data_points: Vec<Point<'a>>) -> Metric<'a> {
    let data = match family.kind {
        Kind::Gauge => Data::Gauge(Gauge { data_points }),
        Kind::Counter => {
            Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
    };
    let unit = ucum(family.unit);
    Metric { name: family.name, description: family.help, unit, data }
}

fn point<'a>(
    labels: &'a Arc<str>,
    value: Value,
    start_time_unix_nano: Option<String>,
    time_unix_nano: &'a str,
) -> Point<'a> {
    let value = match value {
        Value::Whole(whole) if i64::try_from(whole).is_ok() => Number::AsInt(whole.to_string()),
        value => Number::AsDouble(value.real()),
    };
    let labels = read_labels(labels).into_iter();
    let attributes = labels.map(|(key, value)| attribute(key, value)).collect();
    Point { attributes, start_time_unix_nano, time_unix_nano, value }
}

/// A unit by its name in the Unified Code for Units of Measure, which OTLP asks for.
fn ucum(unit: &'static str) -> &'static str {
    match unit {
        "bytes" => "By",
        "bytes per second" => "By/s",
        "MiB" => "MiBy",
        "seconds" => "s",
        "celsius" => "Cel",
        "watts" => "W",
        "packets" => "{packet}",
        "percent" => "%",
        "ratio" => "1",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::ucum;
    use std::collections::BTreeSet;

    #[test]
    fn every_unit_that_is_used_has_its_code() {
        let units: BTreeSet<&str> =
            crate::families::all().map(|family| ucum(family.unit)).collect();
        let known = ["", "By", "By/s", "MiBy", "s", "Cel", "W", "%", "1", "MHz", "mJ", "{packet}"];
        let known = BTreeSet::from(known);
        assert!(units.is_subset(&known), "{:?}", units.difference(&known).collect::<Vec<_>>());
    }
}
