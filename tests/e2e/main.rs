//! End-to-end tests with clusters of real processes, through the binary, its files and its ports.
//!
//! Every test has its own loopback address (Linux accepts all of 127.0.0.0/8), so the ports of the real set files never
//! clash. The environment configures longer runs of the same tests: `E2E_KILLS`, and `E2E_TRACE` for another trace.

mod alerts;
mod audit;
mod backup_disk;
mod bench;
mod cert;
mod cluster;
mod commands;
mod connect_node;
mod crash;
mod dashboard;
mod dev;
mod dev_sets;
mod diagnose;
mod differing;
mod drills;
mod files;
mod forwarding;
mod hostile;
mod http;
mod import;
mod impostors;
mod kill;
mod load;
mod numbers;
mod open_calls;
mod overload;
mod plans;
mod ports;
mod probes;
mod proxy;
mod quorum;
mod raw_http2;
mod recover;
mod redis;
mod redis_node;
mod redis_twin;
mod replace;
mod restart;
mod restore;
mod restore_sets;
mod restores;
mod roles;
mod rolling;
mod sets;
mod sets_at_scale;
mod sim;
mod status;
mod strangers;
mod supervisor;
mod tenants;
mod three_node;
mod tls;
mod two_sets;
