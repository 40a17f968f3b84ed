//! The API of a sequence service, which endpoints call and allocators implement, and the parts that endpoints and
//! allocators share.
//!
//! The catalogue of metrics and the clock of leases are in this crate because every server role uses them and no
//! infrastructure crate depends on them.

pub mod batch_clock;
pub mod clock;
pub mod ids;
pub mod metrics;
pub mod service;
