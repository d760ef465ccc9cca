//! Metrics pushed by OTLP.

use crate::address::WebAddress;
use crate::amount::Duration;
use crate::key::section;
use std::path::PathBuf;

section! {
    /// The daemon's metrics (those of `GET /v1/metrics`, as an admin sees them) pushed by OTLP over HTTP, in its JSON
    /// form. Off without an endpoint. What is left out here is taken from OpenTelemetry's variables
    /// (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS` and others) in the daemon's environment.
    one "otlp" OtlpSection {
        /// The receiver, such as `http://collector:4318`; `/v1/metrics` is added.
        endpoint: Option<WebAddress> = None, "web address", restart;
        /// A file with headers to send, a line `name: value` each; for tokens, which have no place in this file.
        headers_file: Option<PathBuf> = None, "path", restart;
        /// How often to push; without it every minute.
        period: Option<Duration> = None, "duration", restart;
    }
}
