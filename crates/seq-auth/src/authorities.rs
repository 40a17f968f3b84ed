//! The trusted authorities of a cluster, as used by callers that have no certificate of their own. Such a caller proves
//! its identity with a token.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client;

use crate::certificate::chain;
use crate::credentials::{Credentials, CredentialsError, Files};
use crate::dialing::Dialing;
use crate::expected::ExpectedServer;
use crate::revocations::revoked_by;
use crate::verify::Accepted;

/// Trusted authorities and revocations, with which a caller checks the certificates of a cluster's nodes. The caller
/// itself presents no certificate. Clones share one state.
#[derive(Clone)]
pub struct Authorities(Arc<Dialing>);

impl Authorities {
    /// Reads the bundle and the list of revocations from `files`. Later changes of these files have no effect on the
    /// returned value.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or no authority of the bundle signed the list of revocations.
    pub fn load(files: &Files) -> Result<Authorities, CredentialsError> {
        let damaged = |source| CredentialsError::Damaged { path: files.bundle.clone(), source };
        let authorities = chain(&files.read_bundle()?).map_err(damaged)?;
        let revoked = match files.read_revocations()? {
            Some(list) => revoked_by(&list, &authorities)
                .map_err(|_| CredentialsError::Revocations { path: files.revocations.clone() })?,
            None => Vec::new(),
        };
        // An authority belongs to one cluster, so its signatures need no check of the cluster.
        let accepted = Arc::new(Accepted { cluster: None, revoked: revoked.into_iter().collect() });
        let unusable = |error: &dyn fmt::Display| unusable(&files.bundle, error);
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| unusable(&error))?;
        }
        let dialing = Dialing::new(&Arc::new(roots), &accepted, None).map_err(|error| unusable(&error))?;
        Ok(Authorities(Arc::new(dialing)))
    }
}

fn unusable(path: &Path, error: &dyn fmt::Display) -> CredentialsError {
    CredentialsError::Unusable { path: path.to_owned(), why: error.to_string() }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").finish_non_exhaustive()
    }
}

/// A caller's means of making connections.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The caller's own certificate, and the authorities.
    Credentials(Credentials),
    /// Only the authorities.
    Authorities(Authorities),
}

impl Trust {
    /// Makes the TLS handshake on `stream` with the server at `host`, and checks that it is the `expected` server, as
    /// [`Credentials::connect`] does.
    ///
    /// # Errors
    /// The errors of [`Credentials::connect`].
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
        match self {
            Trust::Credentials(credentials) => credentials.connect(host, expected, stream, protocol).await,
            Trust::Authorities(Authorities(dialing)) => dialing.connect(host, expected, stream, protocol).await,
        }
    }
}

impl From<Credentials> for Trust {
    fn from(credentials: Credentials) -> Trust {
        Trust::Credentials(credentials)
    }
}

impl From<Authorities> for Trust {
    fn from(authorities: Authorities) -> Trust {
        Trust::Authorities(authorities)
    }
}
