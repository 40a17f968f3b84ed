//! What other nodes say of owners, while the store says nothing.
//!
//! A node that is cut off from the store alone keeps its sections without a lease, and holds their calls. It cannot know
//! that they were given to others; the others know. What they say never grants anything and extends no lease: a section
//! that is routed elsewhere under a newer epoch leaves, and its calls are sent on.

use std::sync::Arc;
use std::time::Duration;

use seq_core::route::RouteUpdate;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;

use crate::shared::Shared;

/// How often the lease is looked at, and while it is over another node is asked: as often as those who wait try again.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// How long one node may take; it may be as far away as the store.
const ASK_TIMEOUT: Duration = Duration::from_millis(200);

/// Asks the other nodes in turn, whenever the lease is over.
pub(crate) async fn keep(shared: Arc<Shared>) {
    for turn in 0.. {
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = tokio::time::sleep(ASK_EVERY) => {}
        }
        if shared.is_leased() {
            continue;
        }
        if let Some(update) = ask(&shared, turn).await
            && let Err(error) = shared.step(|owner, effects| owner.on_peer_routes(&update, effects))
        {
            tracing::warn!(%error, "cannot use what another node says of owners");
        }
    }
}

/// Routes that another node knows and this one does not.
async fn ask(shared: &Shared, turn: usize) -> Option<RouteUpdate> {
    let (addr, known) = {
        let owner = shared.ownership.machine();
        let (session, routes) = (owner.session()?, owner.routes()?);
        let others: Vec<_> = routes.nodes().iter().filter(|(id, _)| **id != session.node).collect();
        let (_, node) = others.get(turn.checked_rem(others.len())?)?;
        (node.addr.clone(), routes.version().0)
    };
    let mut node = SequenceServiceClient::new(shared.peers.here().get(&addr).ok()?)
        .max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
    let question = node.get_routes(v1::GetRoutesRequest { known_version: known });
    let answer = tokio::time::timeout(ASK_TIMEOUT, question).await.ok()?.ok()?.into_inner();
    let routes = answer.routes.iter().find(|routes| routes.set == shared.set && routes.version > known)?;
    RouteUpdate::try_from(routes).inspect_err(|error| tracing::warn!(addr, %error, "bad routes")).ok()
}
