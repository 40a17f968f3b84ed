//! The identity with which a request acts. It is the identity of the request's sender or, if a follower forwarded the
//! request, of the first sender.

use seq_auth::{Identity, Role};
use seq_kit::connection::Peer;
use seq_proto::Reason;
use tonic::{Request, Status};

/// Metadata of a forwarded request with the identity of the first sender. It is accepted only if a store forwards the
/// request.
const SENDER: &str = "seqsvr-sender";

/// Name of the principal on ports without TLS.
const UNAUTHENTICATED: &str = "unauthenticated";

/// Returns the identity with which a request acts; `None` without TLS.
///
/// # Errors
/// A store forwarded the request with a malformed identity.
pub(crate) fn sender<T>(request: &Request<T>) -> Result<Option<Identity>, Status> {
    let Some(peer) = peer(request) else { return Ok(None) };
    match request.metadata().get(SENDER).filter(|_| peer.role() == Role::Store) {
        None => Ok(Some(peer.clone())),
        Some(sender) => {
            let sender = sender.to_str().ok().and_then(|sender| sender.parse().ok());
            sender.map(Some).ok_or_else(|| Reason::Malformed.status(format!("{SENDER} is no identity")))
        }
    }
}

/// Returns the identity with which a request acts, in its form for people.
///
/// # Errors
/// The errors of [`sender`].
pub(crate) fn principal<T>(request: &Request<T>) -> Result<String, Status> {
    Ok(sender(request)?.map_or_else(|| UNAUTHENTICATED.to_owned(), |identity| identity.short()))
}

/// Adds the identity of a request's sender to the forwarded request.
pub(crate) fn state_sender<T, U>(of: &Request<T>, forwarded: &mut Request<U>) {
    if let Some(identity) = peer(of) {
        let text = identity.to_string().parse().expect("an identity is ASCII");
        forwarded.metadata_mut().insert(SENDER, text);
    }
}

/// Returns the identity in the certificate of a request's connection; `None` without TLS.
pub(crate) fn peer<T>(request: &Request<T>) -> Option<&Identity> {
    request.extensions().get::<Peer>().and_then(Peer::identity)
}
