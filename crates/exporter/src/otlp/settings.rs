//! Where to push, how often, and what the receiver is shown.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The period where none is set: that of OpenTelemetry's own programs.
const PERIOD: Duration = Duration::from_mins(1);

/// How long a receiver may take where nothing is set.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest file of headers.
const HEADERS_MAX: u64 = 64 * 1024;

/// What is set on the command line or in the configuration. It comes before OpenTelemetry's variables,
/// which fill what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushWish {
    /// The receiver's address, to which `/v1/metrics` is added.
    pub endpoint: Option<String>,
    /// A file with headers to send, a line `name: value` each.
    pub headers_file: Option<PathBuf>,
    /// How often to push.
    pub period: Option<Duration>,
    /// The service's name.
    pub service: &'static str,
    /// This machine's name.
    pub hostname: String,
}

/// Where to push metrics, how often, and what the receiver is shown.
#[derive(Clone)]
pub struct Push {
    pub(super) address: Uri,
    pub(super) headers: HeaderMap,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
    pub(super) resource: Vec<(String, String)>,
    /// The first pause after a failure; each that follows is twice as long.
    pub(super) pause: Duration,
}

/// The address without what may be secret in it.
impl fmt::Display for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.address.scheme_str().unwrap_or_default();
        let host = self.address.authority().map_or("", |authority| authority.as_str());
        write!(f, "{scheme}://{host}{}", self.address.path())
    }
}

/// What is set for OTLP cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what} [E_OTLP]\nhint: {hint}")]
pub struct OtlpError {
    what: String,
    hint: &'static str,
}

impl OtlpError {
    fn new(what: String, hint: &'static str) -> Self {
        Self { what, hint }
    }
}

