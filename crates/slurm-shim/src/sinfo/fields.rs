//! Every column that `sinfo` has: its letter, its name, its title and its text.

use muster_api::{NodeState, NodeView, PartitionView};
use muster_model::{Seconds, TimeLimit};
use muster_slurm_syntax::duration::print_short;
use muster_slurm_syntax::hostlist;

use crate::clock;

/// A line: nodes that look alike, in a partition where the line is about one.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    /// The partition.
    pub(crate) partition: Option<&'a PartitionView>,
    /// The nodes, by index.
    pub(crate) nodes: Vec<&'a NodeView>,
}

/// What a column is about, which decides what shares a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The partition.
    Partition,
    /// Something in which the nodes of a line are alike.
    Node,
    /// A sum, a list or a range over the nodes of a line.
    Sum,
}

/// A column of `sinfo`.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    letter: char,
    name: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// What it is about.
    pub(crate) level: Level,
    /// Its text for a line.
    pub(crate) text: fn(&Group<'_>) -> String,
}

macro_rules! fields {
    ($($letter:literal $name:literal $title:literal $level:ident |$group:pat_param| $text:expr;)+) => {
        const FIELDS: &[Field] = &[$(Field {
            letter: $letter,
            name: $name,
            title: $title,
            level: Level::$level,
            text: |$group| $text,
        },)+];
    };
}

fields! {
    'a' "available" "AVAIL" Partition |g| of_partition(g, |p| p.state.clone());
    'A' "nodeai" "NODES(A/I)" Sum |g| { let (a, i, _) = counts(g); format!("{a}/{i}") };
    'b' "features_act" "ACTIVE_FEATURES" Node |g| of_node(g, features);
    'B' "maxcpuspernode" "MAX_CPUS_PER_NODE" Partition |_| "UNLIMITED".into();
    'c' "cpus" "CPUS" Sum |g| least(g, |n| u64::from(n.cpus));
    'C' "cpusstate" "CPUS(A/I/O/T)" Sum |g| cpus_state(g);
    'd' "disk" "TMP_DISK" Sum |g| least(g, |n| n.scratch_mib);
    'D' "nodes" "NODES" Sum |g| g.nodes.len().to_string();
    'e' "freemem" "FREE_MEM" Sum |_| "N/A".into();
    'E' "reason" "REASON" Node |g| of_node(g, |n| if n.reason.is_empty() { "none".into() } else { n.reason.clone() });
    'f' "features" "AVAIL_FEATURES" Node |g| of_node(g, features);
    'F' "nodeaiot" "NODES(A/I/O/T)" Sum |g| { let (a, i, o) = counts(g); format!("{a}/{i}/{o}/{}", g.nodes.len()) };
    'g' "groups" "GROUPS" Partition |_| "all".into();
    'G' "gres" "GRES" Node |g| of_node(g, crate::scontrol::gres);
    'h' "oversubscribe" "OVERSUBSCRIBE" Partition |_| "NO".into();
    'H' "timestamp" "TIMESTAMP" Node |g| of_node(g, |n| clock::instant_or(n.reason_since_ms, "Unknown"));
    'I' "priorityjobfactor" "PRIO_JOB_FACTOR" Partition |g| of_partition(g, |p| p.priority.max(1).to_string());
    'l' "time" "TIMELIMIT" Partition |g| of_partition(g, |p| limit(p.max_time_s, "infinite"));
    'L' "defaulttime" "DEFAULTTIME" Partition |g| of_partition(g, default_time);
    'm' "memory" "MEMORY" Sum |g| least(g, |n| n.memory_mib);
    'M' "preemptmode" "PREEMPT_MODE" Partition |_| "OFF".into();
    'n' "nodehost" "HOSTNAMES" Node |g| of_node(g, |n| n.name.clone());
    'N' "nodelist" "NODELIST" Sum |g| names(g);
    'o' "nodeaddr" "NODE_ADDR" Node |g| of_node(g, |n| n.name.clone());
    'O' "cpusload" "CPU_LOAD" Sum |_| "N/A".into();
    'p' "prioritytier" "PRIO_TIER" Partition |g| of_partition(g, |p| p.tier.to_string());
    'P' "partition" "PARTITION" Partition |g| of_partition(g, |p| if p.default { format!("{}*", p.name) } else { p.name.clone() });
    'r' "root" "ROOT" Partition |_| "no".into();
    'R' "partitionname" "PARTITION" Partition |g| of_partition(g, |p| p.name.clone());
    's' "size" "JOB_SIZE" Partition |g| of_partition(g, job_size);
    'S' "allocnodes" "ALLOCNODES" Partition |_| "all".into();
    't' "statecompact" "STATE" Node |g| state(g).0.into();
    'T' "statelong" "STATE" Node |g| state(g).1.into();
    'u' "user" "USER" Node |g| of_node(g, by);
    'U' "userlong" "USER" Node |g| of_node(g, by);
    'v' "version" "VERSION" Sum |_| crate::release();
    'w' "weight" "WEIGHT" Sum |g| least(g, |n| u64::from(n.weight));
    'X' "sockets" "SOCKETS" Sum |g| least(g, |n| u64::from(n.sockets));
    'Y' "cores" "CORES" Sum |g| least(g, |n| u64::from(n.cores_per_socket));
    'z' "socketcorethread" "S:C:T" Sum |g| shape(g);
    'Z' "threads" "THREADS" Sum |g| least(g, |n| u64::from(n.threads_per_core));
    ' ' "allocmem" "ALLOCMEM" Sum |g| least(g, |n| n.memory_used_mib);
    ' ' "cluster" "CLUSTER" Sum |_| "N/A".into();
    ' ' "comment" "COMMENT" Sum |_| String::new();
    ' ' "extra" "EXTRA" Sum |_| String::new();
    ' ' "gresused" "GRES_USED" Node |g| of_node(g, crate::scontrol::gres_used);
    ' ' "port" "PORT" Sum |_| "0".into();
    ' ' "statecomplete" "STATECOMPLETE" Node |g| state(g).1.into();
}

