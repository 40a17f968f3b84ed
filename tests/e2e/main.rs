//! Whole clusters of real processes, used as a user uses them: through the binary, its files and its ports.
//!
//! Every test has a loopback address of its own (Linux answers on all of 127.0.0.0/8), so the ports of the real set files
//! never clash. Longer runs of the same tests are set by the environment: `E2E_KILLS`, and `E2E_TRACE` for a
//! trace of one's own.

mod bench;
mod cluster;
mod commands;
mod connect_node;
mod crash;
mod dev;
mod files;
mod http;
mod kill;
mod quorum;
mod redis;
mod redis_node;
mod redis_twin;
mod replace;
mod sim;
mod three_node;
