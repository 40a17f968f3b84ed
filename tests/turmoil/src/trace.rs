//! The trace of a run as one number: every message on the network and every line that the services log goes into it.
//!
//! A message counts with its time, sender and receiver, without its bytes: HTTP puts the date of the real clock into
//! responses. Two runs with the same trace are the same run. With `TURMOIL_LOG` set all of it is also printed.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// How much of a run is traced.
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
    // With fixed keys: the same in every process.
    hasher: DefaultHasher,
    events: u64,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(detail: Detail, is_printed: bool) -> Trace {
        Trace { detail, is_printed, state: Arc::default() }
    }

    /// Traces what `run` does.
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.clone(), run)
    }

    /// The trace so far, and how many events it has.
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

/// Takes what comes before the bytes of a message.
struct Opening<'a>(&'a mut String);

impl fmt::Write for Opening<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.find('[').unwrap_or(text.len());
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
