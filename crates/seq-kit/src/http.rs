//! The HTTP port for metrics and probes, with the paths `/metrics`, `/livez` and `/readyz`.
//!
//! `/livez` reports the state of this process only. It never reports the state of a quorum, because a restart of this
//! process would not bring back another process. `/readyz` runs every readiness check, and responds with status 503 and
//! the reasons if any check fails. `/readyz/<check>` runs only the check of this name.
//!
//! **Invariant:** clients of this port cannot exhaust the file descriptors or the memory of the node. At most
//! [`MAX_CONNECTIONS`] connections are open at a time. Each connection is for one request. The request must arrive, and
//! its response be read, within the timeouts of [`crate::admission`]. Then the connection is closed.

use std::fmt::Write;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics::Counter;
use tokio::net::TcpListener;

use crate::admission::{Admission, ConnectionMetrics, Watched};
use crate::connection::{Connection, Tls, paced};
use crate::departure::Departure;
use crate::listen::Sockets;
use crate::metrics::{Recorder, UPKEEP_INTERVAL};
use crate::tasks::{Kind, TaskGroup};
use crate::unfinished::Unfinished;

/// Limit on the open connections of the port. It is enough for the one request at a time that each of a few scrapers
/// and probes sends.
pub const MAX_CONNECTIONS: usize = 96;

/// Limit on connections whose request has not arrived yet. If it is reached, the next new connection takes the place of
/// an older one.
pub const MAX_UNFINISHED: usize = 64;

/// Name of the node under which the connections of this port are counted. It is a fixed name, because the port belongs
/// to the process, which may run several nodes.
pub const NODE: &str = "http";

/// A readiness check of a node. It must not block. Its error is the reason for which the node is not ready.
type Check = dyn Fn() -> Result<(), String> + Send + Sync;

/// The named readiness checks of a process. They are run in the order in which they were added.
#[derive(Clone, Default)]
pub struct Checks {
    checks: Vec<(String, Arc<Check>)>,
    departure: Departure,
}

impl Checks {
    /// Creates an empty list, with which the node is always ready.
    #[must_use]
    pub fn new() -> Checks {
        Checks::default()
    }

    /// Creates a list without checks. The node is ready until its departure has begun.
    #[must_use]
    pub fn until(departure: Departure) -> Checks {
        Checks { checks: Vec::new(), departure }
    }

    /// Returns the departure of the node.
    #[must_use]
    pub fn departure(&self) -> &Departure {
        &self.departure
    }

    /// Adds a check, which must not block because every probe runs it.
    pub fn add(&mut self, name: impl Into<String>, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.checks.push((name.into(), Arc::new(check)));
    }

    /// Adds the checks of another node, each with the name "node.check".
    pub fn add_all(&mut self, node: &str, checks: Checks) {
        self.checks.extend(checks.checks.into_iter().map(|(name, check)| (format!("{node}.{name}"), check)));
    }

    /// Runs every check. The node is ready if all of them pass.
    ///
    /// # Errors
    /// The failed checks, with their reasons.
    pub fn ask(&self) -> Result<(), Vec<(String, String)>> {
        let failing: Vec<_> =
            self.checks.iter().filter_map(|(name, check)| check().err().map(|reason| (name.clone(), reason))).collect();
        if failing.is_empty() { Ok(()) } else { Err(failing) }
    }

    /// Returns whether the node is ready, in response to a probe from outside. Records the probe if it finds the node
    /// ready.
    #[must_use]
    pub fn probe(&self) -> bool {
        let ready = !self.departure.has_begun() && self.ask().is_ok();
        if ready {
            self.departure.probed();
        }
        ready
    }

    fn named(&self, name: &str) -> Option<Result<(), String>> {
        self.checks.iter().find(|(is, _)| is == name).map(|(_, check)| check())
    }

