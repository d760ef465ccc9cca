//! The reader on a real Slurm: four idle nodes of eight CPUs and four GPUs.
//!
//! `cargo xtask test --only slurm` starts one and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without that nothing is tested here.

use muster_engine_slurm::read::{Cluster, JobRecord, JobStanding, Order, read};
use muster_engine_slurm::{Commands, Past, Rest};
use muster_model::{Exclusive, FairShare, JobId, Timestamp, TresKind};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A condition is waited for so long.
const WITHIN: Duration = Duration::from_mins(1);

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    Timestamp::from_secs(since.as_secs() as i64)
}

/// One test at a time has the bed.
static ALONE: Mutex<()> = Mutex::new(());

struct Bed {
    conf: PathBuf,
    commands: Commands,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Bed {
    /// The next test finds it empty.
    fn drop(&mut self) {
        let mut all = Command::new("scancel");
        let _ = all.args(["--user", "root"]).env("SLURM_CONF", &self.conf).status();
        let until = Instant::now() + WITHIN;
        while Instant::now() < until {
            let left = read(&self.commands, now()).map(|cluster| cluster.counts());
            if left.is_ok_and(|left| left == (0, 0)) {
                return;
            }
        }
    }
}

impl Bed {
    fn find() -> Option<Self> {
        let conf = PathBuf::from(std::env::var_os("MUSTER_TEST_SLURM_CONF")?);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let commands = Commands::find(&path).expect("Slurm's commands").with_conf(&conf);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { conf, commands, _alone: alone })
    }

    fn submit(&self, words: &[&str]) -> JobId {
        let dir = self.conf.parent().unwrap_or(Path::new("/"));
        let said = Command::new("sbatch")
            .args(["--parsable", "-o", "/dev/null"])
            .args(words)
            .args(["--wrap", "exec sleep 1000"])
            .env("SLURM_CONF", &self.conf)
            .env("MUSTER_BED", dir)
            .current_dir(dir)
            .output()
            .expect("sbatch");
        assert!(said.status.success(), "{said:?}");
        let text = String::from_utf8_lossy(&said.stdout);
        JobId(text.trim().parse().unwrap_or_else(|_| panic!("no number: {text}")))
    }

    fn control(&self, words: &[&str]) -> String {
        let mut control = Command::new("scontrol");
        let said = control.args(words).env("SLURM_CONF", &self.conf).output().expect("scontrol");
        assert!(said.status.success(), "{said:?}");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    fn read(&self) -> Cluster {
        read(&self.commands, now()).expect("read")
    }

    /// What is read once these run.
    fn once_running(&self, ids: &[JobId]) -> Cluster {
        let until = Instant::now() + WITHIN;
        loop {
            let cluster = self.read();
            let runs = |id: &JobId| {
                let job = cluster.jobs.iter().find(|job| job.id() == *id);
                job.is_some_and(|job| job.standing() == JobStanding::Holding)
            };
            if ids.iter().all(runs) {
                return cluster;
            }
            assert!(Instant::now() <= until, "{ids:?} do not run: {:?}", cluster.jobs);
        }
    }
}

#[test]
fn a_real_slurm_is_read_as_it_stands() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let whole = bed.submit(&["-N2", "--exclusive", "-t", "60"]);
    let gpus = bed.submit(&["-N1", "--gres=gpu:h100:3", "-c2", "--mem=1000", "-t", "30"]);
    bed.once_running(&[whole, gpus]);
    let wide = bed.submit(&["-N4", "--exclusive", "-t", "10"]);
    let array = bed.submit(&["--array=0-9%2", "-N3", "--exclusive", "-t", "5"]);
    let held = bed.submit(&["--hold", "-C", "rack1", "-t", "5"]);
    let cluster = bed.read();
    assert_eq!(cluster.nodes.len(), 6);
    assert!(cluster.nodes.iter().all(|node| node.is_usable() && node.devices.len() == 4));
    assert_eq!(cluster.counts(), (3, 2), "the array is one record");
    let (state, left_out) = cluster.state().expect("a state");
    assert!(left_out.is_empty(), "{left_out:?}");
    let job = |id: JobId| state.jobs.get(&id).expect("there");
    let placement = job(whole).placement.as_ref().expect("placed");
    assert_eq!((placement.nodes.len(), placement.cpus()), (2, 16));
    let placement = job(gpus).placement.as_ref().expect("placed");
    assert_eq!((placement.cpus(), placement.devices(), placement.memory().0), (2, 3, 1000));
    assert_eq!(job(wide).spec.request.nodes_min(), 4);
    assert_eq!(job(array).spec.request.exclusive, Exclusive::Node);
    assert!(job(held).hold.is_some() && job(wide).eligible.is_some());
    assert!(job(wide).spec.priority > job(array).spec.priority, "as Slurm orders them");
}