/// The column of a letter.
pub(crate) fn by_letter(letter: char) -> Option<Field> {
    FIELDS.iter().find(|field| field.letter == letter && letter != ' ').copied()
}

/// The column of a name.
pub(crate) fn by_name(name: &str) -> Option<Field> {
    let lower = name.to_ascii_lowercase();
    let lower = match lower.as_str() {
        "state" => "statelong",
        "nodeai" => "nodeai",
        other => other,
    };
    FIELDS.iter().find(|field| field.name == lower).copied()
}

fn of_partition(group: &Group<'_>, text: impl Fn(&PartitionView) -> String) -> String {
    group.partition.map_or("n/a".to_owned(), text)
}

fn of_node(group: &Group<'_>, text: impl Fn(&NodeView) -> String) -> String {
    group.nodes.first().map_or("n/a".to_owned(), |node| text(node))
}

fn state(group: &Group<'_>) -> (&'static str, &'static str) {
    group.nodes.first().map_or(("n/a", "n/a"), |node| super::state(node))
}

fn features(node: &NodeView) -> String {
    let list: Vec<&str> = node.features.iter().map(String::as_str).collect();
    if list.is_empty() { "(null)".to_owned() } else { list.join(",") }
}

fn by(node: &NodeView) -> String {
    if node.reason_by.is_empty() { "Unknown".to_owned() } else { node.reason_by.clone() }
}

fn names(group: &Group<'_>) -> String {
    let names: Vec<&str> = group.nodes.iter().map(|node| node.name.as_str()).collect();
    hostlist::fold(&names)
}

/// Nodes with work, without, and those that take none.
fn counts(group: &Group<'_>) -> (usize, usize, usize) {
    let (mut busy, mut idle, mut other) = (0, 0, 0);
    for node in &group.nodes {
        match node.state {
            NodeState::Mixed | NodeState::Allocated => busy += 1,
            NodeState::Idle if !node.drain => idle += 1,
            _ => other += 1,
        }
    }
    (busy, idle, other)
}

fn cpus_state(group: &Group<'_>) -> String {
    let (mut used, mut idle, mut other) = (0, 0, 0);
    for node in &group.nodes {
        let free = node.cpus.saturating_sub(node.cpus_used);
        used += node.cpus_used;
        if node.drain || node.state == NodeState::Down {
            other += free;
        } else {
            idle += free;
        }
    }
    format!("{used}/{idle}/{other}/{}", used + idle + other)
}

/// The smallest amount, with a plus where others have more.
fn least(group: &Group<'_>, amount: impl Fn(&NodeView) -> u64) -> String {
    let amounts = || group.nodes.iter().map(|node| amount(node));
    match (amounts().min(), amounts().max()) {
        (Some(least), Some(most)) if least < most => format!("{least}+"),
        (least, _) => least.unwrap_or(0).to_string(),
    }
}

fn shape(group: &Group<'_>) -> String {
    format!(
        "{}:{}:{}",
        least(group, |n| u64::from(n.sockets)),
        least(group, |n| u64::from(n.cores_per_socket)),
        least(group, |n| u64::from(n.threads_per_core))
    )
}

fn limit(seconds: Option<u64>, none: &str) -> String {
    seconds.map_or(none.to_owned(), |s| print_short(TimeLimit::Of(Seconds(s))))
}

fn default_time(partition: &PartitionView) -> String {
    let own = partition.default_time_s.filter(|_| partition.default_time_s != partition.max_time_s);
    limit(own, "n/a")
}

fn job_size(partition: &PartitionView) -> String {
    let most = partition.max_nodes.map_or("infinite".to_owned(), |n| n.to_string());
    format!("{}-{most}", partition.min_nodes.max(1))
}
