//! The client against fake servers: everything between a caller and the wire.

mod batches;
mod calls;
mod coalescing;
mod connect_protocol;
mod connecting;
mod failures;
mod impostors;
mod keys;
mod segments;
mod series;
mod sets;
mod tickets;

use std::ops::Range;
use std::time::Duration;

use crate::fake::{FakeServer, FakeSet};
use crate::{Allocation, Client, ClientBuilder};

/// Timeout of a test's waits. Far longer than they take, so only a hang fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts the servers of one set with sections of 10 uids, owned by the servers in turn.
fn servers(name: &str, uids: Range<u64>, servers: usize) -> Vec<FakeServer> {
    FakeSet { name: name.to_owned(), uids, section_size: 10, servers }.start()
}

fn seeds<'a>(servers: impl IntoIterator<Item = &'a FakeServer>) -> ClientBuilder {
    servers.into_iter().fold(Client::builder(), |builder, server| builder.seed(server.url())).deadline(TIMEOUT)
}

async fn client<'a>(servers: impl IntoIterator<Item = &'a FakeServer>) -> Client {
    seeds(servers).connect().await.expect("fake servers have routes")
}

/// Returns the uids of every request that a server received.
fn requested(server: &FakeServer) -> Vec<Vec<u64>> {
    server.seen().into_iter().map(|seen| seen.uids).collect()
}

/// Returns the allocation of a caller that took all numbers up to `value` one by one.
fn allocated(value: u64) -> Allocation {
    Allocation { value, prev: value - 1, epoch: 1, count: 1, lost: 0 }
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, wait).await.expect("it happens in time")
}
