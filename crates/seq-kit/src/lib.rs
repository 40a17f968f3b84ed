//! Infrastructure that all servers share: tasks, listeners, configuration, ports, memory, logging, metrics and probes.
//!
//! No code in this crate depends on the product, that is, on another crate of the workspace except `seq-auth`, on a
//! role of a server or on a name of a metric. The crate does not read environment variables either. The binary passes
//! them in.

pub mod admission;
pub mod cgroup;
pub mod config;
pub mod connection;
pub mod cores;
pub mod departure;
pub mod http;
pub mod huge_pages;
pub mod listen;
pub mod memory;
pub mod metrics;
pub mod nonce;
pub mod port;
pub mod proxy_protocol;
pub mod refusal_log;
pub mod repeats;
pub mod report_limits;
pub mod tasks;
pub mod telemetry;
pub mod unfinished;
pub mod wall_clock;
