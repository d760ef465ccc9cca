//! Dependency expressions: `afterok:20:21,afterany:23`, `after:20+5`, `singleton`.
//!
//! Rule: sbatch manual, `--dependency`. `,` joins terms that must all be met, `?` terms of which
//! one is enough; the two do not mix. Each id of a colon list is a term of its own. A list of ids
//! without a kind means `afterany`. An empty text or `0` is no dependency. A kind that muster does
//! not know is refused, never stored.

use muster_model::{
    Dependency, DependencyKind, DependencyTarget, DependencyTerm, JobId, Joiner, Seconds,
};

use crate::array;
use crate::problem::{Code, Problem, quoted};
use crate::scan::{digits, split_outside_brackets};
use muster_model::nearest;

/// Most terms of one dependency.
pub const DEPENDENCY_TERMS_MAX: usize = 4096;

/// Longest delay of `after:id+minutes`, in minutes (ten years).
const DELAY_MAX_MIN: u64 = 10 * 366 * 24 * 60;

const KINDS: [(&str, DependencyKind); 5] = [
    ("after", DependencyKind::After),
    ("afterany", DependencyKind::AfterAny),
    ("afterok", DependencyKind::AfterOk),
    ("afternotok", DependencyKind::AfterNotOk),
    ("aftercorr", DependencyKind::AfterCorr),
];

/// Reads the argument of `--dependency`; `None` is no dependency.
///
/// # Errors
/// [`Code::DependencyBad`] for mixed separators, unknown kinds, empty terms and bad job ids.
pub fn parse(text: &str) -> Result<Option<Dependency>, Problem> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let all = split_outside_brackets(text, ',');
    let any = split_outside_brackets(text, '?');
    let (joiner, parts) = match (all.len(), any.len()) {
        (_, 1) => (Joiner::All, all),
        (1, _) => (Joiner::Any, any),
        _ => {
            return Err(bad(text, "it mixes `,` (all) and `?` (any)")
                .hint("use one of the two separators throughout"));
        }
    };
    let mut terms = Vec::new();
    for part in parts {
        push_terms(text, part, &mut terms)?;
        if terms.len() > DEPENDENCY_TERMS_MAX {
            return Err(bad(text, &format!("it has more than {DEPENDENCY_TERMS_MAX} terms")));
        }
    }
    Ok(Some(Dependency { joiner, terms }))
}

fn push_terms(text: &str, part: &str, terms: &mut Vec<DependencyTerm>) -> Result<(), Problem> {
    if part.eq_ignore_ascii_case("singleton") {
        terms.push(DependencyTerm {
            kind: DependencyKind::Singleton,
            target: None,
            delay: Seconds(0),
        });
        return Ok(());
    }
    let (kind, ids) = if part.starts_with(|c: char| c.is_ascii_digit()) {
        (DependencyKind::AfterAny, part)
    } else {
        let (word, ids) = part.split_once(':').unwrap_or((part, ""));
        (kind(text, word)?, ids)
    };
    for id in ids.split(':') {
        let (id, delay) = match id.split_once('+') {
            Some((id, minutes)) if kind == DependencyKind::After => (id, delay(text, minutes)?),
            Some(_) => return Err(bad(text, "only `after` takes a delay (`+minutes`)")),
            None => (id, Seconds(0)),
        };
        terms.push(DependencyTerm { kind, target: Some(target(text, id)?), delay });
    }
    Ok(())
}

fn kind(text: &str, word: &str) -> Result<DependencyKind, Problem> {
    let lower = word.to_ascii_lowercase();
    if let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == lower) {
        return Ok(*kind);
    }
    if lower == "afterburstbuffer" {
        return Err(bad(text, "muster has no burst buffers").hint("use afterany"));
    }
    if word.is_empty() {
        return Err(bad(text, "a term is empty"));
    }
    let problem = bad(text, &format!("{} is no kind of dependency", quoted(word)));
    let words = KINDS.iter().map(|(name, _)| *name).chain(["singleton"]);
    Err(match nearest(&lower, words) {
        Some(word) => problem.hint(format!("did you mean {word}?")),
        None => problem
            .hint("the kinds are after, afterany, afterok, afternotok, aftercorr and singleton"),
    })
}

fn delay(text: &str, minutes: &str) -> Result<Seconds, Problem> {
    digits(minutes)
        .filter(|&minutes| minutes > 0 && minutes <= DELAY_MAX_MIN)
        .map(Seconds::minutes)
        .ok_or_else(|| bad(text, &format!("{} is not a number of minutes", quoted(minutes))))
}

