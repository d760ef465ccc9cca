//! Lists of partitions, accounts, QOS and switches, and the version.

use muster_client::Client;
use serde_json::json;

use crate::args::Json;
use crate::say::{self, Outcome, print};
use crate::table::{Table, terminal_width};

/// Runs `muster partition list`.
pub(crate) fn partitions(args: &Json) -> Outcome {
    let partitions = Client::connect()?.partitions()?;
    if args.json {
        return say::json(&json!({ "partitions": partitions }));
    }
    let mut table =
        Table::new(&["PARTITION", "STATE", ">LIMIT", ">DEFAULT", ">CPUS", ">GPUS", "NODES"]);
    for p in partitions {
        table.row(vec![
            if p.default { format!("{} (default)", p.name) } else { p.name },
            p.state,
            say::limit(p.max_time_s),
            say::limit(p.default_time_s),
            p.cpus.to_string(),
            p.gpus.to_string(),
            p.node_list,
        ]);
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

/// Runs `muster account list`.
pub(crate) fn accounts(args: &Json) -> Outcome {
    let accounts = Client::connect()?.accounts()?;
    if args.json {
        return say::json(&json!({ "accounts": accounts }));
    }
    let mut table = Table::new(&["ACCOUNT", "BELOW", "USERS", "DEFAULT FOR"]);
    let joined = |names: &std::collections::BTreeSet<String>| {
        names.iter().cloned().collect::<Vec<_>>().join(",")
    };
    for account in accounts {
        let users = account.users.as_ref().map_or("everybody".to_owned(), joined);
        table.row(vec![
            account.name,
            account.parent.unwrap_or_default(),
            users,
            joined(&account.default_for),
        ]);
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

/// Runs `muster qos list`.
pub(crate) fn qos(args: &Json) -> Outcome {
    let qos = Client::connect()?.qos()?;
    if args.json {
        return say::json(&json!({ "qos": qos }));
    }
    let mut table = Table::new(&["QOS", ">PRIORITY"]);
    for qos in qos {
        table.row(vec![qos.name, qos.priority.to_string()]);
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

/// Runs `muster topology`.
pub(crate) fn topology(args: &Json) -> Outcome {
    let switches = Client::connect()?.topology()?;
    if args.json {
        return say::json(&json!({ "switches": switches }));
    }
    let mut table = Table::new(&["SWITCH", "LEVEL", "NODES"]);
    for switch in switches {
        table.row(vec![switch.name, switch.level_name, switch.node_list]);
    }
    print(&if table.is_empty() {
        "no switches are configured\n".to_owned()
    } else {
        table.text(terminal_width())
    });
    Ok(0)
}

/// Runs `muster version`.
pub(crate) fn version(args: &Json) -> Outcome {
    let own = env!("CARGO_PKG_VERSION");
    let daemon = Client::connect().and_then(|client| client.ping()).ok();
    if args.json {
        let daemon = daemon.map(|ping| json!({ "version": ping.version, "schema": ping.schema }));
        return say::json(&json!({ "version": own, "daemon": daemon }));
    }
    print(&format!("muster {own}\n"));
    match daemon {
        Some(ping) => print(&format!(
            "daemon {} (cluster {}, log schema {})\n",
            ping.version, ping.cluster, ping.schema
        )),
        None => print("no daemon answers\n"),
    }
    Ok(0)
}
