//! `muster web`, asked as a browser would ask: by bytes over TCP.

use crate::place::{MUSTER, Place, said, until};
use muster_api::{PlanKind, PlanLane};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// The page of a place; ends with the test.
struct Page {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer: its status, its head and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn serve(place: &Place, words: &[&str]) -> Self {
        let mut web = place.command(MUSTER);
        let mut child = web.arg("web").args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://127.0.0.1:").unwrap();
        let (port, token) = address.split_once("/?token=").unwrap();
        Self { port: port.parse().unwrap(), token: token.to_owned(), child }
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let host = if headers.contains("host:") {
            String::new()
        } else {
            format!("host: 127.0.0.1:{}\r\n", self.port)
        };
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{host}connection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Changes the token for the cookie, as a header.
    fn enter(&self) -> String {
        let answer = self.ask("GET", &format!("/?token={}", self.token), "", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let line = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        format!("cookie: {}\r\n", line.split(';').next().unwrap())
    }
}

#[test]
fn the_page_is_for_whom_has_the_token_and_shows_what_the_daemon_says() {
    let place = Place::new();
    let _daemon = place.start();
    place.submit("echo out; sleep 600", &["--job-name=<b>bold</b>"]);
    let page = Page::serve(&place, &[]);
    assert_eq!(page.ask("GET", "/v1/queue", "", "").status, 401);
    let cookie = page.enter();
    let again = page.ask("GET", &format!("/?token={}", page.token), "", "");
    assert_eq!(again.status, 401, "a token opens the page once");
    let foreign = format!("host: evil.example\r\n{cookie}");
    assert_eq!(page.ask("GET", "/v1/queue", &foreign, "").status, 403);

    let queue = page.ask("GET", "/v1/queue", &cookie, "");
    assert_eq!(queue.status, 200);
    assert!(queue.body.contains("<b>bold</b>"), "{}", queue.body);
    assert!(queue.head.contains("x-content-type-options: nosniff"), "{}", queue.head);
    let front = page.ask("GET", "/", &cookie, "");
    assert!(front.head.contains("default-src 'none'"), "{}", front.head);
    assert!(front.body.contains("<!doctype html>") && !front.body.contains("<b>bold"));
    for path in ["/v1/jobs/1/payload", "/v1/jobs/1/steps", "/v1/doctor", "/nothing"] {
        assert_eq!(page.ask("GET", path, &cookie, "").status, 404, "{path}");
    }
    let plan = page.ask("GET", "/v1/plan", &cookie, "");
    assert!(plan.body.contains("\"kind\":\"running\""), "{}", plan.body);
    until("its output is there", || {
        let logs = page.ask("GET", "/web/logs/1", &cookie, "");
        (logs.status == 200 && logs.body.contains("out")).then_some(())
    });
}

#[test]
fn the_page_acts_only_where_it_was_told_that_it_may() {
    let place = Place::new();
    let _daemon = place.start();
    place.submit("true", &["--hold"]);
    let cancel = r#"{"action":"cancel","jobs":["1"]}"#;
    let send = |page: &Page, headers: &str| {
        let headers = format!("{headers}content-type: application/json\r\n");
        page.ask("POST", "/v1/jobs/actions", &headers, cancel)
    };
    let shows = Page::serve(&place, &[]);
    let cookie = shows.enter();
    let marked = format!("{cookie}x-muster-web: 1\r\n");
    assert!(send(&shows, &marked).body.contains("E_WEB_READ_ONLY"));
    let acts = Page::serve(&place, &["--act"]);
    let cookie = acts.enter();
    assert!(send(&acts, &cookie).body.contains("E_WEB_FOREIGN"), "without the page's header");
    let marked = format!("{cookie}x-muster-web: 1\r\n");
    let elsewhere = format!("{marked}origin: http://evil.example\r\n");
    assert!(send(&acts, &elsewhere).body.contains("E_WEB_FOREIGN"));
    assert_eq!(send(&acts, &marked).status, 200);
    let queue = acts.ask("GET", "/v1/queue", &cookie, "");
    assert!(queue.body.contains("\"rows\":[]"), "{}", queue.body);
}

#[test]
fn the_plan_has_what_runs_what_is_promised_and_what_is_reserved() {
    let place = Place::new();
    let _daemon = place.try_start(&["--practice", "2x2"], &[]).unwrap();
    let page = Page::serve(&place, &[]);
    let cookie = page.enter();
    place.submit("sleep 600", &["--nodes=1", "--gpus-per-node=2", "--time=60"]);
    place.submit("sleep 600", &["--nodes=2", "--gpus-per-node=2", "--time=30"]);
    let words =
        "reservation create later --start now+1day --duration 1h --nodes node2 --users root";
    let made = place.muster(&words.split(' ').collect::<Vec<_>>());
    assert!(made.status.success(), "{}", said(&made));
    // A promise of before the first one's processes began is for a moment earlier.
    let plan = until("the second job is promised when the first one's limit is over", || {
        let text = page.ask("GET", "/v1/plan", &cookie, "").body;
        let plan: muster_api::PlanPage = serde_json::from_str(&text).unwrap();
        let of = |kind: PlanKind| plan.bars.iter().find(|bar| bar.kind == kind);
        let ends = of(PlanKind::Running).and_then(|bar| bar.end_ms);
        let starts = of(PlanKind::Promised).map(|bar| bar.start_ms);
        (plan.bars.len() == 3 && ends.is_some() && starts == ends).then_some(plan)
    });
    let bar = |kind: PlanKind| {
        let at = plan.bars.iter().position(|bar| bar.kind == kind).unwrap();
        let on = |lane: &&PlanLane| lane.parts.iter().any(|part| part.bar as usize == at);
        let lanes: Vec<&str> =
            plan.lanes.iter().filter(on).map(|lane| lane.name.as_str()).collect();
        (&plan.bars[at], lanes)
    };
    let (running, first) = bar(PlanKind::Running);
    let (promised, both) = bar(PlanKind::Promised);
    let (reserved, last) = bar(PlanKind::Reserved);
    assert_eq!((running.title.as_str(), first.len()), ("1", 1));
    assert_eq!((promised.title.as_str(), both), ("2", vec!["node1", "node2"]));
    assert!(promised.why.contains("gpus"), "{}", promised.why);
    assert_eq!((reserved.title.as_str(), last), ("later", vec!["node2"]));
    let narrow = page.ask("GET", "/v1/plan?limit=1", &cookie, "").body;
    let narrow: muster_api::PlanPage = serde_json::from_str(&narrow).unwrap();
    assert_eq!((narrow.lanes.len(), narrow.next), (1, Some(narrow.lanes[0].id)));
    assert_eq!(page.ask("GET", "/v1/plan?partition=none", &cookie, "").status, 404);
}
