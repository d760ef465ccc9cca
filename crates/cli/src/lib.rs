//! The muster command line.
