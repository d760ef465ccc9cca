//! A client of steps, as `srun` is one.

use super::Daemon;
use muster_api::step::{
    Connection, EndCause, Event, ExitStatus, Request, StepSpec, Stream, TaskLaunch,
};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;

/// A node's name, tasks and GPUs.
pub(crate) type NodePart = (String, u32, Vec<u32>);

/// A client of one step, as `srun` is one.
pub(crate) struct Client {
    pub(crate) connection: Connection,
}

impl Client {
    pub(crate) fn open(daemon: &Daemon, id: u32) -> Self {
        let path = daemon.engine.step_socket(muster_model::JobId(id), 1);
        Self { connection: Connection::open(&path).expect("connected") }
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.connection.send(request, &[]).expect("sent");
    }

    pub(crate) fn event(&mut self) -> Event {
        self.connection.recv().expect("an event").message.parse().expect("event")
    }

    /// Creates a step; gives its number, the nodes with tasks and GPUs, and the places.
    pub(crate) fn create(&mut self, spec: &StepSpec) -> (u32, Vec<NodePart>, Vec<u32>) {
        self.send(&Request::CreateStep(Box::new(spec.clone())));
        match self.event() {
            Event::Created { step, nodes, places } => {
                (step, nodes.into_iter().map(|n| (n.name, n.tasks, n.gpus)).collect(), places)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Launches all tasks, each with a pipe; gives the ends to read.
    pub(crate) fn launch(&mut self, tasks: u32) -> Vec<std::io::PipeReader> {
        (0..tasks)
            .map(|procid| {
                let (reader, writer) = std::io::pipe().expect("pipe");
                let task = TaskLaunch {
                    procid,
                    stdin: Stream::Null,
                    stdout: Stream::Fd(0),
                    stderr: Stream::Fd(0),
                    argv: None,
                };
                self.connection
                    .send(&Request::Launch { tasks: vec![task] }, &[writer.as_fd()])
                    .expect("sent");
                reader
            })
            .collect()
    }

    /// Waits for the step's end; gives each task's status, the step's and its cause.
    pub(crate) fn finish(&mut self) -> (BTreeMap<u32, ExitStatus>, ExitStatus, EndCause) {
        let mut tasks = BTreeMap::new();
        loop {
            match self.event() {
                Event::TaskStarted { .. } => {}
                Event::TaskExited { procid, status, .. } => {
                    tasks.insert(procid, status);
                }
                Event::TaskFailed { procid, code, .. } => {
                    tasks.insert(procid, ExitStatus { code: code as u8, signal: 0 });
                }
                Event::StepEnded { status, cause, .. } => return (tasks, status, cause),
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn text(mut pipe: std::io::PipeReader) -> String {
    let mut all = String::new();
    pipe.read_to_string(&mut all).expect("output");
    all
}

pub(crate) fn shell(line: &str) -> StepSpec {
    StepSpec {
        cwd: "/".to_owned(),
        environment: vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("MASTER_ADDR".to_owned(), "10.0.0.1".to_owned()),
        ],
        argv: vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()],
        ..StepSpec::default()
    }
}
