//! The endpoints in front of a `SequenceService`. One port serves gRPC, JSON over HTTP and plain text over HTTP.
//! Another port serves the Redis protocol. A node's port for its peers is also in this crate.
//!
//! An endpoint decodes and validates requests, limits their size and time, and encodes the responses and refusals. It
//! makes no decision about numbers.

mod batch_response;
mod dispatch;
pub mod grpc;
mod grpc_service;
mod handlers;
mod http;
mod id_counts;
mod ids;
mod keys;
mod latency;
mod memory;
pub mod peers;
mod request_span;
pub mod resp;
mod routes;
mod stream;
mod timeout;
