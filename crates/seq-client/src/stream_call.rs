//! The first attempt of a call for one uid, in the stream to the owner.

use seq_proto::Reason;

use crate::allocation::Allocation;
use crate::attempts::Attempts;
use crate::coalesce::{Call, Outcome, StreamTarget};
use crate::error::CallError;

/// Makes the first attempt of a call in the owner's stream. `None`: no number was allocated, continue with unary
/// requests.
pub(crate) async fn next(attempts: &mut Attempts<'_>, uid: u64, count: u32) -> Result<Option<Allocation>, CallError> {
    let Some(StreamTarget { batcher, route_version, epoch }) = attempts.stream_target(uid) else { return Ok(None) };
    let addr = batcher.addr();
    let deadline = attempts.deadline();
    let (reply, outcome) = futures::channel::oneshot::channel();
    let call = Call { uid, count, epoch, route_version, deadline, reply: Some(reply) };
    match batcher.send(call, outcome).await {
        Outcome::Allocated { value, prev, epoch, lost, routes } => {
            attempts.adopt(routes.as_deref(), addr);
            let checked = Allocation::checked(value, prev, epoch, count, addr);
            checked.map(|allocation| Some(Allocation { lost, ..allocation }))
        }
        Outcome::Refused { item, routes } => {
            attempts.adopt(routes.as_deref(), addr);
            if item.reason != Reason::WouldWait {
                attempts.prepare_item_retry(uid, addr, *item).await?;
            }
            Ok(None)
        }
        Outcome::Failed { status, sent } => attempts.prepare_stream_retry(uid, addr, status, sent).await.map(|()| None),
        Outcome::TimedOut { sent } => Err(attempts.timed_out(sent)),
        Outcome::Invalid(what) => Err(CallError::BadAnswer { addr: addr.clone(), what }),
        Outcome::Unsupported => Ok(None),
    }
}
