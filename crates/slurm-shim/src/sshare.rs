//! `sshare`: the shares of accounts and users.

use muster_api::AccountView;
use muster_client::Client;

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, flag, value};
use crate::sacctmgr::{Query, admits, people};
use crate::{ident, out};

/// `sshare`: shares of accounts. Usage is not weighed yet, so everybody stands alike.
pub(crate) fn run(args: &[String]) -> Outcome {
    const TABLE: &[Opt] = &[
        value("accounts", 'A'),
        flag("all", 'a'),
        value("clusters", 'M'),
        value("format", 'o'),
        flag("help", NO_SHORT),
        flag("long", 'l'),
        flag("noheader", 'n'),
        flag("noheader-h", 'h'),
        flag("parsable", 'p'),
        flag("parsable2", 'P'),
        flag("partition", 'm'),
        value("users", 'u'),
        flag("Users", 'U'),
        flag("verbose", 'v'),
        flag("version", 'V'),
    ];
    let parsed = getopt::parse("sshare", TABLE, args, Order::Mixed)
        .map_err(|message| Failure::usage("sshare", &message, 1))?;
    if parsed.has("version") {
        return crate::version();
    }
    if parsed.has("help") {
        return crate::help("sshare", TABLE);
    }
    let failed = |error| Failure::client("sshare", &error);
    let client = Client::connect().map_err(failed)?;
    let accounts = client.accounts().map_err(failed)?;
    let query = Query::default();
    let own = ident::own_name();
    let rows = share_rows(&accounts, &query, &own, parsed.has("Users"), parsed.has("all"));
    let format = parsed
        .last("format")
        .unwrap_or("account%-20,user,rawshares,normshares,rawusage,effectvusage,fairshare");
    out::print(&share_table(format, &rows, &parsed)?);
    Ok(0)
}

fn share_rows(
    accounts: &[AccountView],
    query: &Query,
    own: &str,
    users_only: bool,
    everybody: bool,
) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    for account in accounts {
        let indent = if users_only { "" } else { " " };
        if !users_only {
            rows.push([account.name.clone(), String::new()]);
        }
        for user in people(accounts, query) {
            if admits(account, &user) && (everybody || user == own) {
                rows.push([format!("{indent}{}", account.name), user]);
            }
        }
    }
    rows
}

fn share_table(format: &str, rows: &[[String; 2]], parsed: &Parsed) -> Result<String, Failure> {
    const COLUMNS: &[(&str, &str, usize)] = &[
        ("account", "Account", 20),
        ("user", "User", 10),
        ("rawshares", "RawShares", 10),
        ("normshares", "NormShares", 11),
        ("rawusage", "RawUsage", 11),
        ("normusage", "NormUsage", 11),
        ("effectvusage", "EffectvUsage", 13),
        ("fairshare", "FairShare", 10),
        ("levelfs", "LevelFS", 10),
    ];
    let mut columns = Vec::new();
    for item in format.split(',') {
        let (name, width) = item.split_once('%').unwrap_or((item, ""));
        let lower = name.to_ascii_lowercase();
        let (key, title, usual) =
            COLUMNS.iter().find(|column| column.0.starts_with(&lower)).ok_or_else(|| {
                Failure::error("sshare", &format!("Invalid field requested: \"{name}\""))
            })?;
        let width = width.trim_start_matches('-').parse().unwrap_or(*usual).min(4096);
        columns.push((*key, *title, width));
    }
    let bars = parsed.has("parsable") || parsed.has("parsable2");
    let line = |text: &dyn Fn(&str, &str) -> String| {
        let cells: Vec<String> = columns
            .iter()
            .map(|(key, title, width)| {
                let value = text(key, title);
                match *key {
                    _ if bars => value.trim().to_owned(),
                    "account" => format!("{value:<width$}"),
                    _ => format!("{value:>width$}"),
                }
            })
            .collect();
        let end = match (bars, parsed.has("parsable2")) {
            (true, true) => "",
            (true, false) => "|",
            _ => " ",
        };
        cells.join(if bars { "|" } else { " " }) + end + "\n"
    };
    let mut text = String::new();
    if !parsed.has("noheader") && !parsed.has("noheader-h") {
        text.push_str(&line(&|_, title| title.to_owned()));
        if !bars {
            text.push_str(&line(&|key, _| {
                "-".repeat(
                    columns.iter().find(|column| column.0 == key).map_or(0, |column| column.2),
                )
            }));
        }
    }
    for [account, user] in rows {
        text.push_str(&line(&|key, _| match key {
            "account" => account.clone(),
            "user" => user.clone(),
            "rawshares" => "1".to_owned(),
            "rawusage" => "0".to_owned(),
            "fairshare" | "levelfs" if user.is_empty() => String::new(),
            "fairshare" => "1.000000".to_owned(),
            _ => "0.000000".to_owned(),
        }));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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

    #[test]
    fn shares_have_slurms_titles() {
        let words = ["-U".to_owned(), "-P".to_owned()];
        let table_of = [flag("Users", 'U'), flag("parsable2", 'P')];
        let parsed = getopt::parse("sshare", &table_of, &words, Order::Mixed).expect("read");
        let rows = share_rows(&accounts(), &Query::default(), "root", true, false);
        let text = share_table(
            "account,user,rawshares,normshares,rawusage,effectvusage,fairshare",
            &rows,
            &parsed,
        )
        .unwrap_or_else(|f| panic!("{}", f.text));
        assert_eq!(
            text,
            "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare
default|root|1|0.000000|0|0.000000|1.000000
research|root|1|0.000000|0|0.000000|1.000000
"
        );
    }
}
