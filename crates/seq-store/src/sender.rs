//! The identity that a request acts with: its sender's, and where a follower forwarded it, that of the first sender.

use seq_auth::{Identity, Role};
use seq_kit::connection::Peer;
use seq_proto::Reason;
use tonic::{Request, Status};

/// Metadata of a forwarded request: the identity of its first sender. Only a store's is believed.
const SENDER: &str = "seqsvr-sender";

/// The principal where ports have no TLS.
const UNAUTHENTICATED: &str = "unauthenticated";

/// The identity that a request acts with; `None` without TLS.
///
/// # Errors
/// A store forwarded it with a text that is no identity.
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

/// The identity that a request acts with, for people.
///
/// # Errors
/// The errors of [`sender`].
pub(crate) fn principal<T>(request: &Request<T>) -> Result<String, Status> {
    Ok(sender(request)?.map_or_else(|| UNAUTHENTICATED.to_owned(), |identity| identity.short()))
}

/// States in a forwarded request the identity of its sender.
pub(crate) fn state_sender<T, U>(of: &Request<T>, forwarded: &mut Request<U>) {
    if let Some(identity) = peer(of) {
        let text = identity.to_string().parse().expect("an identity is ASCII");
        forwarded.metadata_mut().insert(SENDER, text);
    }
}

/// The identity of the certificate that a request came with; `None` without TLS.
pub(crate) fn peer<T>(request: &Request<T>) -> Option<&Identity> {
    request.extensions().get::<Peer>().and_then(Peer::identity)
}
