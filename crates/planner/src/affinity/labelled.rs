//! Things looked up by a label: what a selector may pick, or which selectors may pick a job.

use muster_model::{JobSpec, Operator, Term};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that stand for something else of a job that has no such label.
const OWN: [&str; 3] = ["name", "user", "account"];

/// The key and the values of which a job has one if a selector picks it; `None` where nothing of
/// the kind can be said.
pub(super) fn handle(selector: &Term) -> Option<(&str, &[String])> {
    let by_values = selector.all.iter().find(|expression| {
        expression.operator == Operator::In && !OWN.contains(&expression.key.as_str())
    });
    by_values.map(|expression| (expression.key.as_str(), expression.values.as_slice()))
}

/// Things by a key and a value.
#[derive(Clone, Debug)]
pub(super) struct Labelled<T>(BTreeMap<String, BTreeMap<String, BTreeSet<T>>>);

impl<T> Default for Labelled<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone + Ord> Labelled<T> {
    pub(super) fn insert(&mut self, key: &str, value: &str, thing: T) {
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), BTreeMap::new());
        }
        let Some(values) = self.0.get_mut(key) else { return };
        match values.get_mut(value) {
            Some(things) => drop(things.insert(thing)),
            None => drop(values.insert(value.to_owned(), BTreeSet::from([thing]))),
        }
    }

    pub(super) fn remove<Q>(&mut self, key: &str, value: &str, thing: &Q)
    where
        T: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let Some(values) = self.0.get_mut(key) else { return };
        let Some(things) = values.get_mut(value) else { return };
        things.remove(thing);
        if things.is_empty() {
            values.remove(value);
        }
        if values.is_empty() {
            self.0.remove(key);
        }
    }

    pub(super) fn get(&self, key: &str, value: &str) -> impl Iterator<Item = &T> {
        self.0.get(key).and_then(|values| values.get(value)).into_iter().flatten()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The things under each of a job's labels.
    pub(super) fn of<'a>(&'a self, job: &'a JobSpec) -> impl Iterator<Item = &'a T> {
        job.labels.iter().flat_map(|(key, value)| self.get(key, value))
    }
}
