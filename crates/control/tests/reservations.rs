//! Orders for reservations: what they mean, and why they are refused.

use muster_control::command::{Command, CommandError, Meaning, Principal, meaning};
use muster_control::reservations::{ReservationOrder, Start, earliest, made};
use muster_model::{
    Access, EventKind, Exclusive, GpuCount, GpuScope, LicenceRequest, MemoryRequest, Mib, Names,
    NodeCount, Request, Reservation, ReservationFlag as Flag, Seconds, State, Timestamp, Want,
};
use muster_planner::{Budget, Planner};
use muster_recurrence::local;
use muster_test_kit::Lab;
use std::collections::BTreeSet;

const HOUR: u64 = 3600;

fn root() -> Principal {
    Principal { user: "root".to_owned(), admin: true, ..Principal::default() }
}

fn mara() -> Principal {
    Principal { uid: 1001, gid: 1001, user: "mara".to_owned(), admin: false }
}

fn whole(count: u32) -> Want {
    let request = Request {
        nodes: Some(NodeCount::exactly(count)),
        exclusive: Exclusive::Node,
        memory: MemoryRequest::PerNode(Mib(0)),
        ..Request::default()
    };
    Want { request, ..Want::default() }
}

fn on(names: &[&str]) -> Want {
    let mut want = whole(names.len() as u32);
    want.request.node_list = names.iter().map(|n| (*n).to_owned()).collect();
    want
}

fn order(name: &str, want: Want, start: Timestamp, seconds: u64) -> ReservationOrder {
    ReservationOrder {
        name: name.to_owned(),
        want: Some(want),
        start: Some(Start::At(start)),
        length: Some(Some(Seconds(seconds))),
        ..ReservationOrder::default()
    }
}

fn at(zone: &str, text: &str) -> Timestamp {
    local(zone, text).expect("a local time")
}

fn minute(n: i64) -> Timestamp {
    Timestamp::from_secs(n * 60)
}

fn repeated(mut order: ReservationOrder, rule: &str, zone: &str) -> ReservationOrder {
    order.repeat = Some((rule.to_owned(), zone.to_owned()));
    order
}

fn flagged(mut order: ReservationOrder, flags: &[Flag]) -> ReservationOrder {
    order.flags.extend(flags);
    order
}

fn ask(lab: &Lab, who: &Principal, command: Command) -> Result<Meaning, CommandError> {
    meaning(&lab.state, &mut muster_control::command::Shapes::default(), lab.now, who, command)
}

#[allow(clippy::needless_pass_by_value)] // orders are made where they are given
fn create(lab: &mut Lab, order: ReservationOrder) -> Result<Reservation, CommandError> {
    let made = made(&lab.state, lab.now, &root(), &order)?;
    lab.event(EventKind::ReservationSet { reservation: Box::new(made.clone()) });
    Ok(made)
}

fn code(result: Result<Reservation, CommandError>) -> &'static str {
    result.expect_err("it should be refused").code()
}

fn names(state: &State, made: &Reservation) -> Vec<String> {
    made.nodes.iter().map(|n| state.node_name(n.node)).collect()
}

/// S-26: held against each other by the clock of each occurrence's own day.
#[test]
fn s26_overlap_across_a_clock_change() {
    let zone = "America/New_York";
    let mut lab = Lab::new("node n[1-2] cpus=4");
    lab.now = at(zone, "2027-01-10T12:00");
    let daily = order("daily", on(&["n1"]), at(zone, "2027-01-11T09:00"), HOUR);
    create(&mut lab, repeated(daily, "FREQ=DAILY", zone)).expect("it is free");
    let start = at("UTC", "2027-06-01T13:30");
    let june = |name: &str, node: &str| order(name, on(&[node]), start, 15 * 60);
    assert_eq!(code(create(&mut lab, june("june", "n1"))), "E_RESERVATION_OVERLAP");
    create(&mut lab, june("elsewhere", "n2")).expect("another node is free");
    create(&mut lab, flagged(june("over", "n1"), &[Flag::Overlap])).expect("it may lie over");
    create(&mut lab, flagged(june("fix", "n1"), &[Flag::Maint])).expect("maintenance may");
    let later = order("winter", on(&["n1"]), at("UTC", "2027-06-01T14:30"), 15 * 60);
    create(&mut lab, later).expect("14:30 in UTC is 10:30 there in June");
}

