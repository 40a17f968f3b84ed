//! gRPC channels to nodes. The crate has a [`Pool`] of connections by address, the [`Dial`] that makes connections, the
//! classification of failed requests by what their connection shows, and [`batch`], the stream that concurrent calls to
//! a node share.
//!
//! The SDK uses this crate for its calls, and servers use it for requests to each other.
//!
//! **Architecture Invariant:** this crate makes no decision about a call. Its users decide which failed calls are
//! retried, to which node they are sent, and how a refusal is handled.

mod access;
pub mod batch;
mod bearer;
mod failure;
mod pool;
mod tasks;
pub mod tls;

pub use access::{Access, Socket};
pub use bearer::{BadToken, Bearer, CallerChannel};
pub use failure::{caused_by, has_expired_certificate, is_broken, is_transport, not_processed};
pub use pool::{
    CONNECT_TIMEOUT, CONNECTIONS, KEEP_ALIVE_EVERY, KEEP_ALIVE_TIMEOUT, MAX_ADDRESSES, MAX_CONNECTIONS, Pool,
    PoolError, SUSPECT_FOR,
};
pub use seq_proto::dial::{Dial, ExpectedServer};
