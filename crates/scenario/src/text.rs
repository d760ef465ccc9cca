//! The small grammar that fixtures, jobs and commands share.

use crate::error::{Fault, Read, ScenarioError};
use muster_model::{Mib, NodeId, Seconds, State, TimeLimit, Timestamp, nearest};
use muster_slurm_syntax::hostlist;
use muster_slurm_syntax::problem::quoted;
use std::str::FromStr;

/// Nodes that a scenario may have.
pub const NODES_MAX: usize = 4096;
/// Jobs that a scenario may have, tasks of arrays counted one by one.
pub const JOBS_MAX: u32 = 20_000;
/// The largest number of an array's task.
const INDEX_MAX: u32 = 1 << 20;
/// The last minute: a hundred years after t=0.
pub const MINUTES_MAX: u64 = 100 * 366 * 24 * 60;
/// Memory is at most so many MiB.
const MEMORY_MAX: u64 = 1 << 52;

/// A word of a line and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word without its quotes.
    pub text: String,
    /// Its column, from 1, in characters.
    pub column: u32,
}

impl Word {
    /// `key=value`; a bare word is a key with the value `yes`.
    pub fn field(&self) -> (&str, &str) {
        self.text.split_once('=').unwrap_or((&self.text, "yes"))
    }
}

/// Words of a line: blanks part them, quotes hold them together.
///
/// # Errors
/// A quote is not closed.
pub fn words(line: &str) -> Read<Vec<Word>> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    for (column, c) in (1u32..).zip(line.chars()) {
        match c {
            '"' => quote = if quote.is_none() { Some(column) } else { None },
            c if c.is_whitespace() && quote.is_none() => words.extend(word.take()),
            c => word.get_or_insert_with(|| Word { text: String::new(), column }).text.push(c),
        }
    }
    if let Some(column) = quote {
        let mut error = ScenarioError::new(Fault::Value, "a quote is not closed")
            .hint("write \" at the end of the word");
        error.column = Some(column);
        return Err(error);
    }
    words.extend(word);
    Ok(words)
}

/// The first word, a name, and the rest.
pub(crate) fn named<'a>(words: &'a [Word], form: &str) -> Read<(&'a str, &'a [Word])> {
    let (first, rest) = words.split_first().ok_or_else(|| {
        ScenarioError::new(Fault::Command, "a name is missing").hint(format!("write {form}"))
    })?;
    Ok((&first.text, rest))
}

/// Goes through `key=value` words; what is wrong is told with the place of its word.
pub(crate) fn fields(words: &[Word], mut take: impl FnMut(&str, &str) -> Read<()>) -> Read<()> {
    words.iter().try_for_each(|word| {
        let (key, value) = word.field();
        let told = |error: ScenarioError| match error.fault {
            Fault::Value if !word.text.contains('=') => {
                ScenarioError::new(Fault::Value, format!("{} lacks its value", quoted(key)))
                    .hint(format!("write {key}=VALUE"))
            }
            _ => error,
        };
        take(key, value).map_err(|error| told(error).at(word))
    })
}

/// A whole number.
pub(crate) fn number<T: FromStr>(text: &str) -> Read<T> {
    text.parse()
        .map_err(|_| ScenarioError::value(text, "a whole number in range").hint("write digits"))
}

/// How many: at least one.
pub(crate) fn count(text: &str) -> Read<u32> {
    match number(text)? {
        0 => Err(ScenarioError::value(text, "a number from 1 on")),
        count => Ok(count),
    }
}

/// How many, or none.
pub(crate) fn count_or_none(text: &str) -> Read<u32> {
    number(text)
}

/// `yes` or `no`.
pub(crate) fn yes(text: &str) -> Read<bool> {
    choice("yes or no", text, &[("yes", true), ("no", false)])
}

/// One of several words; `what` names what they are.
pub(crate) fn choice<T: Copy>(what: &str, text: &str, among: &[(&str, T)]) -> Read<T> {
    let known = among.iter().map(|(word, _)| *word);
    among.iter().find(|(word, _)| *word == text).map(|(_, found)| *found).ok_or_else(|| {
        let hint = match nearest(text, known.clone()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("write one of {}", known.collect::<Vec<_>>().join(", ")),
        };
        ScenarioError::value(text, what).hint(hint)
    })
}

