//! Affinity, spread, tolerations and labels as users write them.
//!
//! ```text
//! --affinity=RULE[;RULE…]
//!     RULE    = node(TERM|TERM…)[*WEIGHT]        labels of the nodes; terms are alternatives
//!             | near(KEY, SELECTOR)[*WEIGHT]     the same KEY as some job
//!             | apart(KEY, SELECTOR)[*WEIGHT]    another KEY than every such job
//!     TERM, SELECTOR = CONDITION&CONDITION…
//!     CONDITION = key | !key | key=value | key!=value | key>number | key<number
//!               | key in [a,b] | key notin [a,b]
//! --spread=KEY[,skew=N][,domains=N][,soft][,taints][,any-node]:SELECTOR[;…]
//! --toleration=KEY[=VALUE][:EFFECT][@SECONDS][,…]      `*` is every taint
//! --labels=KEY=VALUE[,…]
//! ```
//! A WEIGHT from 1 to 100 makes a rule a wish. A KEY is `node`, a level of the topology, or a node
//! label; a key that begins with a dot in a node term is a field (`.gpus>4`). Blanks do not matter.
//! The words and their meaning are Kubernetes' (its scheduling reference), the grammar is muster's.

use crate::problem::{Code, Problem, quoted};
use muster_model::{
    Affinity, Expression, Heed, JobTerm, Labels, Node, Operator, SpreadRule, Taint, TaintEffect,
    Term, Toleration, Wish,
};
use std::fmt::Write as _;

/// Longest text, bytes.
const TEXT_MAX: usize = 4096;

/// At most so many rules, terms, conditions or values in one place.
const ENTRIES_MAX: usize = 64;

/// Reads one `--affinity` into what was said before.
///
/// # Errors
/// [`Code::AffinityBad`], with the character where reading ended.
pub fn affinity(text: &str, into: &mut Affinity) -> Result<(), Problem> {
    let mut reader = Reader::new(text)?;
    loop {
        rule(&mut reader, into)?;
        if !reader.eat(';') {
            break;
        }
    }
    reader.end()
}

fn rule(reader: &mut Reader<'_>, into: &mut Affinity) -> Result<(), Problem> {
    let start = reader.at;
    let kind = reader.word();
    reader.expect('(', "node(...), near(KEY, ...) or apart(KEY, ...)")?;
    match kind {
        "node" => {
            let mut terms = vec![term(reader, true)?];
            while reader.eat('|') {
                terms.push(term(reader, true)?);
                reader.bound(terms.len())?;
            }
            reader.expect(')', "`)`")?;
            match weight(reader)? {
                None if into.node.required.is_empty() => into.node.required = terms,
                None => {
                    return Err(reader.wrong("a second required node rule: join terms with | or &"));
                }
                Some(weight) => {
                    let wishes = terms.into_iter().map(|term| Wish { weight, term });
                    into.node.preferred.extend(wishes);
                }
            }
        }
        "near" | "apart" => {
            let key = key(reader)?;
            reader.expect(',', "`,` and a selector of jobs")?;
            let selector = term(reader, false)?;
            reader.expect(')', "`)`")?;
            let rules = if kind == "near" { &mut into.near } else { &mut into.apart };
            let term = JobTerm { key, selector };
            match weight(reader)? {
                None => rules.required.push(term),
                Some(weight) => rules.preferred.push(Wish { weight, term }),
            }
        }
        _ => {
            reader.at = start;
            return Err(reader.wrong("a rule is node(...), near(KEY, ...) or apart(KEY, ...)"));
        }
    }
    let rules = [&into.near, &into.apart].map(|r| r.required.len() + r.preferred.len());
    reader.bound(rules[0].max(rules[1]).max(into.node.preferred.len()))
}

fn weight(reader: &mut Reader<'_>) -> Result<Option<u32>, Problem> {
    if !reader.eat('*') {
        return Ok(None);
    }
    let weight = reader.number()?;
    if (1..=100).contains(&weight) {
        Ok(Some(weight))
    } else {
        Err(reader.wrong("a weight is from 1 to 100"))
    }
}

fn key(reader: &mut Reader<'_>) -> Result<String, Problem> {
    match reader.word() {
        "" => Err(reader.wrong("a name is missing: node, a level, or a node label")),
        key => Ok(key.to_owned()),
    }
}

fn term(reader: &mut Reader<'_>, of_nodes: bool) -> Result<Term, Problem> {
    let mut all = vec![condition(reader, of_nodes)?];
    while reader.eat('&') {
        all.push(condition(reader, of_nodes)?);
        reader.bound(all.len())?;
    }
    Ok(Term { all })
}

