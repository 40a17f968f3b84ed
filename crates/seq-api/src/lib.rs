//! The API of a sequence service, which endpoints call and allocators implement, and the parts that both sides share.
//!
//! The catalogue of metrics and the lease clock are here because every server role uses them and no infrastructure
//! depends on them.

pub mod batch_clock;
pub mod clock;
pub mod ids;
pub mod metrics;
pub mod service;
