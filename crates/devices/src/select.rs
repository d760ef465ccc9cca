//! Selectors in CEL: which device may serve which request.
//!
//! A selector that cannot be read, that fails on a device or that gives anything but true or false is
//! an error with its text, never a match. Its cost is bounded before it is run: its length, how deep
//! it nests, and how many steps its loops can make.

mod words;

use crate::{Alternative, Attribute, Claim, Device, Offer};
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, LiteralValue};
use cel::objects::{Key, Value};
use cel::{Context, Env, IdedExpr, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The API's limit of an expression.
const LENGTH_MAX: usize = 10 * 1024;

/// Brackets, calls and choices in each other at most.
const DEPTH_MAX: u16 = 48;

/// Signs that link parts of an expression (`.`, `+`, `=`, brackets, ...) at most: a chain of them is as
/// deep as it is long.
const LINKS_MAX: usize = 400;

/// Levels of an expression that was read at most: each takes room on the stack when it is run.
const LEVELS_MAX: u32 = 32;

/// Steps at most, counted as if every loop went over this many things.
const STEPS_MAX: u64 = 1_000_000;

/// So many things a device says of itself at most (attributes and capacities together).
const LOOP: u64 = 64;

/// So many errors are told of an expression.
const SAID_MAX: usize = 300;

/// A selector that decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The class is not there.
    #[error("request {request:?}: device class {class:?} does not exist")]
    NoClass {
        /// The request.
        request: String,
        /// The class.
        class: String,
    },
    /// The selector cannot be read, or costs too much.
    #[error("request {request:?}: the selector `{text}` cannot be used: {why}")]
    Unreadable {
        /// The request.
        request: String,
        /// The selector.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The selector failed on a device.
    #[error("request {request:?}: the selector `{text}` fails on device {device}: {why}")]
    Failed {
        /// The request.
        request: String,
        /// The selector.
        text: String,
        /// The device.
        device: String,
        /// How.
        why: String,
    },
}

/// Of each device whether it matches, and of each whether it may be given, too.
type Fits = (Vec<bool>, Vec<bool>);

/// Which devices of an offer may serve which alternative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// By claim, request and alternative: devices that match, and those of them that may be given.
    by: BTreeMap<(usize, usize, usize), Fits>,
}

impl Fit {
    /// Devices that class and selectors name.
    pub(crate) fn matching(&self, claim: usize, request: usize, alternative: usize) -> &[bool] {
        self.by.get(&(claim, request, alternative)).map_or(&[], |found| &found.0)
    }

    /// Devices that may be given, too.
    pub(crate) fn usable(&self, claim: usize, request: usize, alternative: usize) -> &[bool] {
        self.by.get(&(claim, request, alternative)).map_or(&[], |found| &found.1)
    }

    /// What a device is in all alternatives.
    pub(crate) fn of(&self, device: usize) -> Vec<(bool, bool)> {
        let at = |all: &[bool]| all.get(device).copied().unwrap_or(false);
        self.by.values().map(|(matching, usable)| (at(matching), at(usable))).collect()
    }
}

/// What CEL's maps are made of: looked up and never gone through in its order.
#[expect(clippy::disallowed_types, reason = "the interpreter takes no other")]
type Fields = std::collections::HashMap<Key, Value>;

/// A selector that was read: the program, and the texts in it, which may be names of domains.
type Read = Result<(Program, BTreeSet<String>), String>;

/// Selectors that were read, each once.
#[derive(Clone, Default)]
pub struct Selectors {
    known: BTreeMap<String, Arc<Read>>,
}

impl fmt::Debug for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Selectors").field(&self.known.len()).finish()
    }
}

impl Selectors {
    /// Forgets what was read.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// Looks which devices may serve which request. `classes` are the selectors of the classes.
    ///
    /// # Errors
    /// [`SelectorError`], the first one.
    pub fn fit(
        &mut self,
        offer: &Offer,
        claims: &[Claim],
        classes: &BTreeMap<String, Vec<String>>,
    ) -> Result<Fit, SelectorError> {
        let mut fit = Fit::default();
        let root = words::context();
        for (c, claim) in claims.iter().enumerate() {
            for (r, request) in claim.requests.iter().enumerate() {
                for (a, alternative) in request.alternatives.iter().enumerate() {
                    let found = self.one(offer, alternative, classes, &root)?;
                    fit.by.insert((c, r, a), found);
                }
            }
        }
        Ok(fit)
    }

