//! Steps as `srun` asks for them: layout, streams, environment, exits, signals.

mod support;

use muster_api::step::{
    EndCause, Event, ExitStatus, Frame, Message, Request, StepGpus, StepSpec, Stream, TaskLaunch,
};
use muster_model::{DeviceGrant, DeviceMilli, JobKind, Mib, NodeId, NodeShare, Stdio};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use support::client::{Client, shell, text};
use support::{Daemon, Site, job, node, script, with_job, with_placement, with_spec};

/// Two nodes with four CPUs and two GPUs each, held by a script until the file `go` is there.
fn two_nodes(site: &Site, id: u32) -> muster_engine::Launch {
    let launch = script(site, id, "until test -e go; do sleep 0.01; done");
    let mut launch = with_placement(launch, |placement| {
        let share = |at| NodeShare {
            node: NodeId(at),
            tasks: 2,
            cpus: (0..4).collect(),
            devices: [1, 3]
                .map(|index| DeviceGrant {
                    index,
                    share: DeviceMilli::WHOLE,
                    memory: Mib(1),
                    mig: None,
                })
                .to_vec(),
            ..NodeShare::default()
        };
        placement.nodes = vec![share(0), share(1)];
    });
    let mut launch_nodes = vec![node("node1"), node("node2")];
    for node in &mut launch_nodes {
        node.devices = (0..4)
            .map(|index| muster_model::Device { index, ..muster_model::Device::default() })
            .collect();
    }
    launch.nodes = launch_nodes.into_iter().map(Arc::new).collect();
    with_job(launch, |job| {
        Arc::make_mut(&mut job.spec).request.tasks = Some(4);
    })
}

fn started(site: &Site) -> Daemon {
    let daemon = site.start();
    daemon.launch(&two_nodes(site, 1));
    daemon.started(1);
    daemon
}