fn condition(reader: &mut Reader<'_>, of_nodes: bool) -> Result<Expression, Problem> {
    let absent = reader.eat('!');
    let start = reader.at;
    let key = reader.word().to_owned();
    if key.is_empty() {
        return Err(reader.wrong("a label is missing"));
    }
    if let Some(field) = key.strip_prefix('.')
        && !(of_nodes && Node::FIELDS.contains(&field))
    {
        reader.at = start;
        let known = Node::FIELDS.map(|f| format!(".{f}")).join(", ");
        return Err(reader
            .wrong("there is no such field")
            .hint(format!("fields of nodes: {known}")));
    }
    let of = |operator, values| Ok(Expression { key: key.clone(), operator, values });
    if absent {
        return of(Operator::DoesNotExist, Vec::new());
    }
    if reader.eat('!') {
        reader.expect('=', "`!=`")?;
        return of(Operator::NotIn, vec![value(reader)?]);
    }
    if reader.eat('=') {
        return of(Operator::In, vec![value(reader)?]);
    }
    for (sign, operator) in [('>', Operator::Gt), ('<', Operator::Lt)] {
        if reader.eat(sign) {
            let value = value(reader)?;
            if value.parse::<i64>().is_err() {
                return Err(reader.wrong("a whole number stands after `>` and `<`"));
            }
            return of(operator, vec![value]);
        }
    }
    let before = reader.at;
    let operator = match reader.word() {
        "in" => Operator::In,
        "notin" => Operator::NotIn,
        _ => {
            reader.at = before;
            return of(Operator::Exists, Vec::new());
        }
    };
    reader.expect('[', "`[` and a list of values")?;
    let mut values = vec![value(reader)?];
    while reader.eat(',') {
        values.push(value(reader)?);
        reader.bound(values.len())?;
    }
    reader.expect(']', "`]`")?;
    of(operator, values)
}

fn value(reader: &mut Reader<'_>) -> Result<String, Problem> {
    match reader.word() {
        "" => Err(reader.wrong("a value is missing")),
        value => Ok(value.to_owned()),
    }
}

/// Reads one `--spread` into what was said before.
///
/// # Errors
/// [`Code::AffinityBad`], with the character where reading ended.
pub fn spread(text: &str, into: &mut Affinity) -> Result<(), Problem> {
    let mut reader = Reader::new(text)?;
    loop {
        let rule = spread_rule(&mut reader)?;
        into.spread.push(rule);
        reader.bound(into.spread.len())?;
        if !reader.eat(';') {
            break;
        }
    }
    reader.end()
}

fn spread_rule(reader: &mut Reader<'_>) -> Result<SpreadRule, Problem> {
    let mut rule = SpreadRule {
        key: key(reader)?,
        max_skew: 1,
        selector: Term::default(),
        min_domains: None,
        soft: false,
        node_affinity: Heed::Honor,
        taints: Heed::Ignore,
    };
    while reader.eat(',') {
        let start = reader.at;
        match reader.word() {
            "soft" => rule.soft = true,
            "taints" => rule.taints = Heed::Honor,
            "any-node" => rule.node_affinity = Heed::Ignore,
            word @ ("skew" | "domains") => {
                reader.expect('=', "`=` and a number")?;
                let number = reader.number()?;
                if number == 0 {
                    return Err(reader.wrong("the number is at least 1"));
                }
                match word {
                    "skew" => rule.max_skew = number,
                    _ => rule.min_domains = Some(number),
                }
            }
            _ => {
                reader.at = start;
                let what = "after the key stand skew=N, domains=N, soft, taints or any-node";
                return Err(reader.wrong(what));
            }
        }
    }
    if rule.soft && rule.min_domains.is_some() {
        return Err(reader.wrong("a soft rule has no least number of domains"));
    }
    reader.expect(':', "`:` and a selector of jobs")?;
    rule.selector = term(reader, false)?;
    Ok(rule)
}

/// Reads one `--toleration` into what was said before.
///
/// # Errors
/// [`Code::AffinityBad`], with the character where reading ended.
pub fn tolerations(text: &str, into: &mut Affinity) -> Result<(), Problem> {
    let mut reader = Reader::new(text)?;
    loop {
        let toleration = toleration(&mut reader)?;
        into.tolerations.push(toleration);
        reader.bound(into.tolerations.len())?;
        if !reader.eat(',') {
            break;
        }
    }
    reader.end()
}

