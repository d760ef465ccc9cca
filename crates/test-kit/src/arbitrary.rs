//! Generators of small clusters and jobs.
