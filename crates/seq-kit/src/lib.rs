//! Infrastructure shared by all servers: tasks, listeners, configuration, ports, logging, metrics and probes.
//!
//! Nothing here depends on the role of a server. The binary passes in environment variables; nothing here reads them.

pub mod admission;
pub mod arrivals;
pub mod clock;
pub mod config;
pub mod connection;
pub mod cores;
pub mod http;
pub mod listen;
pub mod metrics;
pub mod panic;
pub mod port;
pub mod process;
pub mod repeats;
pub mod service;
pub mod signals;
pub mod tasks;
pub mod telemetry;
