//! What values say together: names that are missing, twice there, or unknown.

use crate::error::Problem;
use crate::read::{Text, span_of};
use crate::{Config, Daemon, IdleGpusWord, PolicySection, Practice, PracticeSection};
use muster_model::{BackfillMode, nearest};
use muster_slurm_syntax::{affinity, hostlist};
use std::collections::BTreeSet;
use toml::de::DeTable;

/// The account that is always there.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// At most so many jobs take turns on one CPU or GPU.
const SHARERS_MAX: u32 = 64;

pub(crate) fn check(config: &Config, text: &Text, table: &DeTable, problems: &mut Vec<Problem>) {
    let mut say =
        |section: &str, index: usize, key: &str, message: String, hint: Option<String>| {
            let at = span_of(table, section, index, key);
            problems.push(text.problem("E_CONFIG_INVALID", at, message, hint));
        };
    names(&mut say, "partition", config.partition.iter().map(|p| p.name.as_str()));
    names(&mut say, "account", config.account.iter().map(|a| a.name.as_str()));
    names(&mut say, "qos", config.qos.iter().map(|q| q.name.as_str()));
    names(&mut say, "licence", config.licence.iter().map(|l| l.name.as_str()));
    partitions(config, &mut say);
    accounts(config, &mut say);
    crate::filesystem::check(config, &mut say);
    crate::gpu::check(&config.gpu, &mut say);
    crate::preemption::check(config, &mut say);
    crate::priority::check(config, &mut say);
    names(&mut say, "reservation", config.reservation.iter().map(|r| r.name.as_str()));
    crate::reservation::check(config, &mut say);
    host_lists(config, &mut say);
    names(&mut say, "level", config.level.iter().map(|l| l.name.as_str()));
    names(&mut say, "domain", config.domain.iter().map(|d| d.name.as_str()));
    crate::topology::check(config, &mut say);
    crate::slurm::check(config, &mut say);
    crate::kubernetes::check(config, &mut say);
    for (i, node) in config.node.iter().enumerate() {
        if node.name.trim().is_empty() {
            say("node", i, "name", "a [[node]] needs a name".to_owned(), None);
        }
        for (nth, text) in node.taints.iter().enumerate() {
            if let Err(found) = affinity::taint(text) {
                let key = format!("taints[{nth}]");
                say("node", i, &key, found.what.clone(), found.hints.first().cloned());
            }
        }
    }
    if config.cluster.name.trim().is_empty() {
        say("cluster", 0, "name", "the cluster's name is empty".to_owned(), None);
    }
    if config.daemon.requests_max == 0 || config.daemon.commands_max == 0 {
        let message = "requests_max and commands_max are at least 1".to_owned();
        say("daemon", 0, "requests_max", message, None);
    }
    idle_gpus(&config.daemon, &mut say);
    if config.policy.max_array_size > 4_000_001 {
        let message = "max_array_size is at most 4000001, as in Slurm".to_owned();
        say("policy", 0, "max_array_size", message, None);
    }
    if config.policy.time_slice.0 == 0 {
        say("policy", 0, "time_slice", "a time slice is at least a second".to_owned(), None);
    }
    practice(&config.practice, &mut say);
    backfill(&config.policy, &mut say);
    problems.sort_by_key(|p| (p.line, p.column));
}

/// A short window takes a pause for work that is over, and so does one of few looks.
const IDLE_AFTER_MIN: u64 = 600;

fn idle_gpus(daemon: &Daemon, say: &mut impl FnMut(&str, usize, &str, String, Option<String>)) {
    if daemon.idle_gpus == IdleGpusWord::Off {
        return;
    }
    let period = daemon.watch_period.0;
    if period == 0 {
        let message = "idle_gpus needs watch_period: 0 looks at no job".to_owned();
        say("daemon", 0, "idle_gpus", message, None);
    } else if daemon.idle_gpus_after.0 < IDLE_AFTER_MIN.max(10 * period) {
        let message = "idle_gpus_after is at least 10 minutes and ten times watch_period";
        say("daemon", 0, "idle_gpus_after", message.to_owned(), None);
    }
}

