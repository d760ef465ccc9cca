//! For each amount that jobs ask for: when which node has so much free.
//!
//! A level is a necessary condition: where a job fits, its level has a hole. What fits for good is
//! decided by the exact rules, on the few nodes that the level names. Levels come into being as
//! they are asked for and are kept up as nodes change.

use crate::alternatives::Alternative;
use crate::ask::{Ask, Floor};
use crate::free::{DeviceMask, NodeView};
use crate::holes::{Hole, Holes};
use crate::profile::{FOREVER, Least, Profile, Tick};
use muster_model::{Constraint, Exclusive};

/// Beyond so many levels, jobs share the coarsest of their partition.
const LEVELS_MAX: usize = 64;

/// What jobs of one level have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    partition: String,
    constraint: Option<Constraint>,
    model: Option<String>,
    gpus: u32,
    cpus: u32,
    alone: bool,
}

/// One amount, and when which node of its partition has it.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    key: Key,
    alternatives: Vec<Alternative>,
    /// By node: whether it is of the level at all, and which of its GPUs count.
    members: Vec<Option<DeviceMask>>,
    pub(crate) holes: Holes,
    /// Another one whenever the holes have changed.
    stamp: u64,
}

/// All levels of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    all: Vec<Level>,
    /// The last stamp that was given.
    stamp: u64,
    /// What was told about a node before it changed.
    before: Profile,
    before_usable: bool,
    /// Room for the holes of one node.
    spare: (Vec<Hole>, Vec<Hole>),
}

/// The holes of all levels at one point.
#[derive(Clone, Debug)]
pub(crate) struct Saved(Vec<Holes>);

impl Key {
    fn of(ask: &Ask) -> Self {
        let (gpus, cpus, alone) = Self::amounts(ask);
        Self {
            partition: ask.partition.name.clone(),
            constraint: ask.request.constraint.clone(),
            model: ask.only_model().map(str::to_owned),
            gpus,
            cpus,
            alone,
        }
    }

    /// CPUs in powers of two, and only where no GPU is asked for: few levels tell enough.
    fn amounts(ask: &Ask) -> (u32, u32, bool) {
        let floor = ask.least_floor();
        let alone = ask.kind() == Exclusive::Node;
        let cpus = match floor.cpus.checked_ilog2() {
            None => 0,
            Some(_) if floor.gpus > 0 || alone => 1,
            Some(power) => 1 << power,
        };
        (floor.gpus, cpus, alone)
    }

    /// True where [`Self::of`] of the ask is this.
    fn is_of(&self, ask: &Ask) -> bool {
        (self.gpus, self.cpus, self.alone) == Self::amounts(ask)
            && self.partition == ask.partition.name
            && self.model.as_deref() == ask.only_model()
            && self.constraint == ask.request.constraint
    }

    fn coarsest(ask: &Ask) -> Self {
        Self {
            partition: ask.partition.name.clone(),
            constraint: None,
            model: None,
            gpus: 0,
            cpus: ask.least_floor().cpus.min(1),
            alone: false,
        }
    }

    fn least(&self, mask: DeviceMask) -> Least {
        let floor = Floor { cpus: self.cpus, gpus: self.gpus, memory: 0 };
        Least { floor, mask, alone: self.alone }
    }
}

impl Level {
    /// True where every node that could take its part of the ask has a hole here.
    fn serves(&self, ask: &Ask) -> bool {
        let (key, floor) = (&self.key, ask.least_floor());
        let alone = ask.kind() == Exclusive::Node;
        key.partition == ask.partition.name
            && (key.constraint.is_none() || key.constraint == ask.request.constraint)
            && (key.model.is_none() || key.model.as_deref() == ask.only_model())
            && key.gpus <= floor.gpus
            && key.cpus <= floor.cpus
            && (alone || !key.alone)
    }

    fn membership(&self, view: &NodeView, is_member: bool) -> Option<DeviceMask> {
        let admitted = is_member
            && (self.key.constraint.is_none()
                || self.alternatives.iter().any(|a| a.admits(&view.node.features)));
        let mask = match &self.key.model {
            None => DeviceMask::MAX,
            Some(model) => view.models.iter().find(|m| m.0 == *model).map_or(0, |m| m.1),
        };
        admitted.then_some(mask)
    }

    fn holes_of(&self, node: usize, usable: bool, profile: &Profile, holes: &mut Vec<Hole>) {
        if let Some(mask) = self.members.get(node).copied().flatten().filter(|_| usable) {
            profile.holes(&self.key.least(mask), Tick::MIN, FOREVER, |from, to| {
                holes.push(Hole { from, node: node as u32, to });
            });
        }
    }

    /// False where the node has not even now, for an instant, what the level is about. `free` is
    /// what it has.
    pub(crate) fn is_open_now(&self, node: usize, free: Floor) -> bool {
        let is_member = self.members.get(node).is_some_and(Option::is_some);
        is_member && free.cpus >= self.key.cpus && free.gpus >= self.key.gpus
    }

    /// Which GPUs of a node count; none where the node is not of the level.
    pub(crate) fn mask(&self, node: usize) -> DeviceMask {
        self.members.get(node).copied().flatten().unwrap_or(0)
    }

    /// The partition that it is of.
    pub(crate) fn partition(&self) -> &str {
        &self.key.partition
    }

