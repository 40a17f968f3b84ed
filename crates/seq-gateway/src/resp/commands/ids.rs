//! Commands on series. The key of a series consists of a prefix, the name of the series, and the lane if callers of the
//! series name lanes: `id:orders`, `id:media:1341`.
//!
//! INCR returns an id as an integer. Clients that store integers as doubles round ids above 2^53 - 1, so SEQ.ID returns
//! ids as strings.

use std::sync::Arc;

use seq_api::ids::IdSeries;
use seq_api::service::{SequenceService, Via};
use seq_core::Count;
use seq_ids::Shape;
use seq_proto::Reason;
use seq_tenant::Caller;
use tokio::time::Instant;

use super::{Invocation, amount, loading};
use crate::ids::{self, IdContext, IdRefusal, IdRequest, IdSource, MAX_LISTED};
use crate::resp::encode::{Excerpt, Replies};
use crate::resp::incr_batch::{integer, number};
use crate::resp::parse::Command;
use crate::resp::{Endpoint, Node};
use crate::timeout::{self, DEFAULT_TIMEOUT};

/// Limit on the equal commands that are executed at once. It is larger than the number of commands that arrive in one
/// read.
const MAX_TIMES: usize = 1_024;

/// The syntax of SEQ.ID, for an error.
const SYNTAX: &str = "syntax error: SEQ.ID key [COUNT n] [AFTER id]";

/// A series, and the lane that the key names, if any.
struct Named {
    series: Arc<IdSeries>,
    lane: Option<u32>,
}

/// Returns whether a key names a series, by its prefix.
pub(super) fn is_key(node: &Node, key: &[u8]) -> bool {
    name(node, key).is_some()
}

/// Returns a key without the prefix of series; `None` if the key does not have this prefix.
fn name<'a>(node: &Node, key: &'a [u8]) -> Option<&'a [u8]> {
    let prefix = node.config.id_prefix.as_bytes();
    key.strip_prefix(prefix).filter(|_| !prefix.is_empty())
}

/// Returns the number of consecutive commands at the start of `input` that are the same INCR of a series. Returns 1 if
/// the first command is not an INCR of a series.
pub(super) fn times(node: &Node, command: &Command<'_>, input: &[u8]) -> u32 {
    let mut args = command.args.iter();
    let is_incr = args.next().is_some_and(|called| called.eq_ignore_ascii_case(b"INCR"))
        && args.next().is_some_and(|key| is_key(node, key))
        && args.next().is_none();
    let mut commands = input.chunks_exact(command.bytes).take(MAX_TIMES);
    match commands.next() {
        Some(first) if is_incr => 1 + commands.take_while(|next| *next == first).count() as u32,
        _ => 1,
    }
}

/// Executes an INCR, INCRBY, GET or SET whose key names a series.
pub(super) async fn execute<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let named = match find(endpoint, invocation.get(1)) {
        Ok(named) => named,
        Err(refusal) => return (0..invocation.times).for_each(|_| refuse(endpoint, replies, &refusal)),
    };
    match invocation.name {
        b"INCR" => incr(endpoint, caller, named, invocation.times, replies).await,
        b"INCRBY" => incr_by(endpoint, caller, named, invocation, replies).await,
        b"GET" => {
            if let Some(last) = last(endpoint, caller, &named, replies).await {
                replies.value(last);
            }
        }
        _ => set(endpoint, caller, &named, invocation, replies).await,
    }
}

/// Executes an INCR of a series `times` times. Without tenants, takes all ids in one request. If this request is
/// refused, or if there are tenants, takes the ids one by one, so that each command is refused only for its own reason
/// and is counted for its tenant.
async fn incr<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    Named { series, lane }: Named,
    times: u32,
    replies: &mut Replies,
) {
    let (source, context) = (source(endpoint), context(caller));
    let mut request = IdRequest { series, count: Count::ONE, lane, after: 0 };
    if times > 1 && matches!(caller, Caller::Unlimited) {
        request.count = Count::new(times).unwrap_or(Count::ONE);
        if let Ok(ids) = source.take(context, &request).await {
            return ids.iter().for_each(|id| replies.integer(id));
        }
        request.count = Count::ONE;
    }
    let mut refused = None;
    for _ in 0..times {
        // All commands have the same deadline. After one of them has waited until the deadline without success, the
        // others do not wait.
        let taken = match refused {
            Some(refusal) if Instant::now() >= context.deadline => Err(refusal),
            _ => source.take(context, &request).await,
        };
        match &taken {
            Ok(ids) => ids.iter().for_each(|id| replies.integer(id)),
            Err(refusal) => refuse(endpoint, replies, refusal),
        }
        refused = taken.err();
    }
}

