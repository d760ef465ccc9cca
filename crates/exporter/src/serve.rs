//! The endpoint that Prometheus scrapes.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use muster_node_metrics::collector::Collector;
use muster_pages::{Asked, Page};
pub use muster_pages::{OPEN_METRICS, TEXT};
use tokio::net::TcpListener;

use crate::exposition::Settings;
use crate::otlp::{self, Push};
use crate::{Exposition, Owners, exposition};

/// Serves `/metrics` until the program ends, and pushes the same where that is asked for; says where
/// once it listens.
pub(crate) fn serve(
    address: SocketAddr,
    collector: Collector,
    settings: Settings,
    push: Option<Push>,
    listening: impl FnOnce(SocketAddr),
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let collector = Arc::new(Mutex::new(collector));
    if let Some(push) = push {
        let (collector, settings) = (Arc::clone(&collector), settings.clone());
        let note = |line: &str| {
            let _ = writeln!(std::io::stderr(), "muster: {line}");
        };
        otlp::push(push, move || told(&collector, &settings), note)?;
    }
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        listening(listener.local_addr()?);
        muster_pages::serve(listener, move |asked| page(&collector, &settings, asked)).await;
        Ok(())
    })
}

/// Everything as of now.
fn told(collector: &Mutex<Collector>, settings: &Settings) -> Exposition {
    let snapshot = collector.lock().unwrap_or_else(PoisonError::into_inner).collect();
    exposition(&snapshot, &Owners::default(), settings)
}

fn page(collector: &Mutex<Collector>, settings: &Settings, asked: &Asked) -> Page {
    match asked.path.as_str() {
        "/metrics" => {
            let all = told(collector, settings);
            match asked.takes_open_metrics() {
                true => Page { status: 200, kind: OPEN_METRICS, text: all.open_metrics() },
                false => Page { status: 200, kind: TEXT, text: all.text() },
            }
        }
        "/" => Page::plain(200, "muster's metrics of this machine are at /metrics\n"),
        _ => Page::plain(404, "there is only /metrics here\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use muster_node_metrics::collector::{Collector, Options};

    use super::{OPEN_METRICS, Push, TEXT, serve};
    use crate::PushWish;
    use crate::exposition::Settings;

    /// Serves a captured machine for as long as the test program runs.
    fn served(push: Option<Push>) -> SocketAddr {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captured/gpu-node");
        let collector = Collector::new(&Options { root, ..Options::default() });
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let told = move |address| send.send(address).expect("the test waits");
            serve(any, collector, Settings::default(), push, told).expect("it serves");
        });
        receive.recv().expect("an address")
    }

    fn asked(address: SocketAddr, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(address).ok()?;
        write!(stream, "{request}\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    #[test]
    fn each_gets_the_text_that_it_asks_for() {
        let address = served(None);
        let open = asked(
            address,
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1",
        );
        let open = open.expect("answer");
        assert!(open.contains(OPEN_METRICS) && open.ends_with("# EOF\n"), "{open}");
        let text = asked(address, "GET /metrics HTTP/1.1").expect("answer");
        assert!(text.contains(TEXT) && text.contains("node_load1 3.25\n"), "{text}");
        for (request, status) in
            [("GET /other HTTP/1.1", "404"), ("POST /metrics HTTP/1.1", "405"), ("nonsense", "400")]
        {
            let answer = asked(address, request).expect("answer");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
        }
        // One that connects and says nothing keeps nobody from an answer.
        let _silent = TcpStream::connect(address).expect("connected");
        assert!(asked(address, "HEAD /metrics HTTP/1.1").expect("answer").contains("200 OK"));
    }

    #[test]
    fn a_receiver_that_never_answers_keeps_no_scrape_from_its_answer() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
        let wish = PushWish { endpoint: Some(endpoint), ..PushWish::default() };
        let push = Push::from(&wish, |_| None).expect("sound");
        let address = served(push);
        // It is there and waits for an answer.
        let _stream = silent.accept().expect("a push");
        let text = asked(address, "GET /metrics HTTP/1.1").expect("answer");
        assert!(text.contains("node_load1 3.25\n"), "{text}");
    }

    /// A Prometheus that ends with the test.
    struct Prometheus(Child);

    impl Drop for Prometheus {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn prometheus(directory: &Path, own: SocketAddr) -> Option<Prometheus> {
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", directory.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={own}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.ok().map(Prometheus)
    }

    #[test]
    fn a_real_prometheus_scrapes_it_and_loads_the_rules() {
        let directory = tempfile::tempdir().expect("directory");
        let config = format!(
            "global: {{scrape_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n  \
             - {{job_name: muster, static_configs: [{{targets: ['{}']}}]}}\n",
            served(None)
        );
        std::fs::write(directory.path().join("prometheus.yml"), config).expect("written");
        std::fs::write(directory.path().join("rules.yml"), crate::rules()).expect("written");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let own = free.expect("a port");
        let Some(_prometheus) = prometheus(directory.path(), own) else {
            println!("skipped: prometheus is not installed (Debian's package prometheus)");
            return;
        };
        let end = Instant::now() + Duration::from_mins(1);
        for (query, value) in [
            ("up", "\"1\""),
            ("cgroup_memory_used_bytes{jobid=\"42\",step=\"\"}", "\"8589934592\""),
            ("node_infiniband_port_data_received_bytes_total", "\"308\""),
        ] {
            let query =
                query.bytes().fold(String::new(), |query, byte| query + &format!("%{byte:02x}"));
            let request = format!("GET /api/v1/query?query={query} HTTP/1.1");
            loop {
                let answer = asked(own, &request).unwrap_or_default();
                if answer.contains(value) {
                    break;
                }
                assert!(Instant::now() < end, "{query}: {answer}");
                std::thread::park_timeout(Duration::from_millis(100));
            }
        }
        let rules = asked(own, "GET /api/v1/rules HTTP/1.1").expect("answer");
        assert!(rules.contains("MusterGpuNeedsDrain"), "{rules}");
    }
}
