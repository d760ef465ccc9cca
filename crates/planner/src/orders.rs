//! The orders in which the components of a group are laid out.
//!
//! Each component takes the best place that is left, so which one comes first can decide. The order
//! given is tried first. Then whoever found no place goes before the others, as often as that is an
//! order not tried yet; then the order given backwards, and others one after the other. Components
//! that ask for the same change places for nothing, so orders are told apart by what is asked for.

use crate::ask::Ask;
use std::borrow::Borrow;
use std::collections::BTreeSet;

/// So many orders are tried for one group.
const ORDERS_MAX: usize = 8;

/// The orders of one group, each at most once.
pub(crate) struct Orders {
    /// By component: the first that asks for the same.
    kinds: Vec<usize>,
    /// What was tried, as kinds.
    tried: BTreeSet<Vec<usize>>,
    last: Vec<usize>,
}

impl Orders {
    /// For components with these ways to ask for each.
    pub(crate) fn of<A: Borrow<Ask>>(asks: &[Vec<A>]) -> Self {
        let same = |a: &Vec<A>, b: &Vec<A>| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| {
                    let (a, b): (&Ask, &Ask) = (a.borrow(), b.borrow());
                    a.limit == b.limit && a.lane() == b.lane() && a.request == b.request
                })
        };
        let first = |at: usize| (0..at).find(|before| same(&asks[*before], &asks[at]));
        Self::new((0..asks.len()).map(|at| first(at).unwrap_or(at)).collect())
    }

    fn new(kinds: Vec<usize>) -> Self {
        Self { kinds, tried: BTreeSet::new(), last: Vec::new() }
    }

    /// The next order; `failed` is the component that found no place in the one before.
    pub(crate) fn next(&mut self, failed: Option<usize>) -> Option<Vec<usize>> {
        if self.tried.len() >= ORDERS_MAX {
            return None;
        }
        let given: Vec<usize> = (0..self.kinds.len()).collect();
        let first = failed.map_or_else(|| given.clone(), |failed| self.with_first(failed));
        let backwards = given.iter().rev().copied().collect();
        let order = [first, backwards].into_iter().find(|order| self.is_new(order));
        let order = order.or_else(|| {
            let mut kinds = self.kinds.clone();
            kinds.sort_unstable();
            while self.tried.contains(&kinds) {
                kinds = following(kinds)?;
            }
            Some(self.of_kinds(&kinds))
        })?;
        self.tried.insert(self.kinds_of(&order));
        self.last.clone_from(&order);
        Some(order)
    }

    /// The last order with this component before all others.
    fn with_first(&self, component: usize) -> Vec<usize> {
        let others = self.last.iter().copied().filter(|other| *other != component);
        std::iter::once(component).chain(others).collect()
    }

    fn kinds_of(&self, order: &[usize]) -> Vec<usize> {
        order.iter().map(|at| self.kinds[*at]).collect()
    }

    fn is_new(&self, order: &[usize]) -> bool {
        !self.tried.contains(&self.kinds_of(order))
    }

    /// Components in an order of kinds, those of one kind by number.
    fn of_kinds(&self, kinds: &[usize]) -> Vec<usize> {
        let mut left: BTreeSet<usize> = (0..self.kinds.len()).collect();
        let mut take = |kind: &usize| {
            let at = left.iter().copied().find(|at| self.kinds[*at] == *kind);
            at.inspect(|at| {
                left.remove(at);
            })
        };
        kinds.iter().filter_map(&mut take).collect()
    }
}

/// The next arrangement in ascending order; `None` after the last.
fn following(mut kinds: Vec<usize>) -> Option<Vec<usize>> {
    let at = kinds.windows(2).rposition(|pair| pair[0] < pair[1])?;
    let swap = kinds.iter().rposition(|kind| *kind > kinds[at])?;
    kinds.swap(at, swap);
    kinds[at + 1..].reverse();
    Some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(kinds: Vec<usize>, fails: impl Fn(&[usize]) -> usize) -> Vec<Vec<usize>> {
        let mut orders = Orders::new(kinds);
        let (mut tried, mut failed) = (Vec::new(), None);
        while let Some(order) = orders.next(failed) {
            failed = Some(fails(&order));
            tried.push(order);
        }
        tried
    }

    #[test]
    fn whoever_finds_no_place_goes_first_then_all_orders_of_three_are_tried() {
        let tried = all(vec![0, 1, 2], |order| order[1]);
        assert_eq!(tried[..2], [vec![0, 1, 2], vec![1, 0, 2]]);
        assert_eq!(tried.iter().collect::<BTreeSet<_>>().len(), 6);
    }

    #[test]
    fn equal_components_change_no_places() {
        assert_eq!(all(vec![0; 40], |order| order[39]).len(), 1);
        assert_eq!(all(vec![0, 0, 2], |order| order[2]).len(), 3);
        assert_eq!(all(vec![0], |_| 0), [vec![0]]);
    }

    #[test]
    fn of_many_components_so_many_orders_are_tried() {
        let tried = all((0..9).collect(), |order| order[8]);
        assert_eq!(tried.len(), ORDERS_MAX);
        assert_eq!(tried.iter().collect::<BTreeSet<_>>().len(), ORDERS_MAX);
        assert!(tried.iter().all(|order| order.len() == 9));
    }
}
