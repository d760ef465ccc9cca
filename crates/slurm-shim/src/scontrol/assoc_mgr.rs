//! `scontrol show assoc_mgr`: associations and QOS with limits and what of them is used (scontrol
//! manual, `show assoc_mgr`). A limit is shown as `LIMIT(USED)`, none as `N(USED)`.

use muster_api::{AccountView, MemberView, QosView, ShareLine, UseView};
use muster_client::Client;
use muster_model::{AssociationLimits, GroupLimits, Seconds, Tres, TresKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::fail::{Failure, Outcome};
use crate::sacctmgr;
use crate::{ident, out};

/// What is asked for: `users=`, `accounts=`, `qos=`, `flags=`.
#[derive(Debug, Default)]
struct Wanted {
    users: Option<Vec<String>>,
    accounts: Option<Vec<String>>,
    qos: Option<Vec<String>>,
    flags: Option<Vec<String>>,
}

impl Wanted {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let mut wanted = Self::default();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let key = key.to_ascii_lowercase();
            let is = |name: &str| !key.is_empty() && name.starts_with(&key);
            let list = if is("users") {
                &mut wanted.users
            } else if is("accounts") {
                &mut wanted.accounts
            } else if is("qos") {
                &mut wanted.qos
            } else if is("flags") {
                &mut wanted.flags
            } else {
                return Err(Failure::error(
                    "scontrol",
                    &format!("invalid assoc_mgr entity: {word}"),
                ));
            };
            let more = value.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            list.get_or_insert_default().extend(more);
        }
        Ok(wanted)
    }

    /// Whether a part of the answer is wanted; without flags all are.
    fn part(&self, name: &str) -> bool {
        let begins = |flag: &String| name.starts_with(&flag.to_ascii_lowercase());
        self.flags.as_ref().is_none_or(|flags| flags.iter().any(begins))
    }
}

fn among(list: Option<&Vec<String>>, name: &str) -> bool {
    list.is_none_or(|names| names.iter().any(|wanted| wanted == name))
}

/// Shows it.
pub(super) fn show(client: &Client, words: &[&str]) -> Outcome {
    let failed = |error| Failure::client("scontrol", &error);
    let wanted = Wanted::read(words)?;
    let accounts = client.accounts().map_err(failed)?;
    let qos = client.qos().map_err(failed)?;
    let shares = client.shares().map_err(failed)?.rows;
    let cluster = client.ping().map_err(failed)?.cluster;
    out::print(&text(&wanted, &cluster, &accounts, &qos, &shares));
    Ok(0)
}

fn text(
    wanted: &Wanted,
    cluster: &str,
    accounts: &[AccountView],
    qos: &[QosView],
    shares: &[ShareLine],
) -> String {
    let mut text = "Current Association Manager state\n".to_owned();
    // Writing to a string cannot fail.
    if wanted.part("users") {
        text.push_str("\nUser Records\n\n");
        let people: BTreeSet<String> = accounts.iter().flat_map(sacctmgr::named).collect();
        for user in people.iter().filter(|user| among(wanted.users.as_ref(), user)) {
            let own = sacctmgr::default_account(accounts, user);
            let admin = if user == "root" { "Administrator" } else { "None" };
            let _ = writeln!(
                text,
                "UserName={} DefAccount={own} DefWckey= AdminLevel={admin}",
                numbered(user)
            );
        }
    }
    if wanted.part("assoc") {
        text.push_str("\nAssociation Records\n\n");
        let share = |account: &str, user: Option<&str>| {
            shares.iter().find(|row| row.account == account && row.user.as_deref() == user)
        };
        let mut id = 0;
        for account in accounts {
            id += 1;
            let shown = among(wanted.accounts.as_ref(), &account.name);
            if shown && wanted.users.is_none() {
                let head = Head { cluster, account, user: None, id };
                let limits = (&account.limits, &account.used);
                association(&mut text, &head, share(&account.name, None), limits);
            }
            for (user, MemberView { limits, used, .. }) in &account.members {
                id += 1;
                if shown && among(wanted.users.as_ref(), user) {
                    let head = Head { cluster, account, user: Some(user), id };
                    let own = share(&account.name, Some(user));
                    association(&mut text, &head, own, (limits, used));
                }
            }
        }
    }
    if wanted.part("qos") {
        text.push_str("\nQOS Records\n\n");
        for (at, qos) in qos.iter().enumerate() {
            if among(wanted.qos.as_ref(), &qos.name) {
                of_qos(&mut text, at + 1, qos);
            }
        }
    }
    text
}

/// `alice(2001)`; a name that is no user of this machine has no number.
fn numbered(user: &str) -> String {
    ident::uid_of(user).map_or_else(|| user.to_owned(), |uid| format!("{user}({uid})"))
}

/// Which association.
struct Head<'a> {
    cluster: &'a str,
    account: &'a AccountView,
    user: Option<&'a String>,
    id: usize,
}

