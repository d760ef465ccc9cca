//! How each source fared.

use muster_node_metrics::collector::{Outcome, Report};

use crate::exposition::{Exposition, Settings};
use crate::families;

pub(super) fn put(out: &mut Exposition, reports: &[Report], settings: &Settings) {
    for report in reports {
        let labels = [("source", report.source)];
        let up = match report.outcome {
            Outcome::Read => Some(true),
            Outcome::Failed(_) | Outcome::Late => Some(false),
            Outcome::Absent => None,
        };
        let Some(up) = up else { continue };
        out.put(&families::SOURCE_UP, &labels, up);
        out.put(&families::SOURCE_LATE, &labels, report.outcome == Outcome::Late);
        out.put(&families::SOURCE_AGE, &labels, report.age.map(|age| age.as_secs_f64()));
        out.put(&families::SOURCE_COST, &labels, report.cost.as_secs_f64());
        out.put(&families::SOURCE_SKIPPED, &labels, report.skipped);
    }
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("hostname", settings.hostname.as_str())];
    out.put(&families::EXPORT_INFO, &labels, 1_u64);
}
