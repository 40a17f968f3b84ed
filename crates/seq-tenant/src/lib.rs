//! Tenants. A tenant is a group of callers with common limits, which are the uids that these callers may use and the
//! rates of requests and numbers that a node admits for them.
//!
//! A tenants file defines the tenants ([`mod@file`]). A caller proves by a certificate or by a [`token`] to which
//! tenant it belongs. [`registry`] finds the tenant of a request. Before any number is allocated, [`quota`] decides
//! whether the request is admitted. Each node enforces the quotas for its own requests alone, without messages to other
//! nodes.

pub mod file;
pub mod quota;
pub mod registry;
pub mod token;

mod caller;

pub use caller::Caller;
pub use file::{KeyPrefix, TenantSpec};
pub use registry::{Session, Tenants};
pub use token::{Token, TokenHash};