    /// True for the selectors of this alternative and its class; the reason where they cannot be used
    /// on any device.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub fn read(
        &mut self,
        alternative: &Alternative,
        classes: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), SelectorError> {
        self.programs(alternative, classes).map(drop)
    }

    fn programs(
        &mut self,
        alternative: &Alternative,
        classes: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<(String, Arc<Read>)>, SelectorError> {
        let request = &alternative.name;
        let class = classes.get(&alternative.class).ok_or_else(|| SelectorError::NoClass {
            request: request.clone(),
            class: alternative.class.clone(),
        })?;
        let mut programs = Vec::new();
        for text in class.iter().chain(&alternative.selectors) {
            let read = self.known.entry(text.clone()).or_insert_with(|| Arc::new(read(text)));
            if let Err(why) = read.as_ref() {
                let (text, why) = (cut(text), why.clone());
                return Err(SelectorError::Unreadable { request: request.clone(), text, why });
            }
            programs.push((text.clone(), Arc::clone(read)));
        }
        Ok(programs)
    }

    fn one(
        &mut self,
        offer: &Offer,
        alternative: &Alternative,
        classes: &BTreeMap<String, Vec<String>>,
        root: &Context<'_, '_>,
    ) -> Result<Fits, SelectorError> {
        let programs = self.programs(alternative, classes)?;
        let (mut matching, mut usable) = (Vec::new(), Vec::new());
        for device in &offer.devices {
            let mut matches = true;
            for (text, read) in &programs {
                let Ok((program, texts)) = read.as_ref() else { continue };
                let holds =
                    holds(program, texts, device, root).map_err(|why| SelectorError::Failed {
                        request: alternative.name.clone(),
                        text: cut(text),
                        device: device.id.to_string(),
                        why: cut(&why),
                    })?;
                if !holds {
                    matches = false;
                    break;
                }
            }
            let may = device.unusable.is_none() && device.is_tolerated(&alternative.tolerations);
            matching.push(matches);
            usable.push(matches && may);
        }
        Ok((matching, usable))
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SAID_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn read(text: &str) -> Read {
    if text.len() > LENGTH_MAX {
        return Err(format!("it is longer than {LENGTH_MAX} bytes"));
    }
    // What a parser does with deep nesting is bounded before it sees it.
    if depth(text) > DEPTH_MAX {
        return Err(format!("it nests deeper than {DEPTH_MAX}"));
    }
    let links = text.chars().filter(|sign| is_link(*sign)).count();
    if links > LINKS_MAX {
        return Err(format!("it has more than {LINKS_MAX} operators"));
    }
    let program = Env::stdlib().compile(text).map_err(|errors| cut(&first_line(&errors)))?;
    let mut looked = Looked { texts: BTreeSet::new(), level: 0, deepest: 0 };
    let steps = looked.steps(program.expression(), 1);
    if looked.deepest > LEVELS_MAX {
        return Err(format!("it nests deeper than {LEVELS_MAX}"));
    }
    if steps > STEPS_MAX {
        return Err(format!("it may take more than {STEPS_MAX} steps"));
    }
    Ok((program, looked.texts))
}

fn first_line(errors: &impl fmt::Display) -> String {
    errors.to_string().lines().next().unwrap_or_default().to_owned()
}

/// True for signs that link parts of an expression; those in texts are counted as well.
fn is_link(sign: char) -> bool {
    !sign.is_alphanumeric() && !sign.is_whitespace() && !matches!(sign, '_' | '\'' | '"' | ',')
}

/// How deep brackets are in each other, and how many signs of one level follow each other.
fn depth(text: &str) -> u16 {
    let (mut now, mut most, mut run) = (0u16, 0u16, 0u16);
    for sign in text.chars() {
        match sign {
            '(' | '[' | '{' => now = now.saturating_add(1),
            ')' | ']' | '}' => now = now.saturating_sub(1),
            _ => {}
        }
        run = match sign {
            '!' | '-' | '?' => run.saturating_add(1),
            _ if sign.is_whitespace() => run,
            _ => 0,
        };
        most = most.max(now).max(run);
    }
    most
}

/// What a look at an expression finds.
struct Looked {
    /// The texts in it.
    texts: BTreeSet<String>,
    level: u32,
    deepest: u32,
}

impl Looked {
    /// How many steps it takes at most, where each loop goes over a literal list or over [`LOOP`]
    /// things.
    fn steps(&mut self, expr: &IdedExpr, times: u64) -> u64 {
        self.level += 1;
        self.deepest = self.deepest.max(self.level);
        // Deeper it is refused anyway.
        let inner = if self.level > LEVELS_MAX { 0 } else { self.inner(expr, times) };
        self.level -= 1;
        inner.saturating_add(times)
    }

    fn inner(&mut self, expr: &IdedExpr, times: u64) -> u64 {
        match &expr.expr {
            Expr::Call(call) => {
                self.all(call.target.as_deref().into_iter().chain(&call.args), times)
            }
            Expr::List(list) => self.all(&list.elements, times),
            Expr::Select(select) => self.steps(&select.operand, times),
            Expr::Map(map) => self.entries(&map.entries, times),
            Expr::Struct(one) => self.entries(&one.entries, times),
            Expr::Comprehension(one) => {
                let outside = self.all([&one.iter_range, &one.accu_init], times);
                let rounds = match &one.iter_range.expr {
                    Expr::List(list) => list.elements.len() as u64,
                    _ => LOOP,
                };
                let inside = times.saturating_mul(rounds.max(1));
                let each = [&one.loop_cond, &one.loop_step, &one.result];
                outside.saturating_add(self.all(each, inside))
            }
            Expr::Literal(LiteralValue::String(text)) => {
                self.texts.insert(text.inner().to_owned());
                0
            }
            Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => 0,
        }
    }

    fn all<'a>(&mut self, parts: impl IntoIterator<Item = &'a IdedExpr>, times: u64) -> u64 {
        parts.into_iter().map(|part| self.steps(part, times)).fold(0, u64::saturating_add)
    }

    fn entries(&mut self, entries: &[IdedEntryExpr], times: u64) -> u64 {
        let one = |entry: &IdedEntryExpr| match &entry.expr {
            EntryExpr::StructField(field) => self.steps(&field.value, times),
            EntryExpr::MapEntry(entry) => self.all([&entry.key, &entry.value], times),
        };
        entries.iter().map(one).fold(0, u64::saturating_add)
    }
}

/// True where a selector holds for a device.
fn holds(
    program: &Program,
    texts: &BTreeSet<String>,
    device: &Device,
    root: &Context<'_, '_>,
) -> Result<bool, String> {
    let mut context = root.new_inner_scope();
    context.add_variable_from_value("device", value(device, texts));
    match program.execute(&context) {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("it gives {:?}, not true or false", other.type_of())),
        Err(error) => Err(error.to_string()),
    }
}

