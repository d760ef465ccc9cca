//! The page of metrics in the book is made from the table: `MUSTER_BLESS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use muster_exporter::families::{Kind, Set, all};

const HEAD: &str = "# Metrics

What `muster export` and the daemon tell. This page is made from the program
(`MUSTER_BLESS=1 cargo test -p muster-exporter`). Names, units and labels of other exporters are kept where
the meaning is the same, so that their dashboards work. A value that nobody knows has no series.
";

fn title(set: Set) -> &'static str {
    match set {
        Set::Node => "The machine, as node_exporter has it (`node`)",
        Set::Dcgm => "GPUs, as NVIDIA's DCGM exporter has them, in its older units (`dcgm`)",
        Set::Jobs => "Jobs and their steps (`jobs`)",
        Set::Filesystems => "Network and parallel filesystems (`filesystems`)",
        Set::Muster => "What has no name elsewhere (`muster`)",
        Set::Own => "The exporter itself (always)",
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for set in Set::ALL {
        let _ = write!(
            page,
            "\n## {}\n\n| metric | unit | labels | meaning |\n| --- | --- | --- | --- |\n",
            title(set)
        );
        for family in all().filter(|family| family.set == set) {
            let kind = if family.kind == Kind::Counter { "counter" } else { "gauge" };
            let unit =
                if family.unit.is_empty() { String::new() } else { format!(", {}", family.unit) };
            let labels: Vec<String> =
                family.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                page,
                "| `{}` | {kind}{unit} | {} | {} |",
                family.name,
                labels.join(" "),
                family.help
            );
        }
    }
    page
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    if std::env::var_os("MUSTER_BLESS").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let written = std::fs::read_to_string(&path).expect("the page");
    assert!(written == page(), "docs/reference/metrics.md is stale: MUSTER_BLESS=1 writes it");
}
