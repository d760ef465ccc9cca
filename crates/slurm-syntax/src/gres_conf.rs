//! Slurm's `gres.conf`: types, cores and links of GPUs (gres.conf manual).
//!
//! Lines of `[NodeName=…] Name=gpu [Type=…] [File=…] [Cores=…] [Links=…]`. Other resources than GPUs
//! and detection are left to muster's own. [`facts`] holds the lines against a node: a range of
//! cores is whole sockets (here: NUMA domains, as with `numa_node_as_socket`), cores are counted
//! from the first of the first socket on, and the places of `Links` are those of the PCI bus.

use crate::conf::{FileProblem, Form, Line};
use crate::hostlist;
use crate::problem::{Code, Problem, quoted};
use muster_model::{CpuSet, Node, NumaDomain};

/// The largest file, bytes.
pub const FILE_MAX: usize = 4 << 20;

/// The most device files of one line.
const FILES_MAX: usize = 1024;

const KNOWN: [&str; 10] = [
    "nodename",
    "name",
    "type",
    "file",
    "cores",
    "links",
    "count",
    "flags",
    "autodetect",
    "multiplefiles",
];

const FORM: Form<'_> = Form { file: "gres.conf", known: &KNOWN, code: Code::GresBad };

/// A line about GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuLine {
    /// The line's number, from 1.
    pub line: u32,
    /// The nodes it is for; empty is all.
    pub nodes: Vec<String>,
    /// `Type`.
    pub kind: Option<String>,
    /// The device files, `[..]` written out.
    pub files: Vec<String>,
    /// `Cores`, counted as Slurm does.
    pub cores: Option<CpuSet>,
    /// `Links`: the links to each GPU in the order of the bus, -1 for itself.
    pub links: Option<Vec<i32>>,
    /// Columns of the words, for problems that only a node shows.
    columns: [u32; 4],
}

/// What a line says of one GPU of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuFacts {
    /// Its index on the node.
    pub index: u32,
    /// Its model, as `Type` names it.
    pub model: Option<String>,
    /// The NUMA domain that its cores begin in.
    pub numa: Option<u32>,
    /// Its links to each GPU of the node; all zero where the line was wrong.
    pub lanes: Option<Vec<u32>>,
}

/// Reads the file.
///
/// # Errors
/// [`Code::GresBad`] with line and column.
pub fn file(text: &str) -> Result<Vec<GpuLine>, FileProblem> {
    if text.len() > FILE_MAX {
        let problem = Problem::new(Code::GresBad, "the file is too large");
        return Err(FileProblem { line: 0, column: 0, problem });
    }
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(line) = FORM.line(at as u32 + 1, line)? {
            all.extend(gpu_line(&line)?);
        }
    }
    Ok(all)
}

fn gpu_line(line: &Line<'_>) -> Result<Option<GpuLine>, FileProblem> {
    let Some(name) = line.text("name") else {
        return match line.text("autodetect") {
            Some(_) => Ok(None),
            None => Err(line.wrong("nodename", "the line has neither Name nor AutoDetect")),
        };
    };
    if !name.eq_ignore_ascii_case("gpu") {
        return Ok(None);
    }
    let files = files(line)?;
    let cores = line.text("cores").map(CpuSet::parse).transpose();
    let cores = cores
        .map_err(|piece| line.wrong("cores", format!("{} is no range of cores", quoted(&piece))))?;
    let links = line.text("links").map(|text| text.split(',').map(str::parse).collect());
    let links: Option<Vec<i32>> = links
        .transpose()
        .map_err(|_: std::num::ParseIntError| line.wrong("links", "links are whole numbers"))?;
    if links.is_some() && files.len() != 1 {
        return Err(line.wrong("links", "a line with Links has one File"));
    }
    let column = |key: &str| line.words.get(key).map_or(1, |w| w.0);
    Ok(Some(GpuLine {
        line: line.number,
        nodes: line.hosts("nodename")?,
        kind: line.text("type").map(str::to_owned),
        files,
        cores,
        links,
        columns: ["type", "file", "cores", "links"].map(column),
    }))
}

/// `/dev/nvidia[0-3]` as files.
fn files(line: &Line<'_>) -> Result<Vec<String>, FileProblem> {
    let Some(text) = line.text("file") else { return Ok(Vec::new()) };
    let (directory, names) = text.rsplit_once('/').unwrap_or(("", text));
    let names = hostlist::expand(names, FILES_MAX)
        .map_err(|problem| FileProblem { problem, ..line.wrong("file", "") })?;
    Ok(names.into_iter().map(|name| format!("{directory}/{name}")).collect())
}

