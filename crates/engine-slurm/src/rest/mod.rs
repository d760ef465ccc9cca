//! slurmrestd: what changes by itself (jobs, nodes, reservations) over its unix socket, or over a
//! port with a token.
//!
//! Of the versions of its interface the newest one that muster knows is taken, found in the
//! description that it serves. Its jobs are those of `squeue --json`; its nodes and reservations
//! are put into the lines that `scontrol -o show` prints, and read by the same code. What it does not
//! tell (the configuration, switches, how partitions share nodes, use) comes from the commands.

mod http;
mod lines;

use crate::{SlurmError, read};
use http::{Address, Trouble};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The versions that are understood, the newest first; those after 0.0.38 are known by their
/// published shapes only.
const VERSIONS: [&str; 5] = ["v0.0.42", "v0.0.41", "v0.0.40", "v0.0.39", "v0.0.38"];

/// Where it describes itself.
const DESCRIPTION: &str = "/openapi/v3";

/// A slurmrestd, and who asks.
#[derive(Clone, Debug)]
pub struct Rest {
    address: Address,
    /// The user and the token.
    token: Option<(String, String)>,
    paths: Arc<OnceLock<Paths>>,
    trouble: Arc<Mutex<Option<SlurmError>>>,
}

/// Where the newest version has what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Paths {
    jobs: String,
    nodes: String,
    reservations: String,
}

#[derive(Deserialize)]
struct Description {
    #[allow(clippy::zero_sized_map_values)] // Serde reads a map.
    paths: BTreeMap<String, IgnoredAny>,
}

impl Rest {
    /// Reads `unix:/path` or `http://host:port`.
    ///
    /// # Errors
    /// [`SlurmError::Rest`].
    pub fn at(url: &str) -> Result<Self, SlurmError> {
        let address = Address::parse(url).ok_or_else(|| SlurmError::Rest {
            url: url.to_owned(),
            what: "write unix:/path/of/its/socket or http://host:port".to_owned(),
        })?;
        let (paths, trouble) = (Arc::default(), Arc::default());
        Ok(Self { address, token: None, paths, trouble })
    }

    /// As [`Rest::at`], asking as the user who runs this, with the token in `SLURM_JWT` where there
    /// is one.
    ///
    /// # Errors
    /// As [`Rest::at`] and [`Rest::with_token`].
    pub fn as_caller(url: &str) -> Result<Self, SlurmError> {
        let rest = Self::at(url)?;
        let Ok(token) = std::env::var("SLURM_JWT") else { return Ok(rest) };
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        rest.with_token(&user.map_or_else(String::new, |user| user.name), token.trim())
    }

    /// Asks as this user, with a token as `scontrol token` makes them (the value of `SLURM_JWT`).
    ///
    /// # Errors
    /// [`SlurmError::Rest`] for what cannot stand in a header.
    pub fn with_token(mut self, user: &str, token: &str) -> Result<Self, SlurmError> {
        let fine = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !fine(user) || !fine(token) {
            let what = "the token or the user's name has odd characters".to_owned();
            return Err(SlurmError::Rest { url: self.address.to_string(), what });
        }
        self.token = Some((user.to_owned(), token.to_owned()));
        Ok(self)
    }

    /// Why it was passed over last, once.
    pub fn trouble(&self) -> Option<SlurmError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Its answer, or that of the commands where it has none.
    pub(crate) fn or_else<T>(
        &self,
        ask: fn(&Self) -> Result<T, SlurmError>,
        commands: impl FnOnce() -> Result<T, SlurmError>,
    ) -> Result<T, SlurmError> {
        ask(self).or_else(|error| {
            tracing::warn!(%error, "Slurm's commands are asked instead");
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            commands()
        })
    }

    /// All jobs, as `squeue --json` prints them.
    pub(crate) fn jobs(&self) -> Result<Vec<u8>, SlurmError> {
        let path = &self.paths()?.jobs;
        let told = self.get(path)?;
        // What cannot be read is asked of the commands.
        read::jobs::all(&told, &self.line(path))?;
        Ok(told)
    }

    /// All nodes, as `scontrol -o show node` prints them.
    pub(crate) fn nodes(&self) -> Result<String, SlurmError> {
        let path = &self.paths()?.nodes;
        lines::nodes(&self.get(path)?).map_err(|error| self.unread(path, &error))
    }

    /// All reservations, as `scontrol -o show reservation` prints them.
    pub(crate) fn reservations(&self) -> Result<String, SlurmError> {
        let path = &self.paths()?.reservations;
        lines::reservations(&self.get(path)?).map_err(|error| self.unread(path, &error))
    }

    fn unread(&self, path: &str, error: &impl ToString) -> SlurmError {
        SlurmError::Answer { command: self.line(path), what: error.to_string() }
    }

    /// How a call is told.
    fn line(&self, path: &str) -> String {
        format!("GET {}{path}", self.address)
    }

