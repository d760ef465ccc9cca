//! Which rule on labels, taints or other jobs leaves too few nodes, and how many it leaves.

use super::fence::Fence;
use crate::ask::Ask;
use crate::free::Span;
use crate::world::World;
use muster_model::affinity::{BARRING, untolerated};
use muster_model::{Affinity, Reason, RuleKind, RuleTally, Rules};
use std::sync::Arc;

/// At most so many jobs are named.
const NAMED_MAX: usize = 8;

/// The ask without the rules of one kind.
pub(crate) fn without(ask: &Ask, kind: RuleKind) -> Ask {
    let mut loose = ask.clone();
    let mut affinity = ask.affinity().cloned().unwrap_or_default();
    match kind {
        RuleKind::Taints => loose.tolerates_all = true,
        RuleKind::NodeAffinity => {
            affinity.node = Rules::default();
            affinity.volumes.clear();
        }
        RuleKind::JobAffinity => affinity.near = Rules::default(),
        RuleKind::AntiAffinity => loose.beside_all = true,
        RuleKind::Spread => affinity.spread.clear(),
    }
    let some = affinity != Affinity::default();
    loose.wants_mut().request.change(|request| request.affinity = some.then(|| Arc::new(affinity)));
    loose
}

/// The kinds of rules without which alone `fits` says yes.
pub(crate) fn without_each(ask: &Ask, fits: impl Fn(&Ask) -> bool) -> Option<RuleKind> {
    RuleKind::ALL.into_iter().find(|kind| fits(&without(ask, *kind)))
}

/// The reason of a rule, with how many nodes of the partition each rule leaves of those before it.
pub(crate) fn ruled_out(world: &World, ask: &Ask, span: Span, kind: RuleKind) -> Reason {
    let fence = Fence::of(world, ask, span);
    let members = world.members(&ask.partition.name).map_or(&[][..], |m| m.list());
    let mut left: Vec<usize> = members.to_vec();
    let mut tally = vec![RuleTally { rule: "nodes".to_owned(), left: left.len() as u32 }];
    let mut narrow = |rule: &str, keeps: &dyn Fn(usize) -> bool| {
        let before = left.len();
        left.retain(|node| keeps(*node));
        if left.len() < before || rule == kind.word() {
            tally.push(RuleTally { rule: rule.to_owned(), left: left.len() as u32 });
        }
    };
    let plain = without(&without(ask, RuleKind::Taints), RuleKind::NodeAffinity);
    let named = |node: usize| {
        let view = world.view(node);
        plain.may_use(view) && ask.alternatives.iter().any(|a| a.admits(&view.node.features))
    };
    narrow("features, disk and state", &named);
    let affinity = ask.affinity();
    let tolerations = affinity.map_or(&[][..], |a| &a.tolerations);
    narrow(RuleKind::Taints.word(), &|node| {
        untolerated(&world.view(node).node, tolerations, &BARRING).next().is_none()
    });
    narrow(RuleKind::NodeAffinity.word(), &|node| {
        affinity.is_none_or(|a| a.admits(&world.view(node).node))
    });
    narrow(RuleKind::JobAffinity.word(), &|node| fence.is_near(node));
    narrow(RuleKind::AntiAffinity.word(), &|node| !fence.bars(node));
    narrow(RuleKind::Spread.word(), &|node| fence.even.iter().all(|even| even.allows(&[node])));
    let open = crate::gang::free_nodes(world, &plain, span);
    narrow("free", &|node| open.binary_search(&node).is_ok());
    let mut held_by = match kind {
        RuleKind::AntiAffinity => fence.because,
        _ => Vec::new(),
    };
    held_by.truncate(NAMED_MAX);
    let wanted = ask.node_bounds().map_or(1, |b| b.0);
    Reason::Rules { kind, rule: text(world, ask, kind), wanted, tally, held_by }
}

/// The rules of a kind as they are written.
pub(crate) fn text(world: &World, ask: &Ask, kind: RuleKind) -> String {
    let join = |all: Vec<String>| all.join("; ");
    let affinity = ask.affinity();
    match (kind, affinity) {
        (RuleKind::Taints, _) => {
            let tolerations = affinity.map_or(&[][..], |a| &a.tolerations);
            let members = world.members(&ask.partition.name).map_or(&[][..], |m| m.list());
            let mut taints: Vec<String> = members
                .iter()
                .flat_map(|at| untolerated(&world.view(*at).node, tolerations, &BARRING))
                .map(ToString::to_string)
                .collect();
            taints.sort();
            taints.dedup();
            taints.truncate(NAMED_MAX);
            join(taints)
        }
        (RuleKind::NodeAffinity, Some(a)) => {
            let either = |terms: &[muster_model::Term]| {
                let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
                terms.join(" | ")
            };
            let own = format!("node({})", either(&a.node.required));
            let volumes = a.volumes.iter().map(|places| format!("volume({})", either(places)));
            let own = (!a.node.required.is_empty() || a.volumes.is_empty()).then_some(own);
            join(own.into_iter().chain(volumes).collect())
        }
        (RuleKind::JobAffinity, Some(a)) => {
            join(a.near.required.iter().map(|t| format!("near({t})")).collect())
        }
        (RuleKind::AntiAffinity, Some(a)) if !a.apart.required.is_empty() => {
            join(a.apart.required.iter().map(|t| format!("apart({t})")).collect())
        }
        (RuleKind::AntiAffinity, _) => "of other jobs".to_owned(),
        (RuleKind::Spread, Some(a)) => {
            let rules = a.spread.iter().filter(|rule| !rule.soft);
            let text = |r: &muster_model::SpreadRule| {
                format!("{}, skew {}, {}", r.key, r.max_skew, r.selector)
            };
            join(rules.map(text).collect())
        }
        _ => String::new(),
    }
}
