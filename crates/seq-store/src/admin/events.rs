//! Service with which operators read a set's event log and watch it for new events.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use metrics::{Counter, Gauge};
use seq_api::metrics::{EVENT_WATCHERS, EVENTS_LOST_TOTAL};
use seq_core::limits;
use seq_core::state::{Event, EventKind, EventRecord, Note, Replicated, Severity, State};
use seq_core::{SectionId, SetId};
use seq_proto::Reason;
use seq_proto::v1::event_service_server::EventService;
use seq_proto::v1::{
    EventSeverity, ListSetEventsRequest, ListSetEventsResponse, NodeSections, SetEvent, WatchSetEventsRequest,
    WatchSetEventsResponse,
};
use seq_raft::{Changes, Gate};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status};

use crate::replicated_set::ReplicatedSet;

/// Maximum number of events in one response. With this number, a response has at most 100 KiB.
const PAGE: usize = 200;

/// Minimum time between two responses to one watcher. It limits their number, because log entries are applied far more
/// often than people read events.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// State of the service once the member is loaded.
pub(crate) struct EventLog {
    set: String,
    replicated: ReplicatedSet,
    watchers: Arc<Semaphore>,
    metrics: WatchMetrics,
}

impl EventLog {
    pub(crate) fn new((set, node): (&str, &str), replicated: ReplicatedSet) -> EventLog {
        let watchers = Arc::new(Semaphore::new(limits::MAX_EVENT_WATCHERS));
        let labels = [("set", set.to_owned()), ("node", node.to_owned())];
        let metrics = WatchMetrics {
            watchers: metrics::gauge!(EVENT_WATCHERS, &labels),
            lost: metrics::counter!(EVENTS_LOST_TOTAL, &labels),
        };
        EventLog { set: set.to_owned(), replicated, watchers, metrics }
    }
}

/// Metrics of the watchers of a member.
#[derive(Clone)]
struct WatchMetrics {
    watchers: Gauge,
    lost: Counter,
}

/// Condition for the events that a caller requests.
#[derive(Clone, Debug)]
struct Filter {
    /// Requested kinds of events. If the list is empty, all kinds are requested.
    kinds: Vec<&'static str>,
    min_severity: Severity,
    section: Option<SectionId>,
}

impl Filter {
    /// Creates the filter from the fields of a request. Returns an error for an unknown kind or severity.
    fn new(kinds: &[String], min_severity: i32, section: Option<u32>) -> Result<Filter, Status> {
        let known = |kind: &String| {
            let place = EventKind::NAMES.binary_search(&kind.as_str());
            let unknown = || format!("{kind:?} is no kind of event; the kinds are {}", EventKind::NAMES.join(", "));
            place.map(|place| EventKind::NAMES[place]).map_err(|_| Reason::Malformed.status(unknown()))
        };
        let min_severity = match EventSeverity::try_from(min_severity) {
            Ok(EventSeverity::Unspecified | EventSeverity::Info) => Severity::Info,
            Ok(EventSeverity::Attention) => Severity::Attention,
            Ok(EventSeverity::Fault) => Severity::Fault,
            Err(_) => return Err(Reason::Malformed.status(format!("{min_severity} is no severity"))),
        };
        let kinds = kinds.iter().map(known).collect::<Result<_, _>>()?;
        Ok(Filter { kinds, min_severity, section: section.map(SectionId) })
    }

    fn wants(&self, event: &Event) -> bool {
        let around = |section: SectionId| {
            event.record.sections().is_some_and(|range| (range.first..=range.last).contains(&section))
        };
        (self.kinds.is_empty() || self.kinds.contains(&event.record.kind().name()))
            && event.record.severity() >= self.min_severity
            && self.section.is_none_or(around)
    }

    /// Returns three values: at most `limit` requested events whose change number is above `after`, the change number
    /// up to which the caller then has all requested events, and whether more requested events follow.
    fn page(&self, state: &State, after: u64, limit: usize) -> (Vec<SetEvent>, u64, bool) {
        let changed = state.events.changed_after(after);
        let mut wanted = changed.into_iter().filter(|event| self.wants(event)).peekable();
        let events: Vec<SetEvent> = wanted.by_ref().take(limit).map(|event| message(event, state)).collect();
        let more = wanted.peek().is_some();
        let next = if more { events.last().map_or(after, |event| event.change) } else { state.events.changes() };
        (events, next.max(after), more)
    }
}

/// The event service, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct EventServer(pub(crate) Gate<EventLog>);

