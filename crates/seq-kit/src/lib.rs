//! Infrastructure that all servers share: tasks, listeners, configuration, ports, memory, logging, metrics and probes.
//!
//! No code in this crate depends on the product: not on another crate of the workspace, a role of a server or a name of
//! a metric. It does not read environment variables either; the binary passes them in.

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
