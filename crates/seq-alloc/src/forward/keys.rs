//! Forwards calls for keys to the owners of their buckets. The owners get the hashes of the keys.

use std::collections::BTreeMap;

use seq_api::keys::KeyedItems;
use seq_api::service::{Allocation, Call, Current};
use seq_core::{Epoch, Refusal, Target};
use seq_proto::v1;
use seq_proto::v1::key_owner_service_client::KeyOwnerServiceClient;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::response::{Failure, read};
use super::{ForwardTarget, receive, timed, timed_out};
use crate::pending_item::PendingItem;
use crate::shared::Shared;

impl Shared {
    /// Sends a request to the owner of buckets.
    async fn send_hashed<Q, A>(
        &self,
        call: &Call,
        to: &ForwardTarget,
        message: Q,
        method: impl AsyncFnOnce(KeyOwnerServiceClient<Channel>, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        let (channel, left) = self.open(call, to)?;
        let owner = KeyOwnerServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        receive(to, left, method(owner, timed(message, left))).await
    }

    /// Allocates numbers for several items with a request to the common owner of their buckets. The results are in the
    /// order of the items.
    pub(crate) async fn forward_next_keys(
        &self,
        call: Call,
        to: &ForwardTarget,
        keys: &KeyedItems,
        items: &[PendingItem],
    ) -> Vec<Result<Allocation, Refusal>> {
        let counts = items.iter().map(|item| item.item.count.get()).collect();
        let message = v1::HashedKeysRequest { counts, ..hashed(&call, keys, items) };
        match self.send_hashed(&call, to, message, async |mut owner, request| owner.next_hashed(request).await).await {
            Ok(response) => {
                let v1::NextManyResponse { values, prevs, epochs, errors, lost, .. } = response;
                let lost = lost.unwrap_or_default();
                let lost: BTreeMap<_, _> = lost.indexes.into_iter().zip(lost.attempts).collect();
                let lost = |at: usize| lost.get(&(at as u32)).copied().unwrap_or(0);
                self.item_results(to, items, errors, |at| {
                    self.given(*values.get(at)?, *prevs.get(at)?, *epochs.get(at)?, lost(at))
                })
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// Reads the last numbers of several keys with a request to the common owner of their buckets. The results are in
    /// the order of the items.
    pub(crate) async fn forward_current_keys(
        &self,
        call: Call,
        to: &ForwardTarget,
        keys: &KeyedItems,
        items: &[PendingItem],
    ) -> Vec<Result<Current, Refusal>> {
        let message = hashed(&call, keys, items);
        match self.send_hashed(&call, to, message, async |mut owner, request| owner.current_hashed(request).await).await
        {
            Ok(response) => {
                let v1::CurrentManyResponse { values, exactness, epochs, errors, .. } = response;
                self.item_results(to, items, errors, |at| read(*values.get(at)?, *exactness.get(at)?, *epochs.get(at)?))
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// Advances one key at the owner of its bucket.
    pub(crate) async fn forward_advance_key(
        &self,
        call: Call,
        owner: &ForwardTarget,
        keys: &KeyedItems,
        item: &PendingItem,
        to: Target,
    ) -> Result<Epoch, Refusal> {
        let to = to.seq().0;
        let message = v1::AdvanceHashedRequest { key: Some(hashed(&call, keys, std::slice::from_ref(item))), to };
        match self
            .send_hashed(&call, owner, message, async |mut owner, request| owner.advance_hashed(request).await)
            .await
        {
            Ok(response) if response.epoch > 0 => Ok(Epoch(response.epoch)),
            Ok(_) => Err(timed_out(item.section, owner)),
            Err(failure) => Err(failure.refusal(owner.destination(), item, Some(to), &self.config.layout)),
        }
    }
}

/// Returns the request for the keys of `items`, without counts.
fn hashed(call: &Call, keys: &KeyedItems, items: &[PendingItem]) -> v1::HashedKeysRequest {
    v1::HashedKeysRequest {
        digest: keys.digest,
        sections: items.iter().map(|item| item.section.0).collect(),
        hashes: items.iter().flat_map(|item| keys.items[item.index].key.hash.to_bytes()).collect(),
        counts: Vec::new(),
        known_epochs: items.iter().map(|item| item.item.epoch.0).collect(),
        hops: call.hops + 1,
    }
}
