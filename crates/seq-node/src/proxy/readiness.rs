//! Readiness of a proxy. A proxy is ready if all its threads serve, it has routes, and a node behind it responds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seq_channel::Dial;
use seq_client::{Client, ConnectError};
use seq_kit::http::Checks;
use seq_kit::tasks::TaskGroup;
use seq_load::outcome::Chain;

/// Interval between probes of the nodes behind the proxy. It is so short that a load balancer notices within a second
/// or two if the proxy cannot reach them any more.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of a probe. It is longer than the time that a busy node takes to respond.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The state that the checks report.
#[derive(Debug)]
pub(super) struct Readiness {
    threads: usize,
    serving: AtomicUsize,
    /// Reason for which no node behind the proxy responds; `None` while a node responds.
    fault: Mutex<Option<String>>,
}

impl Readiness {
    pub(super) fn new(threads: usize) -> Readiness {
        let fault = Mutex::new(Some("no routes yet".to_owned()));
        Readiness { threads, serving: AtomicUsize::new(0), fault }
    }

    /// Counts a thread that has begun to serve.
    pub(super) fn thread_serves(&self) {
        self.serving.fetch_add(1, Relaxed);
    }

    /// Adds the readiness checks of a proxy to `checks`.
    pub(super) fn add_checks(self: &Arc<Readiness>, checks: &mut Checks) {
        let readiness = self.clone();
        checks.add("backends", move || readiness.fault.lock().clone().map_or(Ok(()), Err));
        let readiness = self.clone();
        checks.add("endpoints", move || {
            let (serving, threads) = (readiness.serving.load(Relaxed), readiness.threads);
            if serving == threads { Ok(()) } else { Err(format!("{serving} of {threads} threads have routes")) }
        });
    }

    /// Records whether a node behind the proxy responds, and logs a change. `fault` is the reason for which none
    /// responds.
    fn set(&self, fault: Option<String>) {
        let mut current = self.fault.lock();
        match (&*current, &fault) {
            (Some(_), None) => tracing::info!("a backend responds"),
            (known, Some(fault)) if known.as_ref() != Some(fault) => tracing::warn!(fault, "no backend responds"),
            _ => {}
        }
        *current = fault;
    }
}

/// Probes the nodes behind the proxy until the task group shuts down. Ends earlier if the first attempt to connect
/// fails with an error that is not retryable, for example because the seeds belong to different clusters.
pub(super) async fn watch(readiness: Arc<Readiness>, (seeds, dial): (Arc<[String]>, Dial), tasks: TaskGroup) {
    let connect = super::connect(&seeds, &dial, |error| readiness.set(Some(Chain(error).to_string())));
    let client: Client = tokio::select! {
        client = connect => match client {
            Ok(client) => client,
            Err(error) => return tracing::error!("cannot connect to the cluster: {}", Chain(&error)),
        },
        () = tasks.shutting_down() => return,
    };
    probe(client, tasks, |probed| readiness.set(probed.err().map(|error| Chain(&error).to_string()))).await;
}

/// Requests newer routes every second until the task group shuts down, and passes each result to `probed`. Without
/// these requests, a client that makes no calls would get no newer routes, and a proxy gets its series from the routes.
pub(super) async fn probe(client: Client, tasks: TaskGroup, probed: impl Fn(Result<(), ConnectError>)) {
    loop {
        probed(client.probe(PROBE_TIMEOUT).await);
        tokio::select! {
            () = tokio::time::sleep(PROBE_INTERVAL) => {}
            () = tasks.shutting_down() => return,
        }
    }
}
