//! What a bed with accounting has beside Slurm's own daemons: a MariaDB, slurmdbd with a tree of
//! accounts, and slurmrestd.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::conf::ASSOCIATIONS;
use super::{Bed, mode};
use crate::sh;

/// A daemon may take so long until it answers.
const ANSWER_S: u64 = 60;

/// slurmrestd refuses to run as root. Debian's nobody is in every bed.
const NOBODY: u32 = 65_534;

/// The versions of slurmrestd's interface that Debian's 22.05 has.
const PLUGINS: &str = "openapi/v0.0.38,openapi/dbv0.0.38";

impl Bed {
    /// Where slurmrestd listens.
    pub(crate) fn rest_socket(&self) -> PathBuf {
        self.dir().join("rest/socket")
    }

    /// The database and slurmdbd, before slurmctld.
    pub(super) fn launch_accounting(&self) -> Result<(), String> {
        self.jwt_key().map_err(|error| format!("{}: {error}", self.dir().display()))?;
        self.database()?;
        // It waits in the background for its database; the first answer is what counts.
        sh::read(&mut self.command("slurmdbd"))?;
        until("slurmdbd", || self.read("sacctmgr", &["-n", "-i", "show", "cluster"]).map(drop))?;
        for words in ASSOCIATIONS {
            let line = std::iter::once("-i").chain(words.iter().copied()).collect::<Vec<_>>();
            self.read("sacctmgr", &line)?;
        }
        Ok(())
    }

    /// slurmrestd on a socket of its own, for who may open that, and another one on a port, for
    /// who brings a token; after slurmctld.
    pub(super) fn launch_rest(&self) -> Result<(), String> {
        let dir = self.dir().join("rest");
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        std::fs::create_dir(&dir).map_err(failed)?;
        std::os::unix::fs::chown(&dir, Some(NOBODY), Some(NOBODY)).map_err(failed)?;
        let daemon = |auth: &str, listens: String| {
            let mut rest = self.command("slurmrestd");
            rest.args(["-a", auth, "-s", PLUGINS]).arg(listens).uid(NOBODY).gid(NOBODY);
            rest
        };
        let mut local = daemon("rest_auth/local", format!("unix:{}", self.rest_socket().display()));
        self.ground.detach(&mut local, "slurmrestd.log")?;
        let mut over_tcp = daemon("rest_auth/jwt", format!("127.0.0.1:{}", self.ports().rest));
        // Any word: the callers' own tokens are what counts.
        self.ground.detach(over_tcp.env("SLURM_JWT", "daemon"), "slurmrestd-tcp.log")?;
        until("slurmrestd", || match self.rest_socket().exists() {
            true => Ok(()),
            false => Err("its socket is not there; see slurmrestd.log".to_owned()),
        })
    }

    fn jwt_key(&self) -> std::io::Result<()> {
        let file = self.dir().join("jwt.key");
        std::fs::write(&file, super::random()?)?;
        mode(&file, 0o600)
    }

    fn database(&self) -> Result<(), String> {
        let (dir, socket) = (self.dir().join("db"), self.dir().join("db.socket"));
        let folder = format!("--datadir={}", dir.display());
        let at = format!("--socket={}", socket.display());
        let mut install = self.command("mariadb-install-db");
        install.args(["--no-defaults", "--user=root", "--skip-test-db", &folder]);
        sh::read(install.arg("--auth-root-authentication-method=normal"))?;
        let mut server = self.command("mariadbd");
        server.args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", &folder, &at]);
        server.arg(format!("--port={}", self.ports().database));
        // Nothing here has to outlive a power cut.
        server.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"]);
        self.ground.detach(&mut server, "mariadb.log")?;
        let mut client = self.command("mariadb");
        client.args(["--no-defaults", "--user=root", &at, "-e"]).arg(
            "create database if not exists slurm_acct_db; \
             create user if not exists 'slurm'@'127.0.0.1' identified by 'slurm'; \
             create user if not exists 'slurm'@'localhost' identified by 'slurm'; \
             grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1'; \
             grant all on slurm_acct_db.* to 'slurm'@'localhost'; flush privileges",
        );
        until("mariadbd", || sh::read(&mut client).map(drop))
    }
}

/// Tries until it answers.
fn until(daemon: &str, mut answers: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match answers() {
            Ok(()) => return Ok(()),
            Err(why) if begin.elapsed() > Duration::from_secs(ANSWER_S) => {
                return Err(format!("{daemon} does not answer after {ANSWER_S} s: {why}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}
