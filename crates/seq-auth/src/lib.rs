//! Identities of a cluster: in certificates, and on connections.
//!
//! [`identity`] names holders, [`certificate`] reads them, and [`authority`] makes certificates.

pub mod authority;
pub mod certificate;
pub mod identity;

pub use identity::{Identity, Role};
