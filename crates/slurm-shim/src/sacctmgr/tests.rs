//! The tables, against Slurm's own.

use super::*;

fn accounts() -> Vec<AccountView> {
    let open = AccountView { name: "default".into(), ..AccountView::default() };
    let closed = AccountView {
        name: "research".into(),
        parent: Some("default".into()),
        users: Some(BTreeSet::from(["root".to_owned()])),
        ..AccountView::default()
    };
    vec![open, closed]
}

fn shown(words: &str, rows: &[Row], default: &str) -> String {
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let parsed = getopt::parse("sacctmgr", TABLE, &words, Order::Mixed).expect("read");
    let rest: Vec<&str> = parsed.words.iter().skip(2).map(String::as_str).collect();
    let query = Query::read(&rest).expect("read");
    let format = query.format.unwrap_or(default.to_owned());
    table(&format, rows, &parsed).unwrap_or_else(|f| panic!("{}", f.text))
}

#[test]
fn snakemake_finds_the_accounts_of_a_user() {
    let query = Query::read(&["root", "format=account%256"]).expect("read");
    let rows = users(&accounts(), "bed", &query, true);
    let text = shown("-n -s list user root format=account%256", &rows, "");
    let found: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(found, ["default", "research"]);
}

#[test]
fn bars_and_titles_are_slurms() {
    let query = Query { names: vec!["root".into()], ..Query::default() };
    let rows = users(&accounts(), "bed", &query, true);
    assert_eq!(
        shown("-n -P list user root format=user,account", &rows, ""),
        "root|default\nroot|research\n"
    );
    assert_eq!(
        shown("list user root", &users(&accounts(), "bed", &query, false), user_fields(false)),
        "      User   Def Acct     Admin 
---------- ---------- --------- 
      root    default Administ+ 
"
    );
}

#[test]
fn associations_have_their_shares_and_limits() {
    let mut all = accounts();
    all[1].shares = Some(40);
    all[1].limits.group.tres.put(muster_model::TresKind::Gpu(None), 8);
    let mut member = MemberView { shares: None, priority: Some(9), ..MemberView::default() };
    member.limits.max_wall = Some(Seconds(3 * 86_400));
    all[1].members.insert("root".into(), member);
    let rows = associations(&all, "bed", &Query::read(&["account=research"]).expect("read"));
    assert_eq!(
        shown("-P list assoc format=acc,user,share,prio,grptres,maxwall,parent", &rows, ""),
        "Account|User|Share|Priority|GrpTRES|MaxWall|ParentName\n\
             research||40||gres/gpu=8||default\n\
             research|root|parent|9||3-00:00:00|\n"
    );
}

#[test]
fn a_qos_has_every_column_of_slurms() {
    let mut qos =
        QosView { name: "high".into(), priority: 5, usage_factor: 1500, ..QosView::default() };
    qos.preempts.insert("low".into());
    qos.flags.push("DenyOnLimit".into());
    qos.limits.max_jobs_per_user = Some(3);
    assert_eq!(
        shown("-P list qos", &[of_qos(&qos)], QOS_FIELDS),
        "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|\
             UsageFactor|GrpTRES|GrpTRESMins|GrpTRESRunMins|GrpJobs|GrpSubmit|GrpWall|MaxTRES|\
             MaxTRESPerNode|MaxTRESMins|MaxWall|MaxTRESPU|MaxJobsPU|MaxSubmitPU|MaxTRESPA|MaxJobsPA|\
             MaxSubmitPA|MinTRES\n\
             high|5|00:00:00|low||cluster|DenyOnLimit||1.500000||||||||||||3|||||\n"
    );
}

#[test]
fn a_change_says_where_it_is_made_in_one_line() {
    let text = changes("modify", Entity::of("qos")).text;
    assert!(text.contains("edit [[qos]] in ") && text.lines().count() == 1, "{text}");
    assert_eq!(changes("frobnicate", None).text, "invalid keyword: frobnicate");
    assert!(Query::read(&["colour=blue"]).is_err());
    assert_eq!(Entity::of("assoc"), Some(Entity::Association));
    assert_eq!(Entity::of("acc"), Some(Entity::Account));
    assert_eq!(Entity::of("tres"), None);
}
