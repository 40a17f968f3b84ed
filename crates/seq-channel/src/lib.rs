//! gRPC channels to nodes: a [`Pool`] by address, the [`Dial`] that makes their connections, what a failed request
//! proves about its connection, and [`batch`], the stream that concurrent calls to a node share.
//!
//! The SDK uses it for calls, servers for requests among themselves.
//!
//! **Architecture Invariant:** it decides nothing about a call. Which failure is retried, where, and what a refusal
//! means, is decided by its users.

mod access;
pub mod batch;
mod bearer;
mod failure;
mod pool;
mod tasks;
pub mod tls;

pub use access::{Access, Socket};
pub use bearer::{BadToken, Bearer, CallerChannel};
pub use failure::{caused_by, is_broken, is_transport, not_processed};
pub use pool::{
    CONNECT_TIMEOUT, CONNECTIONS, KEEP_ALIVE_EVERY, KEEP_ALIVE_TIMEOUT, MAX_ADDRESSES, MAX_CONNECTIONS, Pool,
    PoolError, SUSPECT_FOR,
};
pub use seq_proto::dial::{Dial, ExpectedServer};
