//! Limits that are never reached, because one above or beside them is lower.

use super::Warn;
use crate::Config;
use crate::priority::Amounts;
use muster_model::{AssociationLimits, QosLimits, Seconds, Tres};

pub(super) fn warn(config: &Config, warn: &mut Warn) {
    accounts(config, warn);
    for (i, qos) in config.qos.iter().enumerate() {
        beside_of_qos(i, &qos.limits(), warn);
        wall_of_qos(config, i, warn);
    }
    licences(config, warn);
}

/// A limit: its key and what it is.
type Count<'a> = (&'a str, Option<u64>);

fn number(limit: Option<u32>) -> Option<u64> {
    limit.map(u64::from)
}

/// What holds for all jobs of an association together, and so for everybody beneath.
fn groups(of: &AssociationLimits) -> [Count<'static>; 3] {
    [
        ("grp_jobs", number(of.group.jobs)),
        ("grp_submit_jobs", number(of.group.submit_jobs)),
        ("grp_wall", of.group.wall.map(|Seconds(s)| s)),
    ]
}

fn group_amounts(of: &AssociationLimits) -> [(&'static str, &Tres); 3] {
    [
        ("grp_tres", &of.group.tres),
        ("grp_tres_mins", &of.group.tres_mins),
        ("grp_tres_run_mins", &of.group.tres_run_mins),
    ]
}

/// One association as the file has it: its section and number, what it is called, its limits, and the
/// account above.
struct Named {
    section: &'static str,
    index: usize,
    title: String,
    limits: AssociationLimits,
    above: Option<String>,
}

fn accounts(config: &Config, warn: &mut Warn) {
    let accounts = config.account.iter().enumerate().map(|(index, of)| Named {
        section: "account",
        index,
        title: of.name.clone(),
        limits: of.limits(),
        above: of.parent.clone(),
    });
    let users = config.association.iter().enumerate().map(|(index, of)| Named {
        section: "association",
        index,
        title: format!("{} in {}", of.user, of.account),
        limits: of.member().limits,
        above: Some(of.account.clone()),
    });
    let find = |name: &String| config.account.iter().find(|account| account.name == *name);
    for own in accounts.chain(users) {
        beside(&own, warn);
        let first = own.above.as_ref().and_then(find);
        let line = std::iter::successors(first, |account| find(account.parent.as_ref()?));
        // A circle is refused elsewhere; here it must only end.
        for above in line.take(config.account.len()) {
            below(&own, &above.name, &above.limits(), warn);
        }
    }
}

/// Limits that one above keeps anybody from reaching.
fn below(own: &Named, above: &str, limits: &AssociationLimits, warn: &mut Warn) {
    let hint = format!("lower it, or raise that of account {above}");
    let mut say = |key: &str, mine: String, theirs: String| {
        let message = format!(
            "{key} {mine} of {} is never reached: account {above} may have {theirs}",
            own.title
        );
        warn(own.section, own.index, key, message, &hint);
    };
    for ((key, mine), (_, theirs)) in groups(&own.limits).into_iter().zip(groups(limits)) {
        if let (Some(mine), Some(theirs)) = (mine, theirs)
            && mine > theirs
        {
            say(key, shown(key, mine), shown(key, theirs));
        }
    }
    let pairs = group_amounts(&own.limits).into_iter().zip(group_amounts(limits));
    for ((key, mine), (_, theirs)) in pairs {
        for (kind, amount) in mine.iter() {
            if let Some(most) = theirs.limit(kind).filter(|most| *most < amount) {
                let one = |amount: u64| Amounts([(kind.clone(), amount)].into_iter().collect());
                say(key, one(amount).to_string(), one(most).to_string());
            }
        }
    }
}

fn shown(key: &str, number: u64) -> String {
    if key == "grp_wall" { crate::Duration(number).to_string() } else { number.to_string() }
}

/// What each user or job may have against what all may have together.
fn beside(own: &Named, warn: &mut Warn) {
    let of = &own.limits;
    let counts = [
        (("max_jobs", number(of.max_jobs)), ("grp_jobs", number(of.group.jobs))),
        (
            ("max_submit_jobs", number(of.max_submit_jobs)),
            ("grp_submit_jobs", number(of.group.submit_jobs)),
        ),
        (("max_jobs", number(of.max_jobs)), ("max_submit_jobs", number(of.max_submit_jobs))),
        (("grp_jobs", number(of.group.jobs)), ("grp_submit_jobs", number(of.group.submit_jobs))),
    ];
    let mut say = |key: &str, message, hint: &str| warn(own.section, own.index, key, message, hint);
    larger(&counts, &mut say);
    let amounts = [
        ("max_tres", &of.max_tres, "grp_tres", &of.group.tres),
        ("max_tres_per_node", &of.max_tres_per_node, "max_tres", &of.max_tres),
        ("max_tres_mins", &of.max_tres_mins, "grp_tres_mins", &of.group.tres_mins),
    ];
    larger_amounts(&amounts, &mut say);
}

fn beside_of_qos(index: usize, of: &QosLimits, warn: &mut Warn) {
    let (user, account, all) =
        (number(of.max_jobs_per_user), number(of.max_jobs_per_account), number(of.group.jobs));
    let submit = number(of.group.submit_jobs);
    let counts = [
        (("max_jobs_per_user", user), ("grp_jobs", all)),
        (("max_jobs_per_account", account), ("grp_jobs", all)),
        (("max_jobs_per_user", user), ("max_jobs_per_account", account)),
        (
            ("max_submit_jobs_per_user", number(of.max_submit_jobs_per_user)),
            ("grp_submit_jobs", submit),
        ),
        (
            ("max_submit_jobs_per_account", number(of.max_submit_jobs_per_account)),
            ("grp_submit_jobs", submit),
        ),
    ];
    let mut say = |key: &str, message, hint: &str| warn("qos", index, key, message, hint);
    larger(&counts, &mut say);
    let amounts = [
        ("max_tres_per_user", &of.max_tres_per_user, "grp_tres", &of.group.tres),
        ("max_tres_per_account", &of.max_tres_per_account, "grp_tres", &of.group.tres),
        ("max_tres_per_job", &of.max_tres_per_job, "max_tres_per_user", &of.max_tres_per_user),
        ("max_tres_per_job", &of.max_tres_per_job, "grp_tres", &of.group.tres),
        ("max_tres_per_node", &of.max_tres_per_node, "max_tres_per_job", &of.max_tres_per_job),
        ("max_tres_mins_per_job", &of.max_tres_mins_per_job, "grp_tres_mins", &of.group.tres_mins),
    ];
    larger_amounts(&amounts, &mut say);
}

type Say<'a> = dyn FnMut(&str, String, &str) + 'a;

/// The first of a pair is never reached where the second is lower.
fn larger(pairs: &[(Count<'_>, Count<'_>)], say: &mut Say) {
    for ((key, own), (other, most)) in pairs {
        if let (Some(own), Some(most)) = (own, most)
            && own > most
        {
            let message = format!("{key} {own} is never reached: {other} is {most}");
            say(key, message, &format!("lower {key}, or raise {other}"));
        }
    }
}

fn larger_amounts(pairs: &[(&str, &Tres, &str, &Tres)], say: &mut Say) {
    for (key, own, other, most) in pairs {
        for (kind, amount) in own.iter() {
            let Some(most) = most.limit(kind).filter(|most| *most < amount) else { continue };
            let message =
                format!("{key} {kind}={amount} is never reached: {other} has {kind}={most}");
            say(key, message, &format!("lower {key}, or raise {other}"));
        }
    }
}

/// A QOS that allows longer jobs than every partition does.
fn wall_of_qos(config: &Config, index: usize, warn: &mut Warn) {
    let qos = &config.qos[index];
    let Some(wall) = qos.max_wall else { return };
    if config.partition.is_empty() || qos.qos_flags().partition_time_limit {
        return;
    }
    let most = config.partition.iter().map(|p| p.max_time.0);
    let longest = most.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    if let Some(longest) = longest.filter(|longest| *longest < wall) {
        let message = format!(
            "max_wall {wall} of qos {} is never reached: partitions allow {longest}",
            qos.name
        );
        let hint = "lower it, or set the flag PartitionTimeLimit to go beyond partitions";
        warn("qos", index, "max_wall", message, hint);
    }
}

/// Limits on licences that there are not.
fn licences(config: &Config, warn: &mut Warn) {
    let there = |name: &String| config.licence.iter().any(|licence| licence.name == *name);
    let mut look = |section: &str, index: usize, key: &str, tres: &Tres| {
        for (kind, _) in tres.iter() {
            if let muster_model::TresKind::Licence(name) = kind
                && !there(name)
            {
                let message = format!("there is no licence {name}");
                warn(section, index, key, message, "add a [[licence]], or leave it out");
            }
        }
    };
    for (i, of) in config.account.iter().enumerate() {
        look("account", i, "grp_tres", &of.limits().group.tres);
        look("account", i, "max_tres", &of.limits().max_tres);
    }
    for (i, of) in config.association.iter().enumerate() {
        look("association", i, "grp_tres", &of.member().limits.group.tres);
        look("association", i, "max_tres", &of.member().limits.max_tres);
    }
    for (i, of) in config.qos.iter().enumerate() {
        look("qos", i, "grp_tres", &of.limits().group.tres);
        look("qos", i, "max_tres_per_user", &of.limits().max_tres_per_user);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Known};

    fn told(text: &str) -> Vec<String> {
        let config = Config::parse(text, "m").unwrap_or_else(|error| panic!("{error}"));
        let all = config.warnings(text, "m", &Known::default());
        all.iter()
            .map(|p| format!("{}:{} {}", p.line.unwrap(), p.column.unwrap(), p.message))
            .collect()
    }

    #[test]
    fn limits_that_one_above_keeps_from_being_reached() {
        let text = "[[account]]\nname = \"faculty\"\ngrp_jobs = 10\ngrp_tres = \"gres/gpu=8\"\n\
                    [[account]]\nname = \"lab\"\nparent = \"faculty\"\n\
                    [[account]]\nname = \"vision\"\nparent = \"lab\"\ngrp_jobs = 20\n\
                    [[association]]\naccount = \"vision\"\nuser = \"ada\"\n\
                    grp_tres = \"gres/gpu=9,cpu=99\"\ngrp_jobs = 10\n";
        assert_eq!(
            told(text),
            [
                "11:12 grp_jobs 20 of vision is never reached: account faculty may have 10",
                "15:12 grp_tres gres/gpu=9 of ada in vision is never reached: account faculty may \
                 have gres/gpu=8",
            ]
        );
    }

    #[test]
    fn limits_that_one_beside_keeps_from_being_reached() {
        let text = "[[account]]\nname = \"lab\"\nmax_jobs = 9\ngrp_jobs = 5\n\
                    max_tres = \"cpu=8\"\ngrp_tres = \"cpu=4\"\n\
                    [[qos]]\nname = \"q\"\nmax_tres_per_job = \"gres/gpu=4\"\n\
                    max_tres_per_user = \"gres/gpu=2,license/sim=1\"\nmax_wall = \"2d\"\n\
                    [[partition]]\nname = \"p\"\nmax_time = \"1d\"\n";
        assert_eq!(
            told(text),
            [
                "3:12 max_jobs 9 is never reached: grp_jobs is 5",
                "5:12 max_tres cpu=8 is never reached: grp_tres has cpu=4",
                "9:20 max_tres_per_job gres/gpu=4 is never reached: max_tres_per_user has gres/gpu=2",
                "10:21 there is no licence sim",
                "11:12 max_wall 2d of qos q is never reached: partitions allow 1d",
            ]
        );
    }

    #[test]
    fn equal_limits_and_lower_ones_are_fine() {
        let text = "[[account]]\nname = \"a\"\ngrp_jobs = 10\nmax_jobs = 10\n\
                    [[account]]\nname = \"b\"\nparent = \"a\"\ngrp_jobs = 10\n";
        assert_eq!(told(text), [""; 0]);
    }
}
