//! The credentials of a process, which are its certificate, its private key and its trusted authorities.
//! [`Credentials::load`] reads them from files, and [`Credentials::reload`] reads the files again and adopts their
//! changes.
//!
//! Only TLS 1.3 is used. A reload takes effect for new connections. An open connection keeps the credentials with which
//! it began. The server closes it only if the reload revokes the certificate of the client.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{Accept, TlsAcceptor, client, server};
use zeroize::Zeroizing;

use crate::certificate::{Certificate, CertificateError, chain};
use crate::dialing::Dialing;
use crate::expected::ExpectedServer;
use crate::file::{MAX_BYTES, read_text};
use crate::identity::Identity;
use crate::provider::{TlsError, provider};
use crate::revocations::revoked_by;
use crate::verify::{Accepted, Clients};

/// Application protocols (ALPN) that a server supports, in its order of preference. A client that offers none, such as
/// a Redis client, is accepted too.
const SERVER_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Error text for a private key that is encrypted with a password. Such keys are refused, because no operator is at a
/// terminal to enter the password when a server starts.
const ENCRYPTED_KEY: &str = "the private key is encrypted; `openssl pkey -in FILE` writes it without its password";

/// Files of a process' credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Certificates of the trusted authorities.
    pub bundle: PathBuf,
    /// The process' own certificate and its key.
    pub certificate: PathBuf,
    /// List of revocations; the file may be missing.
    pub revocations: PathBuf,
}

impl Files {
    /// Returns the paths of the files that `seqsvr cert` writes into `dir` for a holder. `holder` is the short form of
    /// the holder's identity, e.g. `store/im-a/s1`.
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

    /// Reads the text of the authorities.
    pub(crate) fn read_bundle(&self) -> Result<Zeroizing<String>, CredentialsError> {
        read(&self.bundle)
    }

    /// Reads the text of the list of revocations. Returns `None` if the file does not exist.
    pub(crate) fn read_revocations(&self) -> Result<Option<Zeroizing<String>>, CredentialsError> {
        match read(&self.revocations) {
            Err(CredentialsError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>, CredentialsError> {
    let text = read_text(path, MAX_BYTES).map(Zeroizing::new);
    text.map_err(|source| CredentialsError::Unreadable { path: path.to_owned(), source })
}

/// Texts of the files.
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
    /// Number of times that changed files were read and adopted. The first reading counts as 1. It is increased once
    /// `current` contains the result of the new reading.
    reading: AtomicU64,
}

/// Result of one reading of the files.
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
    /// The port requires a certificate.
    Required,
    /// The port does not require a certificate. If a client presents a certificate, the port checks it.
    Optional,
}

impl Credentials {
    /// Reads the credentials of this process from `files`.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, no authority of the bundle signed the list of revocations, or the private
    /// key does not belong to the certificate.
    pub fn load(files: Files) -> Result<Credentials, CredentialsError> {
        let current = Current::new(&files, files.read()?)?;
        Ok(Credentials(Arc::new(Inner { files, current: ArcSwap::from_pointee(current), reading: AtomicU64::new(1) })))
    }

    /// Reads the files again, and adopts their contents for new connections. Returns whether the contents have changed.
    /// Open connections stay open, except the connections of holders whose certificates are revoked, which
    /// [`Standing`](crate::Standing) ends.
    ///
    /// # Errors
    /// The errors of [`Credentials::load`]; or the file contains a new certificate that belongs to another holder, has
    /// expired or is not yet valid. On an error, the credentials that were in use before the call stay in use.
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
        // New revocations and authorities are adopted even if the certificate in use has expired.
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

    /// Returns the files of the credentials.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.0.files
    }

    /// Returns the process' own certificate.
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

    /// Begins the server's side of a TLS handshake on the accepted connection `stream`. Dropping the future closes the
    /// connection, and has no other effect.
    pub fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, clients: ClientCertificate, stream: S) -> Accept<S> {
        let current = self.0.current.load();
        let config = match clients {
            ClientCertificate::Required => &current.clients_required,
            ClientCertificate::Optional => &current.clients_optional,
        };
        TlsAcceptor::from(config.clone()).accept(stream)
    }

