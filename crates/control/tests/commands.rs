//! What commands mean and why they are refused, case by case.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::{
    Command, CommandError, ErrorClass, JobChange, JobRef, Reply, Submission,
};
use muster_engine::{Inventory, Observation, Order};
use muster_model::placement::NodeShare;
use muster_model::{
    ArraySpec, Checkpoint, CpuSet, Decision, Dependency, DependencyKind, DependencyTerm, EndCause,
    EngineName, GpuCount, GpuScope, Hold, IndexRanges, JobId, JobState, Joiner, MemoryRequest, Mib,
    NodeCount, Placement, Plan, Seconds, SignalScope, Start, StopCause, TimeLimit, Timestamp,
};
use muster_store::HistoryQuery;
use std::sync::Arc;
use support::desk::{Desk, after, one};
use support::{job, nodes, root, user};

fn set_dependency(id: u32, dependency: Dependency) -> Command {
    let change = JobChange { dependency: Some(Some(dependency)), ..JobChange::default() };
    Command::Update { jobs: one(id), change: Box::new(change) }
}

#[test]
fn names_are_looked_up_and_the_nearest_is_offered() {
    let mut desk = Desk::new();
    let error = desk.try_with(|s| s.specs[0].partitions = vec!["mian".into()]).unwrap_err();
    assert_eq!(error.to_string(), "there is no partition \"mian\"");
    assert_eq!(error.hint().as_deref(), Some("did you mean \"main\"?"));
    assert_eq!(error.class(), ErrorClass::Invalid);
    for change in [
        (|s: &mut Submission| s.specs[0].account = "nobody".into()) as fn(&mut Submission),
        |s| s.specs[0].qos = "fast".into(),
        |s| s.specs[0].request.node_list = ["n9".to_owned()].into(),
        |s| s.specs[0].request.reservation = Some("r".into()),
        |s| {
            s.specs[0].request.licences =
                vec![muster_model::LicenceRequest { name: "sym".into(), count: 1 }];
        },
        |s| {
            s.specs[0].request.constraint = Some(muster_model::Constraint::Feature("ssd".into()));
        },
    ] {
        let error = desk.try_with(change).unwrap_err();
        assert!(matches!(error, CommandError::UnknownName { .. }), "{error}");
    }
    assert!(desk.state().jobs.is_empty(), "something was stored");
}

#[test]
fn defaults_are_filled_in() {
    let mut desk = Desk::new();
    let id = desk.plain();
    let spec = &desk.job(id).spec;
    assert_eq!((spec.account.as_str(), spec.qos.as_str()), ("default", "normal"));
    assert_eq!(spec.partitions, ["main"]);
    assert_eq!(spec.payload.0.len(), 64);
}

#[test]
fn what_no_node_could_ever_run_is_refused_with_numbers() {
    let mut desk = Desk::new();
    let lacking = |desk: &mut Desk, change: fn(&mut Submission)| match desk.try_with(change) {
        Err(CommandError::NeverFits { lacking, .. }) => lacking,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        lacking(&mut desk, |s| s.specs[0].request.cpus_per_task = Some(5)),
        "needs 5 CPUs on one node; the most there is on one is 4"
    );
    assert_eq!(
        lacking(&mut desk, |s| s.specs[0].request.nodes = Some(NodeCount::exactly(3))),
        "needs 3 nodes; it has 2"
    );
    assert_eq!(
        lacking(&mut desk, |s| s.specs[0].request.tasks = Some(9)),
        "needs room for 9 tasks of 1 CPUs; there is room for 8"
    );
    assert_eq!(
        lacking(&mut desk, |s| s.specs[0].request.memory = MemoryRequest::PerNode(Mib(9000))),
        "needs 9000 MiB of memory on one node; the most there is on one is 8192"
    );
    assert_eq!(
        lacking(&mut desk, |s| {
            let gpus = GpuCount { model: None, count: 1, scope: GpuScope::Node };
            s.specs[0].request.gpus = vec![gpus];
        }),
        "needs 1 fitting GPUs on one node; the most there is on one is 0"
    );
    desk.try_with(|s| s.specs[0].request.tasks = Some(8)).unwrap();
}

