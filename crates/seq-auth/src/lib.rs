//! Certificates of a cluster, and the identities that they prove on connections.
//!
//! [`identity`] names the holders of certificates, and [`certificate`] reads certificates. The module `authority`, with
//! the feature `issue`, makes certificates. With its [`credentials`] a process proves its identity to its peers and
//! checks the identities of the peers. A dialer, the process that makes a connection, states with an [`ExpectedServer`]
//! which servers it accepts.
//!
//! Without the feature `tls`, which every server has, the crate has no library for TLS, and nothing but names of
//! identities and of expected servers. A dialer then has no [`Trust`], so it makes connections without TLS only.

#[cfg(feature = "tls")]
pub mod authorities;
#[cfg(any(test, feature = "issue"))]
pub mod authority;
#[cfg(feature = "tls")]
pub mod certificate;
#[cfg(feature = "tls")]
pub mod credentials;
pub mod file;
pub mod identity;

#[cfg(feature = "tls")]
mod dialing;
mod expected;
#[cfg(feature = "tls")]
mod provider;
#[cfg(feature = "tls")]
mod revocations;
#[cfg(feature = "tls")]
mod standing;
#[cfg(feature = "tls")]
mod verify;
#[cfg(not(feature = "tls"))]
mod without_tls;

pub use expected::ExpectedServer;
pub use identity::{Identity, Role};

#[cfg(feature = "tls")]
pub use self::{
    authorities::{Authorities, Trust},
    credentials::{ClientCertificate, Credentials, CredentialsError, Files, check_validity, is_resumed, peer},
    dialing::{alert, is_expired, rejection},
    revocations::{ListError, revoked},
    standing::Standing,
    verify::Rejected,
};
#[cfg(feature = "tls")]
pub use tokio_rustls::{Accept, client::TlsStream as ClientStream, server::TlsStream};
#[cfg(not(feature = "tls"))]
pub use without_tls::{ClientStream, Rejected, Trust, alert, is_expired, rejection};
