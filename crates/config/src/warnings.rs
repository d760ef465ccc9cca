//! What a file may say and most likely does not mean: sections that contradict each other, names that
//! are nowhere, limits that are never reached. Nothing of it keeps a daemon from starting.

mod limits;

use crate::check::{DEFAULT_ACCOUNT, all_host_lists};
use crate::error::Problem;
use crate::read::{Text, span_of};
use crate::{Config, PartitionWord, Practice};
use muster_model::{OrderMode, PreemptMode};
use muster_slurm_syntax::hostlist;
use std::collections::BTreeSet;
use toml::de::DeTable;

/// What is known beyond the file.
#[derive(Default)]
pub struct Known<'a> {
    /// The names of the nodes there are, where they are known.
    pub nodes: Option<BTreeSet<String>>,
    /// Whether there is a user of this name.
    pub is_user: Option<&'a dyn Fn(&str) -> bool>,
    /// Whether there is a group of this name.
    pub is_group: Option<&'a dyn Fn(&str) -> bool>,
}

/// The code of every warning.
const CODE: &str = "W_CONFIG";

/// Takes a warning: section, its number, the key, what, and what to do.
pub(crate) type Warn<'a> = dyn FnMut(&str, usize, &str, String, &str) + 'a;

impl Config {
    /// What most likely is not meant, in the order of the file. `text` is what this was read from,
    /// `name` is for messages.
    pub fn warnings(&self, text: &str, name: &str, known: &Known<'_>) -> Vec<Problem> {
        let text = Text { name, text };
        let Ok(table) = DeTable::parse(text.text) else { return Vec::new() };
        let mut found = Vec::new();
        let mut warn = |section: &str, i: usize, key: &str, message: String, hint: &str| {
            let at = span_of(table.get_ref(), section, i, key);
            let hint = (!hint.is_empty()).then(|| hint.to_owned());
            found.push(text.problem(CODE, at, message, hint));
        };
        nodes(self, known, &mut warn);
        people(self, known, &mut warn);
        partitions(self, &mut warn);
        order(self, &mut warn);
        preemption(self, &mut warn);
        limits::warn(self, &mut warn);
        resources(self, &mut warn);
        found.sort_by_key(|problem| (problem.line, problem.column));
        found
    }

    /// The names of the practice nodes that the file asks for.
    pub fn practice_nodes(&self) -> Option<BTreeSet<String>> {
        let Practice { nodes, .. } = self.local.practice.or_else(|| self.practice.size())?;
        Some((1..=nodes).map(|n| format!("node{n}")).collect())
    }
}

/// Host lists that name nodes which are not there.
fn nodes(config: &Config, known: &Known<'_>, warn: &mut Warn) {
    let Some(there) = config.practice_nodes().or_else(|| known.nodes.clone()) else { return };
    let standing = config.reservation.iter().enumerate().filter_map(|(i, of)| {
        let text = of.nodes.as_ref().filter(|text| text.0.parse::<u32>().is_err())?;
        Some(("reservation", i, "nodes".to_owned(), text.0.as_str()))
    });
    for (section, i, key, list) in all_host_lists(config).into_iter().chain(standing) {
        if list.eq_ignore_ascii_case("all") {
            continue;
        }
        let names = hostlist::expand(list, hostlist::HOSTS_MAX).unwrap_or_default();
        let absent: Vec<&String> = names.iter().filter(|name| !there.contains(*name)).collect();
        if absent.is_empty() {
            continue;
        }
        let text = hostlist::fold(&absent);
        let all: Vec<&String> = there.iter().collect();
        let message = match absent.len() {
            1 => format!("there is no node {text}"),
            _ => format!("there are no nodes {text}"),
        };
        warn(section, i, &key, message, &format!("the nodes are {}", hostlist::fold(&all)));
    }
    for (i, of) in config.partition.iter().enumerate() {
        let all = of.nodes.iter().any(|list| list.eq_ignore_ascii_case("all"));
        let own = of
            .nodes
            .iter()
            .flat_map(|list| hostlist::expand(list, hostlist::HOSTS_MAX).unwrap_or_default());
        let own: BTreeSet<String> = own.filter(|name| there.contains(name)).collect();
        let count = if all { there.len() } else { own.len() };
        if of.min_nodes as usize > count {
            let message =
                format!("no job has {} nodes: partition {} has {count}", of.min_nodes, of.name);
            warn("partition", i, "min_nodes", message, "ask for fewer nodes, or add some");
        }
    }
}

