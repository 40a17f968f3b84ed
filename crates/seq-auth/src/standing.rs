//! Whether the holder at the other end of an open connection is still accepted: a revocation ends its connections, and
//! the expiry of its certificate ends those of an AllocSvr at a store.
//!
//! An AllocSvr that nobody can dial would else renew its lease for as long as its connections to the store last. Other
//! holders keep theirs: a store whose members were cut off from each other at one time would have no majority.

use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::time::SystemTime;

use tokio_rustls::server::TlsStream;

use crate::certificate::Certificate;
use crate::credentials::{Credentials, now};
use crate::identity::Role;

/// The peer of an open connection, and what was read of revocations when it was last checked.
pub struct Standing {
    credentials: Credentials,
    /// Its certificate; `None` where it presented none.
    presented: Option<Certificate>,
    /// The reading of the files that the check was made with.
    reading: u64,
    /// When the connection ends at the latest.
    ends: Option<SystemTime>,
}

impl Standing {
    pub(crate) fn new<S>(credentials: Credentials, stream: &TlsStream<S>) -> Standing {
        let presented = stream.get_ref().1.peer_certificates().and_then(|chain| Certificate::read(chain.first()?).ok());
        // Not that of the handshake, which may have begun before a later one.
        let ends = presented.as_ref().filter(|peer| {
            (credentials.certificate().identity.role(), peer.identity.role()) == (Role::Store, Role::Alloc)
        });
        let ends = ends.map(|peer| peer.not_after);
        Standing { credentials, presented, reading: 0, ends }
    }

    /// Checks it again where the files have changed. Without a change it costs one load of an atomic.
    ///
    /// # Errors
    /// Its certificate was revoked; or it has expired, and the connection is one of an AllocSvr to a store.
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
