//! Accounts, users in them and qualities of service: shares, limits and what of them is used, as
//! slurmctld has them (`scontrol -o show assoc_mgr`). An ordinary user may ask for it unless the
//! site has it private; then there is none here.

use super::record::Record;
use muster_model::{
    Account, AssociationLimits, GroupLimits, Member, Qos, QosLimits, Seconds, Shares, Tres,
    TresKind,
};
use std::collections::BTreeMap;

/// A user in an account, or an account (no user).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssociationRecord {
    /// The account.
    pub account: String,
    /// The user; `None` for the account itself.
    pub user: Option<String>,
    /// The account above it.
    pub parent: Option<String>,
    /// Its shares.
    pub shares: Shares,
    /// Its fair share factor, in thousandths; 0 for an account under fair tree.
    pub factor_milli: u32,
    /// What was billed to it, decayed, in whole seconds.
    pub usage: u64,
    /// Its limits.
    pub limits: AssociationLimits,
    /// What it holds now.
    pub in_use: Tres,
}

/// The associations and qualities of service of a Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Associations {
    /// Accounts and users.
    pub rows: Vec<AssociationRecord>,
    /// The qualities of service with the use that was billed, in whole seconds.
    pub qos: Vec<(Qos, u64)>,
}

/// What `scontrol -o show assoc_mgr` tells. Associations with one partition only are passed over.
pub(super) fn of(text: &str) -> Result<Associations, String> {
    let mut found = Associations::default();
    for line in text.lines() {
        let record = Record::of(line);
        if let Some(account) = record.get("Account").filter(|_| line.starts_with("ClusterName=")) {
            if record.get("Partition").is_none() {
                found.rows.push(association(account, &record)?);
            }
        } else if line.starts_with("QOS=")
            && let Some(name) = record.get("QOS")
        {
            found.qos.push(qos(plain(name), line, &record)?);
        }
    }
    Ok(found)
}

/// `ml(3)` without the number.
fn plain(name: &str) -> &str {
    name.rsplit_once('(').map_or(name, |(name, _)| name)
}

fn association(account: &str, record: &Record) -> Result<AssociationRecord, String> {
    let of = |why: String| format!("association in {account}: {why}");
    let sharing = record.get("SharesRaw/Norm/Level/Factor").unwrap_or_default();
    let mut parts = sharing.split('/');
    let raw = parts.next().and_then(|raw| raw.parse::<u32>().ok());
    let factor = parts.next_back().unwrap_or_default();
    Ok(AssociationRecord {
        account: account.to_owned(),
        user: record.get("UserName").map(|name| plain(name).to_owned()),
        parent: record.get("ParentAccount").map(|name| plain(name).to_owned()),
        // Slurm's number for FairShare=parent is the largest that it has.
        shares: raw.filter(|raw| *raw < i32::MAX as u32).map_or(Shares::Parent, Shares::Of),
        factor_milli: thousandths(factor) as u32,
        usage: thousandths(first_of(record.get("UsageRaw/Norm/Efctv"))) / 1000,
        in_use: tres(record.get("GrpTRES"), used).map_err(of)?,
        limits: AssociationLimits {
            group: group(record).map_err(of)?,
            max_jobs: count(record, "MaxJobs").map_err(of)?,
            max_submit_jobs: count(record, "MaxSubmitJobs").map_err(of)?,
            max_tres: tres(record.get("MaxTRESPJ"), limit).map_err(of)?,
            max_tres_per_node: tres(record.get("MaxTRESPN"), limit).map_err(of)?,
            max_tres_mins: tres(record.get("MaxTRESMinsPJ"), limit).map_err(of)?,
            max_wall: minutes(record, "MaxWallPJ").map_err(of)?,
        },
    })
}