/// Executes `INCRBY key n` on a counter: takes n ids and returns the last id.
async fn incr_by<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    Named { series, lane }: Named,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let Some(count) = amount(invocation, replies) else { return };
    if let Shape::Timed(_) = series.shape {
        let (reason, key) = (Reason::NotACounter, Excerpt(invocation.get(1)));
        let text =
            "the ids before the last one do not follow from it, as the time is in them: SEQ.ID key COUNT n lists them";
        return replies.error("ERR", format_args!("{reason} INCRBY {key} is refused: {text}"));
    }
    let request = IdRequest { series, count, lane, after: 0 };
    match source(endpoint).take(context(caller), &request).await {
        Ok(ids) => replies.integer(ids.iter().last().unwrap_or_default()),
        Err(refusal) => refuse(endpoint, replies, &refusal),
    }
}

/// Executes `SET key id` on a counter, that is, raises the counter to the id.
async fn set<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    named: &Named,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    if invocation.args.count() > 3 {
        let option = Excerpt(invocation.get(3));
        return replies
            .error("ERR", format_args!("{option} is refused: SET raises a series, and has no option for it"));
    }
    let advanced = async {
        let series = counter(named)?;
        let to = ids::parse(series, &String::from_utf8_lossy(invocation.get(2)))?;
        source(endpoint).advance(context(caller), series, to).await
    };
    match advanced.await {
        Ok(_) => replies.simple("OK"),
        Err(refusal) => refuse(endpoint, replies, &refusal),
    }
}

/// Executes `SEQ.ID key [COUNT n] [AFTER id]`: takes ids and returns them as strings.
pub(super) async fn list<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let key = invocation.get(1);
    if !is_key(&endpoint.node, key) {
        let (key, prefix) = (Excerpt(key), &endpoint.node.config.id_prefix);
        return match prefix.as_str() {
            "" if endpoint.node.cluster.is_some() => {
                let text = "at a port for clients of Redis Cluster, no key names a series";
                replies.error("ERR", format_args!("SEQ.ID is refused: {text}"));
            }
            "" => replies
                .error("ERR", format_args!("SEQ.ID is refused: redis.id_prefix is empty, so no key names a series")),
            _ => replies.error(
                "ERR",
                format_args!(
                    "{key} names no series: a key is a prefix and a name, as in {prefix}orders, or {prefix}media:7"
                ),
            ),
        };
    }
    let (mut count, mut after) = (None, None);
    let mut options = invocation.iter().skip(1);
    while let Some(option) = options.next() {
        let slot = match option {
            _ if option.eq_ignore_ascii_case(b"COUNT") => &mut count,
            _ if option.eq_ignore_ascii_case(b"AFTER") => &mut after,
            _ => return replies.error("ERR", format_args!("{SYNTAX}")),
        };
        let Some(value) = options.next().filter(|_| slot.is_none()) else {
            return replies.error("ERR", format_args!("{SYNTAX}"));
        };
        *slot = Some(value);
    }
    let listed = |count: &u32| (1..=MAX_LISTED).contains(count);
    let count = match count {
        None => Some(Count::ONE),
        Some(digits) => {
            let count = integer(digits).and_then(|count| u32::try_from(count).ok()).filter(listed);
            count.and_then(|count| Count::new(count).ok())
        }
    };
    let Some(count) = count else {
        let reason = Reason::CountOutOfRange;
        return replies.error("ERR", format_args!("{reason} the count is not an integer of 1..={MAX_LISTED}"));
    };
    let taken = async {
        let Named { series, lane } = find(endpoint, key)?;
        let after = match after {
            None => 0,
            Some(text) => ids::parse_after(&series, &String::from_utf8_lossy(text))?,
        };
        source(endpoint).take(context(caller), &IdRequest { series, count, lane, after }).await
    };
    match taken.await {
        Ok(ids) => {
            replies.array(count.get() as usize);
            ids.iter().for_each(|id| replies.value(Some(id)));
        }
        Err(refusal) => refuse(endpoint, replies, &refusal),
    }
}

