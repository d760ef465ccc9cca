//! Finding what runs from the job directories, and ending what nobody supervises any more.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use muster_api::step::{Event, Order as StepOrder};
use muster_engine::Observation;
use muster_model::{EndCause, ExitReport, JobId, Timestamp};

use super::{Attempt, Phase, Shared, never_ran};
use crate::cgroup::Cgroups;
use crate::directory::{EXIT_FILE, NEW_PREFIX, StateDirectory, write_exit_record};
use crate::machine::is_running;
use crate::spec::{ExitRecord, JobKey, LaunchRecord};

/// Makes the directory of an attempt that is over without having run; false when it exists.
pub(super) fn claim_without_running(
    state: &StateDirectory,
    key: JobKey,
    report: &ExitReport,
) -> io::Result<bool> {
    let new = state.jobs().join(format!("{NEW_PREFIX}{key}.{}", std::process::id()));
    fs::DirBuilder::new().recursive(true).mode(0o711).create(&new)?;
    let record = ExitRecord { job: key.job, attempt: key.attempt, report: report.clone() };
    let made = write_exit_record(&new, &record).and_then(|_| fs::rename(&new, state.job(key)));
    match made {
        Ok(()) => Ok(true),
        Err(error) => {
            fs::remove_dir_all(&new).ok();
            match error.raw_os_error() {
                Some(libc::ENOTEMPTY | libc::EEXIST) => Ok(false),
                _ => Err(error),
            }
        }
    }
}

impl Shared {
    /// Takes in every job directory: what ended, what runs, what lost its supervisor.
    pub(super) fn recover(&self) -> io::Result<()> {
        for key in self.state.list()? {
            self.take_in(key)?;
        }
        Ok(())
    }

    /// Attempts that the machine's start cut short and that left no directory.
    pub(super) fn report_cut_short(&self, keys: &[JobKey]) {
        for key in keys.iter().filter(|key| !self.state.job(**key).exists()) {
            self.exited(*key, never_ran(EndCause::NodeReboot, "the machine was started anew"));
        }
    }

    /// Takes in one directory.
    pub(super) fn take_in(&self, key: JobKey) -> io::Result<()> {
        if let Some(record) = self.state.exit_record(key)? {
            self.exited(key, record.report);
            return Ok(());
        }
        let record = match self.state.launch_record(key) {
            Ok(record) => record,
            // It was acknowledged: its removal is under way, or was cut short by a kill.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return self.finish_removal(key),
            Err(e) => return Err(e),
        };
        if record.boot_id != self.boot_id {
            return self.write_exit(&record, EndCause::NodeReboot, "the machine was started anew");
        }
        if !is_running(record.supervisor) {
            return self.lost(&record);
        }
        let mut attempt = Attempt::running(record.launched_ms);
        attempt.supervisor = Some(record.supervisor);
        if let Ok(Some(Event::Report { suspended, signalled, steps })) =
            self.ask(key, &StepOrder::Report)
        {
            attempt.suspended = suspended;
            attempt.signalled = signalled;
            attempt.steps = steps;
        }
        self.attempts().found_running(key, attempt);
        Ok(())
    }

    /// Removes what is left of a directory without records; directories appear with one, so it
    /// was being removed.
    fn finish_removal(&self, key: JobKey) -> io::Result<()> {
        self.state.remove(key)?;
        self.journal().acknowledged(key)
    }

    /// A supervisor is gone: it wrote its record last, or it was killed.
    fn lost(&self, record: &LaunchRecord) -> io::Result<()> {
        let key = JobKey { job: record.job, attempt: record.attempt };
        // Looked at again: the record may have been written between the two looks.
        if let Some(found) = self.state.exit_record(key)? {
            self.exited(key, found.report);
            return Ok(());
        }
        if !Cgroups::sweep(&record.cgroups) {
            // Not dead yet: the next look finds them.
            tracing::warn!(job = key.job, "processes of a job without supervisor are still ending");
            let mut attempt = Attempt::running(record.launched_ms);
            attempt.supervisor = Some(record.supervisor);
            self.attempts().found_running(key, attempt);
            return Ok(());
        }
        let message = "the job's supervisor was killed; how its script ended is not known";
        self.write_exit(record, EndCause::NodeLost, message)
    }

    fn write_exit(&self, record: &LaunchRecord, cause: EndCause, message: &str) -> io::Result<()> {
        let key = JobKey { job: record.job, attempt: record.attempt };
        let report = ExitReport {
            started: Some(Timestamp::from_millis(record.launched_ms as i64)),
            ..never_ran(cause, message)
        };
        let exit = ExitRecord { job: key.job, attempt: key.attempt, report: report.clone() };
        write_exit_record(&self.state.job(key), &exit)?;
        self.exited(key, report);
        Ok(())
    }

    /// Notes an exit and tells of it, once.
    pub(super) fn exited(&self, key: JobKey, mut report: ExitReport) {
        {
            let mut attempts = self.attempts();
            let over = matches!(attempts.get(key).map(|a| &a.phase), Some(Phase::Exited(_)));
            if over || attempts.is_acknowledged(key) {
                return;
            }
            let seen = attempts.get(key).map_or(0, |a| a.gpu_memory_peak_mib);
            let peak = &mut report.usage.gpu_memory_peak_mib;
            *peak = (*peak).max(seen);
            attempts.insert(key, Attempt::exited(report.clone()));
        }
        self.tell(Observation::Exited { job: JobId(key.job), attempt: key.attempt, report });
    }

    /// Looks whether each supervisor still lives; finds exits whose poke was missed.
    pub(super) fn check_supervisors(&self) {
        let running: Vec<(JobKey, Option<crate::spec::ProcessId>)> = self
            .attempts()
            .iter()
            .filter(|(_, a)| matches!(a.phase, Phase::Running { .. }))
            .map(|(key, a)| (*key, a.supervisor))
            .collect();
        for (key, supervisor) in running {
            // One that lives may look after another job by now.
            let over = supervisor.is_none_or(|process| !is_running(process))
                || self.state.job(key).join(EXIT_FILE).exists();
            if over && let Err(error) = self.take_in(key) {
                tracing::warn!(job = key.job, %error, "cannot read a job's directory");
            }
        }
    }
}
