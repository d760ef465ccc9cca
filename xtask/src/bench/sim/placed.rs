//! How much of a cluster's GPUs each placement gives out, beside the study's figures (Weng et al.,
//! USENIX ATC 2023).

use std::path::Path;

use serde_json::Value;

use crate::bench::{Bound, Figure};
use crate::sh;

/// The policies with what was published for each list, in % of all GPUs.
const PUBLISHED: [(&str, [f64; 2]); 6] = [
    ("random", [86.30, 84.86]),
    ("dot-product", [90.62, 89.30]),
    ("gpu-clustering", [91.65, 89.76]),
    ("gpu-packing", [91.78, 89.77]),
    ("best-fit", [92.86, 91.44]),
    ("fgd", [95.23, 93.96]),
];

const LISTS: [&str; 2] = ["default", "gpushare40"];

/// The mean of ten seeds of each, and muster's own.
pub(super) fn figures(binary: &Path, folder: &Path) -> Result<Vec<Figure>, String> {
    let list = |name: String| folder.join("fgd").join(name);
    let nodes = list("openb_node_list_gpu_node.csv.gz".to_owned());
    let mut found = Vec::new();
    for (at, name) in LISTS.into_iter().enumerate() {
        let pods = list(format!("openb_pod_list_{name}.csv.gz"));
        if !nodes.exists() || !pods.exists() {
            println!("skipped: placement of {name}: there is no {}", pods.display());
            continue;
        }
        println!("-- placement of {name}");
        let mut command = sh::command(binary);
        command.args(["sim", "placement", "--json", "--nodes"]).arg(&nodes);
        command.arg("--pods").arg(&pods);
        for (policy, _) in PUBLISHED {
            command.args(["--policy", policy]);
        }
        command.args(["--policy", "muster"]);
        let text = sh::read(&mut command)?;
        let told: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let of = |policy: &str| {
            let all = told["policies"].as_array().map_or(&[][..], Vec::as_slice);
            let one = all.iter().find(|one| one["policy"] == policy);
            one.and_then(|one| one["gpus_allocated_percent"].as_f64()).unwrap_or(f64::NAN)
        };
        let mut last = 0.0;
        for (policy, published) in PUBLISHED {
            let (own, published) = (of(policy), published[at]);
            let figure = format!("{policy}, {name}, off by");
            let note = format!("{own:.2} % for {published:.2} %, ten seeds");
            let off = (own - published).abs();
            found.push(Figure::bounded(&figure, off, "points", Bound::AtMost(0.5), note));
            if own < last {
                return Err(format!("{policy} gives out less than the one before it: {own}"));
            }
            last = own;
        }
        let own = of("muster");
        let note = format!("{own:.2} % by {last:.2} %");
        let figure = format!("muster more than fgd, {name}");
        found.push(Figure::bounded(&figure, own - last, "points", Bound::AtLeast(0.0), note));
    }
    Ok(found)
}
