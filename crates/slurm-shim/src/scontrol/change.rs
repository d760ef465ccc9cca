//! `scontrol update`, `hold`, `release`, `requeue` and their like.

use muster_api::{Action, ActionRequest, ActionResult, JobFilter, JobPatch, JobRef};
use muster_client::Client;
use muster_slurm_syntax::{duration, hostlist};

use super::{told, too_few};
use crate::fail::{Failure, Outcome, slurm_sentence};
use crate::out;

/// The action of a command's name.
pub(super) fn action(command: &str) -> Option<Action> {
    Some(match command {
        "hold" => Action::Hold,
        "uhold" => Action::Uhold,
        "release" => Action::Release,
        "requeue" => Action::Requeue,
        "requeuehold" => Action::RequeueHold,
        "suspend" => Action::Suspend,
        "resume" => Action::Resume,
        _ => return None,
    })
}

/// Does it to every job named, by number or as `name=NAME`.
pub(super) fn act(client: &Client, command: &str, words: &[&str]) -> Outcome {
    if words.is_empty() {
        return Err(too_few(command));
    }
    let mut request =
        ActionRequest { action: action(command).unwrap_or_default(), ..ActionRequest::default() };
    for word in words {
        // `requeue` and `requeuehold` may be told a state, which is none of muster's.
        if word.to_ascii_lowercase().starts_with("incomplete")
            || word.to_ascii_lowercase().starts_with("state=")
        {
            continue;
        }
        match word.split_once('=') {
            Some((key, name)) if key.to_ascii_lowercase().ends_with("name") => {
                request.filter.get_or_insert_with(JobFilter::default).names.push(name.to_owned());
            }
            Some((key, list)) if key.to_ascii_lowercase().starts_with("job") => {
                request.jobs.extend(jobs(list)?);
            }
            _ => request.jobs.extend(jobs(word)?),
        }
    }
    let answer = client.act(&request).map_err(|error| told(&error, words[0]))?;
    Ok(report(&answer.results))
}

fn jobs(list: &str) -> Result<Vec<JobRef>, Failure> {
    let mut depth = 0;
    let at_comma = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    };
    list.split(at_comma).filter(|text| !text.is_empty()).map(super::job_of).collect()
}

/// Says what was not done; 1 where anything was not.
fn report(results: &[ActionResult]) -> i32 {
    let mut code = 0;
    for result in results {
        let Some(error) = &result.error else { continue };
        code = 1;
        let api = muster_api::ApiError::new(&error.code, "");
        let sentence = if result.id.is_none() {
            "Invalid job id specified"
        } else {
            slurm_sentence(&api).unwrap_or(&error.message)
        };
        out::say(&format!("{sentence} for job {}", result.job));
    }
    code
}

/// `update Key=value …`: the first key says what is changed.
pub(super) fn update(client: &Client, words: &[&str]) -> Outcome {
    if words.is_empty() {
        return Err(too_few("update"));
    }
    let mut pairs = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| {
            Failure::says(format!("scontrol: error: Invalid input: {word}\nRequest aborted"))
        })?;
        pairs.push((key.to_ascii_lowercase(), value));
    }
    let of = |names: &[&str]| {
        pairs.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, v)| *v)
    };
    if let Some(id) = of(&["jobid", "job", "jobidlist"]) {
        return update_job(client, id, &pairs);
    }
    if let Some(names) = of(&["nodename", "node", "nodes", "nodenames"]) {
        return update_node(client, names, of(&["state"]), of(&["reason"]));
    }
    Err(Failure::error(
        "scontrol",
        "only jobs and nodes can be updated\nhint: partitions, accounts and QOS stand in muster's configuration file",
    ))
}

fn update_job(client: &Client, id: &str, pairs: &[(String, &str)]) -> Outcome {
    let patch = patch(pairs)?;
    let nodes = pairs.iter().find(|(key, _)| option(key, "").as_deref() == Some("--nodes="));
    let nodes: Option<u32> = nodes.and_then(|(_, value)| value.parse().ok());
    let mut code = 0;
    for job in jobs(id)? {
        let answer = client.update(&job, &patch).map_err(|error| told(&error, &job.to_string()))?;
        let told = report(&answer.results);
        code = code.max(told);
        if let Some(nodes) = nodes.filter(|_| told == 0) {
            code = code.max(super::resize::follow(client, &job, nodes)?);
        }
    }
    Ok(code)
}

