//! Measures how fast a store commits raises: three members in this process on real disks, callers over gRPC on
//! loopback.
//!
//! `cargo run --release -p seq-store --example propose [SECONDS_EACH [CASES [COMPARISON_MS]]]`, where a case is
//! `PROPOSERSxRAISES` and `COMPARISON_MS` is the interval at which members compare their states.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seq_core::set_spec::{AllocSpec, Genesis, SetSpec, StoreSpec};
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::v1::{RaiseCeilingsRequest, RegisterRequest, RenewRequest};
use seq_store::{DataDir, Sockets, Store, StoreConfig, StoreOptions};
use tonic::transport::{Channel, Endpoint};

type Control = ControlServiceClient<Channel>;
type Error = Box<dyn std::error::Error>;

const MEMBERS: u64 = 3;
/// As many sections as the widest case raises concurrently.
const SECTIONS: u64 = 256 * 64;
const SECTION_SIZE: u32 = 100;
/// Connections that the callers share, as an AllocSvr's callers do.
const CONNECTIONS: usize = 4;

/// Session of a caller, with its epochs.
#[derive(Clone)]
struct Session {
    node_id: u32,
    incarnation: u64,
    /// Epoch of each section, in order.
    epochs: Arc<Vec<u64>>,
}

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |seconds| seconds.parse())?;
    let mut options = StoreOptions::DEFAULTS;
    if let Some(interval) = std::env::args().nth(3) {
        options.comparison_interval = Duration::from_millis(interval.parse()?);
    }
    let disk = tempfile::tempdir()?;
    let mut listeners = Vec::new();
    for _ in 0..MEMBERS {
        listeners.push(seq_kit::listen::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1)?.remove(0));
    }
    let addrs: Vec<String> = listeners
        .iter()
        .map(|listener| listener.local_addr().map(|addr| addr.to_string()))
        .collect::<Result<_, _>>()?;
    let spec = spec(&addrs);
    let members = listeners.into_iter().zip(1..).map(|(listener, id)| {
        let config = StoreConfig {
            spec: spec.clone(),
            cluster: spec.name.clone(),
            id,
            data: DataDir::Path(disk.path().join(format!("s{id}"))),
            join: false,
            form: false,
            sockets: Sockets { peers: listener.into(), raft: None, admin: None },
            options: options.clone(),
            clock: seq_api::clock::Clock::System,
            revision: "example".to_owned(),
            cpu_us: || 0,
            settings: Default::default(),
            events: Default::default(),
        };
        let tasks = TaskGroup::new();
        async move { Store::start(config, tasks.clone()).await.map(|handle| (handle, tasks)) }
    });
    let members = futures::future::join_all(members).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (handle, _) in &members {
        handle.ready().await;
    }
    let leader = members[0].0.leader().ok_or("a ready member knows the leader")?;
    let channels: Vec<Channel> = (0..CONNECTIONS)
        .map(|_| {
            Endpoint::from_shared(format!("http://{}", addrs[leader as usize - 1]))
                .map(|to| to.tcp_nodelay(true).connect_lazy())
        })
        .collect::<Result<_, _>>()?;
    let session = begin(&mut Control::new(channels[0].clone())).await?;

    println!(
        "{:>9} {:>13} {:>10} {:>12} {:>9} {:>9}",
        "proposers", "raises/call", "calls/s", "raises/s", "p50 ms", "p99 ms"
    );
    let cases = std::env::args().nth(2);
    let cases = cases.as_deref().unwrap_or("1x1,16x1,256x1,1x64,16x64,256x64").to_owned();
    for case in cases.split(',') {
        let (proposers, raises) = case.split_once('x').ok_or("a case is PROPOSERSxRAISES")?;
        let (proposers, raises): (usize, usize) = (proposers.parse()?, raises.parse()?);
        {
            let mut times = measure(&channels, &session, proposers, raises, Duration::from_secs(seconds)).await;
            times.sort_unstable();
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            let calls = times.len() as f64 / seconds as f64;
            let raised = calls * raises as f64;
            println!("{proposers:>9} {raises:>13} {calls:>10.0} {raised:>12.0} {:>9.2} {:>9.2}", at(0.5), at(0.99));
        }
    }
    for (handle, tasks) in members {
        handle.shutdown().await?;
        tasks.shutdown(Duration::from_secs(10)).await?;
    }
    Ok(())
}