#[test]
fn what_no_nodes_could_ever_be_is_refused_with_the_change_that_would_do() {
    let mut desk = Desk::new();
    let lacking = |desk: &mut Desk, change: fn(&mut Submission)| match desk.try_with(change) {
        Err(CommandError::NeverFits { lacking, .. }) => lacking,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        lacking(&mut desk, |s| {
            s.specs[0].request.topology.required = Some("rack".into());
        }),
        "there is no level rack; levels: none"
    );
    assert_eq!(
        lacking(&mut desk, |s| {
            let key = "zone".to_owned();
            let values = vec!["a".to_owned()];
            let operator = muster_model::Operator::In;
            let all = vec![muster_model::Expression { key, operator, values }];
            let mut affinity = muster_model::Affinity::default();
            affinity.node.required = vec![muster_model::Term { all }];
            s.specs[0].request.affinity = Some(std::sync::Arc::new(affinity));
        }),
        "needs 1 of its nodes with node(zone=a); there are 0 (without that rule 2 would do)"
    );
}

#[test]
fn sizes_are_bounded() {
    let mut desk = Desk::new();
    for change in [
        (|s: &mut Submission| s.specs.clear()) as fn(&mut Submission),
        |s| s.specs[0].name = "x".repeat(2000),
        |s| s.specs[0].name = "two\nlines".into(),
        |s| s.specs[0].cwd = "relative".into(),
        |s| s.payload.script = "x".repeat(5 << 20),
        |s| s.payload.environment = vec![("A".into(), "x".repeat(5 << 20))],
        |s| s.payload.args = vec!["nul\0byte".into()],
        |s| s.specs[0].request.tasks = Some(0),
        |s| s.specs[0].request.tasks = Some(u32::MAX),
        |s| s.specs[0].time_limit = Some(TimeLimit::Of(Seconds(0))),
        |s| s.specs[0].deadline = Some(Timestamp::from_secs(5)),
        |s| {
            s.specs[0].deadline = Some(Timestamp::from_secs(1060));
            s.specs[0].time_limit = Some(TimeLimit::Of(Seconds(61)));
        },
        |s| {
            let indices = IndexRanges::from_ranges([(0, 100_001)]);
            s.specs[0].array = Some(ArraySpec { indices, throttle: None });
        },
        |s| {
            let indices = IndexRanges::default();
            s.specs[0].array = Some(ArraySpec { indices, throttle: None });
        },
    ] {
        let error = desk.try_with(change).unwrap_err();
        assert!(matches!(error, CommandError::BadValue { .. }), "{error}");
        let text = error.to_string();
        assert!(!text.ends_with('.') && text.len() < 500, "{text}");
    }
}

#[test]
fn all_members_of_a_gang_say_its_size() {
    let mut desk = Desk::new();
    let gang = |size| Some(muster_model::Gang { name: "pair".to_owned(), size });
    desk.try_with(|s| s.specs[0].gang = gang(2)).unwrap();
    let error = desk.try_with(|s| s.specs[0].gang = gang(3)).unwrap_err();
    assert!(matches!(error, CommandError::BadValue { field: "gang", .. }), "{error}");
    assert!(error.to_string().contains("gang pair has size 2 by job 1, not 3"), "{error}");
    desk.try_with(|s| s.specs[0].gang = gang(2)).unwrap();
}

