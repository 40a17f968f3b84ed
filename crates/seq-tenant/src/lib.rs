//! Tenants, which determine the uids that each caller may use and how many requests and numbers a node admits for it.
//!
//! A tenants file defines the tenants ([`mod@file`]). A caller proves to which tenant it belongs by a certificate or by
//! a [`token`]. [`registry`] finds the tenant of a request, and [`quota`] decides, before anything is allocated,
//! whether the request is admitted. Each node enforces the quotas for its own requests alone, without messages to other
//! nodes.

pub mod file;
pub mod quota;
pub mod registry;
pub mod token;

mod caller;

pub use caller::Caller;
pub use file::TenantSpec;
pub use registry::{Session, Tenants};
pub use token::{Token, TokenHash};