/// Users and groups that this machine does not know.
fn people(config: &Config, known: &Known<'_>, warn: &mut Warn) {
    let absent = |name: &str| known.is_user.is_some_and(|is_user| !is_user(name));
    let hint = "`getent passwd` lists the users of this machine";
    let mut named: Vec<(&str, usize, &str, &String)> = Vec::new();
    named.extend(config.daemon.admins.iter().map(|name| ("daemon", 0, "admins", name)));
    for (i, of) in config.account.iter().enumerate() {
        named.extend(of.users.iter().flatten().map(|name| ("account", i, "users", name)));
        named.extend(of.default_for.iter().map(|name| ("account", i, "default_for", name)));
    }
    for (i, of) in config.association.iter().enumerate() {
        named.push(("association", i, "user", &of.user));
    }
    for (i, of) in config.reservation.iter().enumerate() {
        named.extend(of.users.iter().map(|name| ("reservation", i, "users", name)));
    }
    for (section, i, key, name) in named {
        let name = name.trim_start_matches('-');
        if absent(name) {
            warn(section, i, key, format!("there is no user {name} on this machine"), hint);
        }
    }
    for (i, of) in config.reservation.iter().enumerate() {
        for name in &of.groups {
            if known.is_group.is_some_and(|is_group| !is_group(name)) {
                let message = format!("there is no group {name} on this machine");
                warn("reservation", i, "groups", message, "`getent group` lists the groups");
            }
        }
    }
    default_accounts(config, warn);
}

/// A user has one default account, and may use it.
fn default_accounts(config: &Config, warn: &mut Warn) {
    for (i, of) in config.account.iter().enumerate() {
        for user in &of.default_for {
            if of.users.as_ref().is_some_and(|users| !users.contains(user)) {
                let message = format!("{user} may not use account {}, their default", of.name);
                warn("account", i, "default_for", message, "add them to the account's users");
            }
            let first = config.account[..i].iter().find(|a| a.default_for.contains(user));
            if let Some(first) = first {
                let message = format!("{user} has the default account {} already", first.name);
                warn("account", i, "default_for", message, "name them in one account only");
            }
        }
    }
}

/// Values of one partition that exclude each other.
fn partitions(config: &Config, warn: &mut Warn) {
    for (i, of) in config.partition.iter().enumerate() {
        if let (Some(default), Some(most)) = (of.default_time.and_then(|l| l.0), of.max_time.0)
            && default > most
        {
            let message = format!("default_time {default} is longer than max_time {most}");
            let hint = "jobs that name no limit would be refused; shorten default_time";
            warn("partition", i, "default_time", message, hint);
        }
        if of.default_memory_per_cpu.is_some() && of.default_memory_per_node.is_some() {
            let message = "of default_memory_per_cpu and default_memory_per_node one is enough";
            let hint = "leave one of them out";
            warn("partition", i, "default_memory_per_node", message.to_owned(), hint);
        }
        if let (Some(default), Some(most)) = (of.default_memory_per_cpu, of.max_memory_per_cpu)
            && default > most
        {
            let message = format!("default_memory_per_cpu {default} is more than {most}");
            let hint = "jobs would get more CPUs than they ask for; lower it to max_memory_per_cpu";
            warn("partition", i, "default_memory_per_cpu", message, hint);
        }
        if of.default && of.state != PartitionWord::Up {
            let message = format!("the default partition {} does not run jobs", of.name);
            warn("partition", i, "state", message, "make another one the default");
        }
    }
    if let (Some(nodes), Some(practice)) = (config.practice.nodes, config.local.practice)
        && nodes != practice.nodes
    {
        let message = format!("practice in [local] says {} nodes, not {nodes}", practice.nodes);
        warn("practice", 0, "nodes", message, "leave one of them out; [local] counts");
    }
}

