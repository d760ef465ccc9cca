//! Bodies and queries whose mistakes are told in our words.

use super::error::Refusal;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use hyper::StatusCode;
use hyper::http::request::Parts;
use muster_api::{BODY_MAX, Place};
use serde::de::DeserializeOwned;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// A query string.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| {
            if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
                let message = format!("the request is larger than {BODY_MAX} bytes");
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "E_BODY_LARGE", message)
            } else {
                Refusal::new(error.status(), "E_BODY_BAD", error.body_text())
            }
        })?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            let mut refusal = Refusal::invalid("E_BODY_BAD", plain(&error))
                .hint("/v1/openapi.json says what each request takes");
            refusal.error.place = Some(Place {
                source: "request body".to_owned(),
                line: u32::try_from(error.line()).ok().filter(|l| *l > 0),
                column: u32::try_from(error.column()).ok().filter(|c| *c > 0),
            });
            refusal
        })
    }
}

/// What is wrong with a body, without the reader's own words; the place is told beside it.
fn plain(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    match error.classify() {
        Category::Eof => return "the JSON ends too early".to_owned(),
        Category::Syntax | Category::Io => return "it is no JSON".to_owned(),
        Category::Data => {}
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let name = text.split('`').nth(1).unwrap_or_default();
    if text.starts_with("unknown field") {
        format!("there is no field {name}")
    } else if text.starts_with("missing field") {
        format!("the field {name} is missing")
    } else if text.starts_with("unknown variant") {
        let words: Vec<&str> = text.split('`').skip(3).step_by(2).collect();
        format!("{name} is none of {}", words.join(", "))
    } else if let Some((found, wanted)) = text.split_once(", expected ") {
        let found = found.split_once(": ").map_or(found, |(_, found)| found);
        format!("found {found} where {wanted} belongs")
    } else {
        text.to_owned()
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Query::<T>::from_request_parts(parts, state)
            .await
            .map(|Query(query)| Self(query))
            .map_err(|error| Refusal::invalid("E_QUERY_BAD", error.body_text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::ReservationRequest;

    #[test]
    fn a_bad_body_is_told_in_plain_words() {
        let told = |text: &str| {
            plain(&serde_json::from_str::<ReservationRequest>(text).expect_err("it is bad"))
        };
        assert_eq!(told("{"), "the JSON ends too early");
        assert_eq!(told("name=x"), "it is no JSON");
        assert_eq!(told("{\"nmae\": \"x\"}"), "there is no field nmae");
        assert_eq!(told("{\"name\": 3}"), "found integer `3` where a string belongs");
    }
}
