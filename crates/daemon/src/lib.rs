//! REST, authentication and the wiring of control, store and engines.
