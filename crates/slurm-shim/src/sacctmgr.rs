//! `sacctmgr list …`: associations, accounts, users and QOS (sacctmgr manual).
//!
//! Changes are refused with where to make them: accounts stand in muster's configuration file.

use std::collections::BTreeSet;

use muster_api::{AccountView, MemberView, QosView};
use muster_client::Client;
use muster_model::{AssociationLimits, PreemptMode, Seconds, TimeLimit, Tres};
use muster_slurm_syntax::duration::print_long;

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, flag, value};
use crate::{ident, out};

const TABLE: &[Opt] = &[
    flag("associations", 's'),
    flag("help", 'h'),
    flag("immediate", 'i'),
    getopt::maybe("json", NO_SHORT),
    flag("noheader", 'n'),
    flag("oneliner", 'o'),
    flag("parsable", 'p'),
    flag("parsable2", 'P'),
    flag("quiet", 'Q'),
    flag("readonly", 'r'),
    flag("usage", NO_SHORT),
    flag("verbose", 'v'),
    flag("version", 'V'),
    value("autocomplete", NO_SHORT),
];

/// A field of a list: its name in `format=`, its title and its width.
type Field = (&'static str, &'static str, usize);

const FIELDS: &[Field] = &[
    ("account", "Account", 10),
    ("adminlevel", "Admin", 9),
    ("cluster", "Cluster", 10),
    ("controlhost", "ControlHost", 15),
    ("controlport", "ControlPort", 12),
    ("defaultaccount", "Def Acct", 10),
    ("defaultqos", "Def QOS", 9),
    ("description", "Descr", 20),
    ("fairshare", "Share", 9),
    ("flags", "Flags", 20),
    ("gracetime", "GraceTime", 10),
    ("grpjobs", "GrpJobs", 7),
    ("grpsubmit", "GrpSubmit", 9),
    ("grptres", "GrpTRES", 13),
    ("grptresmins", "GrpTRESMins", 13),
    ("grptresrunmins", "GrpTRESRunMins", 13),
    ("grpwall", "GrpWall", 11),
    ("id", "ID", 6),
    ("lft", "LFT", 6),
    ("maxjobs", "MaxJobs", 7),
    ("maxjobspa", "MaxJobsPA", 9),
    ("maxjobspu", "MaxJobsPU", 9),
    ("maxsubmit", "MaxSubmit", 9),
    ("maxsubmitpa", "MaxSubmitPA", 11),
    ("maxsubmitpu", "MaxSubmitPU", 11),
    ("maxtres", "MaxTRES", 13),
    ("maxtresmins", "MaxTRESMins", 13),
    ("maxtrespernode", "MaxTRESPerNode", 14),
    ("maxtrespa", "MaxTRESPA", 13),
    ("maxtrespu", "MaxTRESPU", 13),
    ("maxwall", "MaxWall", 11),
    ("minpriothresh", "MinPrioThresh", 13),
    ("mintres", "MinTRES", 13),
    ("name", "Name", 10),
    ("organization", "Org", 20),
    ("parentname", "ParentName", 10),
    ("partition", "Partition", 10),
    ("preempt", "Preempt", 10),
    ("preemptexempttime", "PreemptExemptTime", 19),
    ("preemptmode", "PreemptMode", 11),
    ("priority", "Priority", 10),
    ("qos", "QOS", 20),
    ("rpc", "RPC", 5),
    ("share", "Share", 9),
    ("usagefactor", "UsageFactor", 11),
    ("usagethres", "UsageThres", 10),
    ("user", "User", 10),
    ("wckeys", "WCKeys", 10),
];

