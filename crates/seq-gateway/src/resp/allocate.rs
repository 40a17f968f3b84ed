//! Allocates the numbers of a batch of INCR commands with one request to the service, and writes the replies.

use seq_api::keys::{KeyedItem, KeyedItems, Keyspace};
use seq_api::service::{Allocation, DecodedItem, ItemReply, Redirects, SequenceService, Via};
use seq_core::Refusal;
use seq_kit::memory::{Account, OutOfMemory};
use seq_tenant::Caller;

use crate::keys::{self, KeyRefusal};
use crate::memory::ITEM_BYTES;
use crate::resp::Endpoint;
use crate::resp::commands::{self, call};
use crate::resp::encode::Replies;
use crate::resp::incr_batch::{Items, Keys, keys_of};

/// Sender of a batch.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) caller: &'a Caller,
    /// Account of the connection's memory.
    pub(super) account: &'a Account,
    /// Treatment of items whose sections other nodes of its set own.
    pub(super) redirects: Redirects,
}

/// Allocates the numbers of a batch and writes the replies. `batch` has the encoded commands of the items.
pub(super) async fn allocate<F: SequenceService>(
    endpoint: &Endpoint<F>,
    sender: Sender<'_>,
    (batch, keys): (&[u8], Keys<'_>),
    items: &mut Items,
    results: &mut Vec<ItemReply<Allocation>>,
    replies: &mut Replies,
) {
    if !items.uids.is_empty() {
        of_uids(endpoint, sender, &mut items.uids, results, replies).await;
    }
    if let Some(keyspace) = keys.keyspace.filter(|_| !items.keys.is_empty()) {
        let items = std::mem::take(&mut items.keys);
        of_keys(endpoint, sender, (batch, keyspace), items, replies).await;
    }
}

async fn of_uids<F: SequenceService>(
    endpoint: &Endpoint<F>,
    Sender { caller, account, redirects }: Sender<'_>,
    items: &mut Vec<DecodedItem>,
    results: &mut Vec<ItemReply<Allocation>>,
    replies: &mut Replies,
) {
    let service = &endpoint.service;
    let _sample = endpoint.latency.sample(Via::Resp);
    caller.admit_commands(items);
    service.try_next_batch(Via::Resp, items, results);
    // Without routes no owner is known. The client gets the error at once and may retry.
    if results.iter().any(Option::is_none) && !endpoint.has_no_routes() {
        match account.charge(items.len() * ITEM_BYTES) {
            Ok(_pending) => service.complete_batch(call(redirects), items, results).await,
            Err(OutOfMemory) => results.iter_mut().for_each(|result| {
                result.get_or_insert(Err(Refusal::OutOfMemory));
            }),
        }
    }
    for result in results.drain(..) {
        match result {
            Some(Ok(allocation)) => replies.integer(allocation.value.0),
            Some(Err(refusal)) => commands::refuse(replies, &refusal),
            None => commands::loading(replies),
        }
    }
    items.clear();
}

/// Allocates the numbers of keys, as [`of_uids`] allocates the numbers of uids. The service gets all items that the
/// limits of the caller's tenant admit.
async fn of_keys<F: SequenceService>(
    endpoint: &Endpoint<F>,
    Sender { caller, account, redirects }: Sender<'_>,
    (batch, keyspace): (&[u8], &Keyspace),
    mut items: Vec<KeyedItem>,
    replies: &mut Replies,
) {
    let _sample = endpoint.latency.sample(Via::Resp);
    let commands = items.len();
    let mut refused = if caller.is_limited() { admit(caller, (batch, keyspace), &mut items) } else { Vec::new() };
    let results = match account.charge(items.len() * ITEM_BYTES) {
        Ok(_) if items.is_empty() => Vec::new(),
        Ok(_pending) => {
            let items = KeyedItems { digest: keyspace.hashing.digest(), items };
            endpoint.service.next_keys(call(redirects), items).await
        }
        Err(OutOfMemory) => vec![Err(Refusal::OutOfMemory); items.len()],
    };
    let mut results = results.into_iter();
    for index in 0..commands {
        let refusal = match refused.get_mut(index).and_then(Option::take) {
            Some(refusal) => refusal,
            None => match results.next().expect("a result for each admitted item") {
                Ok(allocation) => {
                    replies.integer(allocation.value.0);
                    continue;
                }
                Err(refusal) => KeyRefusal::of(refusal, keys_of(batch).nth(index).unwrap_or_default()),
            },
        };
        commands::refuse_key(endpoint, replies, &refusal);
    }
}

/// Counts each item as a request of its own under the quotas of the caller's tenant, and removes the items that the
/// tenant may not allocate. Returns the refusals of all items, in order; `None` for an item that is admitted.
fn admit(
    caller: &Caller,
    (batch, keyspace): (&[u8], &Keyspace),
    items: &mut Vec<KeyedItem>,
) -> Vec<Option<KeyRefusal>> {
    let mut refused: Vec<_> = keys_of(batch).map(|key| keys::admit(caller, &keyspace.name, key).err()).collect();
    let open = items.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
    let mut admitted: Vec<DecodedItem> = open.map(|(item, _)| Ok(keys::admitted_item(item.count))).collect();
    caller.admit_counts(&mut admitted);
    for (refused, admitted) in refused.iter_mut().filter(|refused| refused.is_none()).zip(admitted) {
        *refused = admitted.err().map(KeyRefusal::from);
    }
    let mut each = refused.iter();
    items.retain(|_| each.next().is_some_and(Option::is_none));
    refused
}
