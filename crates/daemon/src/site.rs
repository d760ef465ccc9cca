//! The configuration as the writer takes it.

use muster_config::{Config, ConfigError, Problem};
use muster_control::command::{DeviceOverlay, NodeOverlay, Site};
use muster_model::{Account, EngineName, Licence, Partition, Policy, Qos};
use muster_model::{LinkSpeed, Node, Topology, TopologyDomain, TopologyLevel};
use muster_slurm_syntax::topology::FileProblem;
use muster_slurm_syntax::{affinity, gres_conf, hostlist};
use std::collections::BTreeSet;
use std::path::Path;

/// The word that stands for every node in a partition's list.
const ALL: &str = "all";

/// The partition that is there where none is configured.
const MAIN: &str = "main";

/// The site that the configuration describes, given the nodes that the engines have and the
/// partitions that stand for Slurm's.
///
/// # Errors
/// Host lists and files that cannot be read, what the files say that no node is like, and a
/// partition with nodes of Slurm that it does not stand for.
pub(crate) fn site(
    config: &Config,
    described: &[&Node],
    offered: Vec<Partition>,
) -> Result<Site, ConfigError> {
    let mut problems = Vec::new();
    let local = EngineName::local();
    let own = described.iter().filter(|node| node.engine == local);
    let nodes = &own.map(|node| node.name.clone()).collect::<BTreeSet<String>>();
    let mut partitions: Vec<Partition> =
        config.partition.iter().map(|p| partition(p, nodes, &mut problems)).collect();
    if partitions.is_empty() {
        partitions.push(Partition {
            name: MAIN.to_owned(),
            nodes: nodes.clone(),
            default: true,
            ..Partition::default()
        });
    } else if !partitions.iter().any(|p| p.default) {
        partitions[0].default = true;
    }
    for partition in &partitions {
        let theirs = |node: &&&Node| node.engine != local && partition.nodes.contains(&node.name);
        if let Some(node) = described.iter().find(theirs) {
            problems.push(Problem {
                code: "E_CONFIG_INVALID",
                source: format!("[[partition]] {}", partition.name),
                message: format!("node {} is of {}, not of this machine", node.name, node.engine),
                hint: Some("name a partition of Slurm's in [slurm] partitions".to_owned()),
                ..Problem::default()
            });
        }
    }
    partitions.extend(offered);
    let mut site = Site {
        partitions,
        accounts: accounts(config),
        qos: config
            .qos
            .iter()
            .map(|q| Qos {
                name: q.name.clone(),
                priority: q.priority,
                preempts: q.preempts.clone(),
                preempt: q.preempt_rules(),
                limits: q.limits(),
                flags: q.qos_flags(),
                usage_factor: q.factor(),
            })
            .collect(),
        licences: config
            .licence
            .iter()
            .map(|l| Licence { name: l.name.clone(), total: l.total, ..Licence::default() })
            .collect(),
        policy: Policy {
            preemption: (&config.preemption).into(),
            priority: (&config.priority).into(),
            ..Policy::from(&config.policy)
        },
        ..Site::default()
    };
    for section in &config.node {
        for name in expand(&section.name, &format!("[[node]] {}", section.name), &mut problems) {
            let overlay: &mut NodeOverlay = site.nodes.entry(name).or_default();
            overlay.features.extend(section.features.iter().cloned());
            overlay.weight = section.weight;
            overlay.switches.clone_from(&section.switches);
            overlay.labels.extend(section.labels.iter().map(|(k, v)| (k.clone(), v.clone())));
            for text in &section.taints {
                match affinity::taint(text) {
                    Ok(taint) => {
                        overlay.taints.insert(taint);
                    }
                    Err(found) => {
                        let place = format!("[[node]] {}", section.name);
                        problems.push(problem(&place, &found));
                    }
                }
            }
            overlay.gres.extend(section.gres.iter().map(|(k, v)| (k.clone(), *v)));
        }
    }
    for section in &config.gpu {
        let mut names = BTreeSet::new();
        for list in &section.nodes {
            if list.eq_ignore_ascii_case(ALL) {
                names.extend(nodes.iter().cloned());
            } else {
                names.extend(expand(list, "[[gpu]]", &mut problems));
            }
        }
        for name in names {
            let overlay: &mut NodeOverlay = site.nodes.entry(name).or_default();
            overlay.devices.push((section.which(), section.device_mode()));
        }
    }
    site.topology = topology(config, &mut problems);
    if let Some(file) = &config.topology.gres_file {
        gres_file(file, described, &mut site, &mut problems);
    }
    if problems.is_empty() { Ok(site) } else { Err(ConfigError { problems }) }
}