/// The change that the keys name.
fn patch(pairs: &[(String, &str)]) -> Result<JobPatch, Failure> {
    let mut patch = JobPatch::default();
    for (key, value) in pairs {
        let text = || Some((*value).to_owned());
        let invalid = |name: &str| Failure::error("scontrol", &format!("Invalid {name} value"));
        match key.as_str() {
            "jobid" | "job" | "jobidlist" => {}
            "timelimit" => {
                duration::parse_limit(value.trim_start_matches(['+', '-']))
                    .map_err(|_| invalid("TimeLimit"))?;
                patch.time_limit = text();
            }
            "timemin" => {
                duration::parse_limit(value).map_err(|_| invalid("TimeMin"))?;
                patch.time_min = text();
            }
            "jobname" | "name" => patch.name = text(),
            "partition" | "partitionname" => patch.partition = text(),
            "account" => patch.account = text(),
            "qos" => patch.qos = text(),
            "nice" => {
                patch.nice = Some(if value.is_empty() {
                    100
                } else {
                    value.parse().map_err(|_| invalid("Nice"))?
                });
            }
            "priority" => patch.priority = Some(value.parse().map_err(|_| invalid("Priority"))?),
            "sitefactor" => {
                patch.site_factor = Some(value.parse().map_err(|_| invalid("SiteFactor"))?);
            }
            "comment" => patch.comment = text(),
            "dependency" => patch.dependency = text(),
            "starttime" | "eligibletime" => patch.begin = text(),
            "deadline" => patch.deadline = text(),
            "arraytaskthrottle" => {
                patch.array_throttle =
                    Some(value.parse().map_err(|_| invalid("ArrayTaskThrottle"))?);
            }
            "requeue" => patch.requeue = Some(*value != "0"),
            "stdout" => patch.output = text(),
            other => {
                if let Some(option) = option(other, value) {
                    patch.options.push(option);
                    continue;
                }
                return Err(Failure::error(
                    "scontrol",
                    &format!(
                        "Update of this parameter is not supported: {other}={value}\nRequest aborted"
                    ),
                ));
            }
        }
    }
    Ok(patch)
}

/// The option of sbatch that says what a field of the request says (scontrol manual, "Specifications
/// for update command, jobs"); the server reads it.
fn option(key: &str, value: &str) -> Option<String> {
    let name = match key {
        "numnodes" | "reqnodes" | "numnodes-nodes" => "nodes",
        "numtasks" | "reqprocs" => "ntasks",
        "ntaskspernode" => "ntasks-per-node",
        "cpuspertask" => "cpus-per-task",
        "mincpusnode" => "mincpus",
        "minmemorynode" => "mem",
        "minmemorycpu" => "mem-per-cpu",
        "mintmpdisknode" => "tmp",
        "gres" | "trespernode" => return Some(format!("--gres={}", gres(value))),
        "tresperjob" | "gpus" => return Some(format!("--gpus={}", gpus(value))),
        "trespertask" | "gpuspertask" => return Some(format!("--gpus-per-task={}", gpus(value))),
        "trespersocket" | "gpuspersocket" => {
            return Some(format!("--gpus-per-socket={}", gpus(value)));
        }
        "gpuspernode" => "gpus-per-node",
        "gpumemory" => "gpu-memory",
        "gpushare" => "gpu-share",
        "topology" => "topology",
        "reservationname" | "reservation" => "reservation",
        "features" => "constraint",
        "reqnodelist" | "nodelist" => "nodelist",
        "excnodelist" => "exclude",
        "licenses" => "licenses",
        "switches" => "switches",
        "contiguous" => {
            let yes = ["1", "yes", "y"].contains(&value.to_ascii_lowercase().as_str());
            return Some(if yes { "--contiguous" } else { "--contiguous=" }.to_owned());
        }
        "oversubscribe" | "shared" => {
            return Some(match value.to_ascii_lowercase().as_str() {
                "0" | "no" | "n" | "exclusive" => "--exclusive".to_owned(),
                "user" => "--exclusive=user".to_owned(),
                _ => "--oversubscribe".to_owned(),
            });
        }
        _ => return None,
    };
    let value = if value == "(null)" { "" } else { value };
    Some(format!("--{name}={value}"))
}

