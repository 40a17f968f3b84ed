use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::*;

/// Counters that a test can read.
struct Counts {
    counts: SpanCounts,
    handle: metrics_exporter_prometheus::PrometheusHandle,
    _recorder: metrics_exporter_prometheus::PrometheusRecorder,
}

impl Counts {
    fn new() -> Counts {
        let recorder = PrometheusBuilder::new().build_recorder();
        let counts = metrics::with_local_recorder(&recorder, || SpanCounts {
            exported: metrics::counter!("exported"),
            dropped: metrics::counter!("dropped"),
            failed: metrics::counter!("failed"),
        });
        Counts { counts, handle: recorder.handle(), _recorder: recorder }
    }

    /// Returns the spans that were exported, dropped and failed.
    fn all(&self) -> [u64; 3] {
        let text = self.handle.render();
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))?.parse().ok());
        ["exported", "dropped", "failed"].map(|name| value(name).unwrap_or(0))
    }
}

/// A recorder whose spans stay in its queue.
fn recorder(one_in: u32) -> (&'static Tracer, mpsc::Receiver<Ended>, Counts) {
    let counts = Counts::new();
    let (tracer, spans) = Tracer::new(one_in, counts.counts.clone());
    (Box::leak(Box::new(tracer)), spans, counts)
}

fn caller() -> Start {
    Start::of(Context { is_of_caller: true, ..Context::draw() }, "Next".into())
}

#[tokio::test]
async fn a_span_below_another_one_is_in_its_trace() {
    let (tracer, mut spans, _) = recorder(1);
    let mut root = tracer.root("raise", true);
    root.set("section", 7_u32);
    let mut below = root.child("step");
    below.fail("refused");
    let current = root.scope(async { context::current() }).await;
    drop((below, root));
    let (below, root) = (spans.try_recv().unwrap(), spans.try_recv().unwrap());
    assert_eq!(current, Some(root.start.context));
    assert_eq!(below.start.context.trace, root.start.context.trace);
    assert_eq!((below.start.parent, root.start.parent), (Some(root.start.context), None));
    assert_eq!((below.failure.as_deref(), root.failure), (Some("refused"), None));
    assert_eq!(root.attributes, [("section", Value::Number(7))]);
}

#[tokio::test]
async fn a_span_that_is_not_sampled_is_exported_if_it_fails() {
    let (tracer, mut spans, _) = recorder(1);
    let root = tracer.root("raise", false);
    assert!(root.trace_id().is_none() && root.child("step").is_none());
    assert_eq!(root.scope(async { context::current() }).await, None);
    drop(root);
    assert!(spans.try_recv().is_err());
    let mut failed = tracer.root("raise", false);
    failed.fail_if(&Err::<(), _>("refused"));
    let trace = failed.trace_id();
    drop(failed);
    assert_eq!(spans.try_recv().unwrap().start.context.trace, trace.unwrap());
    let mut passed = tracer.root("raise", false);
    passed.fail("no response");
    passed.pass();
    drop(passed);
    assert!(spans.try_recv().is_err());
}

#[test]
fn an_empty_span_does_nothing() {
    let mut span = Span::none();
    span.set("key", "value");
    span.fail("why");
    assert!(span.is_none() && span.trace_id().is_none() && span.child("step").is_none());
    assert!(child("step").is_none(), "the task has no span");
    let mut metadata = MetadataMap::new();
    inject(&mut metadata);
    assert!(metadata.is_empty());
}

#[test]
fn a_text_of_a_span_is_bounded() {
    let long = "ä".repeat(1_000);
    assert_eq!(Value::from(long.as_str()), Value::Text("ä".repeat(128)));
}