#[test]
fn tasks_run_where_the_layout_says_and_know_it() {
    for site in [Site::new(), Site::plain()] {
        let daemon = started(&site);
        let mut client = Client::open(&daemon, 1);
        let line = "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME \
                    $SLURM_NTASKS $SLURM_NNODES $SLURM_TASKS_PER_NODE $SLURM_GTIDS \
                    $CUDA_VISIBLE_DEVICES $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR";
        let (step, nodes, places) = client.create(&StepSpec { tasks: Some(4), ..shell(line) });
        assert_eq!(step, 0);
        assert_eq!(
            nodes,
            [("node1".to_owned(), 2, vec![1, 3]), ("node2".to_owned(), 2, vec![1, 3])]
        );
        assert_eq!(places, [0, 0, 1, 1]);
        let pipes = client.launch(4);
        let (tasks, status, cause) = client.finish();
        assert_eq!((tasks.len(), status, cause), (4, ExitStatus::SUCCESS, EndCause::Exited));
        let said: Vec<String> = pipes.into_iter().map(text).collect();
        assert_eq!(
            said,
            [
                "0 0 0 node1 4 2 2(x2) 0,1 1,3 0 0 4 10.0.0.1\n",
                "1 1 0 node1 4 2 2(x2) 0,1 1,3 1 1 4 10.0.0.1\n",
                "2 0 1 node2 4 2 2(x2) 2,3 1,3 2 0 4 10.0.0.1\n",
                "3 1 1 node2 4 2 2(x2) 2,3 1,3 3 1 4 10.0.0.1\n",
            ]
        );
        std::fs::write(site.work().join("go"), "").expect("go");
        let report = daemon.exit(1);
        let steps: Vec<String> = report
            .steps
            .iter()
            .map(|s| format!("{} {} {} {}", s.id, s.name, s.tasks, s.nodes))
            .collect();
        assert_eq!(steps, ["batch batch 1 1", "0 sh 4 2"]);
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let site = Site::new();
    let daemon = started(&site);
    let mut client = Client::open(&daemon, 1);
    let line = "case $SLURM_PROCID in 0) exit 0;; 1) exit 3;; 2) kill -9 $$;; 3) exit 250;; esac";
    client.create(&StepSpec { tasks: Some(4), ..shell(line) });
    client.launch(4);
    let (tasks, status, _) = client.finish();
    let codes: Vec<(u8, u8)> = tasks.values().map(|s| (s.code, s.signal)).collect();
    assert_eq!(codes, [(0, 0), (3, 0), (0, 9), (250, 0)]);
    assert_eq!(status.code, 250);
    // The connection can make another step.
    let missing = StepSpec { argv: vec!["no-such-program".to_owned()], ..shell("") };
    assert_eq!(client.create(&StepSpec { tasks: Some(1), ..missing }).0, 1);
    client.launch(1);
    assert_eq!(client.finish().1.code, 127);
}

#[test]
fn a_bad_exit_can_end_the_step() {
    let site = Site::new();
    let daemon = started(&site);
    let mut client = Client::open(&daemon, 1);
    let line = "test $SLURM_PROCID = 1 && exit 5; sleep 1000";
    client.create(&StepSpec { tasks: Some(2), kill_on_bad_exit: true, ..shell(line) });
    client.launch(2);
    let (tasks, _, cause) = client.finish();
    assert_eq!((tasks[&0].signal, tasks[&1].code, cause), (15, 5, EndCause::Exited));
}

#[test]
fn a_step_waits_for_what_another_holds_and_overlap_does_not() {
    let site = Site::new();
    let daemon = started(&site);
    let mut first = Client::open(&daemon, 1);
    let (_, nodes, _) = first.create(&shell("read line"));
    assert_eq!(nodes.len(), 2);
    let mut second = Client::open(&daemon, 1);
    second.send(&Request::CreateStep(Box::new(StepSpec { tasks: Some(1), ..shell("exit 4") })));
    assert!(matches!(second.event(), Event::Waiting { .. }));
    let mut third = Client::open(&daemon, 1);
    third.create(&StepSpec { tasks: Some(1), overlap: true, ..shell("exit 6") });
    third.launch(1);
    assert_eq!(third.finish().1.code, 6);
    let mut fourth = Client::open(&daemon, 1);
    let impatient = StepSpec { tasks: Some(1), immediate: true, ..shell("") };
    fourth.send(&Request::CreateStep(Box::new(impatient)));
    match fourth.event() {
        Event::Refused { code, .. } => assert_eq!(code, "step.busy"),
        other => panic!("{other:?}"),
    }
    // The first client goes away before it launched anything: its step is over.
    drop(first);
    assert!(matches!(second.event(), Event::Created { .. }));
    second.launch(1);
    assert_eq!(second.finish().1.code, 4);
}

#[test]
fn exact_steps_share_the_job_and_see_their_own_gpus() {
    let site = Site::new();
    let daemon = started(&site);
    let spec = |line: &str| StepSpec {
        tasks: Some(2),
        nodes_min: Some(1),
        exact: true,
        gpus: Some(StepGpus::Task(1)),
        ..shell(line)
    };
    let line = "echo $CUDA_VISIBLE_DEVICES $SLURM_STEP_GPUS $SLURMD_NODENAME; read x";
    let mut one = Client::open(&daemon, 1);
    let mut other = Client::open(&daemon, 1);
    one.create(&spec(line));
    other.create(&spec(line));
    let (a, b) = (one.launch(2), other.launch(2));
    one.finish();
    other.finish();
    let said: Vec<String> = a.into_iter().chain(b).map(text).collect();
    assert_eq!(said, ["1 1,3 node1\n", "3 1,3 node1\n", "1 1,3 node2\n", "3 1,3 node2\n"]);
}

#[test]
fn signals_reach_a_step_and_a_lost_client_ends_it() {
    for site in [Site::new(), Site::plain()] {
        let daemon = started(&site);
        let mut client = Client::open(&daemon, 1);
        let line = "trap 'echo caught; exit 8' USR1; echo ready; while :; do sleep 0.02; done";
        client.create(&StepSpec { tasks: Some(1), ..shell(line) });
        let mut pipe = client.launch(1).remove(0);
        let mut word = [0; 6];
        pipe.read_exact(&mut word).expect("ready");
        client.send(&Request::Signal { signal: 10, step: None });
        assert_eq!(client.finish().1.code, 8);
        assert!(text(pipe).contains("caught"));
        let line = "echo ready; (setsid sleep 1000 &); sleep 1000";
        client.create(&StepSpec { tasks: Some(1), ..shell(line) });
        let mut pipe = client.launch(1).remove(0);
        pipe.read_exact(&mut word).expect("ready");
        drop(client);
        // The pipe ends when every process of the step is gone.
        text(pipe);
    }
}

#[test]
fn a_held_allocation_ends_with_its_client() {
    let site = Site::new();
    let daemon = site.start();
    for (id, status) in [(1, None), (2, Some(ExitStatus { code: 3, signal: 0 }))] {
        daemon.launch(&job(&site, id, "", JobKind::Allocation));
        daemon.started(id);
        let mut client = Client::open(&daemon, id);
        client.send(&Request::Hold);
        match client.event() {
            Event::Held(allocation) => {
                assert_eq!(
                    (allocation.job, allocation.nodelist.as_str()),
                    (u64::from(id), "node1")
                );
                let variables: BTreeMap<_, _> = allocation.environment.into_iter().collect();
                assert_eq!(variables["SLURM_JOB_ID"], id.to_string());
                assert!(!variables.contains_key("SLURM_PROCID"));
            }
            other => panic!("{other:?}"),
        }
        let mut step = Client::open(&daemon, id);
        step.create(&StepSpec { tasks: Some(1), ..shell("exit 0") });
        step.launch(1);
        step.finish();
        if let Some(status) = status {
            client.send(&Request::Release { status });
        } else {
            drop(client);
        }
        let report = daemon.exit(id);
        assert_eq!((report.cause, report.status), (EndCause::Exited, status.unwrap_or_default()));
    }
}

#[test]
fn a_held_allocation_is_told_of_its_end() {
    let site = Site::new();
    let daemon = site.start();
    daemon.launch(&job(&site, 1, "", JobKind::Allocation));
    daemon.started(1);
    let mut client = Client::open(&daemon, 1);
    client.send(&Request::Hold);
    assert!(matches!(client.event(), Event::Held(_)));
    daemon.stop(1, 30);
    assert_eq!(client.event(), Event::Ending { cause: EndCause::Stopped });
    assert_eq!(daemon.exit(1).cause, EndCause::Stopped);
}

/// Reads terminal data until `wanted` is in it.
fn terminal_says(client: &mut Client, wanted: &str) -> String {
    let mut all = Vec::new();
    loop {
        match client.connection.recv().expect("a frame") {
            Frame { message: Message::Data(bytes), .. } => all.extend(bytes),
            Frame { message, .. } => match message.parse::<Event>().expect("event") {
                Event::Attached => {}
                other => panic!("{other:?} before {wanted:?}"),
            },
        }
        let text = String::from_utf8_lossy(&all).into_owned();
        if text.contains(wanted) {
            return text;
        }
    }
}

#[test]
fn a_terminal_job_can_be_left_and_come_back_to() {
    let site = Site::new();
    let daemon = site.start();
    let body =
        "#!/bin/sh\ntest -t 0 && echo terminal\nstty size\nread name\necho hello $name\nread x\n";
    let launch = with_spec(job(&site, 1, body, JobKind::Terminal), |spec| {
        spec.stdio = muster_model::Stdio::default();
    });
    daemon.launch(&launch);
    daemon.started(1);
    let attach = Request::Attach { rows: 33, columns: 99 };
    let mut client = Client::open(&daemon, 1);
    client.send(&attach);
    terminal_says(&mut client, "terminal\r\n");
    client.connection.send_data(b"ann\n").expect("typed");
    terminal_says(&mut client, "hello ann\r\n");
    drop(client);
    let mut client = Client::open(&daemon, 1);
    client.send(&attach);
    let kept = terminal_says(&mut client, "hello ann\r\n");
    assert!(kept.contains("terminal\r\n"), "{kept:?}");
    client.connection.send_data(b"\n").expect("typed");
    assert_eq!(daemon.exit(1).status, ExitStatus { code: 0, signal: 0 });
    let written = site.read("slurm-1.out");
    assert!(written.starts_with("terminal\r\n"), "{written:?}");
    assert!(written.contains("hello ann\r\n"), "{written:?}");
}

#[test]
fn a_terminal_job_goes_without_a_file_that_nobody_asked_for() {
    let site = Site::new();
    let daemon = site.start();
    let terminal = |id: u32, output: Option<&str>| {
        with_spec(job(&site, id, "#!/bin/sh\nexit 3\n", JobKind::Terminal), |spec| {
            spec.cwd = "/proc".to_owned();
            spec.stdio = Stdio { output: output.map(str::to_owned), ..Stdio::default() };
        })
    };
    let report = daemon.run(&terminal(1, None));
    assert_eq!((report.cause, report.status.code), (EndCause::Exited, 3));
    let report = daemon.run(&terminal(2, Some("here.out")));
    assert_eq!(report.cause, EndCause::LaunchFailed);
    assert!(report.message.contains("the output file /proc/here.out"), "{}", report.message);
}

#[test]
fn a_step_on_a_terminal_owns_it() {
    let site = Site::new();
    let daemon = started(&site);
    let mut client = Client::open(&daemon, 1);
    client.create(&StepSpec { tasks: Some(1), pty: true, ..shell("tty; stty size; exit 2") });
    let pty = nix::pty::openpty(None, None).expect("terminal");
    let task = TaskLaunch {
        procid: 0,
        stdin: Stream::Fd(0),
        stdout: Stream::Fd(0),
        stderr: Stream::Fd(0),
        argv: None,
    };
    client
        .connection
        .send(&Request::Launch { tasks: vec![task] }, &[pty.slave.as_fd()])
        .expect("sent");
    drop(pty.slave);
    assert_eq!(client.finish().1.code, 2);
    let mut shown = [0_u8; 256];
    let n = nix::unistd::read(&pty.master, &mut shown).expect("output");
    assert!(String::from_utf8_lossy(&shown[..n]).contains("/dev/pts/"));
}

#[test]
fn another_user_is_not_served() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root, so nobody else can be played");
        return;
    }
    let site = Site::new();
    let daemon = started(&site);
    let path = daemon.engine.step_socket(muster_model::JobId(1), 1);
    let status = std::process::Command::new("python3")
        .arg("-c")
        .arg(
            "import os, socket, sys\nos.setgid(65534); os.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n\
             try:\n    s.connect(sys.argv[1])\nexcept PermissionError:\n    sys.exit(42)",
        )
        .arg(&path)
        .status()
        .expect("python3");
    assert_eq!(status.code(), Some(42));
}

#[test]
fn orders_are_only_for_the_daemon() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root, so no other user's job can be started");
        return;
    }
    let site = Site::new();
    let daemon = site.start();
    let body = "python3 - <<'E'\n\
        import os, socket, struct, json\n\
        s = socket.socket(socket.AF_UNIX); s.connect(os.environ['MUSTER_STEP_SOCKET'])\n\
        b = json.dumps({'request': 'order', 'order': 'suspend'}).encode()\n\
        s.sendall(struct.pack('<cBHI', b'J', 0, 0, len(b)) + b)\n\
        h = s.recv(8); n = struct.unpack('<cBHI', h)[3]\n\
        print(json.loads(s.recv(n))['code'])\nE";
    let launch = with_spec(script(&site, 1, body), |spec| {
        (spec.owner.uid, spec.owner.gid) = (65_534, 65_534);
    });
    daemon.run(&launch);
    assert_eq!(site.read("out1"), "step.not_allowed\n");
}