#[test]
fn another_users_job_is_not_theirs_to_touch() {
    let mut desk = Desk::new();
    let id = desk.plain();
    let running = desk.plain();
    desk.start(&[running]);
    let change = Box::new(JobChange { name: Some("x".into()), ..JobChange::default() });
    for command in [
        Command::Cancel { jobs: one(id), hurry: false },
        Command::Hold { jobs: one(id), as_user: true },
        Command::Release { jobs: one(id) },
        Command::Requeue { jobs: one(running), hold: false },
        Command::Signal { jobs: one(running), signal: 9, scope: SignalScope::All },
        Command::Update { jobs: one(id), change },
    ] {
        let error = desk.ask(&user(2000), command.clone()).unwrap_err();
        assert!(matches!(error, CommandError::NotYours { .. }), "{command:?}: {error}");
        assert_eq!(error.class(), ErrorClass::Forbidden);
    }
    let mut submission = job(&user(1000), "exit 0");
    submission.specs[0].owner.uid = 0;
    assert!(matches!(desk.submit(&user(1000), submission), Err(CommandError::AdminOnly { .. })));
    desk.ask(&root(), Command::Cancel { jobs: one(id), hurry: false }).unwrap();
    assert_eq!(desk.job(id).state, JobState::Cancelled);
}

#[test]
fn what_is_for_admins_is_refused_to_users() {
    let mut desk = Desk::new();
    let id = desk.plain();
    let change = |change: JobChange| Command::Update { jobs: one(id), change: Box::new(change) };
    let default = JobChange::default;
    for command in [
        change(JobChange { nice: Some(-1), ..default() }),
        change(JobChange { priority: Some(Some(7)), ..default() }),
        change(JobChange { site_factor: Some(9), ..default() }),
        Command::Suspend { jobs: one(id), suspend: true },
        Command::DrainNodes { nodes: vec!["n1".into()], reason: "x".into() },
        Command::ResumeNodes { nodes: vec!["n1".into()] },
        Command::Configure(Box::default()),
        Command::SetPartition { name: "main".into(), state: muster_model::PartitionState::Down },
    ] {
        let error = desk.ask(&user(1000), command.clone()).unwrap_err();
        assert!(matches!(error, CommandError::AdminOnly { .. }), "{command:?}: {error}");
    }
    desk.ask(&user(1000), change(JobChange { nice: Some(5), ..default() })).unwrap();
    desk.ask(&root(), change(JobChange { priority: Some(Some(7)), ..default() })).unwrap();
    desk.ask(&root(), change(JobChange { site_factor: Some(-9), ..default() })).unwrap();
    let far = change(JobChange { site_factor: Some(i64::MIN), ..default() });
    assert_eq!(desk.ask(&root(), far).unwrap_err().code(), "E_VALUE_BAD");
    // What an admin set does not stand in the way of the owner's next change.
    desk.ask(&user(1000), change(JobChange { name: Some("new".into()), ..default() })).unwrap();
    assert_eq!((desk.job(id).spec.nice, desk.job(id).spec.priority), (5, Some(7)));
    assert_eq!(desk.job(id).spec.site_factor, -9);
}

#[test]
fn an_admins_hold_is_lifted_by_admins() {
    let mut desk = Desk::new();
    let id = desk.plain();
    desk.ask(&root(), Command::Hold { jobs: one(id), as_user: false }).unwrap();
    assert_eq!(desk.job(id).hold, Some(Hold::Admin));
    let error = desk.ask(&user(1000), Command::Release { jobs: one(id) }).unwrap_err();
    assert_eq!(error, CommandError::HeldByAdmin { job: JobId(id) });
    desk.ask(&user(1000), Command::Hold { jobs: one(id), as_user: true }).unwrap();
    assert_eq!(desk.job(id).hold, Some(Hold::Admin), "the owner's hold weakened the admin's");
    desk.ask(&root(), Command::Release { jobs: one(id) }).unwrap();
    assert_eq!(desk.job(id).hold, None);
}

/// Case S-19.
#[test]
fn unknown_jobs_cannot_be_depended_on_for_their_outcome() {
    let mut desk = Desk::new();
    for kind in [DependencyKind::AfterOk, DependencyKind::AfterNotOk, DependencyKind::AfterCorr] {
        let error =
            desk.try_with(|s| s.specs[0].dependency = Some(after(kind, 999_999))).unwrap_err();
        assert!(matches!(error, CommandError::UnknownDependency { .. }), "{error}");
    }
    let dependency = Some(after(DependencyKind::AfterAny, 999_999));
    let id = desk.try_with(|s| s.specs[0].dependency = dependency).unwrap();
    assert!(desk.job(id).eligible.is_some());
}

