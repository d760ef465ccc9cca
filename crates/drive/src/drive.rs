//! The loop: extend the lease, read, plan, act.

use crate::steps::steps;
use crate::watch::Watch;
use crate::{DriveError, Happened, Step};
use muster_engine_slurm::act::{self, Lease, Release};
use muster_engine_slurm::read::{
    Answers, Cluster, Config, Driven, LEASE_PREFIX, Order, Target, lease_name, read, understand,
};
use muster_engine_slurm::{Commands, SlurmError};
use muster_model::{Seconds, Timestamp};
use muster_slurm_syntax::hostlist;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What seldom changes (partitions, limits, switches) is asked for again after so long.
const SLOWLY: Seconds = Seconds(60);

/// A lease that somebody else extends has moved after so long.
const EXTENDED_WITHIN: Duration = Duration::from_secs(12);

/// A lease is put off again after so long: each time is a call that no turn has to wait for.
const EXTEND_AGAIN: Seconds = Seconds(4);

/// Somebody who is in the midst of a turn has ended it after so long.
const MIDST: Duration = Duration::from_secs(2);

/// What comes back after so many looks is left: it is told as refused, or somebody insists.
const LOOKS: u32 = 5;

/// A lease that is over this much before what was last asked for was cut by somebody.
const MARGIN: Seconds = Seconds(5);

/// What is driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The partitions.
    pub partitions: BTreeSet<String>,
    /// Who drives: an operator of that Slurm.
    pub user: String,
    /// Without muster Slurm schedules by itself this long after the last turn.
    pub lease: Seconds,
    /// In which order jobs are looked at.
    pub order: Order,
}

/// Partitions being driven.
pub struct Drive {
    commands: Commands,
    settings: Settings,
    answers: Answers,
    /// When all of the answers were asked for.
    asked: Timestamp,
    extended: Timestamp,
    /// Users who were let into each lease.
    admitted: BTreeMap<String, BTreeSet<String>>,
    watch: Watch,
}

/// A turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// When, milliseconds since 1970.
    pub at_ms: Timestamp,
    /// What came of it.
    pub happened: Vec<Happened>,
    /// Jobs of the partitions that wait, each task of an array for itself as far as it could start.
    pub waiting: usize,
    /// Jobs in the whole Slurm that have resources.
    pub running: usize,
}

/// A lease as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lapse {
    /// The partition.
    pub partition: String,
    /// When Slurm schedules by itself, unless it is extended; milliseconds since 1970.
    pub until_ms: Timestamp,
    /// Jobs that wait in it: released, and not started yet.
    pub released: Vec<String>,
}

impl Drive {
    /// Takes the partitions over. A lease that is there already is taken over too, unless somebody
    /// extends it meanwhile: that is waited for by `pause`.
    ///
    /// # Errors
    /// [`DriveError`]; then nothing was changed but leases already made, which lapse.
    pub fn begin(
        commands: Commands,
        settings: Settings,
        clock: &dyn Fn() -> Timestamp,
        pause: &dyn Fn(Duration),
    ) -> Result<Self, DriveError> {
        let answers = Answers::ask(&commands)?;
        let now = clock();
        let cluster = understand(&answers, now)?;
        check(&cluster, &settings.partitions)?;
        let before = ends(&cluster, &settings.partitions);
        if before.values().any(|end| *end > now) {
            pause(EXTENDED_WITHIN);
            let after = ends(&read(&commands, clock())?, &settings.partitions);
            for (partition, end) in &before {
                if after.get(partition).is_some_and(|later| later > end) {
                    return Err(DriveError::Held { partition: partition.clone() });
                }
            }
        }
        let (extended, admitted, watch) = (clock(), BTreeMap::new(), Watch::default());
        let mut drive = Self { commands, settings, answers, asked: now, extended, admitted, watch };
        let cluster = read(&drive.commands, clock())?;
        for partition in drive.settings.partitions.clone() {
            drive.take(&cluster, &partition)?;
        }
        Ok(drive)
    }

