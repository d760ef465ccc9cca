//! A change to what a waiting job asks for, written as options over what it asks for now.
//!
//! An option replaces what the job had of its kind; `--constraint=` (nothing after the sign) takes
//! it away. The changed request passes the checks that a new one has to pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{Affinity, Exclusive, GpuScope, JobSpec, MemoryRequest, Mib, Request, Segments};

use crate::options::{Command, Opt, by_long};
use crate::problem::{Code, Diagnostic, Place, Problem};
use crate::submission::{ComponentRequest, Context, Sources, submission};
use crate::{gres, print};

/// Most words that one change may have.
pub const WORDS_MAX: usize = 256;

/// The request that these words, each `--option` or `--option=value`, make of another.
///
/// # Errors
/// Everything that is wrong: an option that is none or that does not change a request, a value, or
/// a request that asks for what excludes one another.
pub fn request(
    old: &Request,
    words: &[String],
    context: &Context,
) -> Result<Request, Vec<Diagnostic>> {
    let mut rest = old.clone();
    let mut added = Vec::new();
    let mut errors = Vec::new();
    if words.len() > WORDS_MAX {
        let problem = Problem::new(Code::OptionsMany, format!("more than {WORDS_MAX} changes"));
        return Err(vec![Diagnostic::at(Place::Request, None, problem)]);
    }
    for (word, at) in words.iter().zip(1_u32..) {
        let (name, value) = word.split_once('=').unwrap_or((word, "-"));
        match replaced(name, value, &mut rest) {
            Ok(()) if value.is_empty() => {}
            Ok(()) => added.push(word.clone()),
            Err(problem) => {
                let place = Place::CommandLine { word: at };
                errors.push(Diagnostic::at(place, Some(name.to_owned()), problem));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // A second `--gres` would take the place of the one that says what stays.
    let gres = std::mem::take(&mut rest.gres);
    let spec = JobSpec { request: rest, ..JobSpec::default() };
    let mut all = print::options(&ComponentRequest { spec, ..ComponentRequest::default() });
    all.append(&mut added);
    let sources = Sources {
        command: Command::Sbatch,
        script: None,
        words: &all,
        environment: &BTreeMap::new(),
    };
    let read = submission(sources, context)?;
    let mut new = read.components.into_iter().next().map(|c| c.spec.request).unwrap_or_default();
    new.gres.extend(gres);
    Ok(new)
}

/// Takes away what an option is about to say anew.
fn replaced(name: &str, value: &str, request: &mut Request) -> Result<(), Problem> {
    let long = name.strip_prefix("--").filter(|long| !long.is_empty());
    let long = long.ok_or_else(|| {
        Problem::new(Code::OptionUnknown, "a change is written --option=value".to_owned())
    })?;
    let scope = |request: &mut Request, scope: GpuScope| {
        request.gpus.retain(|gpus| gpus.scope != scope);
    };
    match by_long(long, Command::Sbatch)?.opt {
        Opt::Nodes => request.nodes = None,
        Opt::Ntasks => request.tasks = None,
        Opt::NtasksPerNode | Opt::TasksPerNode => request.tasks_per_node = None,
        Opt::CpusPerTask => (request.cpus_per_task, request.cpus_per_gpu) = (None, None),
        Opt::CpusPerGpu => (request.cpus_per_task, request.cpus_per_gpu) = (None, None),
        Opt::Mincpus => request.cpus_per_node_min = None,
        Opt::Mem | Opt::MemPerCpu | Opt::MemPerGpu => request.memory = MemoryRequest::Default,
        Opt::Tmp => request.scratch = Mib(0),
        Opt::Gpus => scope(request, GpuScope::Job),
        Opt::GpusPerNode => scope(request, GpuScope::Node),
        Opt::GpusPerSocket => scope(request, GpuScope::Socket),
        Opt::GpusPerTask => scope(request, GpuScope::Task),
        Opt::Gres => of_gres(value, request)?,
        Opt::GpuMemory => request.gpu_memory = None,
        Opt::GpuShare | Opt::GpuPieces => request.gpu_share = None,
        Opt::GpuIsolation => request.gpu_isolation = None,
        Opt::SocketsPerNode => request.sockets_per_node = None,
        Opt::GresFlags => request.cpus_near_gpus = false,
        Opt::Constraint => request.constraint = None,
        Opt::Nodelist => request.node_list.clear(),
        Opt::Exclude => request.exclude.clear(),
        Opt::Exclusive | Opt::Oversubscribe => request.exclusive = Exclusive::No,
        Opt::Contiguous => request.contiguous = false,
        Opt::Switches => request.switches = None,
        Opt::Topology => {
            (request.topology.required, request.topology.preferred) = (None, None);
        }
        Opt::Segment => request.topology.segment = None,
        Opt::SpreadSegments | Opt::ConsolidateSegments => {
            request.topology.segments = Segments::Anywhere;
        }
        Opt::Affinity => without(request, |all| {
            (all.node, all.near, all.apart) = Default::default();
        }),
        Opt::Spread => without(request, |all| all.spread.clear()),
        Opt::Toleration => without(request, |all| all.tolerations.clear()),
        Opt::Reservation => request.reservation = None,
        Opt::Licenses => request.licences.clear(),
        _ => {
            let what = "this option changes nothing of a job that waits";
            return Err(Problem::new(Code::OptionRefused, what.to_owned()));
        }
    }
    Ok(())
}

/// Takes one kind of rules away.
fn without(request: &mut Request, kind: impl FnOnce(&mut Affinity)) {
    let mut all = request.affinity.as_deref().cloned().unwrap_or_default();
    kind(&mut all);
    request.affinity = (all != Affinity::default()).then(|| Arc::new(all));
}

/// `--gres` says anew what it names and leaves the rest; an empty one leaves nothing.
fn of_gres(value: &str, request: &mut Request) -> Result<(), Problem> {
    if value.is_empty() {
        request.gres.clear();
        request.gpus.retain(|gpus| gpus.scope != GpuScope::Node);
        return Ok(());
    }
    for entry in gres::parse(value)? {
        if entry.name == "gpu" || crate::gpu_part::is_pieces(&entry.name) {
            request.gpus.retain(|gpus| gpus.scope != GpuScope::Node);
            request.gpu_share = None;
        } else {
            let typed = format!("{}:", entry.name);
            request.gres.retain(|key, _| *key != entry.name && !key.starts_with(&typed));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::{NodeCount, Timestamp};

    fn changed(old: &[&str], words: &[&str]) -> Result<Request, Vec<Diagnostic>> {
        let own = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let context = Context::at(Timestamp::from_secs(0));
        request(&request(&Request::default(), &own(old), &context)?, &own(words), &context)
    }

    #[test]
    fn what_an_option_names_is_replaced_and_the_rest_stays() {
        let of =
            |old: &[&str], words: &[&str]| changed(old, words).unwrap_or_else(|e| panic!("{e:?}"));
        let new = of(&["--gpus-per-node=8", "--gres=nvme:2", "--nodes=2"], &["--gres=gpu:6"]);
        assert_eq!((new.gpus.len(), new.gpus[0].count, new.gres.len()), (1, 6, 1));
        assert_eq!(new.nodes, Some(NodeCount::exactly(2)));
        let new = of(&["--constraint=a100", "--exclusive"], &["--constraint=", "--oversubscribe"]);
        assert_eq!(new, Request::default());
        let new = of(&["--mem=8G"], &["--mem-per-cpu=1G"]);
        assert_eq!(new.memory, MemoryRequest::PerCpu(Mib(1024)));
        let new = of(&["--cpus-per-gpu=4", "--gpus=2"], &["--cpus-per-task=2"]);
        assert_eq!((new.cpus_per_gpu, new.cpus_per_task), (None, Some(2)));
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_option() {
        let refused = |old: &[&str], word: &str| {
            let found = changed(old, &[word]).expect_err("refused");
            found[0].code.to_string()
        };
        assert!(changed(&[], &["--nodes=x"]).is_err());
        assert_eq!(refused(&[], "--array=1-3"), "E_OPTION_REFUSED");
        assert_eq!(refused(&[], "--gpsu=1"), "E_OPTION_UNKNOWN");
        assert_eq!(refused(&["--ntasks=8", "--gpus-per-task=1"], "--gpus=4"), "E_IMPOSSIBLE");
    }
}