/// S-27: two that come again meet later, not at once.
#[test]
fn s27_two_recurring_ones_that_meet_later() {
    let mut lab = Lab::new("node n1 cpus=4");
    lab.now = at("UTC", "2026-12-01T00:00");
    let weekly = order("r1", on(&["n1"]), at("UTC", "2026-12-07T05:00"), HOUR);
    create(&mut lab, repeated(weekly, "FREQ=WEEKLY;BYDAY=MO", "UTC")).expect("it is free");
    let hourly = order("r2", on(&["n1"]), at("UTC", "2026-12-08T04:00"), HOUR / 2);
    assert_eq!(
        code(create(&mut lab, repeated(hourly, "FREQ=HOURLY", "UTC"))),
        "E_RESERVATION_OVERLAP"
    );
    let aside = order("r3", on(&["n1"]), at("UTC", "2026-12-08T05:00"), HOUR);
    create(&mut lab, repeated(aside, "FREQ=WEEKLY;BYDAY=TU", "UTC")).expect("Tuesdays are free");
}

#[test]
fn a_weekly_one_carries_its_next_occurrences_by_the_local_clock() {
    let mut lab = Lab::new("node n1 cpus=4");
    lab.now = at("UTC", "2026-10-20T00:00");
    let nine = order("mondays", on(&["n1"]), at("Europe/Berlin", "2026-10-26T09:00"), HOUR);
    let made = create(&mut lab, repeated(nine, "FREQ=WEEKLY;BYDAY=MO", "Europe/Berlin"));
    let made = made.expect("it is free");
    assert_eq!(made.later.len(), 8);
    assert_eq!(made.window.start, at("Europe/Berlin", "2026-10-26T09:00"));
    assert_eq!(made.later[0].start, at("Europe/Berlin", "2026-11-02T09:00"));
}

#[test]
fn bad_orders_are_refused_with_their_code() {
    let lab = &mut Lab::new("node n[1-2] cpus=4 features=fast\nlicence sim 2\npartition main");
    lab.now = minute(1000);
    let plain = || order("r", whole(1), minute(1100), HOUR);
    let coded = |lab: &mut Lab, change: &dyn Fn(&mut ReservationOrder)| {
        let mut order = plain();
        change(&mut order);
        code(create(lab, order))
    };
    let want = |change: fn(&mut Want)| {
        move |order: &mut ReservationOrder| change(order.want.as_mut().expect("there is one"))
    };
    assert_eq!(coded(lab, &|o| o.end = Some(minute(1100))), "E_RESERVATION_TIME");
    assert_eq!(coded(lab, &|o| o.start = Some(Start::At(minute(900)))), "E_RESERVATION_TIME");
    assert_eq!(coded(lab, &|o| o.name = "two words".to_owned()), "E_VALUE_BAD");
    let rule = |rule: &'static str, zone: &'static str| {
        move |o: &mut ReservationOrder| o.repeat = Some((rule.to_owned(), zone.to_owned()))
    };
    assert_eq!(coded(lab, &rule("FREQ=DAILY", "Asia/Atlantis")), "E_TIMEZONE_UNKNOWN");
    assert_eq!(coded(lab, &rule("EVERY=DAY", "UTC")), "E_RESERVATION_RULE");
    assert_eq!(coded(lab, &rule("FREQ=SECONDLY", "UTC")), "E_RESERVATION_RULE");
    assert_eq!(
        coded(lab, &rule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "UTC")),
        "E_RESERVATION_RULE"
    );
    let endless = |o: &mut ReservationOrder| {
        o.length = Some(None);
        o.repeat = Some(("FREQ=DAILY".to_owned(), "UTC".to_owned()));
    };
    assert_eq!(coded(lab, &endless), "E_RESERVATION_TIME");
    let flags = |flags: &'static [Flag]| move |o: &mut ReservationOrder| o.flags.extend(flags);
    assert_eq!(coded(lab, &flags(&[Flag::Daily, Flag::Weekly])), "E_RESERVATION_FLAGS");
    assert_eq!(coded(lab, &flags(&[Flag::Replace, Flag::StaticAlloc])), "E_RESERVATION_FLAGS");
    let floats = |o: &mut ReservationOrder| {
        o.start = Some(Start::Away(Seconds(HOUR)));
        o.repeat = Some(("FREQ=DAILY".to_owned(), "UTC".to_owned()));
    };
    assert_eq!(coded(lab, &floats), "E_RESERVATION_FLAGS");
    assert_eq!(coded(lab, &want(|w| w.partition = Some("mian".to_owned()))), "E_PARTITION_UNKNOWN");
    assert_eq!(
        coded(lab, &want(|w| w.request.node_list = BTreeSet::from(["n9".to_owned()]))),
        "E_NODE_UNKNOWN"
    );
    assert_eq!(
        coded(
            lab,
            &want(|w| {
                w.request.constraint = Some(muster_model::Constraint::Feature("fsat".to_owned()));
            })
        ),
        "E_NAME_UNKNOWN"
    );
    assert_eq!(
        coded(
            lab,
            &want(|w| {
                w.request.licences = vec![LicenceRequest { name: "sim".to_owned(), count: 3 }];
            })
        ),
        "E_VALUE_BAD"
    );
    assert_eq!(coded(lab, &want(|w| w.no_nodes = true)), "E_RESERVATION_FLAGS");
    assert_eq!(
        coded(lab, &want(|w| w.request.nodes = Some(NodeCount::exactly(3)))),
        "E_RESERVATION_NODES"
    );
    let access = |o: &mut ReservationOrder| {
        let accounts = Names::only(["nobody"]);
        o.access = Some(Access { accounts, ..Access::default() });
    };
    assert_eq!(coded(lab, &access), "E_ACCOUNT_UNKNOWN");
    create(lab, plain()).expect("it is fine");
    assert_eq!(code(create(lab, plain())), "E_RESERVATION_EXISTS");
    let theirs = Command::CreateReservation(Box::new(plain()));
    assert_eq!(ask(lab, &mara(), theirs).expect_err("not hers").code(), "E_ADMIN_ONLY");
}

