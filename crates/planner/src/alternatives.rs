//! A feature expression as a list of plain choices: each says what every node must have and how
//! many nodes must have what.

use muster_model::Constraint;
use std::collections::BTreeSet;

/// At most so many choices are tried for one request.
const ALTERNATIVES_MAX: usize = 64;

/// One way to satisfy an expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alternative {
    /// Every node satisfies all of these.
    pub(crate) each: Vec<Constraint>,
    /// At least so many nodes satisfy the expression.
    pub(crate) counts: Vec<(Constraint, u32)>,
}

impl Alternative {
    pub(crate) fn admits(&self, features: &BTreeSet<String>) -> bool {
        self.each.iter().all(|c| c.holds_on(features))
    }
}

/// All ways to satisfy the expression, in the order written; one empty choice where there is none.
///
/// What so many nodes satisfy as the job may have at most (`nodes`), each of them satisfies.
pub(crate) fn alternatives(constraint: Option<&Constraint>, nodes: u32) -> Vec<Alternative> {
    let mut all = constraint.map_or_else(|| vec![Alternative::default()], expand);
    for way in &mut all {
        let on_all = way.counts.iter().filter(|(_, count)| *count >= nodes);
        way.each.extend(on_all.map(|(part, _)| part.clone()));
    }
    all
}

/// True where the expression speaks of the nodes of a job together, not of one node.
fn is_joint(constraint: &Constraint) -> bool {
    match constraint {
        Constraint::Feature(_) => false,
        Constraint::OneForAll(_) | Constraint::Count(..) => true,
        Constraint::All(parts) | Constraint::Any(parts) => parts.iter().any(is_joint),
    }
}

fn expand(constraint: &Constraint) -> Vec<Alternative> {
    let mut choices = match constraint {
        Constraint::Count(part, n) => {
            if let Constraint::OneForAll(parts) = part.as_ref() {
                let each = |p: &Constraint| Constraint::Count(Box::new(p.clone()), *n);
                return parts.iter().flat_map(|p| expand(&each(p))).collect();
            }
            let counts = vec![(part.as_ref().clone(), *n)];
            vec![Alternative { each: Vec::new(), counts }]
        }
        Constraint::OneForAll(parts) => parts.iter().flat_map(expand).collect(),
        Constraint::Any(parts) if is_joint(constraint) => parts.iter().flat_map(expand).collect(),
        Constraint::All(parts) if is_joint(constraint) => parts
            .iter()
            .fold(vec![Alternative::default()], |so_far, part| product(&so_far, &expand(part))),
        plain => vec![Alternative { each: vec![plain.clone()], counts: Vec::new() }],
    };
    choices.truncate(ALTERNATIVES_MAX);
    choices
}

fn product(left: &[Alternative], right: &[Alternative]) -> Vec<Alternative> {
    let mut both = Vec::new();
    for a in left {
        for b in right {
            if both.len() == ALTERNATIVES_MAX {
                return both;
            }
            let mut joined = a.clone();
            joined.each.extend(b.each.iter().cloned());
            joined.counts.extend(b.counts.iter().cloned());
            both.push(joined);
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &str) -> Constraint {
        Constraint::Feature(name.to_owned())
    }

    #[test]
    fn a_choice_for_all_nodes_becomes_one_alternative_each() {
        let c = Constraint::All(vec![
            feature("gpu"),
            Constraint::OneForAll(vec![feature("rack1"), feature("rack2")]),
        ]);
        let found = alternatives(Some(&c), u32::MAX);
        assert_eq!(found.len(), 2);
        let has = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        assert!(found[0].admits(&has(&["gpu", "rack1"])));
        assert!(!found[0].admits(&has(&["gpu", "rack2"])));
        assert!(found[1].admits(&has(&["gpu", "rack2"])));
    }

    #[test]
    fn a_count_of_a_choice_is_of_one_of_them() {
        let choice = Constraint::OneForAll(vec![feature("rack1"), feature("rack2")]);
        let found = alternatives(Some(&Constraint::Count(Box::new(choice), 3)), 4);
        let counts: Vec<_> = found.iter().map(|a| a.counts.clone()).collect();
        assert_eq!(counts, [vec![(feature("rack1"), 3)], vec![(feature("rack2"), 3)]]);
    }

    #[test]
    fn counts_do_not_bar_other_nodes() {
        let c = Constraint::All(vec![
            Constraint::Count(Box::new(feature("rack1")), 2),
            Constraint::Count(Box::new(feature("rack2")), 4),
        ]);
        let found = alternatives(Some(&c), u32::MAX);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].counts.len(), 2);
        assert!(found[0].admits(&BTreeSet::new()));
    }

    #[test]
    fn a_count_of_all_nodes_is_of_each_node() {
        let c = Constraint::All(vec![
            Constraint::Count(Box::new(feature("red")), 1),
            Constraint::Count(Box::new(feature("blue")), 2),
        ]);
        let found = alternatives(Some(&c), 1);
        assert_eq!(found[0].each, [feature("red"), feature("blue")]);
        assert_eq!(found[0].counts.len(), 2, "a job may have fewer nodes than it may have at most");
    }
}