fn spec(addrs: &[String]) -> SetSpec {
    let store = |(addr, id): (&String, u64)| StoreSpec {
        id,
        name: format!("s{id}"),
        addr: addr.clone(),
        raft: addr.clone(),
        admin: None,
        http: addr.clone(),
        listen: Default::default(),
    };
    let addr = "127.0.0.1:1".to_owned();
    SetSpec {
        name: "propose".to_owned(),
        uids: 0..SECTIONS * u64::from(SECTION_SIZE),
        section_size: SECTION_SIZE,
        step: 1,
        stores: addrs.iter().zip(1..).map(store).collect(),
        allocs: vec![AllocSpec {
            name: "a1".to_owned(),
            http: addr.clone(),
            peer: addr.clone(),
            addr,
            redis: None,
            redis_cluster: None,
            weight: 1,
            listen: Default::default(),
        }],
        genesis: Genesis::Start,
    }
}

/// Registers the only AllocSvr and waits until it owns all sections.
async fn begin(control: &mut Control) -> Result<Session, Error> {
    let addr = "127.0.0.1:1".to_owned();
    let request = RegisterRequest {
        set: "propose".to_owned(),
        node: "a1".to_owned(),
        addr,
        token: 1,
        lease_ms: 2_000,
        ..RegisterRequest::default()
    };
    let session = control.register(request).await?.into_inner();
    for renew_seq in 1.. {
        let (node_id, incarnation) = (session.node_id, session.incarnation);
        let request = RenewRequest { node_id, incarnation, renew_seq, ..RenewRequest::default() };
        let owned = control.renew(request).await?.into_inner().update.unwrap_or_default();
        if owned.sections.len() as u64 == SECTIONS {
            let epochs = Arc::new(owned.epochs);
            return Ok(Session { node_id: session.node_id, incarnation: session.incarnation, epochs });
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    unreachable!("renewals do not run out")
}

/// Has every proposer raise its own sections, one call after the other; returns the duration of each call.
async fn measure(
    channels: &[Channel],
    session: &Session,
    proposers: usize,
    raises: usize,
    time: Duration,
) -> Vec<Duration> {
    let group = TaskGroup::new();
    let (done, mut results) = tokio::sync::mpsc::channel(proposers);
    let end = Instant::now() + time;
    for proposer in 0..proposers {
        let mut control = Control::new(channels[proposer % channels.len()].clone());
        let (session, done) = (session.clone(), done.clone());
        group.spawn("proposer", Kind::Disposable, async move {
            let sections: Vec<u32> = (0..raises).map(|raise| (proposer * raises + raise) as u32).collect();
            let epochs: Vec<u64> = sections.iter().map(|section| session.epochs[*section as usize]).collect();
            let mut times = Vec::new();
            while Instant::now() < end {
                let request = RaiseCeilingsRequest {
                    node_id: session.node_id,
                    route_version: u64::MAX,
                    incarnation: session.incarnation,
                    ceilings: vec![times.len() as u64 + 1; raises],
                    sections: sections.clone(),
                    epochs: epochs.clone(),
                };
                let asked = Instant::now();
                let response = control.raise_ceilings(request).await.expect("the leader stays").into_inner();
                assert!(response.ceilings.iter().all(|ceiling| *ceiling > 0), "every raise is committed");
                times.push(asked.elapsed());
            }
            // The receiver outlives the proposers.
            let _ = done.send(times).await;
        });
    }
    drop(done);
    let mut times = Vec::new();
    while let Some(part) = results.recv().await {
        times.extend(part);
    }
    times
}