#[test]
fn what_asks_for_nothing_is_refused() {
    let mut lab = Lab::new("node n[1-2] cpus=4 features=fast\nlicence sim 2\npartition main");
    for change in [
        |_: &mut Want| {},
        |w: &mut Want| w.nvlink = true,
        |w: &mut Want| w.partition = Some("main".to_owned()),
        |w: &mut Want| w.request.exclusive = Exclusive::Node,
    ] {
        let mut want = Want::default();
        change(&mut want);
        let empty = order("r", want, minute(10), HOUR);
        assert_eq!(code(create(&mut lab, empty)), "E_RESERVATION_EMPTY");
    }
    let nothing = ReservationOrder { want: None, ..order("r", whole(1), minute(10), HOUR) };
    assert_eq!(code(create(&mut lab, nothing)), "E_RESERVATION_EMPTY");
}

#[test]
fn an_end_beside_a_duration_is_the_same_end() {
    let mut lab = Lab::new("node n[1-2] cpus=4");
    let both = |end: i64| ReservationOrder {
        end: Some(minute(end)),
        zone: Some("Asia/Seoul".to_owned()),
        ..order("r", whole(1), minute(10), HOUR)
    };
    let refused = create(&mut lab, both(80)).expect_err("70 is not 80").to_string();
    assert_eq!(
        refused,
        "duration: it begins 1970-01-01 09:10:00 Asia/Seoul and so ends 1970-01-01 10:10:00 \
         Asia/Seoul, but end is 1970-01-01 10:20:00 Asia/Seoul; leave one of them out"
    );
    let endless = ReservationOrder { length: Some(None), ..both(70) };
    assert_eq!(code(create(&mut lab, endless)), "E_RESERVATION_TIME");
    create(&mut lab, both(70)).expect("they agree");
}

#[test]
fn a_plan_that_finds_nothing_does_not_name_itself_as_the_remedy() {
    let lab = Lab::new("node n[1-2] cpus=4");
    let many = order("r", whole(3), minute(10), HOUR);
    let never = earliest(&lab.state, lab.now, &root(), &many).expect_err("there are two");
    assert_eq!(never.code(), "E_RESERVATION_NODES");
    let hint = never.hint().expect("there is something to do");
    assert!(!hint.contains("reservation plan"), "{hint}");
    assert!(never.to_string().contains("at no time are 3 nodes"), "{never}");
    let now = made(&lab.state, lab.now, &root(), &many).expect_err("there are two");
    assert!(now.hint().is_some_and(|hint| hint.contains("reservation plan")), "{now}");
}

