//! The counters that keys of Redis name: the counters of uids, and of the keys of the keyspace in the settings. A
//! command does the same with either kind.

use std::fmt;
use std::sync::Arc;

use seq_api::keys::{HashedKey, KeyedItem, KeyedItems, Keyspace};
use seq_api::service::{Allocation, Call, Current, Item, SequenceService};
use seq_core::{Count, Epoch, Refusal, Target, Uid};
use seq_proto::Reason;
use seq_tenant::Caller;

use super::{keys, loading, refuse, refuse_key};
use crate::keys::{KeyRefusal, admit, admitted_item, checked, one};
use crate::resp::encode::{Excerpt, Replies};
use crate::resp::{Endpoint, Node};

/// A counter that a key of Redis names.
#[derive(Clone, Copy)]
pub(super) enum Counter<'a> {
    /// The counter of a uid.
    Uid(Uid),
    /// The counter of a key of the keyspace.
    Key(Key<'a>),
}

/// A key of the keyspace.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) bytes: &'a [u8],
    /// Digest of the seed of the keyspace.
    digest: u64,
    hashed: HashedKey,
}

/// End of the error of a key that would be a key of the keyspace if the settings named one.
const WITHOUT_KEYSPACE: &str = "; for keys of any bytes, set redis.keyspace at the AllocSvrs to the name of a keyspace";

/// Finds the counter that a key names. Encodes an error if the key names no counter, or if the keyspace is not known.
pub(super) fn find<'a, F: SequenceService>(
    endpoint: &Endpoint<F>,
    key: &'a [u8],
    replies: &mut Replies,
) -> Option<Counter<'a>> {
    match resolve(&endpoint.node, &endpoint.keyspace(), key) {
        Ok(Some(counter)) => return Some(counter),
        Ok(None) => {
            let keys = keys(&endpoint.node, None);
            // A key of a series names no counter with any settings.
            let setting = if keys.is_series(key) { "" } else { WITHOUT_KEYSPACE };
            let (key, example) = (Excerpt(key), keys.example());
            let text = format_args!("{key} is no sequence: a key is a prefix and a uid, as in {example}{setting}");
            replies.error("ERR", text);
        }
        Err(refusal) => refuse_key(endpoint, replies, &refusal),
    }
    None
}

/// Returns the counter that a key names; `Ok(None)` if the key names a series, or neither a uid nor a series while the
/// settings name no keyspace. `keyspace` is the result of [`Endpoint::keyspace`].
///
/// # Errors
/// The error of `keyspace`, [`KeyRefusal::KeySize`], or [`Refusal::Unserved`] while the node does not know the seed of
/// the keyspace.
pub(super) fn resolve<'a>(
    node: &Node,
    keyspace: &Result<Option<Arc<Keyspace>>, KeyRefusal>,
    bytes: &'a [u8],
) -> Result<Option<Counter<'a>>, KeyRefusal> {
    let keys = keys(node, None);
    if let Some(uid) = keys.uid(bytes) {
        return Ok(Some(Counter::Uid(uid)));
    }
    if keys.is_series(bytes) {
        return Ok(None);
    }
    let Some(keyspace) = keyspace.as_ref().map_err(KeyRefusal::clone)? else { return Ok(None) };
    let hashed = keyspace.locate(checked(bytes)?).ok_or(Refusal::Unserved { section: keyspace.buckets.first })?;
    Ok(Some(Counter::Key(Key { bytes, digest: keyspace.hashing.digest(), hashed })))
}

impl Key<'_> {
    /// Returns a request for the keys, which are of one keyspace. It has no items if there are no keys.
    pub(super) fn items(keys: &[Key<'_>], count: Count) -> KeyedItems {
        let digest = keys.first().map_or(0, |key| key.digest);
        let items = keys.iter().map(|key| KeyedItem { key: key.hashed, count, epoch: Epoch(0) }).collect();
        KeyedItems { digest, items }
    }

    /// Returns the refusal of a request for the key.
    pub(super) fn refused(self, refusal: Refusal) -> KeyRefusal {
        KeyRefusal::of(refusal, self.bytes)
    }
}

impl Counter<'_> {
    /// Allocates numbers.
    pub(super) async fn next<F: SequenceService>(
        self,
        endpoint: &Endpoint<F>,
        caller: &Caller,
        call: Call,
        count: Count,
    ) -> Result<Allocation, KeyRefusal> {
        match self {
            Counter::Uid(uid) => {
                let item = caller.admit_one(Item { uid, count, epoch: Epoch(0) })?;
                Ok(endpoint.service.next(call, item).await?)
            }
            Counter::Key(key) => {
                admit(caller, &endpoint.node.config.keyspace, key.bytes)?;
                let mut admitted = [Ok(admitted_item(count))];
                caller.admit_counts(&mut admitted);
                let [admitted] = admitted;
                let items = Key::items(&[key], admitted?.count);
                one(endpoint.service.next_keys(call, items).await).map_err(|refusal| key.refused(refusal))
            }
        }
    }

    /// Reads the last number.
    pub(super) async fn current<F: SequenceService>(
        self,
        endpoint: &Endpoint<F>,
        caller: &Caller,
        call: Call,
    ) -> Result<Current, KeyRefusal> {
        match self {
            Counter::Uid(uid) => {
                caller.admit_read()?;
                caller.admit_uid(uid)?;
                Ok(endpoint.service.current(call, uid, Epoch(0)).await?)
            }
            Counter::Key(key) => {
                admit(caller, &endpoint.node.config.keyspace, key.bytes)?;
                let items = Key::items(&[key], Count::ONE);
                one(endpoint.service.current_keys(call, items).await).map_err(|refusal| key.refused(refusal))
            }
        }
    }

    /// Raises the counter to a number.
    pub(super) async fn advance<F: SequenceService>(
        self,
        endpoint: &Endpoint<F>,
        caller: &Caller,
        call: Call,
        to: Target,
    ) -> Result<(), KeyRefusal> {
        let service = &endpoint.service;
        match self {
            Counter::Uid(uid) => {
                caller.admit_advance(service, call, uid, to).await?;
                service.advance(call, uid, to, Epoch(0)).await?;
            }
            Counter::Key(key) => {
                admit(caller, &endpoint.node.config.keyspace, key.bytes)?;
                let (items, refused) = (Key::items(&[key], Count::ONE), |refusal| key.refused(refusal));
                if caller.is_limited() {
                    let current = one(service.current_keys(call, items.clone()).await).map_err(refused)?;
                    caller.admit_distance(current.reading.value, to.seq())?;
                }
                one(service.advance_keys(call, items, to).await).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Encodes the refusal of a command on the counter.
    pub(super) fn refuse<F: SequenceService>(
        self,
        endpoint: &Endpoint<F>,
        replies: &mut Replies,
        refusal: &KeyRefusal,
    ) {
        match (self, refusal) {
            (Counter::Uid(_), KeyRefusal::Numbers(refusal)) => {
                if endpoint.has_no_routes() && Reason::of(refusal).retry().after().is_some() {
                    loading(replies);
                } else {
                    refuse(replies, refusal);
                }
            }
            _ => refuse_key(endpoint, replies, refusal),
        }
    }
}

impl fmt::Display for Counter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counter::Uid(uid) => write!(f, "uid {uid}"),
            Counter::Key(key) => write!(f, "key {}", Excerpt(key.bytes)),
        }
    }
}
