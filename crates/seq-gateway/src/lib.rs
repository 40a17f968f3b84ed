//! The doors onto one `Frontend`: gRPC now, HTTP and RESP later.
//!
//! A door checks what comes in, bounds it in size and time, and turns answers and refusals into its protocol's words. It
//! decides nothing about numbers.

pub mod grpc;
mod latency;
mod many;
mod routes;
mod sequence;
mod stream;
mod timeout;
