//! A client from its start to its end: seeds, calls that are abandoned, and the resources that a client leaves.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;

use seq_client::fake::FakeServer;
use seq_testkit::eventually;
use seq_testkit::rows::note;
use serde_json::json;

use crate::cluster::{Cluster, Shape};
use crate::driver::{Burst, Client, Driver, Sdk};
use crate::proxy::Proxy;

pub(super) fn start(sdk: &Sdk) {
    let cluster = Cluster::start(Shape { allocs: 1, ..Shape::USUAL });
    let driver = Driver::start(sdk);
    let down = (0..2).map(|_| free_url()).collect::<Vec<_>>();
    let short = || json!({"deadline_ms": 1_000});

    let error = driver.open_and_call(&down, short(), 7).unwrap_err();
    assert_eq!((&*error.kind, error.may_have_applied), ("connect", false), "{error:?}");
    assert!(error.retryable && !error.message.is_empty(), "{error:?}");

    let one_up = [&down[..], &cluster.seeds()].concat();
    driver.open_and_call(&one_up, json!({}), 7).unwrap();
    // The kernel accepts connections of this seed, and no process reads them.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let one_up = [&[format!("http://{}", hung.local_addr().unwrap())], &cluster.seeds()[..]].concat();
    driver.open_and_call(&one_up, json!({}), 7).unwrap();

    let store = cluster.store_url();
    let error = driver.open_and_call(std::slice::from_ref(&store), short(), 7).unwrap_err();
    assert_eq!(error.kind, "connect", "{error:?}");
    let addr = store.trim_start_matches("http://");
    assert!(error.message.contains(addr), "the message names the seed {addr}: {error:?}");

    for seed in ["http://", "ftp://127.0.0.1:1", "http://127.0.0.1:1/path"] {
        let error = driver.open_and_call(&[seed.to_owned()], short(), 7).unwrap_err();
        assert_eq!((&*error.kind, error.retryable), ("connect", false), "{seed}: {error:?}");
    }

    // A set that is still starting.
    let server = FakeServer::start();
    server.know_routes(false);
    let error = driver.open_and_call(&[server.url()], short(), 7).unwrap_err();
    assert_eq!((&*error.kind, error.retryable), ("connect", true), "{error:?}");
    let (client, opening) = driver.start_open(&[server.url()], json!({}));
    server.know_routes(true);
    let (_, opened) = opening.wait();
    assert!(opened["ok"].is_object(), "{opened}");
    // The fake set has numbers of its own, so this call is for another uid.
    client.next(8).unwrap();
    driver.end();
}

/// Name of a host that only the driver knows, and its first and its second address.
const HOST: &str = "seqsvr-alloc.test";
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

/// Returns the missing abilities of this machine for [`dns`].
pub(super) fn private_hosts() -> Vec<String> {
    let command = "mount --bind /etc/hosts /etc/hosts";
    let tried = Command::new("unshare").args(["--mount", "sh", "-c", command]).output();
    let has = tried.is_ok_and(|tried| tried.status.success());
    if has { Vec::new() } else { vec!["root and mount namespaces".to_owned()] }
}

pub(super) fn dns(sdk: &Sdk) {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    // The file stays the same, because the driver has this file in the place of its own.
    let set_address =
        |address: Ipv4Addr| fs::write(&hosts, format!("127.0.0.1 localhost\n{address} {HOST}\n")).unwrap();
    set_address(ADDRESSES[0]);
    let driver = Driver::start(&sdk.in_namespace(&format!("mount --bind '{}' /etc/hosts", hosts.display())));

    let error = driver.open_and_call(&["http://seqsvr-none.test:7400".to_owned()], json!({"deadline_ms": 1_000}), 7);
    let error = error.unwrap_err();
    assert_eq!((&*error.kind, error.may_have_applied), ("connect", false), "{error:?}");
    assert!(error.message.contains("seqsvr-none.test"), "the message names the host: {error:?}");

    let server = FakeServer::start();
    let node = server.url().trim_start_matches("http://").parse().unwrap();
    let first = Proxy::start((ADDRESSES[0], 0).into(), node);
    let port = first.addr().port();
    server.advertise(&format!("{HOST}:{port}"));
    let client = driver.open(&[format!("http://{HOST}:{port}")]);
    client.burst(&[7, 8], 100, 10).wait();
    assert!(first.connections() > 0, "the client connects to the address of the name");

    let second = Proxy::start((ADDRESSES[1], port).into(), node);
    set_address(ADDRESSES[1]);
    drop(first);
    // A resolver may keep the old address for a while, so calls may fail, but not for good.
    eventually("the client connects to the new address of the name", || {
        let _ = client.next_with(7, json!({"deadline_ms": 500}));
        (second.connections() > 0).then_some(())
    });
    eventually("calls succeed again", || client.next(7).ok());
    client.burst(&[7, 8], 100, 10).wait();
    driver.end();
}