/// What is known of a row, by field name; every other field is empty.
type Row = Vec<(&'static str, String)>;

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let parsed = getopt::parse("sacctmgr", TABLE, args, Order::Mixed)
        .map_err(|message| Failure::usage("sacctmgr", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    let words: Vec<&str> = parsed.words.iter().map(String::as_str).collect();
    let (Some(verb), Some(entity)) = (words.first(), words.get(1)) else {
        return crate::help("sacctmgr", TABLE);
    };
    let verb = verb.to_ascii_lowercase();
    let entity = Entity::of(entity);
    if !["list", "show"].iter().any(|known| verb.len() >= 3 && known.starts_with(&verb)) {
        return Err(changes(&verb, entity));
    }
    let Some(entity) = entity else {
        let text = format!("list {} is not offered yet", words[1]);
        return Err(Failure::error("sacctmgr", &text));
    };
    let query = Query::read(&words[2..])?;
    let failed = |error| Failure::client("sacctmgr", &error);
    let client = Client::connect().map_err(failed)?;
    let cluster = client.ping().map_err(failed)?.cluster;
    let with = parsed.has("associations") || query.associations;
    let accounts = || client.accounts().map_err(failed);
    let (default, rows) = match entity {
        Entity::User => (user_fields(with), users(&accounts()?, &cluster, &query, with)),
        Entity::Association => (ASSOCIATION_FIELDS, associations(&accounts()?, &cluster, &query)),
        Entity::Account => {
            let rows = of_accounts(&accounts()?, &cluster, &query, with);
            (account_fields(with), rows)
        }
        Entity::Qos => {
            let all = client.qos().map_err(failed)?;
            let asked = all.iter().filter(|qos| query.takes(&qos.name, ""));
            (QOS_FIELDS, asked.map(of_qos).collect())
        }
        Entity::Cluster => ("cluster,controlhost,controlport,rpc,share,qos,defaultqos", {
            let row = vec![
                ("cluster", cluster.clone()),
                ("controlhost", "127.0.0.1".to_owned()),
                ("controlport", "0".to_owned()),
                ("rpc", "9728".to_owned()),
                ("share", "1".to_owned()),
                ("qos", "normal".to_owned()),
            ];
            vec![row]
        }),
    };
    let rows: Vec<Row> = if query.clusters.is_empty() || query.clusters.contains(&cluster) {
        rows
    } else {
        Vec::new()
    };
    let format = query.format.as_deref().unwrap_or(default);
    out::print(&table(format, &rows, &parsed)?);
    Ok(0)
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entity {
    User,
    Association,
    Account,
    Qos,
    Cluster,
}

impl Entity {
    /// What a word, or the beginning of one, names.
    fn of(word: &str) -> Option<Self> {
        let lower = word.to_ascii_lowercase();
        let names = [
            ("users", 1, Self::User),
            ("associations", 2, Self::Association),
            ("accounts", 2, Self::Account),
            ("qos", 1, Self::Qos),
            ("clusters", 2, Self::Cluster),
        ];
        let is = |(name, least, _): &&(&str, usize, Self)| {
            lower.len() >= *least && name.starts_with(&lower)
        };
        names.iter().find(is).map(|(.., entity)| *entity)
    }
}

/// Where a change is made: in the file that is read here.
fn changes(verb: &str, entity: Option<Entity>) -> Failure {
    let known = ["add", "create", "modify", "update", "delete", "remove", "dump", "load"];
    if !known.iter().any(|word| verb.len() >= 3 && word.starts_with(verb)) {
        return Failure::says(format!("invalid keyword: {verb}"));
    }
    let section = match entity {
        Some(Entity::User | Entity::Association) => {
            "[[association]], or the users of its [[account]],"
        }
        Some(Entity::Qos) => "[[qos]]",
        Some(Entity::Cluster) => "[cluster]",
        Some(Entity::Account) | None => "[[account]]",
    };
    let file = muster_config::Source::find(None).path;
    let text = format!(
        "{verb} is not offered: edit {section} in {}, then `muster config reload`",
        file.display()
    );
    Failure::error("sacctmgr", &text)
}

const ASSOCIATION_FIELDS: &str = "cluster,account,user,partition,share,priority,grpjobs,grptres,grpsubmit,grpwall,grptresmins,maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,qos,defaultqos,grptresrunmins";
const QOS_FIELDS: &str = "name,priority,gracetime,preempt,preemptexempttime,preemptmode,flags,usagethres,usagefactor,grptres,grptresmins,grptresrunmins,grpjobs,grpsubmit,grpwall,maxtres,maxtrespernode,maxtresmins,maxwall,maxtrespu,maxjobspu,maxsubmitpu,maxtrespa,maxjobspa,maxsubmitpa,mintres";

fn user_fields(associations: bool) -> &'static str {
    if associations {
        "user,defaultaccount,adminlevel,cluster,account,partition,share,priority,maxjobs,maxsubmit,maxwall,qos,defaultqos"
    } else {
        "user,defaultaccount,adminlevel"
    }
}

fn account_fields(associations: bool) -> &'static str {
    if associations {
        "account,description,organization,cluster,parentname,user,share,priority,grpjobs,grptres,grpsubmit,grpwall,grptresmins,maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,qos,defaultqos,grptresrunmins"
    } else {
        "account,description,organization"
    }
}

/// The words behind the entity: names and conditions.
#[derive(Debug, Default)]
pub(crate) struct Query {
    names: Vec<String>,
    accounts: Vec<String>,
    clusters: Vec<String>,
    parents: Vec<String>,
    format: Option<String>,
    associations: bool,
}

impl Query {
    fn read(words: &[&str]) -> Result<Self, Failure> {
        let mut query = Self::default();
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        for word in words {
            let lower = word.to_ascii_lowercase();
            match word.split_once('=') {
                None if lower.starts_with("witha") => query.associations = true,
                // What is deleted, changed by whom or inherited is not kept here.
                None if lower == "where"
                    || lower == "tree"
                    || lower.starts_with("withd")
                    || lower.starts_with("withcoord")
                    || lower.starts_with("wopi")
                    || lower.starts_with("wopl") => {}
                None => query.names.extend(list(word)),
                Some((_, value)) => match lower.split('=').next().unwrap_or_default() {
                    "format" | "fields" => query.format = Some(value.to_owned()),
                    "account" | "accounts" | "acct" => query.accounts.extend(list(value)),
                    "name" | "names" | "user" | "users" => query.names.extend(list(value)),
                    "cluster" | "clusters" => query.clusters.extend(list(value)),
                    "parent" | "parentname" => query.parents.extend(list(value)),
                    _ => return Err(Failure::says(format!(" Unknown condition: {word}"))),
                },
            }
        }
        Ok(query)
    }

    fn takes(&self, name: &str, account: &str) -> bool {
        (self.names.is_empty() || self.names.iter().any(|n| n == name))
            && (self.accounts.is_empty() || self.accounts.iter().any(|a| a == account))
    }

    fn takes_parent(&self, account: &AccountView) -> bool {
        let parent = account.parent.as_deref().unwrap_or("root");
        self.parents.is_empty() || self.parents.iter().any(|name| name == parent)
    }
}

/// Everybody who is named in an account.
pub(crate) fn named(account: &AccountView) -> impl Iterator<Item = String> {
    let listed = account.users.iter().flatten().chain(&account.default_for);
    listed.chain(account.members.keys()).cloned()
}

/// Everybody who is named anywhere, the caller, and whoever is asked for.
pub(crate) fn people(accounts: &[AccountView], query: &Query) -> BTreeSet<String> {
    let mut people = BTreeSet::from([ident::own_name(), "root".to_owned()]);
    people.extend(query.names.iter().filter(|name| ident::uid_of(name).is_some()).cloned());
    people.extend(accounts.iter().flat_map(named));
    people
}

pub(crate) fn admits(account: &AccountView, user: &str) -> bool {
    account.users.as_ref().is_none_or(|users| users.contains(user))
}

/// The account of a user's jobs that name none.
pub(crate) fn default_account(accounts: &[AccountView], user: &str) -> String {
    let marked = accounts.iter().find(|account| account.default_for.contains(user));
    let fallback = || accounts.iter().find(|account| admits(account, user));
    marked.or_else(fallback).map(|account| account.name.clone()).unwrap_or_default()
}

fn users(accounts: &[AccountView], cluster: &str, query: &Query, associations: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for user in people(accounts, query) {
        let own: Vec<&AccountView> =
            accounts.iter().filter(|a| admits(a, &user) && query.takes(&user, &a.name)).collect();
        let admin = if user == "root" { "Administrator" } else { "None" };
        let base: Row = vec![
            ("user", user.clone()),
            ("defaultaccount", default_account(accounts, &user)),
            ("adminlevel", admin.to_owned()),
        ];
        if associations {
            rows.extend(own.into_iter().map(|account| {
                let member = account.members.get(&user).cloned();
                [base.clone(), member_row(account, &member.unwrap_or_else(one_share), cluster)]
                    .concat()
            }));
        } else if !own.is_empty() {
            rows.push(base);
        }
    }
    rows
}

/// Who is not described has one share and no limits.
fn one_share() -> MemberView {
    MemberView { shares: Some(1), ..MemberView::default() }
}

/// What every association has.
fn association(
    account: &AccountView,
    shares: Option<u32>,
    limits: &AssociationLimits,
    cluster: &str,
) -> Row {
    let shares = shares.map_or_else(|| "parent".to_owned(), |shares| shares.to_string());
    let tres = |amounts: &Tres| amounts.to_string();
    vec![
        ("cluster", cluster.to_owned()),
        ("account", account.name.clone()),
        ("share", shares.clone()),
        ("fairshare", shares),
        ("qos", "normal".to_owned()),
        ("grpjobs", bare(limits.group.jobs)),
        ("grpsubmit", bare(limits.group.submit_jobs)),
        ("grptres", tres(&limits.group.tres)),
        ("grptresmins", tres(&limits.group.tres_mins)),
        ("grptresrunmins", tres(&limits.group.tres_run_mins)),
        ("grpwall", wall(limits.group.wall)),
        ("maxjobs", bare(limits.max_jobs)),
        ("maxsubmit", bare(limits.max_submit_jobs)),
        ("maxtres", tres(&limits.max_tres)),
        ("maxtrespernode", tres(&limits.max_tres_per_node)),
        ("maxtresmins", tres(&limits.max_tres_mins)),
        ("maxwall", wall(limits.max_wall)),
    ]
}

fn bare(limit: Option<u32>) -> String {
    limit.map(|limit| limit.to_string()).unwrap_or_default()
}

fn wall(limit: Option<Seconds>) -> String {
    limit.map(|limit| print_long(TimeLimit::Of(limit))).unwrap_or_default()
}

fn member_row(account: &AccountView, member: &MemberView, cluster: &str) -> Row {
    let mut row = association(account, member.shares, &member.limits, cluster);
    row.push(("priority", bare(member.priority)));
    row
}

fn account_row(account: &AccountView, cluster: &str) -> Row {
    let mut row = association(account, account.shares, &account.limits, cluster);
    row.push(("parentname", account.parent.clone().unwrap_or_else(|| "root".to_owned())));
    row.push(("priority", bare(account.priority)));
    row
}

fn associations(accounts: &[AccountView], cluster: &str, query: &Query) -> Vec<Row> {
    let people = people(accounts, query);
    let mut rows = Vec::new();
    for account in accounts.iter().filter(|account| query.takes_parent(account)) {
        if query.takes("", &account.name) {
            rows.push(account_row(account, cluster));
        }
        for user in people.iter().filter(|u| admits(account, u) && query.takes(u, &account.name)) {
            let member = account.members.get(user).cloned().unwrap_or_else(one_share);
            let mut row = member_row(account, &member, cluster);
            row.push(("user", user.clone()));
            rows.push(row);
        }
    }
    rows
}

fn of_accounts(
    accounts: &[AccountView],
    cluster: &str,
    query: &Query,
    associations: bool,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for account in accounts.iter().filter(|a| query.takes(&a.name, &a.name)) {
        let described: Row = vec![
            ("description", account.name.clone()),
            ("organization", account.parent.clone().unwrap_or_else(|| account.name.clone())),
        ];
        rows.push([account_row(account, cluster), described.clone()].concat());
        for (user, member) in account.members.iter().filter(|_| associations) {
            let row = member_row(account, member, cluster);
            rows.push([row, described.clone(), vec![("user", user.clone())]].concat());
        }
    }
    rows
}

/// Slurm's word for how jobs of a QOS make room.
pub(crate) fn preempt_mode(qos: &QosView) -> &'static str {
    match qos.preempt.mode {
        None => "cluster",
        Some(PreemptMode::Off) => "OFF",
        Some(PreemptMode::Cancel) => "cancel",
        Some(PreemptMode::Requeue | PreemptMode::Checkpoint) => "requeue",
        Some(PreemptMode::Suspend | PreemptMode::Shrink) => "suspend",
    }
}