#[test]
fn one_that_is_changed_does_not_stand_in_its_own_way() {
    let mut lab = Lab::new("node n[1-3] cpus=4");
    create(&mut lab, order("r", whole(2), minute(10), HOUR)).expect("they are free");
    let more = ReservationOrder {
        name: "r".to_owned(),
        want: Some(whole(3)),
        ..ReservationOrder::default()
    };
    let more = Command::UpdateReservation(Box::new(more));
    for event in ask(&lab, &root(), more).expect("its own nodes are its own").events {
        lab.event(event);
    }
    assert_eq!(lab.state.reservations["r"].nodes.len(), 3);
}

#[test]
fn one_that_stands_in_the_configuration_is_changed_there() {
    let mut lab = Lab::new("node n[1-2] cpus=4");
    lab.now = at("UTC", "2026-12-08T00:00");
    let standing = |text: &str, nodes: u32| ReservationOrder {
        standing: Some(text.to_owned()),
        // A rule may have begun long ago.
        ..repeated(
            order("class", whole(nodes), at("UTC", "2026-01-05T09:00"), HOUR),
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO",
            "UTC",
        )
    };
    let class = create(&mut lab, standing("one", 1)).expect("it is free");
    assert_eq!(class.window.start, at("UTC", "2026-12-21T09:00"));
    let change = ReservationOrder { name: "class".to_owned(), ..ReservationOrder::default() };
    let change = Command::UpdateReservation(Box::new(change));
    assert_eq!(ask(&lab, &root(), change).expect_err("it stands").code(), "E_RESERVATION_STANDING");
    let delete = |standing| Command::DeleteReservation { name: "class".to_owned(), standing };
    assert_eq!(
        ask(&lab, &root(), delete(false)).expect_err("it stands").code(),
        "E_RESERVATION_STANDING"
    );
    // The same again keeps its node; another takes its place.
    let again = create(&mut lab, standing("two", 1)).expect("it takes its own place");
    assert_eq!((&again.nodes, again.standing.as_deref()), (&class.nodes, Some("two")));
    let both = create(&mut lab, standing("three", 2)).expect("it takes its own place");
    assert_eq!(both.nodes.len(), 2);
    ask(&lab, &root(), delete(true)).expect("its section is gone");
    create(&mut lab, order("hand", on(&["n1"]), at("UTC", "2026-12-09T09:00"), HOUR))
        .expect("it is free");
    let mut taken = standing("four", 1);
    taken.name = "hand".to_owned();
    assert_eq!(code(create(&mut lab, taken)), "E_RESERVATION_EXISTS");
}

#[test]
fn running_jobs_are_listed_unless_they_may_run_on() {
    let mut lab = Lab::new("node n[1-2] cpus=4");
    let job = lab.submit("a nodelist=n1 time=100");
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    let fix = |name: &str, start| order(name, on(&["n1"]), minute(start), HOUR);
    let refused = create(&mut lab, fix("fix", 99)).expect_err("job 1 runs until then");
    assert_eq!(refused.code(), "E_RESERVATION_JOBS");
    assert!(refused.to_string().ends_with(&format!("run into it: {job}")), "{refused}");
    create(&mut lab, fix("later", 100)).expect("it is over then");
    create(&mut lab, flagged(fix("over", 99), &[Flag::IgnoreJobs, Flag::Overlap]))
        .expect("asked for");
    // Nodes that muster chooses are chosen around it.
    let one = create(&mut lab, order("one", whole(1), minute(50), HOUR)).expect("n2 is free");
    assert_eq!(names(&lab.state, &one), ["n2"]);
}

