//! Handlers of requests to `KeyService` and `KeyOwnerService`. The node that receives a request computes the buckets
//! and the hashes of its keys, so the keys themselves leave the node only in responses to its caller.

use std::sync::Arc;

use seq_api::keys::{HashedKey, KeyRefused, KeyedItem, KeyedItems, Keyspace, WholeKey};
use seq_api::service::{Allocation, Call, Current, Item, ItemReply, SequenceService};
use seq_core::keyspace::KeyHash;
use seq_core::{Count, Epoch, RouteVersion, SectionId, Target, Uid, limits};
use seq_proto::convert;
use seq_proto::v1;
use seq_tenant::Caller;

use crate::handlers::{Handlers, RequestContext, exactness};

mod refusal;
mod stream;

pub(crate) use refusal::KeyRefusal;

/// A key of a request: its text, or its bytes.
type Key<'a> = &'a [u8];

impl<F: SequenceService> Handlers<F> {
    pub(crate) async fn next_key(
        &self,
        context: RequestContext,
        request: v1::NextKeyRequest,
    ) -> Result<v1::NextResponse, KeyRefusal> {
        let call = context.call(0)?;
        let _sample = self.latency.sample(call.via);
        let key = one_key(&request.key, &request.raw_key)?;
        let keyspace = self.admitted_with(&context.caller, &request.keyspace, key)?;
        let count = convert::count(request.count)?;
        let mut admitted = [Ok(admitted_item(count))];
        context.caller.admit_counts(&mut admitted);
        let [admitted] = admitted;
        let item = WholeKey { key, count: admitted?.count, epoch: Epoch(request.epoch) };
        let allocation = one(self.service.next_whole_keys(call, &keyspace, &[item]).await)
            .map_err(|refused| KeyRefusal::of_whole(refused, &keyspace.name, key))?;
        Ok(v1::NextResponse {
            value: allocation.value.0,
            prev: allocation.prev.0,
            epoch: allocation.epoch.0,
            routes: self.newer_routes(request.route_version),
            lost: Some(allocation.lost).filter(|lost| *lost > 0),
        })
    }

    pub(crate) async fn next_keys(
        &self,
        context: RequestContext,
        request: v1::NextKeysRequest,
    ) -> Result<v1::NextManyResponse, KeyRefusal> {
        self.next_keys_by(context, request, false).await
    }