fn qos(name: &str, line: &str, record: &Record) -> Result<(Qos, u64), String> {
    let of = |why: String| format!("QOS {name}: {why}");
    // Limits of each user and account stand once for each of them that has jobs, all alike.
    let each = |key: &str| -> Result<Option<u32>, String> {
        let value = of_each(line, key).and_then(limit);
        value.map(|n| n.parse().map_err(|_| format!("{key}={n} is no whole number"))).transpose()
    };
    let limits = QosLimits {
        group: group(record).map_err(of)?,
        max_jobs_per_user: each("MaxJobsPU").map_err(of)?,
        max_jobs_per_account: each("MaxJobsPA").map_err(of)?,
        max_submit_jobs_per_user: each("MaxSubmitJobsPU").map_err(of)?,
        max_submit_jobs_per_account: each("MaxSubmitJobsPA").map_err(of)?,
        max_tres_per_user: tres(of_each(line, "MaxTRESPU"), limit).map_err(of)?,
        max_tres_per_account: tres(of_each(line, "MaxTRESPA"), limit).map_err(of)?,
        max_tres_per_job: tres(record.get("MaxTRESPJ"), limit).map_err(of)?,
        max_tres_per_node: tres(record.get("MaxTRESPN"), limit).map_err(of)?,
        max_tres_mins_per_job: tres(record.get("MaxTRESMinsPJ"), limit).map_err(of)?,
        max_wall: minutes(record, "MaxWallPJ").map_err(of)?,
        min_tres_per_job: tres(record.get("MinTRESPJ"), limit).map_err(of)?,
        min_prio_threshold: None,
    };
    // Behind it begins the list of accounts, with a title of two words.
    let priority = of_each(line, " Priority").unwrap_or("0");
    let priority = priority.parse().map_err(|_| of(format!("Priority={priority}")))?;
    let usage = thousandths(record.get("UsageRaw").unwrap_or_default()) / 1000;
    Ok((Qos { name: name.to_owned(), priority, limits, ..Qos::default() }, usage))
}

fn group(record: &Record) -> Result<GroupLimits, String> {
    Ok(GroupLimits {
        jobs: count(record, "GrpJobs")?,
        submit_jobs: count(record, "GrpSubmitJobs")?,
        tres: tres(record.get("GrpTRES"), limit)?,
        tres_mins: tres(record.get("GrpTRESMins"), limit)?,
        tres_run_mins: tres(record.get("GrpTRESRunMins"), limit)?,
        wall: minutes(record, "GrpWall")?,
    })
}

/// What stands before the parenthesis of `LIMIT(USED)`; `None` where that is `N`.
fn limit(text: &str) -> Option<&str> {
    let limit = text.split('(').next().unwrap_or_default();
    (!limit.is_empty() && limit != "N").then_some(limit)
}

/// What stands in the parentheses of `LIMIT(USED)`.
fn used(text: &str) -> Option<&str> {
    let (_, used) = text.split_once('(')?;
    Some(used.trim_end_matches([')', '}'])).filter(|used| *used != "0")
}

fn count(record: &Record, key: &str) -> Result<Option<u32>, String> {
    let value = record.get(key).and_then(limit);
    value.map(|n| n.parse().map_err(|_| format!("{key}={n} is no whole number"))).transpose()
}

fn minutes(record: &Record, key: &str) -> Result<Option<Seconds>, String> {
    Ok(count(record, key)?.map(|minutes| Seconds::minutes(u64::from(minutes))))
}

/// `cpu=N(18),gres/gpu=8(3)`: of each what `which` takes of it. Kinds that are not given out
/// (energy, pages) are passed over.
fn tres(text: Option<&str>, which: fn(&str) -> Option<&str>) -> Result<Tres, String> {
    let mut found = Tres::default();
    for entry in text.unwrap_or_default().split(',').filter(|entry| !entry.is_empty()) {
        let (kind, value) = entry.split_once('=').ok_or_else(|| format!("{entry} is no limit"))?;
        let (Ok(kind), Some(value)) = (kind.parse::<TresKind>(), which(value)) else { continue };
        let amount = value.parse().map_err(|_| format!("{entry} is no whole number"))?;
        found.put(kind, amount);
    }
    Ok(found)
}

/// The first value of this key in the braces of a QOS' users or accounts.
fn of_each<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{key}="))?;
    rest.split([' ', '}']).next()
}

fn first_of(text: Option<&str>) -> &str {
    text.and_then(|text| text.split('/').next()).unwrap_or_default()
}

/// A decimal number in thousandths, cut off after them; 0 for what is none.
fn thousandths(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    match (whole.parse::<u64>(), part.parse::<u64>()) {
        (Ok(whole), Ok(part)) => whole.saturating_mul(1000).saturating_add(part),
        _ => 0,
    }
}

