//! What a change of the configuration does, and limits that it sets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod support;

use muster_control::command::{Command, ErrorClass, JobChange, Reply, Submission};
use muster_model::{ArraySpec, IndexRanges, Licence, Seconds, TimeLimit};
use support::desk::{Desk, one};
use support::{job, nodes, root, site, user};

#[test]
fn a_configuration_makes_events_of_what_differs_only() {
    let mut desk = Desk::new();
    let mut same = site(&nodes(2, 4));
    same.licences = vec![Licence { name: "sim".to_owned(), total: 4, ..Licence::default() }];
    let reply = desk.ask(&root(), Command::Configure(Box::new(same.clone()))).unwrap();
    assert_eq!(reply, Reply::Changed { events: 0 });
    same.partitions[0].priority = 5;
    let reply = desk.ask(&root(), Command::Configure(Box::new(same.clone()))).unwrap();
    assert_eq!(reply, Reply::Changed { events: 1 });
    same.partitions[0].name = "other".to_owned();
    let reply = desk.ask(&root(), Command::Configure(Box::new(same))).unwrap();
    assert_eq!(reply, Reply::Changed { events: 2 });
    assert_eq!(desk.state().partitions.keys().cloned().collect::<Vec<_>>(), ["other"]);
}

/// A desk whose site has an account, a QOS and a licence changed in one way.
fn desk_with(change: impl FnOnce(&mut muster_control::command::Site)) -> Desk {
    let mut desk = Desk::new();
    let mut site = site(&nodes(2, 4));
    site.licences = vec![Licence { name: "sim".to_owned(), total: 4, ..Licence::default() }];
    change(&mut site);
    desk.ask(&root(), Command::Configure(Box::new(site))).unwrap();
    desk
}

#[test]
fn s45_an_array_counts_with_all_its_tasks_at_submission() {
    let mut desk = desk_with(|site| {
        let limits = muster_model::QosLimits {
            max_submit_jobs_per_user: Some(10),
            ..muster_model::QosLimits::default()
        };
        site.qos = vec![muster_model::Qos {
            name: "normal".to_owned(),
            limits,
            ..muster_model::Qos::default()
        }];
    });
    let array = |last| {
        move |s: &mut Submission| {
            let indices = IndexRanges::from_ranges([(1, last)]);
            s.specs[0].array = Some(ArraySpec { indices, throttle: None });
        }
    };
    let refused = desk.try_with(array(20)).unwrap_err();
    assert_eq!((refused.code(), refused.class()), ("E_LIMIT", ErrorClass::Conflict));
    let text = "user user1000 in QOS normal may have 10 jobs waiting or running (MaxSubmitJobs); \
                there are 0, and 20 jobs more would be too many";
    assert_eq!(refused.to_string(), text);
    assert!(refused.hint().unwrap().contains("QOSMaxSubmitJobPerUserLimit"));
    desk.try_with(array(9)).unwrap();
    desk.plain();
    assert_eq!(desk.try_with(|_| {}).unwrap_err().code(), "E_LIMIT");
    // Others have limits of their own.
    desk.submit(&user(1001), job(&user(1001), "exit 0")).unwrap();
}

#[test]
fn a_qos_that_denies_refuses_what_one_job_alone_breaks() {
    let mut desk = desk_with(|site| {
        let cpu = |n| [(muster_model::TresKind::Cpu, n)].into_iter().collect();
        let mut qos = muster_model::Qos { name: "normal".to_owned(), ..Default::default() };
        qos.limits.max_tres_per_job = cpu(2);
        qos.limits.group.tres = cpu(3);
        qos.flags.deny_on_limit = true;
        site.qos = vec![qos];
    });
    let cpus = |n| move |s: &mut Submission| s.specs[0].request.cpus_per_task = Some(n);
    assert_eq!(desk.try_with(cpus(3)).unwrap_err().code(), "E_LIMIT");
    // What others hold makes a job wait, not be refused.
    let first = desk.try_with(cpus(2)).unwrap();
    desk.start(&[first]);
    desk.try_with(cpus(2)).unwrap();
}

#[test]
fn a_change_is_refused_for_what_a_submission_would_be() {
    let mut desk = desk_with(|site| {
        let mut normal = muster_model::Qos { name: "normal".to_owned(), ..Default::default() };
        normal.limits.max_wall = Some(Seconds(600));
        normal.flags.deny_on_limit = true;
        let mut short = muster_model::Qos { name: "short".to_owned(), ..Default::default() };
        short.limits.max_submit_jobs_per_user = Some(1);
        site.qos = vec![normal, short];
    });
    let limit = |seconds| Some(TimeLimit::Of(Seconds(seconds)));
    let id = desk.try_with(|s| s.specs[0].time_limit = limit(300)).unwrap();
    let mut update = |change: JobChange| {
        desk.ask(&user(1000), Command::Update { jobs: one(id), change: Box::new(change) })
    };
    let none = JobChange::default;
    let refused = update(JobChange { time_limit: limit(601), ..none() }).unwrap_err();
    assert_eq!(refused.code(), "E_LIMIT");
    assert!(refused.to_string().contains("MaxWall"), "{refused}");
    update(JobChange { time_limit: limit(600), ..none() }).unwrap();
    // One of the QOS is allowed: it may come, and stays where it is.
    update(JobChange { qos: Some("short".to_owned()), ..none() }).unwrap();
    update(JobChange { comment: Some("still there".to_owned()), ..none() }).unwrap();
    let other = desk.try_with(|s| s.specs[0].time_limit = limit(300)).unwrap();
    let change = Box::new(JobChange { qos: Some("short".to_owned()), ..none() });
    let refused = desk.ask(&user(1000), Command::Update { jobs: one(other), change }).unwrap_err();
    assert!(refused.to_string().contains("MaxSubmitJobs"), "{refused}");
}

#[test]
fn what_jobs_name_is_not_removed_and_the_rest_is() {
    let mut desk = desk_with(|site| {
        site.accounts =
            vec![muster_model::Account { name: "lab".to_owned(), ..Default::default() }];
        site.qos = vec![muster_model::Qos { name: "high".to_owned(), ..Default::default() }];
    });
    let id = desk
        .try_with(|s| {
            s.specs[0].account = "lab".to_owned();
            s.specs[0].qos = "high".to_owned();
        })
        .unwrap();
    let bare = || Box::new(site(&nodes(2, 4)));
    let refused = desk.ask(&root(), Command::Configure(bare())).unwrap_err();
    assert_eq!(refused.code(), "E_STILL_USED");
    assert_eq!(
        refused.to_string(),
        "account lab is not configured any more, but 1 unfinished jobs name it"
    );
    // At a start it stays, and the account admits nobody.
    let start = muster_control::command::Site { starting: true, ..*bare() };
    desk.ask(&root(), Command::Configure(Box::new(start))).unwrap();
    assert!(desk.state().qos.contains_key("high") && !desk.state().licences.contains_key("sim"));
    assert_eq!(desk.state().accounts["lab"].users, Some(std::collections::BTreeSet::new()));
    desk.ask(&user(1000), Command::Cancel { jobs: one(id), hurry: false }).unwrap();
    desk.ask(&root(), Command::Configure(bare())).unwrap();
    assert_eq!(desk.state().accounts.keys().cloned().collect::<Vec<_>>(), ["default"]);
    assert_eq!(desk.state().qos.keys().cloned().collect::<Vec<_>>(), ["normal"]);
}
