//! Jobs, nodes, resources, policy, plan, events and reasons; apply(state, event).
