//! Constraints on node features: `a&b|c`, `[rack1|rack2]`, `gpu*2`, `[(a|b)*1&c*2]`.
//!
//! Rule: sbatch manual, `--constraint`. `&` and `|` bind equally and to the left: `a|b&c` is
//! `(a|b)&c`. `[r1|r2]*3` is three nodes of one of the alternatives, beside any others. Square brackets hold either alternatives of which one must hold for all nodes, or
//! counts joined with `&`; there is one pair of them at most. Everything of that grammar is read;
//! what the model cannot hold is refused with a code of its own.

use muster_model::Constraint;

use crate::problem::{Code, Problem, quoted};
use crate::scan::digits;

/// Longest expression, in bytes.
pub const CONSTRAINT_TEXT_MAX: usize = 4096;

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 32;

/// Reads the argument of `--constraint`.
///
/// # Errors
/// [`Code::ConstraintBad`] for malformed text, [`Code::ConstraintRefused`] for mixtures inside
/// brackets that have no meaning in Slurm either.
pub fn parse(text: &str) -> Result<Constraint, Problem> {
    if text.len() > CONSTRAINT_TEXT_MAX {
        return Err(bad(text, "it is too long"));
    }
    let mut parser = Parser { text, rest: text, brackets: 0 };
    let expression = parser.expression(0)?;
    if !parser.rest.is_empty() {
        return Err(parser.unexpected());
    }
    let counted = counts(&expression);
    if counted > 1 && parser.brackets == 0 {
        return Err(
            bad(text, "more than one count needs square brackets").hint(format!("write [{text}]"))
        );
    }
    Ok(expression)
}

fn bad(text: &str, why: &str) -> Problem {
    Problem::new(Code::ConstraintBad, format!("{} is not a constraint: {why}", quoted(text)))
        .hint("join features with & and |, for example a100&(ib|roce)")
}

