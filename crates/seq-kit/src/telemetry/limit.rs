//! Rate limit on the warnings of the Raft library. Each place in the code of the library logs its first warning at
//! once, and then one warning a minute with the number of suppressed lines. Without this limit, the warnings could fill
//! a disk.
//!
//! The library warns about each heartbeat that a failed member does not acknowledge, several times a second for as long
//! as the failure lasts. The store itself logs the relevant facts, namely which member failed and since when.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::repeats::Repeats;

/// Targets whose warnings are limited.
const LIMITED: &str = "openraft";

/// Formatter that formats events with `inner`, and suppresses repeated warnings of the Raft library.
pub(super) struct Limit<F> {
    inner: F,
    json: bool,
    /// The rate limit of each callsite, that is, of each place in the code that logs. There are at most as many entries
    /// as the library has callsites.
    callsites: Mutex<HashMap<tracing::callsite::Identifier, Repeats>>,
}

impl<F> Limit<F> {
    pub(super) fn new(inner: F, json: bool) -> Limit<F> {
        Limit { inner, json, callsites: Mutex::default() }
    }

    /// Decides whether an event is written. If it is, returns the number of events of the same callsite that were
    /// suppressed before it; otherwise returns `None`.
    fn admit(&self, event: &Event<'_>) -> Option<u64> {
        let metadata = event.metadata();
        // Levels are ordered by verbosity, so a warning or an error is at most `WARN`.
        if *metadata.level() > Level::WARN || !metadata.target().starts_with(LIMITED) {
            return Some(0);
        }
        self.callsites.lock().entry(metadata.callsite()).or_default().admit()
    }
}

impl<S, N, F> FormatEvent<S, N> for Limit<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        match self.admit(event) {
            None => Ok(()),
            Some(0) => self.inner.format_event(ctx, writer, event),
            Some(suppressed) => {
                let mut line = String::new();
                self.inner.format_event(ctx, Writer::new(&mut line), event)?;
                let line = line.trim_end();
                match line.strip_suffix('}').filter(|_| self.json) {
                    Some(object) => writeln!(writer, "{object},\"repeated\":{suppressed}}}"),
                    None => writeln!(writer, "{line} repeated={suppressed}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::fmt::format::{Format, JsonFields};

    use super::*;
    use crate::repeats::REPEAT_EVERY;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn all(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Lines;

        fn make_writer(&self) -> Lines {
            self.clone()
        }
    }

    fn warn(times: usize) {
        for beat in 0..times {
            tracing::warn!(target: "openraft::core::heartbeat", beat, "failed to send a heartbeat");
            tracing::warn!(target: "seq_store", beat, "its own");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_of_the_library_is_written_once_a_minute_with_a_count() {
        let lines = Lines::default();
        let format = Limit::new(Format::default().without_time(), false);
        let subscriber = tracing_subscriber::fmt().with_ansi(false).event_format(format).with_writer(lines.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        warn(50);
        let library = |line: &&String| line.contains("openraft");
        assert_eq!(lines.all().iter().filter(library).count(), 1);
        assert_eq!(lines.all().len(), 51, "other targets are not limited");
        tokio::time::sleep(REPEAT_EVERY).await;
        warn(1);
        let all = lines.all();
        let last = all.iter().rfind(library).unwrap();
        assert_eq!(last, " WARN openraft::core::heartbeat: failed to send a heartbeat beat=0 repeated=49");
    }

    #[tokio::test(start_paused = true)]
    async fn the_count_is_a_field_of_the_object() {
        let lines = Lines::default();
        let format = Limit::new(Format::default().json().flatten_event(true).without_time(), true);
        let subscriber =
            tracing_subscriber::fmt().event_format(format).fmt_fields(JsonFields::new()).with_writer(lines.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        warn(3);
        tokio::time::sleep(REPEAT_EVERY).await;
        warn(1);
        let all = lines.all();
        let last = all.iter().rfind(|line| line.contains("openraft")).unwrap();
        assert!(last.ends_with(",\"repeated\":2}") && last.starts_with('{'), "{last}");
    }
}
