//! Feeds of events. The feed of a set is a task that reads the events which a member of the set's store keeps, and then
//! receives the events that the store records from then on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_channel::Pool;
use seq_load::outcome::Chain;
use seq_proto::v1::event_service_client::EventServiceClient;
use seq_proto::v1::{ListSetEventsRequest, SetEvent, WatchSetEventsRequest};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Cluster;
use crate::events::{self, ClusterEvent};
use crate::response::within;

/// Maximum number of events that a feed keeps in memory, which suffices for a page. The store keeps more events.
const KEPT: usize = 512;

/// Maximum number of sets with a feed, which is higher than the number of sets of any cluster. Each feed uses one
/// connection, and memory for [`KEPT`] events of about 200 bytes.
const MAX_FEEDS: usize = 64;

/// Pause of a feed before it connects to the store's next member.
const RECONNECT: Duration = Duration::from_millis(500);

/// Time limit of a request to a member.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The events of a set.
#[derive(Debug, Default)]
struct Log {
    /// The newest [`KEPT`] events by index.
    events: BTreeMap<u64, SetEvent>,
    /// Number of the last change of an event that was received. The next request is for the changes after it.
    after: u64,
    /// Error of the last request for events. It is `None` if a member of the store has responded since the error.
    failure: Option<String>,
    /// Addresses of the admin ports of the store's members that respond, beginning with the leader's address.
    members: Vec<String>,
}

impl Log {
    /// Adds events, which include all changes up to the change `after`. An added event replaces the event with the same
    /// index.
    fn add(&mut self, events: Vec<SetEvent>, after: u64) {
        self.events.extend(events.into_iter().map(|event| (event.index, event)));
        while self.events.len() > KEPT {
            self.events.pop_first();
        }
        self.after = after;
        self.failure = None;
    }
}

/// The feeds of a cluster. Dropping them ends their tasks.
#[derive(Default)]
pub(crate) struct Feeds {
    logs: BTreeMap<String, Arc<Mutex<Log>>>,
    added: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl Feeds {
    /// Starts a feed for each set of the cluster that has no feed. For each set with a feed, updates the list of the
    /// members from which the feed reads.
    pub(crate) fn follow(&mut self, pool: &Pool, cluster: &Cluster) {
        for set in &cluster.sets {
            let mut stores: Vec<_> = cluster.stores.iter().filter(|store| store.set == set.name).collect();
            stores.sort_by_key(|store| !store.leader);
            let members: Vec<String> = stores.into_iter().filter_map(|store| store.admin.clone()).collect();
            if members.is_empty() {
                continue;
            }
            if let Some(log) = self.logs.get(&set.name) {
                log.lock().members = members;
            } else if self.logs.len() < MAX_FEEDS {
                let log = Arc::new(Mutex::new(Log { members, ..Log::default() }));
                self.logs.insert(set.name.clone(), Arc::clone(&log));
                self.tasks.spawn(follow(pool.clone(), log, Arc::clone(&self.added)));
            }
        }
    }

    /// Waits until events are added to any feed.
    pub(crate) async fn changed(&self) {
        self.added.notified().await;
    }

    /// Returns the newest [`KEPT`] events of all sets, the newest last.
    pub(crate) fn newest(&self) -> Vec<ClusterEvent> {
        let of_set = |(set, log): (&String, &Arc<Mutex<Log>>)| -> Vec<ClusterEvent> {
            log.lock().events.values().map(|event| ClusterEvent::of_set(set, event.clone())).collect()
        };
        let mut events: Vec<ClusterEvent> = self.logs.iter().flat_map(of_set).collect();
        events::sort(&mut events);
        events.drain(..events.len().saturating_sub(KEPT));
        events
    }

    /// Returns a text for each set whose feed cannot read events at the moment. The text has the name of the set and
    /// the error.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failure = |(set, log): (&String, &Arc<Mutex<Log>>)| {
            log.lock().failure.as_ref().map(|failure| format!("events of {set}: {failure}"))
        };
        self.logs.iter().filter_map(failure).collect()
    }
}

/// Reads the events of a set forever, and adds them to `log`. If the connection to one member of the store ends, the
/// function continues with the next member.
async fn follow(pool: Pool, log: Arc<Mutex<Log>>, added: Arc<Notify>) {
    for turn in 0.. {
        let member = {
            let members = &log.lock().members;
            members[turn % members.len()].clone()
        };
        if let Err(error) = read(&pool, &member, &log, &added).await {
            log.lock().failure = Some(format!("{member}: {error}"));
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Reads events from the store's member at the address `member` and adds them to `log`, until the connection ends.
async fn read(pool: &Pool, member: &str, log: &Mutex<Log>, added: &Notify) -> Result<(), String> {
    let mut store = EventServiceClient::new(pool.get(member).map_err(|error| error.to_string())?);
    loop {
        let after = log.lock().after;
        let request = ListSetEventsRequest { after, ..ListSetEventsRequest::default() };
        let page = within(TIMEOUT, store.list_set_events(request)).await?;
        log.lock().add(page.events, page.next);
        added.notify_one();
        if !page.recorded {
            return Ok(());
        }
        if !page.more {
            break;
        }
    }
    let after = log.lock().after;
    let request = WatchSetEventsRequest { after, ..WatchSetEventsRequest::default() };
    let mut stream = within(TIMEOUT, store.watch_set_events(request)).await?;
    while let Some(response) = stream.message().await.map_err(|status| Chain(&status).to_string())? {
        log.lock().add(response.events, response.next);
        added.notify_one();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(index: u64, at_unix_ms: u64) -> SetEvent {
        SetEvent { index, change: index, at_unix_ms, ..SetEvent::default() }
    }

    #[test]
    fn a_log_keeps_the_newest_events_and_replaces_an_event_that_continues() {
        let mut log = Log { failure: Some("gone".to_owned()), ..Log::default() };
        log.add((1..=600).map(|index| event(index, index)).collect(), 600);
        assert_eq!((log.events.len(), log.events.keys().next()), (KEPT, Some(&89)));
        assert!(log.failure.is_none(), "the store responds");
        log.add(vec![SetEvent { sections: 7, ..event(600, 600) }], 601);
        assert_eq!((log.events.len(), log.events[&600].sections, log.after), (KEPT, 7, 601));
    }

    #[test]
    fn events_of_all_sets_are_one_line_of_time() {
        let log = |events: &[(u64, u64)]| {
            let mut log = Log::default();
            log.add(events.iter().map(|(index, at)| event(*index, *at)).collect(), 1);
            Arc::new(Mutex::new(log))
        };
        let mut feeds = Feeds::default();
        feeds.logs.insert("im-a".to_owned(), log(&[(1, 10), (2, 30)]));
        feeds.logs.insert("im-b".to_owned(), log(&[(7, 20), (8, 30)]));
        let order: Vec<(String, u64)> = feeds.newest().into_iter().map(|one| (one.set.clone(), one.index())).collect();
        let of = |set: &str, index| (set.to_owned(), index);
        assert_eq!(order, [of("im-a", 1), of("im-b", 7), of("im-a", 2), of("im-b", 8)]);
    }
}