/// Case S-23.
#[test]
fn circles_are_refused_at_update() {
    let mut desk = Desk::new();
    let first = desk.plain();
    let ok = after(DependencyKind::AfterOk, first);
    let second = desk.try_with(|s| s.specs[0].dependency = Some(ok)).unwrap();
    let any = after(DependencyKind::AfterAny, second);
    let third = desk.try_with(|s| s.specs[0].dependency = Some(any)).unwrap();
    let circle = set_dependency(first, after(DependencyKind::AfterOk, third));
    let error = desk.ask(&user(1000), circle).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the dependency would run in a circle: {first} -> {third} -> {second} -> {first}")
    );
    let own = set_dependency(first, after(DependencyKind::AfterOk, first));
    assert!(matches!(
        desk.ask(&user(1000), own),
        Err(CommandError::DependencyCircle { path }) if path == [JobId(first)]
    ));
    assert_eq!(desk.job(first).spec.dependency, None);
    let fine = set_dependency(third, after(DependencyKind::AfterOk, first));
    desk.ask(&user(1000), fine).unwrap();
}

#[test]
fn a_long_chain_and_a_singleton_make_circles_too() {
    let mut desk = Desk::new();
    let singleton =
        || DependencyTerm { kind: DependencyKind::Singleton, target: None, delay: Seconds(0) };
    let first = desk.plain();
    let mut last = desk
        .try_with(|s| {
            s.specs[0].dependency =
                Some(Dependency { joiner: Joiner::All, terms: vec![singleton()] });
        })
        .unwrap();
    for _ in 0..50 {
        let ok = after(DependencyKind::AfterOk, last);
        last = desk
            .try_with(|s| {
                s.specs[0].name = "chain".into();
                s.specs[0].dependency = Some(ok);
            })
            .unwrap();
    }
    let circle = set_dependency(first, after(DependencyKind::AfterAny, last));
    match desk.ask(&user(1000), circle) {
        Err(CommandError::DependencyCircle { path }) => assert_eq!(path.len(), 52),
        other => panic!("{other:?}"),
    }
}

/// Case S-38.
#[test]
fn a_waiting_het_job_is_cancelled_as_a_whole() {
    let mut desk = Desk::new();
    let two = |s: &mut Submission| {
        let second = s.specs[0].clone();
        s.specs.push(second);
    };
    let leader = desk.try_with(two).unwrap();
    let alone = Command::Cancel { jobs: vec![JobRef::Component(JobId(leader), 1)], hurry: false };
    let error = desk.ask(&user(1000), alone).unwrap_err();
    assert!(matches!(error, CommandError::HetComponent { offset: 1, .. }), "{error}");
    desk.ask(&user(1000), Command::Cancel { jobs: one(leader), hurry: false }).unwrap();
    for id in [leader, leader + 1] {
        assert_eq!(desk.job(id).state, JobState::Cancelled);
    }
}

#[test]
fn an_order_to_end_says_why_and_how_long_it_takes() {
    let mut desk = Desk::new();
    let id = desk
        .try_with(|s| {
            let grace = Seconds(300);
            s.specs[0].checkpoint =
                Some(Checkpoint { dir: "/c".into(), grace, ..Checkpoint::default() });
        })
        .unwrap();
    desk.start(&[id]);
    let kill_wait = desk.state().policy.kill_wait;
    let requeue = StopCause::Requeue { hold: false };
    let cancelled = StopCause::Cancelled(1000);
    for (command, cause, grace) in [
        (Command::Requeue { jobs: one(id), hold: false }, requeue, Seconds(300)),
        (Command::Cancel { jobs: one(id), hurry: false }, cancelled.clone(), kill_wait),
        (Command::Cancel { jobs: one(id), hurry: true }, cancelled, Seconds(0)),
    ] {
        desk.ask(&user(1000), command).unwrap();
        let last = desk.orders.last().map(|outgoing| &outgoing.order);
        let wanted = Order::Stop { job: JobId(id), attempt: 1, cause: Some(cause), grace };
        assert_eq!(last, Some(&wanted));
    }
}