fn partition(
    section: &muster_config::PartitionSection,
    nodes: &BTreeSet<String>,
    problems: &mut Vec<Problem>,
) -> Partition {
    let mut names = BTreeSet::new();
    for list in &section.nodes {
        if list.eq_ignore_ascii_case(ALL) {
            names.extend(nodes.iter().cloned());
        } else {
            names.extend(expand(list, &format!("[[partition]] {}", section.name), problems));
        }
    }
    Partition {
        name: section.name.clone(),
        nodes: names,
        default: section.default,
        state: section.state.into(),
        max_time: section.max_time.into(),
        default_time: section.default_time.map(Into::into),
        max_nodes: section.max_nodes,
        min_nodes: section.min_nodes,
        default_memory_per_cpu: section.default_memory_per_cpu.map(Into::into),
        default_memory_per_node: section.default_memory_per_node.map(Into::into),
        max_memory_per_cpu: section.max_memory_per_cpu.map(Into::into),
        tier: section.tier,
        sharers: if section.sharers > 1 { section.sharers } else { 0 },
        priority: section.priority,
        allow_accounts: section.allow_accounts.clone(),
        grace: section.grace.map(Into::into),
        preempt: section.preempt_rules(),
        qos: section.qos.clone(),
        billing: section.billing.as_ref().map(|billing| billing.0.clone()).unwrap_or_default(),
    }
}

/// The accounts with their users' shares and limits.
fn accounts(config: &Config) -> Vec<Account> {
    let mut accounts: Vec<Account> = config.account.iter().map(account).collect();
    for section in &config.association {
        let at = accounts.iter().position(|a| a.name == section.account).unwrap_or_else(|| {
            // The default account is there without being described.
            accounts.push(Account { name: section.account.clone(), ..Account::default() });
            accounts.len() - 1
        });
        accounts[at].members.insert(section.user.clone(), section.member());
    }
    accounts
}

fn account(section: &muster_config::AccountSection) -> Account {
    Account {
        name: section.name.clone(),
        parent: section.parent.clone(),
        users: section.users.clone(),
        default_for: section.default_for.clone(),
        quota: section.quota(),
        shares: section.shares.0,
        priority: section.priority,
        limits: section.limits(),
        ..Account::default()
    }
}

/// How the nodes are joined: by a `topology.conf`, or by levels and domains.
fn topology(config: &Config, problems: &mut Vec<Problem>) -> Topology {
    let mut topology = match &config.topology.file {
        Some(file) => of_file(file, problems),
        None => Topology {
            levels: config.level.iter().map(level).collect(),
            domains: config.domain.iter().map(|d| domain(config, d, problems)).collect(),
            ..Topology::default()
        },
    };
    if let Some(span) = config.topology.span {
        topology.span = span;
    }
    topology
}

fn of_file(file: &Path, problems: &mut Vec<Problem>) -> Topology {
    let Some(text) = text_of(file, "topology", problems) else { return Topology::default() };
    muster_slurm_syntax::topology::file(&text).unwrap_or_else(|found| {
        problems.push(file_problem(file, &found));
        Topology::default()
    })
}

/// What a `gres.conf` says of the GPUs of the nodes that are there. A row of links that is wrong is
/// told, and no links are taken from it.
fn gres_file(file: &Path, nodes: &[&Node], site: &mut Site, problems: &mut Vec<Problem>) {
    let Some(text) = text_of(file, "gres", problems) else { return };
    let lines = match gres_conf::file(&text) {
        Ok(lines) => lines,
        Err(found) => return problems.push(file_problem(file, &found)),
    };
    for node in nodes {
        let (facts, wrong) = gres_conf::facts(&lines, node);
        problems.extend(wrong.iter().map(|found| file_problem(file, found)));
        if facts.is_empty() {
            continue;
        }
        let overlay: &mut NodeOverlay = site.nodes.entry(node.name.clone()).or_default();
        overlay.described.extend(facts.into_iter().map(|fact| DeviceOverlay {
            index: fact.index,
            model: fact.model,
            numa: fact.numa,
            lanes: fact.lanes,
        }));
    }
}

fn text_of(file: &Path, kind: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let read = std::fs::read_to_string(file);
    read.map_err(|error| {
        let source = file.display().to_string();
        let message = format!("the {kind} file cannot be read: {error}");
        problems.push(Problem { code: "E_CONFIG_FILE", source, message, ..Problem::default() });
    })
    .ok()
}

fn file_problem(file: &Path, found: &FileProblem) -> Problem {
    let (line, column) = (Some(found.line), Some(found.column));
    Problem { line, column, ..problem(&file.display().to_string(), &found.problem) }
}

fn level(section: &muster_config::LevelSection) -> TopologyLevel {
    TopologyLevel {
        name: section.name.clone(),
        label: section.label.clone(),
        link: LinkSpeed(section.link),
        uplink: LinkSpeed(section.uplink),
        size: section.size,
    }
}