    /// Returns whether all checks passed, and a text with one line for each check.
    fn report(&self) -> (bool, String) {
        let mut ready = true;
        let mut text = String::new();
        for (name, check) in &self.checks {
            match check() {
                Ok(()) => writeln!(text, "ok      {name}"),
                Err(reason) => {
                    ready = false;
                    writeln!(text, "failed  {name}: {reason}")
                }
            }
            .expect("a String takes every write");
        }
        if ready {
            self.departure.probed();
        }
        text.push_str(if ready { "ready\n" } else { "not ready\n" });
        (ready, text)
    }
}

#[derive(Clone)]
struct Shared {
    recorder: Recorder,
    checks: Checks,
}

/// Serves metrics and probes on the current runtime until the group shuts down.
///
/// # Errors
/// When the listener cannot be used by the runtime.
pub fn serve(
    sockets: impl Into<Sockets>,
    tls: Option<Tls>,
    recorder: Recorder,
    checks: Checks,
    (metrics, dropped): (ConnectionMetrics, Counter),
    tasks: &TaskGroup,
) -> std::io::Result<()> {
    let mut listeners = Vec::new();
    for socket in sockets.into() {
        socket.set_nonblocking(true)?;
        listeners.push(TcpListener::from_std(socket)?);
    }
    let listener = Bounded {
        listeners,
        tls,
        admission: Admission::of(NODE, MAX_CONNECTIONS, metrics),
        unfinished: Unfinished::new(MAX_UNFINISHED, [], dropped),
    };
    let shared = Shared { recorder: recorder.clone(), checks };
    let token = tasks.token();
    tasks.spawn("http", Kind::Critical, async move {
        // At shutdown, connections are closed without waiting for their requests. For a pending probe, a closed
        // connection has the same meaning as a response that reports a failure.
        tokio::select! {
            result = axum::serve(listener, router(shared)) => {
                tracing::error!(error = ?result.err(), "the port for metrics and probes closed");
            }
            () = token.cancelled() => {}
        }
    });
    let token = tasks.token();
    tasks.spawn("metrics-upkeep", Kind::Disposable, async move {
        let mut tick = tokio::time::interval(UPKEEP_INTERVAL);
        while token.run_until_cancelled(tick.tick()).await.is_some() {
            recorder.upkeep();
        }
    });
    Ok(())
}

/// A listener that closes each connection above the limit at once, and enforces timeouts on the other connections.
struct Bounded {
    listeners: Vec<TcpListener>,
    tls: Option<Tls>,
    admission: Admission,
    unfinished: Unfinished,
}

impl axum::serve::Listener for Bounded {
    type Io = Watched;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Watched, SocketAddr) {
        loop {
            let accept = |cx: &mut Context<'_>| {
                let accepted = self.listeners.iter().map(|listener| listener.poll_accept(cx));
                accepted.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
            };
            match poll_fn(accept).await {
                Ok((stream, addr)) => {
                    let connection = Connection::of_socket(stream, self.tls.as_ref(), Some(&self.unfinished));
                    // Connections that have just lost their seats are closed only when their tasks run, so this task
                    // lets them run.
                    for _ in 0..MAX_UNFINISHED {
                        if self.admission.count() < MAX_CONNECTIONS {
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                    if let Some(watched) = self.admission.watch(connection) {
                        return (watched, addr);
                    }
                }
                // `paced` logs the error and pauses.
                Err(error) => drop(paced(Err(error)).await),
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listeners[0].local_addr()
    }
}

/// Adds two headers to a response. The first closes the connection, because a connection that is kept open after its
/// response would hold its permit indefinitely. The second forbids browsers to guess the type of the content, because
/// the reason of a failed check could look like a web page.
async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/readyz/{check}", get(ready_one))
        .layer(axum::middleware::map_response(with_headers))
        .with_state(shared)
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], shared.recorder.render())
}

async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    if shared.checks.departure.has_begun() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned());
    }
    let (ready, text) = shared.checks.report();
    (status(ready), text)
}

