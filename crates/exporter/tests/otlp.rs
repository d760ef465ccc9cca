//! What is pushed by OTLP is what is scraped, value by value, as OpenTelemetry's own messages read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use muster_exporter::families::{Kind, all};
use muster_exporter::{Exposition, Owners, Push, PushWish, Settings, exposition, push};
use muster_node_metrics::collector::{Collector, Options};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, metric, number_data_point};

/// What hangs fails.
const PATIENCE: Duration = Duration::from_mins(1);

/// A request as the receiver got it.
struct Got {
    head: Vec<String>,
    body: Vec<u8>,
}

impl Got {
    fn request(&self) -> ExportMetricsServiceRequest {
        serde_json::from_slice(&self.body).expect("a request of OTLP")
    }
}

/// A receiver that gives these answers, the last of them for ever.
fn receiver(answers: &'static [&'static str]) -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (send, got) = channel();
    std::thread::spawn(move || {
        for round in 0.. {
            let Ok((stream, _)) = listener.accept() else { return };
            let answer = answers[round.min(answers.len() - 1)];
            if !receive(&stream, answer, &send) {
                return;
            }
        }
    });
    (endpoint, got)
}

fn receive(mut stream: &TcpStream, answer: &str, send: &Sender<Got>) -> bool {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (Vec::<String>::new(), String::new());
    while reader.read_line(&mut line).expect("a request") > 2 {
        head.push(std::mem::take(&mut line).trim().to_lowercase());
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    reader.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("answered");
    send.send(Got { head, body }).is_ok()
}

fn wish(endpoint: &str) -> PushWish {
    PushWish {
        endpoint: Some(endpoint.to_owned()),
        period: Some(Duration::from_secs(1)),
        service: "muster-export",
        hostname: "gpu08".to_owned(),
        ..PushWish::default()
    }
}

fn settled(wish: &PushWish) -> Push {
    Push::from(wish, |_| None).expect("sound").expect("named")
}

/// What the captured machine tells, each with the text that a scrape would have got.
fn captured(texts: Sender<String>) -> impl FnMut() -> Exposition + Send + 'static {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captured/gpu-node");
    let options = Options { root, processes: true, ..Options::default() };
    let mut collector = Collector::new(&options);
    let settings = Settings { hostname: "gpu08".to_owned(), ..Settings::default() };
    move || {
        let all = exposition(&collector.collect(), &Owners::default(), &settings);
        // The test may be over.
        let _ = texts.send(all.open_metrics());
        all
    }
}

/// A series as an exposition writes it.
fn line(name: &str, point: &NumberDataPoint) -> String {
    let mut line = name.to_owned();
    let mut before = '{';
    for (key, value) in point.attributes.iter().map(pair) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        write!(line, "{before}{key}=\"{value}\"").expect("a string");
        before = ',';
    }
    if before == ',' {
        line.push('}');
    }
    match point.value.expect("a value") {
        number_data_point::Value::AsInt(whole) => line + &format!(" {whole}"),
        number_data_point::Value::AsDouble(real) => line + &format!(" {real}"),
    }
}

fn pair(attribute: &KeyValue) -> (&str, &str) {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => (&attribute.key, text),
        other => panic!("{}: {other:?}", attribute.key),
    }
}

/// Every series, and the start of those that are counters.
fn lines(request: &ExportMetricsServiceRequest) -> BTreeMap<String, Option<u64>> {
    let scopes = request.resource_metrics.iter().flat_map(|one| &one.scope_metrics);
    let mut lines = BTreeMap::new();
    for one in scopes.flat_map(|scope| &scope.metrics) {
        let family = all().find(|family| family.name == one.name).expect("a known metric");
        assert_eq!(one.description, family.help);
        let (points, is_counter) = match one.data.as_ref().expect("data") {
            metric::Data::Gauge(gauge) => (&gauge.data_points, false),
            metric::Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{}", one.name);
                (&sum.data_points, true)
            }
            other => panic!("{}: {other:?}", one.name),
        };
        assert_eq!(is_counter, family.kind == Kind::Counter, "{}", one.name);
        for point in points {
            assert!(point.time_unix_nano >= point.start_time_unix_nano, "{}", one.name);
            assert_eq!(point.start_time_unix_nano > 0, is_counter, "{}", one.name);
            let start = is_counter.then_some(point.start_time_unix_nano);
            assert_eq!(lines.insert(line(&one.name, point), start), None, "{}", one.name);
        }
    }
    lines
}

