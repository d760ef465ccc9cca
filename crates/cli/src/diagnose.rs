//! `muster job JOB --diagnose`: what holds a running job back, by what it rests on, and what to do.

use muster_api::{DiagnosisPage, DiagnosisView, JobRef};
use muster_client::Client;

use crate::nccl;
use crate::say::{self, Outcome, tell};

/// Runs the command.
pub(crate) fn run(client: &Client, job: &JobRef, json: bool) -> Outcome {
    let page = client.diagnosis(job)?;
    if json {
        return say::json(&page);
    }
    let texts: Vec<String> = page.jobs.iter().map(|view| text(&page, view)).collect();
    tell(&texts.join("\n"));
    // The output is the caller's to read; without it there is one thing less to say.
    for view in client.job(job).map(|page| page.jobs).unwrap_or_default() {
        if let Some(line) = nccl::finding(&view) {
            tell(&line);
        }
    }
    Ok(0)
}

fn text(page: &DiagnosisPage, view: &DiagnosisView) -> String {
    let job = view.id;
    let mut lines = Vec::new();
    match view.verdict.as_str() {
        "too_short" if page.period_s == 0 => lines.push(format!(
            "job {job}: jobs are not looked at here\nhint: set watch_period in [daemon]"
        )),
        "too_short" if view.state.is_over() => {
            lines.push(format!("job {job}: it is over; only running jobs are looked at"));
        }
        "too_short" => lines.push(format!(
            "job {job}: {} samples so far; ask again when it has run for two minutes",
            view.samples
        )),
        "fine" => lines
            .push(format!("job {job}: nothing holds it back, as far as {} s show", view.window_s)),
        "cannot_tell" => {
            lines
                .push(format!("job {job}: nothing was found, but not everything can be seen here"));
        }
        _ => {}
    }
    for finding in &view.findings {
        let sure = if finding.sure { "" } else { " (likely)" };
        lines.push(format!("job {job}: {}{sure} [{}]", finding.text, finding.code));
        lines.push(format!("  because  {}", finding.evidence));
        lines.push(format!("  do       {}", finding.remedy));
    }
    if view.verdict == "cannot_tell" && !view.missing.is_empty() {
        lines.push(format!("  not seen: {}", view.missing.join(", ")));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::text;
    use muster_api::{DiagnosisPage, DiagnosisView, FindingView};
    use muster_model::JobState;

    fn view(verdict: &str) -> DiagnosisView {
        DiagnosisView {
            id: 42,
            state: JobState::Running,
            verdict: verdict.to_owned(),
            window_s: 600,
            samples: 21,
            findings: Vec::new(),
            missing: vec!["GPU use".to_owned()],
        }
    }

    #[test]
    fn each_answer_says_what_it_is() {
        let page = DiagnosisPage { period_s: 30, jobs: Vec::new() };
        assert_eq!(
            text(&page, &view("fine")),
            "job 42: nothing holds it back, as far as 600 s show\n"
        );
        let blind = text(&page, &view("cannot_tell"));
        assert!(blind.ends_with("  not seen: GPU use\n"), "{blind}");
        let off = DiagnosisPage { period_s: 0, ..page.clone() };
        assert!(text(&off, &view("too_short")).contains("watch_period"));
        assert!(text(&page, &view("too_short")).contains("21 samples so far"));
        let finding = FindingView {
            code: "WAITS_IO".to_owned(),
            text: "it waits for I/O".to_owned(),
            evidence: "time standing still for I/O 40 %".to_owned(),
            sure: false,
            remedy: "read ahead".to_owned(),
        };
        let found = DiagnosisView { findings: vec![finding], ..view("found") };
        assert_eq!(
            text(&page, &found),
            "job 42: it waits for I/O (likely) [WAITS_IO]\n  because  time standing still for I/O 40 %\n  do       read ahead\n"
        );
    }
}
