//! The store trait, its contract suite, memory and SQLite.
