//! `sacctmgr list …`: accounts, users and QOS as far as clients look them up.
//!
//! Changes are refused: accounts stand in muster's configuration file.

use std::collections::BTreeSet;

use muster_api::AccountView;
use muster_client::Client;

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
    ("maxjobspu", "MaxJobsPU", 9),
    ("maxsubmit", "MaxSubmit", 9),
    ("maxsubmitpu", "MaxSubmitPU", 11),
    ("maxtres", "MaxTRES", 13),
    ("maxtresmins", "MaxTRESMins", 13),
    ("maxtrespernode", "MaxTRESPerNode", 14),
    ("maxtrespu", "MaxTRESPU", 13),
    ("maxwall", "MaxWall", 11),
    ("name", "Name", 10),
    ("organization", "Org", 20),
    ("parentname", "ParentName", 10),
    ("partition", "Partition", 10),
    ("preempt", "Preempt", 10),
    ("preemptmode", "PreemptMode", 11),
    ("priority", "Priority", 10),
    ("qos", "QOS", 20),
    ("rpc", "RPC", 5),
    ("share", "Share", 9),
    ("usagefactor", "UsageFactor", 11),
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
    if !["list", "show"]
        .iter()
        .any(|known| verb.len() >= 3 && known.starts_with(&verb.to_ascii_lowercase()))
    {
        return Err(Failure::error(
            "sacctmgr",
            &format!(
                "{verb} is not offered: accounts and QOS stand in muster's configuration file\nhint: change it and run `scontrol reconfigure`"
            ),
        ));
    }
    let query = Query::read(&words[2..]);
    let failed = |error| Failure::client("sacctmgr", &error);
    let client = Client::connect().map_err(failed)?;
    let cluster = client.ping().map_err(failed)?.cluster;
    let entity = entity.to_ascii_lowercase();
    let (default, rows) = if entity.starts_with("user") {
        let accounts = client.accounts().map_err(failed)?;
        (
            user_fields(parsed.has("associations")),
            users(&accounts, &cluster, &query, parsed.has("associations")),
        )
    } else if entity.starts_with("assoc") {
        let accounts = client.accounts().map_err(failed)?;
        (ASSOCIATION_FIELDS, associations(&accounts, &cluster, &query))
    } else if entity.starts_with("acc") {
        let accounts = client.accounts().map_err(failed)?;
        ("account,description,organization", of_accounts(&accounts, &cluster, &query))
    } else if entity == "qos" {
        let rows = client.qos().map_err(failed)?.into_iter().map(|qos| {
            vec![
                ("name", qos.name),
                ("priority", qos.priority.to_string()),
                ("gracetime", "00:00:00".to_owned()),
                ("preemptmode", "cluster".to_owned()),
                ("usagefactor", "1.000000".to_owned()),
            ]
        });
        (QOS_FIELDS, rows.collect())
    } else if entity.starts_with("cluster") {
        let row = vec![
            ("cluster", cluster),
            ("controlhost", "127.0.0.1".to_owned()),
            ("controlport", "0".to_owned()),
            ("rpc", "9728".to_owned()),
            ("share", "1".to_owned()),
            ("qos", "normal".to_owned()),
        ];
        ("cluster,controlhost,controlport,rpc,share,qos,defaultqos", vec![row])
    } else {
        return Err(Failure::error("sacctmgr", &format!("list {entity} is not offered yet")));
    };
    let format = query.format.as_deref().unwrap_or(default);
    out::print(&table(format, &rows, &parsed)?);
    Ok(0)
}

const ASSOCIATION_FIELDS: &str = "cluster,account,user,partition,share,priority,grpjobs,grptres,grpsubmit,grpwall,grptresmins,maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,qos,defaultqos,grptresrunmins";
const QOS_FIELDS: &str = "name,priority,gracetime,preempt,preemptmode,flags,usagefactor,grptres,grptresmins,grptresrunmins,grpjobs,grpsubmit,grpwall,maxtres,maxtrespernode,maxtresmins,maxwall,maxtrespu,maxjobspu,maxsubmitpu";

