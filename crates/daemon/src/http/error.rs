//! Refusals as HTTP answers.

use axum::Json;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use muster_api::ApiError;
use muster_control::command::{CommandError, ErrorClass};

/// A refusal with its HTTP status.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: Box<ApiError>,
}

/// What handlers return.
pub(crate) type Answer<T> = Result<Json<T>, Refusal>;

impl Refusal {
    /// A refusal with a code and a sentence.
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, error: Box::new(ApiError::new(code, message)) }
    }

    /// The request cannot be right.
    pub(crate) fn invalid(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    /// The caller may not.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "E_FORBIDDEN", message)
    }

    /// It is not there.
    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        let message = format!("there is no {what} {name}");
        Self::new(StatusCode::NOT_FOUND, "E_NOT_FOUND", message)
    }

    /// Our fault.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "E_FAULT", message).hint("please report this")
    }

    /// The same with what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        let status = match error.class() {
            ErrorClass::NotFound => StatusCode::NOT_FOUND,
            ErrorClass::Forbidden => StatusCode::FORBIDDEN,
            ErrorClass::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorClass::Conflict => StatusCode::CONFLICT,
            ErrorClass::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorClass::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut refusal = Self::new(status, error.code(), error.to_string());
        refusal.error.hint = error.hint();
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.error)).into_response()
    }
}
