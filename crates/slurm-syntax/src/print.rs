//! A component as canonical options: what [`crate::submission`] reads back to the same component.

use crate::gpu_part;
use muster_model::sharing::GpuShare;
use muster_model::{
    Checkpoint, Exclusive, GpuScope, JobSpec, MemoryRequest, OpenMode, Request, Seconds, Segments,
    TimeLimit,
};

use crate::duration::print_long;
use crate::memory::print_mib;
use crate::submission::ComponentRequest;
use crate::{
    affinity, array, constraint, count, export, hostlist, license, signal, topology, when,
};

/// Prints a component as words of a command line, in a fixed order.
pub fn options(component: &ComponentRequest) -> Vec<String> {
    let mut out = Words::default();
    identity(&component.spec, &mut out);
    match component.requeue {
        Some(true) => out.flag("requeue"),
        Some(false) => out.flag("no-requeue"),
        None => {}
    }
    out.maybe("on", component.on.as_deref());
    out.maybe("export", component.export.as_ref().map(export::print));
    times(&component.spec, &mut out);
    amounts(&component.spec.request, &mut out);
    places(&component.spec.request, &mut out);
    files(&component.spec, &mut out);
    own(&component.spec, &mut out);
    out.0
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn flag(&mut self, name: &str) {
        self.0.push(format!("--{name}"));
    }

    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("--{name}={value}"));
    }

    fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.set(name, value);
        }
    }
}

fn identity(spec: &JobSpec, out: &mut Words) {
    out.text("job-name", &spec.name);
    out.text("account", &spec.account);
    out.text("qos", &spec.qos);
    out.text("partition", &spec.partitions.join(","));
    out.text("comment", &spec.comment);
    out.text("labels", &affinity::print_labels(&spec.labels));
    if spec.hold {
        out.flag("hold");
    }
    if spec.nice != 0 {
        out.set("nice", spec.nice);
    }
    out.maybe("priority", spec.priority);
    let word = |yes: bool| if yes { "yes" } else { "no" };
    out.maybe("kill-on-invalid-dep", spec.kill_on_invalid_dependency.map(word));
    out.maybe("dependency", spec.dependency.as_ref());
    out.maybe("signal", spec.signal.as_ref().map(signal::print));
    if let Some(mail) = &spec.mail {
        out.text("mail-type", &mail.events.join(","));
        out.text("mail-user", &mail.to);
    }
}

fn times(spec: &JobSpec, out: &mut Words) {
    out.maybe("array", spec.array.as_ref().map(array::print));
    out.maybe("time", spec.time_limit.map(print_long));
    out.maybe("time-min", spec.time_min.map(|least| print_long(TimeLimit::Of(least))));
    out.maybe("begin", spec.begin.map(when::print));
    out.maybe("deadline", spec.deadline.map(when::print));
}

fn amounts(request: &Request, out: &mut Words) {
    out.maybe("nodes", request.nodes.as_ref().map(count::print_nodes));
    out.maybe("ntasks", request.tasks);
    out.maybe("ntasks-per-node", request.tasks_per_node);
    out.maybe("ntasks-per-gpu", request.tasks_per_gpu);
    out.maybe("ntasks-per-socket", request.tasks_per_socket);
    out.maybe("ntasks-per-core", request.tasks_per_core);
    out.maybe("distribution", request.distribution);
    out.maybe("cpus-per-task", request.cpus_per_task);
    out.maybe("cpus-per-gpu", request.cpus_per_gpu);
    out.maybe("mincpus", request.cpus_per_node_min);
    match request.memory {
        MemoryRequest::Default => {}
        MemoryRequest::WholeNode => out.set("mem", 0),
        MemoryRequest::PerNode(mib) => out.set("mem", print_mib(mib.0)),
        MemoryRequest::PerCpu(mib) => out.set("mem-per-cpu", print_mib(mib.0)),
        MemoryRequest::PerGpu(mib) => out.set("mem-per-gpu", print_mib(mib.0)),
    }
    if !request.scratch.is_zero() {
        out.set("tmp", print_mib(request.scratch.0));
    }
    for (name, scope) in [
        ("gpus", GpuScope::Job),
        ("gpus-per-node", GpuScope::Node),
        ("gpus-per-socket", GpuScope::Socket),
        ("gpus-per-task", GpuScope::Task),
    ] {
        let entries = request.gpus.iter().filter(|gpus| gpus.scope == scope);
        let words: Vec<String> = entries
            .map(|gpus| match &gpus.model {
                Some(model) => format!("{model}:{}", gpus.count),
                None => gpus.count.to_string(),
            })
            .collect();
        out.text(name, &words.join(","));
    }
    let gres: Vec<String> =
        request.gres.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    out.text("gres", &gres.join(","));
    out.maybe("sockets-per-node", request.sockets_per_node);
    if request.cpus_near_gpus {
        out.set("gres-flags", "enforce-binding");
    }
}

