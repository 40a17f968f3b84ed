//! The interface of a sequence service, which endpoints call and allocators implement, and code that endpoints and
//! allocators share.
//!
//! The catalogue of metrics, the clock of leases and the event log of a node are in this crate because processes of
//! every role use them, and because no crate for infrastructure may depend on them.

pub mod batch_clock;
pub mod clock;
pub mod ids;
pub mod keys;
pub mod metrics;
pub mod node_events;
pub mod service;
