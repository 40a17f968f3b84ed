//! The commands SET, SETNX and MSET, which raise uids and never lower them.

use seq_api::service::{Call, SequenceService};
use seq_core::{Epoch, Refusal, Target, Uid};
use seq_tenant::Caller;

use super::call;
use super::{Invocation, loading, refused, uid};
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
        if uid(endpoint, invocation.get(1), replies).is_some() {
            let option = Excerpt(if option.eq_ignore_ascii_case(b"NX") { invocation.get(4) } else { option });
            replies.error("ERR", format_args!("{option} is refused: SET raises a sequence, and has no option but NX"));
        }
        return;
    }
    let Some((uid, to)) = target(endpoint, invocation.get(1), invocation.get(2), replies) else { return };
    match raise(endpoint, caller, call(), (uid, to), if_none).await {
        Ok(true) => replies.simple("OK"),
        Ok(false) => replies.nil(),
        Err(refusal) => refused(endpoint, replies, &refusal),
    }
}

/// Executes `SETNX key n`, which raises a uid only if the uid had no number. The reply states whether it was raised.
pub(super) async fn setnx<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let Some((uid, to)) = target(endpoint, invocation.get(1), invocation.get(2), replies) else { return };
    match raise(endpoint, caller, call(), (uid, to), true).await {
        Ok(raised) => replies.integer(raised.into()),
        Err(refusal) => refused(endpoint, replies, &refusal),
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
    let mut targets = Vec::with_capacity(invocation.args.count() / 2);
    let mut args = invocation.iter();
    while let (Some(key), Some(number)) = (args.next(), args.next()) {
        let Some(target) = target(endpoint, key, number, replies) else { return };
        targets.push(target);
    }
    let call = call();
    for target in targets {
        if let Err(refusal) = raise(endpoint, caller, call, target, false).await {
            return refused(endpoint, replies, &refusal);
        }
    }
    replies.simple("OK");
}

/// Returns the uid and the number in the arguments of a `SET`. If either is invalid, or the node has no routes, writes
/// an error to `replies` and returns `None`.
fn target<F: SequenceService>(
    endpoint: &Endpoint<F>,
    key: &[u8],
    number: &[u8],
    replies: &mut Replies,
) -> Option<(Uid, Target)> {
    let uid = uid(endpoint, key, replies)?;
    let Some(to) = integer(number) else {
        replies.error("ERR", format_args!("{NOT_AN_INTEGER}"));
        return None;
    };
    if endpoint.has_no_routes() {
        loading(replies);
        return None;
    }
    Target::new(to).inspect_err(|refusal| refused(endpoint, replies, refusal)).ok().map(|to| (uid, to))
}

/// Raises a uid to a number, and returns whether the uid was raised. If `if_none` is true, raises the uid only if it
/// has no number. A number that another caller gets during this command counts too.
async fn raise<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    call: Call,
    (uid, to): (Uid, Target),
    if_none: bool,
) -> Result<bool, Refusal> {
    if if_none {
        caller.admit_read()?;
        caller.admit_uid(uid)?;
        if endpoint.service.current(call, uid, Epoch(0)).await?.reading.value.0 > 0 {
            return Ok(false);
        }
    }
    caller.admit_advance(&endpoint.service, call, uid, to).await?;
    match endpoint.service.advance(call, uid, to, Epoch(0)).await {
        Err(Refusal::AlreadyPast { .. }) if if_none => Ok(false),
        advanced => advanced.map(|_| true),
    }
}