/// Weights that nobody gets anything of.
fn order(config: &Config, warn: &mut Warn) {
    let of = &config.priority;
    let tres = of.tres.as_ref().is_some_and(|weights| weights.0.values().any(|w| *w > 0));
    let weights = [
        ("age", of.age),
        ("association", of.association),
        ("fair_share", of.fair_share),
        ("job_size", of.job_size),
        ("partition", of.partition),
        ("qos", of.qos),
        ("tres", u32::from(tres)),
    ];
    let set = weights.iter().find(|(_, weight)| *weight > 0);
    match (config.policy.order, set) {
        (OrderMode::Fifo | OrderMode::Slowdown, Some((key, _))) => {
            let message = "weights count only under order = \"multifactor\"".to_owned();
            warn("priority", 0, key, message, "set order = \"multifactor\" in [policy]");
        }
        (OrderMode::Multifactor, None) => {
            let message = "every weight is 0: jobs come in order of submission".to_owned();
            warn("policy", 0, "order", message, "set weights in [priority], such as age = 1000");
        }
        _ => {}
    }
    let given = config.account.iter().any(|a| a.priority.is_some())
        || config.association.iter().any(|a| a.priority.is_some());
    let nobody = [
        (
            "partition",
            of.partition,
            config.partition.iter().any(|p| p.priority > 0),
            "[[partition]]",
        ),
        ("qos", of.qos, config.qos.iter().any(|q| q.priority > 0), "[[qos]]"),
        ("association", of.association, given, "[[account]] or [[association]]"),
    ];
    for (key, weight, somebody, section) in nobody {
        if weight > 0 && !somebody {
            let message = format!("no {section} has a priority: the factor is 0 for every job");
            warn("priority", 0, key, message, &format!("set priority in a {section}"));
        }
    }
    if given && of.association == 0 {
        let first = config.account.iter().position(|a| a.priority.is_some());
        let section = if first.is_some() { "account" } else { "association" };
        let user = || config.association.iter().position(|a| a.priority.is_some());
        let message =
            "priorities of associations count for nothing without their weight".to_owned();
        let hint = "set association in [priority]";
        warn(section, first.or_else(user).unwrap_or(0), "priority", message, hint);
    }
}

/// Preemption that preempts nobody.
fn preemption(config: &Config, warn: &mut Warn) {
    let of = &config.preemption;
    let tiers: BTreeSet<u32> = config.partition.iter().map(|p| p.tier).collect();
    if of.tiers && tiers.len() < 2 {
        let message = "tiers preempt nobody while all partitions are of one tier".to_owned();
        warn("preemption", 0, "tiers", message, "set tier in [[partition]]");
    }
    let by_qos = config.qos.iter().any(|q| !q.preempts.is_empty());
    let guaranteed = config.account.iter().any(|a| a.guarantee.is_some());
    let reclaims = of.reclaim != PreemptMode::Off;
    if reclaims && !guaranteed {
        let message = "nothing is reclaimed: no account has a guarantee".to_owned();
        warn("preemption", 0, "reclaim", message, "set guarantee in [[account]]");
    }
    if of.tiers || by_qos || reclaims {
        return;
    }
    let hint = "set tiers in [preemption], preempts in a [[qos]], or leave it out";
    let message = "nobody preempts anybody: no rule says who may".to_owned();
    if of.mode != PreemptMode::Off {
        warn("preemption", 0, "mode", message.clone(), hint);
    }
    for (i, partition) in config.partition.iter().enumerate() {
        if partition.preempt_mode.is_some_and(|mode| mode != PreemptMode::Off) {
            warn("partition", i, "preempt_mode", message.clone(), hint);
        }
    }
    for (i, qos) in config.qos.iter().enumerate() {
        if qos.preempt_mode.is_some_and(|mode| mode != PreemptMode::Off) {
            warn("qos", i, "preempt_mode", message.clone(), hint);
        }
    }
}