/// `LIMIT(USED)` of a number; no limit is `N`.
fn number(limit: Option<u32>, used: u64) -> String {
    format!("{}({used})", limit.map_or_else(|| "N".to_owned(), |limit| limit.to_string()))
}

/// The same for each resource that is limited or used.
fn amounts(limit: &Tres, used: &Tres) -> String {
    let kinds: BTreeSet<&TresKind> =
        limit.iter().chain(used.iter()).map(|(kind, _)| kind).collect();
    let one = |kind: &TresKind| {
        let most = limit.limit(kind).map_or_else(|| "N".to_owned(), |most| most.to_string());
        format!("{kind}={most}({})", used.get(kind))
    };
    kinds.into_iter().map(one).collect::<Vec<_>>().join(",")
}

fn minutes(limit: Option<Seconds>) -> String {
    limit.map_or_else(|| "N".to_owned(), |limit| (limit.0 / 60).to_string())
}

fn bare<T: ToString>(limit: Option<T>) -> String {
    limit.map(|limit| limit.to_string()).unwrap_or_default()
}

fn wall(limit: Option<Seconds>) -> String {
    bare(limit.map(|limit| limit.0 / 60))
}

/// What is limited of all together, beside what is used of it.
fn group_lines(limits: &GroupLimits, used: &UseView) -> [String; 5] {
    [
        format!("GrpJobs={} GrpJobsAccrue=N(0)", number(limits.jobs, u64::from(used.running))),
        format!(
            "GrpSubmitJobs={} GrpWall={}({}.00)",
            number(limits.submit_jobs, u64::from(used.submitted)),
            minutes(limits.wall),
            used.wall_minutes
        ),
        format!("GrpTRES={}", amounts(&limits.tres, &used.in_use)),
        format!("GrpTRESMins={}", amounts(&limits.tres_mins, &used.minutes)),
        format!("GrpTRESRunMins={}", amounts(&limits.tres_run_mins, &used.run_minutes)),
    ]
}

/// Billionths with two places.
fn hundredths(billionths: u64) -> String {
    format!("{}.{:02}", billionths / 1_000_000_000, billionths % 1_000_000_000 / 10_000_000)
}

fn association(
    text: &mut String,
    head: &Head<'_>,
    share: Option<&ShareLine>,
    (limits, used): (&AssociationLimits, &UseView),
) {
    let Head { cluster, account, user, id } = head;
    let default = user.is_some_and(|user| account.default_for.contains(user));
    let _ = writeln!(
        text,
        "ClusterName={cluster} Account={} UserName={} Partition= Priority={} ID={id}",
        account.name,
        user.map(|user| numbered(user)).unwrap_or_default(),
        user.map_or(account.priority, |user| account.members.get(user)?.priority).unwrap_or(0)
    );
    let mut lines = Vec::new();
    if let Some(row) = share {
        let raw = row.shares.map_or_else(|| "parent".to_owned(), |shares| shares.to_string());
        let level = row.level.map_or_else(|| "inf".to_owned(), hundredths);
        let (norm, factor) = (hundredths(row.norm_shares), hundredths(row.fair_share));
        lines.push(format!("SharesRaw/Norm/Level/Factor={raw}/{norm}/{level}/{factor}"));
        lines.push(format!(
            "UsageRaw/Norm/Efctv={}.00/{}/{}",
            row.raw_usage,
            hundredths(row.norm_usage),
            hundredths(row.effective_usage)
        ));
    }
    lines.push(format!(
        "ParentAccount={} Lft={id} DefAssoc={}",
        account.parent.as_deref().filter(|_| user.is_none()).unwrap_or_default(),
        if default { "Yes" } else { "No" }
    ));
    lines.extend(group_lines(&limits.group, used));
    let each = |limit: Option<u32>, used: u32| match (limit, user) {
        (Some(limit), Some(_)) => format!("{limit}({used})"),
        (limit, _) => bare(limit),
    };
    lines.extend([
        format!(
            "MaxJobs={} MaxJobsAccrue= MaxSubmitJobs={} MaxWallPJ={}",
            each(limits.max_jobs, used.running),
            each(limits.max_submit_jobs, used.submitted),
            wall(limits.max_wall)
        ),
        format!("MaxTRESPJ={}", limits.max_tres),
        format!("MaxTRESPN={}", limits.max_tres_per_node),
        format!("MaxTRESMinsPJ={}", limits.max_tres_mins),
        "MinPrioThresh=".to_owned(),
    ]);
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
}