/// What the lines say of a node's GPUs, and what is wrong with them on this node.
pub fn facts(lines: &[GpuLine], node: &Node) -> (Vec<GpuFacts>, Vec<FileProblem>) {
    let (mut facts, mut problems) = (Vec::new(), Vec::new());
    let own = |line: &&GpuLine| line.nodes.is_empty() || line.nodes.contains(&node.name);
    for line in lines.iter().filter(own) {
        let wrong = |word: usize, what: String| FileProblem {
            line: line.line,
            column: line.columns[word],
            problem: Problem::new(Code::GresBad, what),
        };
        let numa = match line.cores.as_ref().map(|cores| first_domain(cores, node)).transpose() {
            Ok(numa) => numa.flatten(),
            Err(what) => {
                problems.push(wrong(2, what));
                None
            }
        };
        for file in &line.files {
            let Some(device) = node.devices.iter().find(|d| d.files.contains(file)) else {
                problems.push(wrong(1, format!("node {} has no GPU {file}", node.name)));
                continue;
            };
            let lanes = line.links.as_ref().map(|links| {
                lanes(links, device.index, node.devices.len()).unwrap_or_else(|what| {
                    problems.push(wrong(3, what));
                    vec![0; node.devices.len()]
                })
            });
            let named = |kind: &&String| {
                let kind = kind.to_ascii_lowercase();
                let product = device.product.to_ascii_lowercase();
                device.model.eq_ignore_ascii_case(&kind) || product.contains(&kind)
            };
            let model = line.kind.as_ref().filter(named).map(|kind| kind.to_ascii_lowercase());
            if model.is_none()
                && let Some(kind) = &line.kind
            {
                let what = format!("{} is no part of the name {}", quoted(kind), device.product);
                problems.push(wrong(0, what));
            }
            facts.push(GpuFacts { index: device.index, model, numa, lanes });
        }
    }
    (facts, problems)
}

/// The first NUMA domain of a range of cores, which has to be whole domains.
fn first_domain(cores: &CpuSet, node: &Node) -> Result<Option<u32>, String> {
    let mut domains: Vec<&NumaDomain> = node.numa.iter().filter(|d| !d.cpus.is_empty()).collect();
    domains.sort_by_key(|domain| (domain.socket, domain.id));
    let (mut first, mut from) = (None, 0);
    for domain in domains {
        let until = from + domain.cpus.len() / node.threads_per_core.max(1);
        let inside = (from..until).filter(|core| cores.contains(*core)).count() as u32;
        if inside > 0 && inside < until - from {
            return Err(format!(
                "cores {cores} of node {} are not whole sockets: cores {from}-{} are one",
                node.name,
                until - 1
            ));
        }
        if inside > 0 {
            first = first.or(Some(domain.id));
        }
        from = until;
    }
    match cores.iter().find(|core| *core >= from) {
        Some(core) => Err(format!("node {} has no core {core}", node.name)),
        None => Ok(first),
    }
}

