//! Infrastructure shared by all servers: tasks, listeners, configuration, ports, memory, logging, metrics and probes.
//!
//! Nothing here knows the product: no crate of the workspace, no role of a server, no name of a metric. The binary
//! passes in environment variables; nothing here reads them.

pub mod admission;
pub mod cgroup;
pub mod config;
pub mod connection;
pub mod cores;
pub mod departure;
pub mod http;
pub mod listen;
pub mod memory;
pub mod metrics;
pub mod port;
pub mod proxy_protocol;
pub mod repeats;
pub mod report_limits;
pub mod tasks;
pub mod telemetry;
pub mod unfinished;
pub mod wall_clock;
