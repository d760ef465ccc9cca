//! An independent verdict on a plan: every violation, typed.
