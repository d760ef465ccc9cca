//! History in its table: a row for each end of an attempt.

use super::{explain, to_json};
use crate::{HistoryPage, HistoryQuery, HistoryRow, StoreError};
use muster_model::{JobState, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use std::path::Path;

pub(super) fn insert(connection: &Connection, row: &HistoryRow) -> rusqlite::Result<()> {
    let job = &row.job;
    connection
        .prepare_cached(
            "INSERT INTO history (seq, job, family, requeued, user, account, partition, name,
                 state, submitted, started, ended, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            row.seq.cast_signed(),
            job.id.0,
            row.family().0,
            row.requeued,
            job.spec.owner.user,
            job.spec.account,
            row.partition(),
            job.spec.name,
            word(job.state)?,
            job.submitted.millis(),
            job.started.map(Timestamp::millis),
            row.ended().millis(),
            to_json(job.as_ref())?,
        ])
        .map(drop)
}

/// The state's word in the table: that of its JSON.
fn word(state: JobState) -> rusqlite::Result<String> {
    Ok(to_json(&state)?.trim_matches('"').to_owned())
}

/// Conditions of a query with their values.
#[derive(Default)]
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn one(&mut self, sql: &str, value: impl Into<Value>) {
        self.sql.push(sql.to_owned());
        self.values.push(value.into());
    }

    fn any_of(&mut self, columns: &[&str], values: &[Value]) {
        if values.is_empty() {
            return;
        }
        let marks = vec!["?"; values.len()].join(", ");
        let each: Vec<String> =
            columns.iter().map(|column| format!("{column} IN ({marks})")).collect();
        self.sql.push(format!("({})", each.join(" OR ")));
        for _ in columns {
            self.values.extend(values.iter().cloned());
        }
    }

    fn texts(&mut self, column: &str, texts: &[String]) {
        let values: Vec<Value> = texts.iter().cloned().map(Value::from).collect();
        self.any_of(&[column], &values);
    }
}

pub(super) fn query(
    connection: &Connection,
    path: &Path,
    query: &HistoryQuery,
) -> Result<HistoryPage, StoreError> {
    let fail = |error| explain(path, "reading history", &error);
    let conditions = conditions(query).map_err(fail)?;
    let filter = match conditions.sql.is_empty() {
        true => String::new(),
        false => format!("WHERE {}", conditions.sql.join(" AND ")),
    };
    let limit = query.page() + 1;
    let order = if query.newest { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT n, seq, requeued, body FROM history {filter} ORDER BY n {order} LIMIT {limit}"
    );
    let mut statement = connection.prepare(&sql).map_err(fail)?;
    let mut rows = statement.query(params_from_iter(conditions.values)).map_err(fail)?;
    let mut page = HistoryPage::default();
    let mut last = 0;
    while let Some(row) = rows.next().map_err(fail)? {
        if page.rows.len() == query.page() {
            page.next = (!query.newest).then_some(last);
            break;
        }
        last = row.get::<_, i64>(0).map_err(fail)?.cast_unsigned();
        let body = row.get_ref(3).map_err(fail)?;
        let job = body
            .as_str()
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str(text).map_err(|error| error.to_string()))
            .map_err(|why| StoreError::Damaged { what: format!("row {last} of history"), why })?;
        page.rows.push(HistoryRow {
            seq: row.get::<_, i64>(1).map_err(fail)?.cast_unsigned(),
            requeued: row.get(2).map_err(fail)?,
            job,
        });
    }
    if query.newest {
        page.rows.reverse();
    }
    Ok(page)
}

fn conditions(query: &HistoryQuery) -> rusqlite::Result<Conditions> {
    let mut all = Conditions::default();
    let jobs: Vec<Value> = query.jobs.iter().map(|id| Value::from(id.0)).collect();
    all.any_of(&["job", "family"], &jobs);
    all.texts("user", &query.users);
    all.texts("account", &query.accounts);
    all.texts("partition", &query.partitions);
    all.texts("name", &query.names);
    let states = query.states.iter().map(|state| word(*state)).collect::<Result<Vec<_>, _>>()?;
    all.texts("state", &states);
    if let Some(from) = query.ended_from {
        all.one("ended >= ?", from.millis());
    }
    if let Some(before) = query.submitted_before {
        all.one("submitted < ?", before.millis());
    }
    if let Some(after) = query.after {
        all.one("n > ?", after.cast_signed());
    }
    Ok(all)
}
