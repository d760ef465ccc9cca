//! What is free on one node and of one licence: now, later, and beside what was promised.

use crate::devices::parts::{self, Part};
use crate::devices::sets::Fabric;
use crate::profile::{FOREVER, Profile, Take, Tick, tick};
use muster_model::{
    CpuSet, DeviceGrant, Exclusive, JobId, Mib, Node, NodeShare, PreemptMode, TimeLimit, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// Devices of a node as bits by index. Devices above 127 are not given out.
pub(crate) type DeviceMask = u128;

/// A job past its latest end still holds what it has; it is taken to end this much after now.
pub(crate) const OVERDUE_MS: i64 = 1000;

/// A half-open stretch of time, and the instant that counts as the present.
///
/// A `to` of [`Timestamp::NEVER`] is without an end and so meets every later start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) now: Timestamp,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

impl Span {
    /// From `from` for as long as `limit` says.
    pub(crate) fn of(now: Timestamp, from: Timestamp, limit: TimeLimit) -> Self {
        Self { now, from, to: from.plus_limit(limit) }
    }

    /// Where it ends, after [`Timestamp::NEVER`] where it has no end.
    pub(crate) fn end(self) -> Tick {
        if self.to == Timestamp::NEVER { FOREVER } else { tick(self.to) }
    }

    pub(crate) fn at(self, instant: Timestamp) -> Self {
        Self { from: instant, to: instant, ..self }
    }

    pub(crate) fn meets(self, from: Timestamp, to: Timestamp) -> bool {
        let starts_before_our_end = from < self.to || self.to == Timestamp::NEVER;
        let ends_after_our_start = self.from < to || to == Timestamp::NEVER;
        starts_before_our_end && ends_after_our_start
    }

    /// True where a holder that ends at `end` at the latest is gone when the span begins.
    fn outlives(self, end: Timestamp) -> bool {
        self.from != self.now && effective_end(end, self.now) <= self.from
    }

    /// As [`Self::outlives`]. What was started behind a promise without an end stays for good.
    pub(crate) fn sees_gone(self, held: &Holding) -> bool {
        self.outlives(held.end) && !(held.behind_promise && held.end == Timestamp::NEVER)
    }
}

/// When a holder is taken to be gone, seen from `now`.
pub(crate) fn effective_end(end: Timestamp, now: Timestamp) -> Timestamp {
    end.max(Timestamp::from_millis(now.millis().saturating_add(OVERDUE_MS)))
}

/// What a running job, or one that this round starts, has on a node.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) job: JobId,
    pub(crate) uid: u32,
    pub(crate) kind: Exclusive,
    pub(crate) end: Timestamp,
    /// This round started it behind a promise.
    pub(crate) behind_promise: bool,
    pub(crate) cpus: CpuSet,
    /// Of the node's pool.
    pub(crate) cpu_pool: u32,
    /// How many of its CPUs the node has to give.
    pub(crate) cpu_count: u32,
    pub(crate) memory: u64,
    /// Every device of which it has something.
    pub(crate) devices: DeviceMask,
    /// What it has of those that it has not as a whole.
    pub(crate) parts: Vec<DeviceGrant>,
    pub(crate) gres: BTreeMap<String, u64>,
}

/// What a promise will take of a node.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub(crate) uid: u32,
    pub(crate) kind: Exclusive,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    /// Every device of which it will have something.
    pub(crate) devices: DeviceMask,
    /// What it will have of those that it has not as a whole.
    pub(crate) parts: Vec<DeviceGrant>,
    pub(crate) gres: BTreeMap<String, u64>,
}

/// What a node can give over a whole span.
#[derive(Clone, Debug)]
pub(crate) struct Avail {
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    /// Devices of which nobody has anything.
    pub(crate) devices: DeviceMask,
    /// What is left of those that are given out in parts.
    pub(crate) parts: Vec<Part>,
    pub(crate) gres: BTreeMap<String, u64>,
}

