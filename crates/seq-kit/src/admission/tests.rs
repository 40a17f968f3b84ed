use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

fn watched() -> (Admission, Watched, DuplexStream) {
    let (near, far) = duplex(64);
    let admission = Admission::of("a1", 1, ConnectionMetrics::none());
    let watched = admission.watch(Connection::other(near)).unwrap();
    (admission, watched, far)
}

#[tokio::test]
async fn a_permit_is_released_when_its_connection_ends() {
    let (admission, watched, _far) = watched();
    assert_eq!(admission.count(), 1);
    let other = Connection::other(duplex(1).0);
    assert!(admission.admit(&other).is_none());
    drop(watched);
    assert_eq!(admission.count(), 0);
    assert!(admission.admit(&other).is_some());
}

#[test]
fn clients_get_the_files_that_the_node_does_not_need_itself() {
    let connections = |files, dials, threads| OwnFiles { dials, threads }.connections("a1", files);
    assert_eq!(connections(usize::MAX, 6_800, 17), Ok(MAX_CONNECTIONS));
    assert_eq!(connections(1_024, 9, 3), Ok(1_024 - 256 - 9 - 24));
    // Seventeen threads, each with two connections to each of a hundred nodes.
    assert_eq!(connections(4_096, 3_400, 17), Ok(4_096 - 256 - 3_400 - 136));
    assert_eq!(connections(256 + 10 + 64, 10, 0), Ok(MIN_CONNECTIONS));
    let error = connections(2_048, 3_400, 17).unwrap_err();
    assert_eq!(error, FewFiles { node: "a1".into(), files: 2_048, own: 3_792 });
    assert!(error.to_string().contains("LimitNOFILE"), "{error}");
}

/// Requests a permit for a connection whose handshake proves a role, or that needs none.
fn admit(admission: &Admission, role: Option<Role>, address: &str) -> Option<Permit> {
    let of_set = if matches!(role, Some(Role::Store | Role::Alloc)) { "im-a/" } else { "" };
    let identity = role.map(|role| Identity::in_cluster("c", &format!("{}/{of_set}n", role.name())).unwrap());
    let peer = Peer::known(format!("{address}:7").parse().unwrap(), identity);
    let mut permit = admission.permit()?;
    permit.count(&peer).then_some(permit)
}

#[test]
fn one_address_does_not_get_every_permit() {
    let admission = Admission::with("a1", 7, 5, 5, ConnectionMetrics::none());
    let admit = |address: &str| admit(&admission, None, address);
    let mut permits: Vec<_> = (0..4).filter_map(|_| admit("10.0.0.1")).collect();
    assert_eq!(permits.len(), 4);
    assert!(admit("10.0.0.1").is_none() && admit("[::ffff:10.0.0.1]").is_none(), "its share is used up");
    permits.extend(admit("[2001:db8::1]"));
    assert_eq!(admission.count(), 5);
    assert!(admit("10.0.0.2").is_none(), "all are used up");
    permits.truncate(2);
    permits.extend(["10.0.0.2", "[2001:db8::2:1]", "10.0.0.1", "10.0.0.2"].into_iter().filter_map(admit));
    assert_eq!(admission.count(), 5, "permits are released, for every address");
    drop(permits);
    let counts = admission.inner.counts.lock();
    assert!(counts.addresses.is_empty() && counts.callers == 0, "addresses without connections are removed");
}

#[test]
fn callers_leave_the_reserve_to_nodes_and_operators() {
    let admission = Admission::with("a1", 8, 6, 6, ConnectionMetrics::none());
    let caller = |host: u8| {
        let role = [None, Some(Role::Client), Some(Role::Proxy), Some(Role::Metrics)][usize::from(host) % 4];
        admit(&admission, role, &format!("10.0.0.{host}"))
    };
    let callers: Vec<_> = (0..8).filter_map(caller).collect();
    assert_eq!(callers.len(), 6);
    let nodes = [Role::Alloc, Role::Operator].map(|role| admit(&admission, Some(role), "10.0.0.1"));
    assert!(nodes.iter().all(Option::is_some) && admission.count() == 8);
    assert!(admit(&admission, Some(Role::Store), "10.0.0.1").is_none(), "nodes have a limit too");
    drop(nodes);
    assert!(caller(9).is_none());
    let at_their_port = admission.clone().for_nodes();
    assert!(admit(&at_their_port, None, "10.0.0.1").is_some(), "a port without TLS");
    assert!(admit(&at_their_port, Some(Role::Client), "10.0.0.1").is_none());
    drop(callers);
    assert_eq!(admission.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_completes_a_request_is_disconnected() {
    let (_admission, mut watched, mut far) = watched();
    let dribbling = async {
        loop {
            far.write_all(b"x").await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let reading = async {
        let mut byte = [0];
        loop {
            if let Err(error) = watched.read_exact(&mut byte).await {
                return error;
            }
        }
    };
    let error = tokio::select! {
        error = reading => error,
        () = dribbling => unreachable!("it dribbles for ever"),
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_a_response_may_be_idle() {
    let (_admission, mut watched, _far) = watched();
    watched.write_all(b"answer").await.unwrap();
    let mut byte = [0];
    tokio::time::timeout(FIRST_RESPONSE_TIMEOUT * 10, watched.read_exact(&mut byte)).await.expect_err("it waits");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_disconnected() {
    let (_admission, mut watched, mut far) = watched();
    watched.write_all(&[1; 64]).await.unwrap();
    let mut some = [0; 32];
    tokio::time::sleep(WRITE_TIMEOUT * 2).await;
    far.read_exact(&mut some).await.unwrap();
    let error = watched.write_all(&[1; 64]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