#[test]
fn a_het_job_ends_as_its_leader_does() {
    let mut desk = Desk::new();
    let leader = desk
        .try_with(|s| {
            let second = s.specs[0].clone();
            s.specs.push(second);
        })
        .unwrap();
    desk.start(&[leader, leader + 1]);
    desk.end(leader, 0, EndCause::Exited);
    assert_eq!(desk.job(leader).state, JobState::Completed);
    let peer = desk.job(leader + 1);
    assert_eq!(peer.stop.as_ref().map(|s| &s.cause), Some(&StopCause::HetPeer));
    assert!(desk.orders.iter().any(|o| matches!(o.order, Order::Stop { .. })));
    desk.end(leader + 1, 0, EndCause::Stopped);
    assert_eq!(desk.job(leader + 1).state, JobState::Completed);
}

#[test]
fn tasks_of_an_array_are_named_alone_or_together() {
    let mut desk = Desk::new();
    let array = desk
        .try_with(|s| {
            let indices = IndexRanges::from_ranges([(0, 3)]);
            s.specs[0].array = Some(ArraySpec { indices, throttle: None });
        })
        .unwrap();
    let some = vec!["1_[1-2]".parse::<JobRef>().unwrap()];
    let reply =
        desk.ask(&user(1000), Command::Cancel { jobs: some.clone(), hurry: false }).unwrap();
    assert_eq!(reply, Reply::Jobs { done: vec![JobId(2), JobId(3)], refused: Vec::new() });
    let error = desk.ask(&user(1000), Command::Cancel { jobs: some, hurry: false }).unwrap_err();
    assert!(matches!(error, CommandError::JobOver { .. }), "{error}");
    let reply = desk.ask(&user(1000), Command::Cancel { jobs: one(array), hurry: false }).unwrap();
    assert_eq!(reply, Reply::Jobs { done: vec![JobId(1), JobId(4)], refused: Vec::new() });
}

