//! Whether the holder at the other end of an open connection is still accepted: a revocation ends its connections.

use std::io;
use std::sync::atomic::Ordering::Acquire;

use tokio_rustls::server::TlsStream;

use crate::certificate::Certificate;
use crate::credentials::Credentials;

/// The peer of an open connection, and what was read of revocations when it was last checked.
pub struct Standing {
    credentials: Credentials,
    /// Its certificate; `None` where it presented none.
    presented: Option<Certificate>,
    /// The reading of the files that the check was made with.
    reading: u64,
}

impl Standing {
    pub(crate) fn new<S>(credentials: Credentials, stream: &TlsStream<S>) -> Standing {
        let presented = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
        // Not that of the handshake, which may have begun before a later one.
        Standing { credentials, presented, reading: 0 }
    }

    /// Checks it again where the files have changed. Without a change it costs one load of an atomic.
    ///
    /// # Errors
    /// Its certificate was revoked.
    #[inline]
    pub fn check(&mut self) -> io::Result<()> {
        let reading = self.credentials.reading().load(Acquire);
        if reading == self.reading {
            return Ok(());
        }
        self.reading = reading;
        self.check_revocations()
    }

    #[cold]
    fn check_revocations(&self) -> io::Result<()> {
        match &self.presented {
            Some(Certificate { identity, serial, .. }) if self.credentials.has_revoked(serial) => {
                let what = format!("the certificate of {identity} with serial {serial} is revoked");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
            }
            _ => Ok(()),
        }
    }
}