/// A row of links as numbers of lanes.
fn lanes(links: &[i32], own: u32, count: usize) -> Result<Vec<u32>, String> {
    if links.len() != count {
        return Err(format!("there are {} links, and the node has {count} GPUs", links.len()));
    }
    if links[own as usize] != -1 {
        return Err(format!("the GPU is the one at place {own} of the bus, where -1 has to stand"));
    }
    let lane = |(at, lanes): (usize, &i32)| match u32::try_from(*lanes) {
        Ok(lanes) => Ok(lanes),
        Err(_) if at == own as usize => Ok(0),
        Err(_) => Err("only the GPU's own place is -1".to_owned()),
    };
    links.iter().enumerate().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{Device, Mib};

    /// Sockets or NUMA domains of so many cores, and GPUs whose files lie so on the bus.
    fn node(domains: u32, cores: u32, files: &[u32]) -> Node {
        let domain = |id: u32| NumaDomain {
            id,
            socket: id / (domains / 2).max(1),
            cpus: (id * cores..(id + 1) * cores).collect(),
            memory: Mib(1),
        };
        let device = |(index, file): (u32, &u32)| Device {
            index,
            model: "rtx3090".to_owned(),
            product: "NVIDIA GeForce RTX 3090".to_owned(),
            files: vec![format!("/dev/nvidia{file}")],
            ..Device::default()
        };
        Node {
            name: "n1".to_owned(),
            threads_per_core: 1,
            numa: (0..domains).map(domain).collect(),
            devices: (0..).zip(files).map(device).collect(),
            ..Node::default()
        }
    }

    fn held(text: &str, node: &Node) -> (Vec<GpuFacts>, Vec<String>) {
        let (facts, problems) = facts(&file(text).expect("read"), node);
        (facts, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn t24_cores_are_whole_sockets() {
        let line = "# two sockets\nName=gpu File=/dev/nvidia0 Cores=0-7\n";
        let (facts, problems) = held(line, &node(2, 16, &[0]));
        assert_eq!(facts[0].numa, None);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("line 2, column 28: "), "{problems:?}");
        assert!(problems[0].contains("cores 0-15 are one"), "{problems:?}");
        // The same node with four NUMA domains shown as sockets.
        let (facts, problems) = held(line, &node(4, 8, &[0]));
        assert_eq!((facts[0].numa, problems.len()), (Some(0), 0));
        let (facts, problems) = held("Name=gpu File=/dev/nvidia0 Cores=16-31\n", &node(4, 8, &[0]));
        assert_eq!((facts[0].numa, problems.len()), (Some(2), 0));
        let (_, problems) = held("Name=gpu File=/dev/nvidia0 Cores=32-39\n", &node(4, 8, &[0]));
        assert!(problems[0].contains("no core 32"), "{problems:?}");
    }

    #[test]
    fn t24_cores_are_counted_from_the_first_of_the_first_socket() {
        // The operating system numbers even CPUs on one socket and odd ones on the other.
        let mut odd = node(2, 4, &[0]);
        odd.numa[0].cpus = [0, 2, 4, 6].into_iter().collect();
        odd.numa[1].cpus = [1, 3, 5, 7].into_iter().collect();
        let (facts, problems) = held("Name=gpu File=/dev/nvidia0 Cores=4-7\n", &odd);
        assert_eq!((facts[0].numa, problems.len()), (Some(1), 0));
    }

    #[test]
    fn t25_links_are_a_row_in_the_order_of_the_bus() {
        let four = node(2, 4, &[0, 1, 2, 3]);
        let (facts, problems) = held("Name=gpu File=/dev/nvidia0 Links=-1,4,0,0\n", &four);
        assert_eq!(facts[0].lanes, Some(vec![0, 4, 0, 0]));
        assert!(problems.is_empty());
        // Two files on one line.
        let two = file("Name=gpu File=/dev/nvidia[0-1] Links=-1,4,0,0\n").expect_err("refused");
        assert_eq!((two.line, two.problem.code), (1, Code::GresBad));
        // A wrong count: an error, and a row of zeros.
        let (facts, problems) = held("Name=gpu File=/dev/nvidia0 Links=-1,4,0,0,0\n", &four);
        assert_eq!(facts[0].lanes, Some(vec![0; 4]));
        assert!(problems[0].contains("5 links, and the node has 4 GPUs"), "{problems:?}");
        // Files 2, 0, 3, 1 in the order of the bus: the place is the bus's, not the file's.
        let mixed = node(2, 4, &[2, 0, 3, 1]);
        let (facts, problems) = held("Name=gpu File=/dev/nvidia3 Links=0,0,-1,4\n", &mixed);
        assert_eq!((facts[0].index, problems.len()), (2, 0));
        assert_eq!(facts[0].lanes, Some(vec![0, 0, 0, 4]));
        let (_, problems) = held("Name=gpu File=/dev/nvidia3 Links=0,0,4,-1\n", &mixed);
        assert!(problems[0].contains("place 2 of the bus"), "{problems:?}");
    }

    #[test]
    fn types_are_parts_of_the_name() {
        let one = node(2, 4, &[0]);
        let (facts, _) = held("NodeName=n[1-2] Name=gpu Type=3090 File=/dev/nvidia0\n", &one);
        assert_eq!(facts[0].model.as_deref(), Some("3090"));
        let (facts, problems) = held("Name=gpu Type=a100 File=/dev/nvidia0\n", &one);
        assert_eq!((facts[0].model.as_deref(), problems.len()), (None, 1));
        let (facts, _) = held("NodeName=n2 Name=gpu Type=3090 File=/dev/nvidia0\n", &one);
        assert!(facts.is_empty());
        let (_, problems) = held("Name=gpu File=/dev/nvidia7\n", &one);
        assert!(problems[0].contains("no GPU /dev/nvidia7"), "{problems:?}");
    }

    #[test]
    fn wrong_lines_are_told_with_their_place() {
        for (text, column) in [
            ("Name=gpu Fil=/dev/x", 10),
            ("Name=gpu Cores=a-b", 10),
            ("Name=gpu File=/dev/nvidia0 Links=1,x", 28),
            ("File=/dev/nvidia0", 1),
        ] {
            let found = file(text).expect_err(text);
            assert_eq!((found.line, found.column), (1, column), "{text}");
        }
        assert!(file("AutoDetect=nvml\nName=nic File=/dev/x Cores=0\n").expect("read").is_empty());
    }
}