    /// One turn. `clock` is asked again where time has gone by.
    ///
    /// # Errors
    /// [`DriveError::Slurm`] where Slurm cannot be asked now: turn again later. Any other ends it.
    pub fn turn(&mut self, clock: &dyn Fn() -> Timestamp) -> Result<Turn, DriveError> {
        let now = clock();
        self.ask(now)?;
        let cluster = understand(&self.answers, clock())?.ordered(self.settings.order);
        self.keep_leases(&cluster, now)?;
        let mut happened = Vec::new();
        happened.extend(self.watch.look(&cluster));
        let barred = self.watch.barred(now);
        let driven = cluster.driven(&self.settings.partitions, &barred);
        happened.extend(self.act(&cluster, &driven, now)?);
        let (waiting, running) = (driven.targets.len(), cluster.counts().1);
        Ok(Turn { at_ms: now, happened, waiting, running })
    }

    /// Gives the partitions back. Running jobs go on; Slurm schedules by itself at once.
    ///
    /// # Errors
    /// [`DriveError::Slurm`]; then the leases lapse.
    pub fn end(
        self,
        clock: &dyn Fn() -> Timestamp,
        pause: &dyn Fn(Duration),
    ) -> Result<Vec<Happened>, DriveError> {
        hand_back(&self.commands, &self.settings.partitions, clock, pause)
    }

    fn lease(&self, partition: &str) -> Lease {
        let seconds = u32::try_from(self.settings.lease.0).unwrap_or(u32::MAX);
        Lease { partition: partition.to_owned(), seconds }
    }

    /// Makes a lease, or extends the one that is there, be it over.
    fn take(&mut self, cluster: &Cluster, partition: &str) -> Result<(), DriveError> {
        let lease = self.lease(partition);
        let standing = ends(cluster, &self.settings.partitions).contains_key(partition);
        let take = if standing { lease.extend() } else { lease.create(&self.settings.user) };
        if !standing {
            self.admitted.remove(partition);
        }
        match act::carry_out(&self.commands, &[take])?.first() {
            None => Ok(()),
            Some(said) => {
                let partition = partition.to_owned();
                Err(DriveError::Refused { partition, said: said.clone() })
            }
        }
    }

    fn ask(&mut self, now: Timestamp) -> Result<(), SlurmError> {
        if now.since(self.asked) < SLOWLY {
            return self.answers.refresh(&self.commands);
        }
        self.answers = Answers::ask(&self.commands)?;
        self.asked = now;
        Ok(())
    }

    /// Extends the leases, and makes one again that lapsed; one that somebody cut or deleted ends
    /// it all.
    fn keep_leases(&mut self, cluster: &Cluster, now: Timestamp) -> Result<(), DriveError> {
        check(cluster, &self.settings.partitions)?;
        let standing = ends(cluster, &self.settings.partitions);
        let meant = self.extended.plus(self.settings.lease);
        let stands = |partition: &String| standing.get(partition).is_some_and(|end| *end > now);
        if now.since(self.extended) < EXTEND_AGAIN && self.settings.partitions.iter().all(stands) {
            return Ok(());
        }
        for partition in self.settings.partitions.clone() {
            let end = standing.get(&partition).copied().unwrap_or(now);
            let cut = end <= now && now.plus(MARGIN) < meant;
            if cut && !self.is_forgetful()? {
                return Err(DriveError::HandedBack { partition });
            }
            match self.take(cluster, &partition) {
                // It can be forgotten in just this moment; a later turn makes it again.
                Err(DriveError::Refused { .. }) if end <= now => return Ok(()),
                taken => taken?,
            }
        }
        self.extended = now;
        Ok(())
    }

    /// True where slurmctld began anew after it was told of the newest end: one that is killed
    /// forgets the last seconds.
    fn is_forgetful(&mut self) -> Result<bool, SlurmError> {
        self.answers = Answers::ask(&self.commands)?;
        let booted = Config::of(&self.answers.config).booted;
        Ok(booted.is_some_and(|booted| self.extended <= booted))
    }

