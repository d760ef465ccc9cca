//! Fair share against the published examples, and use as it adds up and decays.

use muster_model::{
    Account, EndCause, Event, EventKind, ExitReport, ExitStatus, FairShare, FairShareMode, Holder,
    JobId, JobSpec, Member, Owner, Placement, Policy, Qos, Seconds, ShareRow, Shares, State,
    TimeLimit, Timestamp, TresKind, UsageReset,
};
use muster_model::{CpuSet, Node, NodeId, placement::NodeShare};
use std::sync::Arc;

/// A state with one node of a thousand CPUs, told events at instants.
struct Site {
    state: State,
    next: u32,
}

impl Site {
    fn new(mode: FairShareMode, half_life: Option<u64>) -> Self {
        let mut site = Self { state: State::default(), next: 1 };
        let mut policy = Policy::default();
        policy.priority.fair_share = mode;
        policy.priority.half_life = half_life.map(Seconds);
        site.at(0, EventKind::PolicySet { policy: Box::new(policy) });
        let node = Node { name: "n1".into(), cpus: CpuSet::first(1000), ..Node::default() };
        site.at(0, EventKind::NodeSet { node: Box::new(node) });
        site
    }

    fn at(&mut self, second: i64, kind: EventKind) {
        self.state.apply(&Event { at: Timestamp::from_secs(second), kind }).expect("it follows");
    }

    fn account(&mut self, name: &str, parent: &str, shares: Shares, users: &[(&str, Shares)]) {
        let member = |shares| Member { shares, ..Member::default() };
        let account = Account {
            name: name.into(),
            parent: (!parent.is_empty()).then(|| parent.into()),
            shares,
            members: users.iter().map(|(user, s)| ((*user).into(), member(*s))).collect(),
            ..Account::default()
        };
        self.at(0, EventKind::AccountSet { account });
    }

    fn start(&mut self, second: i64, account: &str, user: &str, cpus: u32) -> JobId {
        self.start_as(second, account, user, "normal", cpus)
    }

    fn start_as(&mut self, second: i64, account: &str, user: &str, qos: &str, cpus: u32) -> JobId {
        let job = JobId(self.next);
        self.next += 1;
        let spec = JobSpec {
            account: account.into(),
            qos: qos.into(),
            owner: Owner { uid: 1, gid: 1, user: user.into() },
            partitions: vec!["main".into()],
            requeue: true,
            ..JobSpec::default()
        };
        self.at(second, EventKind::JobSubmitted { first: job, specs: vec![Arc::new(spec)] });
        let share = NodeShare { cpus: CpuSet::first(cpus), tasks: 1, ..NodeShare::default() };
        let placement =
            Placement { partition: "main".into(), nodes: vec![share], ..Placement::default() };
        self.at(
            second,
            EventKind::JobPlaced {
                job,
                attempt: 1,
                placement: Arc::new(placement),
                time_limit: TimeLimit::Unlimited,
            },
        );
        job
    }

    fn end(&mut self, second: i64, ended: i64, job: JobId) {
        let report = ExitReport {
            status: ExitStatus::default(),
            cause: EndCause::Exited,
            started: None,
            ended: Timestamp::from_secs(ended),
            usage: muster_model::Usage::default(),
            message: String::new(),
            steps: Vec::new(),
        };
        self.at(second, EventKind::JobExited { job, attempt: 1, report });
    }

    /// So much use: one second of so many CPUs.
    fn used(&mut self, account: &str, user: &str, cpus: u32) {
        let now = self.state.now.secs();
        let job = self.start(now, account, user, cpus);
        self.end(now + 1, now + 1, job);
    }

    fn shares(&self, second: i64) -> FairShare {
        FairShare::new(&self.state, Timestamp::from_secs(second))
    }

    fn billed(&self, holder: &Holder, second: i64) -> u64 {
        self.state.spent(holder, Timestamp::from_secs(second)).seconds(&TresKind::Billing)
    }
}

fn close(billionths: u64, to: u64) {
    assert!(billionths.abs_diff(to) <= 1_000, "{billionths} is not about {to}");
}

#[test]
fn s41_fair_tree_the_account_decides_before_the_user() {
    let mut site = Site::new(FairShareMode::Tree, None);
    let one = Shares::Of(1);
    site.account("A", "", Shares::Of(60), &[("a1", one), ("a2", one)]);
    site.account("B", "", Shares::Of(40), &[("b1", one), ("b2", one)]);
    site.used("A", "a1", 30);
    site.used("B", "b2", 70);
    let shares = site.shares(1);
    let level = |name: &str| shares.rows().iter().find(|r| r.account == name).unwrap().level;
    assert_eq!((level("A"), level("B")), (2_000_000_000, 571_428_571));
    let factor = |account, user| shares.factor(account, user);
    assert_eq!(factor("A", "a2"), 1_000_000_000);
    assert_eq!(factor("A", "a1"), 750_000_000);
    assert_eq!(factor("B", "b1"), 500_000_000);
    assert_eq!(factor("B", "b2"), 250_000_000);
    assert_eq!(shares.factor("A", "nobody"), 0);
}