fn of_qos(qos: &QosView) -> Row {
    let limits = &qos.limits;
    let tres = |amounts: &Tres| amounts.to_string();
    let preempts: Vec<&str> = qos.preempts.iter().map(String::as_str).collect();
    let grace = qos.preempt.grace.unwrap_or(Seconds(0));
    vec![
        ("name", qos.name.clone()),
        ("priority", qos.priority.to_string()),
        ("gracetime", print_long(TimeLimit::Of(grace))),
        ("preempt", preempts.join(",")),
        ("preemptexempttime", wall(qos.preempt.exempt)),
        ("preemptmode", preempt_mode(qos).to_owned()),
        ("flags", qos.flags.join(",")),
        ("usagefactor", format!("{}.{:03}000", qos.usage_factor / 1000, qos.usage_factor % 1000)),
        ("grptres", tres(&limits.group.tres)),
        ("grptresmins", tres(&limits.group.tres_mins)),
        ("grptresrunmins", tres(&limits.group.tres_run_mins)),
        ("grpjobs", bare(limits.group.jobs)),
        ("grpsubmit", bare(limits.group.submit_jobs)),
        ("grpwall", wall(limits.group.wall)),
        ("maxtres", tres(&limits.max_tres_per_job)),
        ("maxtrespernode", tres(&limits.max_tres_per_node)),
        ("maxtresmins", tres(&limits.max_tres_mins_per_job)),
        ("maxwall", wall(limits.max_wall)),
        ("maxtrespu", tres(&limits.max_tres_per_user)),
        ("maxjobspu", bare(limits.max_jobs_per_user)),
        ("maxsubmitpu", bare(limits.max_submit_jobs_per_user)),
        ("maxtrespa", tres(&limits.max_tres_per_account)),
        ("maxjobspa", bare(limits.max_jobs_per_account)),
        ("maxsubmitpa", bare(limits.max_submit_jobs_per_account)),
        ("mintres", tres(&limits.min_tres_per_job)),
        ("minpriothresh", bare(limits.min_prio_threshold)),
    ]
}