/// What is wrong with a host list, and what to do; `None` where nothing is.
pub(crate) fn host_list(text: &str) -> Option<(String, Option<String>)> {
    if text.eq_ignore_ascii_case("all") {
        return None;
    }
    let found = hostlist::expand(text, hostlist::HOSTS_MAX).err()?;
    Some((found.what.clone(), found.hints.first().cloned()))
}

pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|near| format!("did you mean {near}?"))
}

/// Every host list of the file: where it stands and its text.
pub(crate) fn all_host_lists(config: &Config) -> Vec<(&'static str, usize, String, &str)> {
    let lists: Vec<(&'static str, usize, &Vec<String>)> = config
        .partition
        .iter()
        .enumerate()
        .map(|(i, of)| ("partition", i, &of.nodes))
        .chain(config.domain.iter().enumerate().map(|(i, of)| ("domain", i, &of.nodes)))
        .chain(config.gpu.iter().enumerate().map(|(i, of)| ("gpu", i, &of.nodes)))
        .collect();
    let items = lists.into_iter().flat_map(|(section, i, lists)| {
        let items = lists.iter().enumerate();
        items.map(move |(nth, text)| (section, i, format!("nodes[{nth}]"), text.as_str()))
    });
    let nodes = config.node.iter().enumerate();
    let nodes = nodes.map(|(i, of)| ("node", i, "name".to_owned(), of.name.as_str()));
    items.chain(nodes).collect()
}

fn host_lists(config: &Config, say: &mut Say) {
    for (section, i, key, text) in all_host_lists(config) {
        if text.trim().is_empty() {
            continue;
        }
        if let Some((message, hint)) = host_list(text) {
            say(section, i, &key, message, hint);
        }
    }
}

/// Practice nodes are as many and as large as the engine makes them.
fn practice(practice: &PracticeSection, say: &mut Say) {
    const CPUS_MAX: u32 = 1_024;
    if practice.size().is_some_and(|size| !size.is_fine()) || practice.gpus > Practice::GPUS_MAX {
        let message = format!(
            "1 to {} nodes with up to {} GPUs each",
            Practice::NODES_MAX,
            Practice::GPUS_MAX
        );
        say("practice", 0, "nodes", message, None);
    }
    if practice.cpus.is_some_and(|cpus| !(1..=CPUS_MAX).contains(&cpus)) {
        say("practice", 0, "cpus", format!("cpus is 1 to {CPUS_MAX}"), None);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let model = &practice.gpu_model;
    if model.is_empty() || model.len() > 64 || !model.chars().all(plain) {
        let hint = Some("letters, digits and - _ . are allowed, up to 64".to_owned());
        say("practice", 0, "gpu_model", format!("{model:?} cannot be a GPU's model"), hint);
    }
}

/// Bounds that the mode of backfill does not know.
fn backfill(policy: &PolicySection, say: &mut Say) {
    let bounds = [
        ("backfill_per_partition", policy.backfill_per_partition.is_some()),
        ("backfill_per_user", policy.backfill_per_user.is_some()),
        ("backfill_per_account", policy.backfill_per_account.is_some()),
        ("backfill_window", policy.backfill_window.is_some()),
    ];
    for (key, is_set) in bounds {
        if is_set && policy.backfill != BackfillMode::Mixed {
            let message = format!("{key} says nothing without backfill = \"mixed\"");
            let hint = Some("set backfill = \"mixed\" in [policy], or leave it out".to_owned());
            say("policy", 0, key, message, hint);
        }
    }
}

pub(crate) type Say<'a> = dyn FnMut(&str, usize, &str, String, Option<String>) + 'a;

fn names<'a>(say: &mut Say, section: &str, all: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    for (i, name) in all.enumerate() {
        let plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() {
            let hint = Some(format!("write name = \"...\" below [[{section}]]"));
            say(section, i, "name", format!("a [[{section}]] needs a name"), hint);
        } else if !name.chars().all(plain) || name.len() > 64 {
            let hint = Some("letters, digits and - _ . + are allowed, up to 64".to_owned());
            say(section, i, "name", format!("{name:?} cannot be a {section}'s name"), hint);
        } else if !seen.insert(name) {
            say(section, i, "name", format!("there are two [[{section}]] named {name}"), None);
        }
    }
}