fn of_qos(text: &mut String, id: usize, qos: &QosView) {
    let limits = &qos.limits;
    let _ = writeln!(text, "QOS={}({id})", qos.name);
    let mut lines = vec![format!("UsageRaw={}.000000", qos.used.billed_s)];
    lines.extend(group_lines(&limits.group, &qos.used));
    lines.extend([
        format!("MaxWallPJ={}", wall(limits.max_wall)),
        format!("MaxTRESPJ={}", limits.max_tres_per_job),
        format!("MaxTRESPN={}", limits.max_tres_per_node),
        format!("MaxTRESMinsPJ={}", limits.max_tres_mins_per_job),
        format!("MinPrioThresh={}", bare(limits.min_prio_threshold)),
        format!("MinTRESPJ={}", limits.min_tres_per_job),
        format!("PreemptMode={}", sacctmgr::preempt_mode(qos).to_ascii_uppercase()),
        format!("Priority={}", qos.priority),
    ]);
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("    Account Limits\n");
    if qos.accounts.is_empty() {
        text.push_str("        No Accounts\n");
    }
    for (name, used) in &qos.accounts {
        let _ = writeln!(
            text,
            "      {name}\n        MaxJobsPA={} MaxJobsAccruePA=N(0) MaxSubmitJobsPA={}\n        MaxTRESPA={}",
            number(limits.max_jobs_per_account, u64::from(used.running)),
            number(limits.max_submit_jobs_per_account, u64::from(used.submitted)),
            amounts(&limits.max_tres_per_account, &used.in_use)
        );
    }
    text.push_str("    User Limits\n");
    if qos.users.is_empty() {
        text.push_str("        No Users\n");
    }
    for (name, used) in &qos.users {
        let _ = writeln!(
            text,
            "      {}\n        MaxJobsPU={} MaxJobsAccruePU=N(0) MaxSubmitJobsPU={}\n        MaxTRESPU={}",
            numbered(name),
            number(limits.max_jobs_per_user, u64::from(used.running)),
            number(limits.max_submit_jobs_per_user, u64::from(used.submitted)),
            amounts(&limits.max_tres_per_user, &used.in_use)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tres(items: &[(TresKind, u64)]) -> Tres {
        items.iter().cloned().collect()
    }

    #[test]
    fn limits_and_use_stand_side_by_side_as_slurm_writes_them() {
        let mut account = AccountView {
            name: "lab".into(),
            parent: Some("faculty".into()),
            shares: Some(1),
            ..AccountView::default()
        };
        account.limits.group.jobs = Some(8);
        account.limits.group.tres = tres(&[(TresKind::Gpu(None), 8)]);
        let used = UseView {
            running: 2,
            submitted: 3,
            in_use: tres(&[(TresKind::Cpu, 4), (TresKind::Gpu(None), 6)]),
            ..UseView::default()
        };
        account.used = used.clone();
        let mut member = MemberView { used, ..MemberView::default() };
        member.limits.max_jobs = Some(10);
        member.limits.max_wall = Some(Seconds(7200));
        account.members.insert("no-such-user".into(), member);
        let wanted = Wanted::read(&["flags=assoc"]).expect("it can be read");
        let text = text(&wanted, "c", &[account], &[], &[]);
        assert!(!text.contains("QOS Records") && !text.contains("User Records"), "{text}");
        for line in [
            "ClusterName=c Account=lab UserName= Partition= Priority=0 ID=1\n",
            "    ParentAccount=faculty Lft=1 DefAssoc=No\n",
            "    GrpJobs=8(2) GrpJobsAccrue=N(0)\n    GrpSubmitJobs=N(3) GrpWall=N(0.00)\n",
            "    GrpTRES=cpu=N(4),gres/gpu=8(6)\n",
            "ClusterName=c Account=lab UserName=no-such-user Partition= Priority=0 ID=2\n",
            "    MaxJobs=10(2) MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=120\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn a_qos_shows_its_users_and_accounts() {
        let mut qos = QosView { name: "normal".into(), priority: 5, ..QosView::default() };
        qos.limits.max_tres_per_user = tres(&[(TresKind::Gpu(None), 4)]);
        let mut text = String::new();
        of_qos(&mut text, 1, &qos);
        assert!(text.ends_with(
            "    Priority=5\n    Account Limits\n        No Accounts\n    User Limits\n        No Users\n"
        ));
        let used =
            UseView { running: 1, in_use: tres(&[(TresKind::Gpu(None), 2)]), ..UseView::default() };
        qos.users.insert("no-such-user".into(), used);
        let mut text = String::new();
        of_qos(&mut text, 1, &qos);
        assert!(text.ends_with(
            "      no-such-user\n        MaxJobsPU=N(1) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(0)\n        \
             MaxTRESPU=gres/gpu=4(2)\n"
        ), "{text}");
    }

    #[test]
    fn other_words_are_refused() {
        assert!(Wanted::read(&["colour=blue"]).is_err());
        let some = Wanted::read(&["users=ann,bob", "qos=high"]).expect("it can be read");
        assert!(among(some.users.as_ref(), "bob") && !among(some.qos.as_ref(), "normal"));
    }
}