/// A field by name or its beginning.
fn field(name: &str) -> Option<Field> {
    let lower = name.to_ascii_lowercase();
    let name = match lower.as_str() {
        "acct" | "accounts" => "account",
        "defacct" => "defaultaccount",
        "login" | "users" => "user",
        "descr" => "description",
        other => other,
    };
    let exact = FIELDS.iter().find(|field| field.0 == name);
    exact
        .or_else(|| FIELDS.iter().find(|field| !name.is_empty() && field.0.starts_with(name)))
        .copied()
}

fn table(format: &str, rows: &[Row], parsed: &Parsed) -> Result<String, Failure> {
    let mut columns = Vec::new();
    for item in format.split(',').filter(|item| !item.is_empty()) {
        let (name, width) = match item.split_once('%') {
            Some((name, width)) => (name, width.trim_start_matches('-').parse::<usize>().ok()),
            None => (item, None),
        };
        let (key, title, usual) =
            field(name).ok_or_else(|| Failure::says(format!(" Unknown field '{name}'")))?;
        columns.push((key, title, width.unwrap_or(usual).min(4096)));
    }
    let bars = parsed.has("parsable") || parsed.has("parsable2");
    let join = |cells: Vec<(String, usize)>| {
        if bars {
            let cells: Vec<String> = cells.into_iter().map(|(text, _)| text).collect();
            let end = if parsed.has("parsable2") { "" } else { "|" };
            return cells.join("|") + end + "\n";
        }
        cells.into_iter().map(|(text, width)| cell(&text, width)).collect::<String>() + "\n"
    };
    let mut text = String::new();
    if !parsed.has("noheader") {
        text.push_str(&join(
            columns.iter().map(|(_, title, width)| ((*title).to_owned(), *width)).collect(),
        ));
        if !bars {
            text.push_str(&join(
                columns.iter().map(|(_, _, width)| ("-".repeat(*width), *width)).collect(),
            ));
        }
    }
    for row in rows {
        let value = |key: &str| {
            row.iter().find(|(name, _)| *name == key).map(|(_, v)| v.clone()).unwrap_or_default()
        };
        text.push_str(&join(columns.iter().map(|(key, _, width)| (value(key), *width)).collect()));
    }
    Ok(text)
}

fn cell(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text:>width$} ");
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}+ ")
}

#[cfg(test)]
mod tests;