fn counts(expression: &Constraint) -> usize {
    match expression {
        Constraint::Feature(_) => 0,
        Constraint::All(parts) | Constraint::Any(parts) | Constraint::OneForAll(parts) => {
            parts.iter().map(counts).sum()
        }
        Constraint::Count(part, _) => 1 + counts(part),
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    brackets: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Or,
}

impl Parser<'_> {
    /// Terms joined with `&` and `|`, taken from the left.
    fn expression(&mut self, depth: usize) -> Result<Constraint, Problem> {
        let mut left = self.term(depth)?;
        while let Some(operator) = self.operator() {
            let right = self.term(depth)?;
            left = join(left, operator, right);
        }
        Ok(left)
    }

    fn operator(&mut self) -> Option<Operator> {
        let operator = match self.rest.chars().next()? {
            '&' => Operator::And,
            '|' => Operator::Or,
            // Slurm's older spelling of "and".
            ',' => Operator::And,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        Some(operator)
    }

    fn term(&mut self, depth: usize) -> Result<Constraint, Problem> {
        if depth > DEPTH_MAX {
            return Err(bad(self.text, "it is nested too deeply"));
        }
        let inner = if self.eat('[') {
            let inner = self.bracketed(depth)?;
            if !matches!(inner, Constraint::OneForAll(_)) {
                return Ok(inner);
            }
            inner
        } else if self.eat('(') {
            let inner = self.expression(depth + 1)?;
            if !self.eat(')') {
                return Err(bad(self.text, "a parenthesis is not closed"));
            }
            inner
        } else {
            Constraint::Feature(self.feature()?)
        };
        if !self.eat('*') {
            return Ok(inner);
        }
        if counts(&inner) > 0 {
            return Err(bad(self.text, "a count stands inside another"));
        }
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let count = digits(&self.rest[..end])
            .and_then(|count| u32::try_from(count).ok())
            .filter(|&count| count > 0)
            .ok_or_else(|| bad(self.text, "a number of nodes stands after `*`"))?;
        self.rest = &self.rest[end..];
        Ok(Constraint::Count(Box::new(inner), count))
    }

    /// What stands between square brackets: alternatives, or counts joined with `&`.
    fn bracketed(&mut self, depth: usize) -> Result<Constraint, Problem> {
        self.brackets += 1;
        if self.brackets > 1 || depth > 0 {
            return Err(bad(self.text, "there is one pair of square brackets at most"));
        }
        let mut terms = vec![self.term(depth + 1)?];
        let mut joined_by: Option<Operator> = None;
        while let Some(operator) = self.operator() {
            if joined_by.is_some_and(|first| first != operator) {
                return Err(refused(self.text, "square brackets mix & and |")
                    .hint("group with parentheses: [(a&b)|c]"));
            }
            joined_by = Some(operator);
            terms.push(self.term(depth + 1)?);
        }
        if !self.eat(']') {
            return Err(bad(self.text, "a square bracket is not closed"));
        }
        let counted = terms.iter().filter(|term| matches!(term, Constraint::Count(..))).count();
        match joined_by {
            _ if counted > 0 && (counted < terms.len() || joined_by == Some(Operator::Or)) => {
                Err(refused(
                    self.text,
                    "in square brackets either every term has a count and & joins them, or none",
                ))
            }
            Some(Operator::And) if counted == 0 => Err(refused(
                self.text,
                "features joined with & in square brackets need a count each",
            )
            .hint("write [a*2&b*4], or a&b without brackets")),
            Some(Operator::And) => Ok(Constraint::All(terms)),
            Some(Operator::Or) => Ok(Constraint::OneForAll(terms)),
            None => Ok(terms.remove(0)),
        }
    }

    fn feature(&mut self) -> Result<String, Problem> {
        let is_feature = |c: char| c.is_ascii_alphanumeric() || "_-.:/+=".contains(c);
        let end = self.rest.find(|c: char| !is_feature(c)).unwrap_or(self.rest.len());
        if end == 0 || end > 255 {
            return Err(self.unexpected());
        }
        let name = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        Ok(name)
    }

    fn eat(&mut self, c: char) -> bool {
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn unexpected(&self) -> Problem {
        match self.rest.chars().next() {
            Some(c) => bad(self.text, &format!("{} is not expected", quoted(&c.to_string()))),
            None => bad(self.text, "a feature is missing at the end"),
        }
    }
}

fn refused(text: &str, why: &str) -> Problem {
    Problem::new(Code::ConstraintRefused, format!("{} is refused: {why}", quoted(text)))
}

fn join(left: Constraint, operator: Operator, right: Constraint) -> Constraint {
    match (operator, left) {
        (Operator::And, Constraint::All(mut parts)) => {
            parts.push(right);
            Constraint::All(parts)
        }
        (Operator::Or, Constraint::Any(mut parts)) => {
            parts.push(right);
            Constraint::Any(parts)
        }
        (Operator::And, left) => Constraint::All(vec![left, right]),
        (Operator::Or, left) => Constraint::Any(vec![left, right]),
    }
}

/// Prints what [`parse`] reads back to the same constraint.
pub fn print(constraint: &Constraint) -> String {
    match constraint {
        Constraint::All(parts)
            if parts.len() > 1 && parts.iter().all(|p| matches!(p, Constraint::Count(..))) =>
        {
            format!("[{}]", joined(parts, "&"))
        }
        Constraint::OneForAll(parts) => format!("[{}]", joined(parts, "|")),
        Constraint::All(parts) => joined(parts, "&"),
        Constraint::Any(parts) => joined(parts, "|"),
        other => atom(other),
    }
}

fn joined(parts: &[Constraint], separator: &str) -> String {
    parts.iter().map(atom).collect::<Vec<_>>().join(separator)
}

fn atom(part: &Constraint) -> String {
    match part {
        Constraint::Feature(name) => name.clone(),
        Constraint::Count(inner, count) => format!("{}*{count}", atom(inner)),
        Constraint::OneForAll(_) => print(part),
        Constraint::All(parts) if parts.iter().all(|p| matches!(p, Constraint::Count(..))) => {
            print(part)
        }
        Constraint::All(_) | Constraint::Any(_) => format!("({})", print(part)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_of_the_manual() {
        for (text, out) in [
            ("intel", "intel"),
            ("graphics*4", "graphics*4"),
            ("intel&gpu", "intel&gpu"),
            ("intel|amd", "intel|amd"),
            ("foo&bar|baz", "(foo&bar)|baz"),
            ("foo|bar&baz", "(foo|bar)&baz"),
            ("foo&(bar|baz)", "foo&(bar|baz)"),
            ("[rack1|rack2|rack3]", "[rack1|rack2|rack3]"),
            ("[rack1*2&rack2*4]", "[rack1*2&rack2*4]"),
            ("[(rack1|rack2)*1&(rack3)*2]", "[(rack1|rack2)*1&rack3*2]"),
            ("[(knl&snc4&flat)*4&haswell*1]", "[(knl&snc4&flat)*4&haswell*1]"),
            ("a100&[r1|r2]", "a100&[r1|r2]"),
            ("[a]", "a"),
            ("[r1|r2]*3", "[r1|r2]*3"),
        ] {
            let constraint = parse(text).expect(text);
            assert_eq!(print(&constraint), out, "{text}");
            assert_eq!(parse(out), Ok(constraint), "{text}");
        }
    }

    #[test]
    fn malformed_and_refused() {
        for text in [
            "", "&a", "a&", "a||b", "(a", "a)", "[a", "a*", "a*0", "a*x", "a b", "[a]&[b]",
            "([a])", "a*2&b*2", "!a", "(a*2)*2",
        ] {
            assert_eq!(parse(text).expect_err(text).code, Code::ConstraintBad, "{text}");
        }
        for text in ["[a&b]", "[a|b&c]", "[a*1|b*2]", "[a*1&b]"] {
            assert_eq!(parse(text).expect_err(text).code, Code::ConstraintRefused, "{text}");
        }
        assert!(parse(&"(".repeat(2000)).is_err(), "bounded depth");
    }

    proptest! {
        #[test]
        fn print_then_parse(text in "[ab(]{1,3}[ab|&()*12\\[\\]]{0,20}[ab)]{1,3}") {
            if let Ok(constraint) = parse(&text) {
                prop_assert_eq!(parse(&print(&constraint)), Ok(constraint), "{}", text);
            }
        }

        #[test]
        fn never_panics(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }
    }
}
