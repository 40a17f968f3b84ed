//! Certificates of a cluster, and the identities that they prove on connections.
//!
//! [`identity`] names the holders of certificates, and [`certificate`] reads certificates. The module `authority`, with
//! the feature `issue`, makes certificates. With its [`credentials`] a process proves its identity to its peers and
//! checks the identities of the peers. A dialer, the process that makes a connection, states with an [`ExpectedServer`]
//! which servers it accepts.

pub mod authorities;
#[cfg(any(test, feature = "issue"))]
pub mod authority;
pub mod certificate;
pub mod credentials;
pub mod file;
pub mod identity;

mod dialing;
mod expected;
mod provider;
mod revocations;
mod standing;
mod verify;

pub use authorities::{Authorities, Trust};
pub use credentials::{ClientCertificate, Credentials, CredentialsError, Files, check_validity, is_resumed, peer};
pub use dialing::{alert, is_expired, rejection};
pub use expected::ExpectedServer;
pub use identity::{Identity, Role};
pub use revocations::{ListError, revoked};
pub use standing::Standing;
pub use tokio_rustls::Accept;
pub use tokio_rustls::client::TlsStream as ClientStream;
pub use tokio_rustls::server::TlsStream;
pub use verify::Rejected;
