//! The commands GET, MGET, EXISTS, TYPE and TTL, which read the last numbers of counters.

use seq_api::service::{Current, SequenceService, Via};
use seq_core::{Count, Epoch, Refusal, Uid};
use seq_tenant::Caller;

use super::counters::{self, Counter, FoundKeyspace, Key};
use super::{Invocation, ids, loading, refuse, refuse_key};
use crate::keys::KeyRefusal;
use crate::resp::Endpoint;
use crate::resp::encode::Replies;

/// Returns the last number in a reading, or an upper bound of it; `None` if the counter never had a number.
///
/// # Errors
/// The upper bound, if the reading is inexact and the node's settings do not allow the bound to be returned as a value,
/// because this number may never have been allocated.
fn value<F>(endpoint: &Endpoint<F>, current: &Current) -> Result<Option<u64>, u64> {
    let value = current.reading.value.0;
    if !current.reading.exact && !endpoint.node.config.read_bounds {
        return Err(value);
    }
    Ok(Some(value).filter(|value| *value > 0))
}

/// Encodes the refusal of a read for the reason that the exact last number is not known.
fn inexact(replies: &mut Replies, counter: Counter<'_>, bound: u64) {
    replies.error(
        "INEXACT",
        format_args!(
            "the last number of {counter} is not known, and at most {bound}, until its next one: SEQ.GET returns the bound"
        ),
    );
}

/// Executes GET.
pub(super) async fn get<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let keyspace = endpoint.keyspace();
    let Some((counter, current)) = current(endpoint, caller, invocation, &keyspace, replies).await else { return };
    match value(endpoint, &current) {
        Ok(value) => replies.value(value),
        Err(bound) => inexact(replies, counter, bound),
    }
}

/// Reads the last number of the counter that the key of a command names. Encodes an error if the key names no counter,
/// or if the counter cannot be read now.
pub(super) async fn current<'a, F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'a, '_>,
    keyspace: &'a FoundKeyspace,
    replies: &mut Replies,
) -> Option<(Counter<'a>, Current)> {
    let counter = counters::find(endpoint, keyspace, invocation.get(1), replies)?;
    if endpoint.has_no_routes() {
        loading(replies);
        return None;
    }
    let _sample = endpoint.latency.sample(Via::Resp);
    let read = counter.current(endpoint, caller, invocation.call()).await;
    read.inspect_err(|refusal| counter.refuse(endpoint, replies, refusal)).ok().map(|current| (counter, current))
}

/// Reads the last numbers of all keys of a command. A key that names no uid of this cluster and that can have no
/// counter of the keyspace has no value, as a missing key in Redis. If a key cannot be read now, encodes an error and
/// returns `None`.
async fn read<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) -> Option<Vec<Option<u64>>> {
    if endpoint.has_no_routes() {
        loading(replies);
        return None;
    }
    let _sample = endpoint.latency.sample(Via::Resp);
    let keyspace = endpoint.keyspace();
    let mut values = vec![None; invocation.args.count() - 1];
    let (mut uids, mut of_uids, mut keys, mut of_keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, key) in invocation.iter().enumerate() {
        match counters::resolve(&endpoint.node, &keyspace, key) {
            Ok(Some(Counter::Uid(uid))) => {
                uids.push((uid, Epoch(0)));
                of_uids.push(index);
            }
            Ok(Some(Counter::Key(key))) => {
                keys.push(key);
                of_keys.push(index);
            }
            Ok(None) | Err(KeyRefusal::KeySize { .. }) => {}
            Err(refusal) => {
                refuse_key(endpoint, replies, &refusal);
                return None;
            }
        }
    }
    admit(endpoint, caller, &uids, &keys, replies)?;
    let read = endpoint.service.current_many(invocation.call(), uids.clone()).await;
    if !ids::read(endpoint, caller, invocation, &mut values, replies).await {
        return None;
    }
    let uids = uids.into_iter().map(|(uid, _)| Counter::Uid(uid));
    let of_uid = uids.zip(read.into_iter().map(|read| read.map_err(KeyRefusal::from)));
    let mut read: Vec<_> = of_uids.into_iter().zip(of_uid).collect();
    if !keys.is_empty() {
        // All keys are of the keyspace in the settings.
        let keyspace = keyspace.as_ref().ok().and_then(Option::as_deref).expect("keys are of a keyspace");
        let items: Vec<_> = keys.iter().map(|key| key.item(Count::ONE)).collect();
        let of_key = endpoint.service.current_whole_keys(invocation.call(), keyspace, &items).await;
        let of_key = keys
            .iter()
            .zip(of_key)
            .map(|(key, read)| (Counter::Key(*key), read.map_err(|refused| key.refused(refused))));
        read.extend(of_keys.into_iter().zip(of_key));
    }
    for (index, (counter, read)) in read {
        match read {
            Ok(current) => match value(endpoint, &current) {
                Ok(value) => values[index] = value,
                Err(bound) => {
                    inexact(replies, counter, bound);
                    return None;
                }
            },
            Err(KeyRefusal::Numbers(Refusal::UidOutOfRange { .. })) => {}
            Err(refusal) => {
                counter.refuse(endpoint, replies, &refusal);
                return None;
            }
        }
    }
    Some(values)
}

/// Admits the reads of uids and keys. If the caller may not read all of them now, encodes an error and returns `None`.
fn admit<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    uids: &[(Uid, Epoch)],
    keys: &[Key<'_>],
    replies: &mut Replies,
) -> Option<()> {
    let admitted = caller.admit_read().and_then(|()| uids.iter().try_for_each(|(uid, _)| caller.admit_uid(*uid)));
    if let Err(refusal) = admitted {
        refuse(replies, &refusal);
        return None;
    }
    let name = &endpoint.node.config.keyspace;
    if let Some(other) = keys.iter().find(|key| !caller.admit_key(name, key.bytes)) {
        refuse_key(endpoint, replies, &KeyRefusal::other_tenants(name, other.bytes));
        return None;
    }
    Some(())
}

/// Executes MGET.
pub(super) async fn mget<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let Some(values) = read(endpoint, caller, invocation, replies).await else { return };
    replies.array(values.len());
    values.into_iter().for_each(|value| replies.value(value));
}

/// Executes EXISTS.
pub(super) async fn exists<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    if let Some(values) = read(endpoint, caller, invocation, replies).await {
        replies.integer(values.into_iter().flatten().count() as u64);
    }
}

/// Executes TYPE, TTL or PTTL. A sequence that has had a number is a string that never expires.
pub(super) async fn type_or_ttl<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let Some(values) = read(endpoint, caller, invocation, replies).await else { return };
    let exists = values.into_iter().flatten().next().is_some();
    match (invocation.name, exists) {
        (b"TYPE", true) => replies.simple("string"),
        (b"TYPE", false) => replies.simple("none"),
        (_, true) => replies.signed(-1),
        (_, false) => replies.signed(-2),
    }
}