fn domain(
    config: &Config,
    section: &muster_config::DomainSection,
    problems: &mut Vec<Problem>,
) -> (String, TopologyDomain) {
    let level = config.level.iter().position(|l| l.name == section.level).unwrap_or(0);
    let place = format!("[[domain]] {}", section.name);
    let nodes = section.nodes.iter().flat_map(|list| expand(list, &place, problems));
    let domain = TopologyDomain {
        level: level as u32,
        parent: section.above.clone(),
        nodes: nodes.collect(),
        link: LinkSpeed(section.link),
        ring: section.ring,
    };
    (section.name.clone(), domain)
}

fn problem(source: &str, found: &muster_slurm_syntax::problem::Problem) -> Problem {
    Problem {
        code: "E_CONFIG_INVALID",
        source: source.to_owned(),
        message: found.what.clone(),
        hint: found.hints.first().cloned(),
        ..Problem::default()
    }
}

fn expand(list: &str, place: &str, problems: &mut Vec<Problem>) -> Vec<String> {
    hostlist::expand(list, hostlist::HOSTS_MAX).unwrap_or_else(|found| {
        problems.push(Problem {
            code: "E_CONFIG_INVALID",
            source: place.to_owned(),
            message: found.what.clone(),
            hint: found.hints.first().cloned(),
            ..Problem::default()
        });
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of the configuration where there are three nodes with two GPUs each.
    fn made(config: &Config) -> Result<Site, ConfigError> {
        let gpu = |index| muster_model::Device {
            index,
            model: "rtx3090".to_owned(),
            files: vec![format!("/dev/nvidia{index}")],
            ..muster_model::Device::default()
        };
        let node = |name: &str| Node {
            name: name.to_owned(),
            engine: EngineName::local(),
            devices: (0..2).map(gpu).collect(),
            ..Node::default()
        };
        let nodes = ["node1", "node2", "node3"].map(node);
        let theirs = Node { engine: EngineName("slurm".to_owned()), ..node("n0") };
        let hpc = Partition {
            name: "hpc".to_owned(),
            nodes: BTreeSet::from(["n0".to_owned()]),
            ..Partition::default()
        };
        site(config, &nodes.iter().chain([&theirs]).collect::<Vec<_>>(), vec![hpc])
    }

    #[test]
    fn a_partition_has_nodes_of_one_engine() {
        let all = "[[partition]]\nname = \"a\"\nnodes = [\"all\"]\n";
        let site = made(&Config::parse(all, "m").unwrap()).unwrap();
        let of = |at: usize| (site.partitions[at].name.as_str(), site.partitions[at].nodes.len());
        assert_eq!((of(0), of(1)), (("a", 3), ("hpc", 1)));
        let mixed = all.replace("[\"all\"]", "[\"node1\", \"n0\"]");
        let error = made(&Config::parse(&mixed, "m").unwrap()).unwrap_err();
        assert!(error.problems[0].message.contains("n0 is of slurm"), "{error}");
    }

    #[test]
    fn without_partitions_there_is_main_over_all_nodes() {
        let site = made(&Config::default()).unwrap();
        assert_eq!(site.partitions.len(), 2);
        assert!(site.partitions[0].default && site.partitions[0].nodes.len() == 3);
    }

    #[test]
    fn host_lists_are_expanded_and_the_first_partition_is_the_default() {
        let text = "[[partition]]\nname = \"a\"\nnodes = [\"node[1-2]\"]\n\
                    [[node]]\nname = \"node[1-3]\"\nfeatures = [\"big\"]\n";
        let site = made(&Config::parse(text, "m").unwrap()).unwrap();
        assert_eq!(site.partitions[0].nodes.len(), 2);
        assert!(site.partitions[0].default);
        assert_eq!(site.nodes.len(), 3);
    }

    #[test]
    fn a_wrong_host_list_names_its_section() {
        // A file with one is not read at all; what is put together otherwise is looked at here.
        let partition = muster_config::PartitionSection {
            name: "a".to_owned(),
            nodes: vec!["node[3-1]".to_owned()],
            ..muster_config::PartitionSection::default()
        };
        let config = Config { partition: vec![partition], ..Config::default() };
        let error = made(&config).unwrap_err();
        assert_eq!(error.problems[0].source, "[[partition]] a");
    }

    #[test]
    fn a_gres_conf_is_laid_over_the_gpus_and_its_mistakes_have_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gres.conf");
        let mut config = Config::default();
        config.topology.gres_file = Some(file.clone());
        let text = "NodeName=node2 Name=gpu Type=rtx3090 File=/dev/nvidia1 Links=4,-1\n";
        std::fs::write(&file, text).unwrap();
        let site = made(&config).unwrap();
        assert_eq!(site.nodes.len(), 1);
        let described = &site.nodes["node2"].described[0];
        assert_eq!((described.index, described.lanes.as_deref()), (1, Some(&[4, 0][..])));
        std::fs::write(&file, "\nNodeName=node2 Name=gpu File=/dev/nvidia1 Links=4,-1,0\n")
            .unwrap();
        let error = made(&config).unwrap_err();
        assert_eq!((error.problems[0].line, error.problems.len()), (Some(2), 1), "{error}");
    }
}