    /// Allocates numbers of many keys. If `now_only` is true, refuses items that would have to wait or that another
    /// node owns.
    pub(crate) async fn next_keys_by(
        &self,
        context: RequestContext,
        request: v1::NextKeysRequest,
        now_only: bool,
    ) -> Result<v1::NextManyResponse, KeyRefusal> {
        let call = context.call(0)?;
        let _sample = self.latency.sample(call.via);
        let v1::NextKeysRequest { keyspace, keys, raw_keys, counts, route_version, known_epochs } = &request;
        let keys = many_keys(keys, raw_keys)?;
        let lists = convert::items(keys.len(), counts, known_epochs)?;
        context.memory.add_items(keys.len())?;
        let keyspace = self.admitted(&context.caller, keyspace)?;
        let is_taken = admitted_keys(&context.caller, &keyspace, &keys);
        // Items that are refused for their keys take no part in the quotas of the tenant.
        let own = || is_taken.iter().enumerate().filter_map(|(index, is_taken)| is_taken.then_some(index));
        let counts: Vec<_> = lists.map(|(count, _)| count.map(admitted_item)).collect();
        let mut admitted: Vec<_> = own().map(|index| counts[index]).collect();
        context.caller.admit_counts(&mut admitted);
        let epoch = |index: usize| Epoch(known_epochs.get(index).copied().unwrap_or(0));
        let taken = own().zip(&admitted).filter_map(|(index, item)| Some((index, item.ok()?.count)));
        let taken = taken.map(|(index, count)| WholeKey { key: keys[index], count, epoch: epoch(index) });
        let taken: Vec<_> = taken.collect();
        let of_whole = |(item, result): (&WholeKey<'_>, Result<Allocation, KeyRefused>)| {
            result.map_err(|refused| KeyRefusal::of_whole(refused, &keyspace.name, item.key))
        };
        let results: Vec<Result<Allocation, KeyRefusal>> = if taken.is_empty() {
            Vec::new()
        } else if now_only {
            let replies = keyspace.hashed(&taken).map(|items| self.service.try_next_keys(call.via, &items));
            // A node without the seed forwards keys, so each of them would have to wait.
            let replies = replies.unwrap_or_else(|_| vec![None; taken.len()]);
            let reply = |(item, reply): (_, ItemReply<Allocation>)| {
                of_whole((item, reply.ok_or(KeyRefusal::WouldWait)?.map_err(KeyRefused::Numbers)))
            };
            taken.iter().zip(replies).map(reply).collect()
        } else {
            let results = self.service.next_whole_keys(call, &keyspace, &taken).await;
            taken.iter().zip(results).map(of_whole).collect()
        };
        let mut taken = results.into_iter();
        let mut admitted = admitted.into_iter();
        let results = is_taken.iter().zip(&keys).map(|(is_taken, key)| {
            if !is_taken {
                return Err(refused_key(&keyspace, key));
            }
            let item = admitted.next().expect("an item for each admitted key");
            item.map_err(|refusal| KeyRefusal::of(refusal, key))?;
            taken.next().expect("a result for each admitted item")
        });
        let mut response =
            v1::NextManyResponse { routes: self.newer_routes(*route_version), ..v1::NextManyResponse::default() };
        for (index, result) in (0..).zip(results) {
            push_allocation(&mut response, index, result, |index, refusal| refusal.item(index, context.deadline));
        }
        Ok(response)
    }

    pub(crate) async fn current_key(
        &self,
        context: RequestContext,
        request: v1::CurrentKeyRequest,
    ) -> Result<v1::CurrentResponse, KeyRefusal> {
        let call = context.call(0)?;
        let _sample = self.latency.sample(call.via);
        let key = one_key(&request.key, &request.raw_key)?;
        let keyspace = self.admitted_with(&context.caller, &request.keyspace, key)?;
        let item = WholeKey { key, count: Count::ONE, epoch: Epoch(request.epoch) };
        let current = one(self.service.current_whole_keys(call, &keyspace, &[item]).await)
            .map_err(|refused| KeyRefusal::of_whole(refused, &keyspace.name, key))?;
        Ok(v1::CurrentResponse {
            value: current.reading.value.0,
            exactness: exactness(current.reading.exact).into(),
            epoch: current.epoch.0,
            routes: self.newer_routes(request.route_version),
        })
    }

    pub(crate) async fn current_keys(
        &self,
        context: RequestContext,
        request: v1::CurrentKeysRequest,
    ) -> Result<v1::CurrentManyResponse, KeyRefusal> {
        let call = context.call(0)?;
        let _sample = self.latency.sample(call.via);
        let v1::CurrentKeysRequest { keyspace, keys, raw_keys, route_version, known_epochs } = &request;
        let keys = many_keys(keys, raw_keys)?;
        let lists = convert::items(keys.len(), &[], known_epochs)?;
        context.memory.add_items(keys.len())?;
        let keyspace = self.admitted(&context.caller, keyspace)?;
        let is_read = admitted_keys(&context.caller, &keyspace, &keys);
        let own = keys.iter().zip(lists).zip(&is_read).filter(|(_, is_read)| **is_read);
        let read: Vec<_> = own.map(|((key, (_, epoch)), _)| WholeKey { key, count: Count::ONE, epoch }).collect();
        let mut read = match read.is_empty() {
            true => Vec::new(),
            false => self.service.current_whole_keys(call, &keyspace, &read).await,
        }
        .into_iter();
        let mut response =
            v1::CurrentManyResponse { routes: self.newer_routes(*route_version), ..v1::CurrentManyResponse::default() };
        for (index, (is_read, key)) in (0..).zip(is_read.into_iter().zip(keys)) {
            let result = if is_read {
                let result = read.next().expect("a result for each admitted key");
                result.map_err(|refused| KeyRefusal::of_whole(refused, &keyspace.name, key))
            } else {
                Err(refused_key(&keyspace, key))
            };
            push_current(&mut response, index, result, |index, refusal| refusal.item(index, context.deadline));
        }
        Ok(response)
    }

