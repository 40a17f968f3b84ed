//! The credentials of a process: its certificate, its key, and the authorities it trusts, read from files and read
//! again when these change.
//!
//! TLS 1.3 only. A connection keeps the credentials that it began with: a reload counts for the next one, and ends only
//! those of holders that it revokes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{Accept, TlsAcceptor, client, server};
use zeroize::Zeroizing;

use crate::authority::revoked_by;
use crate::certificate::{Certificate, CertificateError, chain};
use crate::dialing::Dialing;
use crate::expected::ExpectedServer;
use crate::identity::Identity;
use crate::standing::Standing;
use crate::verify::{Accepted, Clients};

/// The application protocols of a server, in its order of preference. A client of Redis offers none.
const SERVER_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificates to trust.
    pub bundle: PathBuf,
    /// The own certificate and its key.
    pub certificate: PathBuf,
    /// The revocations; the file may be missing.
    pub revocations: PathBuf,
}

impl Files {
    /// The files in a directory as `seqsvr cert` writes them, for a holder in its short form, `store/im-a/s1`.
    #[must_use]
    pub fn in_dir(dir: &Path, holder: &str) -> Files {
        Files {
            bundle: dir.join("ca.crt"),
            certificate: dir.join(format!("{}.pem", holder.replace('/', "."))),
            revocations: dir.join("crl.pem"),
        }
    }

    fn read(&self) -> Result<Contents, CredentialsError> {
        let (revocations, bundle) = (self.read_revocations()?, self.read_bundle()?);
        Ok(Contents { bundle, certificate: read(&self.certificate)?, revocations })
    }

    /// The text of the authorities.
    pub(crate) fn read_bundle(&self) -> Result<Zeroizing<String>, CredentialsError> {
        read(&self.bundle)
    }

    /// The text of the revocations, where the file is there.
    pub(crate) fn read_revocations(&self) -> Result<Option<Zeroizing<String>>, CredentialsError> {
        match read(&self.revocations) {
            Err(CredentialsError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>, CredentialsError> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    text.map_err(|source| CredentialsError::Unreadable { path: path.to_owned(), source })
}

/// The texts of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    bundle: Zeroizing<String>,
    certificate: Zeroizing<String>,
    revocations: Option<Zeroizing<String>>,
}

/// The credentials of a process. Clones share them.
#[derive(Clone)]
pub struct Credentials(Arc<Inner>);

struct Inner {
    files: Files,
    current: ArcSwap<Current>,
    /// Number of the reading that `current` is of, from 1 on; increased after `current` is replaced.
    reading: AtomicU64,
}

/// What one reading of the files made.
struct Current {
    contents: Contents,
    certificate: Certificate,
    clients_required: Arc<ServerConfig>,
    clients_optional: Arc<ServerConfig>,
    dialing: Arc<Dialing>,
    accepted: Arc<Accepted>,
}

/// Whether a port accepts connections without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// It does not.
    Required,
    /// It does; a certificate that is presented is checked.
    Optional,
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is missing or damaged, or the certificate is not of the authorities in the bundle, or has another key.
    pub fn load(files: Files) -> Result<Credentials, CredentialsError> {
        let current = Current::new(&files, files.read()?)?;
        Ok(Credentials(Arc::new(Inner { files, current: ArcSwap::from_pointee(current), reading: AtomicU64::new(1) })))
    }

    /// Reads the files again; returns whether they have changed. Connections that are open stay open, but for those of
    /// revoked holders: see [`Standing`].
    ///
    /// # Errors
    /// As [`Credentials::load`], or the certificate is new and another holder's, or expired, or not valid yet; what was
    /// loaded stays in use.
    pub fn reload(&self) -> Result<bool, CredentialsError> {
        let contents = self.0.files.read()?;
        let before = self.0.current.load();
        if contents == before.contents {
            return Ok(false);
        }
        let next = Current::new(&self.0.files, contents)?;
        if next.certificate.identity != before.certificate.identity {
            return Err(CredentialsError::OtherHolder {
                path: self.0.files.certificate.clone(),
                found: next.certificate.identity.to_string(),
                holder: before.certificate.identity.to_string(),
            });
        }
        // Revocations and authorities count beside a certificate that expired meanwhile, too.
        if next.contents.certificate != before.contents.certificate {
            self.check_times(&next.certificate)?;
        }
        self.0.current.store(Arc::new(next));
        self.0.reading.fetch_add(1, Release);
        Ok(true)
    }

    fn check_times(&self, certificate: &Certificate) -> Result<(), CredentialsError> {
        let path = || self.0.files.certificate.clone();
        match now() {
            now if now >= certificate.not_after => {
                Err(CredentialsError::Expired { path: path(), ago: whole_seconds(now, certificate.not_after) })
            }
            now if now < certificate.not_before => {
                Err(CredentialsError::NotYetValid { path: path(), until: whole_seconds(certificate.not_before, now) })
            }
            _ => Ok(()),
        }
    }

    /// The files that are read.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.0.files
    }

