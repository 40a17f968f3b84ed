//! Callers over the keys of a keyspace. Each caller has keys of its own, and sends one call after another for keys that
//! it draws at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use seq_client::Keyspace;
use seq_load::caller::{self, Ended, History, KeyHistory};
use seq_order::{Checker, User};

use super::{Load, MAX_COUNT, PROBE_PAUSE, Record, connect};
use crate::cluster::{Cluster, KEYSPACE};

/// Callers of each group.
const CALLERS: u32 = 2;

/// The keys of a load, and the way in which they are called.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Prefix of the keys of each group. Keys with the same hash tag, `{...}`, are in one bucket.
    pub(crate) groups: Vec<String>,
    /// Keys of each group.
    pub(crate) each: u32,
    /// Keys of a batch.
    pub(crate) batch: u32,
    /// Pause of a caller between two calls.
    pub(crate) pause: Duration,
    /// Whether every call is a batch or a read. The SDK repeats a call for one key that is refused because the owner
    /// has no room for it, but not an item of a batch.
    pub(crate) only_batches: bool,
}

/// The history of calls for keys.
#[derive(Clone)]
struct KeyRecord {
    record: Record,
    keys: Arc<Keys>,
}

impl Load {
    /// Starts callers for keys of the keyspace of the cluster, and waits until every group is served.
    pub(crate) fn start_keys(cluster: &Cluster, keys: Keys) -> Load {
        let (groups, each, seeds) = (keys.groups.len() as u32, keys.each, cluster.seeds());
        Load::spawn(groups, each, async move |record, stopping, _| {
            let callers = KeyCallers { history: KeyRecord { record, keys: Arc::new(keys) }, stopping };
            callers.run(&seeds).await;
        })
    }
}

/// All callers.
struct KeyCallers {
    history: KeyRecord,
    stopping: Arc<AtomicBool>,
}

impl KeyCallers {
    async fn run(&self, seeds: &[String]) {
        // Each client has its own routes.
        let keyspaces = [keyspace(seeds).await, keyspace(seeds).await];
        let groups = 0..self.history.keys.groups.len() as u32;
        let callers = groups.flat_map(|group| (0..CALLERS).map(move |own| (group, own)));
        let call = |(group, own): (u32, u32)| self.caller(&keyspaces[own as usize % keyspaces.len()], group, own);
        join_all(callers.map(call)).await;
    }

    /// Calls for keys of a group of which no other caller has any.
    async fn caller(&self, keyspace: &Keyspace, group: u32, own: u32) {
        let Keys { each, batch, pause, only_batches, .. } = *self.history.keys;
        let user = || {
            let place = fastrand::u32(..each.div_ceil(CALLERS)) * CALLERS + own;
            User(group * each + if place < each { place } else { own })
        };
        let call = async || match fastrand::u32(..8) {
            0 => caller::current_key(keyspace, &self.history, user()).await,
            1..4 if !only_batches => caller::next_keys(keyspace, &self.history, &[user()], 1).await,
            4 if !only_batches => {
                caller::next_keys(keyspace, &self.history, &[user()], fastrand::u32(1..=MAX_COUNT)).await;
            }
            _ => {
                let users: Vec<User> = (0..batch).map(|_| user()).collect();
                caller::next_keys(keyspace, &self.history, &users, 1).await;
            }
        };
        caller::closed_loop(|| self.stopping.load(Ordering::Relaxed), || pause, call).await;
    }
}

/// Opens the keyspace, once a seed knows it.
async fn keyspace(seeds: &[String]) -> Keyspace {
    let client = connect(seeds).await;
    loop {
        match client.keyspace(KEYSPACE).await {
            Ok(keyspace) => return keyspace,
            Err(_) => tokio::time::sleep(PROBE_PAUSE).await,
        }
    }
}

impl History for KeyRecord {
    fn record<T>(&self, f: impl FnOnce(&mut Checker, Duration) -> T) -> T {
        self.record.record(f)
    }

    fn on_end(&self, call: &Ended<'_>) {
        self.record.on_end(call);
    }
}

impl KeyHistory for KeyRecord {
    fn key(&self, User(user): User) -> String {
        let (group, place) = (user / self.keys.each, user % self.keys.each);
        format!("{}:{place}", self.keys.groups[group as usize])
    }
}
