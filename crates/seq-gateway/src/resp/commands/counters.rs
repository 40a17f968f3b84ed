//! The counters that keys of Redis name: the counters of uids, and of the keys of the keyspace in the settings. A
//! command does the same with either kind.

use std::fmt;
use std::sync::Arc;

use seq_api::keys::{KeyRefused, Keyspace, WholeKey};
use seq_api::service::{Allocation, Call, Current, Item, SequenceService};
use seq_core::{Count, Epoch, Target, Uid};
use seq_proto::Reason;
use seq_tenant::Caller;

use super::{keys, loading, refuse, refuse_key};
use crate::keys::{KeyRefusal, admit, admitted_item, checked, one};
use crate::resp::encode::{Excerpt, Replies};
use crate::resp::{Endpoint, Node};

/// The result of [`Endpoint::keyspace`].
pub(super) type FoundKeyspace = Result<Option<Arc<Keyspace>>, KeyRefusal>;

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
    keyspace: &'a Keyspace,
}

/// End of the error of a key that would be a key of the keyspace if the settings named one.
const WITHOUT_KEYSPACE: &str = "; for keys of any bytes, set redis.keyspace to the name of a keyspace";

/// Finds the counter that a key names. `keyspace` is the result of [`Endpoint::keyspace`]. Encodes an error if the key
/// names no counter, or if the keyspace is not known.
pub(super) fn find<'a, F: SequenceService>(
    endpoint: &Endpoint<F>,
    keyspace: &'a FoundKeyspace,
    key: &'a [u8],
    replies: &mut Replies,
) -> Option<Counter<'a>> {
    match resolve(&endpoint.node, keyspace, key) {
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
/// The error of `keyspace`, or [`KeyRefusal::KeySize`].
pub(super) fn resolve<'a>(
    node: &Node,
    keyspace: &'a FoundKeyspace,
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
    Ok(Some(Counter::Key(Key { bytes: checked(bytes)?, keyspace })))
}

impl Key<'_> {
    /// Returns the item of a request for the key.
    pub(super) fn item(&self, count: Count) -> WholeKey<'_> {
        WholeKey { key: self.bytes, count, epoch: Epoch(0) }
    }

    /// Returns the refusal of a request for the key.
    pub(super) fn refused(self, refused: KeyRefused) -> KeyRefusal {
        KeyRefusal::of_whole(refused, &self.keyspace.name, self.bytes)
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
                let given = endpoint.service.next_whole_keys(call, key.keyspace, &[key.item(admitted?.count)]).await;
                one(given).map_err(|refused| key.refused(refused))
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
                let read = endpoint.service.current_whole_keys(call, key.keyspace, &[key.item(Count::ONE)]).await;
                one(read).map_err(|refused| key.refused(refused))
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
                let (item, refused) = (key.item(Count::ONE), |refused| key.refused(refused));
                if caller.is_limited() {
                    let read = service.current_whole_keys(call, key.keyspace, &[item]).await;
                    caller.admit_distance(one(read).map_err(refused)?.reading.value, to.seq())?;
                }
                service.advance_whole_key(call, key.keyspace, item, to).await.map_err(refused)?;
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
