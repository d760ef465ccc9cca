//! Order and limits in the file: amounts by resource, weights, shares, and the sections' meaning.

use crate::sections::{AccountSection, AssociationSection, PrioritySection, QosSection};
use muster_model::{
    AssociationLimits, BillingWeight, BillingWeights, GroupLimits, Member, Mib, PriorityPolicy,
    QosFlags, QosLimits, Shares, Tres, TresKind, Weights, decimal,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Amounts by resource, as Slurm writes them: `cpu=8,mem=64G,gres/gpu=4`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amounts(pub Tres);

/// Weights by resource: `cpu=1000,gres/gpu=5000`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TresWeights(pub BTreeMap<TresKind, u32>);

/// What units of resources are billed at: `cpu=1.0,mem=0.25G,gres/gpu=4`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Billing(pub BillingWeights);

/// A fair share: a number, or `parent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Word", into = "String")]
pub struct ShareWord(pub Shares);

/// A factor with at most three places after the point, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Word", into = "String")]
pub struct Factor(pub u32);

/// What a QOS changes in the rules, by Slurm's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum QosFlag {
    /// Jobs above a limit that they alone break are refused at submission.
    DenyOnLimit,
    /// Its own use does not decay.
    NoDecay,
    /// Its limits go before those of the partition's QOS.
    OverPartQOS,
    /// Its jobs may ask for more time than the partition gives.
    PartitionTimeLimit,
    /// What a job may still use counts with the usage factor, too.
    UsageFactorSafe,
}

/// A number or a text in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Whole(u64),
    Part(f64),
    Text(String),
}

impl Word {
    fn text(self) -> String {
        match self {
            Self::Whole(n) => n.to_string(),
            Self::Part(n) => n.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// `NAME=VALUE` items parted by commas.
fn items<T>(
    text: &str,
    read: impl Fn(&TresKind, &str) -> Option<T>,
    example: &str,
) -> Result<BTreeMap<TresKind, T>, String> {
    let mut all = BTreeMap::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let bad = || format!("expected items such as {example}, found {item:?}");
        let (name, value) = item.rsplit_once('=').ok_or_else(bad)?;
        let kind: TresKind = name.trim().parse().map_err(|_| {
            format!(
                "{name:?} is no resource; there are cpu, mem, node, billing, gres/gpu, \
                 gres/gpu:MODEL, gres/NAME and license/NAME"
            )
        })?;
        let value = read(&kind, value.trim()).ok_or_else(bad)?;
        if all.insert(kind, value).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    Ok(all)
}

impl FromStr for Amounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |kind: &TresKind, value: &str| match kind {
            TresKind::Mem => value.parse::<crate::Size>().ok().map(|size| Mib::from(size).0),
            _ => value.parse().ok(),
        };
        items(text, read, "cpu=8 or mem=64G").map(|all| Self(Tres(all)))
    }
}

impl FromStr for TresWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        items(text, |_, value| value.parse().ok(), "cpu=1000").map(Self)
    }
}

impl FromStr for Billing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        items(text, BillingWeight::read, "cpu=1.0 or mem=0.25G")
            .map(|all| Self(BillingWeights(all)))
    }
}

/// A number in units of its last place as a decimal, without zeros at the end.
fn plain(number: u64, places: usize) -> String {
    let scale = 10u64.pow(places as u32);
    let (whole, part) = (number / scale, number % scale);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:0>places$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

impl FromStr for ShareWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("parent") {
            return Ok(Self(Shares::Parent));
        }
        let shares =
            text.parse().map_err(|_| format!("expected a number or parent, found {text:?}"));
        shares.map(|shares| Self(Shares::Of(shares)))
    }
}

impl FromStr for Factor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = decimal(text, 3).and_then(|n| u32::try_from(n).ok());
        factor.map(Self).ok_or_else(|| format!("expected a number such as 1.5, found {text:?}"))
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TresWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(kind, n)| format!("{kind}={n}")).collect();
        f.write_str(&all.join(","))
    }
}

impl fmt::Display for Billing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(kind, weight): (&TresKind, &BillingWeight)| {
            let unit = match (kind, weight.per) {
                (TresKind::Mem, 1024) => "G",
                (TresKind::Mem, per) if per > 1024 => "T",
                _ => "",
            };
            format!("{kind}={}{unit}", plain(weight.micro, 6))
        };
        f.write_str(&self.0.0.iter().map(one).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for ShareWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Shares::Of(shares) => shares.fmt(f),
            Shares::Parent => f.write_str("parent"),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(u64::from(self.0), 3))
    }
}

