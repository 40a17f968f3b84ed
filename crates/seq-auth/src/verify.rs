//! Decides whether this process accepts the certificate of a peer.
//!
//! The TLS library checks the chain of signatures, the validity, the usage and the host of the certificate. This module
//! checks its cluster and whether it is revoked, and for a server also that the certificate has the role and the set
//! that the dialer expects.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError as TlsCertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme,
};

use crate::certificate::{Certificate, CertificateError};
use crate::expected::ExpectedServer;
use crate::identity::Identity;

/// The accepted holders.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Cluster of the holders; `None` accepts the cluster of the authorities.
    pub(crate) cluster: Option<String>,
    /// Serials of revoked certificates, in hexadecimal.
    pub(crate) revoked: HashSet<String>,
}

/// Reason for not accepting a holder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The certificate has no identity.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The holder is of another cluster.
    #[error("the certificate of {identity} is of another cluster than {cluster:?}")]
    OtherCluster {
        /// The holder.
        identity: Identity,
        /// The process' own cluster.
        cluster: String,
    },
    /// The server's certificate is not of a node.
    #[error("the certificate of {identity} is no server's: {} is no node", identity.role())]
    NoServer {
        /// The holder.
        identity: Identity,
    },
    /// The server has another role or set than the dialer expects.
    #[error("the certificate is of {identity}, and a {expected} is expected")]
    OtherServer {
        /// The holder.
        identity: Identity,
        /// The expected server.
        expected: ExpectedServer,
    },
    /// The certificate is revoked.
    #[error("the certificate of {identity} with serial {serial} is revoked")]
    Revoked {
        /// The holder.
        identity: Identity,
        /// The serial, in hexadecimal.
        serial: String,
    },
}

impl Accepted {
    fn check(&self, end_entity: &CertificateDer<'_>) -> Result<Identity, Rejected> {
        let Certificate { identity, serial, .. } = Certificate::read(end_entity)?;
        if let Some(cluster) = self.cluster.as_ref().filter(|cluster| identity.cluster() != *cluster) {
            return Err(Rejected::OtherCluster { identity, cluster: cluster.clone() });
        }
        if self.revoked.contains(&serial) {
            return Err(Rejected::Revoked { identity, serial });
        }
        Ok(identity)
    }

    fn check_server(&self, end_entity: &CertificateDer<'_>, expected: &ExpectedServer) -> Result<(), Rejected> {
        let identity = self.check(end_entity)?;
        if !identity.role().serves() {
            return Err(Rejected::NoServer { identity });
        }
        if !expected.accepts(&identity) {
            return Err(Rejected::OtherServer { identity, expected: expected.clone() });
        }
        Ok(())
    }
}

/// Converts a rejection to an error of the TLS library. The peer receives only the kind of the fault. The log of this
/// process has the details at level debug.
fn rejected(rejected: Rejected) -> rustls::Error {
    let error = match &rejected {
        Rejected::Revoked { .. } => TlsCertificateError::Revoked,
        _ => TlsCertificateError::Other(OtherError(Arc::new(rejected.clone()))),
    };
    tracing::debug!(%rejected, "certificate not accepted");
    rustls::Error::InvalidCertificate(error)
}

/// Checks the certificates of servers.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) chains: Arc<WebPkiServerVerifier>,
    pub(crate) accepted: Arc<Accepted>,
    /// The server that the dialer expects.
    pub(crate) expected: ExpectedServer,
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        self.accepted.check_server(end_entity, &self.expected).map_err(rejected)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Checks the certificates of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) chains: Arc<dyn ClientCertVerifier>,
    pub(crate) accepted: Arc<Accepted>,
}

impl ClientCertVerifier for Clients {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.chains.verify_client_cert(end_entity, intermediates, now)?;
        self.accepted.check(end_entity).map_err(rejected)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