/// Accounts that nobody may use, and sections of GPUs that later ones cover.
fn resources(config: &Config, warn: &mut Warn) {
    for (i, of) in config.account.iter().enumerate() {
        let above = config.account.iter().any(|a| a.parent.as_ref() == Some(&of.name));
        if of.users.as_ref().is_some_and(BTreeSet::is_empty) && !above && of.name != DEFAULT_ACCOUNT
        {
            let message = format!("nobody may use account {}", of.name);
            warn("account", i, "users", message, "name users, or leave users out for everybody");
        }
    }
    for (i, of) in config.gpu.iter().enumerate() {
        let covers = |later: &crate::GpuSection| {
            let all = later.nodes.iter().any(|list| list.eq_ignore_ascii_case("all"));
            (all || later.nodes == of.nodes)
                && (later.indices.trim().is_empty() || later.indices == of.indices)
        };
        if let Some(later) = config.gpu[i + 1..].iter().position(covers) {
            let message =
                format!("the [[gpu]] {} sections further on speaks of the same GPUs", later + 1);
            warn("gpu", i, "nodes", message, "the last one counts; put the general one first");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let config = Config::parse(text, "m").unwrap_or_else(|error| panic!("{error}"));
        let is_user = |name: &str| name == "ada";
        let known = Known { nodes: None, is_user: Some(&is_user), is_group: Some(&|_| false) };
        let all = config.warnings(text, "m", &known);
        assert!(all.iter().all(|p| p.code == "W_CONFIG" && p.hint.is_some()), "{all:?}");
        all.iter()
            .map(|p| format!("{}:{} {}", p.line.unwrap(), p.column.unwrap(), p.message))
            .collect()
    }

    #[test]
    fn the_default_and_the_examples_of_the_guide_are_fine() {
        assert_eq!(told(""), [""; 0]);
        let guide = "[policy]\norder = \"multifactor\"\n[priority]\nage = 1000\nqos = 10\n\
                     [[qos]]\nname = \"high\"\npriority = 5\n";
        assert_eq!(told(guide), [""; 0]);
    }

    #[test]
    fn nodes_that_are_nowhere_are_named() {
        let text = "[local]\npractice = \"2x1\"\n[[partition]]\nname = \"a\"\n\
                    nodes = [\"node1\", \"node[2-4]\"]\nmin_nodes = 3\n[[gpu]]\nnodes = [\"n9\"]\n";
        assert_eq!(
            told(text),
            [
                "5:19 there are no nodes node[3-4]",
                "6:13 no job has 3 nodes: partition a has 2",
                "8:10 there is no node n9",
            ]
        );
    }

    #[test]
    fn people_that_are_nowhere_are_named() {
        let text = "[daemon]\nadmins = [\"ada\", \"bob\"]\n[[account]]\nname = \"a\"\n\
                    default_for = [\"ada\"]\n[[account]]\nname = \"b\"\nusers = [\"cleo\"]\n\
                    default_for = [\"ada\"]\n[[reservation]]\nname = \"r\"\nnodes = 1\n\
                    users = [\"-dora\"]\ngroups = [\"g\"]\n";
        assert_eq!(
            told(text),
            [
                "2:10 there is no user bob on this machine",
                "8:9 there is no user cleo on this machine",
                "9:15 ada may not use account b, their default",
                "9:15 ada has the default account a already",
                "13:9 there is no user dora on this machine",
                "14:10 there is no group g on this machine",
            ]
        );
    }

    #[test]
    fn what_counts_for_nothing_is_said() {
        assert_eq!(
            told("[priority]\nage = 5\n"),
            ["2:7 weights count only under order = \"multifactor\""]
        );
        assert_eq!(
            told("[policy]\norder = \"multifactor\"\n"),
            ["2:9 every weight is 0: jobs come in order of submission"]
        );
        let text = "[policy]\norder = \"multifactor\"\n[priority]\nqos = 5\nassociation = 1\n";
        assert_eq!(told(text).len(), 2);
        let text = "[[account]]\nname = \"a\"\npriority = 5\n";
        assert_eq!(
            told(text),
            ["3:12 priorities of associations count for nothing without their weight"]
        );
        let text = "[preemption]\nmode = \"requeue\"\ntiers = true\nreclaim = \"cancel\"\n";
        assert_eq!(
            told(text),
            [
                "3:9 tiers preempt nobody while all partitions are of one tier",
                "4:11 nothing is reclaimed: no account has a guarantee",
            ]
        );
        assert_eq!(
            told("[preemption]\nmode = \"requeue\"\n"),
            ["2:8 nobody preempts anybody: no rule says who may"]
        );
    }

    #[test]
    fn values_that_exclude_each_other_are_told() {
        let text = "[[partition]]\nname = \"a\"\ndefault = true\nstate = \"down\"\n\
                    max_time = \"1h\"\ndefault_time = \"2h\"\n\
                    default_memory_per_cpu = \"2G\"\nmax_memory_per_cpu = \"1G\"\n\
                    default_memory_per_node = \"2G\"\n";
        let lines: Vec<String> =
            told(text).iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        assert_eq!(lines, ["4", "6", "7", "9"]);
        let text = "[[gpu]]\nnodes = [\"n1\"]\nmode = \"mig\"\n[[gpu]]\nmode = \"shared\"\n";
        assert_eq!(told(text), ["2:9 the [[gpu]] 1 sections further on speaks of the same GPUs"]);
        assert_eq!(
            told("[[account]]\nname = \"a\"\nusers = []\n"),
            ["3:9 nobody may use account a"]
        );
    }
}
