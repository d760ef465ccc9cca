//! The loop: extend the lease, read, plan, act.

use crate::lease::{By, check, ends, hand_back, tidied, users};
use crate::steps::steps;
use crate::watch::Watch;
use crate::{DriveError, Happened, Step};
use muster_engine_slurm::act::{self, Lease, Release};
use muster_engine_slurm::read::{
    Answers, Cluster, Config, Driven, Mark, Order, Target, read, stamped, understand,
};
use muster_engine_slurm::{Commands, SlurmError};
use muster_model::{Seconds, Timestamp};
use muster_slurm_syntax::hostlist;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// What seldom changes (partitions, limits, switches) is asked for again after so long.
const SLOWLY: Seconds = Seconds(60);

/// A lease that somebody else extends has moved after so long.
const EXTENDED_WITHIN: Duration = Duration::from_secs(12);

/// A lease is put off again after so long: each time is a call that no turn has to wait for.
const EXTEND_AGAIN: Seconds = Seconds(4);

/// A stamp is put off again after so long: each time is a change of a node.
const STAMP_AGAIN: Seconds = Seconds(8);

/// A lease that is over this much before what was last asked for was cut by somebody.
const MARGIN: Seconds = Seconds(5);

/// What is driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The partitions.
    pub partitions: BTreeSet<String>,
    /// How they are handed over.
    pub by: By,
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
        let (partitions, by) = (&settings.partitions, settings.by);
        check(&cluster, partitions, by)?;
        let both =
            |cluster: &Cluster| [By::Lease, By::Hold].map(|by| ends(cluster, partitions, by));
        let before = both(&cluster);
        if before.iter().any(|ends| ends.values().any(|end| *end > now)) {
            pause(EXTENDED_WITHIN);
            let after = both(&read(&commands, clock())?);
            for (before, after) in before.iter().zip(&after) {
                let later = |(name, end): &(&String, &Timestamp)| {
                    after.get(*name).is_some_and(|new| new > *end)
                };
                if let Some((partition, _)) = before.iter().find(later) {
                    return Err(DriveError::Held { partition: partition.clone() });
                }
            }
        }
        if is_handed_over_otherwise(&cluster, partitions, by) {
            hand_back(&commands, partitions, clock, pause)?;
        }
        let (extended, watch) = (clock(), Watch::default());
        let drive = Self { commands, settings, answers, asked: now, extended, watch };
        let cluster = read(&drive.commands, clock())?;
        for partition in &drive.settings.partitions {
            drive.take(&cluster, partition, extended)?;
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
        let mut happened = self.keep_leases(&cluster, now)?;
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
    fn take(&self, cluster: &Cluster, partition: &str, now: Timestamp) -> Result<(), DriveError> {
        let lease = self.lease(partition);
        let standing = ends(cluster, &self.settings.partitions, By::Lease);
        let take = match self.settings.by {
            By::Lease if standing.contains_key(partition) => lease.extend(),
            By::Lease => lease.create(&self.settings.user),
            By::Hold => match self.stamp(cluster, partition, now) {
                Some(stamp) => stamp,
                None => {
                    let (partition, said) = (partition.to_owned(), "it has no nodes".to_owned());
                    return Err(DriveError::Refused { partition, said });
                }
            },
        };
        match act::carry_out(&self.commands, &[take])?.first() {
            None => Ok(()),
            Some(said) => {
                let partition = partition.to_owned();
                Err(DriveError::Refused { partition, said: said.clone() })
            }
        }
    }

    /// Puts the stamp of a partition off, and those of others that stand on the same node.
    fn stamp(&self, cluster: &Cluster, partition: &str, now: Timestamp) -> Option<Vec<String>> {
        let (node, mut text) = cluster.stamp_place(partition)?;
        let until = now.plus(self.settings.lease);
        for other in &self.settings.partitions {
            if cluster.stamp_place(other).is_some_and(|(its, _)| its == node) {
                text = stamped(&text, other, until);
            }
        }
        Some(act::comment(&node, &text))
    }

    fn ask(&mut self, now: Timestamp) -> Result<(), SlurmError> {
        if now.since(self.asked) < SLOWLY {
            return self.answers.refresh(&self.commands);
        }
        self.answers = Answers::ask(&self.commands)?;
        self.asked = now;
        Ok(())
    }

    /// Extends the leases, and makes one again that lapsed. A partition whose lease somebody cut or
    /// deleted, or that is gone, is lost; losing the last one ends it all.
    fn keep_leases(
        &mut self,
        cluster: &Cluster,
        now: Timestamp,
    ) -> Result<Vec<Happened>, DriveError> {
        let mut happened = Vec::new();
        while let Err(error) = check(cluster, &self.settings.partitions, self.settings.by) {
            happened.extend(self.lose(error, now)?);
        }
        let standing = ends(cluster, &self.settings.partitions, self.settings.by);
        let again = match self.settings.by {
            By::Lease => EXTEND_AGAIN,
            By::Hold => STAMP_AGAIN,
        };
        let stands = |partition: &String| standing.get(partition).is_some_and(|end| *end > now);
        if now.since(self.extended) < again && self.settings.partitions.iter().all(stands) {
            return Ok(happened);
        }
        let mut all = true;
        for partition in self.settings.partitions.clone() {
            let end = standing.get(&partition).copied().unwrap_or(now);
            match self.keep(cluster, &partition, end, now) {
                // It can be forgotten in just this moment; a later turn makes it again.
                Err(DriveError::Refused { .. }) if end <= now => all = false,
                Err(error) => happened.extend(self.lose(error, now)?),
                Ok(()) => {}
            }
        }
        if all {
            self.extended = now;
        }
        Ok(happened)
    }

    /// Extends a lease that ends, or ended, then.
    fn keep(
        &mut self,
        cluster: &Cluster,
        partition: &str,
        end: Timestamp,
        now: Timestamp,
    ) -> Result<(), DriveError> {
        let meant = self.extended.plus(self.settings.lease);
        let cut = end <= now && now.plus(MARGIN) < meant;
        if cut && !self.is_forgetful()? {
            // Slurm deletes no partition that has a lease: its lease went first.
            check(&understand(&self.answers, now)?, &self.settings.partitions, self.settings.by)?;
            return Err(DriveError::HandedBack { partition: partition.to_owned() });
        }
        self.take(cluster, partition, now)
    }

    /// Drives a partition no longer: its jobs get back what they asked for, its lease ends.
    fn lose(&mut self, error: DriveError, now: Timestamp) -> Result<Vec<Happened>, DriveError> {
        let Some(partition) = error.partition().map(str::to_owned) else { return Err(error) };
        let lost = BTreeSet::from([partition.clone()]);
        // Where Slurm cannot be told now, its lease lapses.
        let tidy = |cluster| tidied(&self.commands, &cluster, &lost).ok().flatten();
        let cluster = read(&self.commands, now).ok();
        let mut happened = cluster.and_then(tidy).unwrap_or_default();
        self.settings.partitions.remove(&partition);
        if self.settings.partitions.is_empty() {
            return Err(error);
        }
        happened.push(Happened::Lost { partition, code: error.code(), why: error.to_string() });
        Ok(happened)
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
        let by_hold = self.settings.by == By::Hold;
        let steps = steps(driven, self.settings.by)?;
        let mut happened = Vec::new();
        let mut acts = Vec::new();
        for target in steps.hold.iter().filter_map(|job| driven.targets.get(job)) {
            let target = held(&target.whole());
            acts.push(act::hold(&target));
            happened.push(Happened::Held { job: target.name });
        }
        let back = steps.take_back.iter().filter_map(|job| driven.targets.get(job));
        for target in back.map(Target::whole) {
            self.watch.taken_back(&target);
            acts.push(if by_hold { act::hold(&held(&target)) } else { act::give_back(&target) });
            happened.push(Happened::TakenBack { job: target.name.clone() });
        }
        let released: BTreeSet<String> = names(&steps.release, driven);
        for target in driven.left.iter().filter(|target| !released.contains(&target.name)) {
            self.watch.taken_back(target);
            acts.push(act::give_back(target));
            happened.push(Happened::TakenBack { job: target.name.clone() });
        }
        if !by_hold {
            acts.extend(self.admit(cluster, driven, &steps.release));
        }
        for step in &steps.release {
            let Some(target) = driven.targets.get(&step.job) else { continue };
            let target = &if step.whole { target.whole() } else { target.clone() };
            let target = &if by_hold { held(target) } else { target.clone() };
            let partition =
                cluster.partitions.iter().find(|p| p.partition.name == target.partition);
            let all = partition.map(|p| p.partition.nodes.iter().cloned().collect());
            let all: BTreeSet<String> = all.unwrap_or_default();
            let (nodes, limit) = (&step.nodes, step.limit);
            acts.push(act::release(&Release { target, nodes, all: &all, limit, by_hold }));
            acts.extend(by_hold.then(|| act::let_go(target)));
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
    fn admit(&self, cluster: &Cluster, driven: &Driven, release: &[Step]) -> Vec<Vec<String>> {
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
            // Slurm's own record tells who is in: what was told last may not have reached it.
            let had = users(cluster, partition);
            let had = had.iter().map(String::as_str).filter(|user| *user != self.settings.user);
            let had: BTreeSet<&str> = had.collect();
            let add = needed.difference(&had).copied().collect();
            let remove = had.difference(&needed).copied().collect();
            let lease = Lease { partition: partition.clone(), seconds: 0 };
            acts.extend(lease.admit(&add, &remove));
        }
        acts
    }
}

/// A job as muster holds it, with the priority that it had.
fn held(target: &Target) -> Target {
    let held = Some(target.priority);
    Target { mark: Mark { held, ..target.mark.clone() }, ..target.clone() }
}

/// True where a muster that is gone had the partitions in the other way.
fn is_handed_over_otherwise(cluster: &Cluster, partitions: &BTreeSet<String>, by: By) -> bool {
    let driven = cluster.driven(partitions, &BTreeSet::new());
    match by {
        By::Hold => ends(cluster, partitions, By::Lease).values().any(|end| *end > cluster.now),
        By::Lease => {
            !ends(cluster, partitions, By::Hold).is_empty()
                || driven.targets.values().any(|target| target.mark.held.is_some())
        }
    }
}

fn names(release: &[Step], driven: &Driven) -> BTreeSet<String> {
    let name = |step: &Step| {
        let target = driven.targets.get(&step.job)?;
        Some(if step.whole { target.whole().name } else { target.name.clone() })
    };
    release.iter().filter_map(name).collect()
}