/// A job that ran is in the past, and its use ranks its user as Slurm does.
#[test]
fn what_was_used_and_what_ended_are_read_as_slurm_has_them() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let begin = now();
    let job = bed.submit(&["-N1", "-n2", "-t", "5"]);
    once(|| {
        let cluster = bed.once_running(&[job]);
        let started = cluster.job(job.0).and_then(JobRecord::started)?;
        (cluster.now.since(started).0 >= 3).then_some(())
    });
    let ended = Command::new("scancel")
        .arg(job.to_string())
        .env("SLURM_CONF", &bed.conf)
        .status()
        .expect("scancel");
    assert!(ended.success());
    let row = once(|| {
        let mut text = String::new();
        let past = Past::new(&bed.commands, begin.secs(), now().secs() + 1).expect("sacct");
        std::io::BufReader::new(past).read_to_string(&mut text).expect("read");
        assert!(text.starts_with("JobIDRaw|User|Account|"), "{text}");
        // slurmdbd may hear of the end first.
        let own = |line: &&str| line.starts_with(&format!("{job}|")) && line.contains("|main|");
        text.lines().find(own).map(str::to_owned)
    });
    assert!(row.contains("|root|research|main|") && row.contains("CANCELLED"), "{row}");
    // What Slurm has billed is what fair share weighs, to the second.
    let rows = once(|| {
        let cluster = bed.read().ordered(Order::Multifactor);
        assert!(cluster.config.weighing.weights.fair_share > 0);
        let (state, _) = cluster.state().expect("a state");
        let shares = FairShare::new(&state, cluster.now);
        let own = |account: &str, user: &str| shares.row(account, user).map(|row| row.raw_usage);
        let users = cluster.associations.rows.iter().filter_map(|row| {
            let user = row.user.as_deref()?;
            Some((row.usage, own(&row.account, user)))
        });
        let users: Vec<(u64, Option<u64>)> = users.collect();
        users.iter().any(|(used, _)| *used > 0).then_some(users)
    });
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|(theirs, own)| Some(*theirs) == *own), "{rows:?}");
}

/// What slurmrestd tells, over its socket and with a token over its port, is what the commands tell.
#[test]
fn a_slurm_is_the_same_by_slurmrestd_and_by_its_commands() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let control = |words: &[&str]| bed.control(words);
    let gang = bed.submit(&["-N2", "--gres=gpu:h100:3", "-c2", "--mem=1000", "-t", "30"]);
    bed.once_running(&[gang]);
    bed.submit(&["--array=0-9%2", "-N4", "--exclusive", "-t", "5", "--comment", "ein Ümlaut; x=1"]);
    bed.submit(&["--hold", "-C", "rack1", "-p", "back", "-t", "5"]);
    control(&["update", "NodeName=n5", "State=DRAIN", "Reason=bad disk State=DOWN"]);
    control(&[
        "create",
        "reservation",
        "ReservationName=maint",
        "StartTime=now+1hour",
        "Duration=60",
        "Nodes=n[2-3]",
        "Users=root,nobody",
        "Flags=MAINT",
    ]);
    let dir = bed.conf.parent().expect("a folder");
    let socket = Rest::at(&format!("unix:{}", dir.join("rest/socket").display())).expect("a URL");
    let conf = std::fs::read_to_string(&bed.conf).expect("slurm.conf");
    let token = control(&["token", "lifespan=600"]);
    let token = token.strip_prefix("SLURM_JWT=").expect("a token");
    let at = now();
    let seen = |commands: &Commands| {
        let cluster = read(commands, at).expect("read");
        let (state, left_out) = cluster.state().expect("a state");
        assert!(left_out.is_empty(), "{left_out:?}");
        (cluster.nodes, cluster.reservations, state)
    };
    let by_commands = seen(&bed.commands);
    let mut ways = vec![socket];
    if let Some(port) = rest_port(&conf) {
        let port = Rest::at(&format!("http://127.0.0.1:{port}")).expect("a URL");
        ways.push(port.with_token("root", token).expect("a token"));
    }
    for rest in ways {
        let by_rest = seen(&bed.commands.clone().with_rest(rest.clone()));
        assert_eq!(rest.trouble(), None, "the commands were asked");
        assert_eq!(by_rest, by_commands);
    }
    let nobody = Rest::at("unix:/nonexistent/socket").expect("a URL");
    assert_eq!(seen(&bed.commands.clone().with_rest(nobody.clone())), by_commands);
    assert_eq!(nobody.trouble().map(|trouble| trouble.code()), Some("E_SLURM_FAILED"));
    control(&["delete", "ReservationName=maint"]);
    control(&["update", "NodeName=n5", "State=RESUME"]);
}

