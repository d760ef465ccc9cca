//! Bounds on everything that a submission may hold.

use super::{CommandError, JobChange, Submission};
use muster_model::{JobSpec, Payload, Request};

/// Bytes of a job's name.
pub const NAME_MAX: usize = 1024;
/// Bytes of a path, pattern or command.
pub const PATH_MAX: usize = 4096;
/// Bytes of a comment or another free text.
pub const TEXT_MAX: usize = 8192;
/// Entries of any list.
pub const LIST_MAX: usize = 65_536;
/// Bytes of a script (Slurm's `max_script_size`).
pub const SCRIPT_MAX: usize = 4 << 20;
/// Bytes of arguments and environment together.
pub const ENVIRONMENT_MAX: usize = 4 << 20;
/// Components of a heterogeneous job.
pub const COMPONENTS_MAX: usize = 128;
/// Terms of a dependency.
pub const TERMS_MAX: usize = 4096;
/// Nodes, tasks or CPUs that a request may name.
pub const COUNT_MAX: u32 = 1 << 20;

/// Checks the sizes of everything in a submission.
pub(super) fn check(submission: &Submission) -> Result<(), CommandError> {
    let count = submission.specs.len();
    if count == 0 || count > COMPONENTS_MAX {
        return Err(bad("job", format!("1 to {COMPONENTS_MAX} components, found {count}")));
    }
    check_payload(&submission.payload)?;
    submission.specs.iter().try_for_each(check_spec)
}

fn check_payload(payload: &Payload) -> Result<(), CommandError> {
    bounded("script", payload.script.len(), SCRIPT_MAX)?;
    bounded("arguments", payload.args.len(), LIST_MAX)?;
    bounded("environment", payload.environment.len(), LIST_MAX)?;
    bounded("limits", payload.limits.len(), 64)?;
    let environment: usize = payload
        .environment
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2)
        .chain(payload.args.iter().map(|arg| arg.len() + 1))
        .sum();
    bounded("arguments and environment", environment, ENVIRONMENT_MAX)?;
    let nul = |text: &String| text.contains('\0');
    if payload.args.iter().any(nul)
        || payload.environment.iter().any(|(name, value)| nul(name) || nul(value))
    {
        return Err(bad("environment", "a NUL byte cannot be passed on".to_owned()));
    }
    Ok(())
}

fn check_spec(spec: &JobSpec) -> Result<(), CommandError> {
    line("job name", &spec.name, NAME_MAX)?;
    line("user", &spec.owner.user, 256)?;
    line("account", &spec.account, 256)?;
    line("qos", &spec.qos, 256)?;
    line("working directory", &spec.cwd, PATH_MAX)?;
    line("command", &spec.command, PATH_MAX)?;
    line("submit host", &spec.submit_host, 256)?;
    bounded("comment", spec.comment.len(), TEXT_MAX)?;
    bounded("partitions", spec.partitions.len(), 64)?;
    for (field, pattern) in [
        ("output", &spec.stdio.output),
        ("error", &spec.stdio.error),
        ("input", &spec.stdio.input),
        ("image", &spec.image),
    ] {
        line(field, pattern.as_deref().unwrap_or_default(), PATH_MAX)?;
    }
    if !spec.cwd.starts_with('/') {
        return Err(bad(
            "working directory",
            format!("expected an absolute path, found {:?}", spec.cwd),
        ));
    }
    if let Some(mail) = &spec.mail {
        line("mail user", &mail.to, 1024)?;
        bounded("mail events", mail.events.len(), 32)?;
    }
    if let Some(checkpoint) = &spec.checkpoint {
        line("checkpoint directory", &checkpoint.dir, PATH_MAX)?;
    }
    bounded("volumes", spec.volumes.len(), 256)?;
    for volume in &spec.volumes {
        line("volume", &volume.source, PATH_MAX)?;
        line("volume", &volume.target, PATH_MAX)?;
    }
    bounded("warnings", spec.warnings.len(), 256)?;
    if spec.signal.is_some_and(|s| !is_signal(s.signal)) {
        return Err(bad("signal", "expected a number from 1 to 64".to_owned()));
    }
    bounded("dependency terms", spec.dependency.as_ref().map_or(0, |d| d.terms.len()), TERMS_MAX)?;
    check_request(&spec.request)
}

/// Checks the sizes of a request.
pub(super) fn check_request(request: &Request) -> Result<(), CommandError> {
    bounded("node list", request.node_list.len() + request.exclude.len(), LIST_MAX)?;
    bounded("gpus", request.gpus.len(), 64)?;
    bounded("gres", request.gres.len(), 64)?;
    bounded("licences", request.licences.len(), 256)?;
    bounded("features", request.constraint.as_ref().map_or(0, |c| c.names().len()), 256)?;
    let nodes = request.nodes.as_ref().map(|n| (n.least(), n.most()));
    if let Some((least, most)) = nodes
        && (least == 0 || least > most)
    {
        return Err(bad("nodes", format!("expected at least 1, found {least} to {most}")));
    }
    let counts = [
        ("nodes", nodes.map(|n| n.0)),
        ("ntasks", request.tasks),
        ("ntasks-per-node", request.tasks_per_node),
        ("cpus-per-task", request.cpus_per_task),
    ];
    for (field, count) in counts {
        match count {
            Some(0) => return Err(bad(field, "expected at least 1, found 0".to_owned())),
            Some(n) if n > COUNT_MAX => {
                return Err(bad(field, format!("expected at most {COUNT_MAX}, found {n}")));
            }
            _ => {}
        }
    }
    if let (Some(tasks), Some((least, _))) = (request.tasks, nodes)
        && tasks < least
        && request.nodes.is_some()
    {
        // Every node runs at least one task: sbatch then takes as many nodes as tasks.
        return Err(bad("nodes", format!("{least} nodes cannot share {tasks} tasks")));
    }
    Ok(())
}

/// Checks the sizes of a change.
pub(super) fn check_change(change: &JobChange) -> Result<(), CommandError> {
    line("job name", change.name.as_deref().unwrap_or_default(), NAME_MAX)?;
    if change.site_factor.is_some_and(|factor| factor.unsigned_abs() > SITE_FACTOR_MAX) {
        let why = format!("expected -{SITE_FACTOR_MAX} to {SITE_FACTOR_MAX}");
        return Err(bad("site factor", why));
    }
    bounded("comment", change.comment.as_ref().map_or(0, String::len), TEXT_MAX)
}

/// A site adds at most so much to a priority, or takes it away (scontrol manual, `SiteFactor`).
const SITE_FACTOR_MAX: u64 = 2_147_483_645;

/// True for the numbers of Linux's signals.
pub(super) const fn is_signal(number: u8) -> bool {
    1 <= number && number <= 64
}

fn line(field: &'static str, text: &str, max: usize) -> Result<(), CommandError> {
    bounded(field, text.len(), max)?;
    if text.bytes().any(|b| b == 0 || b == b'\n') {
        return Err(bad(field, "a line break or NUL byte cannot stand in it".to_owned()));
    }
    Ok(())
}

fn bounded(field: &'static str, len: usize, max: usize) -> Result<(), CommandError> {
    if len > max {
        return Err(bad(field, format!("expected at most {max}, found {len}")));
    }
    Ok(())
}

pub(crate) const fn bad(field: &'static str, why: String) -> CommandError {
    CommandError::BadValue { field, why }
}