fn toleration(reader: &mut Reader<'_>) -> Result<Toleration, Problem> {
    let mut toleration = Toleration::default();
    if !reader.eat('*') {
        toleration.key = Some(key(reader)?);
        if reader.eat('=') {
            toleration.value = Some(value(reader)?);
        }
    }
    if reader.eat(':') {
        let start = reader.at;
        let word = reader.word();
        toleration.effect = TaintEffect::of_word(word);
        if toleration.effect.is_none() {
            reader.at = start;
            return Err(reader.wrong("an effect is NoSchedule, PreferNoSchedule or NoExecute"));
        }
    }
    if reader.eat('@') {
        toleration.seconds = Some(muster_model::Seconds(u64::from(reader.number()?)));
        if toleration.effect != Some(TaintEffect::NoExecute) {
            return Err(reader.wrong("a time is for NoExecute only"));
        }
    }
    Ok(toleration)
}

/// Reads a taint of a node: `key=value:EFFECT`, without an effect `NoSchedule`.
///
/// # Errors
/// [`Code::AffinityBad`], with the character where reading ended.
pub fn taint(text: &str) -> Result<Taint, Problem> {
    let mut reader = Reader::new(text)?;
    let key = key(&mut reader)?;
    let value = if reader.eat('=') { value(&mut reader)? } else { String::new() };
    let mut effect = TaintEffect::NoSchedule;
    if reader.eat(':') {
        let what = "an effect is NoSchedule, PreferNoSchedule or NoExecute";
        effect = TaintEffect::of_word(reader.word()).ok_or_else(|| reader.wrong(what))?;
    }
    reader.end()?;
    Ok(Taint { key, value, effect })
}

/// Reads one `--labels` into what was said before.
///
/// # Errors
/// [`Code::AffinityBad`], with the character where reading ended.
pub fn labels(text: &str, into: &mut Labels) -> Result<(), Problem> {
    let mut reader = Reader::new(text)?;
    loop {
        let start = reader.at;
        let key = key(&mut reader)?;
        if matches!(key.as_str(), "name" | "user" | "account") || key.starts_with('.') {
            reader.at = start;
            return Err(reader.wrong(
                "name, user and account are the job's own, and a label has no dot in front",
            ));
        }
        reader.expect('=', "`=` and a value")?;
        into.insert(key, reader.word().to_owned());
        reader.bound(into.len())?;
        if !reader.eat(',') {
            break;
        }
    }
    reader.end()
}

/// The text of `--affinity` that [`affinity`] reads back; empty where there is nothing to say.
pub fn print_affinity(affinity: &Affinity) -> String {
    let mut rules = Vec::new();
    if !affinity.node.required.is_empty() {
        let terms: Vec<String> = affinity.node.required.iter().map(ToString::to_string).collect();
        rules.push(format!("node({})", terms.join("|")));
    }
    rules.extend(affinity.node.preferred.iter().map(|w| format!("node({})*{}", w.term, w.weight)));
    for (word, of) in [("near", &affinity.near), ("apart", &affinity.apart)] {
        rules.extend(of.required.iter().map(|term| format!("{word}({term})")));
        rules.extend(of.preferred.iter().map(|w| format!("{word}({})*{}", w.term, w.weight)));
    }
    rules.join(";")
}

/// The text of `--spread` that [`spread`] reads back.
pub fn print_spread(affinity: &Affinity) -> String {
    let rule = |rule: &SpreadRule| {
        let mut text = rule.key.clone();
        if rule.max_skew != 1 {
            let _ = write!(text, ",skew={}", rule.max_skew);
        }
        if let Some(least) = rule.min_domains {
            let _ = write!(text, ",domains={least}");
        }
        let words = [
            (rule.soft, ",soft"),
            (rule.taints == Heed::Honor, ",taints"),
            (rule.node_affinity == Heed::Ignore, ",any-node"),
        ];
        words.iter().filter(|w| w.0).for_each(|w| text.push_str(w.1));
        let _ = write!(text, ":{}", rule.selector);
        text
    };
    affinity.spread.iter().map(rule).collect::<Vec<_>>().join(";")
}

