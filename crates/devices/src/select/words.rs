//! What Kubernetes adds to CEL for devices: quantities and versions.

use crate::quantity::Quantity;
use cel::extractors::This;
use cel::objects::{Opaque, Value};
use cel::{Context, ExecutionError};
use semver::Version;
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq)]
struct Amount(Quantity);

impl Opaque for Amount {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Release(Version);

impl Opaque for Release {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }
}

/// A quantity as a value.
pub(super) fn quantity(amount: Quantity) -> Value {
    Value::Opaque(Arc::new(Amount(amount)))
}

/// A version as a value; a text where it is none.
pub(super) fn version(text: &str) -> Value {
    match Version::parse(text) {
        Ok(version) => Value::Opaque(Arc::new(Release(version))),
        Err(_) => Value::String(Arc::new(text.to_owned())),
    }
}

type Any = Arc<dyn Opaque>;
type Answer<T> = Result<T, ExecutionError>;

fn wrong(function: &str, why: impl std::fmt::Display) -> ExecutionError {
    ExecutionError::FunctionError { function: function.to_owned(), message: why.to_string() }
}

fn amount(function: &str, value: &Any) -> Answer<Quantity> {
    let found = value.downcast_ref::<Amount>();
    found.map(|amount| amount.0).ok_or_else(|| wrong(function, "it is for quantities"))
}

fn release<'a>(function: &str, value: &'a Any) -> Answer<&'a Version> {
    let found = value.downcast_ref::<Release>();
    found.map(|release| &release.0).ok_or_else(|| wrong(function, "it is for versions"))
}

/// Two quantities or two versions, compared.
fn compare(function: &str, one: &Any, other: &Any) -> Answer<Ordering> {
    match one.downcast_ref::<Amount>() {
        Some(one) => Ok(one.0.cmp(&amount(function, other)?)),
        // What was built of it does not order versions.
        None => Ok(release(function, one)?.cmp_precedence(release(function, other)?)),
    }
}

fn number(function: &str, value: u64) -> Answer<i64> {
    i64::try_from(value).map_err(|error| wrong(function, error))
}

/// A context with the functions of quantities and versions.
pub(super) fn context() -> Context<'static, 'static> {
    let mut context = Context::default();
    // None of these names is one of CEL's own.
    let add = |added: Result<(), cel::DeclarationError>| debug_assert!(added.is_ok());
    add(context.add_function("quantity", |text: Arc<String>| -> Answer<Value> {
        Ok(quantity(Quantity::parse(&text).map_err(|bad| wrong("quantity", bad))?))
    }));
    add(context.add_function("isQuantity", |text: Arc<String>| Quantity::parse(&text).is_ok()));
    add(context.add_function("semver", |text: Arc<String>| -> Answer<Value> {
        let version = Version::parse(&text).map_err(|bad| wrong("semver", bad))?;
        Ok(Value::Opaque(Arc::new(Release(version))))
    }));
    add(context.add_function("isSemver", |text: Arc<String>| Version::parse(&text).is_ok()));
    add(context.add_function("isLessThan", |This(a): This<Any>, b: Any| -> Answer<bool> {
        Ok(compare("isLessThan", &a, &b)?.is_lt())
    }));
    add(context.add_function("isGreaterThan", |This(a): This<Any>, b: Any| -> Answer<bool> {
        Ok(compare("isGreaterThan", &a, &b)?.is_gt())
    }));
    add(context.add_function("compareTo", |This(a): This<Any>, b: Any| -> Answer<i64> {
        Ok(compare("compareTo", &a, &b)? as i64)
    }));
    add(context.add_function("sign", |This(a): This<Any>| -> Answer<i64> {
        Ok(i64::try_from(amount("sign", &a)?.nanos().signum()).unwrap_or(0))
    }));
    add(context.add_function("isInteger", |This(a): This<Any>| -> Answer<bool> {
        Ok(whole(amount("isInteger", &a)?).is_some())
    }));
    add(context.add_function("asInteger", |This(a): This<Any>| -> Answer<i64> {
        let found = whole(amount("asInteger", &a)?);
        found.ok_or_else(|| wrong("asInteger", "it is no whole number"))
    }));
    add(context.add_function("add", |This(a): This<Any>, b: Value| sum("add", &a, &b, 1)));
    add(context.add_function("sub", |This(a): This<Any>, b: Value| sum("sub", &a, &b, -1)));
    add(context.add_function("major", |This(a): This<Any>| -> Answer<i64> {
        number("major", release("major", &a)?.major)
    }));
    add(context.add_function("minor", |This(a): This<Any>| -> Answer<i64> {
        number("minor", release("minor", &a)?.minor)
    }));
    add(context.add_function("patch", |This(a): This<Any>| -> Answer<i64> {
        number("patch", release("patch", &a)?.patch)
    }));
    context
}

/// Units in a billion billionths.
const NANO: i128 = 1_000_000_000;

fn whole(amount: Quantity) -> Option<i64> {
    let nanos = amount.nanos();
    (nanos % NANO == 0).then(|| i64::try_from(nanos / NANO).ok()).flatten()
}

fn sum(function: &str, a: &Any, b: &Value, sign: i128) -> Answer<Value> {
    let other = match b {
        Value::Int(units) => i128::from(*units) * NANO,
        Value::Opaque(other) => amount(function, other)?.nanos(),
        _ => return Err(wrong(function, "it is for quantities and numbers")),
    };
    let sum = amount(function, a)?.nanos().checked_add(sign * other);
    let sum = sum.ok_or_else(|| wrong(function, "the sum is too large"))?;
    Ok(quantity(Quantity::of_nanos(sum)))
}
