//! Every limit that a job's start would break.

use super::{Asked, Limits, Sources, minutes, seconds};
use muster_model::{
    AssociationLimits, GroupLimits, Holder, Job, LimitHit, LimitName, QosLimits, Reason, Tres,
    TresKind,
};
use std::collections::BTreeSet;

/// One limit with the numbers that it is held against.
struct Measure<'a> {
    limit: LimitName,
    tres: Option<&'a TresKind>,
    most: u64,
    used: u64,
    asked: u64,
}

type OfQos = fn(&QosLimits) -> &Tres;
type OfAssociation = fn(&AssociationLimits) -> &Tres;
type OfGroup = fn(&GroupLimits) -> &Tres;

impl Limits<'_> {
    /// Every limit that stands in the way of a start.
    pub(crate) fn all(&self, job: &Job, asked: &Asked<'_>) -> Vec<Reason> {
        if self.is_idle() {
            return Vec::new();
        }
        let sources = self.sources(&job.spec, asked.partition);
        let mut check = Check { limits: self, sources, asked, broken: Vec::new() };
        check.all();
        check.broken
    }
}

/// A job held against its limits.
pub(super) struct Check<'a, 'b> {
    pub(super) limits: &'b Limits<'a>,
    pub(super) sources: Sources<'b>,
    pub(super) asked: &'b Asked<'b>,
    pub(super) broken: Vec<Reason>,
}

impl Check<'_, '_> {
    /// Every rule.
    pub(super) fn all(&mut self) {
        self.each_job();
        self.counts();
        self.held();
        self.time();
    }

    fn say(&mut self, of_qos: bool, whose: String, measure: &Measure<'_>) {
        let Measure { limit, tres, most, used, asked } = *measure;
        let hit = LimitHit { limit, tres: tres.cloned(), whose, most, used, asked };
        self.broken.push(if of_qos {
            Reason::QosLimit(hit)
        } else {
            Reason::AssociationLimit(hit)
        });
    }

    /// The kinds on which a limit is set anywhere.
    fn kinds(&self, qos: OfQos, association: Option<OfAssociation>) -> BTreeSet<TresKind> {
        let of_qos = self.sources.qos.iter().flat_map(|q| qos(&q.limits).0.keys());
        let mut kinds: BTreeSet<TresKind> = of_qos.cloned().collect();
        if let Some(association) = association {
            let all = self.sources.associations.iter();
            kinds.extend(all.flat_map(|(_, limits)| association(limits).0.keys()).cloned());
        }
        kinds
    }

    /// The kinds on which a limit on all jobs of somebody together is set.
    fn kinds_of_groups(&self, of: OfGroup) -> BTreeSet<TresKind> {
        let qos = self.sources.qos.iter().map(|qos| &qos.limits.group);
        let associations = self.sources.associations.iter().map(|(_, limits)| &limits.group);
        qos.chain(associations).flat_map(|group| of(group).0.keys()).cloned().collect()
    }

    /// Limits that a job breaks or keeps by itself.
    fn each_job(&mut self) {
        let wall = self
            .sources
            .of_qos(|l| l.max_wall)
            .map(|(qos, wall)| (true, format!("QOS {}", qos.name), minutes(wall), wall.0));
        let wall = wall.or_else(|| {
            let (whose, wall) = self.sources.nearest(|l| l.max_wall)?;
            Some((false, self.sources.named(whose), minutes(wall), wall.0))
        });
        let asked = seconds(self.asked.limit);
        if let Some((of_qos, whose, most, wall)) = wall
            && asked > wall
        {
            let asked = if asked == u64::MAX { asked } else { asked.div_ceil(60) };
            let limit = LimitName::MaxWall;
            self.say(of_qos, whose, &Measure { limit, tres: None, most, used: 0, asked });
        }
        self.one_job(LimitName::MaxTres, |l| &l.max_tres_per_job, |l| &l.max_tres);
        self.one_job(LimitName::MaxTresPerNode, |l| &l.max_tres_per_node, |l| &l.max_tres_per_node);
        self.one_job(LimitName::MaxTresMins, |l| &l.max_tres_mins_per_job, |l| &l.max_tres_mins);
        for kind in self.kinds(|l| &l.min_tres_per_job, None) {
            let found = self.sources.of_qos(|l| l.min_tres_per_job.limit(&kind));
            let asked = self.asked.tres.get(&kind);
            if let Some((qos, most)) = found.filter(|(_, least)| asked < *least) {
                let (limit, tres) = (LimitName::MinTres, Some(&kind));
                let whose = format!("QOS {}", qos.name);
                self.say(true, whose, &Measure { limit, tres, most, used: 0, asked });
            }
        }
    }

    fn one_job(&mut self, limit: LimitName, of_qos: OfQos, of_association: OfAssociation) {
        for kind in self.kinds(of_qos, Some(of_association)) {
            let qos = self.sources.of_qos(|l| of_qos(l).limit(&kind));
            let found =
                qos.map(|(qos, most)| (true, format!("QOS {}", qos.name), most)).or_else(|| {
                    let (whose, most) = self.sources.nearest(|l| of_association(l).limit(&kind))?;
                    Some((false, self.sources.named(whose), most))
                });
            let Some((is_qos, whose, most)) = found else { continue };
            let asked = match limit {
                LimitName::MaxTresPerNode => {
                    self.asked.nodes.iter().map(|node| node.get(&kind)).max().unwrap_or(0)
                }
                LimitName::MaxTresMins => self.asked_minutes(&kind),
                _ => self.asked.tres.get(&kind),
            };
            if asked > most {
                let tres = Some(&kind);
                self.say(is_qos, whose, &Measure { limit, tres, most, used: 0, asked });
            }
        }
    }

