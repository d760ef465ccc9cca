//! Builders, cluster fixtures in text and generators; a dev-dependency only.
