//! Checks on an open connection whether the server still accepts the client. A server closes the connections of a
//! client whose certificate is revoked. A store also closes the connections of an AllocSvr whose certificate has
//! expired.
//!
//! A handshake with an AllocSvr fails once the AllocSvr's certificate has expired, but a connection that is open
//! already would stay open. An AllocSvr renews its lease on its connections to the store, so without this check it
//! could keep its sections for as long as these connections last. Connections of other holders survive the expiry of
//! their certificates. Otherwise all members of a store could be disconnected at the same time, and the store would
//! have no majority.

use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::time::SystemTime;

use tokio_rustls::server::TlsStream;

use crate::certificate::Certificate;
use crate::credentials::{Credentials, now};
use crate::identity::Role;

/// Certificate of the client on an open connection, and the state of the last check of this certificate.
pub struct Standing {
    credentials: Credentials,
    /// Certificate of the client, or `None` if the client did not present any.
    presented: Option<Certificate>,
    /// Value of the counter [`Credentials::reading`] at the last check of the revocations; 0 before the first check.
    reading: u64,
    /// Time at which the store must end the connection of an AllocSvr, because the AllocSvr's certificate expires then.
    /// `None` for all other connections.
    ends: Option<SystemTime>,
}

impl Credentials {
    /// Returns the [`Standing`] of the client on the accepted connection `stream`. The server must call
    /// [`Standing::check`] while the connection is open, and close the connection once it fails.
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

    /// Checks that the certificate of an AllocSvr on a connection to a store has not expired. If the files of the
    /// credentials have changed since the last check, also checks that the client's certificate is not revoked.
    /// Otherwise the call costs only one load of an atomic.
    ///
    /// # Errors
    /// The client's certificate was revoked, or it has expired and the connection is from an AllocSvr to a store.
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
