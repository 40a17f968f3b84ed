//! The doors onto one `Frontend`: gRPC, and JSON and plain text over HTTP on the same port, and the protocol of Redis.
//!
//! A door checks what comes in, bounds it in size and time, and turns answers and refusals into its protocol's words. It
//! decides nothing about numbers.

mod calls;
mod dispatch;
pub mod grpc;
mod http;
mod latency;
mod many;
pub mod resp;
mod routes;
mod sequence;
mod stream;
mod timeout;
