//! What `muster slurm init` writes is what a real slurmctld reads.

use crate::place::{MUSTER, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn init(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(MUSTER);
    command.args(["slurm", "init", "--dir"]).arg(dir).args(words);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn machines_that_are_wrong_are_told_and_nothing_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("slurm");
    for (words, part) in [
        (&["g1:memory=lots"][..], "no number"),
        (&["g1:memory=1000", "g1:memory=1000"], "named twice"),
        (&["g 1:memory=1000"], "is no name"),
        (&["g1:memory=1000", "--cluster", "a b"], "is no name"),
    ] {
        let output = init(&dir, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
    assert!(!dir.exists(), "nothing was written");
    assert!(init(&dir, &["g1:memory=1000"]).status.success());
    let again = init(&dir, &["g1:memory=2000"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"), "{again:?}");
    let conf = std::fs::read_to_string(dir.join("slurm.conf")).unwrap();
    assert!(conf.contains("RealMemory=1000"));
}

#[test]
fn slurmctld_reads_what_is_written() {
    let Some(bed) = std::env::var_os("MUSTER_TEST_SLURM_CONF").map(PathBuf::from) else {
        eprintln!("skipped: MUSTER_TEST_SLURM_CONF is not set; cargo xtask test --only slurm");
        return;
    };
    // What carries the bed's mark ends with it.
    let bed = bed.parent().unwrap();
    let dir = bed.join("init");
    let hosts = ["g1:sockets=2,cores=8,memory=64000,gpus=4,gpu=h100", "c1:cores=4,memory=8000"];
    let output = init(&dir, &[&hosts[..], &["--force"]].concat());
    assert!(output.status.success(), "{output:?}");
    let conf = dir.join("slurm.conf");
    let written = std::fs::read_to_string(&conf).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let elsewhere = ["SlurmUser=", "StateSave", "SlurmctldPid", "SlurmctldLog", "AuthType"];
    let stays = |line: &&str| !elsewhere.iter().any(|key| line.starts_with(key));
    let own = written.lines().filter(stays).collect::<Vec<_>>().join("\n");
    // What says where things lie on a machine; names that nobody resolves get an address.
    let own = own.replace(" State=UNKNOWN", " NodeAddr=127.0.0.1 State=UNKNOWN")
        + &format!(
            "\nSlurmUser=root\nSlurmctldPort={port}\nStateSaveLocation={dir}/state\n\
             SlurmctldPidFile={dir}/slurmctld.pid\nSlurmctldLogFile={dir}/slurmctld.log\n\
             AuthType=auth/munge\nAuthInfo=socket={bed}/munge/socket\n",
            dir = dir.display(),
            bed = bed.display(),
        );
    std::fs::write(&conf, own).unwrap();
    std::fs::create_dir_all(dir.join("state")).unwrap();
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", &conf).env("MUSTER_BED", bed);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let started = run("slurmctld", &["-f", conf.to_str().unwrap()]);
    assert!(started.status.success(), "{started:?}");
    let nodes = until("slurmctld answers", || {
        let said = run("scontrol", &["-o", "show", "node"]);
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
    });
    let of = |name: &str| nodes.lines().find(|line| line.contains(name)).unwrap().to_owned();
    let (g1, c1) = (of("NodeName=g1 "), of("NodeName=c1 "));
    assert!(g1.contains("CPUTot=16") && g1.contains("Gres=gpu:h100:4"), "{g1}");
    assert!(c1.contains("CPUTot=4") && c1.contains("RealMemory=6976"), "{c1}");
    let partition = run("scontrol", &["-o", "show", "partition", "main"]);
    let partition = String::from_utf8_lossy(&partition.stdout).into_owned();
    assert!(partition.contains("DefMemPerCPU=1744") && partition.contains("TotalNodes=2"));
    let pid = std::fs::read_to_string(dir.join("slurmctld.pid")).unwrap();
    assert!(run("kill", &[pid.trim()]).status.success());
}