/// Returns a URL at which no process listens.
fn free_url() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// Calls in flight when a client is closed.
const IN_FLIGHT: u64 = 100;

pub(super) fn close(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    for coalesce in [true, false] {
        let client = driver.open_with(&[server.url()], json!({"coalesce": coalesce}));
        client.next(7).unwrap();
        let before = server.received().items;
        server.hold(true);
        let calls: Vec<_> = (0..IN_FLIGHT).map(|uid| client.start_next(uid, json!({}))).collect();
        eventually("requests are in flight", || (server.received().items > before).then_some(()));
        client.command(json!({"op": "close"})).unwrap();
        for call in calls {
            let closed = call.wait().unwrap_err();
            assert_eq!((&*closed.kind, closed.retryable), ("closed", false), "{closed:?}");
        }
        let closed = client.next(7).unwrap_err();
        assert_eq!((&*closed.kind, closed.may_have_applied), ("closed", false), "{closed:?}");
        client.command(json!({"op": "close"})).unwrap();
        server.hold(false);
    }
    driver.end();
}

/// Clients that are opened and closed, one after another.
const CLIENTS: usize = 100;

/// Allowed increase over a driver that has had one client: threads that a runtime keeps, descriptors, and memory that
/// an allocator keeps.
const MORE_THREADS: usize = 10;
const MORE_FILES: usize = 2;
const MORE_MIB: u64 = 64;

/// Resources of a process.
#[derive(Clone, Copy, Debug)]
struct Resources {
    threads: usize,
    files: usize,
    memory_mib: u64,
}

impl Resources {
    fn of(driver: &Driver) -> Resources {
        let proc = format!("/proc/{}", driver.pid());
        let count = |dir: &str| fs::read_dir(format!("{proc}/{dir}")).unwrap().count();
        let status = fs::read_to_string(format!("{proc}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("the driver runs");
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Resources { threads: count("task"), files: count("fd"), memory_mib: kib >> 10 }
    }

    /// Waits until the driver has no more than these resources.
    fn wait_back(&self, driver: &Driver) {
        let mut now = Resources::of(driver);
        note(format_args!("before: {self:?}; after: {now:?}"));
        eventually("threads, sockets and memory are back", || {
            now = Resources::of(driver);
            let is_back = now.threads <= self.threads + MORE_THREADS && now.files <= self.files + MORE_FILES;
            (is_back && now.memory_mib <= self.memory_mib + MORE_MIB).then_some(())
        });
    }
}

pub(super) fn leak(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    let use_client = || {
        let client = driver.open(&[server.url()]);
        client.burst(&[7, 8], 20, 20).wait();
        client.command(json!({"op": "close"})).unwrap();
    };
    use_client();
    let before = Resources::of(&driver);
    (0..CLIENTS).for_each(|_| use_client());
    before.wait_back(&driver);
    driver.end_seamless();
}

/// Number of abandoned calls, and of calls in flight at the same time.
const ABANDONED: u64 = 10_000;
const AT_ONCE: u64 = 100;

pub(super) fn cancel(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    let client = driver.open_with(&[server.url()], json!({"deadline_ms": 60_000}));
    client.burst(&[7, 8], 1_000, 100).wait();
    let before = Resources::of(&driver);
    for round in 0..ABANDONED / AT_ONCE {
        server.hold(true);
        let calls: Vec<_> = (0..AT_ONCE).map(|uid| client.start_next(uid, json!({}))).collect();
        for call in &calls {
            client.command(json!({"op": "cancel", "target": call.pending.id})).unwrap();
        }
        for call in calls {
            let cancelled = call.wait().unwrap_err();
            assert_eq!((&*cancelled.kind, cancelled.retryable), ("cancelled", false), "{round}: {cancelled:?}");
        }
        // A server that holds requests keeps all of them.
        server.hold(false);
    }
    usable(&client);
    before.wait_back(&driver);
    driver.end();
}

/// Checks that calls of the client succeed, none of them late.
fn usable(client: &Client<'_>) {
    let before = client.driver.history().figures();
    client.burst(&[7, 8], 1_000, 100).wait();
    let after = client.driver.history().figures();
    assert_eq!(after.failed, before.failed, "{after:?}");
    assert_eq!(client.current(7).map(|current| current.exact), Ok(true));
    let (result, took) = client.start_next(7, json!({"deadline_ms": 5_000})).timed();
    assert!(result.is_ok() && took < Duration::from_secs(5), "{result:?}");
}

pub(super) fn fork(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    let client = driver.open(&[server.url()]);
    for round in 0..3 {
        // In the first round, no call is in flight at the fork.
        let burst = (round > 0).then(|| client.burst(&[7, 8], 2_000, 16));
        for uid in [7, 8] {
            client.next_with(uid, json!({"op": "fork"})).unwrap();
            client.next(uid).unwrap();
        }
        burst.into_iter().for_each(Burst::wait);
    }
    driver.end_seamless();
}
