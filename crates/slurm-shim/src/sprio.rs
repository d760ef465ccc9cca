//! `sprio`'s table, in Slurm's columns (sprio manual).

use muster_api::{PriorityPage, PriorityRow};
use std::fmt::Write as _;

/// How the table shall look.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // the command's flags
pub(crate) struct Look {
    /// Every column, also of factors without weight (`-l`).
    pub(crate) long: bool,
    /// Factors in place of weighted terms (`-n`).
    pub(crate) norm: bool,
    /// With titles.
    pub(crate) header: bool,
    /// Only what the factors count for (`-w`).
    pub(crate) weights_only: bool,
}

/// A factor's column: its name on the wire, its title.
const FACTORS: [(&str, &str); 6] = [
    ("age", "AGE"),
    ("association", "ASSOC"),
    ("fair_share", "FAIRSHARE"),
    ("job_size", "JOBSIZE"),
    ("partition", "PARTITION"),
    ("qos", "QOS"),
];

/// The terms that are of no resource.
const NAMED: [&str; 8] =
    ["age", "association", "fair_share", "job_size", "partition", "qos", "site", "nice"];

/// The text.
pub(crate) fn table(page: &PriorityPage, look: Look) -> String {
    let weight = |name: &str| page.weights.get(name).copied().unwrap_or(0);
    let shown: Vec<(&str, &str)> =
        FACTORS.iter().filter(|(name, _)| look.long || weight(name) != 0).copied().collect();
    let tres = page.weights.iter().any(|(name, _)| !NAMED.contains(&name.as_str()));
    let mut text = String::new();
    // Writing to a string cannot fail.
    if look.header {
        let _ = write!(text, "{:>15} {:<9}", "JOBID", "PARTITION");
        if look.long {
            let _ = write!(text, " {:>8}", "USER");
        }
        let _ = write!(text, " {:>10} {:>10}", "PRIORITY", "SITE");
        for (_, title) in &shown {
            let _ = write!(text, " {title:>10}");
        }
        if look.long {
            let _ = write!(text, " {:>11}", "NICE");
        }
        if tres || look.long {
            let _ = write!(text, " {:>20}", "TRES");
        }
        text.push('\n');
    }
    if look.weights_only {
        weights(&mut text, page, look, &shown, tres);
        return text;
    }
    for row in &page.rows {
        line(&mut text, row, look, &shown, tres);
    }
    text
}

fn weights(text: &mut String, page: &PriorityPage, look: Look, shown: &[(&str, &str)], tres: bool) {
    let weight = |name: &str| page.weights.get(name).copied().unwrap_or(0);
    let _ = write!(text, "{:>15} {:<9}", "Weights", "");
    if look.long {
        let _ = write!(text, " {:>8}", "");
    }
    let _ = write!(text, " {:>10} {:>10}", "", 1);
    for (name, _) in shown {
        let _ = write!(text, " {:>10}", weight(name));
    }
    if look.long {
        let _ = write!(text, " {:>11}", "");
    }
    if tres || look.long {
        let all = page.weights.iter().filter(|(name, _)| !NAMED.contains(&name.as_str()));
        let all: Vec<String> = all.map(|(name, weight)| format!("{name}={weight}")).collect();
        let _ = write!(text, " {:>20}", all.join(","));
    }
    text.push('\n');
}

fn line(text: &mut String, row: &PriorityRow, look: Look, shown: &[(&str, &str)], tres: bool) {
    let term = |name: &str| row.terms.get(name).copied().unwrap_or(0);
    let factor = |name: &str| row.factors.get(name).copied().unwrap_or(0);
    let cell = |name: &str| match look.norm {
        true => fraction(factor(name)),
        false => term(name).to_string(),
    };
    let priority = match look.norm {
        // Slurm shows the priority as a part of the largest there can be.
        true => fraction(part_of_all(row.priority)),
        false => row.priority.to_string(),
    };
    let partition: String = row.partition.chars().take(9).collect();
    let _ = write!(text, "{:>15} {partition:<9}", row.id);
    if look.long {
        let user: String = row.user.chars().take(8).collect();
        let _ = write!(text, " {user:>8}");
    }
    let _ = write!(text, " {priority:>10} {:>10}", term("site"));
    for (name, _) in shown {
        let _ = write!(text, " {:>10}", cell(name));
    }
    if look.long {
        let _ = write!(text, " {:>11}", term("nice"));
    }
    if tres || look.long {
        let all = row.terms.keys().filter(|name| !NAMED.contains(&name.as_str()));
        let all: Vec<String> = all.map(|name| format!("{name}={}", cell(name))).collect();
        let _ = write!(text, " {:>20}", all.join(","));
    }
    text.push('\n');
}

/// Billionths with seven places.
fn fraction(billionths: u64) -> String {
    format!("{}.{:07}", billionths / 1_000_000_000, billionths % 1_000_000_000 / 100)
}

/// A priority as billionths of the largest there can be.
fn part_of_all(priority: i64) -> u64 {
    let priority = u64::try_from(priority).unwrap_or(0).min(u64::from(u32::MAX));
    priority * 1_000_000_000 / u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> PriorityPage {
        let pairs = |all: &[(&str, i64)]| all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        PriorityPage {
            multifactor: true,
            weights: pairs(&[
                ("age", 1000),
                ("fair_share", 2000),
                ("job_size", 0),
                ("gres/gpu", 500),
            ]),
            rows: vec![PriorityRow {
                id: 7,
                user: "ada".into(),
                partition: "main".into(),
                priority: 1650,
                terms: pairs(&[
                    ("age", 500),
                    ("fair_share", 1000),
                    ("gres/gpu", 250),
                    ("nice", 100),
                ]),
                factors: [("age".to_owned(), 500_000_000)].into(),
                ..PriorityRow::default()
            }],
            ..PriorityPage::default()
        }
    }

    #[test]
    fn columns_are_those_with_weight() {
        let look = Look { header: true, ..Look::default() };
        assert_eq!(
            table(&page(), look),
            "          JOBID PARTITION   PRIORITY       SITE        AGE  FAIRSHARE                 TRES
              7 main            1650          0        500       1000         gres/gpu=250
"
        );
        let look = Look { header: false, norm: true, ..Look::default() };
        assert!(table(&page(), look).contains("0.5000000"));
        let look = Look { header: false, weights_only: true, ..Look::default() };
        let row = "        Weights                               1       1000       2000         gres/gpu=500\n";
        assert_eq!(table(&page(), look), row);
        let look = Look { header: true, long: true, ..Look::default() };
        let text = table(&page(), look);
        assert!(text.starts_with(
            "          JOBID PARTITION     USER   PRIORITY       SITE        AGE      ASSOC  FAIRSHARE"
        ));
    }
}
