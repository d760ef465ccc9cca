//! Who is let in, and to what.
//!
//! Any program and any web page that this machine's user opens can reach 127.0.0.1. So a request
//! must name this machine (a foreign name that was bound to 127.0.0.1 does not), come from the page
//! itself where it comes from a page, and carry the cookie that the printed token was changed for.

use crate::answer::Refusal;
use hyper::{Method, StatusCode};
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};

/// The header by which the page marks what it sends: a form or a link of another page cannot.
pub(crate) const MARK: &str = "x-muster-web";

/// What of a request decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    /// `Sec-Fetch-Site`: where the browser says that the request comes from.
    pub(crate) site: Option<&'a str>,
    pub(crate) cookies: Vec<&'a str>,
    /// It carries [`MARK`].
    pub(crate) marked: bool,
}

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The token was good: the cookie is given.
    Enter,
    /// It is let in.
    Pass,
}

/// The token that opens the page once, and the cookie that it is changed for.
pub(crate) struct Gate {
    port: u16,
    session: String,
    token: Mutex<String>,
}

impl Gate {
    /// A gate with secrets of its own.
    pub(crate) fn new(port: u16) -> std::io::Result<Self> {
        Ok(Self { port, session: secret()?, token: Mutex::new(secret()?) })
    }

    /// The token that opens the page now.
    pub(crate) fn token(&self) -> String {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cookie of whoever was let in. Cookies know no ports, so its name does.
    pub(crate) fn cookie(&self) -> String {
        format!("{}; Path=/; HttpOnly; SameSite=Strict", self.pair())
    }

    fn pair(&self) -> String {
        format!("muster_{}={}", self.port, self.session)
    }

    /// Judges a request.
    pub(crate) fn judge(&self, asked: &Asked<'_>) -> Result<Verdict, Refusal> {
        named_here(asked)?;
        let front = asked.path == "/" && asked.method == Method::GET;
        let elsewhere = asked.site.is_some_and(|site| site != "same-origin" && site != "none");
        if elsewhere && !front {
            return Err(foreign("another page asked"));
        }
        if asked.method != Method::GET && !asked.marked {
            return Err(foreign(format!("the header {MARK} is missing")));
        }
        let given = asked.query.split('&').find_map(|pair| pair.strip_prefix("token="));
        if given.is_some_and(|given| front && self.take(given)) {
            return Ok(Verdict::Enter);
        }
        let pair = self.pair();
        let known = asked
            .cookies
            .iter()
            .flat_map(|line| line.split(';'))
            .any(|cookie| same(cookie.trim().as_bytes(), pair.as_bytes()));
        if known {
            return Ok(Verdict::Pass);
        }
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "E_WEB_TOKEN",
            "this browser was not let in, or `muster web` was started again",
            "open the newest address that `muster web` printed; each opens the page once",
        ))
    }

    /// True where the token is good; it is good no more then, and another is.
    fn take(&self, given: &str) -> bool {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if !same(given.as_bytes(), token.as_bytes()) {
            return false;
        }
        let Ok(next) = secret() else { return false };
        *token = next;
        true
    }
}

/// The request names this machine, and the page that sent it came from the same name.
fn named_here(asked: &Asked<'_>) -> Result<(), Refusal> {
    let host = asked.host.unwrap_or_default();
    // Any port: `ssh -L 9000:127.0.0.1:8080` asks for localhost:9000.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    if !matches!(name, "127.0.0.1" | "localhost" | "[::1]") {
        return Err(foreign(format!("{:?} is no name of this machine for itself", clip(host))));
    }
    match asked.origin {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            Err(foreign(format!("the page is from {:?}", clip(origin))))
        }
        _ => Ok(()),
    }
}

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

fn foreign(message: impl Into<String>) -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "E_WEB_FOREIGN",
        message,
        "open http://127.0.0.1 or http://localhost with the port, through ssh -L from elsewhere",
    )
}

/// What the daemon is asked of all that it answers. What changes jobs needs `act`.
pub(crate) fn forwarded(method: &Method, path: &str, act: bool) -> Result<(), Refusal> {
    const LISTS: &[&str] = &[
        "accounts",
        "events",
        "history",
        "licences",
        "machine",
        "nodes",
        "partitions",
        "ping",
        "plan",
        "priority",
        "qos",
        "queue",
        "reservations",
        "shares",
        "stats",
        "topology",
    ];
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let known = match (method, &parts[..]) {
        (&Method::GET, ["v1", list]) => LISTS.contains(list),
        (&Method::GET, ["v1", "jobs" | "nodes" | "reservations", _]) => true,
        (&Method::GET, ["v1", "machine", "series"] | ["v1", "nodes", _, "series"]) => true,
        (&Method::GET, ["v1", "jobs", _, view]) => matches!(*view, "why" | "series" | "report"),
        // They try something on a copy of the state, and store nothing.
        (&Method::POST, ["v1", "whatif"] | ["v1", "reservations", "plan"]) => true,
        (&Method::POST, ["v1", "jobs", "actions"]) if act => true,
        (&Method::POST, ["v1", "jobs", "actions"]) => {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "E_WEB_READ_ONLY",
                "this page only shows",
                "start it with `muster web --act`, or use the command line",
            ));
        }
        _ => false,
    };
    if known {
        return Ok(());
    }
    let message = format!("{method} {} is not asked through the page", clip(path));
    Err(Refusal::new(
        StatusCode::NOT_FOUND,
        "E_NOT_FOUND",
        message,
        "the daemon's socket answers more: docs/reference/rest.md",
    ))
}

