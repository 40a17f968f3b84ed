//! Servers whose certificate has another role or set than a member expects at their address: nothing is sent to them.

use seq_core::set_spec::Genesis;
use seq_proto::v1::RegisterRequest;
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, LEASE_MS, reason};
use crate::sets::{create, list, set, sets, waits};

/// Holders that are not members of the store of set im-a: one of another set, one of another role, and one of no set.
const STRANGERS: [&str; 3] = ["store/im-c/s1", "alloc/im-a/a1", "proxy/p"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_accept_only_members_of_the_own_set() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let member = cluster.follower().await;
    let addr = cluster.addr(member).to_owned();
    cluster.stop(member).await;
    for holder in STRANGERS {
        cluster.links.certify(&addr, holder);
        cluster.start(member).await;
        until("the server is refused", async || cluster.links.is_refused(&addr).then_some(())).await;
        cluster.stop(member).await;
    }
    cluster.links.certify(&addr, "store/im-a/s1");
    cluster.start(member).await;
    cluster.ready().await;
    assert!(!cluster.links.is_refused(&addr));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_not_formed_with_a_server_of_another_set() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    let addrs = [1, 2, 3].map(|id| cluster.addr(id).to_owned());
    for addr in &addrs {
        cluster.links.certify(addr, STRANGERS[0]);
    }
    cluster.start_all().await;
    until("the servers are refused", async || addrs.iter().all(|addr| cluster.links.is_refused(addr)).then_some(()))
        .await;
    assert!([1, 2, 3].iter().all(|id| cluster.member(*id).handle.leader().is_none()));
    for addr in &addrs {
        cluster.links.certify(addr, "store/im-a/s1");
    }
    cluster.ready().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_forwards_only_to_a_leader_of_the_own_set() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let addr = cluster.addr(leader).to_owned();
    let mut control = cluster.control(follower);
    let (set, node, alloc) = ("im-a".into(), "a1".into(), "127.0.0.1:9".into());
    let register =
        RegisterRequest { set, node, addr: alloc, token: 1, lease_ms: LEASE_MS, ..RegisterRequest::default() };
    for holder in STRANGERS {
        cluster.links.certify(&addr, holder);
        let refused = control.register(register.clone()).await;
        assert_eq!(reason(refused), "LEADER_UNREACHABLE", "{holder}");
        assert!(cluster.links.is_refused(&addr), "{holder}");
    }
    cluster.links.certify(&addr, "store/im-a/s2");
    until("the leader responds", async || control.register(register.clone()).await.ok()).await;
    cluster.stop_all().await;
}

/// Returns how long ago another set's store responded to this set, in milliseconds; 0 if it never did.
async fn responded_ms(cluster: &Cluster, name: &str) -> Option<u64> {
    list(cluster).await.into_iter().find(|set| set.name == name).map(|set| set.responded_ms)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_send_only_to_a_store_of_the_other_set() {
    let (mut a, mut b) = (set("im-a", "im", Genesis::Start), set("im-b", "im", Genesis::Create));
    a.start_all().await;
    a.ready().await;
    b.start_all().await;
    waits(&b, "create").await;
    let (addr_a, addr_b) = (a.addr(1).to_owned(), b.addr(1).to_owned());

    // An operator types the address, so only the role of the server is known.
    let join = create(&b, &[&addr_a]);
    for holder in ["alloc/im-a/a1", "proxy/p"] {
        b.links.certify(&addr_a, holder);
        let refused = sets(&b, 1).create_set(join.clone()).await;
        assert_eq!(reason(refused), "SET_UNAVAILABLE", "{holder}");
        assert!(b.links.is_refused(&addr_a), "{holder}");
    }
    b.links.certify(&addr_a, "store/im-c/s1");
    a.links.certify(&addr_b, "store/im-a/s2");
    sets(&b, 1).create_set(join).await.unwrap();

    // From here on the names of the sets are in the logs.
    until("the first set's server is refused", async || b.links.is_refused(&addr_a).then_some(())).await;
    assert_eq!(responded_ms(&b, "im-a").await, Some(0));
    b.links.certify(&addr_a, "store/im-a/s1");
    until("the first set responds", async || responded_ms(&b, "im-a").await.filter(|ms| *ms > 0)).await;
    until("the second set's server is refused", async || a.links.is_refused(&addr_b).then_some(())).await;
    assert_eq!(responded_ms(&a, "im-b").await, Some(0));
    a.links.certify(&addr_b, "store/im-b/s1");
    until("the second set responds", async || responded_ms(&a, "im-b").await.filter(|ms| *ms > 0)).await;
    a.stop_all().await;
    b.stop_all().await;
}