/// A node with everything on it, and what that leaves.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) node: Arc<Node>,
    pub(crate) usable: bool,
    /// It has taints.
    pub(crate) tainted: bool,
    pub(crate) base_cpus: CpuSet,
    pub(crate) base_cpu_count: u32,
    pub(crate) base_memory: u64,
    pub(crate) base_devices: DeviceMask,
    /// The devices that may be given out in parts, all of them left.
    pub(crate) base_parts: Vec<Part>,
    fabric: OnceLock<Arc<Fabric>>,
    /// Devices by model in lower case.
    pub(crate) models: Vec<(String, DeviceMask)>,
    pub(crate) sockets: u32,
    pub(crate) holdings: Vec<Holding>,
    pub(crate) reserved: Vec<Reserved>,
    /// What all of that leaves over time.
    pub(crate) profile: Profile,
    /// How many of those who are here, or will be, do not share the node with everybody.
    picky: u32,
    by_user: u32,
    /// Some promise here is over when it begins: it is on no profile.
    has_instants: bool,
    pub(crate) free_cpus: CpuSet,
    pub(crate) free_cpu_count: u32,
    pub(crate) free_memory: u64,
    pub(crate) free_devices: DeviceMask,
}

pub(crate) fn bit(index: u32) -> DeviceMask {
    1u128.checked_shl(index).unwrap_or(0)
}

/// The devices of a mask, ascending.
pub(crate) fn bits(mask: DeviceMask) -> impl Iterator<Item = u32> {
    (0..128u32).take_while(move |i| mask >> i != 0).filter(move |i| mask & bit(*i) != 0)
}

/// True where two kinds of job may be on one node at once.
pub(crate) fn tolerate(a: (Exclusive, u32), b: (Exclusive, u32)) -> bool {
    match (a.0, b.0) {
        (Exclusive::Node, _) | (_, Exclusive::Node) => false,
        (Exclusive::User, _) | (_, Exclusive::User) => a.1 == b.1,
        (Exclusive::No, Exclusive::No) => true,
    }
}

impl Holding {
    pub(crate) fn of(
        job: JobId,
        uid: u32,
        kind: Exclusive,
        end: Timestamp,
        share: &NodeShare,
    ) -> Self {
        let kind = if share.exclusive { Exclusive::Node } else { kind };
        Self {
            job,
            uid,
            kind,
            end,
            behind_promise: false,
            cpus: share.cpus.clone(),
            cpu_pool: share.cpu_pool,
            cpu_count: share.cpu_count(),
            memory: share.memory.0,
            devices: share.devices.iter().fold(0, |mask, d| mask | bit(d.index)),
            parts: share.devices.iter().filter(|d| !d.is_whole()).copied().collect(),
            gres: share.gres.clone(),
        }
    }
}

impl Holding {
    /// Counts those of its CPUs that the node has to give.
    fn count_cpus(&mut self, base: &CpuSet) {
        self.cpu_count = self.cpus.intersection(base).len().saturating_add(self.cpu_pool);
    }

    /// What it takes, seen from `now`. Without an end it is over when everything is, unless it was
    /// started behind a promise: then never.
    fn take(&self, now: Timestamp) -> Take {
        let for_good = self.behind_promise && self.end == Timestamp::NEVER;
        Take {
            from: Tick::MIN,
            to: if for_good { FOREVER } else { tick(effective_end(self.end, now)) },
            cpus: cpus_taken(self.kind, self.cpu_count),
            memory: self.memory,
            devices: self.devices,
        }
    }
}

/// Whoever is alone on a node has all its CPUs, also those that are found later.
fn cpus_taken(kind: Exclusive, cpus: u32) -> u32 {
    if kind == Exclusive::Node { u32::MAX } else { cpus }
}

impl Reserved {
    fn take(&self) -> Take {
        Take {
            from: tick(self.from),
            to: if self.to == Timestamp::NEVER { FOREVER } else { tick(self.to) },
            cpus: cpus_taken(self.kind, self.cpus),
            memory: self.memory,
            devices: self.devices,
        }
    }
}

impl NodeView {
    /// How many of its taints make it come last.
    pub(crate) fn shy_taints(&self) -> u32 {
        let shy =
            |t: &&muster_model::Taint| t.effect == muster_model::TaintEffect::PreferNoSchedule;
        self.node.taints.iter().filter(shy).count() as u32
    }

    pub(crate) fn new(node: &Arc<Node>) -> Self {
        let mut view = Self {
            node: Arc::clone(node),
            usable: false,
            tainted: false,
            base_cpus: CpuSet::new(),
            base_cpu_count: 0,
            base_memory: 0,
            base_devices: 0,
            base_parts: Vec::new(),
            fabric: OnceLock::new(),
            models: Vec::new(),
            sockets: 1,
            holdings: Vec::new(),
            reserved: Vec::new(),
            profile: Profile::default(),
            picky: 0,
            by_user: 0,
            has_instants: false,
            free_cpus: CpuSet::new(),
            free_cpu_count: 0,
            free_memory: 0,
            free_devices: 0,
        };
        view.describe(node, Timestamp::from_millis(i64::MIN));
        view
    }

