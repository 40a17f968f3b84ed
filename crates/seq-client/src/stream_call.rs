//! The first attempt of a call for one uid or key. It is made in the stream to the owner, whose messages are shared by
//! concurrent calls ([`seq_channel::batch`]).
//!
//! Only the first attempt is coalesced with other calls, and only if it is sent to the owner itself. Retries, and
//! requests to a node that forwards them, are unary (docs/adr/0009-coalescing.md).

use seq_channel::batch::{Batchers, Call, CallItems, Item, Kind, Outcome};
use seq_proto::Reason;

use crate::allocation::Allocation;
use crate::attempts::{Attempts, StreamTarget};
use crate::error::CallError;
use crate::place::Place;

/// Makes the first attempt of a call for a uid in the stream to the owner. Returns `None` if the attempt allocated no
/// number and the call has to continue with unary requests.
pub(crate) async fn next(attempts: &mut Attempts<'_>, uid: u64, count: u32) -> Result<Option<Allocation>, CallError> {
    let Some(batchers) = &attempts.shared().batchers else { return Ok(None) };
    first_attempt(attempts, batchers, (Place::Uid(uid), uid), count).await
}

/// Makes the first attempt of a call for a key of a keyspace, as [`next`] does for a uid.
pub(crate) async fn next_key(
    attempts: &mut Attempts<'_>,
    keyspace: &str,
    (place, key): (Place, &[u8]),
    count: u32,
) -> Result<Option<Allocation>, CallError> {
    let Some(batchers) = &attempts.shared().key_batchers else { return Ok(None) };
    let batchers = batchers.of_keyspace(keyspace);
    first_attempt(attempts, &batchers, (place, key.to_vec()), count).await
}

async fn first_attempt<K: Kind>(
    attempts: &mut Attempts<'_>,
    batchers: &Batchers<K>,
    (place, counter): (Place, K::Counter),
    count: u32,
) -> Result<Option<Allocation>, CallError> {
    let Some(target) = attempts.stream_target(batchers, place) else { return Ok(None) };
    let StreamTarget { batcher, route_version, epoch } = target;
    let addr = batcher.addr();
    let items = CallItems::One(Item { counter, count, epoch });
    let call = Call { items, hops: 0, route_version, deadline: attempts.deadline() };
    let refused = match batcher.send(call).await {
        Outcome::Response(response) => {
            attempts.adopt(response.take_routes().as_ref(), addr);
            match response.results().next().expect("one result for one item") {
                Ok(given) => {
                    let checked = Allocation::checked(given.value, given.prev, given.epoch, count, addr);
                    return checked.map(|allocation| Some(Allocation { lost: given.lost, ..allocation }));
                }
                Err(item) => item.clone(),
            }
        }
        Outcome::Refused(item) => *item,
        Outcome::Failed { status, sent } => {
            return attempts.prepare_stream_retry(place, addr, status, sent).await.map(|()| None);
        }
        Outcome::TimedOut { sent } => return Err(attempts.timed_out(sent)),
        Outcome::Invalid(what) => return Err(CallError::BadAnswer { addr: addr.clone(), what }),
        Outcome::Unsupported => return Ok(None),
    };
    if refused.reason != Reason::WouldWait {
        attempts.prepare_item_retry(place, addr, refused).await?;
    }
    Ok(None)
}
