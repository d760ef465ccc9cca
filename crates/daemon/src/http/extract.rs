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
            let mut refusal = Refusal::invalid("E_BODY_BAD", error.to_string());
            refusal.error.place = Some(Place {
                source: "request body".to_owned(),
                line: u32::try_from(error.line()).ok().filter(|l| *l > 0),
                column: u32::try_from(error.column()).ok().filter(|c| *c > 0),
            });
            refusal
        })
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