#[test]
fn fair_tree_ties_are_slurms() {
    // Users with one level share a rank, and the next is two below.
    let mut site = Site::new(FairShareMode::Tree, None);
    let one = Shares::Of(1);
    site.account("A", "", one, &[("x", one), ("y", one), ("z", one)]);
    site.used("A", "x", 5);
    site.used("A", "y", 5);
    site.used("A", "z", 7);
    let shares = site.shares(1);
    let of = |user| shares.factor("A", user);
    assert_eq!((of("x"), of("y"), of("z")), (WHOLE, WHOLE, WHOLE / 3));

    // Accounts with one level are one: their users are ranked together.
    let mut site = Site::new(FairShareMode::Tree, None);
    site.account("A", "", one, &[("a1", one), ("a2", one)]);
    site.account("B", "", one, &[("b1", one), ("b2", one)]);
    for (account, user, cpus) in [("A", "a1", 9), ("A", "a2", 1), ("B", "b1", 8), ("B", "b2", 2)] {
        site.used(account, user, cpus);
    }
    let shares = site.shares(1);
    let order = [("A", "a2"), ("B", "b2"), ("B", "b1"), ("A", "a1")];
    let factors: Vec<u64> = order.iter().map(|(a, u)| shares.factor(a, u)).collect();
    assert_eq!(factors, [WHOLE, WHOLE / 4 * 3, WHOLE / 2, WHOLE / 4]);

    // A user beside an account of one level has the rank of its first user.
    let mut site = Site::new(FairShareMode::Tree, None);
    site.account("A", "", one, &[("u", one)]);
    site.account("B", "A", one, &[("b1", one)]);
    site.used("A", "u", 5);
    site.used("B", "b1", 5);
    let shares = site.shares(1);
    assert_eq!((shares.factor("A", "u"), shares.factor("B", "b1")), (WHOLE, WHOLE));
}

const WHOLE: u64 = 1_000_000_000;

#[test]
fn an_account_with_its_parents_share_hands_its_users_up() {
    let mut site = Site::new(FairShareMode::Tree, None);
    let one = Shares::Of(1);
    site.account("A", "", one, &[]);
    site.account("B", "A", Shares::Parent, &[("b", one)]);
    site.account("C", "A", one, &[("c", one)]);
    site.used("B", "b", 1);
    site.used("C", "c", 3);
    let shares = site.shares(1);
    let level = |user| shares.rows().iter().find(|r| r.user.as_deref() == Some(user)).unwrap();
    // b stands beside account C: half the shares, a quarter of the use.
    assert_eq!(level("b").level, 2 * WHOLE);
    assert_eq!((shares.factor("B", "b"), shares.factor("C", "c")), (WHOLE, WHOLE / 2));
    assert_eq!(level("c").level, WHOLE);
    // Nothing used is beyond any level; no shares is none.
    let mut site = Site::new(FairShareMode::Tree, None);
    site.account("A", "", one, &[("idle", one), ("guest", Shares::Of(0))]);
    let shares = site.shares(1);
    assert_eq!(shares.row("A", "idle").unwrap().level, ShareRow::INFINITE);
    assert_eq!(shares.row("A", "guest").unwrap().level, 0);
}

/// The example of Slurm's page on the classic algorithm.
#[test]
fn the_classic_example() {
    let mut site = Site::new(FairShareMode::Classic, None);
    let one = Shares::Of(1);
    site.account("A", "", Shares::Of(40), &[]);
    site.account("B", "A", Shares::Of(30), &[("user1", one)]);
    site.account("C", "A", Shares::Of(10), &[("user2", one), ("user3", one)]);
    site.account("D", "", Shares::Of(60), &[]);
    site.account("E", "D", Shares::Of(25), &[("user4", one)]);
    site.account("F", "D", Shares::Of(35), &[("user5", one)]);
    site.account("others", "", Shares::Of(0), &[]);
    // Of the whole machine 0.3 are left over: they count as used by nobody of these.
    for (account, user, cpus) in
        [("B", "user1", 200), ("C", "user2", 250), ("E", "user4", 250), ("others", "x", 300)]
    {
        site.used(account, user, cpus);
    }
    let shares = site.shares(1);
    for (account, user, norm, effective, factor) in [
        ("B", "user1", 300_000_000, 387_500_000, 408_479_000),
        ("C", "user2", 50_000_000, 275_000_000, 22_097_000),
        ("C", "user3", 50_000_000, 150_000_000, 125_000_000),
        ("E", "user4", 250_000_000, 250_000_000, 500_000_000),
        ("F", "user5", 350_000_000, 145_833_333, 749_154_000),
    ] {
        let row = shares.row(account, user).unwrap();
        close(row.norm_shares, norm);
        close(row.effective_usage, effective);
        close(row.factor, factor);
    }
}

#[test]
fn users_with_their_parents_share_have_one_factor() {
    let mut site = Site::new(FairShareMode::Classic, None);
    let up = Shares::Parent;
    site.account("A", "", Shares::Of(1), &[("a", up), ("b", up)]);
    site.account("B", "", Shares::Of(1), &[]);
    site.used("A", "a", 10);
    let shares = site.shares(1);
    assert_eq!(shares.factor("A", "a"), shares.factor("A", "b"));
    // All of the machine at half of the shares: 2^-2.
    close(shares.factor("A", "a"), 250_000_000);
}

