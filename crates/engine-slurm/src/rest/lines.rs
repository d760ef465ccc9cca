//! Nodes and reservations of slurmrestd as lines of `scontrol -o show`, so that one reader knows
//! both. Versions name the same fields with numbers, lists and states in several forms.

use crate::read::{Number, Words};
use serde::Deserialize;
use std::fmt::Write as _;

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    name: Words,
    cpus: Number,
    effective_cpus: Number,
    sockets: Number,
    threads: Number,
    real_memory: Number,
    specialized_memory: Number,
    temporary_disk: Number,
    weight: Number,
    gres: Words,
    active_features: Words,
    state: Words,
    /// Only of 0.0.38; later they are among the states.
    state_flags: Words,
    reason: Words,
    reason_changed_at: Number,
    reason_set_by_user: Words,
    comment: Words,
}

#[derive(Deserialize)]
struct Reservations {
    reservations: Vec<Reservation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reservation {
    name: Words,
    start_time: Number,
    end_time: Number,
    node_list: Words,
    users: Words,
    accounts: Words,
    licenses: Words,
    flags: Words,
}

/// A line that grows: what is not known is left out.
struct Line(String);

impl Line {
    fn text(&mut self, key: &str, value: &str) {
        // A line break would end the record.
        let value: String = value.chars().filter(|c| !c.is_control()).collect();
        if !value.is_empty() {
            let gap = if self.0.is_empty() { "" } else { " " };
            let _ = write!(self.0, "{gap}{key}={value}");
        }
    }

    /// What the record is of: without it there is none.
    fn name(&mut self, key: &str, value: &Words) -> Result<(), String> {
        self.text(key, &value.joined());
        if self.0.is_empty() { Err(format!("a record without {key}")) } else { Ok(()) }
    }

    fn number(&mut self, key: &str, value: Number) {
        if let Some(number) = value.get() {
            self.text(key, &number.to_string());
        }
    }
}

/// `IDLE+DRAIN` of a state and its flags.
fn state(node: &Node) -> String {
    let words = node.state.0.iter().chain(&node.state_flags.0);
    words.map(|word| word.to_ascii_uppercase()).collect::<Vec<_>>().join("+")
}

/// The nodes of an answer.
pub(super) fn nodes(answer: &[u8]) -> Result<String, String> {
    let Nodes { nodes } = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for node in nodes {
        let mut line = Line(String::new());
        line.name("NodeName", &node.name)?;
        line.number("CPUTot", node.cpus);
        line.number("CPUEfctv", node.effective_cpus);
        line.number("Sockets", node.sockets);
        line.number("ThreadsPerCore", node.threads);
        line.number("RealMemory", node.real_memory);
        line.number("MemSpecLimit", node.specialized_memory);
        line.number("TmpDisk", node.temporary_disk);
        line.number("Weight", node.weight);
        line.text("Gres", &node.gres.joined());
        line.text("ActiveFeatures", &node.active_features.joined());
        line.text("State", &state(&node));
        // What people wrote comes last: of a key that comes twice the first counts.
        line.text("Comment", &node.comment.joined());
        let (by, reason) = (node.reason_set_by_user.joined(), node.reason.joined());
        match node.reason_changed_at.some() {
            Some(at) if !reason.is_empty() => line.text("Reason", &format!("{reason} [{by}@{at}]")),
            _ => line.text("Reason", &reason),
        }
        text.push_str(&line.0);
        text.push('\n');
    }
    Ok(text)
}

/// The reservations of an answer.
pub(super) fn reservations(answer: &[u8]) -> Result<String, String> {
    let Reservations { reservations } =
        serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for reservation in reservations {
        let mut line = Line(String::new());
        line.name("ReservationName", &reservation.name)?;
        line.number("StartTime", reservation.start_time);
        line.number("EndTime", reservation.end_time);
        line.text("Nodes", &reservation.node_list.joined());
        line.text("Users", &reservation.users.joined());
        line.text("Accounts", &reservation.accounts.joined());
        line.text("Licenses", &reservation.licenses.joined());
        line.text("Flags", &reservation.flags.joined().to_ascii_uppercase());
        text.push_str(&line.0);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 22.05 told them (0.0.38), and the same by hand after the published shapes of 0.0.40.
    #[test]
    fn nodes_of_several_versions_become_the_same_line() {
        let old = r#"{"nodes":[{"name":"n1","cpus":8,"sockets":2,"threads":1,"real_memory":16000,
            "temporary_disk":0,"weight":1,"gres":"gpu:h100:4","active_features":"rack0,ib",
            "state":"idle","state_flags":["DRAIN"],"reason":"bad disk\nState=UP",
            "reason_changed_at":5,"reason_set_by_user":"root"}]}"#;
        let new = r#"{"nodes":[{"name":"n1","cpus":8,"sockets":2,"threads":1,"real_memory":16000,
            "temporary_disk":0,"weight":1,"gres":"gpu:h100:4","active_features":["rack0","ib"],
            "state":["IDLE","DRAIN"],"reason":"bad disk\nState=UP",
            "reason_changed_at":{"set":true,"infinite":false,"number":5},
            "reason_set_by_user":"root"}]}"#;
        let line = "NodeName=n1 CPUTot=8 Sockets=2 ThreadsPerCore=1 RealMemory=16000 TmpDisk=0 \
            Weight=1 Gres=gpu:h100:4 ActiveFeatures=rack0,ib State=IDLE+DRAIN \
            Reason=bad diskState=UP [root@5]\n";
        assert_eq!(nodes(old.as_bytes()).expect("old"), line);
        assert_eq!(nodes(new.as_bytes()).expect("new"), line);
        let kept = r#"{"nodes":[{"name":"n1","cpus":8,"effective_cpus":6,
            "specialized_memory":100}]}"#;
        let line = nodes(kept.as_bytes()).expect("kept");
        assert_eq!(line, "NodeName=n1 CPUTot=8 CPUEfctv=6 MemSpecLimit=100\n");
        assert!(nodes(br#"{"errors":[]}"#).is_err(), "an answer without nodes is none");
        assert!(nodes(br#"{"nodes":[{"cpus":8}]}"#).is_err(), "nor is one of nodes without names");
    }

    #[test]
    fn reservations_keep_their_names_times_and_flags() {
        let told = r#"{"reservations":[{"name":"maint","start_time":10,
            "end_time":{"set":true,"infinite":false,"number":20},"node_list":"n[0-1]",
            "users":"ada,bob","accounts":"","licenses":"","flags":["MAINT","SPEC_NODES"]}]}"#;
        assert_eq!(
            reservations(told.as_bytes()).expect("read"),
            "ReservationName=maint StartTime=10 EndTime=20 Nodes=n[0-1] Users=ada,bob \
             Flags=MAINT,SPEC_NODES\n"
        );
        assert_eq!(reservations(br#"{"reservations":[]}"#).expect("none"), "");
    }
}