/// Memory: `512M`, `64G`, `2T`, or MiB without a unit.
pub(crate) fn memory(text: &str) -> Read<Mib> {
    let units = [('M', 1), ('G', 1 << 10), ('T', 1 << 20)];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((text, 1));
    let mib = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    mib.filter(|mib| *mib <= MEMORY_MAX).map(Mib).ok_or_else(|| {
        ScenarioError::value(text, "an amount of memory").hint("write 512M, 64G or 2T")
    })
}

/// So many minutes.
pub(crate) fn duration(text: &str) -> Read<Seconds> {
    let minutes: u64 = number(text)?;
    if minutes <= MINUTES_MAX {
        return Ok(Seconds::minutes(minutes));
    }
    Err(ScenarioError::value(text, "a time within a hundred years"))
}

/// An instant, as minutes after t=0; `never` is the end of time.
pub(crate) fn instant(text: &str) -> Read<Timestamp> {
    match text {
        "never" => Ok(Timestamp::NEVER),
        text => Ok(Timestamp::from_secs(0).plus(duration(text)?)),
    }
}

/// Minutes as a time limit; `unlimited` is none.
pub(crate) fn limit(text: &str) -> Read<TimeLimit> {
    match text {
        "unlimited" => Ok(TimeLimit::Unlimited),
        text => Ok(TimeLimit::Of(duration(text)?)),
    }
}

/// `A:N,B:M`: what is counted, by name.
pub(crate) fn counted(text: &str) -> Read<Vec<(&str, u32)>> {
    let one = |item| -> Read<(&str, u32)> {
        let (name, amount) = pair(item, ':', "NAME:COUNT")?;
        Ok((name, count_or_none(amount)?))
    };
    text.split(',').map(one).collect()
}

/// Two halves of a text.
pub(crate) fn pair<'a>(text: &'a str, sign: char, form: &str) -> Read<(&'a str, &'a str)> {
    text.split_once(sign).ok_or_else(|| ScenarioError::value(text, form))
}

/// `LOW-HIGH`, or one number for both.
pub(crate) fn range(text: &str) -> Read<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (count_or_none(low)?, count_or_none(high)?);
    if low > high || high > INDEX_MAX {
        let what = format!("a range that goes up, and to {INDEX_MAX} at most");
        return Err(ScenarioError::value(text, &what));
    }
    Ok((low, high))
}

/// Words with commas between them.
pub(crate) fn list(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(str::to_owned)
}

/// Names of nodes: `n1`, `n[1-4]`, `n[1,3-5]`, `n1,n2`.
///
/// # Errors
/// It is no list of hosts, or one of more than [`NODES_MAX`].
pub fn names(text: &str) -> Read<Vec<String>> {
    Ok(hostlist::expand(text, NODES_MAX)?)
}

/// The names of nodes, folded.
pub fn node_names(state: &State, nodes: impl IntoIterator<Item = NodeId>) -> String {
    hostlist::fold(&nodes.into_iter().map(|id| state.node_name(id)).collect::<Vec<_>>())
}

/// The node of a name.
pub(crate) fn node_id(state: &State, name: &str) -> Read<NodeId> {
    let known = || state.nodes.values().map(|node| node.name.as_str());
    match state.node_named(name) {
        Some(node) => Ok(node.id),
        None => Err(ScenarioError::name("node", name, known())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let found = words(r#"a constraint="x|y z" b"#).unwrap();
        let told: Vec<(&str, u32)> = found.iter().map(|w| (w.text.as_str(), w.column)).collect();
        assert_eq!(told, [("a", 1), ("constraint=x|y z", 3), ("b", 22)]);
        assert_eq!(words(r#"a b="c"#).unwrap_err().column, Some(5));
    }

    #[test]
    fn amounts_have_bounds() {
        assert_eq!(memory("2G"), Ok(Mib(2048)));
        for text in ["", "G", "-1", "99999999999999999T", "18446744073709551615", "4€"] {
            assert!(memory(text).is_err(), "{text}");
        }
        assert_eq!(limit("unlimited"), Ok(TimeLimit::Unlimited));
        assert!(duration("99999999999").is_err());
        assert!(count("0").is_err() && count_or_none("0") == Ok(0));
        assert!(range("5-3").is_err());
    }
}