/// The earliest of its occurrences with eight GPUs on two nodes whose GPUs are joined.
#[test]
fn the_earliest_slot_is_found() {
    let mut lab = Lab::new("node n[1-3] cpus=8 gpus=4xh100 mem=8G\nnode m[1-4] cpus=8 gpus=4xh100");
    for id in 0..3u32 {
        let mut node = lab.state.nodes[&muster_model::NodeId(id)].as_ref().clone();
        for device in &mut node.devices {
            let peers = (0..4).filter(|peer| *peer != device.index);
            let kind = muster_model::LinkKind::NvLink(12);
            device.links = peers.map(|peer| muster_model::DeviceLink { peer, kind }).collect();
        }
        lab.event(EventKind::NodeSet { node: Box::new(node) });
    }
    let zone = "Asia/Seoul";
    lab.now = at(zone, "2026-12-05T12:00");
    lab.event(EventKind::Round);
    let mut want = whole(2);
    want.request.gpus = vec![GpuCount { model: None, count: 8, scope: GpuScope::Job }];
    want.nvlink = true;
    let monday = at(zone, "2026-12-07T09:00");
    let mut order = order("train", want, monday, 3 * HOUR);
    order = repeated(order, "FREQ=WEEKLY;BYDAY=MO", zone);
    let found = earliest(&lab.state, lab.now, &root(), &order).expect("Monday is free");
    assert_eq!(found.window.start, monday);
    assert_eq!(names(&lab.state, &found), ["n1", "n2"]);
    // Two of the three are in use over that Monday: the one after is the first.
    for node in ["n1", "n2"] {
        lab.submit(&format!("j nodelist={node} exclusive time=4000"));
    }
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    let found = earliest(&lab.state, lab.now, &root(), &order).expect("the next Monday is free");
    assert_eq!(found.window.start, at(zone, "2026-12-14T09:00"));
    // Once only, it takes the first three hours that are free.
    order.repeat = None;
    order.start = None;
    let found = earliest(&lab.state, lab.now, &root(), &order).expect("some time is free");
    assert_eq!(found.window.start, lab.now.plus(Seconds(4000 * 60)));
}

#[test]
fn all_nodes_are_planned_as_they_are_made() {
    let mut lab = Lab::new("node n[1-3] cpus=4");
    lab.submit("j nodelist=n2 time=30");
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    let want = Want { all_nodes: true, ..Want::default() };
    let mut order = order("all", want, minute(0), HOUR);
    order.start = None;
    let found = earliest(&lab.state, lab.now, &root(), &order).expect("when the job is over");
    assert_eq!(names(&lab.state, &found), ["n1", "n2", "n3"]);
    assert_eq!(found.window.start, minute(30));
}

#[test]
fn a_part_of_a_node_is_chosen_beside_other_parts() {
    let mut lab = Lab::new("node n1 cpus=4 gpus=2xa100 mem=8G");
    let part = || {
        let mut want = whole(1);
        want.request.exclusive = Exclusive::No;
        want.request.cpus_per_task = Some(2);
        want.request.gpus = vec![GpuCount { model: None, count: 1, scope: GpuScope::Node }];
        want
    };
    let a = create(&mut lab, order("a", part(), minute(10), HOUR)).expect("it is free");
    let b = create(&mut lab, order("b", part(), minute(20), HOUR)).expect("the other half is");
    let devices = |r: &Reservation| r.nodes[0].part.clone().expect("a part").devices;
    assert_ne!(devices(&a), devices(&b));
    assert_eq!(code(create(&mut lab, order("c", part(), minute(30), HOUR))), "E_RESERVATION_NODES");
}

#[test]
fn deletion_is_for_admins_or_for_users_where_it_says_so() {
    let mut lab = Lab::new("node n[1-2] cpus=4");
    let mut theirs = order("theirs", on(&["n1"]), minute(0), HOUR);
    theirs.access = Some(Access { users: Names::only(["mara"]), ..Access::default() });
    create(&mut lab, theirs.clone()).expect("it is free");
    let delete = || Command::DeleteReservation { name: "theirs".to_owned(), standing: false };
    assert_eq!(ask(&lab, &mara(), delete()).expect_err("not hers").code(), "E_ADMIN_ONLY");
    let add = ReservationOrder {
        name: "theirs".to_owned(),
        flags: BTreeSet::from([Flag::UserDelete]),
        ..ReservationOrder::default()
    };
    let changed =
        ask(&lab, &root(), Command::UpdateReservation(Box::new(add))).expect("it is there");
    for event in changed.events {
        lab.event(event);
    }
    assert!(lab.state.reservations["theirs"].has(Flag::UserDelete));
    assert_eq!(lab.state.reservations["theirs"].nodes.len(), 1);
    ask(&lab, &mara(), delete()).expect("hers to delete now");
    lab.submit("in user=mara reservation=theirs time=10");
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    lab.carry_out(&plan);
    assert_eq!(ask(&lab, &mara(), delete()).expect_err("a job runs").code(), "E_RESERVATION_BUSY");
}
