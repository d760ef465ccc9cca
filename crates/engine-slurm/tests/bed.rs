//! The reader on a real Slurm: four idle nodes of eight CPUs and four GPUs.
//!
//! `cargo xtask test --only slurm` starts one and names its configuration in
//! `MUSTER_TEST_SLURM_CONF`. Without that nothing is tested here.

use muster_engine_slurm::Commands;
use muster_engine_slurm::read::{Cluster, JobStanding, read};
use muster_model::{Exclusive, JobId, Timestamp};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A condition is waited for so long.
const WITHIN: Duration = Duration::from_mins(1);

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    Timestamp::from_secs(since.as_secs() as i64)
}

struct Bed {
    conf: PathBuf,
    commands: Commands,
}

impl Bed {
    fn find() -> Option<Self> {
        let conf = PathBuf::from(std::env::var_os("MUSTER_TEST_SLURM_CONF")?);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let commands = Commands::find(&path).expect("Slurm's commands").with_conf(&conf);
        Some(Self { conf, commands })
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
