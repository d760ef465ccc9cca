//! Figures with what they have to hold, as a table, as JSON, and as one line.

use std::fmt::Write as _;

/// One figure.
#[derive(Clone, Debug)]
struct Row {
    case: String,
    name: String,
    value: f64,
    unit: &'static str,
    /// At most so much, where there is a bound.
    most: Option<f64>,
    note: String,
}

/// All figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn add(
        &mut self,
        case: &str,
        name: &str,
        (value, unit): (f64, &'static str),
        most: Option<f64>,
        note: impl Into<String>,
    ) {
        let (case, name, note) = (case.to_owned(), name.to_owned(), note.into());
        eprintln!("{case}: {name} {value:.1} {unit} {note}");
        self.rows.push(Row { case, name, value, unit, most, note });
    }

    /// A condition that has to hold.
    pub(crate) fn check(&mut self, case: &str, name: &str, holds: bool) {
        let wrong = f64::from(u8::from(!holds));
        self.add(case, name, (wrong, "wrong"), Some(0.0), if holds { "yes" } else { "NO" });
    }

    pub(crate) fn missed(&self) -> usize {
        self.rows.iter().filter(|r| r.most.is_some_and(|most| r.value > most)).count()
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<26} {:<28} {:>12} {:<6} {:>10}  note",
            "case", "figure", "value", "unit", "at most"
        );
        for row in &self.rows {
            let most = row.most.map_or_else(String::new, |most| format!("{most:.0}"));
            let missed = if row.most.is_some_and(|most| row.value > most) { " MISSED" } else { "" };
            let _ = writeln!(
                text,
                "{:<26} {:<28} {:>12.2} {:<6} {:>10}  {}{missed}",
                row.case, row.name, row.value, row.unit, most, row.note
            );
        }
        text
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let row = |row: &Row| {
            serde_json::json!({
                "case": row.case, "name": row.name, "value": row.value, "unit": row.unit,
                "at_most": row.most, "note": row.note,
            })
        };
        serde_json::json!({ "figures": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    pub(crate) fn summary(&self) -> String {
        let bounded = self.rows.iter().filter(|r| r.most.is_some()).count();
        format!("bench core: {} of {bounded} bounds hold", bounded - self.missed())
    }
}
