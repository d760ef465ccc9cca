//! Answers, and what each of them says about who may do what with it.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use muster_api::ApiError;
use std::convert::Infallible;

/// Any error of a body that is passed on.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer: what is here, or a stream from the daemon.
pub(crate) type Body = BoxBody<Bytes, BodyError>;

/// An answer to a browser.
pub(crate) type Answer = Response<Body>;

/// What a browser may do with anything from here: run what came from here, talk to here, and
/// nothing else; be shown in no frame; say nothing about it to others.
const RULES: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types svelte-trusted-html",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
];

/// Adds the rules.
pub(crate) fn guard(mut answer: Answer) -> Answer {
    for (name, value) in RULES {
        answer.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    answer.headers_mut().entry("cache-control").or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Bytes of a kind.
pub(crate) fn bytes(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    header(answer.headers_mut(), "content-type", kind);
    answer
}

/// Sets a header; a value that is none is left out.
pub(crate) fn header(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// A page.
pub(crate) fn html(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    bytes(status, "text/html; charset=utf-8", text)
}

/// A value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(text) => bytes(status, "application/json", text),
        Err(error) => bytes(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            format!("the answer is no JSON: {error}"),
        ),
    }
}

/// A request that is not done, and why: as the daemon says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self { status, code, message: message.into(), hint }
    }

    pub(crate) fn answer(self) -> Answer {
        let mut error = ApiError::new(self.code, self.message);
        error.hint = Some(self.hint.to_owned());
        json(self.status, &error)
    }
}
