//! Records traces, which consist of spans, and exports them to a collector that accepts OTLP. Spans are recorded for
//! rare work, and for requests whose caller records a trace.
//!
//! Traces are off until [`start`] is called. While they are on, the code that does some work holds the span of the work
//! as a value, and the span is exported when this value is dropped. A span that is not recorded is an empty value. The
//! spans of the library `tracing` are not used, because the log filter would decide about them, and spans of other
//! libraries would be exported too (docs/adr/0035).
//!
//! While a span is recorded, it is the current span of its task, in a task-local value. So functions need no argument
//! for a span, and requests without a recorded span cost nothing.

use std::future::Future;
use std::io;
use std::sync::OnceLock;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::metadata::{MetadataMap, MetadataValue};

mod context;
mod export;
mod otlp;
mod span;

pub use context::TraceId;
pub use export::{EndpointError, SpanCounts, Traces, check_endpoint};
pub use otlp::Service;
pub use span::{Span, Value};

use context::Context;
use span::{Ended, Start};

/// Header that carries the span of a caller, as defined by W3C Trace Context. In gRPC requests it is part of the
/// metadata.
pub const HEADER: &str = "traceparent";

/// Limit on the spans that wait for the exporter. So many spans take about a megabyte, and are enough if a collector
/// does not respond for some seconds.
const QUEUED: usize = 2_048;

/// Number of places in the queue that only spans of this process' own work may use. So callers cannot fill the whole
/// queue with the spans of their requests.
const KEPT: usize = QUEUED / 2;

/// The recorder of the process.
static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Recorder of spans.
#[derive(Debug)]
struct Tracer {
    queue: mpsc::Sender<Ended>,
    one_in: u32,
    counts: SpanCounts,
}

impl Tracer {
    fn new(one_in: u32, counts: SpanCounts) -> (Tracer, mpsc::Receiver<Ended>) {
        let (queue, spans) = mpsc::channel(QUEUED);
        (Tracer { queue, one_in, counts }, spans)
    }

    /// Begins the first span of a trace.
    fn root(&'static self, name: &'static str, is_sampled: bool) -> Span {
        let context = Context::draw();
        Span::begin(self, Start { is_sampled, ..Start::of(context, name.into()) })
    }

    /// Begins a child span of a recorded span.
    fn below(&'static self, parent: Context, name: &'static str) -> Span {
        Span::begin(self, Start { parent: Some(parent), ..Start::of(parent.below(), name.into()) })
    }

    /// Puts a span that has ended into the queue for the exporter, or counts it as dropped if there is no place for it.
    fn ended(&self, span: Ended) {
        let has_place = !span.start.context.is_of_caller || self.queue.capacity() > KEPT;
        if !has_place || self.queue.try_send(span).is_err() {
            self.counts.dropped.increment(1);
        }
    }
}

/// Starts to record spans, and starts the thread that exports them to the collector at `endpoint`. It must be called
/// only once in a process. Of the traces that begin with [`sampled`], one in `one_in` is exported.
///
/// # Errors
/// The endpoint is invalid, the thread cannot be started, or traces are already on.
pub fn start(endpoint: &str, one_in: u32, service: Service, counts: SpanCounts) -> io::Result<Traces> {
    let endpoint = check_endpoint(endpoint).map_err(io::Error::other)?;
    let (tracer, spans) = Tracer::new(one_in, counts.clone());
    let ending = CancellationToken::new();
    let traces = export::start(endpoint, service, spans, counts, ending)?;
    TRACER.set(tracer).map_err(|_| io::Error::other("the process records traces already"))?;
    Ok(traces)
}

/// Returns whether spans are recorded.
#[inline]
#[must_use]
pub fn are_on() -> bool {
    TRACER.get().is_some()
}

/// Begins a trace of rare work, which is always exported.
pub fn always(name: &'static str) -> Span {
    TRACER.get().map_or_else(Span::none, |tracer| tracer.root(name, true))
}

/// Begins a trace of frequent work. The trace is exported if it is sampled, if the work fails, or if the work is slow.
pub fn sampled(name: &'static str) -> Span {
    TRACER.get().map_or_else(Span::none, |tracer| tracer.root(name, fastrand::u32(0..tracer.one_in.max(1)) == 0))
}

/// Begins a child span of the task's current span. Returns an empty span if the task has no current span.
pub fn child(name: &'static str) -> Span {
    let (Some(tracer), Some(parent)) = (TRACER.get(), context::current()) else { return Span::none() };
    tracer.below(parent, name)
}

/// Begins the span of a request with the header [`HEADER`], of which `header` is the value. Returns an empty span if
/// the header is malformed, or if the caller does not record its trace. `name` returns the name of the span and is
/// called only if the span is recorded. The name must not come from the caller.
pub fn of_caller(header: &[u8], name: impl FnOnce() -> String) -> Span {
    let (Some(tracer), Some(caller)) = (TRACER.get(), context::parse(header)) else { return Span::none() };
    let context = Context { is_of_caller: true, ..caller.below() };
    Span::begin(tracer, Start { parent: Some(caller), ..Start::of(context, name().into()) })
}

/// Handles the request of another node with `handle`. If the metadata of the request states a span, that span is the
/// task's current span while `handle` runs.
pub async fn continued<Q, W: Future>(request: Request<Q>, handle: impl FnOnce(Request<Q>) -> W) -> W::Output {
    let stated = request.metadata().get(HEADER).filter(|_| are_on());
    let caller = stated.and_then(|header| context::parse(header.as_bytes()));
    let work = handle(request);
    match caller {
        Some(caller) => context::within(caller, work).await,
        None => work.await,
    }
}

/// Adds the task's current span, if there is one, to the metadata of a request to another node.
pub fn inject(metadata: &mut MetadataMap) {
    let Some(current) = context::current() else { return };
    if let Ok(header) = MetadataValue::try_from(current.to_string()) {
        metadata.insert(HEADER, header);
    }
}

#[cfg(test)]
mod tests;
