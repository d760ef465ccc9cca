//! Query strings.

use serde::Serialize;
use std::fmt::Write as _;

/// `path?name=value&…` of a flat struct; absent fields are left out.
pub(crate) fn with_query(path: &str, query: &impl Serialize) -> String {
    let mut text = path.to_owned();
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(query) else { return text };
    let mut mark = '?';
    for (name, value) in fields {
        let value = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(s) => s,
            other => other.to_string(),
        };
        text.push(mark);
        mark = '&';
        text.push_str(&name);
        text.push('=');
        encode(&value, &mut text);
    }
    text
}

/// One segment of a path or value, percent-encoded (RFC 3986, unreserved characters stay).
pub(crate) fn encode(value: &str, out: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::QueueQuery;

    #[test]
    fn absent_fields_are_left_out_and_others_encoded() {
        let query = QueueQuery {
            jobs: Some("900_[1-3],7".to_owned()),
            limit: Some(5),
            ..QueueQuery::default()
        };
        assert_eq!(with_query("/v1/queue", &query), "/v1/queue?jobs=900_%5B1-3%5D,7&limit=5");
        assert_eq!(with_query("/v1/queue", &QueueQuery::default()), "/v1/queue");
    }
}