    pub(crate) async fn advance_key(
        &self,
        context: RequestContext,
        request: v1::AdvanceKeyRequest,
    ) -> Result<v1::AdvanceResponse, KeyRefusal> {
        let call = context.call(0)?;
        let _sample = self.latency.sample(call.via);
        let key = one_key(&request.key, &request.raw_key)?;
        let to = convert::to(request.to, 0)?;
        let keyspace = self.admitted_with(&context.caller, &request.keyspace, key)?;
        let item = WholeKey { key, count: Count::ONE, epoch: Epoch(request.epoch) };
        let refused = |refused| KeyRefusal::of_whole(refused, &keyspace.name, key);
        if context.caller.is_limited() {
            // Numbers only grow. If numbers are allocated after this read, the real distance is smaller.
            let read = self.service.current_whole_keys(call, &keyspace, &[item]).await;
            let current = one(read).map_err(refused)?;
            context.caller.admit_distance(current.reading.value, to.seq())?;
        }
        let epoch = self.service.advance_whole_key(call, &keyspace, item, to).await.map_err(refused)?;
        Ok(v1::AdvanceResponse { epoch: epoch.0, routes: self.newer_routes(request.route_version) })
    }

    /// Counts a request under the quota of its caller's tenant, and returns the keyspace with this name.
    ///
    /// # Errors
    /// The refusal of a request that exceeds the caller's rate, [`KeyRefusal::OtherTenantsKeyspace`],
    /// [`KeyRefusal::UnknownKeyspace`], or [`KeyRefusal::NoRoutes`] if this node has no routes yet and therefore knows
    /// no keyspace.
    fn admitted(&self, caller: &Caller, name: &str) -> Result<Arc<Keyspace>, KeyRefusal> {
        admit_keyspace(caller, name)?;
        find_keyspace(&self.service, name)
    }

    /// Returns the keyspace with this name, as [`Handlers::admitted`] does, for a request for `key`.
    ///
    /// # Errors
    /// As [`Handlers::admitted`], and [`KeyRefusal::OtherTenantsKey`].
    fn admitted_with(&self, caller: &Caller, name: &str, key: Key<'_>) -> Result<Arc<Keyspace>, KeyRefusal> {
        admit(caller, name, key)?;
        find_keyspace(&self.service, name)
    }

    pub(crate) async fn next_hashed(
        &self,
        context: RequestContext,
        request: v1::HashedKeysRequest,
    ) -> Result<v1::NextManyResponse, KeyRefusal> {
        let (call, items) = hashed(&context, &request)?;
        let _sample = self.latency.sample(call.via);
        let mut response = v1::NextManyResponse::default();
        for (index, result) in (0..).zip(self.service.next_keys(call, items).await) {
            push_allocation(&mut response, index, result, |index, refusal| context.deadline.item(index, &refusal));
        }
        Ok(response)
    }

    pub(crate) async fn current_hashed(
        &self,
        context: RequestContext,
        request: v1::HashedKeysRequest,
    ) -> Result<v1::CurrentManyResponse, KeyRefusal> {
        let (call, items) = hashed(&context, &request)?;
        let _sample = self.latency.sample(call.via);
        let mut response = v1::CurrentManyResponse::default();
        for (index, result) in (0..).zip(self.service.current_keys(call, items).await) {
            push_current(&mut response, index, result, |index, refusal| context.deadline.item(index, &refusal));
        }
        Ok(response)
    }