/// A device as selectors see it. A domain of which nothing is said is an empty one: `texts` are the
/// texts of the selector, of which some are names of domains.
fn value(device: &Device, texts: &BTreeSet<String>) -> Value {
    let attributes = device.attributes.iter().map(|(name, value)| (name, attribute(value)));
    let capacity = device.capacity.iter().map(|(name, has)| (name, words::quantity(*has)));
    let fields: Fields = Fields::from([
        ("driver".into(), Value::String(Arc::new(device.id.driver.to_string()))),
        ("attributes".into(), domains(attributes, texts)),
        ("capacity".into(), domains(capacity, texts)),
        ("allowMultipleAllocations".into(), Value::Bool(device.shared)),
    ]);
    Value::from(fields)
}

fn domains<'a>(all: impl Iterator<Item = (&'a String, Value)>, texts: &BTreeSet<String>) -> Value {
    let mut domains: BTreeMap<&str, Fields> =
        texts.iter().map(|text| (text.as_str(), Fields::new())).collect();
    for (name, value) in all {
        let (domain, name) = name.split_once('/').unwrap_or(("", name));
        domains.entry(domain).or_default().insert(name.into(), value);
    }
    let all = domains.into_iter().map(|(domain, values)| (domain.into(), Value::from(values)));
    Value::from(all.collect::<Fields>())
}

fn attribute(value: &Attribute) -> Value {
    match value {
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Int(value) => Value::Int(*value),
        Attribute::Text(value) => Value::String(Arc::new(value.clone())),
        Attribute::Version(value) => words::version(value),
        Attribute::Many(values) => {
            Value::List(Arc::new(values.iter().map(attribute).collect::<Vec<_>>()))
        }
    }
}
