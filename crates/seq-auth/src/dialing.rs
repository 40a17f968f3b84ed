//! TLS for connections to servers. Each [`ExpectedServer`], here called an expectation, has its own TLS configuration.
//!
//! **Invariant:** a TLS session is resumed only for the expectation that its full handshake checked. In the handshake
//! of a resumed session the server presents no certificate, so the expectation cannot be checked again. Therefore each
//! expectation has its own configuration, with its own verifier and its own cache of sessions.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client};

use crate::expected::ExpectedServer;
use crate::provider::{TlsError, provider};
use crate::verify::{Accepted, Rejected, Servers};

/// Maximum number of expectations, except "any server", whose TLS sessions can be resumed. It suffices for two roles in
/// each of 64 sets, and clusters have fewer sets. Connections for expectations above this number make full handshakes.
pub(crate) const MAX_RESUMED_EXPECTATIONS: usize = 128;

/// Maximum number of TLS sessions in the cache of one expectation. It suffices for one session with each host of the
/// largest usual set. If the cache drops a session because of this limit, the next connection to the session's host
/// makes a full handshake.
const MAX_SESSIONS: usize = 64;

/// The chain of certificates that this process presents to servers, beginning with its own certificate, and the private
/// key of its own certificate.
pub(crate) type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Makes the handshakes of connections to servers.
#[derive(Debug)]
pub(crate) struct Dialing {
    chains: Arc<WebPkiServerVerifier>,
    accepted: Arc<Accepted>,
    /// Configuration for any server.
    any: Arc<ClientConfig>,
    /// Configurations for all other expectations, each made on first use. There are at most
    /// [`MAX_RESUMED_EXPECTATIONS`].
    restricted: Mutex<BTreeMap<ExpectedServer, Arc<ClientConfig>>>,
}

impl Dialing {
    /// Creates the configuration for connections of a client that trusts `roots`. The client presents the certificate
    /// `own`, or none if `own` is `None`.
    pub(crate) fn new(
        roots: &Arc<RootCertStore>,
        accepted: &Arc<Accepted>,
        own: Option<Own>,
    ) -> Result<Dialing, TlsError> {
        let chains = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider()).build()?;
        let servers = Servers { chains: chains.clone(), accepted: accepted.clone(), expected: ExpectedServer::any() };
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(servers));
        let any = Arc::new(match own {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
            None => builder.with_no_client_auth(),
        });
        Ok(Dialing { chains, accepted: accepted.clone(), any, restricted: Mutex::default() })
    }

    /// Returns the configuration for an expectation.
    fn config(&self, expected: &ExpectedServer) -> Arc<ClientConfig> {
        if *expected == ExpectedServer::any() {
            return self.any.clone();
        }
        let mut restricted = self.restricted.lock();
        if let Some(config) = restricted.get(expected) {
            return config.clone();
        }
        let servers =
            Servers { chains: self.chains.clone(), accepted: self.accepted.clone(), expected: expected.clone() };
        let mut config = ClientConfig::clone(&self.any);
        config.dangerous().set_certificate_verifier(Arc::new(servers));
        if restricted.len() >= MAX_RESUMED_EXPECTATIONS {
            config.resumption = Resumption::disabled();
            return Arc::new(config);
        }
        config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
        let config = Arc::new(config);
        restricted.insert(expected.clone(), config.clone());
        config
    }

    /// Makes the client's side of a TLS handshake on `stream`, and checks that the peer is the `expected` server and
    /// that its certificate names `host`, which is a DNS name or an IP address. Dropping the future closes the
    /// connection, and has no other effect.
    pub(crate) async fn connect<S>(
        &self,
        host: &str,
        expected: &ExpectedServer,
        stream: S,
        protocol: Option<&'static [u8]>,
    ) -> io::Result<client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
        TlsConnector::from(self.config(expected)).with_alpn(protocols).connect(name, stream).await
    }
}

/// Returns this crate's reason for rejecting a server, from the error of [`Trust::connect`](crate::Trust::connect).
/// Returns `None` if the server's certificate is revoked, if the TLS library rejected it, or if the handshake failed
/// for another cause.
#[must_use]
pub fn rejection(failed: &io::Error) -> Option<&Rejected> {
    match failed.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => other.0.downcast_ref(),
        _ => None,
    }
}

/// Returns the name of the TLS alert (RFC 8446, section 6.2) with which the peer ended a connection, such as
/// `CertificateRevoked`. Returns `None` if the connection ended for another cause. In TLS 1.3 a client completes its
/// handshake before the server checks the client's certificate. The refusal of this certificate is therefore an error
/// of the client's first read, not of its handshake.
#[must_use]
pub fn alert(failed: &io::Error) -> Option<String> {
    match failed.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(alert) => Some(format!("{alert:?}")),
        _ => None,
    }
}

/// Returns whether the error `failed` of a handshake states that the server's certificate has expired.
#[must_use]
pub fn is_expired(failed: &io::Error) -> bool {
    use CertificateError::{Expired, ExpiredContext};
    let error = failed.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })))
}
