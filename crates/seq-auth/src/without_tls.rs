//! Stand-ins for the types of TLS in a build without it. Their types have no values, so the code that uses them
//! compiles and never runs.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::expected::ExpectedServer;

/// Means of making connections over TLS, of which a build without TLS has none.
#[derive(Clone, Debug)]
pub struct Trust(Infallible);

impl Trust {
    /// Makes a handshake with the server at a host.
    ///
    /// # Errors
    /// None, because a build without TLS has no `Trust`.
    pub async fn connect<S>(
        &self,
        _host: &str,
        _expected: &ExpectedServer,
        _stream: S,
        _protocol: Option<&'static [u8]>,
    ) -> io::Result<ClientStream<S>> {
        match self.0 {}
    }
}

/// Connection over TLS, of which a build without TLS has none.
#[derive(Debug)]
pub struct ClientStream<S> {
    never: Infallible,
    stream: PhantomData<S>,
}

impl<S> AsyncRead for ClientStream<S> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }
}

impl<S> AsyncWrite for ClientStream<S> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.never {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }
}

/// Reason for which a server was not accepted, of which a build without TLS has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(Infallible);

/// Returns the reason for which a server was not accepted: none without TLS.
#[must_use]
pub fn rejection(_: &io::Error) -> Option<&Rejected> {
    None
}

/// Returns whether an error says that a certificate is expired, which no error does without TLS.
#[must_use]
pub fn is_expired(_: &io::Error) -> bool {
    false
}

/// Returns the alert with which a peer ended a handshake: none without TLS.
#[must_use]
pub fn alert(_: &io::Error) -> Option<String> {
    None
}
