//! The real filters: a program of the bed (`xtask/k8s/bed/filters`) that answers line by line.

use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What it says of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// The pod as the API server would have taken it.
    pub(crate) pod: Value,
    /// Why it would not have.
    pub(crate) invalid: String,
    /// The nodes on which it may be.
    pub(crate) feasible: BTreeSet<String>,
    /// Why not on the others.
    pub(crate) reasons: BTreeMap<String, Vec<String>>,
    /// Which plugin says so.
    pub(crate) plugins: BTreeMap<String, String>,
    error: String,
}

/// The running program.
pub(crate) struct Filters {
    child: Child,
    ask: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Filters {
    pub(crate) fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("the program of the real filters starts");
        let ask = child.stdin.take().expect("its input");
        let hear = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, ask, hear }
    }

    /// Asks about one pod of a cluster.
    pub(crate) fn answer(&mut self, question: &Value) -> Answer {
        let mut line = question.to_string();
        line.push('\n');
        self.ask.write_all(line.as_bytes()).expect("it listens");
        let mut text = String::new();
        self.hear.read_line(&mut text).expect("it answers");
        let answer: Answer = serde_json::from_str(&text).expect("an answer");
        assert_eq!(answer.error, "", "{question}");
        answer
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        // It ends with its input too; whoever is in a hurry need not wait for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
