//! Tenants: which callers may use which uids, and how much of a node.
//!
//! A tenants file lists them ([`mod@file`]). A caller proves to be of a tenant by the certificate of a client or by a
//! [`token`]. [`registry`] finds the tenant of a request, and [`quota`] decides what it may do, before anything is
//! allocated. Quotas are those of one node: no message is exchanged to enforce them.

pub mod file;
pub mod quota;
pub mod registry;
pub mod token;

mod caller;

pub use caller::Caller;
pub use file::{FileError, TenantSpec};
pub use registry::{Session, Tenants};
pub use token::{Token, TokenHash};
