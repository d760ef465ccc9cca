//! Jobs: records of `squeue --json`, an array's waiting tasks as one record.

use super::json::{Number, Words};
use super::resources::Resources;
use crate::SlurmError;
use muster_model::{JobId, Timestamp};
use serde::Deserialize;

/// Where a job stands, as far as planning goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStanding {
    /// It waits.
    Waiting,
    /// It has its resources.
    Holding,
    /// It is over.
    Over,
}

/// A job as Slurm tells it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobRecord {
    pub(super) job_id: u32,
    pub(super) name: Words,
    pub(super) user_id: Number,
    pub(super) group_id: Number,
    pub(super) user_name: Words,
    pub(super) account: Words,
    pub(super) qos: Words,
    pub(super) partition: Words,
    pub(super) job_state: Words,
    pub(super) state_reason: Words,
    pub(super) array_job_id: Number,
    pub(super) array_task_id: Number,
    pub(super) array_task_string: Words,
    pub(super) array_max_tasks: Number,
    pub(super) admin_comment: Words,
    pub(super) het_job_id: Number,
    pub(super) het_job_offset: Number,
    pub(super) priority: Number,
    pub(super) hold: bool,
    pub(super) submit_time: Number,
    pub(super) eligible_time: Number,
    pub(super) start_time: Number,
    pub(super) deadline: Number,
    pub(super) time_limit: Number,
    pub(super) time_minimum: Number,
    pub(super) required_nodes: Words,
    pub(super) excluded_nodes: Words,
    pub(super) nodes: Words,
    pub(super) node_count: Number,
    pub(super) max_nodes: Number,
    pub(super) cpus: Number,
    pub(super) tasks: Number,
    pub(super) tasks_per_node: Number,
    pub(super) cpus_per_task: Number,
    pub(super) minimum_cpus_per_node: Number,
    pub(super) minimum_tmp_disk_per_node: Number,
    pub(super) memory_per_node: Number,
    pub(super) memory_per_cpu: Number,
    pub(super) tres_req_str: Words,
    pub(super) tres_per_job: Words,
    pub(super) tres_per_node: Words,
    pub(super) tres_per_socket: Words,
    pub(super) tres_per_task: Words,
    pub(super) features: Words,
    pub(super) licenses: Words,
    pub(super) dependency: Words,
    pub(super) resv_name: Words,
    pub(super) shared: Words,
    pub(super) contiguous: bool,
    pub(super) gres_detail: Words,
    pub(super) job_resources: Option<Resources>,
    pub(super) comment: Words,
    pub(super) end_time: Number,
    pub(super) exit_code: serde_json::Value,
}

/// What `squeue --json` tells. A list of jobs that is not there is an answer of something else.
#[derive(Deserialize)]
struct Answer {
    jobs: Vec<JobRecord>,
    #[serde(default)]
    errors: Vec<Complaint>,
}

/// What an answer says of why it is not whole.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Complaint {
    description: Words,
    error: Words,
    source: Words,
}