/// Reads the last ids for all keys of a command that name a series, and writes them to the places of these keys in
/// `values`. A key with an unknown series has no value, as a missing key in Redis. If a series cannot be read, encodes
/// the error and returns `false`.
pub(super) async fn read<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    values: &mut [Option<u64>],
    replies: &mut Replies,
) -> bool {
    for (key, value) in invocation.iter().zip(values).filter(|(key, _)| is_key(&endpoint.node, key)) {
        match find(endpoint, key) {
            Ok(named) => match last(endpoint, caller, &named, replies).await {
                Some(last) => *value = last,
                None => return false,
            },
            Err(IdRefusal::UnknownSeries { .. }) => {}
            Err(refusal) => {
                refuse(endpoint, replies, &refusal);
                return false;
            }
        }
    }
    true
}

/// Returns the last id of a counter, or an upper bound of it if the settings allow this. Returns `Some(None)` if the
/// counter has no id yet. If the counter cannot be read, encodes an error and returns `None`.
async fn last<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    named: &Named,
    replies: &mut Replies,
) -> Option<Option<u64>> {
    let read = async { source(endpoint).current(context(caller), counter(named)?).await };
    match read.await {
        Ok(last) if last.exact || endpoint.node.config.read_bounds => Some(Some(last.id).filter(|id| *id > 0)),
        Ok(last) => {
            let (name, bound) = (&named.series.name, last.id);
            replies.error(
                "INEXACT",
                format_args!("the last id of series {name:?} is not known, and at most {bound}, until its next one"),
            );
            None
        }
        Err(refusal) => {
            refuse(endpoint, replies, &refusal);
            None
        }
    }
}

/// Finds the series that a key names.
///
/// # Errors
/// [`IdRefusal::UnknownSeries`], [`IdRefusal::NotALane`].
fn find<F: SequenceService>(endpoint: &Endpoint<F>, key: &[u8]) -> Result<Named, IdRefusal> {
    let name = name(&endpoint.node, key).unwrap_or_default();
    let (name, lane) = match memchr::memchr(b':', name) {
        Some(end) => (&name[..end], Some(&name[end + 1..])),
        None => (name, None),
    };
    let series = source(endpoint).find(&String::from_utf8_lossy(name))?;
    let lane = match lane {
        None => None,
        Some(digits) => {
            let lane = number(digits).and_then(|lane| u32::try_from(lane).ok());
            Some(lane.ok_or_else(|| IdRefusal::not_a_lane(&series, &String::from_utf8_lossy(digits)))?)
        }
    };
    Ok(Named { series, lane })
}

/// Returns the series that a key names, for a command that reads or raises a counter. The key must not name a lane.
fn counter(named: &Named) -> Result<&IdSeries, IdRefusal> {
    let Named { series, lane } = named;
    match (series.shape, lane) {
        (Shape::Counter(_), Some(lane)) => Err(IdRefusal::LaneNotAllowed { series: series.name.clone(), lane: *lane }),
        _ => Ok(series),
    }
}

fn source<F: SequenceService>(endpoint: &Endpoint<F>) -> IdSource<'_, F> {
    IdSource { service: &endpoint.service, latency: &endpoint.latency, counts: &endpoint.id_counts }
}

/// Returns the context of a request for ids. It has the default timeout, because Redis clients state none.
fn context(caller: &Caller) -> IdContext<'_> {
    IdContext { deadline: timeout::after(DEFAULT_TIMEOUT), via: Via::Resp, caller }
}

/// Encodes the refusal of a request for ids, with its reason, and with the kind of error by which clients decide
/// whether to retry.
fn refuse<F: SequenceService>(endpoint: &Endpoint<F>, replies: &mut Replies, refusal: &IdRefusal) {
    let reason = refusal.reason();
    let retried = reason.retry().after().is_some();
    if retried && endpoint.has_no_routes() {
        return loading(replies);
    }
    replies.error(if retried { "TRYAGAIN" } else { "ERR" }, format_args!("{reason} {refusal}"));
}