impl Push {
    /// What was wished for, completed from the environment; `None` where nobody named a receiver.
    ///
    /// # Errors
    /// What is set cannot be used. No value of a header is in the message.
    pub fn from(
        wish: &PushWish,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtlpError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let own = |name: &str| {
            let own = variable(&format!("OTEL_EXPORTER_OTLP_METRICS_{name}"));
            own.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let Some(address) = endpoint(wish, &variable) else { return Ok(None) };
        // A wish is for what muster speaks; a variable may be meant for programs that speak more.
        if wish.endpoint.is_none() && own("PROTOCOL").is_some_and(|word| word.trim() == "grpc") {
            let what =
                "OTEL_EXPORTER_OTLP_PROTOCOL is grpc; muster speaks OTLP over HTTP".to_owned();
            let hint = "name the receiver's HTTP port, usually 4318, and http/json";
            return Err(OtlpError::new(what, hint));
        }
        let mut headers = HeaderMap::new();
        if let Some(listed) = own("HEADERS") {
            for pair in listed.split(',').filter(|pair| !pair.trim().is_empty()) {
                let pair = pair.split_once('=').map(|(name, value)| (name, decoded(value.trim())));
                header(&mut headers, pair, "OTEL_EXPORTER_OTLP_HEADERS")?;
            }
        }
        if let Some(path) = &wish.headers_file {
            read_headers(path, &mut headers)?;
        }
        let millis = |name: &str| variable(name)?.trim().parse().ok().map(Duration::from_millis);
        let period = wish.period.or_else(|| millis("OTEL_METRIC_EXPORT_INTERVAL"));
        let timeout = millis("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT");
        let timeout = timeout.or_else(|| millis("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let second = Duration::from_secs(1);
        Ok(Some(Self {
            address: checked(&address)?,
            headers,
            period: period.unwrap_or(PERIOD).max(second),
            timeout: timeout.unwrap_or(TIMEOUT).max(Duration::from_millis(1)),
            resource: resource(wish, &variable),
            pause: second,
        }))
    }
}

/// The whole address to push to.
fn endpoint(wish: &PushWish, variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let below = |base: &str| match base.split_once('?') {
        Some((path, query)) => format!("{}/v1/metrics?{query}", path.trim_end_matches('/')),
        None => format!("{}/v1/metrics", base.trim_end_matches('/')),
    };
    if let Some(base) = &wish.endpoint {
        return Some(below(base));
    }
    let is_off = variable("OTEL_SDK_DISABLED")
        .is_some_and(|word| word.eq_ignore_ascii_case("true"))
        || variable("OTEL_METRICS_EXPORTER").is_some_and(|word| word == "none");
    if is_off {
        return None;
    }
    variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| below(base.trim())))
}

fn checked(address: &str) -> Result<Uri, OtlpError> {
    let hint = "an address looks like http://collector:4318; passwords go into a header";
    let bad = || {
        // Whatever it is, it may hold a secret.
        OtlpError::new("the address of the OTLP receiver is not one of HTTP".to_owned(), hint)
    };
    let uri: Uri = address.trim().parse().map_err(|_| bad())?;
    let fits = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    fits.then_some(uri).ok_or_else(bad)
}

fn read_headers(path: &std::path::Path, headers: &mut HeaderMap) -> Result<(), OtlpError> {
    let shown = path.display().to_string();
    let hint = "a line is a header, such as: authorization: Bearer TOKEN";
    let wrong = |why: String| OtlpError::new(format!("{shown} cannot be read: {why}"), hint);
    let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if length > HEADERS_MAX {
        return Err(wrong(format!("it is longer than {HEADERS_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines.filter(|line| !line.starts_with('#')) {
        let pair = line.split_once(':').map(|(name, value)| (name, value.trim().to_owned()));
        header(headers, pair, &shown)?;
    }
    Ok(())
}

/// Adds a header; `place` says where it stands, for the message.
fn header(
    headers: &mut HeaderMap,
    pair: Option<(&str, String)>,
    place: &str,
) -> Result<(), OtlpError> {
    let hint = "a header is a name and a value; what is no header's text is not taken";
    let bad = || OtlpError::new(format!("{place} holds something that is no header"), hint);
    let (name, value) = pair.ok_or_else(bad)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| bad())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// `%41` as `A`, as variables have values.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Who pushes: the host, the service, and what the environment adds.
fn resource(wish: &PushWish, variable: &impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let version = env!("CARGO_PKG_VERSION");
    let mut all: Vec<(String, String)> = [
        ("service.name", wish.service),
        ("service.version", version),
        ("service.instance.id", &wish.hostname),
        ("host.name", &wish.hostname),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    let listed = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let listed = listed.split(',').filter_map(|pair| pair.split_once('='));
    let listed = listed.map(|(key, value)| (key.trim().to_owned(), decoded(value.trim())));
    let named = variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
    for (key, value) in listed.chain(named) {
        all.retain(|(known, _)| *known != key);
        all.push((key, value));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Push, PushWish};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn push(wish: &PushWish, variables: &[(&str, &str)]) -> Result<Option<Push>, String> {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
        Push::from(wish, variable).map_err(|error| error.to_string())
    }

    fn wish(endpoint: &str) -> PushWish {
        let endpoint = Some(endpoint.to_owned());
        PushWish { endpoint, service: "muster", hostname: "n1".to_owned(), ..PushWish::default() }
    }

    #[test]
    fn nobody_named_a_receiver_and_nothing_is_pushed() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        let none = PushWish::default();
        assert!(push(&none, &[]).unwrap().is_none());
        assert!(push(&none, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap().is_none());
        assert!(push(&none, &[base, ("OTEL_SDK_DISABLED", "True")]).unwrap().is_none());
        assert!(push(&none, &[base, ("OTEL_METRICS_EXPORTER", "none")]).unwrap().is_none());
        assert!(push(&none, &[base]).unwrap().is_some());
        assert!(push(&wish("http://a"), &[("OTEL_SDK_DISABLED", "true")]).unwrap().is_some());
    }

    #[test]
    fn a_base_gets_the_path_of_metrics_and_a_whole_address_stays() {
        let of = |wish: &PushWish, variables: &[(&str, &str)]| {
            push(wish, variables).unwrap().unwrap().address.to_string()
        };
        let none = PushWish::default();
        assert_eq!(of(&wish("http://a:4318/"), &[]), "http://a:4318/v1/metrics");
        assert_eq!(of(&wish("https://a/otlp?x=1"), &[]), "https://a/otlp/v1/metrics?x=1");
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:4318");
        assert_eq!(of(&none, &[base]), "http://b:4318/v1/metrics");
        let whole = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:4318/own");
        assert_eq!(of(&none, &[base, whole]), "http://c:4318/own");
        assert_eq!(of(&wish("http://a"), &[base, whole]), "http://a/v1/metrics");
    }

    #[test]
    fn variables_fill_what_is_left_out() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("headers");
        std::fs::write(&file, "# for the collector\nauthorization: Basic c2U6Y3JldA==\n\n")
            .unwrap();
        let wish = PushWish { headers_file: Some(file), ..wish("http://a") };
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20old, x-tenant=t%3D1"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=a"),
            ("OTEL_SERVICE_NAME", "gpu-farm"),
        ];
        let push = push(&wish, &variables).unwrap().unwrap();
        assert_eq!(push.headers["authorization"], "Basic c2U6Y3JldA==");
        assert_eq!(push.headers["x-tenant"], "t=1");
        assert!(!format!("{:?}", push.headers).contains("c2U6"), "{:?}", push.headers);
        assert_eq!((push.period, push.timeout.as_millis()), (Duration::from_secs(5), 2_500));
        let resource: BTreeMap<_, _> = push.resource.iter().cloned().collect();
        assert_eq!((resource.len(), push.resource.len()), (5, 5));
        assert_eq!(resource["service.name"], "gpu-farm");
        assert_eq!((&*resource["host.name"], &*resource["service.instance.id"]), ("n1", "n1"));
        assert_eq!(resource["deployment.environment"], "test");
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_its_secrets() {
        for address in ["a:4318", "ftp://a", "http://u:secret@a", "http://", "http://a b/secret"] {
            let error = push(&wish(address), &[]).err().unwrap();
            assert!(error.contains("[E_OTLP]") && !error.contains("secret"), "{error}");
        }
        for headers in ["secret", "a b=secret", "a=secret\nb"] {
            let error = push(&wish("http://a"), &[("OTEL_EXPORTER_OTLP_HEADERS", headers)]);
            let error = error.err().unwrap();
            assert!(error.contains("[E_OTLP]") && !error.contains("secret"), "{error}");
        }
        let gone = PushWish { headers_file: Some("/nonexistent/h".into()), ..wish("http://a") };
        assert!(push(&gone, &[]).err().unwrap().contains("/nonexistent/h cannot be read"));
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317");
        let grpc = push(&PushWish::default(), &[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(grpc.err().unwrap().contains("over HTTP"));
    }
}