impl Complaint {
    fn text(&self) -> String {
        let parts = [&self.source, &self.error, &self.description].map(Words::joined);
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

/// The jobs of `squeue --json`, or of a call of slurmrestd that says the same.
///
/// Where slurmctld does not answer or munge fails, `squeue --json` ends well with no jobs and a
/// word among its `errors`: that is no empty queue.
///
/// # Errors
/// [`SlurmError::Failed`] where it complains, [`SlurmError::Answer`] for what cannot be read.
pub(crate) fn all(text: &[u8], command: &str) -> Result<Vec<JobRecord>, SlurmError> {
    let wrong = |what: String| SlurmError::Answer { command: command.to_owned(), what };
    let answer: Answer = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    if !answer.errors.is_empty() {
        let said = answer.errors.iter().map(Complaint::text).collect::<Vec<_>>().join("; ");
        return Err(SlurmError::Failed { command: command.to_owned(), said });
    }
    for job in &answer.jobs {
        job.check().map_err(wrong)?;
    }
    Ok(answer.jobs)
}

/// Words of a state in which a job has its resources.
const HOLDING: [&str; 9] = [
    "RUNNING",
    "SUSPENDED",
    "STOPPED",
    "CONFIGURING",
    "POWER_UP_NODE",
    "RESIZING",
    "COMPLETING",
    "STAGE_OUT",
    "SIGNALING",
];

/// Words of a state in which it waits.
const WAITING: [&str; 6] =
    ["PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"];

/// Words of a state in which it is over.
const OVER: [&str; 10] = [
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
];

impl JobRecord {
    /// Its number.
    pub const fn id(&self) -> JobId {
        JobId(self.job_id)
    }

    /// Where it stands.
    pub fn standing(&self) -> JobStanding {
        let is = |words: &[&str]| words.iter().any(|word| self.job_state.has(word));
        if is(&HOLDING) {
            JobStanding::Holding
        } else if is(&WAITING) {
            JobStanding::Waiting
        } else {
            JobStanding::Over
        }
    }

    /// What has to be told of any job, in words that are known: one that is taken for over by
    /// mistake would be lost, and its resources given away twice.
    fn check(&self) -> Result<(), String> {
        if self.job_id == 0 {
            return Err("a job without job_id".to_owned());
        }
        let known = [&HOLDING[..], &WAITING, &OVER].concat();
        match self.job_state.joined() {
            state if state.is_empty() => Err(format!("job {} without job_state", self.job_id)),
            _ if known.iter().any(|word| self.job_state.has(word)) => Ok(()),
            state => Err(format!("job {} has the unknown state {state}", self.job_id)),
        }
    }

    /// Why it waits, in Slurm's word; `None` for a job that does not.
    pub fn slurm_reason(&self) -> Option<&str> {
        self.state_reason.0.first().map(String::as_str).filter(|word| *word != "None")
    }

    /// The priority that Slurm gave it; zero where it is held.
    pub fn priority(&self) -> u32 {
        self.priority.get().and_then(|priority| u32::try_from(priority).ok()).unwrap_or(0)
    }

    /// The indices of the tasks that wait, where it stands for those of an array.
    pub fn waiting_tasks(&self) -> Option<&str> {
        self.array_task_string.0.first().map(String::as_str)
    }

    /// When Slurm expects it to start, where it waits and Slurm says so.
    pub fn expected(&self) -> Option<Timestamp> {
        self.started().filter(|_| self.standing() == JobStanding::Waiting)
    }

    /// When it began.
    pub fn started(&self) -> Option<Timestamp> {
        let at = self.start_time.get().filter(|at| *at > 0)?;
        i64::try_from(at).ok().map(Timestamp::from_secs)
    }

    /// When it ended, or has to end while it runs.
    pub fn ended(&self) -> Option<Timestamp> {
        let at = self.end_time.get().filter(|at| *at > 0)?;
        i64::try_from(at).ok().map(Timestamp::from_secs)
    }

    /// What its submitter wrote to it.
    pub fn comment(&self) -> &str {
        self.comment.0.first().map_or("", String::as_str)
    }

    /// Whose it is.
    pub fn user(&self) -> &str {
        self.user_name.0.first().map_or("", String::as_str)
    }

    /// The number of whose it is; `None` where Slurm does not say.
    pub fn uid(&self) -> Option<u32> {
        self.user_id.get().and_then(|uid| u32::try_from(uid).ok())
    }

    /// True where this word is among those of its state.
    pub fn is(&self, state: &str) -> bool {
        self.job_state.has(state)
    }

    /// The first word of its state.
    pub fn state(&self) -> &str {
        self.job_state.0.first().map_or("", String::as_str)
    }

    /// The code and the signal that it ended with: the status of `wait` up to 22.05, two numbers
    /// later.
    pub fn exit_status(&self) -> (u8, u8) {
        fn number(value: &serde_json::Value) -> u32 {
            let plain = value.as_u64().or_else(|| value.get("number")?.as_u64());
            plain.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
        }
        let told = &self.exit_code;
        let Some(code) = told.get("return_code") else {
            let status = number(told);
            return ((status >> 8) as u8, (status & 0x7f) as u8);
        };
        let signal = told.get("signal").and_then(|of| of.get("id").or_else(|| of.get("signal_id")));
        (number(code) as u8, signal.map_or(0, number) as u8)
    }

    /// True where it is held: then its priority is zero.
    pub(super) fn is_held(&self) -> bool {
        self.hold || self.priority == Number::Of(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_of_several_versions_are_a_code_and_a_signal() {
        let of = |code: &str| {
            let text =
                format!(r#"{{"jobs":[{{"job_id":1,"job_state":"FAILED","exit_code":{code}}}]}}"#);
            all(text.as_bytes(), "squeue --json").expect(code)[0].exit_status()
        };
        assert_eq!((of("1792"), of("9"), of("4021")), ((7, 0), (0, 9), (15, 53)));
        let later = r#"{"status":["ERROR"],"return_code":{"set":true,"infinite":false,"number":7},
                        "signal":{"id":{"set":true,"infinite":false,"number":15},"name":"TERM"}}"#;
        assert_eq!(of(later), (7, 15));
        let between = r#"{"status":"SIGNALED","return_code":0,"signal":{"signal_id":9}}"#;
        assert_eq!((of(between), of("null")), ((0, 9), (0, 0)));
    }

    /// As `squeue --json` of 22.05 printed it, with status 0, while munged was stopped.
    #[test]
    fn an_answer_with_a_complaint_is_no_empty_queue() {
        let told = br#"{"meta":{},"errors":[{"description":"Failed while looking for jobs",
            "error_number":-1,"error":"Unspecified error","source":"slurm_load_jobs"}],
            "jobs":[]}"#;
        let failed = all(told, "squeue --json").expect_err("no answer");
        assert_eq!(failed.code(), "E_SLURM_FAILED");
        assert!(failed.to_string().contains("slurm_load_jobs"), "{failed}");
    }

    #[test]
    fn a_job_that_is_not_wholly_told_is_refused_and_new_fields_are_passed_over() {
        let of = |fields: &str| all(format!(r#"{{"jobs":[{{{fields}}}]}}"#).as_bytes(), "squeue");
        let wrong = |fields: &str| of(fields).expect_err(fields).to_string();
        assert!(wrong(r#""job_state":"PENDING""#).contains("without job_id"));
        assert!(wrong(r#""job_id":7"#).contains("job 7 without job_state"));
        let odd = wrong(r#""job_id":7,"job_state":["DREAMING"]"#);
        assert!(odd.contains("job 7 has the unknown state DREAMING"), "{odd}");
        let new = r#""job_id":7,"job_state":["PENDING","DREAMING"],"dream":{"of":[1]}"#;
        assert_eq!(of(new).expect("read")[0].standing(), JobStanding::Waiting);
        let stopped = of(r#""job_id":7,"job_state":["RUNNING","STOPPED"]"#).expect("read");
        assert_eq!(stopped[0].standing(), JobStanding::Holding);
    }
}
