//! The edge every server shares: tasks, listeners, config, tracing, metrics and probes.

pub mod frontend;
pub mod listen;
pub mod tasks;