    /// The own certificate.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        self.0.current.load().certificate.clone()
    }

    pub(crate) fn reading(&self) -> &AtomicU64 {
        &self.0.reading
    }

    pub(crate) fn has_revoked(&self, serial: &str) -> bool {
        self.0.current.load().accepted.revoked.contains(serial)
    }

    /// Follows whether the peer of an accepted connection is still accepted.
    #[must_use]
    pub fn follow<S>(&self, stream: &server::TlsStream<S>) -> Standing {
        Standing::new(self.clone(), stream)
    }

    /// Begins the handshake of an accepted connection. Cancel safe: dropped, it ends the connection.
    pub fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, clients: ClientCertificate, stream: S) -> Accept<S> {
        let current = self.0.current.load();
        let config = match clients {
            ClientCertificate::Required => &current.clients_required,
            ClientCertificate::Optional => &current.clients_optional,
        };
        TlsAcceptor::from(config.clone()).accept(stream)
    }

    /// Makes the handshake of a connection to the expected server at `host`, a DNS name or an IP address. Cancel safe:
    /// dropped, it ends the connection.
    ///
    /// # Errors
    /// The host is none, the peer does not prove that it is the expected server of the cluster at that host
    /// ([`rejection`](crate::rejection) has the cause), or the connection ends.
    pub async fn connect<S>(
        &self,
        host: &str,
        expected: &ExpectedServer,
        stream: S,
        protocol: Option<&'static [u8]>,
    ) -> io::Result<client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let dialing = self.0.current.load().dialing.clone();
        dialing.connect(host, expected, stream, protocol).await
    }
}

/// The identity of the peer of an accepted connection; `None` where it presented no certificate.
#[must_use]
pub fn peer<S>(stream: &server::TlsStream<S>) -> Option<Identity> {
    let presented = stream.get_ref().1.peer_certificates()?.first()?;
    Certificate::read(presented).ok().map(|certificate| certificate.identity)
}

/// Checks that the certificate of the peer of an accepted connection has not expired: the handshake of a session that
/// is resumed does not. (A revocation is a new reading of the files, which ends all sessions.)
///
/// # Errors
/// It has expired.
pub fn check_validity<S>(stream: &server::TlsStream<S>) -> io::Result<()> {
    let presented = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
    match presented.filter(|certificate| certificate.left(now()).is_zero()) {
        Some(Certificate { identity, .. }) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("the certificate of {identity} has expired")))
        }
        None => Ok(()),
    }
}

/// The time that certificates are compared with, in whole seconds.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(UnixTime::now().as_secs())
}

fn whole_seconds(later: SystemTime, earlier: SystemTime) -> Duration {
    Duration::from_secs(later.duration_since(earlier).unwrap_or_default().as_secs())
}

/// Whether a connection resumed an earlier session, and its peer was not checked again.
#[must_use]
pub fn is_resumed<S>(stream: &client::TlsStream<S>) -> bool {
    stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("files", &self.0.files).finish_non_exhaustive()
    }
}

