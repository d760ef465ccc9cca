//! `[[reservation]]`: reservations that stand as long as they stand in the file.

use crate::Config;
use crate::amount::Bare;
use crate::check::{DEFAULT_ACCOUNT, Say, did_you_mean, host_list};
use crate::key::section;
use muster_model::{Repeat, ReservationFlag as Flag, Seconds, Timestamp};
use muster_slurm_syntax::duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

section! {
    /// A reservation that stands as long as it stands here: it comes again, floats, or is without an
    /// end. Ones that come once are made with `muster reservation create`, whose options these are.
    many "reservation" ReservationSection {
        /// Its name.
        name: String = String::new(), "text, required";
        /// When it comes again: `hourly`, `daily`, `weekly`, `weekday`, `weekend`, or a rule of RFC
        /// 5545 such as `FREQ=WEEKLY;BYDAY=MO`.
        every: Option<String> = None, "text";
        /// The time of day at which it begins.
        at: Option<String> = None, "text such as 09:00";
        /// Its first day or instant: `2026-12-07`; with the flag `TIME_FLOAT` how far away it is,
        /// `now+1hour`.
        start: Option<String> = None, "text";
        /// How long it is: `3h`, `90` (minutes), `1-12:00:00`; without it there is no end.
        duration: Option<NumberOrText> = None, "text or number";
        /// The time zone of its times; without it the machine's.
        tz: Option<String> = None, "text such as Asia/Seoul";
        /// So many nodes, or their names: `2`, `"n[1-4]"`, `"ALL"`.
        nodes: Option<NumberOrText> = None, "number or host list";
        /// So many GPUs on all nodes together: `8`, `"a100:4"`.
        gpus: Option<NumberOrText> = None, "number or text";
        /// So many CPUs on all nodes together.
        cores: Option<u32> = None, "number";
        /// So many CPUs on each node.
        cores_per_node: Option<u32> = None, "number";
        /// Whole nodes, also where GPUs or CPUs are asked for.
        whole: bool = false, "true or false";
        /// Only nodes whose GPUs are joined by `NVLink`.
        nvlink: bool = false, "true or false";
        /// Only nodes of this partition; by itself all of it.
        partition: Option<String> = None, "text";
        /// Features of the nodes.
        features: Option<String> = None, "text";
        /// Licences: `sim:2`.
        licences: Option<String> = None, "text";
        /// Who may use it; `-NAME` for who may not.
        users: BTreeSet<String> = BTreeSet::new(), "list of user names";
        /// Accounts, as users.
        accounts: BTreeSet<String> = BTreeSet::new(), "list of accounts";
        /// Groups of the operating system.
        groups: BTreeSet<String> = BTreeSet::new(), "list of groups";
        /// Flags such as `MAINT`, `IGNORE_JOBS`, `OVERLAP`, `FLEX`, `MAGNETIC`.
        flags: BTreeSet<String> = BTreeSet::new(), "list of flags";
        /// Free text.
        comment: Option<String> = None, "text";
    }
}

/// A number, or a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Bare", into = "String")]
pub struct NumberOrText(pub String);

impl From<Bare> for NumberOrText {
    fn from(bare: Bare) -> Self {
        Self(bare.text())
    }
}

impl From<NumberOrText> for String {
    fn from(text: NumberOrText) -> Self {
        text.0
    }
}

impl ReservationSection {
    fn asks_for_something(&self) -> bool {
        self.nodes.is_some()
            || self.gpus.is_some()
            || self.cores.is_some()
            || self.cores_per_node.is_some()
            || self.partition.is_some()
            || self.licences.is_some()
    }

    fn has(&self, flag: Flag) -> bool {
        self.flags.iter().any(|word| Flag::of_word(word) == Some(flag))
    }

    /// The rule that it comes again by: of its word, its flags, or as written.
    fn rule(&self) -> Option<&str> {
        let of_word = |word: &str| Flag::of_word(word).and_then(Flag::rule);
        match &self.every {
            Some(word) => Some(of_word(word).unwrap_or(word)),
            None => self.flags.iter().find_map(|word| of_word(word)),
        }
    }
}

/// Everything that can be said of it without the nodes of the cluster.
pub(crate) fn check(config: &Config, say: &mut Say) {
    for (i, of) in config.reservation.iter().enumerate() {
        let mut say = |key: &str, message: String, hint: &str| {
            let hint = (!hint.is_empty()).then(|| hint.to_owned());
            say("reservation", i, key, message, hint);
        };
        if !of.asks_for_something() {
            let hint = "set nodes, gpus, cores, cores_per_node, partition or licences";
            say("name", format!("reservation {} asks for nothing", of.name), hint);
        }
        if of.users.is_empty() && of.accounts.is_empty() && of.groups.is_empty() {
            let message = format!("reservation {} says of nobody that they may use it", of.name);
            say("name", message, "set users, accounts or groups");
        }
        if let Some(nodes) = of.nodes.as_ref().filter(|nodes| nodes.0.parse::<u32>().is_err())
            && let Some((message, hint)) = host_list(&nodes.0)
        {
            say("nodes", message, &hint.unwrap_or_default());
        }
        flags(of, &mut say);
        times(of, &mut say);
        names(config, of, &mut say);
    }
}

