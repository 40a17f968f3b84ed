//! The endpoints in front of a `SequenceService`. gRPC, JSON over HTTP and plain text over HTTP share one port, and the
//! Redis protocol has another. A node's port for its peers is also here.
//!
//! An endpoint decodes and validates requests, limits their size and time, and encodes responses and refusals. It makes
//! no decision about numbers.

mod batch_response;
mod dispatch;
pub mod grpc;
mod grpc_service;
mod handlers;
mod http;
mod id_counts;
mod ids;
mod latency;
mod memory;
pub mod peers;
mod request_span;
pub mod resp;
mod routes;
mod stream;
mod timeout;
