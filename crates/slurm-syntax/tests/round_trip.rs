//! A request printed as options and read again is the same request; no text makes the reader fail.

use std::collections::BTreeMap;

use muster_model::Timestamp;
use muster_slurm_syntax::options::Command;
use muster_slurm_syntax::print;
use muster_slurm_syntax::submission::{ComponentRequest, Context, Sources, submission};
use proptest::prelude::*;

fn read(words: &[String]) -> Option<ComponentRequest> {
    let environment = BTreeMap::new();
    let sources =
        Sources { command: Command::Sbatch, script: None, words, environment: &environment };
    let context = Context::at(Timestamp::from_secs(1_800_000_000));
    submission(sources, &context).ok().map(|mut submission| submission.components.remove(0))
}

/// One option with a value that is often good.
fn option() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "--hold",
        "--requeue",
        "--no-requeue",
        "--contiguous",
        "--exclusive",
        "--exclusive=user",
        "--use-min-nodes",
        "--nice",
        "--mem=0",
        "--time=unlimited",
        "--begin=tomorrow",
        "--deadline=now+9weeks",
        "--export=NIL",
        "--export=ALL,A='x,y'",
        "--signal=B:USR2",
        "--dependency=afterok:5:6,singleton",
        "--array=0-20:5,7%3",
        "--constraint=a&(b|c)",
        "--constraint=[r1*2&r2*1]",
        "--switches=2@1:00:00",
        "--licenses=a:2,b",
        "--reservation=demo",
        "--gres=gpu:2,nic:ib:1,shard:3",
        "--gres=none",
        "--output=x%j.log",
        "--error=none",
        "--open-mode=truncate",
        "--mail-type=ALL",
        "--mail-type=NONE",
        "--mail-user=mara",
        "--volume=/a:/b:ro",
        "--volume=/c:/d",
        "--checkpoint-dir=ckpt",
        "--checkpoint-signal=USR1@30",
        "--image=x/y:1",
        "--kill-on-invalid-dep=yes",
        "--priority=TOP",
        "--tres-per-task=cpu=2,gres/gpu:a=1",
        "--partition=a,b,a",
        "--topology=required:rack,preferred:leaf",
        "--segment=2",
        "--spread-segments",
        "--consolidate-segments",
        "--affinity=node(zone in [a,b]&.gpus>2|rack)",
        "--affinity=near(rack, app=db);apart(node, app=web)*10",
        "--spread=rack,skew=2,soft:app=web",
        "--toleration=gpu=h100:NoSchedule,*",
        "--labels=app=web,tier=1",
        "--distribution=cyclic:block:fcyclic",
        "--distribution=plane=4",
        "--distribution=*:*:block,nopack",
        "--gpu-bind=verbose,single:2",
        "--tres-bind=gres/gpu:map:0*2,1",
    ])
    .prop_map(str::to_owned);
    let numbers = (
        prop::sample::select(vec![
            "nodes",
            "ntasks",
            "ntasks-per-node",
            "ntasks-per-socket",
            "ntasks-per-core",
            "cpus-per-task",
            "mincpus",
            "mem",
            "mem-per-cpu",
            "tmp",
            "gpus",
            "gpus-per-node",
            "gpus-per-task",
            "time",
            "time-min",
            "nice",
            "priority",
        ]),
        1_u32..5000,
    )
        .prop_map(|(name, number)| format!("--{name}={number}"));
    let hosts = ("(nodelist|exclude)", "n[0-9]{1,2}(,m[0-9]{1,2}){0,3}")
        .prop_map(|(name, hosts)| format!("--{name}={hosts}"));
    let names = ("(job-name|account|qos|comment|chdir)", "[a-z][a-z0-9_./-]{0,12}")
        .prop_map(|(name, value)| format!("--{name}={value}"));
    prop_oneof![3 => fixed, 3 => numbers, 1 => hosts, 1 => names]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn print_then_parse(words in prop::collection::vec(option(), 0..7)) {
        if let Some(component) = read(&words) {
            let printed = print::options(&component);
            prop_assert_eq!(read(&printed), Some(component), "{:?} printed as {:?}", words, printed);
        }
    }

    #[test]
    fn arbitrary_words_and_scripts_never_panic(
        words in prop::collection::vec("\\PC{0,20}|-{1,2}[a-zA-Z-]{1,12}(=\\PC{0,10})?", 0..8),
        lines in prop::collection::vec("#SBATCH \\PC{0,30}|#MUSTER --[a-z-]{1,12}=\\PC{0,9}|#SBATCH hetjob|#[a-z]{0,5}", 0..8),
        value in "\\PC{0,12}",
    ) {
        let script = format!("#!/bin/sh\n{}\n", lines.join("\n"));
        let environment =
            BTreeMap::from([("SBATCH_TIMELIMIT".to_owned(), value.clone()), ("SBATCH_GRES".to_owned(), value)]);
        let sources = Sources {
            command: Command::Sbatch,
            script: Some(&script),
            words: &words,
            environment: &environment,
        };
        let _ = submission(sources, &Context::at(Timestamp::from_secs(1_800_000_000)));
    }
}

#[test]
fn some_of_the_generated_requests_are_good() {
    let words: Vec<String> =
        ["--nodes=2", "--gres=gpu:2,nic:ib:1", "--hold"].map(str::to_owned).into();
    let component = read(&words).expect("good");
    assert_eq!(
        print::options(&component),
        ["--hold", "--nodes=2", "--gpus-per-node=2", "--gres=nic:ib:1"]
    );
}
