//! A look at Slurm: what became of muster's jobs, and how its nodes stand.

use super::ending::Ended;
use super::request::marked;
use super::{Shared, foreign};
use crate::read::{Answers, CALLS, CALLS_AGAIN, Cluster, JobRecord, JobStanding, understand};
use crate::{Commands, SlurmError};
use muster_engine::book::{Attempt, Key, Phase};
use muster_engine::now;
use muster_engine::{Observation, Waits};
use muster_model::{EndCause, ExitReport, Node, Partition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A job that neither squeue nor sacct knows for so long is lost.
const UNSEEN_MAX: Duration = Duration::from_mins(1);

/// What changes seldom (partitions, the configuration) is asked for again after so many looks.
const LOOKS_MAX: u32 = 20;

/// What the last look saw.
#[derive(Default)]
pub(super) struct Seen {
    at: Option<Instant>,
    answers: Option<Answers>,
    looks: u32,
    nodes: Vec<Node>,
    partitions: Vec<Partition>,
}

impl Seen {
    /// Asks a Slurm how it stands.
    fn ask(&mut self, commands: &Commands) -> Result<Cluster, SlurmError> {
        let mut answers = match self.answers.take().filter(|_| self.looks < LOOKS_MAX) {
            Some(answers) => answers,
            None => {
                self.looks = 0;
                Answers::ask(commands)?
            }
        };
        if self.looks > 0 {
            answers.refresh(commands)?;
        }
        self.looks += 1;
        let cluster = understand(&answers, now())?;
        self.answers = Some(answers);
        Ok(cluster)
    }

    /// So many commands the next look takes.
    fn calls(&self) -> u32 {
        let again = self.answers.is_some() && self.looks < LOOKS_MAX;
        if again { CALLS_AGAIN } else { CALLS }
    }
}

impl Shared {
    /// So many commands a look takes.
    pub(super) fn calls(&self) -> u32 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).calls()
    }

    /// The nodes as last seen; looks where that is too long ago, or failed.
    pub(super) fn nodes(&self) -> Result<Vec<Node>, SlurmError> {
        self.fresh().map(|seen| seen.nodes.clone())
    }

    /// Slurm's partitions as last seen, likewise.
    pub(super) fn partitions(&self) -> Result<Vec<Partition>, SlurmError> {
        self.fresh().map(|seen| seen.partitions.clone())
    }

    fn fresh(&self) -> Result<MutexGuard<'_, Seen>, SlurmError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = seen.at.is_some_and(|at| at.elapsed() <= self.config.most * 2);
        if !fresh {
            self.look(&mut seen)?;
        }
        Ok(seen)
    }

    /// Looks; true where something is not as it was.
    pub(super) fn look_now(&self) -> Result<bool, SlurmError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.look(&mut seen)
    }

    fn look(&self, seen: &mut Seen) -> Result<bool, SlurmError> {
        // What is submitted from here on may not be in the answer.
        let asked: BTreeMap<u32, Key> = {
            let book = self.book();
            let open = book.iter().filter(|(_, attempt)| attempt.is_open());
            open.filter_map(|(key, attempt)| Some((attempt.id?, *key))).collect()
        };
        let since = seen.at.take();
        let present = seen.ask(&self.config.commands)?;
        let mut changed = self.recognise(&present);
        let mut gone = Vec::new();
        let mut words = BTreeMap::new();
        for (&id, &key) in &asked {
            match present.job(id) {
                Some(job) => {
                    changed |= self.take(key, job);
                    words.extend(waits(job).map(|waits| (key, waits)));
                }
                None => gone.push((id, key)),
            }
        }
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = words;
        changed |= self.look_up(&gone);
        changed |= self.take_nodes(seen, &present, since.is_some());
        seen.at = Some(Instant::now());
        Ok(changed)
    }

    /// Jobs by their marks: those whose number got lost, and those that should not be there.
    fn recognise(&self, present: &Cluster) -> bool {
        let mut changed = false;
        for job in &present.jobs {
            let id = job.id().0;
            let mut book = self.book();
            let Some(key) = marked(book.instance(), job.comment()) else { continue };
            let lives = job.standing() != JobStanding::Over;
            let known = book.get(key).map(|a| (a.is_open(), a.id, a.owner.uid));
            match known {
                Some((_, Some(own), _)) if own == id => {}
                // Anybody can write a comment; only the owner's own is believed.
                Some((.., uid)) if job.uid() != Some(uid) => {}
                Some((true, None, _)) => {
                    changed = true;
                    if let Err(error) = book.submitted(key, id) {
                        tracing::warn!(job = %key.job, %error, "cannot write a number down");
                    }
                }
                // No journal tells of it: it counts as somebody else's.
                None if !book.is_acknowledged(key) => {}
                _ if lives => {
                    drop(book);
                    tracing::warn!(job = %key.job, slurm = id, "submitted twice: one is cancelled");
                    // What fails is tried again at the next look.
                    drop(self.cancel(id));
                }
                _ => {}
            }
        }
        changed
    }

    /// What a record says of an attempt; true where that is news.
    fn take(&self, key: Key, job: &JobRecord) -> bool {
        let mut book = self.book();
        let Some(attempt) = book.get(key).filter(|attempt| attempt.is_open()).cloned() else {
            return false;
        };
        match job.standing() {
            JobStanding::Waiting => {
                book.change(key, |attempt| attempt.unseen = None);
                false
            }
            JobStanding::Holding => {
                let suspended = job.is("SUSPENDED");
                let begun = !job.is("CONFIGURING") && attempt.phase == Phase::Accepted;
                let started = job.started().unwrap_or_default().max(attempt.accepted).min(now());
                book.change(key, |attempt| {
                    attempt.unseen = None;
                    attempt.suspended = suspended;
                    if begun {
                        attempt.phase = Phase::Running(started);
                    }
                });
                drop(book);
                let (job, number) = (key.job, key.attempt);
                if begun {
                    self.tell(Observation::Started { job, attempt: number });
                }
                let turned = attempt.suspended != suspended;
                if turned {
                    self.tell(Observation::Suspended { job, attempt: number, suspended });
                }
                begun || turned
            }
            JobStanding::Over => {
                drop(book);
                let (code, signal) = job.exit_status();
                let ended = Ended {
                    id: job.id().0,
                    state: job.state().to_owned(),
                    by: None,
                    code,
                    signal,
                    started: job.started().filter(|_| began(job)),
                    until: job.ended(),
                };
                self.over(key, &attempt, &ended)
            }
        }
    }

    fn over(&self, key: Key, attempt: &Attempt, ended: &Ended) -> bool {
        self.exited(key, ended.report(attempt, now()))
    }

    /// Notes an exit and tells of it, once. One that cannot be written down is found again.
    pub(super) fn exited(&self, key: Key, report: ExitReport) -> bool {
        if let Err(error) = self.book().exited(key, report.clone()) {
            tracing::warn!(job = %key.job, %error, "cannot write an exit down");
            return false;
        }
        self.tell(Observation::Exited { job: key.job, attempt: key.attempt, report });
        true
    }

    /// Attempts that slurmctld has forgotten: the accounting knows how they ended.
    fn look_up(&self, gone: &[(u32, Key)]) -> bool {
        if gone.is_empty() {
            return false;
        }
        let ids: Vec<u32> = gone.iter().map(|(id, _)| *id).collect();
        let told = match self.accounted(&ids) {
            Ok(told) => told,
            Err(error) => {
                tracing::warn!(%error, "Slurm's accounting does not tell how jobs ended");
                return false;
            }
        };
        let mut changed = false;
        for &(id, key) in gone {
            let open = |attempt: &&Attempt| attempt.is_open();
            let Some(attempt) = self.book().get(key).filter(open).cloned() else { continue };
            if let Some(ended) = told.iter().find(|ended| ended.id == id) {
                changed |= self.over(key, &attempt, ended);
                continue;
            }
            let since = attempt.unseen.unwrap_or_else(Instant::now);
            self.book().change(key, |attempt| attempt.unseen = Some(since));
            if since.elapsed() >= UNSEEN_MAX {
                let message =
                    format!("Slurm does not know its job {id} any more, nor how it ended");
                let started = match attempt.phase {
                    Phase::Running(started) => Some(started),
                    _ => None,
                };
                let report = ExitReport::never_ran(EndCause::NodeLost, &message, now());
                changed |= self.exited(key, ExitReport { started, ..report });
            }
        }
        changed
    }

    /// How jobs ended, by sacct; none where there is no accounting.
    fn accounted(&self, ids: &[u32]) -> Result<Vec<Ended>, SlurmError> {
        let Some(sacct) = &self.sacct else { return Ok(Vec::new()) };
        let list = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let words =
            ["-n", "-P", "-X", "--allusers", "-j", &list, "-o", "jobid,state,exitcode,start,end"];
        let said = match self.config.commands.run(sacct, &words) {
            Err(SlurmError::Failed { said, .. }) if said.contains("storage is disabled") => {
                return Ok(Vec::new());
            }
            said => said?,
        };
        Ok(String::from_utf8_lossy(&said).lines().filter_map(Ended::of_sacct).collect())
    }

    /// The job of an attempt whose number is not known, by its mark: in the queue, else in the
    /// accounting, which keeps the line that it was submitted with.
    pub(super) fn find(&self, key: Key, mark: &str) -> Result<Option<u32>, SlurmError> {
        let (instance, accepted, owner) = {
            let book = self.book();
            let Some(attempt) = book.get(key) else { return Ok(None) };
            (book.instance().to_owned(), attempt.accepted, attempt.owner.uid)
        };
        let present = understand(&Answers::ask(&self.config.commands)?, now())?;
        // Anybody can write a comment; only the owner's own is believed.
        let is_it = |job: &&JobRecord| {
            job.uid() == Some(owner) && marked(&instance, job.comment()) == Some(key)
        };
        if let Some(job) = present.jobs.iter().find(is_it) {
            return Ok(Some(job.id().0));
        }
        let Some(sacct) = &self.sacct else { return Ok(None) };
        let from = format!("uts{}", (accepted.millis() / 1000).saturating_sub(60));
        let words = ["-n", "-P", "-X", "--allusers", "-S", &from, "-o", "jobid,uid,submitline"];
        let said = match self.config.commands.run(sacct, &words) {
            Err(SlurmError::Failed { said, .. }) if said.contains("storage is disabled") => {
                return Ok(None);
            }
            said => said?,
        };
        let option = format!("--comment={mark}");
        let said = String::from_utf8_lossy(&said).into_owned();
        let line = said.lines().find_map(|line| {
            let mut fields = line.splitn(3, '|');
            let (id, uid, line) = (fields.next()?, fields.next()?, fields.next()?);
            let theirs = uid.parse() != Ok(owner);
            let marked = line.split(' ').any(|word| word == option);
            (marked && !theirs).then(|| id.parse().ok()).flatten()
        });
        Ok(line)
    }

    fn take_nodes(&self, seen: &mut Seen, present: &Cluster, before: bool) -> bool {
        let offered: BTreeSet<&str> = self.config.partitions.values().map(String::as_str).collect();
        let nodes = foreign::nodes(present, &self.book(), &self.config.name, &offered);
        let plain = |node: &Node| Node { foreign: Vec::new(), ..node.clone() };
        let same = nodes.len() == seen.nodes.len()
            && nodes.iter().zip(&seen.nodes).all(|(new, old)| plain(new) == plain(old));
        let mut changed = !same;
        if before && !same {
            self.tell(Observation::NodesChanged);
        } else {
            for (new, old) in nodes.iter().zip(&seen.nodes) {
                if new.foreign != old.foreign {
                    changed = true;
                    let (node, foreign) = (new.name.clone(), new.foreign.clone());
                    self.tell(Observation::Foreign { node, foreign });
                }
            }
        }
        seen.nodes = nodes;
        seen.partitions = present.partitions.iter().map(|of| of.partition.clone()).collect();
        changed
    }

    /// True where something is on its way that Slurm has to tell of.
    pub(super) fn awaits_something(&self) -> bool {
        let book = self.book();
        book.iter().any(|(_, a)| a.is_open() && (a.phase == Phase::Accepted || a.stopping))
    }
}

/// Slurm's word for why a job waits.
fn waits(job: &JobRecord) -> Option<Waits> {
    let waits = job.standing() == JobStanding::Waiting;
    let word = job.slurm_reason().filter(|_| waits)?.to_owned();
    Some(Waits { word, expected: job.expected() })
}

/// True where a job that is over has run: one cancelled while it waited has its end as its start.
fn began(job: &JobRecord) -> bool {
    !job.nodes().is_empty()
}
