//! `[kubernetes]`: a cluster whose nodes jobs are run on.

use crate::Config;
use crate::check::Say;
use crate::key::section;
use muster_model::Volume;
use muster_slurm_syntax::volume;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The partition of this machine where none is described.
const MAIN: &str = "main";

section! {
    /// A Kubernetes cluster that jobs are run on, beside this machine, each as pods on the nodes that
    /// muster has chosen. It is used where `partitions` names any.
    one "kubernetes" KubernetesSection {
        /// The partitions that stand for nodes of the cluster, as name = labels of the nodes, such as
        /// `{ k8s = "", gpu = "nvidia.com/gpu.present=true" }`; without labels all nodes.
        partitions: BTreeMap<String, String> = BTreeMap::new(), "table of labels", restart;
        /// Where the cluster is and who muster is there; without it as kubectl finds it.
        kubeconfig: Option<PathBuf> = None, "path", restart;
        /// The namespace of all that is made.
        namespace: String = "default".to_owned(), "name", restart;
        /// The container image of jobs that name none (`#MUSTER --image`).
        image: Option<String> = None, "image", restart;
        /// An image that has muster, which is copied from it into every pod; without it the images of
        /// jobs have muster themselves.
        muster_image: Option<String> = None, "image", restart;
        /// Where muster lies in that image, or in those of jobs.
        program: String = "/usr/local/bin/muster".to_owned(), "path", restart;
        /// What every pod has, as `SOURCE:TARGET[:ro]`: a folder of the nodes (an absolute path), or a
        /// claim by name. A job's working directory has to be in one of them. Jobs may ask for folders
        /// below these, and for claims.
        mounts: Vec<String> = Vec::new(), "list of volumes", restart;
    }
}

impl KubernetesSection {
    /// True where jobs are run on a cluster.
    pub fn is_used(&self) -> bool {
        !self.partitions.is_empty()
    }

    /// What every pod has; what is not understood is left out, and was refused when the
    /// configuration was read.
    pub fn volumes(&self) -> Vec<Volume> {
        self.mounts.iter().filter_map(|text| volume::parse(text).ok()).collect()
    }

    /// The labels of each partition's nodes, but of those that were refused as [`Self::volumes`] are.
    pub fn labels(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let read = |(name, text): (&String, &String)| Some((name.clone(), labels(text)?));
        self.partitions.iter().filter_map(read).collect()
    }
}

/// `KEY=VALUE[,KEY=VALUE…]`; `None` for anything else.
fn labels(text: &str) -> Option<BTreeMap<String, String>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let whole = !key.is_empty() && !value.contains(['=', '!']) && !key.ends_with('!');
        whole.then(|| (key.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

pub(crate) fn check(config: &Config, say: &mut Say) {
    let section = &config.kubernetes;
    let mut fault = |key: &'static str, message: String, hint: Option<&str>| {
        say("kubernetes", 0, key, message, hint.map(str::to_owned));
    };
    for (name, text) in &section.partitions {
        let here = config.partition.iter().any(|partition| partition.name == *name);
        let main = config.partition.is_empty() && name == MAIN;
        if here || main || config.slurm.partitions.contains_key(name) {
            let message = format!(
                "partition {name} stands for nodes of Kubernetes and for others: a partition has \
                 nodes of one engine"
            );
            fault("partitions", message, Some("give Kubernetes' another name, such as k8s"));
        }
        if name.trim().is_empty() {
            fault("partitions", "a partition needs a name".to_owned(), None);
        }
        if labels(text).is_none() {
            let message = format!("partition {name}: {text:?} are no labels");
            fault(
                "partitions",
                message,
                Some("write KEY=VALUE,KEY=VALUE, or nothing for all nodes"),
            );
        }
    }
    for text in &section.mounts {
        if let Err(problem) = volume::parse(text) {
            fault("mounts", problem.what, None);
        }
    }
    if section.namespace.trim().is_empty() {
        fault("namespace", "the namespace needs a name".to_owned(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::labels;
    use crate::testing::problems;

    #[test]
    fn a_partition_is_of_one_engine_and_its_labels_are_labels() {
        assert!(problems("[kubernetes]\npartitions = { k8s = \"\" }\n").is_empty());
        let said = problems("[kubernetes]\npartitions = { main = \"\" }\n");
        assert!(said[0].contains("nodes of one engine"), "{said:?}");
        let both = "[slurm]\npartitions = { a = \"x\" }\n[kubernetes]\npartitions = { a = \"\" }\n";
        assert_eq!(problems(both).len(), 1);
        assert_eq!(problems("[kubernetes]\npartitions = { k8s = \"a!=b\" }\n").len(), 1);
        assert_eq!(problems("[kubernetes]\nmounts = [\"/home\"]\n").len(), 1);
        assert_eq!(problems("[kubernetes]\nnamespace = \"\"\n").len(), 1);
    }

    #[test]
    fn labels_are_pairs() {
        let read = labels("nvidia.com/gpu.present=true, zone=a").expect("labels");
        assert_eq!(read.len(), 2);
        assert_eq!(labels("").map(|none| none.len()), Some(0));
        for bad in ["a", "=b", "a!=b", "a==b"] {
            assert!(labels(bad).is_none(), "{bad}");
        }
    }
}
