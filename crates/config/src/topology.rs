//! `[topology]`, `[[level]]` and `[[domain]]`: how the nodes are joined.

use crate::check::Say;
use crate::key::section;
use muster_model::Span;
use std::collections::BTreeSet;
use std::path::PathBuf;

section! {
    /// How the nodes are joined. Without any level the switches of `[[node]]` are the levels.
    one "topology" TopologySection {
        /// A `topology.conf` of Slurm to read, in place of `[[level]]` and `[[domain]]`.
        file: Option<PathBuf> = None, "path";
        /// A `gres.conf` of Slurm to read: the types, sockets and links of GPUs that it says come
        /// before what is found.
        gres_file: Option<PathBuf> = None, "path";
        /// How far apart the nodes of one job may be: `anywhere`, `connected` (under one domain of
        /// the highest level) or `smallest_block` (in the smallest block that holds it). Without it
        /// `anywhere`, and what the file's kind means in Slurm.
        span: Option<Span> = None, "word";
    }
}

section! {
    /// A level of the topology, the nearest to the nodes first.
    many "level" LevelSection {
        /// What users call it: `leaf`, `rack`, `nvlink`.
        name: String = String::new(), "text, required";
        /// The node label whose value is the node's domain; without it the domains are listed.
        label: Option<String> = None, "text";
        /// The speed between two nodes of one domain in one direction, in MB/s.
        link: u64 = 0, "number";
        /// The speed of all links out of one domain together, in MB/s; 0 is enough for all.
        uplink: u64 = 0, "number";
        /// The nodes planned for a domain; for `smallest_block`.
        size: u32 = 0, "number";
    }
}

section! {
    /// A switch, rack or block.
    many "domain" DomainSection {
        /// Its name.
        name: String = String::new(), "text, required";
        /// The level that it is of.
        level: String = String::new(), "text, required";
        /// The domain above it.
        above: Option<String> = None, "text";
        /// The nodes directly under it as host lists.
        nodes: Vec<String> = Vec::new(), "list of host lists";
        /// Its own link speed in MB/s, in place of its level's.
        link: u64 = 0, "number";
        /// Its nodes, in the order of their names, are a ring: `--contiguous` goes on over its end.
        ring: bool = false, "true or false";
    }
}

/// Levels and domains fit each other; a file stands alone.
pub(crate) fn check(config: &crate::Config, say: &mut Say) {
    if config.topology.file.is_some() && !config.level.is_empty() {
        let message = "a topology.conf and [[level]] exclude one another".to_owned();
        say("topology", 0, "file", message, None);
    }
    let levels: Vec<&str> = config.level.iter().map(|l| l.name.as_str()).collect();
    let domains: BTreeSet<&str> = config.domain.iter().map(|d| d.name.as_str()).collect();
    for (i, domain) in config.domain.iter().enumerate() {
        let own = levels.iter().position(|l| *l == domain.level);
        if own.is_none() {
            let hint = (!levels.is_empty()).then(|| format!("levels: {}", levels.join(", ")));
            say("domain", i, "level", format!("there is no level {:?}", domain.level), hint);
        }
        let Some(above) = &domain.above else { continue };
        if !domains.contains(above.as_str()) {
            say("domain", i, "above", format!("there is no domain {above:?}"), None);
        }
        let upper = config.domain.iter().find(|d| d.name == *above);
        let upper = upper.and_then(|d| levels.iter().position(|l| *l == d.level));
        if let (Some(own), Some(upper)) = (own, upper)
            && upper <= own
        {
            let message = format!("{above} is not of a higher level than {}", domain.name);
            say("domain", i, "above", message, None);
        }
    }
}
