//! `sshare`: the shares of accounts and users.

use muster_api::ShareLine;
use muster_client::Client;

use crate::fail::{Failure, Outcome};
use crate::getopt::{self, NO_SHORT, Opt, Order, Parsed, flag, value};
use crate::{ident, out};

/// `sshare`: shares and use of accounts and of their users.
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
    let page = client.shares().map_err(failed)?;
    let list =
        |key: &str| parsed.last(key).map(|text| text.split(',').map(str::to_owned).collect());
    let wanted = Wanted {
        accounts: list("accounts"),
        users: list("users").or_else(|| (!parsed.has("all")).then(|| vec![ident::own_name()])),
        users_only: parsed.has("Users"),
    };
    let rows: Vec<&ShareLine> = page.rows.iter().filter(|row| wanted.takes(row)).collect();
    let usual = match parsed.has("long") {
        true => LONG,
        false => "account%-20,user,rawshares,normshares,rawusage,effectvusage,fairshare",
    };
    let format = parsed.last("format").unwrap_or(usual);
    out::print(&share_table(format, &rows, &parsed)?);
    Ok(0)
}

/// The columns of `sshare -l`.
const LONG: &str = "account%-20,user,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,\
                    levelfs,grptresmins,tresrunmins";

/// Whose rows are shown.
struct Wanted {
    accounts: Option<Vec<String>>,
    users: Option<Vec<String>>,
    users_only: bool,
}

impl Wanted {
    fn takes(&self, row: &ShareLine) -> bool {
        let account = self.accounts.as_ref().is_none_or(|all| all.contains(&row.account));
        match &row.user {
            None => account && !self.users_only,
            Some(user) => account && self.users.as_ref().is_none_or(|all| all.contains(user)),
        }
    }
}

/// Billionths with six places.
fn fraction(billionths: u64) -> String {
    format!("{}.{:06}", billionths / 1_000_000_000, billionths % 1_000_000_000 / 1000)
}

fn cell(row: &ShareLine, key: &str, flat: bool) -> String {
    let user = row.user.is_some();
    match key {
        "account" if flat => row.account.clone(),
        "account" => format!("{}{}", " ".repeat(row.depth as usize), row.account),
        "user" => row.user.clone().unwrap_or_default(),
        "rawshares" => row.shares.map_or_else(|| "parent".to_owned(), |n| n.to_string()),
        "normshares" => fraction(row.norm_shares),
        "rawusage" => row.raw_usage.to_string(),
        "normusage" => fraction(row.norm_usage),
        "effectvusage" => fraction(row.effective_usage),
        // Under fair tree an account has no factor.
        "fairshare" if user || row.fair_share > 0 => fraction(row.fair_share),
        "levelfs" => row.level.map_or_else(|| "inf".to_owned(), fraction),
        "grptresmins" => row.grp_tres_mins.clone(),
        _ => String::new(),
    }
}

fn share_table(format: &str, rows: &[&ShareLine], parsed: &Parsed) -> Result<String, Failure> {
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
        ("grptresmins", "GrpTRESMins", 30),
        ("tresrunmins", "TRESRunMins", 30),
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
    let flat = parsed.has("Users") || bars;
    for row in rows {
        text.push_str(&line(&|key, _| cell(row, key, flat)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(account: &str, user: Option<&str>, depth: u32) -> ShareLine {
        ShareLine {
            account: account.into(),
            user: user.map(str::to_owned),
            depth,
            shares: Some(1),
            norm_shares: 500_000_000,
            raw_usage: 120,
            effective_usage: 250_000_000,
            level: None,
            fair_share: if user.is_some() { 750_000_000 } else { 0 },
            ..ShareLine::default()
        }
    }

    #[test]
    fn shares_have_slurms_titles() {
        let words = ["-U".to_owned(), "-P".to_owned()];
        let table_of = [flag("Users", 'U'), flag("parsable2", 'P')];
        let parsed = getopt::parse("sshare", &table_of, &words, Order::Mixed).expect("read");
        let (account, user) = (line("lab", None, 0), line("lab", Some("ada"), 1));
        let format = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare,levelfs";
        let text = share_table(format, &[&account, &user], &parsed)
            .unwrap_or_else(|f| panic!("{}", f.text));
        assert_eq!(
            text,
            "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare|LevelFS
lab||1|0.500000|120|0.250000||inf
lab|ada|1|0.500000|120|0.250000|0.750000|inf
"
        );
        let mine = Wanted { accounts: None, users: Some(vec!["ada".into()]), users_only: true };
        assert!(
            mine.takes(&user) && !mine.takes(&account) && !mine.takes(&line("lab", Some("bob"), 1))
        );
    }
}