fn places(request: &Request, out: &mut Words) {
    let hosts = |set: &std::collections::BTreeSet<String>| {
        hostlist::fold_sorted(&set.iter().collect::<Vec<_>>())
    };
    out.text("nodelist", &hosts(&request.node_list));
    out.text("exclude", &hosts(&request.exclude));
    out.maybe("constraint", request.constraint.as_ref().map(constraint::print));
    if request.contiguous {
        out.flag("contiguous");
    }
    match request.exclusive {
        Exclusive::No => {}
        Exclusive::Node => out.flag("exclusive"),
        Exclusive::User => out.set("exclusive", "user"),
    }
    if let Some(wish) = request.switches {
        match wish.wait {
            Some(wait) => out.set("switches", format!("{}@{}", wish.count, time(wait))),
            None => out.set("switches", wish.count),
        }
    }
    out.text("topology", &topology::print_wish(&request.topology));
    out.maybe("segment", request.topology.segment);
    match request.topology.segments {
        Segments::Anywhere => {}
        Segments::Spread => out.flag("spread-segments"),
        Segments::Consolidate => out.flag("consolidate-segments"),
    }
    if let Some(rules) = &request.affinity {
        out.text("affinity", &affinity::print_affinity(rules));
        out.text("spread", &affinity::print_spread(rules));
        out.text("toleration", &affinity::print_tolerations(rules));
    }
    out.text("licenses", &license::print(&request.licences));
    out.maybe("reservation", request.reservation.as_ref());
}

fn time(seconds: Seconds) -> String {
    print_long(TimeLimit::Of(seconds))
}

fn files(spec: &JobSpec, out: &mut Words) {
    out.maybe("output", spec.stdio.output.as_ref());
    out.maybe("error", spec.stdio.error.as_ref());
    out.maybe("input", spec.stdio.input.as_ref());
    match spec.stdio.open_mode {
        OpenMode::Default => {}
        OpenMode::Append => out.set("open-mode", "append"),
        OpenMode::Truncate => out.set("open-mode", "truncate"),
    }
    out.text("chdir", &spec.cwd);
    out.maybe("gpu-bind", spec.gpu_bind.as_ref());
}

fn own(spec: &JobSpec, out: &mut Words) {
    out.maybe("gpu-memory", spec.request.gpu_memory.map(|mib| print_mib(mib.0)));
    match spec.request.gpu_share {
        Some(GpuShare::Milli(share)) => out.set("gpu-share", gpu_part::print_share(share)),
        Some(GpuShare::Pieces(pieces)) => out.set("gpu-pieces", pieces),
        None => {}
    }
    out.maybe("gpu-isolation", spec.request.gpu_isolation);
    out.maybe("image", spec.image.as_ref());
    for volume in &spec.volumes {
        let end = if volume.read_only { ":ro" } else { "" };
        out.set("volume", format!("{}:{}{end}", volume.source, volume.target));
    }
    if let Some(Checkpoint { dir, signal: asked, grace, variable }) = &spec.checkpoint {
        out.text("checkpoint-dir", dir);
        let word = |number: u8| format!("{}@{}", signal::print_signal(number), grace.0);
        out.maybe("checkpoint-signal", asked.map(word));
        out.text("checkpoint-env", variable);
    }
}