/// The text of `--toleration` that [`tolerations`] reads back.
pub fn print_tolerations(affinity: &Affinity) -> String {
    affinity.tolerations.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The text of `--labels` that [`labels`] reads back.
pub fn print_labels(labels: &Labels) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Reads words and signs from the left, blanks between them passed over.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, Problem> {
        let reader = Self { text, at: 0 };
        if text.len() > TEXT_MAX { Err(reader.wrong("it is too long")) } else { Ok(reader) }
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, sign: char) -> bool {
        self.skip_blanks();
        let found = self.text[self.at..].starts_with(sign);
        self.at += if found { sign.len_utf8() } else { 0 };
        found
    }

    /// Letters, digits and `_-./`: what names and values consist of.
    fn word(&mut self) -> &'a str {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()).min(253);
        self.at += end;
        &rest[..end]
    }

    fn number(&mut self) -> Result<u32, Problem> {
        let start = self.at;
        let word = self.word();
        word.parse().map_err(|_| {
            self.at = start;
            self.wrong("a whole number is missing")
        })
    }

    fn expect(&mut self, sign: char, what: &str) -> Result<(), Problem> {
        if self.eat(sign) { Ok(()) } else { Err(self.wrong(&format!("{what} should stand here"))) }
    }

    fn bound(&self, entries: usize) -> Result<(), Problem> {
        if entries > ENTRIES_MAX {
            return Err(self.wrong(&format!("there are more than {ENTRIES_MAX} entries")));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        self.skip_blanks();
        if self.at < self.text.len() { Err(self.wrong("this is not expected")) } else { Ok(()) }
    }

    fn wrong(&self, why: &str) -> Problem {
        let at = self.text[..self.at].chars().count() + 1;
        let what = format!("{} cannot be read at character {at}: {why}", quoted(self.text));
        Problem::new(Code::AffinityBad, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Affinity, Problem> {
        let mut into = Affinity::default();
        affinity(text, &mut into).map(|()| into)
    }

    #[test]
    fn every_form_is_read_and_printed() {
        for (text, printed) in [
            ("node(zone in [a, b] & gpu != t4 | rack)", "node(zone in [a,b]&gpu!=t4|rack)"),
            ("node(.gpus>4&!spot)*50", "node(.gpus>4&!spot)*50"),
            (
                "near(rack, app=db); apart(node, app=web)*10",
                "near(rack, app=db);apart(node, app=web)*10",
            ),
            ("node(gpu-mem<40000)", "node(gpu-mem<40000)"),
            ("node(k notin [a])", "node(k!=a)"),
            ("node(in)", "node(in)"),
        ] {
            let found = read(text).expect(text);
            assert_eq!(print_affinity(&found), printed, "{text}");
            assert_eq!(read(printed), Ok(found), "{text}");
        }
        let mut found = Affinity::default();
        spread("rack,skew=2,domains=3,taints:app=web; node,soft:tier", &mut found).expect("read");
        tolerations("gpu=h100:noschedule, maint:NoExecute@300,*", &mut found).expect("read");
        assert_eq!(print_spread(&found), "rack,skew=2,domains=3,taints:app=web;node,soft:tier");
        assert_eq!(print_tolerations(&found), "gpu=h100:NoSchedule,maint:NoExecute@300,*");
        let mut own = Labels::new();
        labels("app=web,tier=", &mut own).expect("read");
        assert_eq!(print_labels(&own), "app=web,tier=");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_character() {
        let told = |text: &str| read(text).expect_err(text).what;
        assert_eq!(
            told("node(zone=a"),
            "`node(zone=a` cannot be read at character 12: `)` should stand here"
        );
        assert!(
            told("nod(zone)").contains("character 1: a rule is node(...)"),
            "{}",
            told("nod(zone)")
        );
        assert!(told("near(rack)").contains("character 10: `,` and a selector"));
        assert!(told("node(a)*0").contains("from 1 to 100"));
        assert!(told("node(.gpu>1)").contains("no such field"));
        assert!(told("near(rack, .gpus>1)").contains("no such field"));
        assert!(told("node(a>x)").contains("a whole number"));
        assert!(told("node(a);node(b)").contains("a second required node rule"));
        assert!(told("node(a) x").contains("character 9: this is not expected"));
        let spread = |text: &str| spread(text, &mut Affinity::default()).expect_err(text).what;
        assert!(spread("rack,skew=0:a").contains("at least 1"));
        assert!(spread("rack").contains("a selector of jobs"));
        assert!(spread("rack,domains=2,soft:a").contains("no least number"));
        let tolerated =
            |text: &str| tolerations(text, &mut Affinity::default()).expect_err(text).what;
        assert!(tolerated("a:Never").contains("an effect is"));
        assert!(tolerated("a:NoSchedule@3").contains("NoExecute only"));
        assert_eq!(taint("gpu=h100:NoExecute").expect("read").to_string(), "gpu=h100:NoExecute");
        assert!(taint("gpu:Never").is_err());
        assert!(labels("name=x", &mut Labels::new()).is_err());
    }

    proptest! {
        #[test]
        fn print_then_parse(text in "(node|near|apart)\\((rack, )?!?[a-c.]{1,3}(=|!=|>| in \\[)?[0-9a]{0,2}[\\])&|;*0-9a]{0,12}") {
            if let Ok(found) = read(&text) {
                prop_assert_eq!(read(&print_affinity(&found)), Ok(found), "{}", text);
            }
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let mut into = Affinity::default();
            let _ = affinity(&text, &mut into);
            let _ = spread(&text, &mut into);
            let _ = tolerations(&text, &mut into);
            let _ = labels(&text, &mut Labels::new());
        }
    }
}