impl Associations {
    /// As muster's accounts, each with its users. Limits on what was used over time
    /// (`GrpTRESMins`, `GrpWall`) are left out: only Slurm knows how much of them is spent.
    pub(super) fn accounts(&self) -> Vec<Account> {
        let mut accounts: BTreeMap<&str, Account> = BTreeMap::new();
        for row in &self.rows {
            let account = accounts.entry(&row.account).or_default();
            row.account.clone_into(&mut account.name);
            let limits = without_meters(&row.limits);
            match &row.user {
                Some(user) => {
                    let member = Member { shares: row.shares, limits, ..Member::default() };
                    account.members.insert(user.clone(), member);
                }
                None => {
                    account.parent.clone_from(&row.parent);
                    account.shares = row.shares;
                    account.limits = limits;
                }
            }
        }
        accounts.into_values().collect()
    }

    /// The qualities of service, with the limits that muster can count.
    pub(super) fn qualities(&self) -> impl Iterator<Item = Qos> {
        self.qos.iter().map(|(qos, _)| {
            let mut qos = qos.clone();
            qos.limits.group.tres_mins = Tres::default();
            qos.limits.group.wall = None;
            qos
        })
    }
}

fn without_meters(limits: &AssociationLimits) -> AssociationLimits {
    let mut limits = limits.clone();
    limits.group.tres_mins = Tres::default();
    limits.group.wall = None;
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_what_is_used_of_them_are_told_apart() {
        let text = "Association Records\n\
            ClusterName=bed Account=ml UserName= Partition= Priority=0 ID=3 \
            SharesRaw/Norm/Level/Factor=10/0.91/11/0.00 UsageRaw/Norm/Efctv=90.5/0.00/0.00 \
            ParentAccount=root(1) GrpJobs=5(2) GrpSubmitJobs=N(16) GrpWall=600(0.03) \
            GrpTRES=cpu=N(18),mem=4000(2600),energy=N(0),gres/gpu=8(11) \
            GrpTRESMins=cpu=100(3) GrpTRESRunMins=cpu=N(1020) MaxJobs= MaxWallPJ=60 MaxTRESPJ=\n\
            ClusterName=bed Account=ml UserName=ada(7) Partition= \
            SharesRaw/Norm/Level/Factor=2147483647/0.2/5/0.25 MaxJobs=3(1)\n\
            ClusterName=bed Account=ml UserName=ada(7) Partition=gpu MaxJobs=1(1)\n";
        let found = of(text).expect("understood");
        let [account, ada] = found.rows.as_slice() else { panic!("{found:?}") };
        assert_eq!((account.usage, account.parent.as_deref()), (90, Some("root")));
        assert_eq!(account.limits.group.jobs, Some(5));
        assert_eq!(account.limits.group.submit_jobs, None);
        assert_eq!(account.limits.group.wall, Some(Seconds(36_000)));
        assert_eq!(account.limits.group.tres.get(&TresKind::Mem), 4000);
        assert_eq!(account.in_use.get(&TresKind::Gpu(None)), 11);
        assert_eq!(account.limits.max_wall, Some(Seconds(3600)));
        assert_eq!((ada.shares, ada.factor_milli), (Shares::Parent, 250));
        assert_eq!(ada.limits.max_jobs, Some(3));
        let accounts = found.accounts();
        assert_eq!(accounts[0].limits.group.tres_mins, Tres::default());
        assert_eq!(accounts[0].members["ada"].limits.max_jobs, Some(3));
    }

    #[test]
    fn limits_of_each_user_of_a_qos_are_found_in_their_braces() {
        let line = "QOS=high(2) UsageRaw=0.5 GrpJobs=N(0) MaxWallPJ= PreemptMode=OFF Priority=10 \
            Account Limits= ml={MaxJobsPA=N(0) MaxTRESPA=cpu=N(0)} User Limits= \
            0={MaxJobsPU=20(0) MaxSubmitJobsPU=N(1) MaxTRESPU=cpu=N(0),gres/gpu=4(0)}";
        let found = of(line).expect("understood");
        let limits = &found.qos[0].0.limits;
        assert_eq!((found.qos[0].0.name.as_str(), found.qos[0].0.priority), ("high", 10));
        assert_eq!((limits.max_jobs_per_user, limits.max_jobs_per_account), (Some(20), None));
        assert_eq!(limits.max_tres_per_user.get(&TresKind::Gpu(None)), 4);
        assert_eq!(limits.max_submit_jobs_per_user, None);
    }
}
