//! Files to validated settings and policy; errors with line and column.
