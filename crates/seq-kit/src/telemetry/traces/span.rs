//! A span, which records a piece of work: its place in a trace, its times, its attributes and its failure.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use tracing::field::DisplayValue;

use super::Tracer;
use super::context::{self, Context, TraceId};
use crate::wall_clock;

/// Duration from which a span is exported even if it is not sampled.
const SLOW: Duration = Duration::from_secs(1);

/// Limit on the bytes of a text in a span.
const MAX_TEXT: usize = 256;

/// A span. It ends when the value is dropped. The value is empty if the span is not recorded.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    tracer: &'static Tracer,
    start: Start,
    since: Instant,
    attributes: Vec<(&'static str, Value)>,
    failure: Option<String>,
}

/// Identity, name and time of a span at the span's beginning.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) context: Context,
    /// The parent of the span in the trace.
    pub(super) parent: Option<Context>,
    pub(super) name: Cow<'static, str>,
    pub(super) at: SystemTime,
    /// Whether the span is always exported.
    pub(super) is_sampled: bool,
}

impl Start {
    /// Returns the start of a span that begins now and is always exported.
    pub(super) fn of(context: Context, name: Cow<'static, str>) -> Start {
        Start { context, parent: None, name, at: wall_clock::now(), is_sampled: true }
    }
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) start: Start,
    pub(super) lasted: Duration,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) failure: Option<String>,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(shortened(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(shortened(&text))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as u64)
    }
}

impl Span {
    /// Returns an empty span.
    pub fn none() -> Span {
        Span(None)
    }

    pub(super) fn begin(tracer: &'static Tracer, start: Start) -> Span {
        let open = Open { tracer, start, since: Instant::now(), attributes: Vec::new(), failure: None };
        Span(Some(Box::new(open)))
    }

    /// Returns whether the span is empty, that is, not recorded.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Adds an attribute.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(open) = &mut self.0 {
            open.attributes.push((key, value.into()));
        }
    }

    /// Marks the span as failed, so that it is exported in any case. A later call replaces the text of the failure.
    pub fn fail(&mut self, why: impl fmt::Display) {
        if let Some(open) = &mut self.0 {
            open.failure = Some(shortened(&why.to_string()));
        }
    }

    /// Marks the span as failed if an outcome is an error.
    pub fn fail_if<T, E: fmt::Display>(&mut self, outcome: &Result<T, E>) {
        if let Err(why) = outcome {
            self.fail(why);
        }
    }

    /// Removes the mark that [`Span::fail`] made.
    pub fn pass(&mut self) {
        if let Some(open) = &mut self.0 {
            open.failure = None;
        }
    }

    /// Begins a child span of this span. The child is an empty span if this span is not sampled.
    pub fn child(&self, name: &'static str) -> Span {
        let (Some(open), Some(context)) = (&self.0, self.sampled()) else { return Span::none() };
        open.tracer.below(context, name)
    }

    /// Runs `work` with this span as the task's current span, if this span is sampled.
    pub async fn scope<W: Future>(&self, work: W) -> W::Output {
        match self.sampled() {
            Some(context) => context::within(context, work).await,
            None => work.await,
        }
    }

    /// Returns the id of this span's trace for a log line; `None` if the span would not be exported if it ended now.
    #[must_use]
    pub fn trace(&self) -> Option<DisplayValue<TraceId>> {
        self.trace_id().map(tracing::field::display)
    }

    /// Returns the id of this span's trace; `None` if the span would not be exported if it ended now.
    #[must_use]
    pub fn trace_id(&self) -> Option<TraceId> {
        let open = self.0.as_ref()?;
        open.is_exported(open.since.elapsed()).then_some(open.start.context.trace)
    }

    fn sampled(&self) -> Option<Context> {
        self.0.as_ref().filter(|open| open.start.is_sampled).map(|open| open.start.context)
    }
}

impl Open {
    fn is_exported(&self, lasted: Duration) -> bool {
        self.start.is_sampled || self.failure.is_some() || lasted >= SLOW
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let lasted = open.since.elapsed();
        if open.is_exported(lasted) {
            let Open { tracer, start, attributes, failure, .. } = *open;
            tracer.ended(Ended { start, lasted, attributes, failure });
        }
    }
}

/// Returns the beginning of a text, with at most [`MAX_TEXT`] bytes.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}
