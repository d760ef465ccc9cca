//! One component of a job in one partition, ready to be tried: what it wants, who asks and how long
//! it takes.

use crate::devices;
use crate::free::{Avail, NodeView};
use crate::profile::{FOREVER, Tick};
use crate::reservations::lane;
use muster_model::affinity::{BARRING, untolerated};
use muster_model::{JobSpec, NodeCount, Request, Seconds, TimeLimit, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

pub(crate) use crate::wants::{Floor, Need, Tasks, Wanted, Wants};

/// One component in one partition.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    wants: Arc<Wants>,
    pub(crate) uid: u32,
    /// The limit in this partition, where the partition allows it at all.
    pub(crate) limit: TimeLimit,
    /// What the timeline takes it to run, where that is not its limit.
    pub(crate) estimate: Option<Seconds>,
    /// What it is likely to run: says who is tried first.
    pub(crate) likely: TimeLimit,
    pub(crate) time_min: Option<u64>,
    pub(crate) deadline: Option<Timestamp>,
    /// The policy takes the emptiest node.
    pub(crate) spread: bool,
    /// At most so many leaf switches, while it waits for that.
    pub(crate) switches: Option<u32>,
    /// The reservation that it would run in.
    pub(crate) inside: Option<String>,
    /// The lane of that.
    own_lane: Option<String>,
    /// It is tried as if nothing were reserved.
    pub(crate) heedless: bool,
    /// As if the distance between its nodes did not matter: to see whether it is what it waits for.
    pub(crate) anywhere: bool,
    /// Who asks, as other jobs see it.
    pub(crate) who: Option<Arc<JobSpec>>,
    /// As if no taint kept it away, and as if no job kept away from another: as `anywhere`.
    pub(crate) tolerates_all: bool,
    pub(crate) beside_all: bool,
    /// As if there were no other job: as `anywhere`.
    pub(crate) alone: bool,
}

impl Deref for Ask {
    type Target = Wants;

    fn deref(&self) -> &Wants {
        &self.wants
    }
}

impl Ask {
    pub(crate) fn new(
        wants: Arc<Wants>,
        uid: u32,
        limit: TimeLimit,
        time_min: Option<u64>,
        deadline: Option<Timestamp>,
    ) -> Self {
        Self {
            wants,
            uid,
            limit,
            estimate: None,
            likely: limit,
            time_min,
            deadline,
            spread: false,
            switches: None,
            inside: None,
            own_lane: None,
            heedless: false,
            anywhere: false,
            who: None,
            tolerates_all: false,
            beside_all: false,
            alone: false,
        }
    }

    /// The same in a reservation, or in none.
    pub(crate) fn in_reservation(mut self, inside: Option<&str>) -> Self {
        self.own_lane = inside.map(|name| lane(&self.partition.name, Some(name)));
        self.inside = inside.map(str::to_owned);
        self
    }

    /// The queue whose first blocked job has a promise.
    pub(crate) fn lane(&self) -> &str {
        self.own_lane.as_deref().unwrap_or(&self.partition.name)
    }

    /// What it wants, to change it for this ask and no other.
    pub(crate) fn wants_mut(&mut self) -> &mut Wants {
        let wants = Arc::make_mut(&mut self.wants);
        wants.number = None;
        wants
    }

    /// How long it is taken to be there once it starts.
    pub(crate) fn length(&self) -> TimeLimit {
        self.length_within(self.limit)
    }

    /// That in ticks; [`FOREVER`] without an end.
    pub(crate) fn ticks(&self) -> Tick {
        match self.length().seconds() {
            Some(length) => i64::try_from(length.0.saturating_mul(1000)).unwrap_or(FOREVER),
            None => FOREVER,
        }
    }

    /// True where it is in a reservation, or tried in another way than jobs are.
    pub(crate) fn is_special(&self) -> bool {
        self.inside.is_some()
            || self.switches.is_some()
            || self.heedless
            || self.anywhere
            || self.tolerates_all
            || self.beside_all
            || self.alone
    }

    /// As [`Self::length`], with another limit than its own.
    pub(crate) fn length_within(&self, limit: TimeLimit) -> TimeLimit {
        match (self.estimate, limit) {
            (None, _) => limit,
            (Some(estimate), TimeLimit::Unlimited) => TimeLimit::Of(estimate),
            (Some(estimate), TimeLimit::Of(most)) => TimeLimit::Of(estimate.min(most)),
        }
    }