    pub(crate) async fn advance_hashed(
        &self,
        context: RequestContext,
        request: v1::AdvanceHashedRequest,
    ) -> Result<v1::AdvanceResponse, KeyRefusal> {
        let (call, items) = hashed(&context, &request.key.unwrap_or_default())?;
        if items.items.len() != 1 {
            return Err(KeyRefusal::Malformed("a request advances one key".to_owned()));
        }
        let _sample = self.latency.sample(call.via);
        let to = Target::new(request.to)?;
        let epoch = one(self.service.advance_keys(call, items, to).await)?;
        Ok(v1::AdvanceResponse { epoch: epoch.0, routes: None })
    }
}

/// Counts a request for a key under the quota of its caller's tenant, and checks that the tenant may use the key.
///
/// # Errors
/// As [`admit_keyspace`], and [`KeyRefusal::OtherTenantsKey`].
pub(crate) fn admit(caller: &Caller, keyspace: &str, key: Key<'_>) -> Result<(), KeyRefusal> {
    admit_keyspace(caller, keyspace)?;
    if caller.admit_key(keyspace, key) { Ok(()) } else { Err(KeyRefusal::other_tenants(keyspace, key)) }
}

/// Counts a request under the quota of its caller's tenant, and checks that the tenant may use keys of the keyspace.
///
/// # Errors
/// The refusal of a request that exceeds the caller's rate, [`KeyRefusal::OtherTenantsKeyspace`].
fn admit_keyspace(caller: &Caller, keyspace: &str) -> Result<(), KeyRefusal> {
    caller.admit_read()?;
    if caller.admit_keyspace(keyspace) {
        Ok(())
    } else {
        Err(KeyRefusal::OtherTenantsKeyspace { keyspace: refusal::excerpt(keyspace) })
    }
}

/// Returns the keyspace with this name.
///
/// # Errors
/// [`KeyRefusal::UnknownKeyspace`], or [`KeyRefusal::NoRoutes`] if this node has no routes yet and therefore knows no
/// keyspace.
pub(crate) fn find_keyspace<F: SequenceService>(service: &F, name: &str) -> Result<Arc<Keyspace>, KeyRefusal> {
    service.keyspace(name).ok_or_else(|| match service.route_version() {
        RouteVersion(0) => KeyRefusal::NoRoutes { keyspace: refusal::excerpt(name) },
        _ => KeyRefusal::UnknownKeyspace { keyspace: refusal::excerpt(name) },
    })
}

/// Decodes the keys that another node has forwarded.
fn hashed(context: &RequestContext, request: &v1::HashedKeysRequest) -> Result<(Call, KeyedItems), KeyRefusal> {
    let v1::HashedKeysRequest { digest, sections, hashes, counts, known_epochs, hops } = request;
    if *hops == 0 {
        return Err(KeyRefusal::Malformed("hashes of keys come from nodes, which state their hops".to_owned()));
    }
    let call = context.call(*hops)?;
    let (hashes, cut) = hashes.as_chunks::<16>();
    if hashes.len() != sections.len() || !cut.is_empty() {
        let text = format!("{} sections and {} whole hashes", sections.len(), hashes.len());
        return Err(KeyRefusal::Malformed(text));
    }
    let lists = convert::items(sections.len(), counts, known_epochs)?;
    context.memory.add_items(sections.len())?;
    let mut items = Vec::with_capacity(sections.len());
    for ((section, hash), (count, epoch)) in sections.iter().zip(hashes).zip(lists) {
        let hash = KeyHash::from_bytes(*hash);
        let hash = hash.ok_or_else(|| KeyRefusal::Malformed("no key has one of the hashes".to_owned()))?;
        items.push(KeyedItem { key: HashedKey { section: SectionId(*section), hash }, count: count?, epoch });
    }
    Ok((call, KeyedItems { digest: *digest, items }))
}