#[test]
fn what_is_pushed_is_what_is_scraped() {
    let (endpoint, got) = receiver(&["200 OK"]);
    let (send, texts) = channel();
    push(settled(&wish(&endpoint)), captured(send), |_| ()).expect("started");
    let mut starts = BTreeMap::new();
    for round in 0..2 {
        let request = got.recv_timeout(PATIENCE).expect("a push");
        assert_eq!(request.head[0], "post /v1/metrics http/1.1");
        assert!(request.head.contains(&"content-type: application/json".to_owned()));
        let request = request.request();
        let pushed = lines(&request);
        let text = texts.recv_timeout(PATIENCE).expect("collected");
        let scraped: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(scraped.len() > 200, "{} series", scraped.len());
        let mut wanted: Vec<&str> = scraped.clone();
        wanted.sort_unstable();
        assert_eq!(pushed.keys().collect::<Vec<_>>(), wanted);
        // A counter that goes on counts from where it was first seen.
        let counters = pushed.iter().filter_map(|(line, start)| {
            let (series, _value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), (*start)?))
        });
        let counters: BTreeMap<String, u64> = counters.collect();
        if round == 1 {
            assert!(counters.len() > 50 && counters == starts, "{} counters", counters.len());
        }
        starts = counters;
        let resource = request.resource_metrics[0].resource.as_ref().expect("a resource");
        let resource: BTreeMap<&str, &str> = resource.attributes.iter().map(pair).collect();
        assert_eq!(resource["service.name"], "muster-export");
        assert_eq!((resource["host.name"], resource["service.instance.id"]), ("gpu08", "gpu08"));
    }
}

#[test]
fn headers_go_along_and_are_not_told() {
    let (endpoint, got) = receiver(&["403 Forbidden"]);
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("headers");
    std::fs::write(&file, "Authorization: Bearer s3cret\n").expect("written");
    let wish = PushWish { headers_file: Some(file), ..wish(&endpoint) };
    let (send, notes) = channel();
    let note = move |line: &str| send.send(line.to_owned()).unwrap_or_default();
    push(settled(&wish), captured(channel().0), note).expect("started");
    let request = got.recv_timeout(PATIENCE).expect("a push");
    assert!(request.head.contains(&"authorization: bearer s3cret".to_owned()));
    let note = notes.recv_timeout(PATIENCE).expect("a note");
    assert!(note.contains("403 Forbidden") && note.contains(&endpoint), "{note}");
    assert!(!note.contains("s3cret"), "{note}");
    // It is not asked the same again: the next request is the next round.
    let next = got.recv_timeout(PATIENCE).expect("a push");
    assert_ne!(next.body, request.body);
}

#[test]
fn a_receiver_that_is_busy_gets_the_same_again() {
    let (endpoint, got) = receiver(&[
        "503 Service Unavailable\r\nRetry-After: 0",
        "429 Too Many Requests\r\nRetry-After: 0",
        "502 Bad Gateway",
        "200 OK",
    ]);
    let (send, notes) = channel();
    let note = move |line: &str| send.send(line.to_owned()).unwrap_or_default();
    push(settled(&wish(&endpoint)), captured(channel().0), note).expect("started");
    let bodies: Vec<Vec<u8>> =
        (0..5).map(|_| got.recv_timeout(PATIENCE).expect("a push").body).collect();
    assert!(bodies[..4].iter().all(|body| *body == bodies[0]));
    assert_ne!(bodies[4], bodies[0]);
    let told: Vec<String> = (0..4).map(|_| notes.recv_timeout(PATIENCE).expect("a note")).collect();
    for (note, wanted) in told.iter().zip(["503", "429", "502", "takes metrics again"]) {
        assert!(note.contains(wanted), "{told:?}");
    }
}
