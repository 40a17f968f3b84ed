//! The identity whose rights apply to a request. It is the identity of the request's sender. If a follower forwarded
//! the request, it is the identity of the sender from which the follower received it.

use seq_auth::{Identity, Role};
use seq_kit::connection::Peer;
use seq_proto::Reason;
use tonic::{Request, Status};

/// Metadata key of a forwarded request. Its value is the identity of the original sender. It is accepted only from a
/// store.
const SENDER: &str = "seqsvr-sender";

/// Name that stands for the sender of a request on a port without TLS.
const UNAUTHENTICATED: &str = "unauthenticated";

/// Returns the identity whose rights apply to a request, or `None` without TLS.
///
/// # Errors
/// `MALFORMED` if a store forwarded the request with a malformed identity.
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

/// Returns the identity whose rights apply to a request, in the short form that is shown to people.
///
/// # Errors
/// The errors of [`sender`].
pub(crate) fn principal<T>(request: &Request<T>) -> Result<String, Status> {
    Ok(sender(request)?.map_or_else(|| UNAUTHENTICATED.to_owned(), |identity| identity.short()))
}

/// Adds the identity of the sender of `of` to the metadata of the request `forwarded`.
pub(crate) fn state_sender<T, U>(of: &Request<T>, forwarded: &mut Request<U>) {
    if let Some(identity) = peer(of) {
        let text = identity.to_string().parse().expect("an identity is ASCII");
        forwarded.metadata_mut().insert(SENDER, text);
    }
}

/// Returns the identity in the certificate of the connection on which a request arrived, or `None` without TLS.
pub(crate) fn peer<T>(request: &Request<T>) -> Option<&Identity> {
    request.extensions().get::<Peer>().and_then(Peer::identity)
}