/// State of one watcher, with the change number up to which it has received the events.
struct Watch {
    replicated: ReplicatedSet,
    filter: Filter,
    after: u64,
    changes: Changes,
    backlog: Backlog,
    metrics: WatchMetrics,
    /// Permit that counts against the maximum number of watchers until the watcher disconnects.
    _permit: OwnedSemaphorePermit,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.metrics.watchers.decrement(1.0);
    }
}

/// Events that a watcher still had to receive at the last reading of the log. With this count, the next reading finds
/// how many of them, and of the events since, were removed from the log before the watcher received them.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    /// Number of kept events after the watcher's change number, whether or not the watcher requested them.
    waiting: usize,
    /// Index of the newest event.
    last: u64,
}

impl Backlog {
    /// Returns the backlog of a watcher that has received all changes up to `after`.
    fn of(state: &State, after: u64) -> Backlog {
        Backlog { waiting: state.events.changed_after(after).len(), last: state.events.last() }
    }

    /// Returns how many events of the backlog, and of the events since, are in the log no more. `now` is the backlog
    /// now, for the same change number. An event that was received and has changed since hides one that was lost.
    fn lost(&self, now: Backlog) -> u64 {
        let waiting = (self.waiting as u64).saturating_add(now.last.saturating_sub(self.last));
        waiting.saturating_sub(now.waiting as u64)
    }
}

impl Watch {
    /// Waits for events that the watcher requested, and returns them. Returns `None` when the member stops.
    async fn next(mut self) -> Option<(Result<WatchSetEventsResponse, Status>, Watch)> {
        loop {
            let (after, filter) = (self.after, &self.filter);
            let (now, (events, next, _), backlog) = self.replicated.read(|state| {
                let page = filter.page(state, after, PAGE);
                let backlog = Backlog::of(state, page.1);
                (Backlog::of(state, after), page, backlog)
            });
            self.metrics.lost.increment(self.backlog.lost(now));
            (self.after, self.backlog) = (next, backlog);
            if !events.is_empty() {
                return Some((Ok(WatchSetEventsResponse { events, next }), self));
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
            self.changes.changed().await.ok()?;
        }
    }
}

#[tonic::async_trait]
impl EventService for EventServer {
    async fn list_set_events(
        &self,
        request: Request<ListSetEventsRequest>,
    ) -> Result<Response<ListSetEventsResponse>, Status> {
        let log = self.0.get()?;
        let ListSetEventsRequest { after, limit, kinds, min_severity, section } = request.into_inner();
        let filter = Filter::new(&kinds, min_severity, section)?;
        let limit = if limit == 0 { PAGE } else { PAGE.min(limit as usize) };
        let (events, next, more) = log.replicated.read(|state| filter.page(state, after, limit));
        let recorded = log.replicated.raft().state().format() >= Note::SINCE;
        Ok(Response::new(ListSetEventsResponse { set: log.set.clone(), events, next, more, recorded }))
    }

    type WatchSetEventsStream = Pin<Box<dyn Stream<Item = Result<WatchSetEventsResponse, Status>> + Send>>;