    /// Takes up a new description; what is on the node stays.
    pub(crate) fn describe(&mut self, node: &Arc<Node>, now: Timestamp) {
        self.node = Arc::clone(node);
        self.usable = node.is_usable();
        self.tainted = !node.taints.is_empty();
        self.base_cpus = node.cpus.clone();
        let mut foreign_memory = Mib::ZERO;
        for foreign in &node.foreign {
            self.base_cpus.remove_all(&foreign.cpus);
            if foreign.device.is_none() {
                foreign_memory = foreign_memory.plus(foreign.memory);
            }
        }
        self.base_cpu_count = self.base_cpus.len().saturating_add(node.cpu_pool);
        self.base_memory = node.memory.minus_or_zero(foreign_memory).0;
        self.base_devices = 0;
        let mut models: BTreeMap<String, DeviceMask> = BTreeMap::new();
        for device in &node.devices {
            *models.entry(device.model.to_ascii_lowercase()).or_default() |= bit(device.index);
            if node.device_is_usable(device.index) {
                self.base_devices |= bit(device.index);
            }
        }
        self.models = models.into_iter().collect();
        self.sockets = node.sockets();
        self.base_parts = parts::base(node);
        self.fabric = OnceLock::new();
        for held in &mut self.holdings {
            held.count_cpus(&self.base_cpus);
        }
        self.recount();
        self.rebuild(now);
    }

    /// All that it has to give while nobody uses it.
    pub(crate) fn whole(&self) -> Avail {
        Avail {
            cpus: self.base_cpu_count,
            memory: self.base_memory,
            devices: self.base_devices,
            parts: self.base_parts.clone(),
            gres: self.node.gres.clone(),
        }
    }

    /// The links of its devices.
    pub(crate) fn fabric(&self) -> &Fabric {
        self.fabric.get_or_init(|| Arc::new(Fabric::of(&self.node)))
    }

    /// Its devices of a model, in lower case.
    pub(crate) fn of_model(&self, model: &str) -> DeviceMask {
        self.models.iter().find(|m| m.0 == model).map_or(0, |m| m.1)
    }

    /// The devices of each socket; those of which it is not known count for the first.
    pub(crate) fn socket_masks(&self) -> Vec<DeviceMask> {
        let mut masks: BTreeMap<u32, DeviceMask> =
            self.node.numa.iter().map(|n| (n.socket, 0)).collect();
        let first = masks.keys().next().copied().unwrap_or(0);
        for device in &self.node.devices {
            let domain = self.node.numa.iter().find(|n| Some(n.id) == device.numa);
            *masks.entry(domain.map_or(first, |n| n.socket)).or_default() |= bit(device.index);
        }
        masks.into_values().collect()
    }

    /// The sockets with their devices, by number.
    pub(crate) fn sockets_with_devices(&self) -> impl Iterator<Item = (u32, DeviceMask)> {
        let sockets: BTreeSet<u32> = self.node.numa.iter().map(|n| n.socket).collect();
        let sockets = if sockets.is_empty() { BTreeSet::from([0]) } else { sockets };
        sockets.into_iter().zip(self.socket_masks())
    }

    pub(crate) fn hold(&mut self, mut holding: Holding, now: Timestamp) {
        holding.count_cpus(&self.base_cpus);
        self.profile.apply(&holding.take(now));
        self.note(holding.kind);
        self.holdings.push(holding);
        self.recount();
    }

    pub(crate) fn release(&mut self, job: JobId, now: Timestamp) {
        if let Some(at) = self.holdings.iter().position(|h| h.job == job) {
            self.holdings.remove(at);
            self.recount();
            self.rebuild(now);
        }
    }

    /// Puts a promise on the node.
    pub(crate) fn reserve(&mut self, reserved: Reserved) {
        self.profile.apply(&reserved.take());
        self.note(reserved.kind);
        self.has_instants |= reserved.from >= reserved.to;
        self.reserved.push(reserved);
    }

    /// Takes the last promise back.
    pub(crate) fn unreserve(&mut self, now: Timestamp) {
        self.reserved.pop();
        self.rebuild(now);
    }

