//! The commands SET, SETNX and MSET, which raise counters and never lower them.

use seq_api::service::{Call, Redirects, SequenceService};
use seq_core::{Refusal, Target};
use seq_tenant::Caller;

use super::counters::{self, Counter, FoundKeyspace};
use super::{Invocation, loading};
use crate::keys::KeyRefusal;
use crate::resp::Endpoint;
use crate::resp::encode::{Excerpt, Replies};
use crate::resp::incr_batch::integer;

const NOT_AN_INTEGER: &str = "value is not an integer or out of range";

/// Executes `SET key n [NX]`.
pub(super) async fn set<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let option = invocation.get(3);
    let if_none = option.eq_ignore_ascii_case(b"NX") && invocation.args.count() == 4;
    if invocation.args.count() > 3 && !if_none {
        if counters::find(endpoint, &endpoint.keyspace(), invocation.get(1), replies).is_some() {
            let option = Excerpt(if option.eq_ignore_ascii_case(b"NX") { invocation.get(4) } else { option });
            replies.error("ERR", format_args!("{option} is refused: SET raises a sequence, and has no option but NX"));
        }
        return;
    }
    let keyspace = endpoint.keyspace();
    let arguments = (invocation.get(1), invocation.get(2));
    let Some((counter, to)) = target(endpoint, &keyspace, arguments, replies) else { return };
    match raise(endpoint, caller, invocation.call(), (counter, to), if_none).await {
        Ok(true) => replies.simple("OK"),
        Ok(false) => replies.nil(),
        Err(refusal) => counter.refuse(endpoint, replies, &refusal),
    }
}

/// Executes `SETNX key n`, which raises a counter only if it had no number. The reply states whether it was raised.
pub(super) async fn setnx<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let keyspace = endpoint.keyspace();
    let arguments = (invocation.get(1), invocation.get(2));
    let Some((counter, to)) = target(endpoint, &keyspace, arguments, replies) else { return };
    match raise(endpoint, caller, invocation.call(), (counter, to), true).await {
        Ok(raised) => replies.integer(raised.into()),
        Err(refusal) => counter.refuse(endpoint, replies, &refusal),
    }
}

/// Executes `MSET key n ...`, which makes several SETs in order, within the timeout of one request. All keys and
/// numbers are checked before the first SET. If a SET is refused, the following SETs are not executed.
pub(super) async fn mset<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    if invocation.args.count().is_multiple_of(2) {
        return replies.error("ERR", format_args!("wrong number of arguments for 'mset' command"));
    }
    let keyspace = endpoint.keyspace();
    let mut targets = Vec::with_capacity(invocation.args.count() / 2);
    let mut args = invocation.iter();
    while let (Some(key), Some(number)) = (args.next(), args.next()) {
        let Some(target) = target(endpoint, &keyspace, (key, number), replies) else { return };
        targets.push(target);
    }
    let mut call = invocation.call();
    for target in targets {
        if let Err(refusal) = raise(endpoint, caller, call, target, false).await {
            return target.0.refuse(endpoint, replies, &refusal);
        }
        // A client that is redirected repeats all SETs, and other callers may have taken numbers since the first one.
        call.redirects = Redirects::Forward;
    }
    replies.simple("OK");
}

/// Returns the counter and the number in the arguments of a `SET`. If either is invalid, or the node has no routes,
/// writes an error to `replies` and returns `None`.
fn target<'a, F: SequenceService>(
    endpoint: &Endpoint<F>,
    keyspace: &'a FoundKeyspace,
    (key, number): (&'a [u8], &[u8]),
    replies: &mut Replies,
) -> Option<(Counter<'a>, Target)> {
    let counter = counters::find(endpoint, keyspace, key, replies)?;
    let Some(to) = integer(number) else {
        replies.error("ERR", format_args!("{NOT_AN_INTEGER}"));
        return None;
    };
    if endpoint.has_no_routes() {
        loading(replies);
        return None;
    }
    let to = Target::new(to).inspect_err(|refusal| counter.refuse(endpoint, replies, &(*refusal).into()));
    to.ok().map(|to| (counter, to))
}

/// Raises a counter to a number, and returns whether it was raised. If `if_none` is true, raises the counter only if it
/// has no number. A number that another caller gets during this command counts too.
async fn raise<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    call: Call,
    (counter, to): (Counter<'_>, Target),
    if_none: bool,
) -> Result<bool, KeyRefusal> {
    if if_none && counter.current(endpoint, caller, call).await?.reading.value.0 > 0 {
        return Ok(false);
    }
    match counter.advance(endpoint, caller, call, to).await {
        Err(KeyRefusal::AlreadyPast { .. } | KeyRefusal::Numbers(Refusal::AlreadyPast { .. })) if if_none => Ok(false),
        advanced => advanced.map(|()| true),
    }
}
