//! A client that accepts only AllocSvrs, and servers whose certificate has another role or set than their address.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_auth::Identity;
use seq_channel::ExpectedServer;
use tonic::transport::Endpoint;

use crate::error::ConnectError;
use crate::fake::{FakeCluster, FakeServer};
use crate::{ClientBuilder, Dial};

use super::{seeds, within};

/// Deadline of a call that fails.
const SOON: Duration = Duration::from_millis(300);

/// The certificates of servers, and the addresses where another server is expected.
#[derive(Clone, Default)]
struct Certificates {
    holders: Arc<Mutex<BTreeMap<String, Identity>>>,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Certificates {
    fn give(&self, server: &FakeServer, holder: &str) {
        self.holders.lock().insert(addr(server), Identity::in_cluster("im", holder).unwrap());
        self.refused.lock().remove(&addr(server));
    }

    fn is_refused(&self, server: &FakeServer) -> bool {
        self.refused.lock().contains(&addr(server))
    }

    /// Connects to expected servers only. A connection that is kept for an expectation and used under another would not
    /// be checked again.
    fn dial(&self) -> Dial {
        let certificates = self.clone();
        Dial::checked(move |endpoint: Endpoint, expected: &ExpectedServer| {
            let addr = endpoint.uri().authority().unwrap().to_string();
            if certificates.holders.lock().get(&addr).is_some_and(|holder| expected.accepts(holder)) {
                return endpoint.connect_lazy();
            }
            certificates.refused.lock().insert(addr);
            // Port 0 refuses connections.
            Endpoint::from_static("http://127.0.0.1:0").connect_lazy()
        })
    }
}

fn addr(server: &FakeServer) -> String {
    server.url().trim_start_matches("http://").to_owned()
}

/// Starts the sets a and b with one server and 100 uids each.
fn two_sets() -> (FakeServer, FakeServer) {
    let sets = vec![("a".to_owned(), 1), ("b".to_owned(), 1)];
    let mut servers = FakeCluster { uids: 0..200, section_size: 10, sets }.start().into_iter().flatten();
    (servers.next().unwrap(), servers.next().unwrap())
}

/// Returns a builder of a proxy's client, with one seed.
fn proxy(seed: &FakeServer, certificates: &Certificates) -> ClientBuilder {
    seeds([seed]).deadline(SOON).dial(certificates.dial()).allocs_only()
}

#[tokio::test]
async fn a_seed_with_another_role_is_refused() {
    let ((a, _b), certificates) = (two_sets(), Certificates::default());
    for holder in ["store/a/s1", "proxy/p", "client/c"] {
        certificates.give(&a, holder);
        let failed = within(proxy(&a, &certificates).connect()).await.unwrap_err();
        assert!(matches!(failed, ConnectError::Unreachable { .. }), "{holder}: {failed}");
        assert!(certificates.is_refused(&a), "{holder}");
    }
    assert_eq!(a.seen().len(), 0);
    certificates.give(&a, "proxy/p");
    // The client of any other caller may be connected to a proxy.
    let client = seeds([&a]).dial(certificates.dial()).connect().await.unwrap();
    client.next(5).await.unwrap();
}

#[tokio::test]
async fn a_seed_of_another_set_than_it_states_gets_no_call() {
    let ((a, _b), certificates) = (two_sets(), Certificates::default());
    certificates.give(&a, "alloc/c/a1");
    // The client learns the name of the set from the first response only, so connecting succeeds and the call fails.
    let client = proxy(&a, &certificates).connect().await.unwrap();
    client.next(5).await.unwrap_err();
    assert!(certificates.is_refused(&a));
    assert!(a.seen().iter().all(|seen| seen.uids.is_empty()));
    certificates.give(&a, "alloc/a/a1");
    let client = proxy(&a, &certificates).connect().await.unwrap();
    client.next(5).await.unwrap();
}

#[tokio::test]
async fn calls_for_another_set_reach_its_nodes_alone() {
    let ((a, b), certificates) = (two_sets(), Certificates::default());
    certificates.give(&a, "alloc/a/a1");
    for holder in ["alloc/c/a1", "store/b/s1", "alloc/a/a1"] {
        certificates.give(&b, holder);
        let client = proxy(&a, &certificates).connect().await.unwrap();
        client.next(105).await.unwrap_err();
        assert!(certificates.is_refused(&b), "{holder}");
    }
    assert_eq!(b.seen().len(), 0);
    certificates.give(&b, "alloc/b/a1");
    let client = proxy(&a, &certificates).connect().await.unwrap();
    client.next(105).await.unwrap();
    assert!(!certificates.is_refused(&b));
}
