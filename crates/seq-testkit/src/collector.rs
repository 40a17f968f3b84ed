//! A collector of traces that keeps all spans it receives.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A span, with the name of its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectedSpan {
    /// Name of the service that exported it.
    pub service: String,
    /// Name of the span.
    pub name: String,
    /// Id of its trace, in hexadecimal digits.
    pub trace: String,
    /// Id of the span itself, in hexadecimal digits.
    pub id: String,
    /// Id of its parent span, in hexadecimal digits; empty if it has no parent.
    pub parent: String,
    /// Whether the span covers a request at the server that received it.
    pub is_request: bool,
    /// Attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// Message of the span's status. If the span failed, the message is the reason.
    pub failure: Option<String>,
    /// Duration in nanoseconds.
    pub lasted_ns: u64,
}

impl CollectedSpan {
    /// Returns the attribute `key`; an empty text if the span does not have it.
    #[must_use]
    pub fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

/// A collector that runs on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Collector {
    addr: SocketAddr,
    spans: Spans,
    _end: oneshot::Sender<()>,
}

type Spans = Arc<Mutex<Vec<CollectedSpan>>>;

impl Collector {
    /// Starts a collector at a free port.
    ///
    /// # Panics
    /// If `host` is not an address of this machine.
    #[must_use]
    pub fn start(host: impl Into<IpAddr>) -> Collector {
        let listener = std::net::TcpListener::bind((host.into(), 0)).expect("the address is of this machine");
        listener.set_nonblocking(true).expect("a socket can be made nonblocking");
        let addr = listener.local_addr().expect("it is bound");
        let spans = Spans::default();
        let service = TraceServiceServer::new(Receiver(spans.clone()));
        let (end, ended) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        std::thread::spawn(move || {
            runtime.block_on(async {
                let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).expect("a socket"));
                let ended = async { drop(ended.await) };
                let _ = Server::builder().add_service(service).serve_with_incoming_shutdown(incoming, ended).await;
            });
        });
        Collector { addr, spans, _end: end }
    }

    /// Returns the URL of the collector, in the form that the settings of a server expect.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns the spans received so far. Spans of the same process are in the order in which they ended.
    #[must_use]
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.spans.lock().clone()
    }

    /// Returns the spans of a trace.
    #[must_use]
    pub fn of_trace(&self, trace: &str) -> Vec<CollectedSpan> {
        self.spans.lock().iter().filter(|span| span.trace == trace).cloned().collect()
    }
}

struct Receiver(Spans);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock();
        for of_process in request.into_inner().resource_spans {
            let of_service = texts(of_process.resource.unwrap_or_default().attributes);
            let service = of_service.get("service.name").cloned().unwrap_or_default();
            let received = of_process.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
            spans.extend(received.map(|span| collected(&service, span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn collected(service: &str, span: Span) -> CollectedSpan {
    CollectedSpan {
        service: service.to_owned(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        is_request: span.kind() == SpanKind::Server,
        lasted_ns: span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano),
        name: span.name,
        attributes: texts(span.attributes),
        failure: span.status.map(|status| status.message),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |attribute: KeyValue| {
        let text = match attribute.value.and_then(|value| value.value) {
            Some(Value::StringValue(text)) => text,
            Some(Value::IntValue(number)) => number.to_string(),
            other => panic!("{}: {other:?} is neither a text nor a number", attribute.key),
        };
        (attribute.key, text)
    };
    attributes.into_iter().map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
