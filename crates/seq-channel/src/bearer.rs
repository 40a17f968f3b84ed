//! Requests with the token of a tenant.

use std::fmt;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::transport::{Channel, Error};

/// Prefix of the header's value.
const SCHEME: &str = "Bearer ";

/// The token of a tenant, stored as the value of an HTTP header. Clones are equal to the original.
#[derive(Clone)]
pub struct Bearer(HeaderValue);

/// Error of a text that is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is of visible ASCII characters: TENANT.SECRET")]
pub struct BadToken;

impl Bearer {
    /// Parses a token that `seqsvr tenant token` made.
    ///
    /// # Errors
    /// [`BadToken`] for any other text.
    pub fn new(token: &str) -> Result<Bearer, BadToken> {
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) || !token.contains('.') {
            return Err(BadToken);
        }
        let mut value = HeaderValue::try_from(format!("{SCHEME}{token}")).map_err(|_| BadToken)?;
        value.set_sensitive(true);
        Ok(Bearer(value))
    }

    /// Returns the value of an `authorization` header.
    #[must_use]
    pub fn header(&self) -> &HeaderValue {
        &self.0
    }

    /// Returns the token itself, as `TENANT.SECRET`.
    ///
    /// # Panics
    /// Never, because a token consists of ASCII characters.
    #[must_use]
    pub fn token(&self) -> &str {
        let value = self.0.to_str().expect("a token is of ASCII characters");
        value.strip_prefix(SCHEME).expect("it begins with its scheme")
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearer").finish_non_exhaustive()
    }
}

/// A channel to a node whose requests carry a tenant's token, if it has one.
#[derive(Clone, Debug)]
pub struct CallerChannel {
    channel: Channel,
    bearer: Option<Bearer>,
}

impl CallerChannel {
    pub(crate) fn new(channel: Channel, bearer: Option<Bearer>) -> CallerChannel {
        CallerChannel { channel, bearer }
    }
}

impl Service<Request<Body>> for CallerChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(Bearer(token)) = &self.bearer {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        self.channel.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_form_and_is_in_no_log() {
        for wrong in ["", "im", "im.se cret", "im.s\u{e4}", "im.x\n"] {
            assert_eq!(Bearer::new(wrong).unwrap_err(), BadToken, "{wrong:?}");
        }
        assert_eq!(format!("{:?}", Bearer::new("im.secret").unwrap()), "Bearer { .. }");
    }
}