    /// Everything that takes something of the node, put on one profile, seen from `now`.
    pub(crate) fn rebuild(&mut self, now: Timestamp) {
        self.profile.reset(self.base_cpu_count, self.base_memory, self.base_devices);
        for held in &self.holdings {
            self.profile.apply(&held.take(now));
        }
        for reserved in &self.reserved {
            self.profile.apply(&reserved.take());
        }
        self.has_instants = self.reserved.iter().any(|r| r.from >= r.to);
        (self.picky, self.by_user) = (0, 0);
        let held = self.holdings.iter().map(|h| h.kind);
        let kinds: Vec<Exclusive> = held.chain(self.reserved.iter().map(|r| r.kind)).collect();
        for kind in kinds {
            self.note(kind);
        }
    }

    fn note(&mut self, kind: Exclusive) {
        self.picky += u32::from(kind != Exclusive::No);
        self.by_user += u32::from(kind == Exclusive::User);
    }

    /// True where it can be used by everybody and nobody on it minds others: amounts alone decide
    /// who finds room here.
    pub(crate) fn is_plain(&self) -> bool {
        self.usable && !self.tainted && self.picky == 0
    }

    /// True where nothing on it is promised: what it has free now it has as long as nobody takes it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.reserved.is_empty()
            && self.profile.begins_with(self.free_cpu_count, self.free_memory, self.free_devices)
    }

    /// How many of those who are here, or will be, share the node with their own user only.
    pub(crate) fn by_user(&self) -> u32 {
        self.by_user
    }

    /// The node with only these CPUs and devices, as far as it has them.
    pub(crate) fn narrowed(
        &self,
        cpus: Option<&CpuSet>,
        devices: DeviceMask,
        now: Timestamp,
    ) -> Self {
        let mut view = self.clone();
        if let Some(cpus) = cpus {
            view.base_cpus = view.base_cpus.intersection(cpus);
            view.base_cpu_count = view.base_cpus.len().saturating_add(view.node.cpu_pool);
            for held in &mut view.holdings {
                held.count_cpus(&view.base_cpus);
            }
        }
        view.base_devices &= devices;
        view.base_parts.retain(|part| devices & bit(part.index) != 0);
        view.recount();
        view.rebuild(now);
        view
    }

    /// The node without these jobs, or without the CPUs of those that would only stand still.
    pub(crate) fn without(&self, gone: &BTreeMap<JobId, PreemptMode>, now: Timestamp) -> Self {
        let mut view = self.clone();
        view.holdings.retain_mut(|held| match gone.get(&held.job) {
            Some(PreemptMode::Suspend) => {
                held.cpus = CpuSet::new();
                held.cpu_count = held.cpu_pool;
                true
            }
            gone => gone.is_none(),
        });
        view.recount();
        view.rebuild(now);
        view
    }

    fn recount(&mut self) {
        let left = self.left(|_| true);
        self.free_cpus = left.0;
        let pooled = self.holdings.iter().fold(0u32, |sum, h| sum.saturating_add(h.cpu_pool));
        let pool = self.node.cpu_pool.saturating_sub(pooled);
        self.free_cpu_count = self.free_cpus.len().saturating_add(pool);
        self.free_memory = left.1;
        self.free_devices = left.2;
    }

    /// CPUs, memory and devices beside the holdings that `there` says yes to.
    fn left(&self, there: impl Fn(&Holding) -> bool) -> (CpuSet, u64, DeviceMask) {
        let mut cpus = self.base_cpus.clone();
        let mut memory = self.base_memory;
        let mut devices = self.base_devices;
        for held in self.holdings.iter().filter(|h| there(h)) {
            cpus.remove_all(&held.cpus);
            memory = memory.saturating_sub(held.memory);
            devices &= !held.devices;
        }
        (cpus, memory, devices)
    }

    /// True where a job of this kind may be here over the span, as far as exclusivity says.
    pub(crate) fn admits(&self, span: Span, kind: Exclusive, uid: u32) -> bool {
        if kind == Exclusive::No && self.picky == 0 {
            return true;
        }
        if kind == Exclusive::Node && !self.has_instants && span.from < span.to {
            let least = self.profile.least(tick(span.from), span.end());
            return least.is_none_or(|least| least.takers == 0);
        }
        self.holdings
            .iter()
            .filter(|h| !span.sees_gone(h))
            .all(|h| tolerate((kind, uid), (h.kind, h.uid)))
            && self
                .reserved
                .iter()
                .filter(|r| span.meets(r.from, r.to))
                .all(|r| tolerate((kind, uid), (r.kind, r.uid)))
    }

    /// The promises that a span has to leave whole.
    pub(crate) fn promised(&self) -> impl Iterator<Item = &Reserved> {
        self.reserved.iter()
    }

    /// What is free over the whole span.
    pub(crate) fn avail(&self, span: Span) -> Avail {
        let gres = if self.node.gres.is_empty() { BTreeMap::new() } else { self.gres(span) };
        let parts = parts::over(self, span);
        match self.profile.least(tick(span.from), span.end()) {
            Some(least) => {
                let (cpus, memory) = (least.cpus, least.memory);
                Avail { cpus, memory, devices: least.devices, parts, gres }
            }
            None => Avail { cpus: 0, memory: 0, devices: 0, parts, gres },
        }
    }

    /// The other resources that are free over the whole span.
    fn gres(&self, span: Span) -> BTreeMap<String, u64> {
        let mut least = self.gres_at(span, span.from);
        for reserved in &self.reserved {
            if reserved.from > span.from && span.meets(reserved.from, reserved.to) {
                let then = self.gres_at(span, reserved.from);
                for (name, count) in &mut least {
                    *count = (*count).min(then.get(name).copied().unwrap_or(0));
                }
            }
        }
        least
    }

    fn gres_at(&self, span: Span, at: Timestamp) -> BTreeMap<String, u64> {
        let point = span.at(at);
        let mut free = self.node.gres.clone();
        for held in self.holdings.iter().filter(|h| !point.sees_gone(h)) {
            take_gres(&mut free, &held.gres);
        }
        let active = |r: &&Reserved| r.from <= at && (at < r.to || r.to == Timestamp::NEVER);
        for reserved in self.reserved.iter().filter(active) {
            take_gres(&mut free, &reserved.gres);
        }
        free
    }
}