impl Current {
    fn new(files: &Files, contents: Contents) -> Result<Current, CredentialsError> {
        let damaged = |path: &Path| {
            let path = path.to_owned();
            move |source: CertificateError| CredentialsError::Damaged { path, source }
        };
        let authorities = chain(&contents.bundle).map_err(damaged(&files.bundle))?;
        let own = chain(&contents.certificate).map_err(damaged(&files.certificate))?;
        let certificate = Certificate::read(&own[0]).map_err(damaged(&files.certificate))?;
        let revoked = match &contents.revocations {
            Some(list) => revoked_by(list, &authorities)
                .map_err(|_| CredentialsError::Revocations { path: files.revocations.clone() })?,
            None => Vec::new(),
        };
        let (cluster, revoked) = (Some(certificate.identity.cluster().to_owned()), revoked.into_iter().collect());
        let accepted = Arc::new(Accepted { cluster, revoked });
        let unusable = |error: &dyn fmt::Display| CredentialsError::Unusable {
            path: files.certificate.clone(),
            why: error.to_string(),
        };
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| unusable(&error))?;
        }
        let roots = Arc::new(roots);
        let key = || {
            PrivateKeyDer::from_pem_slice(contents.certificate.as_bytes())
                .map_err(|_| unusable(&"no private key in PEM"))
        };
        let own_key = (own.clone(), key()?);
        let dialing = Dialing::new(&roots, &accepted, Some(own_key)).map_err(|error| unusable(&error))?;
        let dialing = Arc::new(dialing);
        let serving = |clients| -> Result<_, CredentialsError> {
            serving(clients, &roots, &accepted, own.clone(), key()?).map_err(|error| unusable(&error))
        };
        let clients_required = serving(ClientCertificate::Required)?;
        let clients_optional = serving(ClientCertificate::Optional)?;
        Ok(Current { certificate, clients_required, clients_optional, dialing, accepted, contents })
    }
}

/// The cryptography of connections, with the cipher of least cost first: AES-128 needs ten rounds where AES-256 needs
/// 14, and neither can be broken.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn serving(
    clients: ClientCertificate,
    roots: &Arc<RootCertStore>,
    accepted: &Arc<Accepted>,
    own: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let chains = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let chains = match clients {
        ClientCertificate::Required => chains.build()?,
        ClientCertificate::Optional => chains.allow_unauthenticated().build()?,
    };
    let verifier = Arc::new(Clients { chains, accepted: accepted.clone() });
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(own, key)?;
    config.ignore_client_order = true;
    config.alpn_protocols = SERVER_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // Sessions are resumed from what the client keeps, so their number is no matter of this process' memory. A reload
    // makes new keys for it: a holder that was accepted before is checked again. See also `check_validity`.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(Arc::new(config))
}

/// The TLS library refuses what it was given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// Why credentials are not used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file is missing, or may not be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The list of revocations is damaged, or no authority of the bundle signed it.
    #[error("{}: no list of revocations that an authority of the bundle signed", path.display())]
    Revocations {
        /// The file.
        path: PathBuf,
    },
    /// Certificate, key and bundle do not belong together.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The file with the own certificate.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The certificate of another holder.
    #[error("{}: the certificate is of {found}, and this process is {holder}", path.display())]
    OtherHolder {
        /// The file.
        path: PathBuf,
        /// Its holder.
        found: String,
        /// The holder of the credentials in use.
        holder: String,
    },
    /// A new certificate that has expired.
    #[error("{}: the certificate expired {ago:?} ago: `seqsvr cert rotate` renews it", path.display())]
    Expired {
        /// The file.
        path: PathBuf,
        /// How long ago it did.
        ago: Duration,
    },
    /// A new certificate that is not valid yet.
    #[error("{}: the certificate is valid only in {until:?}: is the clock of this machine right?", path.display())]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// How long it is until then.
        until: Duration,
    },
}

#[cfg(test)]
mod tests;
