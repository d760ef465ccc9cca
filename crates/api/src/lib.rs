//! Wire types of the REST interface and their `OpenAPI` description.

pub mod step;