/// Returns the item that the quotas of tenants check. They check only its count.
pub(crate) fn admitted_item(count: Count) -> Item {
    Item { uid: Uid(0), count, epoch: Epoch(0) }
}

/// Returns the key of a request.
///
/// # Errors
/// [`KeyRefusal::KeySize`], or [`KeyRefusal::Malformed`] if the request has a text and bytes.
fn one_key<'a>(key: &'a str, raw_key: &'a [u8]) -> Result<Key<'a>, KeyRefusal> {
    match (key.as_bytes(), raw_key) {
        (key, []) | ([], key) => checked(key),
        _ => Err(KeyRefusal::Malformed("send the key as `key` or as `raw_key`, not as both".to_owned())),
    }
}

/// Returns the keys of a batch, which may be of any size: a key of a bad size refuses its item alone.
///
/// # Errors
/// [`KeyRefusal::Malformed`] if the request has texts and bytes.
fn many_keys<'a>(keys: &'a [String], raw_keys: &'a [Vec<u8>]) -> Result<Vec<Key<'a>>, KeyRefusal> {
    match (keys, raw_keys) {
        (keys, []) => Ok(keys.iter().map(String::as_bytes).collect()),
        ([], keys) => Ok(keys.iter().map(Vec::as_slice).collect()),
        _ => Err(KeyRefusal::Malformed("send the keys as `keys` or as `raw_keys`, not as both".to_owned())),
    }
}

/// Returns for each key of a batch whether its size is right and its tenant may use it.
fn admitted_keys(caller: &Caller, keyspace: &Keyspace, keys: &[Key<'_>]) -> Vec<bool> {
    keys.iter().map(|key| checked(key).is_ok() && caller.admit_key(&keyspace.name, key)).collect()
}

/// Returns the refusal of a key for which [`admitted_keys`] has returned `false`.
fn refused_key(keyspace: &Keyspace, key: Key<'_>) -> KeyRefusal {
    checked(key).err().unwrap_or_else(|| KeyRefusal::other_tenants(&keyspace.name, key))
}

/// Checks the size of a key.
pub(crate) fn checked(key: &[u8]) -> Result<Key<'_>, KeyRefusal> {
    match key.len() {
        1..=limits::MAX_KEY_BYTES => Ok(key),
        bytes => Err(KeyRefusal::KeySize { bytes }),
    }
}

/// Returns the only result.
pub(crate) fn one<T>(results: Vec<T>) -> T {
    results.into_iter().next().expect("one result for one item")
}

/// Adds the result of an item to a response. `refused` encodes a refusal of the item at an index.
fn push_allocation<E>(
    response: &mut v1::NextManyResponse,
    index: u32,
    result: Result<Allocation, E>,
    refused: impl FnOnce(u32, E) -> v1::ItemError,
) {
    let (value, prev, epoch) = match result {
        Ok(Allocation { value, prev, epoch, lost }) => {
            if lost > 0 {
                let all = response.lost.get_or_insert_default();
                all.indexes.push(index);
                all.attempts.push(lost);
            }
            (value.0, prev.0, epoch.0)
        }
        Err(refusal) => {
            response.errors.push(refused(index, refusal));
            (0, 0, 0)
        }
    };
    response.values.push(value);
    response.prevs.push(prev);
    response.epochs.push(epoch);
}

/// Adds the result of an item to a response, as [`push_allocation`] does.
fn push_current<E>(
    response: &mut v1::CurrentManyResponse,
    index: u32,
    result: Result<Current, E>,
    refused: impl FnOnce(u32, E) -> v1::ItemError,
) {
    let (value, exactness, epoch) = match result {
        Ok(Current { reading, epoch }) => (reading.value.0, exactness(reading.exact), epoch.0),
        Err(refusal) => {
            response.errors.push(refused(index, refusal));
            (0, v1::Exactness::Unspecified, 0)
        }
    };
    response.values.push(value);
    response.exactness.push(exactness.into());
    response.epochs.push(epoch);
}