    /// Tells the holes from those at other times.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Puts the new holes of a node in the place of the old ones; both are in order of time.
    fn replace(&mut self, old: &[Hole], new: &[Hole], stamp: &mut u64) {
        if old == new {
            return;
        }
        *stamp += 1;
        self.stamp = *stamp;
        let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (Some(a), Some(b)) if a.from == b.from => {
                    if a.to != b.to {
                        self.holes.change(*a, b.to);
                    }
                    old.next();
                    new.next();
                }
                (Some(a), b) if b.is_none_or(|b| a.from < b.from) => {
                    self.holes.remove(*a);
                    old.next();
                }
                (_, Some(b)) => {
                    self.holes.insert(*b);
                    new.next();
                }
                (_, None) => return,
            }
        }
    }
}

impl Levels {
    /// The level of an ask, made where it is not there yet.
    pub(crate) fn of(
        &mut self,
        ask: &Ask,
        views: &[NodeView],
        is_member: impl Fn(usize) -> bool,
    ) -> usize {
        if let Some(at) = ask.level.get()
            && self.all.get(*at).is_some_and(|level| level.serves(ask))
        {
            return *at;
        }
        let at = self.find_or_make(ask, views, is_member);
        // Another world may have set it: then it is looked up each time.
        let _ = ask.level.set(at);
        at
    }

    fn find_or_make(
        &mut self,
        ask: &Ask,
        views: &[NodeView],
        is_member: impl Fn(usize) -> bool,
    ) -> usize {
        // Few enough to look at each.
        if let Some(at) = self.all.iter().position(|level| level.key.is_of(ask)) {
            return at;
        }
        let exact = self.all.len() < LEVELS_MAX;
        let made = if exact { Key::of(ask) } else { Key::coarsest(ask) };
        if let Some(at) = self.all.iter().position(|level| level.key == made) {
            return at;
        }
        let alternatives =
            if made.constraint.is_some() { ask.alternatives.clone() } else { Vec::new() };
        let members = vec![None; views.len()];
        self.stamp += 1;
        let (holes, stamp) = (Holes::default(), self.stamp);
        let mut level = Level { key: made, alternatives, members, holes, stamp };
        let mut holes = Vec::new();
        for (node, view) in views.iter().enumerate() {
            level.members[node] = level.membership(view, is_member(node));
            level.holes_of(node, view.usable, &view.profile, &mut holes);
        }
        level.holes = Holes::of(holes);
        self.all.push(level);
        self.all.len() - 1
    }

    /// The holes as they are.
    pub(crate) fn save(&self) -> Saved {
        Saved(self.all.iter().map(|level| level.holes.clone()).collect())
    }

    /// True where no level came into being since.
    pub(crate) fn can_restore(&self, saved: &Saved) -> bool {
        saved.0.len() == self.all.len()
    }

    /// Puts the holes back as they were.
    pub(crate) fn restore(&mut self, saved: Saved) {
        for (level, holes) in self.all.iter_mut().zip(saved.0) {
            level.holes = holes;
            self.stamp += 1;
            level.stamp = self.stamp;
        }
    }

    pub(crate) fn get(&self, level: usize) -> Option<&Level> {
        self.all.get(level)
    }

    /// Notes a node as it is before it changes.
    pub(crate) fn before(&mut self, view: &NodeView) {
        if !self.all.is_empty() {
            self.before.clone_from(&view.profile);
            self.before_usable = view.usable;
        }
    }

    /// Takes up a node whose takings changed.
    pub(crate) fn after(&mut self, node: usize, view: &NodeView) {
        let Some(change) = self.before.difference(&view.profile) else { return };
        let before = std::mem::take(&mut self.before);
        let (mut old, mut new) = std::mem::take(&mut self.spare);
        for level in &mut self.all {
            let Some(mask) = level.members.get(node).copied().flatten() else { continue };
            let wanted = level.key.least(mask);
            // What nowhere gives enough, or everywhere, changes no hole.
            if !change.most.gives(&wanted) || change.least.gives(&wanted) {
                continue;
            }
            old.clear();
            new.clear();
            let hole = |from, to| Hole { from, node: node as u32, to };
            if self.before_usable {
                before.holes_around(&wanted, &change, |from, to| old.push(hole(from, to)));
            }
            if view.usable {
                let profile = &view.profile;
                profile.holes_around(&wanted, &change, |from, to| new.push(hole(from, to)));
            }
            level.replace(&old, &new, &mut self.stamp);
        }
        self.before = before;
        self.spare = (old, new);
    }

    /// Takes up a node that was described anew.
    pub(crate) fn described(
        &mut self,
        node: usize,
        view: &NodeView,
        partitions: impl Fn(&str) -> bool,
    ) {
        let before = std::mem::take(&mut self.before);
        for level in &mut self.all {
            let (mut old, mut new) = (Vec::new(), Vec::new());
            level.holes_of(node, self.before_usable, &before, &mut old);
            let is_member = partitions(&level.key.partition);
            let membership = level.membership(view, is_member);
            if let Some(member) = level.members.get_mut(node) {
                *member = membership;
            }
            level.holes_of(node, view.usable, &view.profile, &mut new);
            level.replace(&old, &new, &mut self.stamp);
        }
        self.before = before;
    }
}
