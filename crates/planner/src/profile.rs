//! What is free on one node over time: a step function, and the stretches in which enough is free.

use crate::ask::Floor;
use crate::free::DeviceMask;
use muster_model::Timestamp;

/// An instant in milliseconds, with two more at the end: [`NEVER`], when everything is over that
/// has no end, and [`FOREVER`], after that.
pub(crate) type Tick = i64;

/// When all running jobs are over, also those without a limit.
pub(crate) const NEVER: Tick = i64::MAX - 1;
/// The end of what is never over.
pub(crate) const FOREVER: Tick = i64::MAX;

pub(crate) fn tick(at: Timestamp) -> Tick {
    at.millis().min(NEVER)
}

pub(crate) fn instant(at: Tick) -> Timestamp {
    if at >= NEVER { Timestamp::NEVER } else { Timestamp::from_millis(at) }
}

/// What is free from an instant to that of the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: Tick,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) devices: DeviceMask,
    /// How many take something.
    pub(crate) takers: u32,
}

/// What something takes of a node, from one instant to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take {
    pub(crate) from: Tick,
    pub(crate) to: Tick,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) devices: DeviceMask,
}

/// The least that a stretch has to have: amounts, GPUs out of a mask, and perhaps nobody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least {
    pub(crate) floor: Floor,
    pub(crate) mask: DeviceMask,
    pub(crate) alone: bool,
}

impl Step {
    /// The one function by which anything is taken.
    fn take(&mut self, take: &Take) {
        self.cpus = self.cpus.saturating_sub(take.cpus);
        self.memory = self.memory.saturating_sub(take.memory);
        self.devices &= !take.devices;
        self.takers += 1;
    }

    pub(crate) fn gives(&self, least: &Least) -> bool {
        self.cpus >= least.floor.cpus
            && self.memory >= least.floor.memory
            && (least.floor.gpus == 0
                || (self.devices & least.mask).count_ones() >= least.floor.gpus)
            && !(least.alone && self.takers > 0)
    }

    fn narrow(&mut self, other: &Self) {
        self.cpus = self.cpus.min(other.cpus);
        self.memory = self.memory.min(other.memory);
        self.devices &= other.devices;
        self.takers = self.takers.max(other.takers);
    }

    fn widen(&mut self, other: &Self) {
        self.cpus = self.cpus.max(other.cpus);
        self.memory = self.memory.max(other.memory);
        self.devices |= other.devices;
        self.takers = self.takers.min(other.takers);
    }
}

/// Where two profiles of one node differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    /// The most and the least in the steps by which they differ.
    pub(crate) most: Step,
    pub(crate) least: Step,
    /// Up to this step they are the same, but for its end.
    from: usize,
    /// So many steps at the end are the same.
    tail: usize,
}

/// The steps of a node in order of time; the first begins before all time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    steps: Vec<Step>,
}

impl Profile {
    /// Nothing taken.
    pub(crate) fn reset(&mut self, cpus: u32, memory: u64, devices: DeviceMask) {
        self.steps.clear();
        self.steps.push(Step { from: Tick::MIN, cpus, memory, devices, takers: 0 });
    }

    /// True where so much is free before anybody is gone.
    pub(crate) fn begins_with(&self, cpus: u32, memory: u64, devices: DeviceMask) -> bool {
        let same = |s: &Step| s.cpus == cpus && s.memory == memory && s.devices == devices;
        self.steps.first().is_some_and(same)
    }

    pub(crate) fn apply(&mut self, take: &Take) {
        if take.from >= take.to {
            return;
        }
        let first = self.split(take.from);
        let end = if take.to == FOREVER { self.steps.len() } else { self.split(take.to) };
        for step in &mut self.steps[first..end] {
            step.take(take);
        }
    }

    /// The index of the step that begins at this instant, made where there is none.
    fn split(&mut self, at: Tick) -> usize {
        let next = self.steps.partition_point(|s| s.from < at);
        if self.steps.get(next).is_some_and(|s| s.from == at) {
            return next;
        }
        if let Some(before) = next.checked_sub(1).and_then(|i| self.steps.get(i)).copied() {
            self.steps.insert(next, Step { from: at, ..before });
        }
        next
    }

    /// The least over the span; `end` may be [`FOREVER`].
    pub(crate) fn least(&self, from: Tick, end: Tick) -> Option<Step> {
        let first = self.steps.partition_point(|s| s.from <= from).checked_sub(1)?;
        let mut least = self.steps[first];
        for step in self.steps[first + 1..].iter().take_while(|s| s.from < end) {
            least.narrow(step);
        }
        Some(least)
    }

    /// The longest stretches within `from..to` in which enough is free.
    pub(crate) fn holes(
        &self,
        least: &Least,
        from: Tick,
        to: Tick,
        mut found: impl FnMut(Tick, Tick),
    ) {
        let first = self.steps.partition_point(|s| s.from <= from).saturating_sub(1);
        let mut open: Option<Tick> = None;
        for step in self.steps[first..].iter().take_while(|s| s.from < to || s.from <= from) {
            match (open, step.gives(least)) {
                (None, true) => open = Some(step.from.max(from)),
                (Some(since), false) => {
                    found(since, step.from);
                    open = None;
                }
                _ => {}
            }
        }
        if let Some(since) = open {
            found(since, to);
        }
    }