#[test]
fn callers_leave_half_of_the_queue_to_the_process() {
    let (tracer, mut spans, counts) = recorder(1);
    for _ in 0..QUEUED {
        drop(Span::begin(tracer, caller()));
    }
    assert_eq!(counts.all(), [0, KEPT as u64, 0]);
    for _ in 0..QUEUED {
        drop(tracer.root("raise", true));
    }
    assert_eq!(counts.all(), [0, QUEUED as u64, 0]);
    let mut queued = 0;
    while spans.try_recv().is_ok() {
        queued += 1;
    }
    assert_eq!(queued, QUEUED);
}

#[test]
fn an_address_of_a_collector_has_a_host_and_a_port() {
    for good in ["http://127.0.0.1:4317", "http://collector:4317/", "http://[::1]:4317"] {
        assert!(check_endpoint(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "collector:4317",
        "127.0.0.1:4317",
        "http://collector",
        "grpc://collector:4317",
        "http://collector:4317/v1",
    ] {
        assert!(check_endpoint(bad).unwrap_err().to_string().ends_with("is not http://HOST:PORT"), "{bad}");
    }
    let error = check_endpoint("https://collector:4317").unwrap_err();
    assert!(error.to_string().starts_with("\"https://collector:4317\" has TLS"), "{error}");
}

/// A collector that rejects spans with the name "bad", and passes the others on.
struct Collector(mpsc::Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let spans = request.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans);
        let rejected_spans = spans.filter(|span| span.name == "bad").count() as i64;
        let partial_success =
            (rejected_spans > 0).then(|| ExportTracePartialSuccess { rejected_spans, error_message: "bad".to_owned() });
        self.0.send(request).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ExportTraceServiceResponse { partial_success }))
    }
}

/// Starts the exporter of a recorder.
fn exporter(addr: &str) -> (&'static Tracer, Traces, Counts) {
    let (tracer, spans, counts) = recorder(1);
    let endpoint = check_endpoint(&format!("http://{addr}")).unwrap();
    let service = Service { name: "seqsvr-a1".to_owned(), version: "1".to_owned(), ..Service::default() };
    let traces = export::start(endpoint, service, spans, counts.counts.clone(), CancellationToken::new()).unwrap();
    (tracer, traces, counts)
}

/// Ends an exporter, and returns the time that the end takes.
async fn end(traces: Traces) -> Duration {
    let began = Instant::now();
    tokio::task::spawn_blocking(move || traces.end()).await.unwrap();
    began.elapsed()
}

#[tokio::test]
async fn spans_reach_the_collector_before_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let (requests, mut received) = mpsc::channel(8);
    let serving = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(Collector(requests)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let (tracer, traces, counts) = exporter(&addr);
    let test = async {
        drop((tracer.root("raise", true), tracer.root("bad", true), Span::begin(tracer, caller())));
        let took = end(traces).await;
        assert!(took < Duration::from_millis(900), "{took:?}");
        received.recv().await.unwrap()
    };
    let request = tokio::select! {
        request = test => request,
        ended = serving => panic!("{ended:?}"),
    };
    assert_eq!(counts.all(), [2, 0, 1]);
    let of_process = &request.resource_spans[0];
    let attributes = &of_process.resource.as_ref().unwrap().attributes;
    let keys: Vec<_> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(keys, ["service.name", "service.version"]);
    let spans = &of_process.scope_spans[0].spans;
    assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["raise", "bad", "Next"]);
    assert_eq!(spans.iter().map(|span| span.trace_id.len()).collect::<Vec<_>>(), [16, 16, 16]);
    assert!(spans[0].start_time_unix_nano <= spans[0].end_time_unix_nano);
}

#[tokio::test]
async fn a_collector_that_is_down_or_silent_delays_no_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    for (addr, most) in [(silent, 1_500), (closed, 900)] {
        let (tracer, traces, counts) = exporter(&addr);
        for _ in 0..3 {
            drop(tracer.root("raise", true));
        }
        let took = end(traces).await;
        assert!(took < Duration::from_millis(most), "{addr}: {took:?}");
        assert_eq!(counts.all()[0], 0);
    }
}
