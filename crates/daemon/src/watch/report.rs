//! What a job used of what it had, and what held it back.

use super::kept::Watched;
use super::{Ring, Watch};
use muster_api::report::permille;
use muster_api::{DiagnosisView, FindingView, HistoryRow, ReportView, SeriesView};
use muster_diagnosis::{Confidence, Sample, Verdict, diagnose};
use muster_model::{Job, State, TresKind};

impl Watch {
    /// The report of a job: so far where it runs, of its last attempt where it is over.
    pub(crate) fn report(&self, state: &State, job: &Job) -> ReportView {
        let billed = job
            .placement
            .as_ref()
            .map_or(0, |placement| state.charge(placement).get(&TresKind::Billing));
        let row = HistoryRow::of(state, job);
        let mut report = ReportView::of(&row, row.run_time(crate::app::App::now()).0, billed);
        if let Some(watched) = self.watched(job) {
            report.watched_s = watched.seconds;
            report.gpu_permille = watched.gpu_permille;
            report.gpu_memory_permille = watched.gpu_memory_permille;
            report.read_bytes = watched.read_bytes;
            report.written_bytes = watched.written_bytes;
            report.gpu_joules = watched.gpu_joules;
            report.diagnosis = Some(watched.diagnosis);
        }
        report
    }
}

/// What a ring says of its job.
pub(super) fn watched(job: &Job, ring: &Ring, series: SeriesView) -> Watched {
    let totals = ring.tally.totals();
    let thousandths = |share: Option<f64>| permille((share? * 1e6) as u64, 1_000_000);
    let whole = |amount: Option<f64>| amount.map(|amount| amount as u64);
    let samples: Vec<Sample> = ring.samples.iter().cloned().collect();
    let now = diagnosis(job, &samples);
    // What was found before a restart stands until more is seen.
    let earlier = ring.earlier.as_ref().filter(|_| now.verdict == "too_short");
    Watched {
        attempt: job.attempt,
        submitted: job.submitted,
        seconds: totals.seconds as u64,
        gpu_permille: thousandths(totals.gpu_busy),
        gpu_memory_permille: thousandths(totals.gpu_memory),
        read_bytes: whole(totals.read_bytes),
        written_bytes: whole(totals.written_bytes),
        gpu_joules: whole(totals.gpu_joules),
        diagnosis: earlier.cloned().unwrap_or(now),
        series,
        standing: Some(ring.tally.standing()),
    }
}

/// What holds a job back, for the wire.
pub(crate) fn diagnosis(job: &Job, samples: &[Sample]) -> DiagnosisView {
    let report = diagnose(samples);
    let window = samples.first().zip(samples.last()).map(|(first, last)| last.at - first.at);
    let verdict = match report.verdict {
        Verdict::Found => "found",
        Verdict::Fine => "fine",
        Verdict::CannotTell => "cannot_tell",
        Verdict::TooShort => "too_short",
    };
    let findings = report.findings.iter().map(|finding| FindingView {
        code: finding.rule.to_owned(),
        text: finding.title.to_owned(),
        evidence: finding.evidence_text(),
        sure: finding.confidence == Confidence::Sure,
        remedy: finding.remedy.to_owned(),
    });
    DiagnosisView {
        id: job.id.0,
        state: job.state,
        verdict: verdict.to_owned(),
        window_s: window.unwrap_or(0.0) as u64,
        samples: samples.len() as u64,
        findings: findings.collect(),
        missing: report.missing.iter().map(|signal| signal.name().to_owned()).collect(),
    }
}
