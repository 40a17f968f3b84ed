//! Checks whether the peer of an open connection is still accepted. A server closes the connections of a holder whose
//! certificate is revoked, and a store also closes the connections of an AllocSvr whose certificate has expired.
//!
//! No process accepts new connections to an AllocSvr whose certificate has expired. Without the expiry check such an
//! AllocSvr would nevertheless keep its sections, because it could renew its lease for as long as its connections to
//! the store last. Connections of other holders survive the expiry of their certificates. Otherwise all members of a
//! store could be disconnected at the same time, and the store would have no majority.

use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::time::SystemTime;

use tokio_rustls::server::TlsStream;

use crate::certificate::Certificate;
use crate::credentials::{Credentials, now};
use crate::identity::Role;

/// The peer of an open connection, and the state of its last check.
pub struct Standing {
    credentials: Credentials,
    /// Certificate of the peer; `None` if the peer did not present any.
    presented: Option<Certificate>,
    /// Number of the reading of the credentials' files that the last check used.
    reading: u64,
    /// Time at which the connection must end; `None` if it may stay open without a limit.
    ends: Option<SystemTime>,
}

impl Credentials {
    /// Returns a [`Standing`] for an accepted connection, which can check again and again whether the peer is still
    /// accepted.
    #[must_use]
    pub fn follow<S>(&self, stream: &TlsStream<S>) -> Standing {
        Standing::new(self.clone(), stream)
    }
}

impl Standing {
    fn new<S>(credentials: Credentials, stream: &TlsStream<S>) -> Standing {
        let presented = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
        // `reading` is 0, not the current number, so that the first check compares the peer with all revocations. The
        // handshake may have used an earlier reading.
        let ends = presented.as_ref().filter(|peer| {
            (credentials.certificate().identity.role(), peer.identity.role()) == (Role::Store, Role::Alloc)
        });
        let ends = ends.map(|peer| peer.not_after);
        Standing { credentials, presented, reading: 0, ends }
    }

    /// Checks the peer again if the files have changed. If they have not, the check costs one load of an atomic.
    ///
    /// # Errors
    /// The peer's certificate was revoked, or it has expired and the connection is from an AllocSvr to a store.
    #[inline]
    pub fn check(&mut self) -> io::Result<()> {
        if self.ends.is_some_and(|end| now() >= end) {
            return Err(self.expired());
        }
        let reading = self.credentials.reading().load(Acquire);
        if reading == self.reading {
            return Ok(());
        }
        self.reading = reading;
        self.check_revocations()
    }

    #[cold]
    fn expired(&self) -> io::Error {
        let identity = self.presented.as_ref().map(|presented| presented.identity.to_string()).unwrap_or_default();
        let what = format!("the certificate of {identity} has expired");
        io::Error::new(io::ErrorKind::PermissionDenied, what)
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