/// A list of TRES (`gres/gpu:a100=2`) as one of GRES (`gpu:a100:2`).
fn gres(value: &str) -> String {
    if value == "(null)" {
        return String::new();
    }
    let one = |entry: &str| {
        let entry = entry.strip_prefix("gres/").or_else(|| entry.strip_prefix("gres:"));
        entry.map(|e| e.replace('=', ":"))
    };
    let words = value.split(',').map(|entry| one(entry).unwrap_or_else(|| entry.to_owned()));
    words.collect::<Vec<_>>().join(",")
}

/// As [`gres`], where only GPUs can stand.
fn gpus(value: &str) -> String {
    let list = gres(value);
    let words = list.split(',').map(|entry| entry.strip_prefix("gpu:").unwrap_or(entry));
    words.collect::<Vec<_>>().join(",")
}

fn update_node(client: &Client, names: &str, state: Option<&str>, reason: Option<&str>) -> Outcome {
    let names = hostlist::expand(names, 65_536)
        .map_err(|problem| Failure::error("scontrol", &problem.to_string()))?;
    let state = state.unwrap_or_default().to_ascii_lowercase();
    let drains = ["drain", "draining", "drained", "down", "fail"].contains(&state.as_str());
    let resumes = ["resume", "undrain", "idle", "up"].contains(&state.as_str());
    if !drains && !resumes {
        return Err(Failure::error(
            "scontrol",
            &format!("Invalid node state specified: {state}\nRequest aborted"),
        ));
    }
    let Some(reason) = reason.or(resumes.then_some("")) else {
        return Err(Failure::says(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied",
        ));
    };
    for name in names {
        let result = if drains { client.drain(&name, reason) } else { client.resume_node(&name) };
        let failed = |why: &str| Failure::says(format!("slurm_update error: {why}"));
        match result {
            Ok(result) => {
                if let Some(error) = result.error {
                    return Err(failed(&error.to_string()));
                }
            }
            Err(error) if crate::fail::is_unknown(&error) => {
                return Err(failed("Invalid node name specified"));
            }
            Err(error) => return Err(failed(&error.to_string())),
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_patch() {
        let pairs = [
            ("jobid".to_owned(), "13"),
            ("timelimit".to_owned(), "+30"),
            ("nice".to_owned(), "-5"),
        ];
        let read = patch(&pairs).unwrap_or_else(|f| panic!("{}", f.text));
        assert_eq!((read.time_limit.as_deref(), read.nice), (Some("+30"), Some(-5)));
        let refused = patch(&[("timelimit".to_owned(), "4h")]).expect_err("refused");
        assert_eq!(refused.text, "scontrol: error: Invalid TimeLimit value");
        assert!(patch(&[("bogus".to_owned(), "1")]).is_err());
    }

    #[test]
    fn fields_of_the_request_become_options() {
        let of = |key: &str, value: &str| {
            let read = patch(&[(key.to_owned(), value)]).unwrap_or_else(|f| panic!("{}", f.text));
            read.options.join(" ")
        };
        assert_eq!(of("gres", "gpu:6"), "--gres=gpu:6");
        assert_eq!(of("trespernode", "gres/gpu:a100=2"), "--gres=gpu:a100:2");
        assert_eq!(of("tresperjob", "gres/gpu:4"), "--gpus=4");
        assert_eq!(of("features", "(null)"), "--constraint=");
        assert_eq!(of("oversubscribe", "YES"), "--oversubscribe");
        assert_eq!(of("contiguous", "0"), "--contiguous=");
    }

    #[test]
    fn results_are_told_as_slurm_does() {
        assert_eq!(report(&[ActionResult { job: "7".into(), id: Some(7), error: None }]), 0);
        assert_eq!(jobs("1,900_[3,4]").unwrap_or_default().len(), 2);
    }
}