    fn paths(&self) -> Result<&Paths, SlurmError> {
        if let Some(paths) = self.paths.get() {
            return Ok(paths);
        }
        let told = self.get(DESCRIPTION)?;
        let told: Description =
            serde_json::from_slice(&told).map_err(|error| self.unread(DESCRIPTION, &error))?;
        let paths = newest(&told).ok_or_else(|| SlurmError::Rest {
            url: self.address.to_string(),
            what: format!("it has none of the versions {}", VERSIONS.join(", ")),
        })?;
        Ok(self.paths.get_or_init(|| paths))
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, SlurmError> {
        let token = self.token.as_ref().map(|(user, token)| (user.as_str(), token.as_str()));
        let (status, body) = self.address.get(path, token).map_err(|trouble| match trouble {
            Trouble::Io(error) => {
                SlurmError::Failed { command: self.line(path), said: error.to_string() }
            }
            Trouble::NoHttp(what) => SlurmError::Answer { command: self.line(path), what },
            Trouble::Long(bytes) => SlurmError::Long { command: self.line(path), bytes },
            Trouble::Late(limit) => SlurmError::Late { command: self.line(path), limit },
        })?;
        match status {
            200 => Ok(body),
            _ => Err(SlurmError::Failed { command: self.line(path), said: refusal(status, &body) }),
        }
    }
}

/// The paths of the newest version that has all of them. Later versions end some with a slash.
fn newest(told: &Description) -> Option<Paths> {
    VERSIONS.iter().find_map(|version| {
        let path = |what: &str| {
            let plain = format!("/slurm/{version}/{what}");
            let slashed = format!("{plain}/");
            [plain, slashed].into_iter().find(|path| told.paths.contains_key(path))
        };
        let (jobs, nodes) = (path("jobs")?, path("nodes")?);
        Some(Paths { jobs, nodes, reservations: path("reservations")? })
    })
}

/// What a refusal says, in a line.
fn refusal(status: u16, body: &[u8]) -> String {
    let why = match status {
        401 => "not allowed: a token is missing or over (scontrol token)",
        403 => "not allowed for this user",
        404 => "no such path",
        _ => "refused",
    };
    let said = String::from_utf8_lossy(body);
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().take(200).collect();
    if said.is_empty() { format!("{status}, {why}") } else { format!("{status}, {why}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    /// Serves these bodies by path on a socket, one connection each; the heads that it was sent.
    fn serve(socket: &Path, bodies: &[(&'static str, u16, String)]) -> Arc<Mutex<Vec<String>>> {
        let (listener, bodies) = (UnixListener::bind(socket).expect("a socket"), bodies.to_vec());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let reader = BufReader::new(stream.try_clone().expect("the same"));
                let lines = reader.lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let path = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().expect("heads").push(head.join("\n"));
                let found = bodies.iter().find(|(known, ..)| *known == path);
                let (status, body) = found.map_or((404, ""), |(_, s, body)| (*s, body.as_str()));
                let length = body.len();
                let _ =
                    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
            }
        });
        heads
    }

    #[test]
    fn addresses_are_a_socket_or_a_port() {
        assert!(Rest::at("unix:/run/slurmrestd/socket").is_ok());
        assert!(Rest::at("http://127.0.0.1:6820/").is_ok());
        for bad in ["unix:socket", "https://host:1", "http://host", "http://host:1/x", "host:1"] {
            let error = Rest::at(bad).expect_err(bad);
            assert_eq!(error.code(), "E_SLURM_REST", "{error}");
        }
        let rest = Rest::at("http://h:1").expect("an address");
        assert!(rest.with_token("ada", "a\r\nb").is_err());
    }

    #[test]
    fn the_newest_known_version_is_taken_as_the_description_writes_it() {
        let told = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|p| format!("{p:?}:{{}}")).collect();
            let text = format!(r#"{{"tags":[],"paths":{{{}}}}}"#, paths.join(","));
            newest(&serde_json::from_str(&text).expect("a description")).map(|paths| paths.jobs)
        };
        let all = |version: &str, end: &str| {
            ["jobs", "nodes", "reservations"].map(|w| format!("/slurm/{version}/{w}{end}"))
        };
        let (old, new, unknown) = (all("v0.0.38", ""), all("v0.0.41", "/"), all("v0.0.99", "/"));
        let both: Vec<&str> = old.iter().chain(&new).chain(&unknown).map(String::as_str).collect();
        assert_eq!(told(&both).as_deref(), Some("/slurm/v0.0.41/jobs/"));
        assert_eq!(told(&both[..3]).as_deref(), Some("/slurm/v0.0.38/jobs"));
        assert_eq!(told(&both[6..]), None);
    }

    #[test]
    fn it_is_asked_with_the_token_and_what_it_refuses_is_told_in_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let paths = r#"{"paths":{"/slurm/v0.0.38/jobs":{},"/slurm/v0.0.38/nodes":{},
                        "/slurm/v0.0.38/reservations":{}}}"#;
        let heads = serve(
            &socket,
            &[
                (DESCRIPTION, 200, paths.to_owned()),
                ("/slurm/v0.0.38/jobs", 200, r#"{"jobs":[]}"#.to_owned()),
                ("/slurm/v0.0.38/nodes", 401, "Authentication failure".to_owned()),
            ],
        );
        let rest = Rest::at(&format!("unix:{}", socket.display())).expect("an address");
        let rest = rest.with_token("ada", "abc").expect("a token");
        assert_eq!(rest.jobs().expect("jobs"), br#"{"jobs":[]}"#);
        let refused = rest.nodes().expect_err("refused");
        assert!(refused.to_string().contains("a token is missing or over"), "{refused}");
        assert_eq!(
            rest.or_else(Rest::nodes, || Ok("by scontrol".into())).expect("so"),
            "by scontrol"
        );
        assert_eq!(rest.trouble(), Some(refused));
        assert_eq!(rest.trouble(), None, "it is told once");
        let heads = heads.lock().expect("heads");
        assert!(heads.iter().all(|head| head.contains("x-slurm-user-token: abc")), "{heads:?}");
        assert_eq!(heads.len(), 4, "the description is asked for once");
    }
}
