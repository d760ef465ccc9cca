//! A pool of processors is planned as any cluster is, only sooner.

use muster_model::JobId;
use muster_planner::{Budget, Planner};
use muster_test_kit::Lab;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Deed {
    Submit { cpus: u32, minutes: u32, user: usize },
    Pass(u64),
    Exit(usize),
    Cancel(usize),
    Plan,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        6 => (1u32..10, 1u32..60, 0usize..2)
            .prop_map(|(cpus, minutes, user)| Deed::Submit { cpus, minutes, user }),
        2 => (1u64..30).prop_map(Deed::Pass),
        3 => (0usize..6).prop_map(Deed::Exit),
        1 => (0usize..6).prop_map(Deed::Cancel),
        5 => Just(Deed::Plan),
    ];
    prop::collection::vec(deed, 1..60)
}

fn policy() -> impl Strategy<Value = String> {
    let backfill = ["none", "easy", "easy backfill-order=shortest", "conservative"];
    let run_time = [
        "limit",
        "recent",
        "recent promises=estimates",
        "recent promises=estimates correction=double",
        "recent promises=estimates correction=steps",
    ];
    let depth = prop::sample::select(vec![
        "",
        " depth=1",
        " depth=2",
        " by-wait=900",
        " by-wait=500 depth=3",
    ]);
    let order = ["fifo", "slowdown", "slowdown guard-first=0", "slowdown guard-promise=100"];
    (
        prop::sample::select(backfill.to_vec()),
        prop::sample::select(run_time.to_vec()),
        depth,
        prop::sample::select(order.to_vec()),
    )
        .prop_map(|(a, b, c, d)| format!("policy backfill={a} run-time={b}{c} order={d}"))
        .prop_filter("the general way", |policy| {
            !(policy.contains("conservative") && policy.contains("slowdown"))
        })
}

fn nth<'a>(ids: impl IntoIterator<Item = &'a JobId>, n: usize) -> Option<JobId> {
    ids.into_iter().nth(n).copied()
}

fn act(lab: &mut Lab, deed: &Deed) {
    match deed {
        Deed::Submit { cpus, minutes, user } => {
            let user = ["ada", "bob"][*user];
            lab.submit(&format!("j cpus={cpus} time={minutes} user={user}"));
        }
        Deed::Pass(minutes) => {
            lab.at_minute(lab.now.secs() as u64 / 60 + minutes);
        }
        Deed::Exit(n) => {
            if let Some(job) = nth(&lab.state.index.active, *n) {
                lab.exit(job, 0);
            }
        }
        Deed::Cancel(n) => {
            if let Some(job) = nth(&lab.state.index.pending, *n) {
                lab.cancel(job);
            }
        }
        Deed::Plan => {
            lab.round();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(300),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Told every event, made anew, and by the general round: the same decisions and promises.
    #[test]
    fn a_pool_is_planned_as_any_cluster_is(
        total in 1u32..=8,
        policy in policy(),
        deeds in deeds(),
    ) {
        let mut lab = Lab::new(&format!("node n1 pool={total}\n{policy}"));
        let mut state = lab.state.clone();
        let mut told = Planner::new(&state);
        let mut kept = Planner::new(&state);
        let mut known = lab.log.len();
        for deed in &deeds {
            act(&mut lab, deed);
            for event in &lab.log[known..] {
                state.apply(event).unwrap();
                told.observe_event(event, &state);
            }
            known = lab.log.len();
            let plan = told.plan(&state, lab.now, Budget::UNLIMITED);
            let anew = Planner::new(&state).plan(&state, lab.now, Budget::UNLIMITED);
            prop_assert_eq!(&plan, &anew);
            prop_assert_eq!(plan.work.fits, 0, "this was no pool");
            // Any bound takes the general way.
            let general = kept.plan(&state, lab.now, Budget::steps(u64::MAX - 1));
            prop_assert_eq!(&plan.decisions, &general.decisions);
            prop_assert_eq!(&plan.promises, &general.promises);
            prop_assert!(general.complete);
            let found = muster_plan_check::check_full(&state, &plan);
            prop_assert!(found.is_empty(), "{:#?}\n{:#?}", found, plan);
        }
    }
}

/// What a round looks at while so many wait, of whom one small one may pass, and how many start.
fn looked_at(policy: &str, waiting: u32) -> (u64, usize) {
    let mut lab = Lab::new(&format!("node n1 pool=64\n{policy}"));
    lab.submit("holder cpus=60 time=60");
    lab.round();
    lab.submit("head cpus=64 time=60");
    for at in 0..waiting {
        let (cpus, user) = (1 + at * 7 % 64, ["ada", "bob", "eve"][at as usize % 3]);
        lab.submit(&format!("j cpus={cpus} time={} user={user}", 61 + at % 97));
    }
    lab.submit("passes cpus=4 time=60 user=dan");
    lab.at_minute(0);
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    assert_eq!(plan.work.fits, 0, "this was no pool");
    (plan.work.jobs + plan.work.slots, plan.decisions.len())
}

/// A queue that is ten times as long costs a round little more: as many places in a tree as it has
/// steps more.
#[test]
fn a_round_does_not_look_at_every_waiting_job() {
    for policy in [
        "policy backfill=easy order=fifo",
        "policy backfill=easy backfill-order=shortest order=fifo",
        "policy backfill=easy by-wait=900 depth=50 order=fifo",
        "policy backfill=conservative depth=50 order=fifo",
        "policy backfill=easy depth=50 order=slowdown",
        "policy backfill=none order=fifo",
    ] {
        let ((few, _), (many, starts)) = (looked_at(policy, 1000), looked_at(policy, 10_000));
        assert!(many < 2 * few, "{policy}: {few} looks at 1000, {many} at 10000");
        assert!(many < 5000, "{policy}: {many} looks at 10000");
        assert_eq!(starts, usize::from(!policy.contains("none")), "{policy}");
    }
}

/// What a round looks at while so many are owed a promise, of whom the last would pass, and how many
/// have one.
fn looked_at_for_promises(owed: u32) -> (u64, usize) {
    let mut lab = Lab::new("node n1 pool=64\npolicy order=slowdown");
    lab.submit("before cpus=60 time=60 user=ada");
    lab.round();
    for at in 0..owed {
        let cpus = 32 + at % 4;
        lab.submit(&format!("j cpus={cpus} time={} user=bob", 100 + 10 * (at % 5)));
    }
    lab.at_minute(10);
    lab.submit("passes cpus=4 time=6000 user=dan");
    let plan = Planner::new(&lab.state).plan(&lab.state, lab.now, Budget::UNLIMITED);
    assert_eq!(plan.work.fits, 0, "this was no pool");
    (plan.work.slots, plan.promises.len())
}

/// Who asks for no less than somebody before it is searched a start for from there on.
#[test]
fn promises_do_not_begin_their_search_anew() {
    let ((few, some), (many, all)) = (looked_at_for_promises(90), looked_at_for_promises(900));
    assert!(some >= 90 && all >= 900, "{some}, {all}");
    assert!(many < 12 * few, "{few} looks for {some} promises, {many} for {all}");
    assert!(many < 20 * 900, "{many} looks for {all} promises");
}