#[test]
fn one_wrong_job_does_not_spoil_the_others() {
    let mut desk = Desk::new();
    let mine = desk.plain();
    let theirs = desk.submit(&user(2000), job(&user(2000), "exit 0")).unwrap();
    let jobs = [mine, theirs, 77].map(|id| JobRef::Id(JobId(id))).to_vec();
    match desk.ask(&user(1000), Command::Cancel { jobs, hurry: false }).unwrap() {
        Reply::Jobs { done, refused } => {
            assert_eq!(done, [JobId(mine)]);
            let codes: Vec<_> = refused.iter().map(|(job, e)| (job.as_str(), e.code())).collect();
            assert_eq!(codes, [("2", "E_DENIED"), ("77", "E_JOB_UNKNOWN")]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_a_running_job_the_limit_is_lowered_by_its_owner_and_raised_by_admins() {
    let mut desk = Desk::new();
    let id = desk.plain();
    desk.start(&[id]);
    let limit = |seconds| {
        let change =
            JobChange { time_limit: Some(TimeLimit::Of(Seconds(seconds))), ..JobChange::default() };
        Command::Update { jobs: one(id), change: Box::new(change) }
    };
    desk.ask(&user(1000), limit(300)).unwrap();
    assert!(
        desk.orders.iter().any(|o| {
            matches!(o.order, Order::Limit { limit: TimeLimit::Of(Seconds(300)), .. })
        })
    );
    let error = desk.ask(&user(1000), limit(900)).unwrap_err();
    assert!(matches!(error, CommandError::AdminOnly { .. }), "{error}");
    desk.ask(&root(), limit(900)).unwrap();
    assert_eq!(desk.job(id).time_limit, TimeLimit::Of(Seconds(900)));
    let change = Box::new(JobChange { name: Some("x".into()), ..JobChange::default() });
    let error = desk.ask(&root(), Command::Update { jobs: one(id), change }).unwrap_err();
    assert!(matches!(error, CommandError::WrongState { .. }), "{error}");
}

#[test]
fn every_end_of_an_attempt_has_its_row() {
    let mut desk = Desk::new();
    let requeued = desk.plain();
    desk.start(&[requeued]);
    desk.ask(&user(1000), Command::Requeue { jobs: one(requeued), hold: false }).unwrap();
    desk.end(requeued, 0, EndCause::Stopped);
    assert_eq!(desk.job(requeued).state, JobState::Pending);
    desk.start(&[requeued]);
    desk.end(requeued, 3, EndCause::Exited);
    let cancelled = desk.plain();
    desk.ask(&user(1000), Command::Cancel { jobs: one(cancelled), hurry: false }).unwrap();
    let reader = desk.writer.store().reader().unwrap();
    let rows = reader.history(&HistoryQuery::default()).unwrap().rows;
    let told: Vec<_> =
        rows.iter().map(|r| (r.job.id.0, r.job.attempt, r.job.state, r.requeued)).collect();
    assert_eq!(
        told,
        [
            (requeued, 1, JobState::Cancelled, true),
            (requeued, 2, JobState::Failed, false),
            (cancelled, 0, JobState::Cancelled, false),
        ]
    );
    assert!(rows[0].job.placement.is_some());
}

#[test]
fn a_decision_made_before_a_change_is_stale() {
    let mut desk = Desk::new();
    let id = desk.plain();
    let base = desk.state().clone();
    desk.ask(&user(1000), Command::Hold { jobs: one(id), as_user: true }).unwrap();
    let start = Start {
        job: JobId(id),
        attempt: 1,
        placement: Arc::new(Placement { partition: "main".into(), ..Placement::default() }),
        time_limit: TimeLimit::Unlimited,
        turn: None,
    };
    let decisions = vec![Decision::Start(vec![start])];
    let plan = Plan { now: desk.now, seq: base.seq, decisions, ..Plan::default() };
    let mut open = desk.writer.begin(desk.now);
    let outcome = desk.writer.decide(&mut open, &base, &plan).unwrap();
    assert_eq!((outcome.applied, outcome.stale), (0, 1));
    assert!(open.is_empty());
}

#[test]
fn use_by_others_makes_only_those_decisions_stale_that_it_touches() {
    let mut desk = Desk::new();
    let id = desk.plain();
    let base = desk.state().clone();
    let start = |cpu: u32| {
        let share = NodeShare {
            node: muster_model::NodeId(0),
            tasks: 1,
            cpus: [cpu].into_iter().collect::<CpuSet>(),
            ..NodeShare::default()
        };
        let placement =
            Placement { partition: "main".into(), nodes: vec![share], ..Placement::default() };
        let start = Start {
            job: JobId(id),
            attempt: 1,
            placement: Arc::new(placement),
            time_limit: TimeLimit::Unlimited,
            turn: None,
        };
        Plan { decisions: vec![Decision::Start(vec![start])], ..Plan::default() }
    };
    let foreign = muster_model::ForeignUse {
        cpus: [1].into_iter().collect(),
        owner: "bob".into(),
        ..muster_model::ForeignUse::default()
    };
    desk.see(Observation::Foreign { node: "n1".into(), foreign: vec![foreign] });
    for (cpu, stale) in [(1, 1), (0, 0)] {
        let mut open = desk.writer.begin(desk.now);
        let outcome = desk.writer.decide(&mut open, &base, &start(cpu)).unwrap();
        assert_eq!(outcome.stale, stale, "CPU {cpu}");
    }
}

#[test]
fn ids_that_an_engine_had_are_not_given_again() {
    let mut desk = Desk::new();
    let mut open = desk.writer.begin(desk.now);
    let listing = Inventory { nodes: nodes(2, 4), highest: JobId(40), ..Inventory::default() };
    desk.writer.inventory(&mut open, &EngineName::local(), desk.now, listing).unwrap();
    desk.writer.commit(open).unwrap();
    assert_eq!([desk.plain(), desk.plain()], [41, 42]);
}