macro_rules! texts {
    ($($from:ident: $($name:ident),*;)*) => {$($(
        impl TryFrom<$from> for $name {
            type Error = String;
            fn try_from(word: $from) -> Result<Self, String> {
                texts!(@text $from word).parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*)*};
    (@text String $word:ident) => { $word };
    (@text Word $word:ident) => { $word.text() };
}

texts! {
    String: Amounts, TresWeights, Billing;
    Word: ShareWord, Factor;
}

fn tres(amounts: Option<&Amounts>) -> Tres {
    amounts.map(|amounts| amounts.0.clone()).unwrap_or_default()
}

macro_rules! group_limits {
    ($section:expr) => {{
        let s = $section;
        GroupLimits {
            jobs: s.grp_jobs,
            submit_jobs: s.grp_submit_jobs,
            tres: tres(s.grp_tres.as_ref()),
            tres_mins: tres(s.grp_tres_mins.as_ref()),
            tres_run_mins: tres(s.grp_tres_run_mins.as_ref()),
            wall: s.grp_wall.map(Into::into),
        }
    }};
}

macro_rules! association_limits {
    ($section:expr) => {{
        let s = $section;
        AssociationLimits {
            group: group_limits!(s),
            max_jobs: s.max_jobs,
            max_submit_jobs: s.max_submit_jobs,
            max_tres: tres(s.max_tres.as_ref()),
            max_tres_per_node: tres(s.max_tres_per_node.as_ref()),
            max_tres_mins: tres(s.max_tres_mins.as_ref()),
            max_wall: s.max_wall.map(Into::into),
        }
    }};
}

impl AccountSection {
    /// Its limits.
    pub fn limits(&self) -> AssociationLimits {
        association_limits!(self)
    }
}

impl AssociationSection {
    /// The user's shares and limits.
    pub fn member(&self) -> Member {
        Member { shares: self.shares.0, priority: self.priority, limits: association_limits!(self) }
    }
}

impl QosSection {
    /// Its limits.
    pub fn limits(&self) -> QosLimits {
        QosLimits {
            group: group_limits!(self),
            max_jobs_per_user: self.max_jobs_per_user,
            max_jobs_per_account: self.max_jobs_per_account,
            max_submit_jobs_per_user: self.max_submit_jobs_per_user,
            max_submit_jobs_per_account: self.max_submit_jobs_per_account,
            max_tres_per_user: tres(self.max_tres_per_user.as_ref()),
            max_tres_per_account: tres(self.max_tres_per_account.as_ref()),
            max_tres_per_job: tres(self.max_tres_per_job.as_ref()),
            max_tres_per_node: tres(self.max_tres_per_node.as_ref()),
            max_tres_mins_per_job: tres(self.max_tres_mins_per_job.as_ref()),
            max_wall: self.max_wall.map(Into::into),
            min_tres_per_job: tres(self.min_tres_per_job.as_ref()),
            min_prio_threshold: self.min_prio_threshold,
        }
    }

    /// Its flags.
    pub fn qos_flags(&self) -> QosFlags {
        let has = |flag: QosFlag| self.flags.contains(&flag);
        QosFlags {
            deny_on_limit: has(QosFlag::DenyOnLimit),
            no_decay: has(QosFlag::NoDecay),
            partition_time_limit: has(QosFlag::PartitionTimeLimit),
            over_part_qos: has(QosFlag::OverPartQOS),
            usage_factor_safe: has(QosFlag::UsageFactorSafe),
        }
    }

    /// How much use counts in thousandths, where it is not one.
    pub fn factor(&self) -> Option<u32> {
        self.usage_factor.map(|factor| factor.0).filter(|factor| *factor != 1000)
    }
}

impl From<&PrioritySection> for PriorityPolicy {
    fn from(s: &PrioritySection) -> Self {
        Self {
            weights: Weights {
                age: s.age,
                association: s.association,
                fair_share: s.fair_share,
                job_size: s.job_size,
                partition: s.partition,
                qos: s.qos,
                tres: s.tres.as_ref().map(|weights| weights.0.clone()).unwrap_or_default(),
            },
            max_age: s.max_age.into(),
            accrue_always: s.accrue_always,
            favour_small: s.favour_small,
            size_over_time: s.size_over_time,
            fair_share: s.fair_share_algorithm,
            dampening: s.dampening,
            half_life: s.half_life.0.map(Into::into),
            usage_reset: s.usage_reset,
            billing: s.billing,
        }
    }
}

type Say<'a> = dyn FnMut(&str, usize, &str, String, Option<String>) + 'a;

/// What these sections say together: weights that overflow, names that are not there, limits that
/// contradict each other.
pub(crate) fn check(config: &crate::Config, say: &mut Say<'_>) {
    let policy = PriorityPolicy::from(&config.priority);
    let sum = policy.weights.sum();
    if sum > u64::from(u32::MAX) {
        let message = format!("the weights add up to {sum}; at most {} is a priority", u32::MAX);
        let hint = Some("give each weight as a part of that".to_owned());
        say("priority", 0, "age", message, hint);
    }
    if policy.max_age.0 == 0 {
        say("priority", 0, "max_age", "max_age is at least one second".to_owned(), None);
    }
    if policy.dampening == 0 {
        say("priority", 0, "dampening", "dampening is at least 1".to_owned(), None);
    }
    if policy.half_life.is_some_and(|half_life| half_life.0 == 0) {
        let hint = Some("half_life = \"unlimited\" keeps all use".to_owned());
        say("priority", 0, "half_life", "half_life is at least one second".to_owned(), hint);
    }
    associations(config, say);
    for (i, qos) in config.qos.iter().enumerate() {
        let limits = qos.limits();
        for (kind, least) in limits.min_tres_per_job.iter() {
            let most = limits.max_tres_per_job.limit(kind);
            if let Some(most) = most.filter(|most| *most < least) {
                let message =
                    format!("no job can have at least {least} and at most {most} of {kind}");
                say("qos", i, "min_tres_per_job", message, None);
            }
        }
        if qos.usage_factor.is_some_and(|factor| factor.0 > 1_000_000_000) {
            say("qos", i, "usage_factor", "usage_factor is at most 1000000".to_owned(), None);
        }
    }
    for (i, partition) in config.partition.iter().enumerate() {
        let Some(qos) = &partition.qos else { continue };
        let names = || config.qos.iter().map(|q| q.name.as_str()).chain(["normal"]);
        if !names().any(|name| name == qos) {
            let near = muster_model::nearest(qos, names());
            let hint = near.map(|near| format!("did you mean {near}?"));
            say("partition", i, "qos", format!("there is no qos {qos}"), hint);
        }
    }
}

fn associations(config: &crate::Config, say: &mut Say<'_>) {
    let mut seen = std::collections::BTreeSet::new();
    for (i, of) in config.association.iter().enumerate() {
        if of.user.trim().is_empty() || of.account.trim().is_empty() {
            let message = "an [[association]] needs an account and a user".to_owned();
            say("association", i, "user", message, None);
            continue;
        }
        let account = config.account.iter().find(|a| a.name == of.account);
        if account.is_none() && of.account != crate::check::DEFAULT_ACCOUNT {
            let names = config.account.iter().map(|a| a.name.as_str());
            let near = muster_model::nearest(&of.account, names);
            let hint = near.map(|near| format!("did you mean {near}?"));
            say("association", i, "account", format!("there is no account {}", of.account), hint);
        }
        if account.is_some_and(|a| a.users.as_ref().is_some_and(|users| !users.contains(&of.user)))
        {
            let message = format!("account {} does not admit user {}", of.account, of.user);
            let hint = Some(format!("add {} to the account's users", of.user));
            say("association", i, "user", message, hint);
        }
        if !seen.insert((&of.account, &of.user)) {
            let message = format!("there are two [[association]] of {} in {}", of.user, of.account);
            say("association", i, "user", message, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn problems(text: &str) -> Vec<String> {
        let error = Config::parse(text, "m").unwrap_err();
        error.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn amounts_weights_and_factors_are_read_and_come_back() {
        let text = "[priority]\nage = 1000\ntres = \"cpu=10,gres/gpu=500\"\nhalf_life = \"14d\"\n\
                    fair_share_algorithm = \"classic\"\n\
                    [[partition]]\nname = \"p\"\nbilling = \"cpu=1.0,mem=0.25G,gres/gpu=4\"\n\
                    [[account]]\nname = \"lab\"\nshares = 30\ngrp_tres = \"gres/gpu=8,mem=1T\"\n\
                    [[association]]\naccount = \"lab\"\nuser = \"ada\"\nshares = \"parent\"\n\
                    [[qos]]\nname = \"high\"\nusage_factor = 2.5\nflags = [\"NoDecay\"]\n\
                    max_tres_per_user = \"gres/gpu:a100=2\"\n";
        let config = Config::parse(text, "m").unwrap();
        assert_eq!(config.account[0].limits().group.tres.to_string(), "mem=1T,gres/gpu=8");
        assert_eq!(config.qos[0].factor(), Some(2500));
        assert!(config.qos[0].qos_flags().no_decay);
        let again = Config::parse(&toml::to_string(&config).unwrap(), "m").unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn what_contradicts_itself_is_told_with_its_place() {
        let text = "[priority]\nage = 4000000000\nqos = 4000000000\n";
        assert!(problems(text)[0].starts_with("m:2:7: the weights add up to 8000000000"));
        let text =
            "[[qos]]\nname = \"a\"\nmax_tres_per_job = \"cpu=2\"\nmin_tres_per_job = \"cpu=4\"\n";
        assert!(problems(text)[0].starts_with("m:4:20: no job can have"), "{:?}", problems(text));
        let text =
            "[[association]]\naccount = \"labb\"\nuser = \"x\"\n[[account]]\nname = \"lab\"\n";
        assert_eq!(
            problems(text),
            ["m:2:11: there is no account labb [E_CONFIG_INVALID]\nhint: did you mean lab?"]
        );
        let text = "[[account]]\nname = \"lab\"\ngrp_tres = \"gpus=4\"\n";
        assert!(problems(text)[0].contains("is no resource"), "{:?}", problems(text));
        let text = "[[account]]\nname = \"lab\"\nusers = [\"ada\"]\n\
                    [[association]]\naccount = \"lab\"\nuser = \"mara\"\n";
        assert!(problems(text)[0].contains("does not admit user mara"));
        assert!(problems("[[partition]]\nname = \"p\"\nqos = \"x\"\n")[0].contains("no qos x"));
    }
}