fn user_fields(associations: bool) -> &'static str {
    if associations {
        "user,defaultaccount,adminlevel,cluster,account,partition,share,priority,maxjobs,maxsubmit,maxwall,qos,defaultqos"
    } else {
        "user,defaultaccount,adminlevel"
    }
}

/// The words behind the entity: names and conditions.
#[derive(Debug, Default)]
pub(crate) struct Query {
    names: Vec<String>,
    accounts: Vec<String>,
    format: Option<String>,
}

impl Query {
    fn read(words: &[&str]) -> Self {
        let mut query = Self::default();
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        for word in words.iter().filter(|word| !word.eq_ignore_ascii_case("where")) {
            match word.split_once('=') {
                None => query.names.extend(list(word)),
                Some((key, value)) => match key.to_ascii_lowercase().as_str() {
                    "format" | "fields" => query.format = Some(value.to_owned()),
                    "account" | "accounts" | "acct" => query.accounts.extend(list(value)),
                    "name" | "names" | "user" | "users" => query.names.extend(list(value)),
                    _ => {}
                },
            }
        }
        query
    }

    fn takes(&self, name: &str, account: &str) -> bool {
        (self.names.is_empty() || self.names.iter().any(|n| n == name))
            && (self.accounts.is_empty() || self.accounts.iter().any(|a| a == account))
    }
}

/// Everybody who is named anywhere, the caller, and whoever is asked for.
pub(crate) fn people(accounts: &[AccountView], query: &Query) -> BTreeSet<String> {
    let mut people = BTreeSet::from([ident::own_name(), "root".to_owned()]);
    people.extend(query.names.iter().filter(|name| ident::uid_of(name).is_some()).cloned());
    for account in accounts {
        people.extend(account.default_for.iter().cloned());
        people.extend(account.users.iter().flatten().cloned());
    }
    people
}

pub(crate) fn admits(account: &AccountView, user: &str) -> bool {
    account.users.as_ref().is_none_or(|users| users.contains(user))
}

fn default_account(accounts: &[AccountView], user: &str) -> String {
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
            rows.extend(
                own.into_iter()
                    .map(|account| [base.clone(), association(account, cluster)].concat()),
            );
        } else if !own.is_empty() {
            rows.push(base);
        }
    }
    rows
}

fn association(account: &AccountView, cluster: &str) -> Row {
    vec![
        ("cluster", cluster.to_owned()),
        ("account", account.name.clone()),
        ("parentname", account.parent.clone().unwrap_or_default()),
        ("share", "1".to_owned()),
        ("fairshare", "1".to_owned()),
        ("qos", "normal".to_owned()),
    ]
}

fn associations(accounts: &[AccountView], cluster: &str, query: &Query) -> Vec<Row> {
    let people = people(accounts, query);
    let mut rows = Vec::new();
    for account in accounts {
        if query.takes("", &account.name) {
            rows.push(association(account, cluster));
        }
        for user in people.iter().filter(|u| admits(account, u) && query.takes(u, &account.name)) {
            let mut row = association(account, cluster);
            row.push(("user", user.clone()));
            rows.push(row);
        }
    }
    rows
}

fn of_accounts(accounts: &[AccountView], cluster: &str, query: &Query) -> Vec<Row> {
    let wanted = |account: &&AccountView| query.takes(&account.name, &account.name);
    let row = |account: &AccountView| {
        let mut row = association(account, cluster);
        row.push(("description", account.name.clone()));
        row.push(("organization", account.parent.clone().unwrap_or_else(|| account.name.clone())));
        row
    };
    accounts.iter().filter(wanted).map(row).collect()
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
mod tests {
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
        let query = Query::read(&rest);
        let format = query.format.unwrap_or(default.to_owned());
        table(&format, rows, &parsed).unwrap_or_else(|f| panic!("{}", f.text))
    }

    #[test]
    fn snakemake_finds_the_accounts_of_a_user() {
        let query = Query::read(&["root", "format=account%256"]);
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
}
