//! What jobs used of what they had, in the end or so far: like seff and jobstats together.

use crate::shown;
use crate::{DiagnosisView, HistoryRow};
use muster_model::JobState;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use utoipa::ToSchema;

/// The jobs that a name stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportPage {
    /// Each job.
    pub jobs: Vec<ReportView>,
}

/// What a job used of what it had. What nobody measured is absent, never 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportView {
    /// The job's number.
    pub id: u32,
    /// As people write it: 12, `900_3`.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Its user's name.
    pub user: String,
    /// Its account.
    pub account: String,
    /// How it ended, or where it stands.
    #[schema(value_type = String)]
    pub state: JobState,
    /// Its exit code.
    pub exit_code: u8,
    /// How long it has run.
    pub run_time_s: u64,
    /// Its limit; absent is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// CPUs.
    pub cpus: u32,
    /// CPU time used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// CPU time against CPUs and run time, thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_permille: Option<u32>,
    /// Memory that it might use, MiB on all nodes; 0 where nothing bounds it.
    pub memory_mib: u64,
    /// The most that it held at once, KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_kib: Option<u64>,
    /// That against what it might use, thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_permille: Option<u32>,
    /// GPUs.
    pub gpus: u32,
    /// GPU use, mean over GPUs and the time that was watched, thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_permille: Option<u32>,
    /// The most of its memory that any GPU had in use, thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_permille: Option<u32>,
    /// Bytes read from disks and, where the machine was its alone, network filesystems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Energy of its GPUs while it was watched, joules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_joules: Option<u64>,
    /// What it was billed, in seconds of billing units (`TRESBillingWeights`).
    pub billing_seconds: u64,
    /// Seconds between the first look at it and the last.
    pub watched_s: u64,
    /// What held it back in the last hour; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<DiagnosisView>,
}

impl ReportView {
    /// What accounting knows of a job; what was watched is for the daemon to add.
    pub fn of(row: &HistoryRow, run_time_s: u64, billed: u64) -> Self {
        let usage = row.usage;
        let cpu_ms = usage.cpu_user_ms.saturating_add(usage.cpu_system_ms);
        let known = |value: u64| (value > 0).then_some(value);
        let could_ms = u64::from(row.cpus).saturating_mul(run_time_s).saturating_mul(1000);
        let memory_kib = row.memory_mib.saturating_mul(1024);
        Self {
            id: row.id,
            job: row.job.clone(),
            name: row.name.clone(),
            user: row.user.clone(),
            account: row.account.clone(),
            state: row.state,
            exit_code: row.exit.code,
            run_time_s,
            time_limit_s: row.time_limit_s,
            cpus: row.cpus,
            cpu_ms: known(cpu_ms),
            cpu_permille: known(cpu_ms).and_then(|used| permille(used, could_ms)),
            memory_mib: row.memory_mib,
            memory_peak_kib: known(usage.memory_peak_kib),
            memory_permille: known(usage.memory_peak_kib)
                .and_then(|peak| permille(peak, memory_kib)),
            gpus: row.gpus,
            gpu_permille: None,
            gpu_memory_permille: None,
            read_bytes: None,
            written_bytes: None,
            gpu_joules: None,
            billing_seconds: billed.saturating_mul(run_time_s),
            watched_s: 0,
            diagnosis: None,
        }
    }

