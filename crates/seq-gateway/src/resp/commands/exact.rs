//! SEQ.NEXT and SEQ.GET: numbers with the details that the other protocols also return.

use seq_api::service::{SequenceService, Via};
use seq_core::{Count, limits};
use seq_tenant::Caller;

use super::{Invocation, counters, loading, reads};
use crate::resp::Endpoint;
use crate::resp::encode::Replies;
use crate::resp::incr_batch::integer;

/// Executes `SEQ.NEXT key [n]`. The reply has the last number allocated, the number that was allocated for the
/// counter directly before this command, the number of attempts with unknown outcome, and the epoch.
pub(super) async fn next<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let keyspace = endpoint.keyspace();
    let Some(counter) = counters::find(endpoint, &keyspace, invocation.get(1), replies) else { return };
    let amount = match invocation.args.count() {
        2 => Some(1),
        3 => integer(invocation.get(2)),
        _ => return replies.error("ERR", format_args!("wrong number of arguments for 'seq.next' command")),
    };
    let Some(count) = amount.and_then(|amount| Count::new(u32::try_from(amount).ok()?).ok()) else {
        return replies.error("ERR", format_args!("the count is not an integer of 1..={}", limits::MAX_COUNT));
    };
    if endpoint.has_no_routes() {
        return loading(replies);
    }
    let _sample = endpoint.latency.sample(Via::Resp);
    match counter.next(endpoint, caller, invocation.call(), count).await {
        Ok(allocation) => {
            replies.array(4);
            replies.integer(allocation.value.0);
            replies.integer(allocation.prev.0);
            replies.integer(allocation.lost.into());
            replies.integer(allocation.epoch.0);
        }
        Err(refusal) => counter.refuse(endpoint, replies, &refusal),
    }
}

/// Executes `SEQ.GET key`. The reply has the last number or an upper bound of it, whether it is exact, and the epoch.
pub(super) async fn get<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let keyspace = endpoint.keyspace();
    let Some((_, current)) = reads::current(endpoint, caller, invocation, &keyspace, replies).await else { return };
    replies.array(3);
    replies.integer(current.reading.value.0);
    replies.bulk(if current.reading.exact { b"exact" } else { b"upper_bound" });
    replies.integer(current.epoch.0);
}
