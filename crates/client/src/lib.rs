//! A typed HTTP client for the REST interface.