/// A slurmrestd of a version that nobody knows, and one whose records lack what they need, are
/// passed over with a word; new fields are nobody's business.
#[test]
fn a_slurmrestd_that_is_not_understood_is_passed_over_for_the_commands() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let job = bed.submit(&["-N1", "-t", "5"]);
    let by_commands = bed.once_running(&[job]);
    let all = |version: &str| {
        let path = |what: &str| format!(r#""/slurm/{version}/{what}":{{}}"#);
        let paths = ["jobs", "nodes", "reservations"].map(path).join(",");
        ("/openapi/v3".to_owned(), format!(r#"{{"paths":{{{paths}}}}}"#))
    };
    let at = |what: &str, told: &str| (format!("/slurm/v0.0.38/{what}"), told.to_owned());
    let lacks = [
        all("v0.0.38"),
        at("jobs", r#"{"jobs":[{"job_id":7,"wishes":{"none":[]}}]}"#),
        at("nodes", r#"{"nodes":[{"cpus":8}]}"#),
        at("reservations", r#"{"reservations":{}}"#),
    ];
    let complains = [
        all("v0.0.38"),
        at("jobs", r#"{"jobs":[],"errors":[{"error":"Unspecified error","error_number":-1}]}"#),
    ];
    let ways: [(&[(String, String)], &str); 3] = [
        (&[all("v0.0.99")], "E_SLURM_REST"),
        (&lacks, "E_SLURM_ANSWER"),
        (&complains, "E_SLURM_FAILED"),
    ];
    for (bodies, code) in ways {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        serve(&socket, bodies);
        let rest = Rest::at(&format!("unix:{}", socket.display())).expect("a URL");
        let seen = read(&bed.commands.clone().with_rest(rest.clone()), now()).expect("read");
        assert_eq!(rest.trouble().map(|trouble| trouble.code()), Some(code));
        assert_eq!(seen.counts(), by_commands.counts(), "{code}");
        assert_eq!(seen.nodes.len(), by_commands.nodes.len(), "{code}");
    }
}

/// Answers calls on a socket with these bodies by path; what it does not know is not found.
fn serve(socket: &Path, bodies: &[(String, String)]) {
    let listener = UnixListener::bind(socket).expect("a socket");
    let bodies = bodies.to_vec();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Ok(reader) = stream.try_clone() else { return };
            let lines = BufReader::new(reader).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
            let found = bodies.iter().find(|(known, _)| known == path);
            let (status, body) = found.map_or((404, ""), |(_, body)| (200, body.as_str()));
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        }
    });
}

/// Whom a partition lets in and what it bills are as Slurm has them.
#[test]
fn groups_accounts_and_billing_of_partitions_are_slurms() {
    let Some(bed) = Bed::find() else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    let back = |rule: &str| {
        bed.control(&["update", "PartitionName=back", rule]);
    };
    back("State=DOWN");
    // Nobody is in the account ml, and in the group nogroup alone.
    let said = Command::new("runuser")
        .args(["-u", "nobody", "--", "sbatch", "--parsable", "-o", "/dev/null", "-p", "back"])
        .args(["--wrap", "true"])
        .env("SLURM_CONF", &bed.conf)
        .current_dir("/")
        .output()
        .expect("sbatch");
    assert!(said.status.success(), "{said:?}");
    let theirs = JobId(String::from_utf8_lossy(&said.stdout).trim().parse().expect("a number"));
    let left_out = || {
        let (_, left_out) = bed.read().state().expect("a state");
        left_out.into_iter().find(|job| job.job == theirs).map(|job| job.why)
    };
    assert_eq!(left_out(), None);
    back("AllowGroups=daemon");
    let why = left_out();
    let right = "partition back is for the groups daemon only, not for nobody";
    assert_eq!(why.as_deref(), Some(right));
    // Slurm's word for it, once it looks.
    back("State=UP");
    once(|| {
        let cluster = bed.read();
        let word = cluster.job(theirs.0).and_then(JobRecord::slurm_reason)?.to_owned();
        (word == "PartitionConfig").then_some(())
    });
    back("AllowGroups=daemon,nogroup");
    assert_eq!(left_out(), None);
    back("AllowGroups=ALL");
    back("DenyAccounts=ml");
    assert_eq!(left_out().as_deref(), Some("partition back is not for account ml"));
    back("DenyAccounts=");
    back("TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.5");
    let own = bed.submit(&["-p", "back", "-N1", "-t", "5"]);
    let cluster = bed.once_running(&[own]);
    let (state, _) = cluster.state().expect("a state");
    let placement = state.jobs[&own].placement.clone().expect("placed");
    let billed = state.charge(&placement).get(&TresKind::Billing);
    let told = bed.control(&["-o", "show", "job", &own.0.to_string()]);
    let billed = format!("billing={billed}");
    let words = told.split([' ', ',']);
    assert!(words.clone().any(|word| word == billed), "{billed}: {told}");
    back("TRESBillingWeights=");
    once(|| {
        bed.read().job(theirs.0).is_none_or(|job| job.standing() == JobStanding::Over).then_some(())
    });
}

/// The port beside the bed's other ones on which slurmrestd wants a token.
fn rest_port(conf: &str) -> Option<u16> {
    let line = conf.lines().find_map(|line| line.strip_prefix("AccountingStoragePort="))?;
    line.parse::<u16>().ok().map(|slurmdbd| slurmdbd + 1)
}

fn once<T>(mut seen: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WITHIN;
    loop {
        if let Some(seen) = seen() {
            return seen;
        }
        assert!(Instant::now() <= until, "not within {WITHIN:?}");
    }
}
