//! The edge every server shares: tasks, listeners, config, ports, tracing, metrics and probes.
//!
//! Nothing here knows what a server is for. What the environment says is handed in by the binary; nothing here reads it.

pub mod admission;
pub mod arrivals;
pub mod clock;
pub mod config;
pub mod connection;
pub mod cores;
pub mod frontend;
pub mod http;
pub mod listen;
pub mod metrics;
pub mod panic;
pub mod port;
pub mod process;
pub mod repeats;
pub mod signals;
pub mod tasks;
pub mod telemetry;