fn partitions(config: &Config, say: &mut Say) {
    let mut default = None;
    let accounts =
        || config.account.iter().map(|a| a.name.as_str()).chain(std::iter::once(DEFAULT_ACCOUNT));
    for (i, partition) in config.partition.iter().enumerate() {
        if partition.default
            && let Some(first) = default.replace(&partition.name)
        {
            let message = format!("{first} is the default partition already");
            say("partition", i, "default", message, None);
        }
        for account in &partition.allow_accounts {
            if !accounts().any(|name| name == account) {
                let hint = nearest(account, accounts()).map(|n| format!("did you mean {n}?"));
                say(
                    "partition",
                    i,
                    "allow_accounts",
                    format!("there is no account {account}"),
                    hint,
                );
            }
        }
        if partition.sharers == 0 || partition.sharers > SHARERS_MAX {
            let message = format!("sharers is 1 (nobody shares) to {SHARERS_MAX}");
            say("partition", i, "sharers", message, None);
        }
        let most = partition.max_nodes.unwrap_or(u32::MAX);
        if partition.min_nodes > most || most == 0 {
            let message = format!("no job can have {} to {most} nodes", partition.min_nodes);
            say("partition", i, "max_nodes", message, None);
        }
    }
}

fn accounts(config: &Config, say: &mut Say) {
    let parent_of = |name: &str| {
        config.account.iter().find(|a| a.name == name).and_then(|a| a.parent.as_deref())
    };
    for (i, account) in config.account.iter().enumerate() {
        let Some(parent) = &account.parent else { continue };
        let names = config.account.iter().map(|a| a.name.as_str());
        if !names.clone().any(|name| name == parent) && parent != DEFAULT_ACCOUNT {
            let hint = nearest(parent, names).map(|n| format!("did you mean {n}?"));
            say("account", i, "parent", format!("there is no account {parent}"), hint);
            continue;
        }
        let above = std::iter::successors(Some(parent.as_str()), |name| parent_of(name));
        // As many steps as there are accounts: one more would be a circle.
        if above.take(config.account.len()).any(|name| name == account.name) {
            say("account", i, "parent", format!("account {} is above itself", account.name), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn problems(text: &str) -> Vec<String> {
        let error = Config::parse(text, "m").unwrap_err();
        error.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_defaults_and_unknown_accounts_are_told_with_their_lines() {
        let text = "[[partition]]\nname = \"a\"\ndefault = true\n\
                    [[partition]]\nname = \"b\"\ndefault = true\nallow_accounts = [\"labb\"]\n\
                    [[account]]\nname = \"lab\"\n";
        assert_eq!(
            problems(text),
            [
                "m:6:11: a is the default partition already [E_CONFIG_INVALID]",
                "m:7:18: there is no account labb [E_CONFIG_INVALID]\nhint: did you mean lab?",
            ]
        );
    }

    #[test]
    fn a_circle_of_accounts_is_found() {
        let text = "[[account]]\nname = \"a\"\nparent = \"b\"\n[[account]]\nname = \"b\"\nparent = \"a\"\n";
        assert_eq!(problems(text).len(), 2);
    }

    #[test]
    fn names_are_there_once() {
        assert_eq!(problems("[[qos]]\npriority = 1\n").len(), 1);
        assert_eq!(problems("[[qos]]\nname = \"a\"\n[[qos]]\nname = \"a\"\n").len(), 1);
        assert_eq!(problems("[[qos]]\nname = \"a b\"\n").len(), 1);
    }
}