    fn act(
        &mut self,
        cluster: &Cluster,
        driven: &Driven,
        now: Timestamp,
    ) -> Result<Vec<Happened>, DriveError> {
        let steps = steps(driven)?;
        let mut happened = Vec::new();
        let mut acts = Vec::new();
        let back = steps.take_back.iter().filter_map(|job| driven.targets.get(job));
        let released: BTreeSet<String> = names(&steps.release, driven);
        let left = driven.left.iter().filter(|target| !released.contains(&target.name));
        for target in back.chain(left).map(Target::whole) {
            self.watch.taken_back(&target);
            acts.push(act::give_back(&target));
            happened.push(Happened::TakenBack { job: target.name.clone() });
        }
        acts.extend(self.admit(driven, &steps.release));
        for step in &steps.release {
            let Some(target) = driven.targets.get(&step.job) else { continue };
            let target = &if step.whole { target.whole() } else { target.clone() };
            let partition =
                cluster.partitions.iter().find(|p| p.partition.name == target.partition);
            let all = partition.map(|p| p.partition.nodes.iter().cloned().collect());
            let all: BTreeSet<String> = all.unwrap_or_default();
            let (nodes, limit) = (&step.nodes, step.limit);
            acts.push(act::release(&Release { target, nodes, all: &all, limit }));
            self.watch.sent(target, nodes, now);
            if !nodes.is_empty() {
                let nodes = hostlist::fold(&nodes.iter().collect::<Vec<_>>());
                happened.push(Happened::Released { job: target.name.clone(), nodes });
            }
        }
        for (job, rule) in steps.broken {
            let job = driven.targets.get(&job).map_or(job.to_string(), |t| t.name.clone());
            happened.push(Happened::Broken { job, rule });
        }
        let refused = act::carry_out(&self.commands, &act::together(acts))?;
        happened.extend(refused.into_iter().map(|said| Happened::Refused { said }));
        Ok(happened)
    }

    /// A user is in a lease as long as a job of theirs is about to start in it.
    fn admit(&mut self, driven: &Driven, release: &[Step]) -> Vec<Vec<String>> {
        let mut acts = Vec::new();
        for partition in &self.settings.partitions {
            let new = release.iter().filter_map(|step| driven.targets.get(&step.job));
            let waiting = driven.targets.values().filter(|target| target.released);
            let needed: BTreeSet<&str> = new
                .chain(waiting)
                .filter(|target| target.partition == *partition)
                .map(|target| target.user.as_str())
                .filter(|user| *user != self.settings.user)
                .collect();
            let admitted = self.admitted.entry(partition.clone()).or_default();
            let had: BTreeSet<&str> = admitted.iter().map(String::as_str).collect();
            let add = needed.difference(&had).copied().collect();
            let remove = had.difference(&needed).copied().collect();
            let lease = Lease { partition: partition.clone(), seconds: 0 };
            acts.extend(lease.admit(&add, &remove));
            *admitted = needed.into_iter().map(str::to_owned).collect();
        }
        acts
    }
}

fn names(release: &[Step], driven: &Driven) -> BTreeSet<String> {
    let name = |step: &Step| {
        let target = driven.targets.get(&step.job)?;
        Some(if step.whole { target.whole().name } else { target.name.clone() })
    };
    release.iter().filter_map(name).collect()
}