/// True where both are the same; takes as long for any two of one length.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

/// 32 random bytes of the kernel's as text.
fn secret() -> std::io::Result<String> {
    let mut random = std::fs::File::open("/dev/urandom")?;
    let mut half = || {
        let mut bytes = [0; 16];
        random.read_exact(&mut bytes).map(|()| u128::from_ne_bytes(bytes))
    };
    Ok(format!("{:032x}{:032x}", half()?, half()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(8080).unwrap()
    }

    fn asked<'a>(path: &'a str, query: &'a str) -> Asked<'a> {
        Asked { path, query, host: Some("127.0.0.1:8080"), ..Asked::default() }
    }

    fn code(verdict: Result<Verdict, Refusal>) -> &'static str {
        verdict.err().map_or("", |refusal| refusal.code)
    }

    #[test]
    fn a_token_opens_the_page_once_and_the_cookie_from_then_on() {
        let gate = gate();
        let query = format!("token={}", gate.token());
        assert_eq!(gate.judge(&asked("/", &query)), Ok(Verdict::Enter));
        assert_eq!(code(gate.judge(&asked("/", &query))), "E_WEB_TOKEN");
        let cookie = gate.cookie();
        let pair = cookie.split(';').next().unwrap();
        let known = Asked { cookies: vec!["a=b", pair], ..asked("/v1/queue", "") };
        assert_eq!(gate.judge(&known), Ok(Verdict::Pass));
        assert_eq!(code(gate.judge(&asked("/v1/queue", ""))), "E_WEB_TOKEN");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    }

    #[test]
    fn a_token_counts_at_the_front_door_only() {
        let gate = gate();
        let query = format!("token={}", gate.token());
        assert_eq!(code(gate.judge(&asked("/v1/queue", &query))), "E_WEB_TOKEN");
    }

    #[test]
    fn a_foreign_name_that_was_bound_to_this_machine_is_refused() {
        let gate = gate();
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example:8080",
            "localhost.evil.example",
            "",
        ] {
            let foreign = Asked { host: Some(host), ..asked("/", "") };
            assert_eq!(code(gate.judge(&foreign)), "E_WEB_FOREIGN", "{host}");
        }
        assert_eq!(code(gate.judge(&Asked { host: None, ..asked("/", "") })), "E_WEB_FOREIGN");
        for host in ["localhost:9000", "[::1]:8080", "127.0.0.1"] {
            let near = Asked { host: Some(host), ..asked("/", "") };
            assert_eq!(code(gate.judge(&near)), "E_WEB_TOKEN", "{host}");
        }
    }

    #[test]
    fn another_page_cannot_send_even_with_the_cookie() {
        let gate = gate();
        let cookie = gate.cookie();
        let pair = cookie.split(';').next().unwrap();
        let ours = Asked {
            method: Method::POST,
            cookies: vec![pair],
            origin: Some("http://127.0.0.1:8080"),
            site: Some("same-origin"),
            marked: true,
            ..asked("/v1/jobs/actions", "")
        };
        assert_eq!(gate.judge(&ours), Ok(Verdict::Pass));
        let unmarked = Asked { marked: false, ..ours.clone() };
        let other = Asked { origin: Some("http://127.0.0.1:9999"), ..ours.clone() };
        let sandbox = Asked { origin: Some("null"), ..ours.clone() };
        let beside = Asked { site: Some("same-site"), ..ours.clone() };
        for request in [unmarked, other, sandbox, beside] {
            assert_eq!(code(gate.judge(&request)), "E_WEB_FOREIGN", "{request:?}");
        }
    }

    #[test]
    fn only_what_the_page_shows_is_asked() {
        let ok = |method: Method, path: &str, act| forwarded(&method, path, act).is_ok();
        assert!(ok(Method::GET, "/v1/queue", false));
        assert!(ok(Method::GET, "/v1/machine", false));
        assert!(ok(Method::GET, "/v1/machine/series", false));
        assert!(ok(Method::GET, "/v1/nodes/node1/series", false));
        for view in ["why", "series", "report"] {
            assert!(ok(Method::GET, &format!("/v1/jobs/12/{view}"), false), "{view}");
        }
        assert!(ok(Method::POST, "/v1/reservations/plan", false));
        assert!(ok(Method::POST, "/v1/jobs/actions", true));
        for (method, path) in [
            (Method::POST, "/v1/shutdown"),
            (Method::POST, "/v1/jobs"),
            (Method::POST, "/v1/reservations"),
            (Method::GET, "/v1/jobs/12/steps"),
            (Method::GET, "/v1/jobs/12/payload"),
            (Method::PATCH, "/v1/jobs/12"),
            (Method::DELETE, "/v1/reservations/a"),
            (Method::GET, "/v2/queue"),
            (Method::GET, "/v1/jobs/12/why/more"),
        ] {
            assert!(!ok(method, path, true), "{path}");
        }
        let refused = forwarded(&Method::POST, "/v1/jobs/actions", false).unwrap_err();
        assert_eq!(refused.code, "E_WEB_READ_ONLY");
    }
}