async fn ready_one(State(shared): State<Shared>, Path(name): Path<String>) -> impl IntoResponse {
    match shared.checks.named(&name) {
        Some(Ok(())) => (StatusCode::OK, "ok\n".to_owned()),
        Some(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        None => (StatusCode::NOT_FOUND, format!("no check is named {name:?}\n")),
    }
}

fn status(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use metrics::gauge;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(addr: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let mut response = String::new();
        // A refused connection may be reset.
        let _ = stream.read_to_string(&mut response).await;
        response
    }

    /// Returns a port and its task group. The recorder of the process is installed only once.
    fn port(checks: Checks) -> (std::net::SocketAddr, TaskGroup) {
        static RECORDER: std::sync::LazyLock<Recorder> =
            std::sync::LazyLock::new(|| Recorder::install(&[], || gauge!("test_refreshed").set(1.0)).unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, tasks) = (listener.local_addr().unwrap(), TaskGroup::new());
        serve(listener, None, RECORDER.clone(), checks, (ConnectionMetrics::none(), Counter::noop()), &tasks).unwrap();
        (addr, tasks)
    }

    #[tokio::test]
    async fn connections_are_bounded_and_closed_after_the_response() {
        let (addr, tasks) = port(Checks::new());
        let mut half = Vec::new();
        for _ in 0..2 * MAX_CONNECTIONS {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            // A connection that lost its seat may be reset.
            let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n").await;
            half.push(stream);
        }
        let within = Duration::from_secs(5);
        // The oldest connections have ended, and a newcomer is served at once.
        let mut byte = [0];
        let ended = tokio::time::timeout(within, half[0].read(&mut byte)).await.expect("the oldest is dropped");
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        let newcomer = tokio::time::timeout(within, get(addr, "/livez")).await.expect("served");
        assert!(newcomer.starts_with("HTTP/1.1 200"), "{newcomer}");
        // The connection of a response ends although the client would keep it.
        let mut one = half.pop().unwrap();
        one.write_all(b"\r\n").await.unwrap();
        let mut response = String::new();
        let read = one.read_to_string(&mut response);
        tokio::time::timeout(within, read).await.expect("closed after the response").unwrap();
        assert!(response.starts_with("HTTP/1.1 200") && response.contains("connection: close"), "{response}");
        drop(half);
        assert_eq!(tasks.shutdown(within).await, Ok(()));
    }

    #[tokio::test]
    async fn probes_name_what_is_missing() {
        let served = Arc::new(AtomicBool::new(false));
        let mut checks = Checks::new();
        checks.add("store", || Ok(()));
        let flag = served.clone();
        checks.add("sections", move || if flag.load(Ordering::Relaxed) { Ok(()) } else { Err("0 of 10".to_owned()) });
        let (addr, tasks) = port(checks);

        let response = get(addr, "/readyz").await;
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
        assert!(response.ends_with("ok      store\nfailed  sections: 0 of 10\nnot ready\n"), "{response}");
        assert!(get(addr, "/readyz/store").await.starts_with("HTTP/1.1 200"));
        assert!(get(addr, "/readyz/sections").await.ends_with("\r\n\r\n0 of 10\n"));
        assert!(get(addr, "/readyz/nothing").await.starts_with("HTTP/1.1 404"));
        for path in ["/metrics", "/livez", "/readyz", "/readyz/sections", "/readyz/nothing", "/nothing"] {
            let response = get(addr, path).await;
            assert!(response.contains("\r\nx-content-type-options: nosniff\r\n"), "{path}: {response}");
            assert!(!response.contains("access-control-"), "{path}: {response}");
        }
        assert!(get(addr, "/livez").await.starts_with("HTTP/1.1 200"), "a node that is not ready is alive");

        served.store(true, Ordering::Relaxed);
        assert!(get(addr, "/readyz").await.starts_with("HTTP/1.1 200"));
        let metrics = get(addr, "/metrics").await;
        assert!(metrics.contains("test_refreshed 1"), "{metrics}");
        assert_eq!(tasks.shutdown(Duration::from_secs(5)).await, Ok(()));
    }
}