    /// Those of all holes that [`Difference`] is about: the others are the same in both profiles.
    pub(crate) fn holes_around(
        &self,
        least: &Least,
        difference: &Difference,
        mut found: impl FnMut(Tick, Tick),
    ) {
        let gives = |at: usize| self.steps.get(at).is_some_and(|step| step.gives(least));
        let mut first = difference.from;
        while first > 0 && gives(first) && gives(first - 1) {
            first -= 1;
        }
        let tail = self.steps.len() - difference.tail;
        let mut open: Option<Tick> = None;
        for (at, step) in self.steps.iter().enumerate().skip(first) {
            if at > tail && open.is_none() {
                return;
            }
            match (open, step.gives(least)) {
                (None, true) => open = Some(step.from),
                (Some(since), false) => {
                    found(since, step.from);
                    open = None;
                }
                _ => {}
            }
        }
        if let Some(since) = open {
            found(since, FOREVER);
        }
    }

    /// The instants within `from..to` at which anything changes.
    pub(crate) fn changes(&self, from: Tick, to: Tick) -> impl Iterator<Item = Tick> {
        let first = self.steps.partition_point(|s| s.from <= from);
        self.steps[first..].iter().map(|s| s.from).take_while(move |at| *at < to)
    }

    /// Where two profiles of one node differ; `None` where they are equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let same = |a: &Step, b: &Step| a == b;
        let head = self.steps.iter().zip(&other.steps).take_while(|(a, b)| same(a, b)).count();
        let (a, b) = (&self.steps[head..], &other.steps[head..]);
        if a.is_empty() && b.is_empty() {
            return None;
        }
        let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| same(a, b)).count();
        // The step before a new one may have been cut: it belongs to the difference.
        let from = head.saturating_sub(1);
        let a = &self.steps[from..self.steps.len() - tail];
        let b = &other.steps[from.min(other.steps.len())..other.steps.len() - tail];
        let first = *a.first().or(b.first())?;
        let (mut most, mut least) = (first, first);
        for step in a.iter().chain(b) {
            most.widen(step);
            least.narrow(step);
        }
        Some(Difference { most, least, from, tail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(cpus: u32) -> Least {
        Least { floor: Floor { cpus, gpus: 0, memory: 0 }, mask: 0, alone: false }
    }

    fn holes(profile: &Profile, cpus: u32) -> Vec<(Tick, Tick)> {
        let mut found = Vec::new();
        profile.holes(&least(cpus), Tick::MIN, FOREVER, |a, b| found.push((a, b)));
        found
    }

    #[test]
    fn what_is_taken_leaves_holes() {
        let mut profile = Profile::default();
        profile.reset(4, 100, 0);
        let take = |from, to, cpus| Take { from, to, cpus, memory: 0, devices: 0 };
        profile.apply(&take(Tick::MIN, 10, 2));
        profile.apply(&take(20, 30, 3));
        assert_eq!(holes(&profile, 1), [(Tick::MIN, FOREVER)]);
        assert_eq!(holes(&profile, 2), [(Tick::MIN, 20), (30, FOREVER)]);
        assert_eq!(holes(&profile, 3), [(10, 20), (30, FOREVER)]);
        assert_eq!(profile.least(5, 25).map(|s| s.cpus), Some(1));
        assert_eq!(profile.least(5, 20).map(|s| s.cpus), Some(2));
        assert_eq!(profile.least(30, FOREVER).map(|s| s.cpus), Some(4));
    }

    #[test]
    fn holes_away_from_a_difference_are_the_same_in_both() {
        let mut before = Profile::default();
        before.reset(4, 100, 0);
        let take = |from, to, cpus| Take { from, to, cpus, memory: 0, devices: 0 };
        for (from, to, cpus) in [(0, 10, 3), (20, 30, 2), (30, 40, 4), (60, 70, 1), (80, 90, 4)] {
            before.apply(&take(from, to, cpus));
        }
        for (from, length, cpus) in
            (0..100).flat_map(|at| [(at, 1, 1), (at, 7, 2), (at, 25, 3), (at, FOREVER - at, 1)])
        {
            let mut after = before.clone();
            after.apply(&take(from, from + length, cpus));
            let difference = before.difference(&after).expect("something was taken");
            for wanted in 1..=4 {
                let rest = |profile: &Profile| {
                    let mut around = Vec::new();
                    let add = |a, b| around.push((a, b));
                    profile.holes_around(&least(wanted), &difference, add);
                    let mut all = holes(profile, wanted);
                    all.retain(|hole| !around.contains(hole));
                    all
                };
                assert_eq!(rest(&before), rest(&after), "{from} {length} {cpus} for {wanted}");
            }
        }
    }
}
