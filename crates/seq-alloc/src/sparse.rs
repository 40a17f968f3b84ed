//! Calls for sparse uids, which are the uids that the set files do not declare. They are keys of the cluster's keyspace
//! of uids, and calls for them continue as calls for keys. A call for a declared uid never comes here, because only the
//! failed search for a uid's section leads here.
//!
//! **Invariant:** only uids that a caller sent are treated in this way. In messages between nodes, and in calls for
//! ids, a number above the declared uids is the address of a lane.

use std::sync::Arc;

use seq_api::keys::{KeyedItem, KeyedItems, Keyspace};
use seq_api::service::{Call, DecodedItem, Item, ItemReply, Via};
use seq_core::{Refusal, SectionId, Uid};

use crate::ownership::Serving;
use crate::pending::ItemResult;
use crate::shared::Shared;
use crate::work::OnUids;

/// Items of a call whose uids are sparse, as a call for keys.
#[derive(Debug)]
pub(crate) struct SparseItems {
    pub(crate) keyed: KeyedItems,
    /// For each of these items, its index in the call and its uid.
    places: Vec<(usize, Uid)>,
}

impl SparseItems {
    /// Returns the results of these items, each with the index of its item in the call.
    pub(crate) fn of_call<T>(&self, results: Vec<Result<T, Refusal>>) -> impl Iterator<Item = ItemResult<T>> {
        let placed = self.places.iter().zip(results);
        placed.map(|((index, uid), result)| (*index, result.map_err(|refusal| about(*uid, refusal))))
    }
}

/// Returns the refusal of a key as the refusal of a uid.
fn about(uid: Uid, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::AlreadyPast { .. } => Refusal::AlreadyPast { uid },
        Refusal::Exhausted { count, .. } => Refusal::Exhausted { uid, count },
        refusal => refusal,
    }
}

impl Shared {
    /// Returns the call for keys that replaces the items of uids in no section; `None` if these uids are refused
    /// because the cluster has no keyspace of uids. Each item comes with its index in the call.
    ///
    /// # Errors
    /// [`Refusal::Unserved`] if this node has just started and does not know yet whether the cluster has a keyspace of
    /// uids, or if it does not know the keyspace's seed yet.
    #[cold]
    pub(crate) fn sparse(
        &self,
        via: Via,
        items: impl Iterator<Item = (usize, Item)>,
    ) -> Result<Option<SparseItems>, Refusal> {
        if matches!(via, Via::Id | Via::Forwarded) {
            return Ok(None);
        }
        let Some(keyspace) = self.ownership.series().of_uids().cloned() else {
            let section = SectionId(self.config.layout.sections());
            return if self.routes().is_some() { Ok(None) } else { Err(Refusal::Unserved { section }) };
        };
        let digest = keyspace.hashing.digest();
        let mut sparse = SparseItems { keyed: KeyedItems { digest, items: Vec::new() }, places: Vec::new() };
        // Another node may have refused a declared uid as it refuses a sparse uid, if its set file is another one.
        for (index, item) in items.filter(|(_, item)| !self.config.layout.uids().contains(&item.uid.0)) {
            sparse.keyed.items.push(keyed(&keyspace, &item)?);
            sparse.places.push((index, item.uid));
        }
        Ok(Some(sparse))
    }

    /// Serves the items of sparse uids that can be served now, and replaces their refusals in `replies`, which are the
    /// replies of [`Shared::first_pass`] to the items.
    #[cold]
    pub(crate) fn first_pass_of_sparse<W: OnUids>(
        &self,
        work: &W,
        via: Via,
        serving: Option<&Serving<'_>>,
        items: &[DecodedItem],
        replies: &mut [ItemReply<W::Output>],
    ) {
        let is_outside = |reply: &ItemReply<_>| matches!(reply, Some(Err(Refusal::UidOutOfRange { .. })));
        let outside: Vec<_> = items_where(items, replies, is_outside).collect();
        match self.sparse(via, outside.iter().copied()) {
            Ok(Some(sparse)) => {
                let mut of_keys = Vec::with_capacity(sparse.places.len());
                self.first_pass_of_keys(&work.of_keys(&sparse.keyed), via, serving, &sparse.keyed, &mut of_keys);
                for ((index, uid), reply) in sparse.places.iter().zip(of_keys) {
                    replies[*index] = reply.map(|result| result.map_err(|refusal| about(*uid, refusal)));
                }
            }
            Ok(None) => {}
            Err(refusal) => outside.iter().for_each(|(index, _)| replies[*index] = Some(Err(refusal))),
        }
    }

    /// Completes the items that a first pass left pending and whose uids are in no section. Returns their results, each
    /// with the index of its item in the call.
    pub(crate) async fn complete_sparse<W: OnUids>(
        &self,
        work: &W,
        call: Call,
        items: &[DecodedItem],
        replies: &[ItemReply<W::Output>],
    ) -> Vec<ItemResult<W::Output>> {
        let pending = items_where(items, replies, Option::is_none);
        let pending: Vec<_> = pending.filter(|(_, item)| self.locate(item.uid, call.via).is_err()).collect();
        match self.sparse(call.via, pending.iter().copied()) {
            Ok(Some(sparse)) => {
                let open = sparse.places.iter().map(|_| None).collect();
                let results = self.complete_keys(&work.of_keys(&sparse.keyed), call, &sparse.keyed, open).await;
                sparse.of_call(results).collect()
            }
            Ok(None) => {
                let refusal = |(index, item): (usize, Item)| Some((index, Err(self.locate(item.uid, call.via).err()?)));
                pending.into_iter().filter_map(refusal).collect()
            }
            Err(refusal) => pending.into_iter().map(|(index, _)| (index, Err(refusal))).collect(),
        }
    }
}

/// Returns the items with replies for which `chosen` returns true, each with its index.
fn items_where<'a, T>(
    items: &'a [DecodedItem],
    replies: &'a [ItemReply<T>],
    chosen: impl Fn(&ItemReply<T>) -> bool + 'a,
) -> impl Iterator<Item = (usize, Item)> + 'a {
    let chosen = items.iter().zip(replies).enumerate().filter(move |(_, (_, reply))| chosen(reply));
    chosen.filter_map(|(index, (item, _))| Some((index, (*item).ok()?)))
}

fn keyed(keyspace: &Arc<Keyspace>, item: &Item) -> Result<KeyedItem, Refusal> {
    let Item { uid, count, epoch } = *item;
    let key = keyspace.locate_uid(uid).ok_or(Refusal::Unserved { section: keyspace.buckets.first })?;
    Ok(KeyedItem { key, count, epoch })
}
