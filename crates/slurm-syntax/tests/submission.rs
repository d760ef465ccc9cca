//! Scripts, environments and command lines together: who wins, what carries over, what is refused.

use std::collections::BTreeMap;

use muster_model::{
    Exclusive, GpuScope, MemoryRequest, Mib, NodeCount, Seconds, TimeLimit, Timestamp,
};
use muster_slurm_syntax::options::{Command, Opt};
use muster_slurm_syntax::problem::{Code, Diagnostic, Place};
use muster_slurm_syntax::submission::{Context, Sources, Submission, command_line, submission};

/// 2027-01-15T08:00:00Z.
fn context() -> Context {
    Context::at(Timestamp::from_secs(1_800_000_000))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn read(
    script: &str,
    environment: &[(&str, &str)],
    line: &str,
) -> Result<Submission, Vec<Diagnostic>> {
    let environment: BTreeMap<String, String> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let words = words(line);
    let sources = Sources {
        command: Command::Sbatch,
        script: (!script.is_empty()).then_some(script),
        words: &words,
        environment: &environment,
    };
    submission(sources, &context())
}

fn good(line: &str) -> Submission {
    read("", &[], line).unwrap_or_else(|errors| panic!("{line}: {errors:?}"))
}

fn codes(line: &str) -> Vec<Code> {
    read("", &[], line).err().unwrap_or_default().iter().map(|error| error.code).collect()
}

fn warnings(line: &str) -> Vec<Code> {
    good(line).warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn s15_command_line_beats_environment_beats_script() {
    let script = "#!/bin/sh\n#SBATCH --time=1:00:00 --partition=long\n";
    let environment = [("SBATCH_TIMELIMIT", "30"), ("SBATCH_PARTITION", "short")];
    let submission = read(script, &environment, "--partition=gpu").expect("good");
    let spec = &submission.components[0].spec;
    assert_eq!(spec.partitions, ["gpu"]);
    assert_eq!(spec.time_limit, Some(TimeLimit::Of(Seconds(1800))));
}

#[test]
fn a_kind_of_memory_on_the_command_line_beats_another_kind_elsewhere() {
    let script = "#!/bin/sh\n#SBATCH --mem-per-cpu=1G\n";
    let submission = read(script, &[("SBATCH_MEM_PER_GPU", "2G")], "--mem=4G").expect("good");
    assert_eq!(submission.components[0].spec.request.memory, MemoryRequest::PerNode(Mib(4096)));
}

#[test]
fn what_is_overridden_is_still_read() {
    let errors = read("#!/bin/sh\n#SBATCH --time=4h\n", &[], "--time=60").expect_err("4h");
    assert_eq!(errors[0].code, Code::TimeBad);
    assert_eq!(errors[0].place, Place::Script { line: 2, column: 9 });
}

#[test]
fn places_name_the_source() {
    let errors = read("", &[("SBATCH_TIMELIMIT", "4h")], "-N 0").expect_err("two");
    let places: Vec<_> = errors.iter().map(|error| error.place.to_string()).collect();
    assert!(places.contains(&"environment variable SBATCH_TIMELIMIT".to_owned()));
    assert!(places.contains(&"command line, word 1".to_owned()));
    assert!(errors.iter().any(|error| error.option.as_deref() == Some("--nodes")));
}

#[test]
fn places_of_good_options_are_kept() {
    let script = "#!/bin/sh\n#SBATCH -A lab -p gpu\n#SBATCH --tasks-per-node=2\n";
    let submission = read(script, &[("SBATCH_QOS", "high")], "-p long").expect("good");
    let place = |opt| submission.places[0].get(&opt).map(ToString::to_string);
    assert_eq!(place(Opt::Account).as_deref(), Some("script line 2, column 9"));
    assert_eq!(place(Opt::Partition).as_deref(), Some("command line, word 1"));
    assert_eq!(place(Opt::Qos).as_deref(), Some("environment variable SBATCH_QOS"));
    assert_eq!(place(Opt::NtasksPerNode).as_deref(), Some("script line 3, column 9"));
    assert_eq!(place(Opt::Time), None);
}

#[test]
fn all_errors_of_a_script_are_reported() {
    let script =
        "#!/bin/sh\n#SBATCH --time=4h --mem=1.5G\n#SBATCH --noeds=2 stray\n#SBATCH --array=5-1\n";
    let errors = read(script, &[], "").expect_err("bad");
    let found: Vec<_> = errors.iter().map(|error| error.code).collect();
    for code in
        [Code::TimeBad, Code::MemoryBad, Code::OptionUnknown, Code::LineWord, Code::ArrayBad]
    {
        assert!(found.contains(&code), "{code} in {found:?}");
    }
    let unknown = errors.iter().find(|error| error.code == Code::OptionUnknown).expect("there");
    assert_eq!(unknown.place, Place::Script { line: 3, column: 9 });
    assert_eq!(unknown.hints, ["did you mean --nodes?"]);
}

#[test]
fn s38_what_carries_over_to_the_next_component() {
    let submission = good("--time=60 -n 1 --mem-per-cpu=16G : -n 8 -c 2 run.sh");
    let [first, second] = &submission.components[..] else { panic!("two components") };
    for component in [first, second] {
        assert_eq!(component.spec.time_limit, Some(TimeLimit::Of(Seconds(3600))));
    }
    assert_eq!(first.spec.request.memory, MemoryRequest::PerCpu(Mib(16_384)));
    assert_eq!(second.spec.request.memory, MemoryRequest::Default);
    assert_eq!((first.spec.request.tasks, second.spec.request.tasks), (Some(1), Some(8)));
    assert_eq!(second.spec.request.cpus_per_task, Some(2));
    assert_eq!(submission.script.as_deref(), Some("run.sh"));
}

#[test]
fn components_of_a_script_and_of_a_command_line_are_matched() {
    let script = "#!/bin/sh\n#SBATCH -n1 --account=a -p x\n#SBATCH hetjob\n#SBATCH -n2\n";
    let submission = read(script, &[("SBATCH_QOS", "high")], "-n 4").expect("good");
    let [first, second] = &submission.components[..] else { panic!("two components") };
    assert_eq!((first.spec.request.tasks, second.spec.request.tasks), (Some(4), Some(2)));
    assert_eq!(second.spec.account, "a", "carried over");
    assert!(second.spec.partitions.is_empty(), "starts anew");
    assert_eq!((first.spec.qos.as_str(), second.spec.qos.as_str()), ("high", "high"));
}

#[test]
fn het_jobs_are_no_arrays_and_ask_for_licences_once() {
    assert_eq!(codes("-a 0-3 -n1 : -n2"), [Code::Conflict]);
    assert_eq!(codes("-n1 : -n2 -L a"), [Code::Conflict]);
    assert_eq!(codes("-L a -n1 : -n2"), []);
}

#[test]
fn s11_total_per_node_per_task() {
    let gpus = |line: &str| {
        let request = good(line).components[0].spec.request.clone();
        request.gpus.iter().map(|g| (g.count, g.scope)).collect::<Vec<_>>()
    };
    assert_eq!(gpus("-N2 --gpus=6"), [(6, GpuScope::Job)]);
    assert_eq!(gpus("-N2 --gpus-per-node=3"), [(3, GpuScope::Node)]);
    assert_eq!(gpus("-n8 --gpus-per-task=1"), [(1, GpuScope::Task)]);
    assert_eq!(gpus("-N2 --gres=gpu:3"), [(3, GpuScope::Node)]);
    assert_eq!(gpus("-N2 --gres=gpu"), [(1, GpuScope::Node)]);
    assert_eq!(codes("-N2 --gpus=1"), [Code::Impossible]);
    assert_eq!(codes("--gres=gpu:2 --gpus-per-node=2"), [Code::Conflict]);
    assert_eq!(codes("-N2 --gpus-per-task=1"), [Code::Missing]);
    assert_eq!(good("--gpus=6 --gpus-per-task=2").components[0].spec.request.tasks, Some(3));
    assert_eq!(codes("--gpus=5 --gpus-per-task=2"), [Code::Impossible]);
    assert_eq!(codes("-n2 --gpus=8 --gpus-per-task=2"), [Code::Impossible]);
    assert_eq!(codes("-N2 --gpus=8 --gpus-per-node=2"), [Code::Impossible]);
    assert_eq!(codes("-N2-4 --gpus=8 --gpus-per-node=2"), []);
}

#[test]
fn options_that_exclude_or_need_others() {
    for (line, code) in [
        ("--mem=1G --mem-per-cpu=1G", Code::Conflict),
        ("--mem-per-cpu=1G --mem-per-gpu=1G --gpus=1", Code::Conflict),
        ("--exclusive --oversubscribe", Code::Conflict),
        ("-c2 --cpus-per-gpu=2 --gpus=1", Code::Conflict),
        ("--ntasks-per-gpu=2 --gpus=2 --ntasks-per-node=2", Code::Conflict),
        ("--ntasks-per-gpu=2", Code::Missing),
        ("--mem-per-gpu=1G", Code::Missing),
        ("--cpus-per-gpu=4", Code::Missing),
        ("--gpu-memory=20G", Code::Missing),
        ("-n 9 -N 2 --ntasks-per-node=4", Code::Impossible),
        ("-w n[1-4] -N2", Code::Impossible),
        ("-w n1 -x n1", Code::Impossible),
        ("--time=10 --time-min=20", Code::TimeOrder),
        ("--deadline=2026-01-01", Code::WhenOrder),
        ("--begin=now+2hours --deadline=now+1hour", Code::WhenOrder),
        ("--time=2:00:00 --deadline=now+1hour", Code::WhenOrder),
        ("--exclusive=topo", Code::OptionRefused),
        ("--nodelist=./nodes", Code::OptionRefused),
        ("--requeue=expedite", Code::OptionRefused),
        ("--export-file=x", Code::OptionRefused),
        ("--tres-per-task=license/x=1", Code::OptionRefused),
        ("--wrap=true run.sh", Code::Conflict),
        ("--open-mode=apend", Code::ValueBad),
        ("--kill-on-invalid-dep=maybe", Code::ValueBad),
    ] {
        assert_eq!(codes(line), [code], "{line}");
    }
    assert_eq!(codes("--time=2:00:00 --time-min=30 --deadline=now+1hour"), []);
    assert_eq!(codes("--requeue --no-requeue --gpus=1 --gpu-memory=20G"), []);
}

#[test]
fn resources_by_task_are_said_once() {
    assert_eq!(codes("-n2 -c4 --tres-per-task=gres/gpu=1"), []);
    assert_eq!(codes("-n2 -c4 --tres-per-task=cpu=4"), [Code::Conflict]);
    assert_eq!(codes("-n2 --gpus-per-task=1 --tres-per-task=gres/gpu=1"), [Code::Conflict]);
    let request = good("-n5 --ntasks-per-gpu=2").components[0].spec.request.clone();
    assert_eq!((request.gpus[0].count, request.gpus[0].scope), (3, GpuScope::Job));
}

#[test]
fn a_variable_is_complained_of_once_and_errors_come_in_order() {
    let script =
        "#!/bin/sh\n#SBATCH --nodes=0\n#SBATCH --bogus 5 -A a/b\n#SBATCH hetjob\n#SBATCH -n x\n";
    let errors = read(script, &[("SBATCH_TIMELIMIT", "4h")], "--mem=1.5G").expect_err("bad");
    let found: Vec<_> = errors.iter().map(|error| error.code).collect();
    assert_eq!(
        found,
        [
            Code::NodesBad,
            Code::OptionUnknown,
            Code::NameBad,
            Code::CountBad,
            Code::MemoryBad,
            Code::TimeBad,
        ]
    );
}

#[test]
fn fewer_tasks_than_nodes_is_a_warning() {
    assert_eq!(warnings("-n2 -N4"), [Code::WarnChanged]);
    assert_eq!(good("-n2 -N4").components[0].spec.request.nodes, Some(NodeCount::exactly(2)));
    assert_eq!(warnings("-n4 -N2-8"), []);
}

#[test]
fn accepted_with_a_warning() {
    assert_eq!(warnings("--hint=nomultithread --acctg-freq=30"), [Code::WarnNotDone; 2]);
    assert_eq!(warnings("-m cyclic"), []);
    assert_eq!(warnings("-m block:block"), []);
    let pbs = "#!/bin/sh\n#PBS -N x\n";
    assert_eq!(read(pbs, &[], "").expect("good").warnings.len(), 1);
    assert_eq!(read(pbs, &[], "--ignore-pbs").expect("good").warnings.len(), 0);
}

#[test]
fn names_of_nodes_settle_how_many() {
    let nodes = |line: &str| good(line).components[0].spec.request.nodes.clone();
    assert_eq!(nodes("-w n[1-3]"), Some(NodeCount::exactly(3)));
    assert_eq!(nodes("-w n[1-3] -N4"), Some(NodeCount::exactly(4)));
    assert_eq!(nodes("-w n1 -n8"), None);
    assert_eq!(nodes("-N 2-5 --use-min-nodes"), Some(NodeCount::exactly(2)));
}

#[test]
fn musters_own_lines() {
    let script = "#!/bin/sh\n#SBATCH --gpus=1\n#MUSTER --gpu-memory=20G --volume=/a:/b:ro\n\
        #MUSTER --volume=/c:/d --checkpoint-dir=ckpt --checkpoint-signal=USR1@120\n\
        #MUSTER --checkpoint-env=RESUME_FROM --image=ghcr.io/x/y:1\n";
    let spec = read(script, &[], "").expect("good").components[0].spec.clone();
    assert_eq!(spec.request.gpu_memory, Some(Mib(20_480)));
    assert_eq!(spec.volumes.len(), 2);
    let checkpoint = spec.checkpoint.expect("there");
    assert_eq!(
        (checkpoint.dir.as_str(), checkpoint.signal, checkpoint.grace),
        ("ckpt", Some(10), Seconds(120))
    );
    assert_eq!(checkpoint.variable, "RESUME_FROM");
    assert_eq!(spec.image.as_deref(), Some("ghcr.io/x/y:1"));

    let misplaced =
        read("#!/bin/sh\n#SBATCH --gpu-memory=1G --gpus=1\n#MUSTER --time=5\n", &[], "");
    let found: Vec<_> = misplaced.expect_err("bad").iter().map(|error| error.code).collect();
    assert_eq!(found, [Code::OptionPlace, Code::OptionPlace]);
}

#[test]
fn one_option_of_every_kind_is_honoured() {
    let submission = good(
        "-J train -A phys -p gpu,long -q normal -t 1-0 --time-min=30 -N2 --ntasks-per-node=4 -c 4 \
         --mem=8G --gres=gpu:a100:4,nic:2 -C a100&ib -w n[1-2] -x n9 --exclusive=user \
         -a 0-9%2 -d afterok:20 -b now+1hour --deadline=now+5days -H --nice=50 -L sim:2 \
         --reservation=demo -o out/%A_%a.log -e err.log -i none --open-mode=append -D /work \
         --export=NONE --signal=B:USR1@120 --requeue --comment=hi --mail-type=END \
         --mail-user=mara@example.org --switches=1@10 --contiguous --test-only --parsable -W",
    );
    let component = &submission.components[0];
    let spec = &component.spec;
    assert_eq!(spec.partitions, ["gpu", "long"]);
    assert_eq!(spec.request.gres.get("nic"), Some(&2));
    assert_eq!(spec.request.exclusive, Exclusive::User);
    assert_eq!(spec.begin, Some(Timestamp::from_secs(1_800_003_600)));
    assert_eq!(spec.stdio.input.as_deref(), Some("/dev/null"));
    assert_eq!(component.requeue, Some(true));
    assert!(spec.hold && spec.nice == 50 && spec.cwd == "/work");
    assert!(submission.client.test_only && submission.client.parsable && submission.client.wait);
    assert!(submission.warnings.is_empty(), "{:?}", submission.warnings);
}

#[test]
fn memory_of_zero_is_the_whole_node() {
    assert_eq!(good("--mem=0").components[0].spec.request.memory, MemoryRequest::WholeNode);
    assert_eq!(good("").components[0].spec.request.memory, MemoryRequest::Default);
}

#[test]
fn a_client_splits_its_command_line() {
    let line =
        command_line(Command::Sbatch, &words("--parsable -N 2 -W run.sh --time 4")).expect("good");
    assert_eq!(line.options, words("--parsable -N 2 -W"));
    assert_eq!(line.script.as_deref(), Some("run.sh"));
    assert_eq!(line.arguments, words("--time 4"));
    assert!(line.client.parsable && line.client.wait && !line.client.quiet);

    let run = command_line(Command::Srun, &words("-vv -n 2 --pty -l --overlap -v bash -i"))
        .expect("good");
    assert_eq!((run.client.step.len(), run.client.verbose), (3, 3));
    assert_eq!(run.script.as_deref(), Some("bash"));
    assert!(command_line(Command::Sbatch, &words("--pty bash")).is_err());
}

/// What submitit, Nextflow, dask-jobqueue and Snakemake write is accepted; only submitit's wckey
/// gives a warning.
#[test]
fn texts_of_real_clients() {
    let submitit = "#!/bin/bash\n\n# Parameters\n#SBATCH --array=0-3%256\n\
        #SBATCH --error=/home/mara/log/%A_%a_%t_log.err\n#SBATCH --gpus-per-node=1\n\
        #SBATCH --job-name=submitit\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n\
        #SBATCH --open-mode=append\n#SBATCH --output=/home/mara/log/%A_%a_%t_log.out\n\
        #SBATCH --signal=USR2@90\n#SBATCH --time=5\n#SBATCH --wckey=submitit\n\n\
        # command\nexport SUBMITIT_EXECUTOR=slurm\nsrun --unbuffered python -u\n";
    let read_it = read(submitit, &[], "").expect("submitit");
    assert_eq!(read_it.warnings.len(), 1);
    assert_eq!(read_it.components[0].spec.array.as_ref().map(|a| a.throttle), Some(Some(256)));

    let nextflow = "#!/bin/bash\n#SBATCH -J nf-hello_(1)\n#SBATCH -o /w/ab/12/.command.log\n\
        #SBATCH --no-requeue\n#SBATCH --signal B:USR2@30\n#SBATCH -c 2\n#SBATCH -t 01:00:00\n\
        #SBATCH --mem 1024M\n#SBATCH -p short\nNXF_CHDIR=/w/ab/12\n";
    let read_it = read(nextflow, &[], "").expect("nextflow");
    assert_eq!((read_it.components[0].requeue, read_it.warnings.len()), (Some(false), 0));

    let dask = "#!/usr/bin/env bash\n\n#SBATCH -J dask-worker\n#SBATCH -e logs/dask-%J.err\n\
        #SBATCH -o logs/dask-%J.out\n#SBATCH -p batch\n#SBATCH -A lab\n#SBATCH -n 1\n\
        #SBATCH --cpus-per-task=4\n#SBATCH --mem=15G\n#SBATCH -t 00:30:00\n\n/usr/bin/python3\n";
    assert!(read(dask, &[], "").expect("dask").warnings.is_empty());

    let words: Vec<String> = [
        "--parsable",
        "--job-name",
        "d5f6ab",
        "--output",
        "/w/.snakemake/slurm_logs/rule_a/%j.log",
        "--export=ALL",
        "--comment",
        "rule_a",
        "-A",
        "lab",
        "-p",
        "batch",
        "-t",
        "10",
        "--mem",
        "1000",
        "--ntasks=1",
        "--cpus-per-task=1",
        "-D",
        "/w",
        "--wrap=/usr/bin/python3 -m snakemake --cores=1",
    ]
    .map(str::to_owned)
    .into();
    let environment = BTreeMap::new();
    let sources = Sources {
        command: Command::Sbatch,
        script: None,
        words: &words,
        environment: &environment,
    };
    let read_it = submission(sources, &context()).expect("snakemake");
    assert_eq!(read_it.client.wrap.as_deref(), Some("/usr/bin/python3 -m snakemake --cores=1"));
    assert!(read_it.client.parsable && read_it.warnings.is_empty());
}

/// The request of a script with these lines of muster's own.
fn with_own(sbatch: &str, own: &str) -> Result<muster_model::Request, Vec<Code>> {
    let script = format!("#!/bin/sh\n#SBATCH {sbatch}\n#MUSTER {own}\n");
    let read = read(&script, &[], "");
    read.map(|s| s.components[0].spec.request.clone())
        .map_err(|errors| errors.iter().map(|e| e.code).collect())
}

#[test]
fn parts_of_gpus_are_asked_for_by_share_profile_and_class() {
    use muster_model::{DeviceMilli, GpuShare, Isolation};
    let half = with_own("--gpus=1", "--gpu-share=0.5 --gpu-isolation=mps").expect("good");
    assert_eq!(half.gpu_share, Some(GpuShare::Milli(DeviceMilli(500))));
    assert_eq!(half.gpu_isolation, Some(Isolation::Mps));
    let mig = with_own("--gpus=a100:2", "--mig=1g.10gb").expect("good");
    assert_eq!(mig.gpus[0].model.as_deref(), Some("a100_1g.10gb"));
    let mig = good("--gres=gpu:1g.10gb+me:1").components[0].spec.request.clone();
    assert_eq!(mig.gpus[0].model.as_deref(), Some("1g.10gb+me"));
    let shard = good("--gres=shard:3").components[0].spec.request.clone();
    assert_eq!((shard.gpu_share, shard.gpus.len()), (Some(GpuShare::Pieces(3)), 1));
    let mps = good("--gres=mps:50").components[0].spec.request.clone();
    assert_eq!(mps.gpu_isolation, Some(Isolation::Mps));
    assert_eq!(with_own("-n1", "--gpu-share=0.5"), Err(vec![Code::Missing]));
    assert_eq!(with_own("--gpus=1", "--gpu-share=1.5"), Err(vec![Code::ValueBad]));
    assert_eq!(with_own("--gpus=1", "--gpu-share=0.5 --mig=1g.10gb"), Err(vec![Code::Conflict]));
    let error =
        &read("#!/bin/sh\n#SBATCH -G1\n#MUSTER --gpu-share=NaN\n", &[], "").expect_err("bad")[0];
    assert!(error.to_string().contains("script line 3, column 9: --gpu-share"), "{error}");
}

#[test]
fn t27_gpus_by_socket_need_a_number_of_sockets() {
    assert_eq!(codes("--gpus-per-socket=2"), [Code::Missing]);
    let two = good("--gpus-per-socket=2 --sockets-per-node=2").components[0].spec.request.clone();
    assert_eq!(two.sockets_per_node, Some(2));
    let near = good("--gpus=1 --gres-flags=enforce-binding").components[0].spec.request.clone();
    assert!(near.cpus_near_gpus);
}

#[test]
fn t29_t35_gpu_options_that_clash() {
    for line in [
        "--gres=gpu:2 --gpus-per-node=2",
        "--gpus=1 --cpus-per-gpu=4 --cpus-per-task=4",
        "--gpus=2 --ntasks-per-gpu=2 --gpus-per-task=1 -n4",
        "--gres=gpu:1,shard:1",
        "--gres=shard:1 --gpus=1",
        "--gres=shard:1,mps:1",
        "--gres=shard:2 --gpu-freq=high",
    ] {
        assert!(codes(line).contains(&Code::Conflict), "{line}");
    }
    assert_eq!(codes("--cpus-per-gpu=4"), [Code::Missing]);
    assert_eq!(codes("--mem-per-gpu=8G"), [Code::Missing]);
}
