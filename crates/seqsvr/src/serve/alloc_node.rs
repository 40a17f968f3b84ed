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
use seq_core::set_spec::AllocSpec;
use seq_gateway::grpc::{self, AdminView};
use seq_gateway::resp::{self, RespConfig, RespNode};
use seq_kit::admission::{Admission, OwnFiles};
use seq_kit::cores::Cores;
use seq_kit::http::Checks;
use seq_kit::process;
use seq_proto::v1;

use crate::exit::{Exit, Failure};
use crate::serve::{Stage, bind, linger};
use crate::settings::Settings;
use crate::version::{REVISION, VERSION};

/// The sockets of an AllocSvr's ports: as many of each as it has serving threads.
pub(crate) struct Ports {
    pub(crate) grpc: Vec<TcpListener>,
    /// For clients of Redis, if the node has such a port.
    redis: Option<(Vec<TcpListener>, RespConfig)>,
    /// Whether a GET takes numbers, too.
    get_takes: bool,
}

impl Ports {
    /// Binds the ports of a node, for so many threads.
    pub(crate) fn bind(spec: &AllocSpec, threads: usize, settings: &Settings) -> anyhow::Result<Ports> {
        let grpc = bind(&spec.addr, threads)?;
        let redis = spec.redis.as_ref().map(|addr| anyhow::Ok((bind(addr, threads)?, settings.resp_config())));
        Ok(Ports { grpc, redis: redis.transpose()?, get_takes: settings.http.get_takes })
    }

    /// Where clients of Redis find the node.
    pub(crate) fn redis_addr(&self) -> anyhow::Result<Option<String>> {
        let addr = self.redis.as_ref().and_then(|(listeners, _)| listeners.first()).map(TcpListener::local_addr);
        Ok(addr.transpose()?.map(|addr| addr.to_string()))
    }

    /// The sockets of each thread, and what the Redis port is told.
    fn by_thread(self) -> (Vec<(TcpListener, Option<TcpListener>)>, Option<RespConfig>) {
        let (listeners, config) = self.redis.unzip();
        let mut redis = listeners.into_iter().flatten();
        (self.grpc.into_iter().map(|grpc| (grpc, redis.next())).collect(), config)
    }
}

/// Starts an AllocSvr with one serving thread for each socket of a port. Its keepers and its doors go into the stages
/// given.
pub(crate) fn start(
    config: AllocConfig,
    ports: Ports,
    keepers: &mut Stage,
    doors: &mut Stage,
    patience: Duration,
) -> anyhow::Result<Allocator> {
    let (node, set) = (config.name.clone(), config.spec.name.clone());
    let admission = Admission::new(&node, own_files(&config, ports.grpc.len()))
        .map_err(|few| Failure::new(Exit::Config, few.to_string()))?;
    let identity = Identity {
        set: set.clone(),
        node: node.clone(),
        store_addrs: config.spec.stores.iter().map(|store| store.addr.clone()).collect(),
    };
    let allocator = start_keepers(config, keepers, patience)?;
    let admin = admin_view(allocator.clone(), identity);
    let (beside, mut ready) = (allocator.peer_routes(), Checks::new());
    allocator.add_checks(&mut ready);
    let get_takes = ports.get_takes;
    let (sockets, resp) = ports.by_thread();
    let resp = resp.map(|config| RespNode::new(config, admission.clone()));
    let door = grpc::Node { admin, ready, beside, admission, get_takes };
    let (tasks, serving) = (doors.tasks().clone(), allocator.clone());
    let (opened, outcomes) = mpsc::channel();
    let count = sockets.len();
    let threads = Cores::start(&node, sockets, move |(listener, redis)| {
        let (tasks, opened) = (tasks.clone(), opened.clone());
        let (serving, door, resp, set) = (serving.clone(), door.clone(), resp.clone(), set.clone());
        async move {
            let allocator = serving.for_doors_of_this_thread();
            let open = || {
                if let (Some(listener), Some(node)) = (redis, &resp) {
                    resp::serve(allocator.clone(), node, &set, listener, &tasks)?;
                }
                grpc::serve(allocator, door, listener, &tasks)
            };
            let outcome = open();
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
        outcome.context("cannot open the ports")?;
    }
    keepers.allocator(allocator.clone());
    Ok(allocator)
}

/// What a node needs files for beside its callers. Each thread, and that of the keepers, has connections of its own to
/// every other AllocSvr.
fn own_files(config: &AllocConfig, serving: usize) -> OwnFiles {
    let threads = serving + 1;
    let peers = config.spec.allocs.len().saturating_sub(1);
    OwnFiles { dials: peers * config.tuning.connections * threads + config.spec.stores.len(), threads }
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
        let mut status = allocator.status();
        if status.store_addrs.is_empty() {
            // The store has not stated its members yet.
            status.store_addrs.clone_from(&identity.store_addrs);
        }
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