type SayOf<'a> = dyn FnMut(&str, String, &str) + 'a;

fn flags(of: &ReservationSection, say: &mut SayOf) {
    for word in &of.flags {
        let words = || Flag::WORDS.iter().map(|(_, word)| *word);
        if Flag::of_word(word).is_none() {
            let near = muster_model::nearest(word, words());
            let hint = near.map_or_else(
                || format!("there are: {}", words().collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean {near}?"),
            );
            say("flags", format!("there is no flag {word}"), &hint);
        }
    }
    if of.has(Flag::PurgeComp) {
        let message = "what stands in the file is not removed when it is idle".to_owned();
        say("flags", message, "leave out PURGE_COMP, or make it with muster reservation create");
    }
}

/// It stands: it comes again, floats or is without an end. Its rule, its zone and its time of day do
/// not depend on when the file is read.
fn times(of: &ReservationSection, say: &mut SayOf) {
    let zone = of.tz.as_deref().unwrap_or("UTC");
    if let Err(error) = muster_recurrence::zone(zone) {
        say("tz", error.to_string(), "name one of the IANA database, such as Europe/Berlin");
        return;
    }
    let length = of.duration.as_ref().map(|text| duration::parse_length(&text.0));
    let ends = length.as_ref().is_some_and(|length| *length != Ok(None));
    if let Some(Err(problem)) = length {
        say("duration", problem.what, "write for example \"3h\", 90 (minutes) or \"1-12:00:00\"");
    }
    if let Some(Err(error)) = of.at.as_deref().map(muster_recurrence::time_of_day) {
        say("at", error.to_string(), "write for example \"09:00\"");
    }
    let Some(rule) = of.rule() else {
        if ends && !of.has(Flag::TimeFloat) {
            let message = "it comes once: after that it would not stand any more".to_owned();
            let hint = "set every, or leave out duration; muster reservation create makes one that \
                        comes once";
            say("duration", message, hint);
        }
        return;
    };
    let key = if of.every.is_some() { "every" } else { "flags" };
    if !rule.contains('=') {
        let message = format!("{rule:?} is no word for how often it comes");
        let hint = "write hourly, daily, weekly, weekday, weekend or a rule such as \
                    FREQ=WEEKLY;BYDAY=MO";
        say(key, message, hint);
        return;
    }
    let repeat = Repeat { rule: rule.to_owned(), zone: zone.to_owned(), first: SOME_DAY };
    // How long it is the daemon reads; here the rule is looked at by itself.
    if let Err(error) = muster_recurrence::check(&repeat, Seconds(1)) {
        say(key, error.to_string(), "write for example FREQ=WEEKLY;BYDAY=MO (RFC 5545)");
    }
    if !ends {
        say(key, "one that comes again needs an end".to_owned(), "set duration, such as \"3h\"");
    }
    if of.at.is_none() && of.start.is_none() && !rule.to_ascii_uppercase().contains("BYHOUR") {
        let message = "its time of day would be that at which the file is read".to_owned();
        say(key, message, "set at, such as \"09:00\"");
    }
}

/// A rule is looked at from some day on: 2026-01-01.
const SOME_DAY: Timestamp = Timestamp::from_secs(1_767_225_600);

/// Partitions, accounts and licences are there.
fn names(config: &Config, of: &ReservationSection, say: &mut SayOf) {
    if let Some(name) = &of.partition {
        let known: Vec<&str> = match config.partition.is_empty() {
            true => vec!["main"],
            false => config.partition.iter().map(|p| p.name.as_str()).collect(),
        };
        if !known.contains(&name.as_str()) {
            let hint = did_you_mean(name, known.into_iter()).unwrap_or_default();
            say("partition", format!("there is no partition {name}"), &hint);
        }
    }
    for name in &of.accounts {
        let name = name.trim_start_matches('-');
        let known = || config.account.iter().map(|a| a.name.as_str()).chain([DEFAULT_ACCOUNT]);
        if !known().any(|account| account == name) {
            let hint = did_you_mean(name, known()).unwrap_or_default();
            say("accounts", format!("there is no account {name}"), &hint);
        }
    }
    for (key, list) in [("users", &of.users), ("accounts", &of.accounts)] {
        let out = list.iter().filter(|name| name.starts_with('-')).count();
        if out > 0 && out < list.len() {
            let message = "either all names have a '-' before them or none".to_owned();
            say(key, message, "list those who may, or those who may not");
        }
    }
    for item in of.licences.iter().flat_map(|text| text.split(',')) {
        let name = item.trim().split([':', '=']).next().unwrap_or_default();
        let known = config.licence.iter().map(|l| l.name.as_str());
        if !known.clone().any(|licence| licence == name) {
            let hint = did_you_mean(name, known).unwrap_or_default();
            say("licences", format!("there is no licence {name}"), &hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn problems(lines: &str) -> Vec<String> {
        let text = format!("[[reservation]]\nname = \"r\"\n{lines}");
        let error = Config::parse(&text, "m").expect_err(lines);
        let told = |p: &crate::Problem| {
            format!("{}:{} {}", p.line.unwrap_or(0), p.column.unwrap_or(0), p.message)
        };
        error.problems.iter().map(told).collect()
    }

    #[test]
    fn ones_that_stand_are_read() {
        let text = "[[account]]\nname = \"lab\"\n[[licence]]\nname = \"sim\"\ntotal = 2\n\
                    [[reservation]]\nname = \"class\"\nevery = \"FREQ=WEEKLY;BYDAY=MO\"\n\
                    at = \"09:00\"\ntz = \"Asia/Seoul\"\nduration = \"3h\"\nnodes = 2\ngpus = 8\n\
                    users = [\"mara\"]\n\
                    [[reservation]]\nname = \"own\"\nnodes = \"n[1-2]\"\naccounts = [\"lab\"]\n\
                    [[reservation]]\nname = \"soon\"\nflags = [\"TIME_FLOAT\"]\n\
                    start = \"now+1hour\"\nduration = 120\nlicences = \"sim:1\"\nusers = [\"-bob\"]\n";
        let config = Config::parse(text, "m").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.reservation[0].gpus.as_ref().map(|text| text.0.as_str()), Some("8"));
        let again = Config::parse(&toml::to_string(&config).expect("TOML"), "m");
        assert_eq!(again.expect("it reads back"), config);
    }

    #[test]
    fn what_cannot_stand_is_told_with_its_place() {
        let good = "nodes = 1\nusers = [\"mara\"]\n";
        assert_eq!(
            problems(""),
            [
                "1:1 reservation r asks for nothing",
                "1:1 reservation r says of nobody that they may use it"
            ]
            .map(|text| text.replace("1:1", "2:8"))
        );
        let with = |lines: &str| problems(&format!("{good}{lines}"));
        assert_eq!(
            with("duration = \"3h\"\n"),
            ["5:12 it comes once: after that it would not stand any more"]
        );
        assert_eq!(
            with("every = \"daily\"\nduration = \"3h\"\n"),
            ["5:9 its time of day would be that at which the file is read"]
        );
        assert_eq!(
            with("every = \"daily\"\nat = \"09:00\"\n"),
            ["5:9 one that comes again needs an end"]
        );
        assert_eq!(
            with("every = \"FREQ=WEEKLY;BYDAY=XX\"\nat = \"09:00\"\nduration = \"3h\"\n"),
            ["5:9 \"FREQ=WEEKLY;BYDAY=XX\" is no recurrence rule: column 19: XX is no day of the \
              week; there are MO, TU, WE, TH, FR, SA, SU"]
        );
        let daily = |lines: &str| with(&format!("every = \"daily\"\n{lines}"));
        assert_eq!(
            daily("at = \"25:00\"\nduration = \"3h\"\n"),
            ["6:6 25:00 is not a time of day such as 09:00"]
        );
        for bad in ["-3h", "xyz", "0"] {
            let told = daily(&format!("at = \"09:00\"\nduration = \"{bad}\"\n"));
            assert!(told.len() == 1 && told[0].starts_with("7:12 "), "{bad}: {told:?}");
        }
        assert_eq!(with("tz = \"Asia/Atlantis\"\n"), ["5:6 there is no time zone Asia/Atlantis"]);
        assert_eq!(with("partition = \"gpu\"\n"), ["5:13 there is no partition gpu"]);
        assert_eq!(with("accounts = [\"lab\"]\n"), ["5:12 there is no account lab"]);
        assert_eq!(with("licences = \"sim:2\"\n"), ["5:12 there is no licence sim"]);
        assert_eq!(with("flags = [\"MAINTT\"]\n"), ["5:9 there is no flag MAINTT"]);
        assert_eq!(with("flags = [\"PURGE_COMP\"]\n").len(), 1);
        assert_eq!(problems("users = [\"a\", \"-b\"]\nnodes = \"n[2-1]\"\n").len(), 2);
    }
}
