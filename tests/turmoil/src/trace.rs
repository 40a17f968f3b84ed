//! The trace of a run as one number, a hash of every message on the network and every line that the services log.
//!
//! A message counts with its time, sender and receiver, without its bytes, because HTTP puts the date of the real clock
//! into responses. Two runs with the same trace are the same run. If `TURMOIL_LOG` is set, the trace is also printed.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// Extent of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The services' logs, and the events in the report.
    Log,
    /// Every message, too.
    Messages,
}

/// The trace of the current thread's run.
#[derive(Clone, Debug)]
pub struct Trace {
    detail: Detail,
    is_printed: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    // With fixed keys, so that it is the same in every process.
    hasher: DefaultHasher,
    events: u64,
}

impl Trace {
    /// Creates an empty trace.
    #[must_use]
    pub fn new(detail: Detail, is_printed: bool) -> Trace {
        Trace { detail, is_printed, state: Arc::default() }
    }

    /// Traces the messages and logs of `run`.
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.clone(), run)
    }

    /// Returns the trace so far, and its number of events.
    #[must_use]
    pub fn sum(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.hasher.finish(), state.events)
    }
}

impl Subscriber for Trace {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let (target, level) = (metadata.target(), *metadata.level());
        match self.detail {
            _ if metadata.is_span() => false,
            _ if target.starts_with("seq_") => level <= Level::DEBUG,
            Detail::Log => false,
            Detail::Messages => target.starts_with("turmoil"),
        }
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let target = event.metadata().target();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.events += 1;
        state.hasher.write(target.as_bytes());
        state.hasher.write(line.0.as_bytes());
        if self.is_printed {
            eprintln!("{:5} {target}:{}", event.metadata().level(), line.0);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            // An error only ends the writing of the rest.
            "protocol" => write!(Opening(&mut self.0), " {value:?}").or(Ok(())),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("writing into memory does not fail");
    }
}

/// Writer that keeps only the part before the bytes of a message.
struct Opening<'a>(&'a mut String);

impl fmt::Write for Opening<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.find('[').unwrap_or(text.len());
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
