//! Denies requests to a port before they reach a service.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::Either;
use seq_auth::Identity;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};

use crate::connection::Peer;
use crate::refusal_log::RefusalLog;

/// Function that decides whether a request is denied, by the request's path and the identity of its sender.
type Decide = dyn Fn(&str, Option<&Identity>) -> Result<(), Status> + Send + Sync;

/// Makes the response to a denied request.
pub type Respond = fn(&Request<Body>, &Status) -> Response<Body>;

/// The guard of a port with TLS, which may deny requests. Clones share their state.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    decide: Box<Decide>,
    respond: Respond,
    denied: RefusalLog,
}

impl Guard {
    /// Creates a guard that decides with `decide` and counts the denied requests in `denied`. It logs the first denied
    /// request at once, and then at most one a minute.
    pub fn new(
        decide: impl Fn(&str, Option<&Identity>) -> Result<(), Status> + Send + Sync + 'static,
        respond: Respond,
        denied: RefusalLog,
    ) -> Guard {
        Guard(Arc::new(Inner { decide: Box::new(decide), respond, denied }))
    }

    /// Checks a request of a protocol other than HTTP. `path` stands for the request, and `peer` sent it.
    ///
    /// # Errors
    /// The refusal of the request. It has already been counted.
    pub fn check(&self, path: &str, peer: Option<&Peer>) -> Result<(), Status> {
        let decided = (self.0.decide)(path, peer.and_then(Peer::identity));
        decided.inspect_err(|status| {
            if let Some((event, suppressed)) = self.0.denied.count() {
                let peer = peer.and_then(Peer::addr).map(tracing::field::display);
                tracing::warn!(event, peer, why = status.message(), suppressed, "request denied");
            }
        })
    }
}

/// A service behind a guard, if the port has a guard.
#[derive(Clone)]
pub(super) struct Guarded<S> {
    pub(super) service: S,
    pub(super) guard: Option<Guard>,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(peer) = request.extensions().get::<Peer>() {
            peer.requested();
        }
        if let Some(guard) = &self.guard {
            let checked = guard.check(request.uri().path(), request.extensions().get::<Peer>());
            if let Err(status) = checked {
                return Either::Right(ready(Ok((guard.0.respond)(&request, &status))));
            }
        }
        Either::Left(self.service.call(request))
    }
}