fn take_gres(free: &mut BTreeMap<String, u64>, taken: &BTreeMap<String, u64>) {
    for (name, count) in taken {
        if let Some(left) = free.get_mut(name) {
            *left = left.saturating_sub(*count);
        }
    }
}

/// A licence over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) total: u32,
    pub(crate) holds: Vec<(JobId, Timestamp, u32)>,
    pub(crate) reserved: Vec<(Timestamp, Timestamp, u32)>,
}

impl Pool {
    pub(crate) fn free(&self, span: Span) -> u32 {
        let mut least = self.free_at(span, span.from);
        for (from, to, _) in &self.reserved {
            if *from > span.from && span.meets(*from, *to) {
                least = least.min(self.free_at(span, *from));
            }
        }
        least
    }

    /// How many of it jobs hold that `which` says yes to, at an instant of a span.
    pub(crate) fn held_by(&self, span: Span, at: Timestamp, which: impl Fn(JobId) -> bool) -> u32 {
        let point = span.at(at);
        let held = self.holds.iter().filter(|(job, end, _)| which(*job) && !point.outlives(*end));
        held.fold(0, |sum, hold| sum.saturating_add(hold.2))
    }

    fn free_at(&self, span: Span, at: Timestamp) -> u32 {
        let point = span.at(at);
        let held = self.holds.iter().filter(|(_, end, _)| !point.outlives(*end)).map(|h| h.2);
        let active =
            |r: &&(Timestamp, Timestamp, u32)| r.0 <= at && (at < r.1 || r.1 == Timestamp::NEVER);
        let reserved = self.reserved.iter().filter(active).map(|r| r.2);
        held.chain(reserved).fold(self.total, u32::saturating_sub)
    }

    /// When something of it is given back.
    pub(crate) fn changes(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        let ends = self.holds.iter().map(move |h| effective_end(h.1, now));
        ends.chain(self.reserved.iter().map(|r| r.1))
    }

    /// The first instant from `span` on at which so many are free for as long as `limit` says.
    pub(crate) fn earliest(&self, span: Span, limit: TimeLimit, count: u32) -> Option<Timestamp> {
        if self.free(span) >= count {
            return Some(span.from);
        }
        if count > self.total {
            return None;
        }
        let mut times: Vec<Timestamp> = self.changes(span.now).filter(|t| *t > span.from).collect();
        times.push(Timestamp::NEVER);
        times.sort_unstable();
        times.dedup();
        let fits = |at: &Timestamp| self.free(Span::of(span.now, *at, limit)) >= count;
        times.into_iter().find(fits)
    }
}