    /// Makes the client's side of a TLS handshake on `stream`, and checks that the peer is the `expected` server and
    /// that its certificate names `host`, which is a DNS name or an IP address. Dropping the future closes the
    /// connection, and has no other effect.
    ///
    /// # Errors
    /// `host` is invalid, the connection ends, or the peer does not prove that it is the expected server at `host`. In
    /// the last case [`rejection`](crate::rejection) may return the cause.
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

/// Returns the identity of the client that made an accepted connection, or `None` if the client presented no
/// certificate.
#[must_use]
pub fn peer<S>(stream: &server::TlsStream<S>) -> Option<Identity> {
    let presented = stream.get_ref().1.peer_certificates()?.first()?;
    Certificate::read(presented).ok().map(|certificate| certificate.identity)
}

/// Checks that the certificate of the client that made an accepted connection has not expired. The handshake of a
/// resumed TLS session does not check this. Revocations need no check here, because no TLS session from before a reload
/// of the credentials can be resumed after it.
///
/// # Errors
/// The client's certificate has expired.
pub fn check_validity<S>(stream: &server::TlsStream<S>) -> io::Result<()> {
    let presented = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
    match presented.filter(|certificate| certificate.left(now()).is_zero()) {
        Some(Certificate { identity, .. }) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("the certificate of {identity} has expired")))
        }
        None => Ok(()),
    }
}

/// Returns the current time, truncated to whole seconds. Certificates state their times in whole seconds.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(UnixTime::now().as_secs())
}

fn whole_seconds(later: SystemTime, earlier: SystemTime) -> Duration {
    Duration::from_secs(later.duration_since(earlier).unwrap_or_default().as_secs())
}

/// Returns whether a client's connection resumed an earlier TLS session. If so, the handshake of this connection did
/// not check the server's certificate.
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
            PrivateKeyDer::from_pem_slice(contents.certificate.as_bytes()).map_err(|_| {
                let is_encrypted = contents.certificate.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----");
                unusable(if is_encrypted { &ENCRYPTED_KEY } else { &"no private key in PEM" })
            })
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
    // The client keeps the state of a session, so the number of sessions does not affect this process' memory. A reload
    // makes new keys for the session tickets, so a client with an older ticket makes a full handshake, which checks its
    // certificate. See also `check_validity`.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(Arc::new(config))
}

/// Reason why credentials cannot be loaded, or cannot replace the credentials in use.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file is missing or may not be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault in the file.
        source: CertificateError,
    },
    /// The list of revocations is damaged, or none of the bundle's authorities signed it.
    #[error("{}: no list of revocations that an authority of the bundle signed", path.display())]
    Revocations {
        /// The file.
        path: PathBuf,
    },
    /// The certificate, the private key or the bundle cannot be used, e.g. because the key belongs to another
    /// certificate.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// File with the process' own certificate, or the bundle if the process has no certificate.
        path: PathBuf,
        /// Description of the mismatch.
        why: String,
    },
    /// The certificate belongs to another holder.
    #[error("{}: the certificate is of {found}, and this process is {holder}", path.display())]
    OtherHolder {
        /// The file.
        path: PathBuf,
        /// Holder of the certificate.
        found: String,
        /// The holder of the credentials in use.
        holder: String,
    },
    /// The new certificate has expired.
    #[error("{}: the certificate expired {ago:?} ago: `seqsvr cert rotate` renews it", path.display())]
    Expired {
        /// The file.
        path: PathBuf,
        /// Time since its expiry.
        ago: Duration,
    },
    /// The new certificate is not valid yet.
    #[error("{}: the certificate is valid only in {until:?}: is the clock of this machine right?", path.display())]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// Time until it becomes valid.
        until: Duration,
    },
}

#[cfg(test)]
mod tests;
