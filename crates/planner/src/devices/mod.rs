//! Which devices and which CPUs of a node a job gets.
//!
//! Whole devices are chosen by what joins them ([`sets`]), parts of shared devices by what they
//! leave behind ([`parts`]), MIG instances by what can still be cut ([`mig`]), and CPUs near the
//! devices ([`cpus`]). The rules of what satisfies what are those of `muster_model::sharing`.

pub(crate) mod cpus;
pub(crate) mod mig;
pub(crate) mod parts;
pub(crate) mod sets;

use crate::ask::{Ask, Need, Wanted};
use crate::free::{Avail, DeviceMask, NodeView, bit, bits};
use muster_model::mig::split_type;
use muster_model::{DeviceGrant, DeviceMilli, DeviceWish, Mib};

/// Devices chosen on one node: whole ones, and parts of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) whole: DeviceMask,
    pub(crate) parts: Vec<DeviceGrant>,
}

impl Chosen {
    /// Every device of which something is taken.
    pub(crate) fn touched(&self) -> DeviceMask {
        self.parts.iter().fold(self.whole, |mask, part| mask | bit(part.index))
    }

    /// What the job is given, by index. Where jobs take turns on whole devices, each has only the
    /// memory that it asks for: that of all has to be there at once.
    pub(crate) fn grants(&self, view: &NodeView, ask: &Ask) -> Vec<DeviceGrant> {
        let asked = ask.request.gpu_memory.filter(|_| ask.partition.has_turns());
        let memory = |index: u32| {
            let device = view.node.devices.get(index as usize);
            asked.unwrap_or(device.map_or(Mib::ZERO, |d| d.memory))
        };
        let whole = bits(self.whole).map(|index| DeviceGrant {
            index,
            share: DeviceMilli::WHOLE,
            memory: memory(index),
            mig: None,
        });
        let mut all: Vec<DeviceGrant> = whole.chain(self.parts.iter().copied()).collect();
        all.sort_unstable();
        all
    }
}

/// A choice under way: what it is for, and what is left.
struct Choice<'a> {
    ask: &'a Ask,
    view: &'a NodeView,
    avail: &'a Avail,
    need: &'a Need,
    /// Whole devices to be taken before others.
    first: DeviceMask,
    left: DeviceMask,
    chosen: Chosen,
}

/// Picks devices for the need out of what is available: those in `first` before others, named
/// models before any model. `None` where there are not enough.
pub(crate) fn choose(
    ask: &Ask,
    view: &NodeView,
    avail: &Avail,
    first: DeviceMask,
    need: &Need,
) -> Option<Chosen> {
    if need.gpus.is_empty() && need.socket_gpus.is_empty() {
        return Some(Chosen::default());
    }
    let left = ask.big_enough(view, avail.devices);
    let mut choice = Choice { ask, view, avail, need, first, left, chosen: Chosen::default() };
    if ask.is_plain() {
        choice.sockets()?;
        choice.whole(&need.gpus)?;
    } else {
        choice.in_parts()?;
    }
    Some(choice.chosen)
}

/// True where [`choose`] finds something; for whole devices a count is enough.
pub(crate) fn fits(ask: &Ask, view: &NodeView, avail: &Avail, need: &Need) -> bool {
    if !ask.is_plain() || !need.socket_gpus.is_empty() || ask.request.cpus_near_gpus {
        return choose(ask, view, avail, 0, need).is_some();
    }
    let left = ask.big_enough(view, avail.devices);
    let mut all = 0u32;
    for (at, (model, count)) in need.gpus.iter().enumerate() {
        all = all.saturating_add(*count);
        let Some(model) = model else { continue };
        // What was named before of the same model comes out of the same devices.
        let before = need.gpus[..at].iter().filter(|w| w.0.as_ref() == Some(model));
        let of_model = before.fold(*count, |sum, w| sum.saturating_add(w.1));
        if (view.of_model(model) & left).count_ones() < of_model {
            return false;
        }
    }
    all <= left.count_ones()
}

/// At most so many GPUs, whole or in parts, could be taken here.
pub(crate) fn units(ask: &Ask, view: &NodeView, avail: &Avail) -> u32 {
    let whole = avail.devices.count_ones();
    if ask.is_plain() {
        return whole;
    }
    avail.parts.iter().fold(whole, |sum, part| sum + parts::units(view, part))
}

/// What the best choice here would take from others: the growth of what is left and of no use to
/// typical jobs, in thousandths by weight, and for instances the profiles that become impossible.
pub(crate) fn damage(ask: &Ask, view: &NodeView, avail: &Avail, need: &Need) -> i64 {
    let Some(chosen) = choose(ask, view, avail, 0, need) else { return i64::MAX };
    let mut left = avail.parts.clone();
    let mut sum = 0i64;
    for grant in &chosen.parts {
        let Some(part) = left.iter_mut().find(|p| p.index == grant.index) else { continue };
        sum = sum.saturating_add(parts::worse(ask, view, part, grant));
        part.take(grant, ask.uid);
    }
    // A whole device for a part of one is all lost.
    sum.saturating_add(i64::from(chosen.whole.count_ones()) * 1_000_000)
}

