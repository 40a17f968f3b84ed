//! One AllocSvr: its keepers on a thread of their own, its doors on a thread for each core.
//!
//! The keepers renew and raise; on a busy serving thread they would wait behind requests, and ceilings would be raised
//! late just when numbers go fastest.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use seq_alloc::{AllocConfig, Allocator};
use seq_gateway::grpc::{self, AdminView};
use seq_kit::admission::Admission;
use seq_kit::cores::Cores;
use seq_kit::http::Checks;
use seq_kit::process;
use seq_proto::v1;

use crate::serve::{Stage, linger};
use crate::version::{REVISION, VERSION};

/// Starts an AllocSvr with one serving thread for each listener, all of one port. Its keepers and its doors go into the
/// stages given.
pub(crate) fn start(
    config: AllocConfig,
    listeners: Vec<TcpListener>,
    keepers: &mut Stage,
    doors: &mut Stage,
    patience: Duration,
) -> anyhow::Result<Allocator> {
    let node = config.name.clone();
    let identity = Identity {
        set: config.spec.name.clone(),
        node: node.clone(),
        store_addrs: config.spec.stores.iter().map(|store| store.addr.clone()).collect(),
    };
    let allocator = start_keepers(config, keepers, patience)?;
    let admin = admin_view(allocator.clone(), identity);
    let (beside, mut ready) = (allocator.peer_routes(), Checks::new());
    allocator.add_checks(&mut ready);
    let door = grpc::Node { admin, ready, beside, admission: Admission::new(&node) };
    let (tasks, serving) = (doors.tasks().clone(), allocator.clone());
    let (opened, outcomes) = mpsc::channel();
    let count = listeners.len();
    let threads = Cores::start(&node, listeners, move |listener| {
        let (tasks, opened) = (tasks.clone(), opened.clone());
        let (allocator, door) = (serving.clone(), door.clone());
        async move {
            let outcome = grpc::serve(allocator, door, listener, &tasks);
            let open = outcome.is_ok();
            // The starter waits for every outcome; it is gone only when another thread failed.
            let _ = opened.send(outcome);
            if open {
                linger(tasks, patience).await;
            }
        }
    })
    .context("cannot start the serving threads")?;
    doors.threads(threads);
    for outcome in outcomes.iter().take(count) {
        outcome.context("cannot open the gRPC port")?;
    }
    keepers.allocator(allocator.clone());
    Ok(allocator)
}

fn start_keepers(config: AllocConfig, stage: &mut Stage, patience: Duration) -> anyhow::Result<Allocator> {
    let tasks = stage.tasks().clone();
    let name = format!("{}-keepers", config.name);
    let (started, outcome) = mpsc::channel();
    let threads = Cores::start(&name, vec![config], move |config| {
        let (tasks, started) = (tasks.clone(), started.clone());
        async move {
            let allocator = Allocator::start(config, &tasks);
            let running = allocator.is_ok();
            // Nobody listens any more only if the starter was dropped, and then the stage is too.
            let _ = started.send(allocator);
            if running {
                linger(tasks, patience).await;
            }
        }
    })
    .context("cannot start the allocator's thread")?;
    stage.threads(threads);
    let allocator = outcome.recv().context("the allocator's thread ended")??;
    Ok(allocator)
}

/// What the node says of itself that its allocator does not know.
struct Identity {
    set: String,
    node: String,
    store_addrs: Vec<String>,
}

fn admin_view(allocator: Allocator, identity: Identity) -> AdminView {
    let started = Instant::now();
    Arc::new(move || {
        let status = v1::AllocStatus { store_addrs: identity.store_addrs.clone(), ..allocator.status() };
        v1::StatusResponse {
            version: VERSION.to_owned(),
            revision: REVISION.to_owned(),
            set: identity.set.clone(),
            node: identity.node.clone(),
            uptime_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
            cpu_us: process::cpu_us(),
            role: Some(v1::status_response::Role::Alloc(status)),
        }
    })
}
