//! A cache over state: observe(event), plan(policy, now); order, fit, timeline, explain.
