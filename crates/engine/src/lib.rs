//! The engine trait, its contract suite and a scripted engine.
