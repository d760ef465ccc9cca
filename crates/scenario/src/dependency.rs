//! What a job waits for, from text.

use crate::error::{Read, ScenarioError};
use crate::job::ranges;
use crate::text::{choice, duration};
use muster_model::{
    Dependency, DependencyKind, DependencyTarget, DependencyTerm, JobId, Joiner, Seconds,
};

/// `afterok:A:B,afterany:C`, `afterok:A?afterok:B`, `after:A+5`, `afterok:A_1`, `singleton`.
///
/// Jobs are named by name or number.
pub(crate) fn dependency(text: &str, find: &dyn Fn(&str) -> Read<JobId>) -> Read<Dependency> {
    let among = [
        ("after", DependencyKind::After),
        ("afterany", DependencyKind::AfterAny),
        ("afterok", DependencyKind::AfterOk),
        ("afternotok", DependencyKind::AfterNotOk),
        ("aftercorr", DependencyKind::AfterCorr),
        ("singleton", DependencyKind::Singleton),
    ];
    let joiner = if text.contains('?') { Joiner::Any } else { Joiner::All };
    let mut terms = Vec::new();
    for term in text.split([',', '?']) {
        let mut pieces = term.split(':');
        let kind = choice("a kind of dependency", pieces.next().unwrap_or_default(), &among)?;
        let before = terms.len();
        if kind == DependencyKind::Singleton {
            terms.push(DependencyTerm { kind, target: None, delay: Seconds(0) });
        }
        for piece in pieces {
            let (job, delay) = piece.split_once('+').unwrap_or((piece, "0"));
            let target = Some(target(job, find)?);
            terms.push(DependencyTerm { kind, target, delay: duration(delay)? });
        }
        if terms.len() == before {
            return Err(ScenarioError::value(term, "a dependency on a job")
                .hint(format!("write {term}:JOB")));
        }
    }
    Ok(Dependency { joiner, terms })
}

fn target(job: &str, find: &dyn Fn(&str) -> Read<JobId>) -> Read<DependencyTarget> {
    let Some((array, tasks)) = job.rsplit_once('_') else {
        return Ok(DependencyTarget::Job(find(job)?));
    };
    let tasks = tasks.trim_matches(['[', ']']).replace(';', ",");
    match ranges(&tasks) {
        Ok(tasks) => Ok(DependencyTarget::Tasks(find(array)?, tasks)),
        // A name may have an underscore too.
        Err(error) => Ok(DependencyTarget::Job(find(job).map_err(|_| error)?)),
    }
}
