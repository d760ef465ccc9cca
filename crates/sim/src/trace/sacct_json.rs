//! What `sacct --json` writes, a job at a time: from Slurm 22.05 (data_parser and OpenAPI plugin
//! `dbv0.0.38`) on, in which numbers, limits and states have had several forms.
//!
//! The whole is one JSON object of which only `jobs` is read, and never held.

use super::table::{Table, wrong};
use super::{KEYS, Mapping, SwfJob, TraceError};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::{BufRead, Empty};

/// A number as one, or as `{"set": true, "infinite": false, "number": 60}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(i64),
    Full {
        #[serde(default)]
        set: bool,
        #[serde(default)]
        infinite: bool,
        #[serde(default)]
        number: f64,
    },
    Other(IgnoredAny),
}

impl Number {
    fn text(&self) -> String {
        match self {
            Self::Plain(number) => number.to_string(),
            Self::Full { set: true, infinite: false, number } => format!("{number:.0}"),
            _ => String::new(),
        }
    }
}

/// A state, or several of which the first counts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    job_id: i64,
    user: String,
    account: String,
    partition: String,
    state: State,
    time: Time,
    tres: Tres,
    required: Required,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    current: Option<Words>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Time {
    submission: Option<Number>,
    start: Option<Number>,
    elapsed: Option<Number>,
    limit: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tres {
    allocated: Vec<Count>,
    requested: Vec<Count>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Count {
    #[serde(rename = "type")]
    kind: String,
    count: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Required {
    #[serde(rename = "CPUs")]
    cpus: Option<Number>,
}

impl Row {
    /// The fields as the table has them.
    fn words(&self) -> Vec<String> {
        let number = |one: &Option<Number>| one.as_ref().map_or_else(String::new, Number::text);
        let cpus = |all: &[Count]| {
            let count = all.iter().find(|one| one.kind == "cpu").map(|one| one.count);
            count.filter(|count| *count > 0).map_or_else(String::new, |count| count.to_string())
        };
        let requested = match cpus(&self.tres.requested) {
            none if none.is_empty() => number(&self.required.cpus),
            some => some,
        };
        let state = match &self.state.current {
            Some(Words::One(word)) => word.clone(),
            Some(Words::Several(words)) => words.first().cloned().unwrap_or_default(),
            None => String::new(),
        };
        // Slurm writes nought for a job that did not start.
        let start = Some(number(&self.time.start)).filter(|text| text != "0");
        let value = |key: &str| match key {
            "job" => self.job_id.to_string(),
            "user" => self.user.clone(),
            "group" => self.account.clone(),
            "queue" => self.partition.clone(),
            "submit" => number(&self.time.submission),
            "start" => start.clone().unwrap_or_default(),
            "run" => number(&self.time.elapsed),
            "limit" => number(&self.time.limit),
            "requested" => requested.clone(),
            "allocated" => cpus(&self.tres.allocated),
            "state" => state.clone(),
            _ => String::new(),
        };
        KEYS.iter().map(|key| value(key)).collect()
    }
}

/// Reads all jobs and tells of each. `each` may end it with an error.
///
/// # Errors
/// It is no such JSON, or what `each` said.
pub fn sacct_json<E: From<TraceError>>(
    reader: impl BufRead,
    mut each: impl FnMut(Result<SwfJob, TraceError>) -> Result<(), E>,
) -> Result<(), E> {
    let mut table = Table::by_key(Mapping::sacct());
    let mut failed = None;
    let mut told = false;
    let mut input = serde_json::Deserializer::from_reader(reader);
    let whole = Whole { table: &mut table, each: &mut each, failed: &mut failed, told: &mut told };
    let read = whole.deserialize(&mut input).and_then(|()| input.end());
    if let Some(error) = failed {
        return Err(error);
    }
    if let Err(error) = read {
        let line = error.line() as u64;
        return Err(wrong(line, None, "what sacct --json writes", &error.to_string()).into());
    }
    if !told {
        return Err(wrong(1, None, "a list of jobs", "none").into());
    }
    Ok(())
}

/// The object, its list, and one job of it.
struct Whole<'a, F, E> {
    table: &'a mut Table<Empty>,
    each: &'a mut F,
    failed: &'a mut Option<E>,
    told: &'a mut bool,
}

impl<'de, F, E> DeserializeSeed<'de> for Whole<'_, F, E>
where
    F: FnMut(Result<SwfJob, TraceError>) -> Result<(), E>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de, F, E> Visitor<'de> for Whole<'_, F, E>
where
    F: FnMut(Result<SwfJob, TraceError>) -> Result<(), E>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with jobs")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "jobs" {
                *self.told = true;
                map.next_value_seed(Whole {
                    table: &mut *self.table,
                    each: &mut *self.each,
                    failed: &mut *self.failed,
                    told: &mut *self.told,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        while let Some(job) = list.next_element::<Row>()? {
            let job = self.table.job_of(&job.words());
            if let Err(error) = (self.each)(job) {
                *self.failed = Some(error);
                return Err(serde::de::Error::custom("ended"));
            }
        }
        Ok(())
    }
}
