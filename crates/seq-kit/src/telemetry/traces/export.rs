//! The thread that exports spans. It has a runtime of its own.
//!
//! If spans were exported on a single-threaded runtime of the process, then the end of the process, which waits for the
//! export of the last spans, would block the very thread that has to send them. The collector never delays other work:
//! a full queue drops spans, a request to the collector has a timeout and is not repeated, and the end of the process
//! waits for at most [`END`].

use std::io;
use std::sync::mpsc as of_threads;
use std::time::Duration;

use metrics::Counter;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use super::otlp::{self, Service};
use super::span::Ended;
use crate::repeats::Repeats;

/// Limit on the spans in one request to the collector. It is a quarter of the queue, and such a request is far below
/// the 4 MiB that collectors accept.
const BATCH: usize = 512;

/// Time for which the exporter waits for more spans after the first span of a batch, so that it wakes up at most a few
/// times a second.
const GATHER: Duration = Duration::from_millis(200);

/// Timeout of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a connection to the collector.
const CONNECT: Duration = Duration::from_secs(2);

/// Interval of pings on a connection, and timeout of their responses.
const ALIVE: Duration = Duration::from_secs(10);

/// Longest time for which the end of the process waits for the last spans.
const END: Duration = Duration::from_secs(1);

/// Counters of spans by outcome.
#[derive(Clone)]
pub struct SpanCounts {
    /// Spans that the collector accepted.
    pub exported: Counter,
    /// Spans that were dropped because the queue was full.
    pub dropped: Counter,
    /// Spans that the collector refused, or for which it did not respond.
    pub failed: Counter,
}

impl std::fmt::Debug for SpanCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpanCounts")
    }
}

/// Error of an address that cannot be the address of a collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{endpoint:?} {why}")]
pub struct EndpointError {
    endpoint: String,
    why: &'static str,
}

/// Checks the address of a collector.
///
/// # Errors
/// [`EndpointError`] for any address that is not of the form `http://HOST:PORT`.
pub fn check_endpoint(endpoint: &str) -> Result<Endpoint, EndpointError> {
    let refused = |why| EndpointError { endpoint: endpoint.to_owned(), why };
    let uri: Uri = endpoint.parse().map_err(|_| refused("is not http://HOST:PORT"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(refused("has TLS: export to a collector on this machine by http://")),
        _ => return Err(refused("is not http://HOST:PORT")),
    }
    if uri.port().is_none() || uri.path() != "/" || uri.query().is_some() {
        return Err(refused("is not http://HOST:PORT"));
    }
    Ok(Endpoint::from(uri)
        .connect_timeout(CONNECT)
        .keep_alive_while_idle(true)
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE))
}

/// The exporter of a process.
#[derive(Debug)]
#[must_use = "the last spans are exported by its end"]
pub struct Traces {
    ending: CancellationToken,
    /// Closed when the thread ends.
    ended: of_threads::Receiver<()>,
}

impl Traces {
    /// Exports the spans that are still in the queue, and ends the thread. Blocks for at most a second. Spans that the
    /// collector has not accepted by then are lost.
    pub fn end(self) {
        self.ending.cancel();
        let _ = self.ended.recv_timeout(END);
    }
}

/// Starts the thread.
pub(super) fn start(
    endpoint: Endpoint,
    service: Service,
    spans: mpsc::Receiver<Ended>,
    counts: SpanCounts,
    ending: CancellationToken,
) -> io::Result<Traces> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (alive, ended) = of_threads::channel();
    let token = ending.clone();
    std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
        let _alive = alive;
        runtime.block_on(async {
            let client = TraceServiceClient::new(endpoint.connect_lazy());
            Exporter { client, service, spans, counts, failures: Repeats::default() }.run_until(&token).await;
        });
    })?;
    Ok(Traces { ending, ended })
}

struct Exporter {
    client: TraceServiceClient<Channel>,
    service: Service,
    spans: mpsc::Receiver<Ended>,
    counts: SpanCounts,
    /// Limit on log lines about spans that are not exported.
    failures: Repeats,
}

impl Exporter {
    /// Exports spans until `ending` is cancelled, and then exports the spans that are left in the queue.
    async fn run_until(mut self, ending: &CancellationToken) {
        let too_late = async {
            ending.cancelled().await;
            sleep(END).await;
        };
        tokio::select! {
            () = self.run(ending) => {}
            () = too_late => {}
        }
    }

    async fn run(&mut self, ending: &CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let received = ending.run_until_cancelled(self.spans.recv_many(&mut batch, BATCH)).await;
            if received.is_some() {
                ending.run_until_cancelled(sleep(GATHER)).await;
            }
            // If the queue is closed, no further span can arrive.
            let is_last = ending.is_cancelled() || received == Some(0);
            loop {
                while batch.len() < BATCH
                    && let Ok(span) = self.spans.try_recv()
                {
                    batch.push(span);
                }
                if batch.is_empty() {
                    break;
                }
                self.export(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))).await;
            }
            if is_last {
                return;
            }
        }
    }

    async fn export(&mut self, batch: Vec<Ended>) {
        let spans = batch.len() as u64;
        let request = otlp::request(&self.service, batch);
        let failed = match timeout(TIMEOUT, self.client.export(request)).await {
            Ok(Ok(response)) => rejected(response.get_ref(), spans),
            Ok(Err(status)) => Some((spans, text(&status))),
            Err(_) => Some((spans, format!("no response within {TIMEOUT:?}"))),
        };
        let Some((lost, why)) = failed else {
            self.counts.exported.increment(spans);
            if self.failures.end() > 0 {
                tracing::info!("the collector takes spans again");
            }
            return;
        };
        self.counts.failed.increment(lost);
        self.counts.exported.increment(spans - lost);
        if let Some(repeated) = self.failures.admit() {
            tracing::warn!(spans = lost, why, repeated, "spans were not exported");
        }
    }
}

/// Returns the number of spans of a request that the collector rejected, and its reason; `None` if it accepted all of
/// them. `sent` is the number of spans in the request.
fn rejected(response: &ExportTraceServiceResponse, sent: u64) -> Option<(u64, String)> {
    let partial = response.partial_success.as_ref()?;
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0).min(sent);
    (rejected > 0).then(|| (rejected, partial.error_message.clone()))
}

/// Returns the text of a status together with the texts of its causes, for example that the connection was refused.
fn text(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