    /// Minutes of a kind that the job may use, counted up.
    fn asked_minutes(&self, kind: &TresKind) -> u64 {
        as_minutes(self.asked_time(kind))
    }

    /// Unit-seconds of a kind that the job may use, with the usage factor where that is safe.
    fn asked_time(&self, kind: &TresKind) -> u128 {
        let time = u128::from(self.asked.tres.get(kind)) * u128::from(seconds(self.asked.limit));
        time.saturating_mul(u128::from(self.sources.factor)) / 1000
    }

    /// Limits on how many jobs run.
    fn counts(&mut self) {
        let sources = &self.sources;
        let groups = sources.groups(|l| l.jobs).into_iter();
        let mut found: Vec<(bool, Holder, String, LimitName, u32)> = groups
            .map(|(of_qos, holder, whose, most)| (of_qos, holder, whose, LimitName::GrpJobs, most))
            .collect();
        if let Some((qos, most)) = sources.of_qos(|l| l.max_jobs_per_user) {
            let (holder, named) = sources.qos_user(qos);
            found.push((true, holder, named, LimitName::MaxJobs, most));
        } else if let Some((_, most)) = sources.nearest(|l| l.max_jobs) {
            let named = sources.named(super::Whose::User);
            found.push((false, sources.user_holder(), named, LimitName::MaxJobs, most));
        }
        if let Some((qos, most)) = sources.of_qos(|l| l.max_jobs_per_account) {
            let (holder, named) = sources.qos_account(qos);
            found.push((true, holder, named, LimitName::MaxJobsPerAccount, most));
        }
        for (of_qos, holder, whose, limit, most) in found {
            let used = self.limits.running(&holder);
            if used >= most {
                let (most, used) = (u64::from(most), u64::from(used));
                self.say(of_qos, whose, &Measure { limit, tres: None, most, used, asked: 1 });
            }
        }
    }

    /// Limits on what is held at once.
    fn held(&mut self) {
        for kind in self.kinds_of_groups(|l| &l.tres) {
            for (of_qos, holder, whose, most) in self.sources.groups(|l| l.tres.limit(&kind)) {
                self.hold(of_qos, &holder, whose, LimitName::GrpTres, &kind, most);
            }
        }
        for kind in self.kinds(|l| &l.max_tres_per_user, None) {
            if let Some((qos, most)) = self.sources.of_qos(|l| l.max_tres_per_user.limit(&kind)) {
                let (holder, whose) = self.sources.qos_user(qos);
                self.hold(true, &holder, whose, LimitName::MaxTresPerUser, &kind, most);
            }
        }
        for kind in self.kinds(|l| &l.max_tres_per_account, None) {
            if let Some((qos, most)) = self.sources.of_qos(|l| l.max_tres_per_account.limit(&kind))
            {
                let (holder, whose) = self.sources.qos_account(qos);
                self.hold(true, &holder, whose, LimitName::MaxTresPerAccount, &kind, most);
            }
        }
    }

    fn hold(
        &mut self,
        of_qos: bool,
        holder: &Holder,
        whose: String,
        limit: LimitName,
        kind: &TresKind,
        most: u64,
    ) {
        let (used, asked) = (self.limits.in_use(holder, kind), self.asked.tres.get(kind));
        // Who asks for none of it is not held by its being used up.
        if asked > 0 && used.saturating_add(asked) > most {
            self.say(of_qos, whose, &Measure { limit, tres: Some(kind), most, used, asked });
        }
    }

    /// Limits on resource time and wall clock time.
    fn time(&mut self) {
        let limits: [(LimitName, OfGroup); 2] = [
            (LimitName::GrpTresMins, |l| &l.tres_mins),
            (LimitName::GrpTresRunMins, |l| &l.tres_run_mins),
        ];
        for (limit, of) in limits {
            for kind in self.kinds_of_groups(of) {
                for (is_qos, holder, whose, most) in self.sources.groups(|l| of(l).limit(&kind)) {
                    let spent = match limit {
                        LimitName::GrpTresMins => {
                            self.limits.state.spent(&holder, self.limits.now).minutes(&kind)
                        }
                        _ => 0,
                    };
                    let left = self.limits.remaining(&holder, &kind);
                    let used = spent.saturating_add(as_minutes(left));
                    let asked = self.asked_minutes(&kind);
                    if asked > 0 && used.saturating_add(asked) > most {
                        let tres = Some(&kind);
                        self.say(is_qos, whose, &Measure { limit, tres, most, used, asked });
                    }
                }
            }
        }
        let walls = self.sources.groups(|l| l.wall);
        for (of_qos, holder, whose, wall) in walls {
            let used = self.limits.state.spent(&holder, self.limits.now).wall_ms;
            if used >= wall.0.saturating_mul(1000) {
                let (most, used) = (minutes(wall), used / 60_000);
                let limit = LimitName::GrpWall;
                self.say(of_qos, whose, &Measure { limit, tres: None, most, used, asked: 0 });
            }
        }
    }
}

/// Unit-seconds as minutes, counted up.
fn as_minutes(time: u128) -> u64 {
    u64::try_from(time.div_ceil(60)).unwrap_or(u64::MAX)
}