/// The most of the GPUs needed that could be had here, whole or in parts.
pub(crate) fn most(ask: &Ask, view: &NodeView, avail: &Avail, need: &Need) -> u32 {
    let total = need.gpu_total();
    if choose(ask, view, avail, 0, need).is_some() {
        return total;
    }
    let mut less = need.clone();
    // One of one count less, of the last first: what is named first is the more particular.
    while let Some(last) = less.gpus.last_mut() {
        last.1 = last.1.saturating_sub(1);
        if last.1 == 0 {
            less.gpus.pop();
        }
        if choose(ask, view, avail, 0, &less).is_some() {
            return less.gpu_total();
        }
    }
    0
}

impl Choice<'_> {
    /// So many devices on each of so many sockets.
    fn sockets(&mut self) -> Option<()> {
        if self.need.socket_gpus.is_empty() {
            return Some(());
        }
        let mut masks: Vec<DeviceMask> = self.view.socket_masks();
        // The sockets with the fewest devices left that do: the others stay whole.
        masks.sort_by_key(|mask| (mask & self.left).count_ones());
        let mut missing = self.need.sockets;
        for socket in masks {
            if missing == 0 {
                break;
            }
            let (chosen, left) = (self.chosen.clone(), self.left);
            let all_but_this = self.left & !socket;
            self.left &= socket;
            if self.whole(&self.need.socket_gpus).is_some() {
                self.left |= all_but_this;
                missing -= 1;
            } else {
                (self.chosen, self.left) = (chosen, left);
            }
        }
        (missing == 0).then_some(())
    }

    fn whole(&mut self, wanted: &[Wanted]) -> Option<()> {
        let named = wanted.iter().filter(|w| w.0.is_some());
        for (model, count) in named.chain(wanted.iter().filter(|w| w.0.is_none())) {
            let pool = match model {
                Some(model) => self.view.of_model(model) & self.left,
                None => self.left,
            };
            self.take_whole(pool, *count)?;
        }
        Some(())
    }

    fn take_whole(&mut self, pool: DeviceMask, count: u32) -> Option<()> {
        let wish = sets::Wish {
            count,
            first: self.first,
            cpus: self.need.cpus,
            rest: self.avail.devices & !self.chosen.whole,
            enforce: self.ask.request.cpus_near_gpus,
            // What is asked for later than now is judged by all the CPUs that the node has.
            free: if self.avail.cpus > self.view.free_cpu_count {
                &self.view.base_cpus
            } else {
                &self.view.free_cpus
            },
        };
        let picked = sets::best(self.view, pool, &wish)?;
        self.chosen.whole |= picked;
        self.left &= !picked;
        Some(())
    }

    /// Instances by profile, then parts, then whole devices.
    fn in_parts(&mut self) -> Option<()> {
        let mut wanted = self.need.gpus.clone();
        for (model, count) in &self.need.socket_gpus {
            wanted.push((model.clone(), count.saturating_mul(self.need.sockets)));
        }
        let mut left = self.avail.parts.clone();
        let mut profiles = Vec::new();
        for (model, count) in &wanted {
            if let (model, Some(profile)) = model.as_deref().map_or((None, None), split_type) {
                profiles.push((model, profile, *count));
            }
        }
        self.chosen.parts = mig::place(self.view, &mut left, &profiles)?;
        let is_profile =
            |w: &&Wanted| w.0.as_deref().is_some_and(|model| split_type(model).1.is_some());
        let mut others: Vec<&Wanted> = wanted.iter().filter(|w| !is_profile(w)).collect();
        others.sort_by_key(|w| w.0.is_none());
        for (model, count) in others {
            let pool = model.as_ref().map_or(DeviceMask::MAX, |m| self.view.of_model(m));
            match self.ask.wish {
                DeviceWish::Whole => self.take_whole(pool & self.left, *count)?,
                DeviceWish::Part { .. } => {
                    let missing = *count - self.take_parts(&mut left, pool, *count);
                    let or_whole = matches!(self.ask.wish, DeviceWish::Part { or_whole: true, .. });
                    if missing > 0 && !or_whole {
                        return None;
                    }
                    let whole = pool & self.left & !self.chosen.touched();
                    if missing > 0 {
                        self.take_whole(whole, missing)?;
                    }
                }
            }
        }
        Some(())
    }

    /// Takes up to so many parts, of devices in the pool; says how many.
    fn take_parts(&mut self, left: &mut [parts::Part], pool: DeviceMask, count: u32) -> u32 {
        let near = sets::Near::of(self.view, self.need.cpus);
        for taken in 0..count {
            let Some(grant) = parts::best(self.ask, self.view, left, pool, &near, &self.chosen)
            else {
                return taken;
            };
            if let Some(part) = left.iter_mut().find(|p| p.index == grant.index) {
                part.take(&grant, self.ask.uid);
            }
            self.chosen.parts.push(grant);
        }
        count
    }
}
