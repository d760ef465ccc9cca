//! Licences.

use super::record::Record;
use muster_model::Licence;

/// The licences of `scontrol -o show licenses`. What other programs use of them is not given out.
pub(super) fn all(text: &str) -> Result<Vec<Licence>, String> {
    Record::all(text).map(|record| licence(&record)).collect()
}

fn licence(record: &Record) -> Result<Licence, String> {
    let name = record.need("LicenseName")?.to_owned();
    let total: u32 = record.number("Total")?.unwrap_or(0);
    // From 22.05 on: what a licence server said that others have.
    let lost: u32 = record.number("LastDeficit")?.unwrap_or(0);
    Ok(Licence { name, total: total.saturating_sub(lost), ..Licence::default() })
}
