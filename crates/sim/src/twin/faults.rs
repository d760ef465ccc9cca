//! Nodes that break while a trace is replayed.
//!
//! The machine is a pool, so a node is so many of its processors: running jobs are laid out over the
//! processors that are up in the order in which they were started, one behind the other, and the node
//! that breaks is one of the equal pieces, each as likely. Who has a processor in it loses its run: it
//! goes back into the queue with the place that it had, as in the daemon, and begins anew, or from its
//! last checkpoint. Times to failure of a node and times of repair are exponential.

use crate::draw::Draw;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A job that was hit so often is given up: it may be longer than nodes ever last.
pub(super) const HITS_MAX: u32 = 100;

/// How nodes break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// How many nodes the machine has.
    pub nodes: u32,
    /// The mean time to failure of one node, seconds.
    pub mtbf_s: u64,
    /// The mean time until it is repaired, seconds.
    pub mttr_s: u64,
    /// Jobs write a checkpoint so often; without it they begin anew.
    pub checkpoint_s: Option<u64>,
    /// The seed.
    pub seed: u64,
}

/// What broke, and what that cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FaultCounts {
    /// How often a node broke.
    pub failures: u64,
    /// How often a job lost its run.
    pub jobs_hit: u64,
    /// Jobs that were hit so often that they were given up: they are in no other figure.
    pub jobs_given_up: u64,
    /// Processor hours that ran and had to run again; GPU hours, where a processor is a GPU.
    pub lost_processor_hours: f64,
    /// Processor hours of nodes that were broken.
    pub down_processor_hours: f64,
}

/// Something that becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// This piece of the processors that are up breaks.
    Breaks {
        /// The piece's first processor.
        first: u32,
    },
    /// One comes back.
    Repaired,
}

/// Nodes as they break and come back.
pub(super) struct Breakage {
    faults: Faults,
    draw: Draw,
    /// Processors of a node.
    pub(super) size: u32,
    up: u32,
    next_failure: i64,
    repairs: BinaryHeap<Reverse<i64>>,
    pub(super) counts: FaultCounts,
    lost_s: i128,
    down_s: i128,
}

impl Breakage {
    /// All nodes are up at an instant.
    pub(super) fn begin(faults: Faults, processors: u32, at: i64) -> Self {
        let nodes = faults.nodes.clamp(1, processors.max(1));
        let mut breakage = Self {
            draw: Draw::new(faults.seed),
            faults,
            size: processors / nodes,
            up: nodes,
            next_failure: i64::MAX,
            repairs: BinaryHeap::new(),
            counts: FaultCounts::default(),
            lost_s: 0,
            down_s: 0,
        };
        breakage.draw_failure(at);
        breakage
    }

    /// The first failure among those that are up: exponential times forget how old they are.
    fn draw_failure(&mut self, now: i64) {
        let after = self.draw.exponential() * self.faults.mtbf_s as f64 / f64::from(self.up.max(1));
        let at = now.saturating_add((after as i64).max(1));
        self.next_failure = if self.up == 0 { i64::MAX } else { at };
    }

    /// When the next thing becomes of a node.
    pub(super) fn next(&self) -> i64 {
        self.next_repair().min(self.next_failure)
    }

    /// When the next node comes back; never, where all are up.
    pub(super) fn next_repair(&self) -> i64 {
        self.repairs.peek().map_or(i64::MAX, |Reverse(at)| *at)
    }

    /// Does it, where it is due; repairs before failures.
    pub(super) fn turn(&mut self, now: i64) -> Option<Turn> {
        if self.next_repair() <= now {
            self.repairs.pop();
            self.up += 1;
            self.draw_failure(now);
            return Some(Turn::Repaired);
        }
        if self.next_failure > now {
            return None;
        }
        let which = self.draw.below(self.up as usize) as u32;
        let mean = self.faults.mttr_s as f64;
        let down = ((self.draw.exponential() * mean) as i64).max(1);
        self.repairs.push(Reverse(now.saturating_add(down)));
        self.up -= 1;
        self.counts.failures += 1;
        self.down_s += i128::from(down) * i128::from(self.size);
        self.draw_failure(now);
        Some(Turn::Breaks { first: which * self.size })
    }

    /// A job of so many processors lost a run; what it keeps of it, seconds.
    pub(super) fn hit(&mut self, ran: i64, processors: i64) -> i64 {
        let every = self.faults.checkpoint_s.and_then(|s| i64::try_from(s).ok());
        let kept = every.filter(|every| *every > 0).map_or(0, |every| ran - ran % every);
        self.counts.jobs_hit += 1;
        self.lost_s += i128::from(ran - kept) * i128::from(processors);
        kept
    }

    /// What it came to.
    pub(super) fn counts(&self) -> FaultCounts {
        let hours = |seconds: i128| seconds as f64 / 3600.0;
        FaultCounts {
            lost_processor_hours: hours(self.lost_s),
            down_processor_hours: hours(self.down_s),
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(checkpoint_s: Option<u64>) -> Faults {
        Faults { nodes: 10, mtbf_s: 10_000, mttr_s: 500, checkpoint_s, seed: 4 }
    }

    #[test]
    fn failures_and_repairs_come_as_often_as_they_should() {
        let mut breakage = Breakage::begin(faults(None), 40, 0);
        assert_eq!(breakage.size, 4);
        while breakage.next() < 20_000_000 {
            let now = breakage.next();
            let turn = breakage.turn(now).unwrap();
            let up = u32::from(turn == Turn::Repaired) + breakage.up;
            assert!(up <= 10 + 1);
            if let Turn::Breaks { first } = turn {
                assert!(first % 4 == 0 && first <= breakage.up * 4);
            }
        }
        // Each node is up 20 of 21 parts of the time and breaks once in 10,500 s.
        let counts = breakage.counts();
        let wanted = 10.0 * 20_000_000.0 / 10_500.0;
        assert!((counts.failures as f64 / wanted - 1.0).abs() < 0.03, "{counts:?}");
        let down = wanted * 500.0 * 4.0 / 3600.0;
        assert!((counts.down_processor_hours / down - 1.0).abs() < 0.03, "{counts:?}");
    }

    #[test]
    fn a_checkpoint_keeps_what_was_done_before_it() {
        let mut none = Breakage::begin(faults(None), 40, 0);
        assert_eq!(none.hit(3700, 36), 0);
        assert!((none.counts().lost_processor_hours - 37.0).abs() < 1e-9);
        let mut hourly = Breakage::begin(faults(Some(3600)), 40, 0);
        assert_eq!(hourly.hit(3700, 36), 3600);
        assert!((hourly.counts().lost_processor_hours - 1.0).abs() < 1e-9);
    }
}
