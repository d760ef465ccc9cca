//! Jobs: records of `squeue --json`, an array's waiting tasks as one record.

use super::json::{Number, Words};
use super::resources::Resources;
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
}

/// The jobs of `squeue --json`.
pub(super) fn all(text: &[u8]) -> Result<Vec<JobRecord>, String> {
    let answer: Answer = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    Ok(answer.jobs)
}

impl JobRecord {
    /// Its number.
    pub const fn id(&self) -> JobId {
        JobId(self.job_id)
    }

    /// Where it stands.
    pub fn standing(&self) -> JobStanding {
        let state = &self.job_state;
        let holding =
            ["RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STAGE_OUT", "SIGNALING"];
        if holding.iter().any(|word| state.has(word)) {
            JobStanding::Holding
        } else if ["PENDING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"]
            .iter()
            .any(|word| state.has(word))
        {
            JobStanding::Waiting
        } else {
            JobStanding::Over
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
            let text = format!(r#"{{"jobs":[{{"job_id":1,"exit_code":{code}}}]}}"#);
            all(text.as_bytes()).expect(code)[0].exit_status()
        };
        assert_eq!((of("1792"), of("9"), of("4021")), ((7, 0), (0, 9), (15, 53)));
        let later = r#"{"status":["ERROR"],"return_code":{"set":true,"infinite":false,"number":7},
                        "signal":{"id":{"set":true,"infinite":false,"number":15},"name":"TERM"}}"#;
        assert_eq!(of(later), (7, 15));
        let between = r#"{"status":"SIGNALED","return_code":0,"signal":{"signal_id":9}}"#;
        assert_eq!((of(between), of("null")), ((0, 9), (0, 0)));
    }
}
