//! Spans as messages of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};

use super::span::{Ended, Start, Value};

/// Names of this process, which are the resource of its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Name of the service. Collectors list traces by this name.
    pub name: String,
    /// Namespace of the name; empty if there is none.
    pub namespace: String,
    /// Name of the process among the processes of the service.
    pub instance: String,
    /// Version of the program.
    pub version: String,
    /// Name of the program, as the origin of the spans.
    pub program: String,
}

/// Returns the message with a batch of spans.
pub(super) fn request(service: &Service, spans: Vec<Ended>) -> ExportTraceServiceRequest {
    let Service { name, namespace, instance, version, program } = service;
    let attributes = [
        ("service.name", name),
        ("service.namespace", namespace),
        ("service.instance.id", instance),
        ("service.version", version),
    ];
    let attributes = attributes.into_iter().filter(|(_, value)| !value.is_empty());
    let attributes = attributes.map(|(key, value)| attribute(key, Value::Text(value.clone()))).collect();
    let scope = InstrumentationScope { name: program.clone(), version: version.clone(), ..Default::default() };
    let spans = spans.into_iter().map(span).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Default::default() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }],
            schema_url: String::new(),
        }],
    }
}

fn span(span: Ended) -> Span {
    let Ended { start, lasted, attributes, failure } = span;
    let Start { context, parent, name, at, .. } = start;
    let is_remote = parent.is_some_and(|parent| parent.is_remote);
    let remote = if is_remote { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
    Span {
        trace_id: context.trace.0.to_be_bytes().to_vec(),
        span_id: context.span.to_be_bytes().to_vec(),
        parent_span_id: parent.map_or_else(Vec::new, |parent| parent.span.to_be_bytes().to_vec()),
        // The lowest bit states that the trace is recorded.
        flags: 1 | SpanFlags::ContextHasIsRemoteMask as u32 | remote,
        name: name.into_owned(),
        kind: if is_remote && context.is_of_caller { SpanKind::Server } else { SpanKind::Internal }.into(),
        start_time_unix_nano: nanoseconds(at),
        end_time_unix_nano: nanoseconds(at + lasted),
        attributes: attributes.into_iter().map(|(key, value)| attribute(key, value)).collect(),
        status: failure.map(|message| Status { message, code: StatusCode::Error.into() }),
        ..Span::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text),
        Value::Number(number) => any_value::Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
