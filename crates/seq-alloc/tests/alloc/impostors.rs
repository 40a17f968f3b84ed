//! Servers with a certificate of another role or set than the node expects at their address get no request.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use seq_auth::Identity;
use seq_core::{Refusal, SectionId};
use seq_proto::dial::{Dial, ExpectedServer};
use tokio::net::TcpStream;
use tonic::transport::{Endpoint, Uri};

use crate::world::{Node, PATIENCE, World, given, quick, until};

/// Sections that a node owns.
const OWNED: u32 = 4;

/// Certificates of servers by address, and the addresses at which a dialer found another server than it expects.
#[derive(Clone, Default)]
struct Certificates {
    holders: Arc<Mutex<BTreeMap<String, Identity>>>,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Certificates {
    /// Makes the server at an address show the certificate of this holder from now on.
    fn give(&self, addr: &str, holder: &str) {
        self.holders.lock().insert(addr.to_owned(), Identity::in_cluster("im", holder).unwrap());
        self.refused.lock().remove(addr);
    }

    /// Returns whether a dialer has found another server than it expects at an address, since the server has its
    /// current certificate.
    fn is_refused(&self, addr: &str) -> bool {
        self.refused.lock().contains(addr)
    }

    fn check(&self, addr: &str, expected: &ExpectedServer) -> io::Result<()> {
        let holder = self.holders.lock().get(addr).cloned();
        if holder.as_ref().is_some_and(|holder| expected.accepts(holder)) {
            return Ok(());
        }
        self.refused.lock().insert(addr.to_owned());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{addr}: {expected} expected, found {holder:?}")))
    }

    /// Returns a dialer whose connections are checked as over TLS; servers without a certificate are refused.
    fn dial(&self) -> Dial {
        let certificates = self.clone();
        Dial::checked(move |endpoint: Endpoint, expected: &ExpectedServer| {
            let (certificates, expected) = (certificates.clone(), expected.clone());
            endpoint.connect_with_connector_lazy(tower::service_fn(move |to: Uri| {
                let checked = certificates.check(to.authority().unwrap().as_str(), &expected);
                async move {
                    checked?;
                    TcpStream::connect(to.authority().unwrap().as_str()).await.map(TokioIo::new)
                }
            }))
        })
    }
}

/// Starts a node that checks certificates, at a store that it accepts.
fn start(world: &World, certificates: &Certificates) -> Node {
    certificates.give(&world.spec.stores[0].addr, &format!("store/{}/s1", world.spec.name));
    world.start_dialing("a1", quick(), &certificates.dial())
}

fn is_registered(world: &World) -> bool {
    world.store.state.lock().nodes().next().is_some()
}

#[tokio::test]
async fn a_node_registers_only_at_a_store_member_of_its_own_set() {
    let (world, certificates) = (World::of("a"), Certificates::default());
    let store = &world.spec.stores[0].addr;
    certificates.give(store, "store/c/s1");
    let _node = world.start_dialing("a1", quick(), &certificates.dial());
    for holder in ["store/c/s1", "alloc/a/a2", "proxy/p"] {
        certificates.give(store, holder);
        until("the server is refused", || certificates.is_refused(store)).await;
        assert!(!is_registered(&world), "{holder}");
    }
    certificates.give(store, "store/a/s2");
    world.registered_after("a1", None).await;
}

#[tokio::test]
async fn calls_are_forwarded_only_to_a_node_of_the_own_set() {
    let (world, certificates) = (World::of("a"), Certificates::default());
    let owner = world.start_owning("a1", 0..OWNED).await;
    certificates.give(&world.spec.stores[0].addr, "store/a/s1");
    let other = world.start_dialing("a2", quick(), &certificates.dial());
    world.registered_after("a2", None).await;
    world.routed(&[&owner, &other]).await;
    let addr = owner.addr.to_string();
    for holder in ["alloc/c/a1", "store/a/s1"] {
        certificates.give(&addr, holder);
        assert!(other.impatient(3).await.is_err(), "{holder}");
        until("the server is refused", || certificates.is_refused(&addr)).await;
    }
    assert_eq!(owner.allocator.status().allocations, 0);
    certificates.give(&addr, "alloc/a/a1");
    assert_eq!(other.next(3).await, Ok(given(1, 0, 1)));
}

#[tokio::test]
async fn a_section_is_handed_over_only_to_a_node_of_the_own_set() {
    let (world, certificates) = (World::of("a"), Certificates::default());
    certificates.give(&world.spec.stores[0].addr, "store/a/s1");
    let source = world.start_dialing("a1", quick(), &certificates.dial());
    world.registered_after("a1", None).await;
    let target = world.start("a2");
    world.registered_after("a2", None).await;
    world.store.assign("a1", 0..OWNED);
    until("the sections are owned", || source.allocator.status().sections == OWNED).await;
    world.routed(&[&source, &target]).await;
    assert_eq!(source.next(3).await, Ok(given(1, 0, 1)));
    let addr = target.addr.to_string();
    for holder in ["alloc/c/a2", "store/a/s2"] {
        certificates.give(&addr, holder);
        world.store.plan(0..OWNED, "a2");
        until("the server is refused", || certificates.is_refused(&addr)).await;
        assert_eq!(target.allocator.status().sections, 0, "{holder}");
    }
    certificates.give(&addr, "alloc/a/a2");
    world.store.plan(0..OWNED, "a2");
    until("the sections are moved", || target.allocator.status().sections == OWNED).await;
    assert_eq!(target.next(3).await, Ok(given(2, 1, 2)));
}

/// Starts two sets that know each other. `from` has the sections, and a node that checks certificates if requested.
async fn two_sets(checked: Option<&Certificates>) -> (World, World, Node, Node) {
    let from = World::of("from");
    let to = from.beside("to");
    let source = match checked {
        Some(certificates) => start(&from, certificates),
        None => from.start("a1"),
    };
    from.registered_after("a1", None).await;
    from.store.assign("a1", 0..OWNED);
    until("the sections are owned", || source.allocator.status().sections == OWNED).await;
    let target = to.start("a1");
    to.registered_after("a1", None).await;
    from.store.learn(&to.store);
    to.store.learn(&from.store);
    from.routed(&[&source]).await;
    to.routed(&[&target]).await;
    (from, to, source, target)
}

#[tokio::test]
async fn calls_for_another_set_are_forwarded_only_to_its_nodes() {
    let (_from, to, owner, _target) = two_sets(None).await;
    let certificates = Certificates::default();
    certificates.give(&to.spec.stores[0].addr, "store/to/s1");
    let here = to.start_dialing("a2", quick(), &certificates.dial());
    to.registered_after("a2", None).await;
    to.routed(&[&here]).await;
    let addr = owner.addr.to_string();
    // The own set, a third set, and another role of that set.
    for holder in ["alloc/to/a1", "alloc/c/a1", "store/from/s1"] {
        certificates.give(&addr, holder);
        let refused = async {
            while !certificates.is_refused(&addr) {
                let refused = here.next(3).await;
                assert!(matches!(refused, Err(Refusal::SetUnavailable { .. })), "{holder}: {refused:?}");
                // A set that is down is refused without a wait.
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.unwrap_or_else(|_| panic!("{holder} is refused"));
    }
    assert_eq!(owner.allocator.status().allocations, 0);
    certificates.give(&addr, "alloc/from/a1");
    let served = async {
        while here.next(3).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, served).await.expect("the call is served");
}

#[tokio::test]
async fn a_section_departs_only_to_a_node_of_the_other_set() {
    let certificates = Certificates::default();
    let (from, to, source, target) = two_sets(Some(&certificates)).await;
    assert_eq!(source.next(3).await, Ok(given(1, 0, 1)));
    let addr = target.addr.to_string();
    let has_departed = || from.store.state.lock().sections.resident(SectionId(0)).is_none();
    let migration = from.store.migrate(0..1, &to.store);
    from.store.arrive_at(&to.store);
    // The own set, a third set, and another role of that set.
    for holder in ["alloc/from/a2", "alloc/c/a1", "store/to/s1"] {
        certificates.give(&addr, holder);
        from.store.plan_departures(0..1, migration, &to.store, "a1");
        until("the server is refused", || certificates.is_refused(&addr)).await;
        assert!(!has_departed(), "{holder}");
    }
    certificates.give(&addr, "alloc/to/a1");
    from.store.plan_departures(0..1, migration, &to.store, "a1");
    until("the section is moved", || target.allocator.status().sections == 1).await;
    assert_eq!(target.next(3).await, Ok(given(2, 1, 2)));
}