#[test]
fn use_counts_as_it_runs_and_decays_by_halves() {
    let mut site = Site::new(FairShareMode::Tree, Some(1000));
    site.account("lab", "", Shares::Of(1), &[]);
    site.account("team", "lab", Shares::Of(1), &[]);
    let job = site.start(0, "team", "ada", 10);
    let user = Holder::User { account: "team".into(), user: "ada".into() };
    let lab = Holder::Account("lab".into());
    // 10 CPUs for 100 s, hardly decayed: 10 × 1000/ln 2 × (1 − 2^-0.1).
    assert_eq!(site.billed(&user, 100), 966);
    site.end(100, 100, job);
    assert_eq!(site.billed(&user, 100), 966);
    assert_eq!(site.billed(&user, 1100), 483);
    assert_eq!(site.billed(&lab, 2100), 241);
    // Looking changes nothing; the whole is what the parts are.
    assert_eq!(site.state.usage.get(&lab).unwrap().running, 0);
}

#[test]
fn a_usage_factor_counts_and_late_news_is_not_charged() {
    let mut site = Site::new(FairShareMode::Tree, None);
    site.account("lab", "", Shares::Of(1), &[]);
    let qos = |name: &str, factor| Qos {
        name: name.into(),
        usage_factor: Some(factor),
        ..Qos::default()
    };
    site.at(0, EventKind::QosSet { qos: qos("dear", 2500) });
    let job = site.start_as(0, "lab", "ada", "dear", 4);
    // The daemon was away: the job ended at 10, and this is known at 1000.
    site.end(1000, 10, job);
    let user = Holder::User { account: "lab".into(), user: "ada".into() };
    assert_eq!(site.billed(&user, 1000), 100);
    assert_eq!(site.billed(&Holder::Qos("dear".into()), 1000), 100);
    let spent = site.state.spent(&user, Timestamp::from_secs(1000));
    assert_eq!((spent.minutes(&TresKind::Cpu), spent.wall_ms), (1, 10_000));
}

#[test]
fn use_is_cleared_where_a_period_begins() {
    let mut site = Site::new(FairShareMode::Tree, None);
    let mut policy = Policy::clone(&site.state.policy);
    policy.priority.usage_reset = UsageReset::Daily;
    site.at(0, EventKind::PolicySet { policy: Box::new(policy) });
    site.account("lab", "", Shares::Of(1), &[]);
    let done = site.start(80_000, "lab", "ada", 1);
    site.end(80_100, 80_100, done);
    site.start(86_300, "lab", "mara", 2);
    let user = |name: &str| Holder::User { account: "lab".into(), user: name.into() };
    assert_eq!(site.billed(&user("ada"), 86_399), 100);
    assert_eq!(site.billed(&user("ada"), 86_400), 0);
    // What still runs counts from midnight on.
    assert_eq!(site.billed(&user("mara"), 86_399), 198);
    assert_eq!(site.billed(&user("mara"), 86_410), 20);
}

#[test]
fn a_stored_state_counts_on_as_before() {
    let mut site = Site::new(FairShareMode::Tree, Some(500));
    site.account("lab", "", Shares::Of(1), &[]);
    site.account("team", "lab", Shares::Of(1), &[]);
    site.start(0, "team", "ada", 10);
    let done = site.start(5, "team", "mara", 3);
    site.end(50, 50, done);
    site.at(60, EventKind::Round);
    let text = serde_json::to_string(&site.state).unwrap();
    let back: State = serde_json::from_str(&text).unwrap();
    assert_eq!(back, site.state);
    // A team that moves takes what it used along.
    let before = site.billed(&Holder::Account("lab".into()), 60);
    assert!(before > 0);
    site.account("team", "", Shares::Of(1), &[]);
    assert_eq!(site.billed(&Holder::Account("lab".into()), 60), 0);
    assert_eq!(site.billed(&Holder::Account("team".into()), 60), before);
    assert_eq!(site.state.usage.get(&Holder::Account("team".into())).unwrap().running, 1);
}

#[test]
fn from_before_there_were_tallies() {
    let mut site = Site::new(FairShareMode::Tree, None);
    site.account("lab", "", Shares::Of(1), &[]);
    site.start(0, "lab", "ada", 10);
    let mut value: serde_json::Value = serde_json::to_value(&site.state).unwrap();
    value.as_object_mut().unwrap().remove("usage");
    let back: State = serde_json::from_value(value).unwrap();
    let tally = back.usage.get(&Holder::Account("lab".into())).unwrap();
    assert_eq!((tally.running, tally.in_use.get(&TresKind::Cpu)), (1, 10));
    let spent = back.spent(&Holder::Account("lab".into()), Timestamp::from_secs(7));
    assert_eq!(spent.seconds(&TresKind::Billing), 70);
    assert_eq!(NodeId(0), back.nodes.get_min().unwrap().0);
}
