//! A Kubernetes of our own for a while: a real etcd and a real control plane on this host. Nodes
//! are objects; what their kubelets would do a player does, so no container runtime is needed.

mod build;
mod command;
mod conf;

use std::path::Path;
use std::process::{Child, Command};

use crate::bed::{Ground, free_ports};
use crate::{need, sh};

pub(crate) use build::Programs;
pub(crate) use command::main;

/// Who plays the kubelets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Players {
    /// Nobody: a bound pod stays as it is.
    None,
    /// Bound pods run at once, and those of a job succeed after a moment.
    Fast,
    /// What bound pods name as their command runs, as processes of this host; the rest is as with
    /// [`Players::Fast`].
    Real,
}

/// How a bed looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) nodes: u32,
    pub(crate) gpus: u32,
    /// With kube-scheduler beside, for pods that name no other one.
    pub(crate) scheduler: bool,
    pub(crate) players: Players,
}

/// Four nodes with eight GPUs each in two racks.
pub(crate) const SMALL: Shape =
    Shape { nodes: 4, gpus: 8, scheduler: false, players: Players::Real };

#[derive(Debug, Clone, Copy)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
    scheduler: u16,
    kubelet: u16,
}

/// A running bed.
pub(crate) struct Bed {
    ground: Ground,
    programs: Programs,
    ports: Ports,
}

/// Finds or builds what a bed runs; installs etcd from Debian's package where it may.
///
/// # Errors
/// What is missing, in one sentence.
pub(crate) fn available() -> Result<Programs, String> {
    need::need("etcd-server", "etcd", "").map_err(|skip| skip.reason)?;
    Programs::build()
}

impl Bed {
    /// Starts it and waits until the API server answers and every node is there.
    ///
    /// # Errors
    /// A daemon does not start; with the end of its log.
    pub(crate) fn start(programs: Programs, shape: Shape) -> Result<Self, String> {
        let first = free_ports(5, &[0, 1, 2, 3, 4])?;
        let ports = Ports {
            etcd: first,
            etcd_peer: first + 1,
            apiserver: first + 2,
            scheduler: first + 3,
            kubelet: first + 4,
        };
        let bed = Self { ground: Ground::new()?, programs, ports };
        bed.launch(shape)?;
        Ok(bed)
    }

    /// Where everything of it lies.
    pub(crate) fn dir(&self) -> &Path {
        self.ground.dir()
    }

    /// Lets it go on without this program; its folder is all that is needed to end it.
    fn leave(self) {
        self.ground.leave();
    }

    fn launch(&self, shape: Shape) -> Result<(), String> {
        conf::write(self.dir(), self.ports)
            .map_err(|error| format!("{}: {error}", self.dir().display()))?;
        self.player(&["keys", "--dir", "."])?;
        self.detach("etcd".as_ref(), &conf::etcd(self.ports), "etcd.log")?;
        let kubeall = self.programs.path("kubeall");
        let mut apiserver =
            self.detach(&kubeall, &conf::apiserver(self.ports), "kube-apiserver.log")?;
        self.register(shape).map_err(|reason| self.why(&mut apiserver, &reason))?;
        self.detach(&kubeall, &conf::manager(), "kube-controller-manager.log")?;
        if shape.scheduler {
            self.detach(&kubeall, &conf::peer(self.ports), "kube-scheduler.log")?;
        }
        let mode = match shape.players {
            Players::None => return Ok(()),
            Players::Fast => "fast",
            Players::Real => "real",
        };
        let port = self.ports.kubelet.to_string();
        let words = ["play", "--mode", mode, "--port", &port, "--dir", "."].map(str::to_owned);
        self.detach(&self.programs.path("player"), &words, "player.log").map(drop)
    }

    /// Waits until the API server is ready, and makes the nodes.
    fn register(&self, shape: Shape) -> Result<(), String> {
        let (nodes, gpus) = (shape.nodes.to_string(), shape.gpus.to_string());
        let port = self.ports.kubelet.to_string();
        self.player(&["nodes", "--count", &nodes, "--gpus", &gpus, "--port", &port])
    }

    /// The command line of Kubernetes' own scheduler for this bed.
    pub(crate) fn peer(&self) -> Vec<String> {
        let mut words = vec![self.programs.path("kubeall").display().to_string()];
        words.extend(conf::peer(self.ports));
        words
    }

    /// A program that finds the bed's files where it starts, and ends with it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.ground.command(program)
    }

    fn player(&self, words: &[&str]) -> Result<(), String> {
        sh::read(self.ground.command(self.programs.path("player")).args(words)).map(drop)
    }

    fn detach(&self, program: &Path, words: &[String], log: &str) -> Result<Child, String> {
        self.ground.detach(self.ground.command(program).args(words), log)
    }

    /// A start that failed, with the end of the API server's log; it also says if that is gone.
    fn why(&self, apiserver: &mut Child, reason: &str) -> String {
        let log = std::fs::read_to_string(self.dir().join("kube-apiserver.log"));
        let log = log.unwrap_or_default();
        let mut end: Vec<&str> = log.lines().rev().take(5).collect();
        end.reverse();
        let state = match apiserver.try_wait() {
            Ok(Some(status)) => format!("kube-apiserver ended with {status}"),
            _ => "kube-apiserver runs".to_owned(),
        };
        format!("{reason}; {state}: {}", end.join(" | "))
    }
}
