//! Checks whether the peer of an open connection is still accepted: a revocation ends the holder's connections, and the
//! expiry of an AllocSvr's certificate ends its connections to a store.
//!
//! Without the expiry check, an AllocSvr that no other process can dial would renew its lease as long as its
//! connections to the store last. Other holders keep theirs: a store whose members were all disconnected at the same
//! time would have no majority.

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
    /// Number of the reading of the files that the last check used.
    reading: u64,
    /// Latest end of the connection; `None` if it has no limit.
    ends: Option<SystemTime>,
}

impl Credentials {
    /// Returns a check of whether the peer of an accepted connection is still accepted.
    #[must_use]
    pub fn follow<S>(&self, stream: &TlsStream<S>) -> Standing {
        Standing::new(self.clone(), stream)
    }
}

impl Standing {
    fn new<S>(credentials: Credentials, stream: &TlsStream<S>) -> Standing {
        let presented = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
        // Not the reading of the handshake, which may have begun before a later reading.
        let ends = presented.as_ref().filter(|peer| {
            (credentials.certificate().identity.role(), peer.identity.role()) == (Role::Store, Role::Alloc)
        });
        let ends = ends.map(|peer| peer.not_after);
        Standing { credentials, presented, reading: 0, ends }
    }

    /// Checks the peer again if the files have changed. Without a change it costs one load of an atomic.
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