    /// Lines of a name and a value, as a terminal and a mail show them.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let limit = self.time_limit_s.map_or("no limit".to_owned(), clock);
        let over = self.time_limit_s.and_then(|limit| permille(self.run_time_s, limit));
        lines.push(("run time", share(over, &format!("{} of {limit}", clock(self.run_time_s)))));
        self.amounts(&mut lines);
        self.findings(&mut lines);
        lines
    }

    fn amounts(&self, lines: &mut Vec<(&'static str, String)>) {
        if let Some(used) = self.cpu_ms {
            let could = u64::from(self.cpus).saturating_mul(self.run_time_s);
            let text = format!("{} of {} ({} CPUs)", clock(used / 1000), clock(could), self.cpus);
            lines.push(("CPU", share(self.cpu_permille, &text)));
        }
        if let Some(peak) = self.memory_peak_kib {
            let peak = shown::bytes(peak.saturating_mul(1024));
            let text = match self.memory_mib {
                0 => format!("{peak} at most"),
                mib => format!("{peak} of {} at most", shown::bytes(mib.saturating_mul(1 << 20))),
            };
            lines.push(("memory", share(self.memory_permille, &text)));
        }
        if self.gpus > 0 {
            let text = match self.gpu_permille {
                Some(_) => format!("mean of {} GPUs over {}", self.gpus, clock(self.watched_s)),
                None => format!("of {} GPUs was not measured", self.gpus),
            };
            lines.push(("GPU use", share(self.gpu_permille, &text)));
        }
        if let Some(most) = self.gpu_memory_permille {
            lines.push(("GPU memory", share(Some(most), "of the fullest GPU at most")));
        }
        if let Some((read, written)) = self.read_bytes.zip(self.written_bytes) {
            lines.push((
                "I/O",
                format!("{} read, {} written", shown::bytes(read), shown::bytes(written)),
            ));
        }
        if let Some(joules) = self.gpu_joules {
            let watt_hours = joules / 3600;
            let text = format!("{}.{:03} kWh of its GPUs", watt_hours / 1000, watt_hours % 1000);
            lines.push(("energy", text));
        }
        let (hours, rest) = (self.billing_seconds / 3600, self.billing_seconds % 3600);
        lines.push(("cost", format!("{hours}.{:02} billing hours", rest * 100 / 3600)));
    }

    fn findings(&self, lines: &mut Vec<(&'static str, String)>) {
        let told = match self.diagnosis.as_ref() {
            Some(diagnosis) => match diagnosis.verdict.as_str() {
                "fine" => format!("nothing held it back in its last {}", clock(diagnosis.window_s)),
                "cannot_tell" => {
                    format!(
                        "nothing, but not everything was seen: {}",
                        diagnosis.missing.join(", ")
                    )
                }
                "too_short" => "it was watched for too short a time to say".to_owned(),
                _ => String::new(),
            },
            None => "nobody watched it".to_owned(),
        };
        if !told.is_empty() {
            lines.push(("finding", told));
        }
        for finding in self.diagnosis.iter().flat_map(|diagnosis| &diagnosis.findings) {
            let sure = if finding.sure { "" } else { " (likely)" };
            lines.push(("finding", format!("{}{sure} [{}]", finding.text, finding.code)));
            lines.push(("because", finding.evidence.clone()));
            lines.push(("do", finding.remedy.clone()));
        }
    }

    /// All of it as plain text.
    pub fn text(&self) -> String {
        let state = crate::job::state_word(self.state);
        let code = match self.state.is_over() {
            true => format!(", exit code {}", self.exit_code),
            false => String::new(),
        };
        let title = format!(
            "job {} {} ({}, {}): {state}{code}",
            self.job, self.name, self.user, self.account
        );
        let mut text = shown::text(&title) + "\n";
        for (name, value) in self.lines() {
            let _ = writeln!(text, "  {name:<11}{}", shown::text(&value));
        }
        text
    }
}

/// A part of a whole in thousandths; `None` where the whole is nothing.
pub fn permille(part: u64, whole: u64) -> Option<u32> {
    let share = (u128::from(part) * 1000).checked_div(u128::from(whole))?;
    Some(u32::try_from(share).unwrap_or(u32::MAX))
}

fn share(permille: Option<u32>, text: &str) -> String {
    match permille {
        Some(permille) => {
            format!("{:>3} %  {text}", (u64::from(permille) + 5) / 10)
        }
        None => format!("       {text}"),
    }
}

fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours / 24 {
        0 => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        days => format!("{days}-{:02}:{minutes:02}:{seconds:02}", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::{ReportView, clock};
    use crate::shown::bytes;
    use crate::{DiagnosisView, FindingView, HistoryRow, UsageView};
    use muster_model::{JobState, Timestamp};

    fn row() -> HistoryRow {
        serde_json::from_value(serde_json::json!({
            "id": 42, "job": "42", "attempt": 1, "name": "train\u{1b}[2J", "user": "mara", "uid": 1,
            "gid": 1, "account": "lab", "partition": "gpu", "qos": "normal", "state": "completed",
            "submitted_ms": 0, "started_ms": 0, "ended_ms": 1_800_000, "time_limit_s": 3600,
            "nodes": 1, "tasks": 1, "cpus": 8, "memory_mib": 8192, "gpus": 4,
            "usage": {"memory_peak_kib": 3_145_728, "cpu_user_ms": 6_000_000,
                      "cpu_system_ms": 480_000},
        }))
        .expect("a row")
    }

    fn report() -> ReportView {
        let row = row();
        ReportView::of(&row, row.run_time(Timestamp::from_secs(9_999)).0, 16)
    }

    /// The figures are those of Slurm's seff: CPU time against CPUs and elapsed time, peak memory
    /// against what was asked for.
    #[test]
    fn efficiency_is_what_seff_counts() {
        let report = report();
        assert_eq!((report.cpu_permille, report.memory_permille), (Some(450), Some(375)));
        assert_eq!(report.billing_seconds, 16 * 1_800);
        assert_eq!(
            report.text(),
            "job 42 train\u{fffd}[2J (mara, lab): completed, exit code 0\n\
             \x20 run time    50 %  00:30:00 of 01:00:00\n\
             \x20 CPU         45 %  01:48:00 of 04:00:00 (8 CPUs)\n\
             \x20 memory      38 %  3.0 GiB of 8.0 GiB at most\n\
             \x20 GPU use           of 4 GPUs was not measured\n\
             \x20 cost       8.00 billing hours\n\
             \x20 finding    nobody watched it\n"
        );
    }

    #[test]
    fn what_still_runs_has_no_exit_code() {
        let running = ReportView { state: JobState::Running, ..report() };
        assert!(running.text().starts_with("job 42 train\u{fffd}[2J (mara, lab): running\n"));
    }

    #[test]
    fn what_was_watched_and_found_is_told() {
        let finding = FindingView {
            code: "SMALL_FILES".to_owned(),
            text: "it waits for many small files".to_owned(),
            evidence: "size of a read 8.0 KiB".to_owned(),
            sure: false,
            remedy: "pack the files".to_owned(),
        };
        let diagnosis = DiagnosisView {
            id: 42,
            state: JobState::Completed,
            verdict: "found".to_owned(),
            window_s: 1_700,
            samples: 57,
            findings: vec![finding],
            missing: Vec::new(),
        };
        let mut report = ReportView {
            gpu_permille: Some(314),
            gpu_memory_permille: Some(999),
            read_bytes: Some(5 << 30),
            written_bytes: Some(0),
            gpu_joules: Some(4_440_000),
            watched_s: 1_700,
            diagnosis: Some(diagnosis),
            ..report()
        };
        let text = report.text();
        for line in [
            "  GPU use     31 %  mean of 4 GPUs over 00:28:20\n",
            "  GPU memory 100 %  of the fullest GPU at most\n",
            "  I/O        5.0 GiB read, 0 B written\n",
            "  energy     1.233 kWh of its GPUs\n",
            "  finding    it waits for many small files (likely) [SMALL_FILES]\n  because",
        ] {
            assert!(text.contains(line), "{line:?} in:\n{text}");
        }
        report.diagnosis.as_mut().expect("one").verdict = "fine".to_owned();
        assert!(report.text().contains("finding    nothing held it back in its last 00:28:20"));
    }

    #[test]
    fn a_job_that_never_ran_has_no_efficiency() {
        let idle = HistoryRow { started_ms: None, usage: UsageView::default(), ..row() };
        let report = ReportView::of(&idle, 0, 0);
        assert_eq!((report.cpu_permille, report.memory_permille), (None, None));
        assert!(report.text().contains("cost       0.00 billing hours"));
    }

    #[test]
    fn long_times_and_large_amounts_are_short() {
        assert_eq!((clock(90_061).as_str(), bytes(1_023).as_str()), ("1-01:01:01", "1023 B"));
        assert_eq!(
            (bytes(1_536).as_str(), bytes(u64::MAX).as_str()),
            ("1.5 KiB", "16777215.9 TiB")
        );
    }
}