/// The partitions are there, and their nodes are theirs alone.
fn check(cluster: &Cluster, partitions: &BTreeSet<String>) -> Result<(), DriveError> {
    let list = |names: &BTreeSet<&String>| {
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let all: BTreeSet<&String> = cluster.partitions.iter().map(|p| &p.partition.name).collect();
    if let Some(partition) = partitions.iter().find(|name| !all.contains(name)) {
        return Err(DriveError::Unknown { partition: partition.clone(), has: list(&all) });
    }
    for own in cluster.partitions.iter().filter(|p| partitions.contains(&p.partition.name)) {
        let (mut nodes, mut others) = (BTreeSet::new(), BTreeSet::new());
        for other in cluster.partitions.iter().filter(|p| !partitions.contains(&p.partition.name)) {
            let theirs: BTreeSet<&String> = other.partition.nodes.iter().collect();
            let both = own.partition.nodes.iter().filter(|node| theirs.contains(node));
            let before = nodes.len();
            nodes.extend(both);
            if nodes.len() > before {
                others.insert(&other.partition.name);
            }
        }
        if !nodes.is_empty() {
            return Err(DriveError::Shared {
                partition: own.partition.name.clone(),
                nodes: hostlist::fold(&nodes.iter().collect::<Vec<_>>()),
                others: list(&others),
            });
        }
    }
    Ok(())
}

/// The ends of the leases of partitions.
fn ends(cluster: &Cluster, partitions: &BTreeSet<String>) -> BTreeMap<String, Timestamp> {
    let one = |partition: &String| {
        let name = lease_name(partition);
        let lease = cluster.reservations.iter().find(|r| r.reservation.name == name)?;
        Some((partition.clone(), lease.reservation.window.end))
    };
    partitions.iter().filter_map(one).collect()
}

/// The leases that stand in a Slurm.
pub fn leases(cluster: &Cluster) -> Vec<Lapse> {
    let names = cluster.reservations.iter().map(|r| &r.reservation);
    let leases = names.filter_map(|r| Some((r.name.strip_prefix(LEASE_PREFIX)?, r.window.end)));
    let leases = leases.filter(|(_, end)| *end > cluster.now);
    let one = |(partition, until_ms): (&str, Timestamp)| {
        let driven = cluster.driven(&BTreeSet::from([partition.to_owned()]), &BTreeSet::new());
        let released = driven.targets.values().filter(|target| target.released);
        let released: BTreeSet<String> = released.map(|target| target.whole().name).collect();
        let released = released.into_iter().collect();
        Lapse { partition: partition.to_owned(), until_ms, released }
    };
    leases.map(one).collect()
}

/// Gives partitions back, whoever drives them: jobs that wait get back what they asked for, the
/// leases end. Running jobs go on.
///
/// Whoever drives them sees that in their next turn, but may be in the midst of one and extend a
/// lease once more: after a `pause` it is looked at again, until everything stays as it was left.
///
/// # Errors
/// [`DriveError::Slurm`] where Slurm cannot be asked.
pub fn hand_back(
    commands: &Commands,
    partitions: &BTreeSet<String>,
    clock: &dyn Fn() -> Timestamp,
    pause: &dyn Fn(Duration),
) -> Result<Vec<Happened>, DriveError> {
    let mut happened = Vec::new();
    for _ in 0..LOOKS {
        let cluster = read(commands, clock())?;
        let mut acts = cuts(&cluster, partitions);
        let driven = cluster.driven(partitions, &BTreeSet::new());
        let marked = driven.targets.values().filter(|target| target.marked);
        let back: BTreeMap<String, Target> = marked
            .chain(&driven.left)
            .map(|target| (target.whole().name, target.whole()))
            .collect();
        if acts.is_empty() && back.is_empty() {
            break;
        }
        acts.extend(back.values().map(act::give_back));
        happened.extend(back.into_keys().map(|job| Happened::TakenBack { job }));
        let refused = act::carry_out(commands, &act::together(acts))?;
        happened.extend(refused.into_iter().map(|said| Happened::Refused { said }));
        pause(MIDST);
    }
    Ok(happened)
}

/// Ends the leases that stand.
fn cuts(cluster: &Cluster, partitions: &BTreeSet<String>) -> Vec<Vec<String>> {
    let standing = ends(cluster, partitions).into_iter().filter(|(_, end)| *end > cluster.now);
    standing.map(|(partition, _)| Lease { partition, seconds: 0 }.cut()).collect()
}
