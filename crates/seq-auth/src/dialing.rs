//! TLS of connections to servers, with one configuration for each expectation.
//!
//! **Invariant:** a session is resumed only under the expectation that its full handshake was checked with. A resumed
//! handshake shows no certificate, so each configuration has its own verifier and its own cache of sessions.

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

/// Most expectations with resumable sessions: two roles of more sets than a cluster uses. Connections under further
/// expectations make full handshakes.
pub(crate) const MAX_RESUMED_EXPECTATIONS: usize = 128;

/// Most sessions per expectation: one for each host with nodes of the largest usual set. A session dropped beyond the
/// limit costs a full handshake.
const MAX_SESSIONS: usize = 64;

/// The process' own certificate with its chain, and its key, for presentation to servers.
pub(crate) type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Makes the handshakes of connections to servers.
#[derive(Debug)]
pub(crate) struct Dialing {
    chains: Arc<WebPkiServerVerifier>,
    accepted: Arc<Accepted>,
    /// Configuration for any server.
    any: Arc<ClientConfig>,
    /// Configurations for the other expectations, made on first use. At most [`MAX_RESUMED_EXPECTATIONS`].
    restricted: Mutex<BTreeMap<ExpectedServer, Arc<ClientConfig>>>,
}

impl Dialing {
    /// Prepares connections of a client with its own certificate, or without a certificate.
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

    /// Makes the handshake of a connection to the expected server at `host`, a DNS name or an IP address. Cancel safe:
    /// dropping the future ends the connection.
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

/// Returns why a server was rejected in a failed handshake of [`Trust::connect`](crate::Trust::connect); `None` if the
/// handshake failed for another cause.
#[must_use]
pub fn rejection(failed: &io::Error) -> Option<&Rejected> {
    match failed.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => other.0.downcast_ref(),
        _ => None,
    }
}

/// Returns the name of the alert with which the other side ended a connection (RFC 8446, section 6.2), such as
/// `CertificateRevoked`; `None` if it ended for another cause. With TLS 1.3 a server refuses the certificate of a
/// client after the handshake of the client: the first read fails so.
#[must_use]
pub fn alert(failed: &io::Error) -> Option<String> {
    match failed.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(alert) => Some(format!("{alert:?}")),
        _ => None,
    }
}

/// Whether a handshake failed because the certificate of the server has expired.
#[must_use]
pub fn is_expired(failed: &io::Error) -> bool {
    use CertificateError::{Expired, ExpiredContext};
    let error = failed.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })))
}