    /// True where amounts alone decide whether a node takes its part of the job, and each node
    /// takes the same part.
    pub(crate) fn is_uniform(&self) -> bool {
        let kinds = [&self.job_gpus, &self.node_gpus, &self.task_gpus].into_iter().flatten();
        let one_kind = kinds.count() <= 1 && self.socket_gpus.is_empty();
        !self.can_be_spread()
            && self.request.gres.is_empty()
            && one_kind
            && self.is_plain()
            && self.is_loose()
    }

    /// True where any of the first nodes that can take their part will do, so that a look at some
    /// is as good as a look at all.
    pub(crate) fn takes_first(&self) -> bool {
        let counted = match self.node_bounds() {
            Some((least, most)) => self.request.nodes.is_none() || least == most,
            None => false,
        };
        counted
            && !self.request.contiguous
            && self.switches.is_none()
            && self.request.node_list.is_empty()
            && self.alternatives.len() == 1
            && self.is_loose()
    }

    /// True where the request says nothing of what its nodes are to each other or to other jobs.
    pub(crate) fn is_loose(&self) -> bool {
        (self.anywhere || self.request.topology == muster_model::TopologyRequest::default())
            && self.affinity().is_none_or(|a| !a.looks_at_jobs())
    }

    /// True where the node's labels and taints let the job be there.
    fn suits(&self, node: &muster_model::Node) -> bool {
        if self.affinity().is_none() && node.taints.is_empty() {
            return true;
        }
        let tolerations = self.affinity().map_or(&[][..], |a| &a.tolerations);
        self.affinity().is_none_or(|a| a.admits(node))
            && (self.tolerates_all || untolerated(node, tolerations, &BARRING).next().is_none())
    }

    /// The same as if the distance between its nodes did not matter.
    pub(crate) fn anywhere(&self) -> Self {
        let mut loose = self.clone();
        loose.anywhere = true;
        loose
    }

    /// The same, tried as if nothing were reserved.
    pub(crate) fn heedless(&self) -> Self {
        let mut ask = self.clone();
        ask.heedless = true;
        ask
    }

    /// False where it is tried as if nothing were reserved.
    pub(crate) const fn heeds(&self) -> bool {
        !self.heedless
    }

    /// The same on fewer than so many nodes; `None` where the request does not allow that.
    pub(crate) fn with_fewer_nodes(&self, than: u32) -> Option<Self> {
        let nodes = match &self.request.nodes {
            Some(NodeCount::Range { min, max }) if *min < than && max > min => {
                NodeCount::Range { min: *min, max: than.saturating_sub(1).max(*min) }
            }
            None if than > 1 => NodeCount::Range { min: 1, max: than - 1 },
            Some(NodeCount::OneOf(set)) => {
                let fewer: BTreeSet<u32> = set.range(..than).copied().collect();
                if fewer.is_empty() {
                    return None;
                }
                NodeCount::OneOf(fewer)
            }
            _ => return None,
        };
        let mut request = Request::clone(&self.request);
        request.nodes = Some(nodes);
        let mut fewer = self.clone();
        fewer.wants_mut().request = request.into();
        Some(fewer)
    }

    /// True where it asks for parts of GPUs, which lie where they break the least.
    pub(crate) fn packs_parts(&self) -> bool {
        !self.is_plain() && !self.spread
    }

    /// True where this node, with what is free on it, can take so many tasks and GPUs.
    pub(crate) fn fits(&self, view: &NodeView, avail: &Avail, tasks: u32, share: &[u32]) -> bool {
        if self.tasks_with(tasks, share) > self.tasks_max(view) {
            return false;
        }
        let need = match self.counted_need() {
            Some(need) => Cow::Borrowed(need),
            None => self.need_on(view, tasks, share),
        };
        self.cpus_on(view, &need) <= avail.cpus
            && need.memory <= avail.memory
            && self.gres_fits(avail)
            && devices::fits(self, view, avail, &need)
    }

    /// What the node has for good: name lists and disk, without features and use.
    pub(crate) fn may_use(&self, view: &NodeView) -> bool {
        if self.is_easy() && !view.tainted {
            return view.usable;
        }
        view.usable
            && self.request.sockets_per_node.is_none_or(|n| n <= view.sockets)
            && view.node.scratch >= self.request.scratch
            && !self.request.exclude.contains(&view.node.name)
            && !self.needs_certainty(&view.node)
            && self.suits(&view.node)
    }
}
