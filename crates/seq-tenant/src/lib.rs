//! Tenants: which uids each caller may use, and how much of a node.
//!
//! A tenants file lists them ([`mod@file`]). A caller proves its tenant by the certificate of a client or by a
//! [`token`]. [`registry`] finds the tenant of a request, and [`quota`] decides, before anything is allocated, whether
//! the request is admitted. Each node has its own quotas: no message is exchanged to enforce them.

pub mod file;
pub mod quota;
pub mod registry;
pub mod token;

mod caller;

pub use caller::Caller;
pub use file::TenantSpec;
pub use registry::{Session, Tenants};
pub use token::{Token, TokenHash};