    async fn watch_set_events(
        &self,
        request: Request<WatchSetEventsRequest>,
    ) -> Result<Response<Self::WatchSetEventsStream>, Status> {
        let log = self.0.get()?;
        let WatchSetEventsRequest { after, kinds, min_severity, section } = request.into_inner();
        let filter = Filter::new(&kinds, min_severity, section)?;
        let permit = log.watchers.clone().try_acquire_owned().map_err(|_| {
            let text = format!("{} watchers of events are connected, the most", limits::MAX_EVENT_WATCHERS);
            Reason::TooManyConnections.status(text)
        })?;
        let replicated = log.replicated.clone();
        let (after, backlog) = replicated.read(|state| {
            let after = if after == 0 { state.events.changes() } else { after };
            (after, Backlog::of(state, after))
        });
        let (changes, metrics) = (replicated.raft().changes(), log.metrics.clone());
        metrics.watchers.increment(1.0);
        let watch = Watch { replicated, filter, after, changes, backlog, metrics, _permit: permit };
        Ok(Response::new(Box::pin(stream::unfold(watch, Watch::next))))
    }
}

/// Converts an event of the log to its message.
fn message(event: &Event, state: &State) -> SetEvent {
    let Event { index, change, at_unix_ms, until_unix_ms, record } = event;
    let mut message = SetEvent {
        index: *index,
        change: *change,
        at_unix_ms: *at_unix_ms,
        until_unix_ms: *until_unix_ms,
        kind: record.kind().name().to_owned(),
        severity: EventSeverity::from(record.severity()).into(),
        ..SetEvent::default()
    };
    if let Some(sections) = record.sections() {
        message.sections = sections.count;
        (message.first_section, message.last_section) = (sections.first.0, sections.last.0);
    }
    let mut other_set = |set: SetId| {
        let facts = state.sets.get(&set).and_then(|peer| peer.facts.as_ref());
        (message.set_id, message.set) = (set.0, facts.map(|facts| facts.name.clone()).unwrap_or_default());
    };
    match record {
        EventRecord::Leader { member, term } => (message.member, message.term) = (*member, *term),
        EventRecord::Registered { node, incarnation } | EventRecord::Leaving { node, incarnation } => {
            (message.node, message.incarnation) = (node.clone(), incarnation.0);
        }
        EventRecord::Silent { node, incarnation, silent_ms } => {
            (message.node, message.incarnation, message.lasted_ms) = (node.clone(), incarnation.0, *silent_ms);
        }
        EventRecord::Died { node, incarnation, owned } => {
            (message.node, message.incarnation, message.owned) = (node.clone(), incarnation.0, *owned);
        }
        EventRecord::Drained { node, drained: _ } | EventRecord::EntriesLost { node } => {
            message.node.clone_from(node);
        }
        EventRecord::Began { ownerships } => {
            if let Some((node, incarnation)) = &ownerships.from {
                (message.node, message.incarnation) = (node.clone(), incarnation.0);
            }
            let got = |(node, sections): &(String, u32)| NodeSections { node: node.clone(), sections: *sections };
            message.moved_to = ownerships.to.iter().map(got).collect();
            (message.others, message.most_skipped) = (ownerships.others, ownerships.most_skipped);
            (message.route_version, message.lasted_ms) = (ownerships.routed.0, ownerships.silent_ms);
        }
        EventRecord::Departed { migration, to, sections: _ } | EventRecord::MigrationStarted { migration, to } => {
            other_set(*to);
            message.migration_id = migration.0;
        }
        EventRecord::MigrationPaced { migration, paused: _ }
        | EventRecord::MigrationRolledBack { migration }
        | EventRecord::MigrationCompleted { migration } => message.migration_id = migration.0,
        EventRecord::MigrationStuck { migration, cause } => {
            message.migration_id = migration.0;
            message.detail.clone_from(cause);
        }
        EventRecord::Members { voters } => message.voters.clone_from(voters),
        EventRecord::SetDefined { set } => (message.set_id, message.set) = (set.0, own_name(state)),
        EventRecord::Closing { closed: _ } | EventRecord::QuarantineEnded | EventRecord::Balancing { paused: _ } => {}
        EventRecord::Restored { lineage } => message.lineage = lineage.0,
        EventRecord::Fenced { set, lineage } => {
            other_set(*set);
            message.lineage = lineage.0;
        }
        EventRecord::Terms { lease_wait_ms } => message.lasted_ms = *lease_wait_ms,
        EventRecord::Format { format } => message.format = (*format).into(),
        EventRecord::SeriesCreated { name }
        | EventRecord::SeriesRetired { name }
        | EventRecord::KeyspaceCreated { name } => message.series.clone_from(name),
    }
    message
}

fn own_name(state: &State) -> String {
    state.set.as_ref().map(|set| set.name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use seq_core::state::{Command, Noted};

    use super::*;

    /// Adds events to the log, of leaders of the terms from `first` on.
    fn note(state: &mut State, first: u64, count: u64) {
        for term in first..first + count {
            let note = Note { unix_ms: term, about: Noted::Leader { member: 1, term } };
            drop(state.apply(&Command::Note(note)));
        }
    }

    #[test]
    fn a_watcher_that_reads_too_slowly_loses_the_events_that_were_removed() {
        let mut state = State::default();
        state.raise_format(Note::SINCE);
        note(&mut state, 1, 300);
        let filter = Filter::new(&[], 0, None).unwrap();
        let (page, after, more) = filter.page(&state, 0, PAGE);
        assert_eq!((page.len(), after, more), (PAGE, 200, true));
        // The event of the format and 300 others: the watcher still has to receive 101.
        let backlog = Backlog::of(&state, after);
        assert_eq!((backlog.waiting, backlog.last), (101, 301));
        let most = limits::MAX_EVENTS as u64;
        note(&mut state, 301, most - 301);
        assert_eq!(backlog.lost(Backlog::of(&state, after)), 0, "the log keeps as many");
        // The oldest of the most frequent kind are removed: of 250, the watcher has received 199.
        note(&mut state, most, 250);
        assert_eq!(backlog.lost(Backlog::of(&state, after)), 51);
    }
}
