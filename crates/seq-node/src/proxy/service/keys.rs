//! Calls for keys at a proxy. They go to the owners of the keys' buckets with the SDK, and the keys go with them.

use seq_api::keys::{KeyRefused, Keyspace, WholeKey};
use seq_api::service::{Allocation, Call, Current};
use seq_client::CallError;
use seq_core::{Epoch, NodeId, Refusal, Target, Uid};
use seq_proto::Reason;

use super::{ProxyService, allocation, current};

/// Returns a keyspace in the form that endpoints use.
pub(super) fn served(keyspace: &seq_client::Keyspace) -> Keyspace {
    let (name, hashing, buckets) = (keyspace.name().to_owned(), keyspace.hashing(), keyspace.buckets());
    Keyspace { name, hashing, buckets }
}

impl ProxyService {
    pub(super) async fn next_keys_at_owners(
        &self,
        call: Call,
        keyspace: &Keyspace,
        keys: &[WholeKey<'_>],
    ) -> Vec<Result<Allocation, KeyRefused>> {
        let Some(known) = self.client(call).known_keyspace(&keyspace.name) else { return unserved(keyspace, keys) };
        if let [key] = keys {
            let result = known.next_n(key.key, key.count.get()).await;
            return vec![result.map(allocation).map_err(|error| self.key_refusal(&known, key, &error, None))];
        }
        let items: Vec<(&[u8], u32)> = keys.iter().map(|key| (key.key, key.count.get())).collect();
        let results = known.next_each(&items).await;
        let results = results.map(|results| results.into_iter().map(|result| result.map(allocation)).collect());
        self.key_results(&known, keys, results)
    }

    pub(super) async fn current_keys_at_owners(
        &self,
        call: Call,
        keyspace: &Keyspace,
        keys: &[WholeKey<'_>],
    ) -> Vec<Result<Current, KeyRefused>> {
        let Some(known) = self.client(call).known_keyspace(&keyspace.name) else { return unserved(keyspace, keys) };
        if let [key] = keys {
            let result = known.current(key.key).await;
            return vec![result.map(current).map_err(|error| self.key_refusal(&known, key, &error, None))];
        }
        let results = known.current_many(&keys.iter().map(|key| key.key).collect::<Vec<_>>()).await;
        let results = results.map(|results| results.into_iter().map(|result| result.map(current)).collect());
        self.key_results(&known, keys, results)
    }

    pub(super) async fn advance_key_at_owner(
        &self,
        call: Call,
        keyspace: &Keyspace,
        key: WholeKey<'_>,
        to: Target,
    ) -> Result<Epoch, KeyRefused> {
        let known = self.client(call).known_keyspace(&keyspace.name);
        let known = known.ok_or(Refusal::Unserved { section: keyspace.section_of(key.key) })?;
        let epoch = known.advance(key.key, to.seq().0).await;
        epoch.map(Epoch).map_err(|error| self.key_refusal(&known, &key, &error, Some(to.seq().0)))
    }

    /// Returns the results of the items of a batch call. The error of the call is the error of each item.
    fn key_results<T>(
        &self,
        known: &seq_client::Keyspace,
        keys: &[WholeKey<'_>],
        results: Result<Vec<Result<T, CallError>>, CallError>,
    ) -> Vec<Result<T, KeyRefused>> {
        let refused = |key, error: &CallError| self.key_refusal(known, key, error, None);
        match results {
            Ok(results) => {
                let results = keys.iter().zip(results);
                results.map(|(key, result)| result.map_err(|error| refused(key, &error))).collect()
            }
            Err(error) => keys.iter().map(|key| Err(refused(key, &error))).collect(),
        }
    }

    /// Returns the refusal that the caller gets for a key whose call failed with `error`.
    fn key_refusal(
        &self,
        known: &seq_client::Keyspace,
        key: &WholeKey<'_>,
        error: &CallError,
        to: Option<u64>,
    ) -> KeyRefused {
        if let CallError::Refused(refused) = error
            && refused.reason == Reason::OtherTenantsKey
            && !refused.may_have_applied
        {
            return KeyRefused::OtherTenants;
        }
        let view = known.section_of(key.key);
        let place = (view.section, view.owner.unwrap_or(NodeId(0)));
        self.refusal_in(place, error, (Uid(0), key.count.get()), to).into()
    }
}

/// Returns the refusals of a request for a keyspace that the newest routes do not have any more.
fn unserved<T>(keyspace: &Keyspace, keys: &[WholeKey<'_>]) -> Vec<Result<T, KeyRefused>> {
    let refused = |key: &WholeKey<'_>| Refusal::Unserved { section: keyspace.section_of(key.key) };
    keys.iter().map(|key| Err(refused(key).into())).collect()
}