fn target(text: &str, id: &str) -> Result<DependencyTarget, Problem> {
    let (job, tasks) = match id.split_once('_') {
        Some((job, tasks)) => (job, Some(tasks)),
        None => (id, None),
    };
    let job = digits(job)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|&n| n > 0)
        .map(JobId)
        .ok_or_else(|| bad(text, &format!("{} is not a job id", quoted(id))))?;
    let Some(tasks) = tasks else { return Ok(DependencyTarget::Job(job)) };
    if tasks == "*" || tasks == "[*]" {
        return Ok(DependencyTarget::Job(job));
    }
    let inner = tasks.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if inner.is_none() && digits(tasks).is_none() {
        return Err(bad(text, &format!("{} is not a task of an array", quoted(id)))
            .hint("write 100_1 or 100_[0-3]"));
    }
    let indices = array::parse_indices(inner.unwrap_or(tasks), TASKS_END)
        .map_err(|problem| bad(text, &problem.what))?;
    Ok(DependencyTarget::Tasks(job, indices))
}

/// One above the largest task index that a dependency may name; the array itself is not known here.
const TASKS_END: u32 = 4_000_001;

fn bad(text: &str, why: &str) -> Problem {
    Problem::new(Code::DependencyBad, format!("{} is not a dependency: {why}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(text: &str) -> String {
        parse(text).expect(text).map_or_else(String::new, |dependency| dependency.to_string())
    }

    #[test]
    fn slurms_grammar() {
        for (text, out) in [
            ("afterok:20:21,afterany:23", "afterok:20,afterok:21,afterany:23"),
            ("afterok:20:21?afterany:23", "afterok:20?afterok:21?afterany:23"),
            ("after:20+5:21", "after:20+5,after:21"),
            ("singleton", "singleton"),
            ("afterok:7,singleton", "afterok:7,singleton"),
            ("afternotok:100_1", "afternotok:100_1"),
            ("afterok:100_[0-1,5]", "afterok:100_[0-1,5]"),
            ("aftercorr:100_*", "aftercorr:100"),
            ("20:21", "afterany:20,afterany:21"),
            ("AfterOk:20", "afterok:20"),
            ("", ""),
            ("0", ""),
        ] {
            assert_eq!(printed(text), out, "{text}");
        }
    }

    #[test]
    fn s18_malformed_texts() {
        for text in [
            "afterok:20,afterok:21?afterany:22",
            "afterok:20x",
            "afterok:20,",
            "afterok:",
            "afterok",
            "afterok:0",
            "after:20+0",
            "after:20+",
            "afterok:20+5",
            "aftergood:20",
            "afterburstbuffer:20",
            "afterok:-1",
            "afterok:99999999999",
            "afterok:20_",
            "afterok:20_[",
            "afterok:20_[3-1]",
            "singleton:20",
            ",",
        ] {
            assert_eq!(parse(text).expect_err(text).code, Code::DependencyBad, "{text}");
        }
        assert!(parse("afterook:20").unwrap_err().hints[0].contains("afterok"));
    }

    fn term() -> impl Strategy<Value = DependencyTerm> {
        let target = prop_oneof![
            (1_u32..1000).prop_map(|id| DependencyTarget::Job(JobId(id))),
            (1_u32..1000, proptest::collection::btree_set(0_u32..50, 1..5)).prop_map(
                |(id, set)| DependencyTarget::Tasks(JobId(id), set.into_iter().collect())
            ),
        ];
        (0_usize..6, target, 0_u64..100).prop_map(|(kind, target, minutes)| match KINDS.get(kind) {
            Some((_, kind)) => DependencyTerm {
                kind: *kind,
                target: Some(target),
                delay: Seconds(if *kind == DependencyKind::After { minutes * 60 } else { 0 }),
            },
            None => {
                DependencyTerm { kind: DependencyKind::Singleton, target: None, delay: Seconds(0) }
            }
        })
    }

    proptest! {
        #[test]
        fn print_then_parse(terms in proptest::collection::vec(term(), 2..8), any in any::<bool>()) {
            let joiner = if any { Joiner::Any } else { Joiner::All };
            let dependency = Dependency { joiner, terms };
            prop_assert_eq!(parse(&dependency.to_string()), Ok(Some(dependency)));
        }

        #[test]
        fn never_panics(text in "\\PC{0,60}", near in "[afterokny0-9:,?+_\\[\\]-]{0,60}") {
            let _ = parse(&text);
            let _ = parse(&near);
        }
    }
}
