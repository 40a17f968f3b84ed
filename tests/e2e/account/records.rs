//! Records of the stores during a run: each ownership of each section, and at the end events and ceilings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use seq_proto::v1::describe_section_request::Which;
use seq_proto::v1::event_service_client::EventServiceClient;
use seq_proto::v1::set_admin_service_client::SetAdminServiceClient;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{
    DescribeSectionRequest, ListSectionsRequest, ListSetEventsRequest, SectionInfo, SectionState, SetEvent,
};
use seq_testkit::account::{Beginning, Ceiling, Ownership, OwnershipEvent};
use seq_testkit::eventually;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// Pause between two readings of the records of a set. A reading that is late misses an ownership only if the next
/// change of the owner comes before it: [`super::SETTINGS`] keep those changes a second apart, on a machine that is
/// loaded.
const PAUSE: Duration = Duration::from_millis(30);

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The records of the sets, which are read again and again.
pub(super) struct Records {
    stopped: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    sets: Vec<SetStores>,
    /// One for each set, so that a set whose leader is lost does not delay the records of the other set.
    threads: Vec<JoinHandle<()>>,
}

/// The admin ports of the stores of a set.
#[derive(Clone)]
struct SetStores {
    set: &'static str,
    addrs: Vec<String>,
}

/// The records so far.
#[derive(Default)]
struct Seen {
    /// Epoch and owner of each section in each set, as last read.
    last: BTreeMap<(&'static str, u32), (u64, String)>,
    ownerships: Vec<Ownership>,
}

impl Records {
    /// Starts to read the records of sets, given with the admin ports of their stores.
    pub(super) fn start(sets: &[(&'static str, Vec<String>)]) -> Records {
        let sets: Vec<SetStores> = sets.iter().map(|(set, addrs)| SetStores { set, addrs: addrs.clone() }).collect();
        let (stopped, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let threads = sets.iter().map(|stores| {
            let (stopping, noted, stores) = (stopped.clone(), seen.clone(), stores.clone());
            std::thread::spawn(move || stores.read(&stopping, &noted))
        });
        let threads = threads.collect();
        Records { stopped, seen, sets, threads }
    }

    /// Returns the sections that an allocator owns.
    pub(super) fn owned(&self, set: &str, name: &str) -> BTreeSet<u32> {
        let seen = self.seen.lock();
        let is_owned = |((of, _), (_, owner)): &(&(&'static str, u32), &(u64, String))| *of == set && owner == name;
        seen.last.iter().filter(is_owned).map(|((_, section), _)| *section).collect()
    }

    /// Returns the owner of a section in a set; waits until it has one.
    pub(super) fn owner(&self, set: &str, section: u32) -> String {
        eventually("the section has an owner", || {
            let seen = self.seen.lock();
            let mut found = seen.last.iter().filter(|((of, one), _)| *of == set && *one == section);
            found.next().map(|(_, (_, owner))| owner.clone()).filter(|owner| !owner.is_empty())
        })
    }

    /// Returns the number of ownerships that began in a way.
    pub(super) fn count(&self, by: Beginning) -> usize {
        self.seen.lock().ownerships.iter().filter(|one| one.by == by).count()
    }

    /// Returns all ownerships, the events about them, and the ceilings. `nodes` are the allocators, each with its set.
    pub(super) fn finish(mut self, nodes: &[(&str, String)]) -> (Vec<Ownership>, Vec<OwnershipEvent>, Vec<Ceiling>) {
        // The records are read at least once more, after the last call.
        let before = self.seen.lock().ownerships.len();
        std::thread::park_timeout(PAUSE * 4);
        self.stopped.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().expect("the records are read"));
        let runtime = runtime();
        let owned: Vec<u32> = self
            .seen
            .lock()
            .last
            .iter()
            .map(|((_, section), _)| *section)
            .collect::<BTreeSet<u32>>()
            .into_iter()
            .collect();
        // Raises that have a response were applied before the stores are read.
        let responded = runtime.block_on(responded(nodes, &owned));
        let (mut events, mut ceilings) = (Vec::new(), Vec::new());
        for SetStores { set, addrs } in &self.sets {
            let (of_set, records) = eventually("a store responds", || {
                runtime.block_on(async {
                    let channels: Vec<Channel> = addrs.iter().map(|addr| lazy(addr)).collect();
                    Some((set_events(&channels[0]).await?, sections(&channels).await?))
                })
            });
            events.extend(of_set.iter().filter_map(|one| event(set, one)));
            for info in records.iter().filter(|info| info.state() != SectionState::Never) {
                let section = info.range.unwrap().first_section;
                let raised = info.raised.expect("a store of this release sums the raises up");
                let responded = responded.get(&(*set, section)).copied().unwrap_or(0);
                let set = (*set).to_owned();
                ceilings.push(Ceiling { set, section, ceiling: info.ceiling, raised, responded });
            }
        }
        let ownerships = std::mem::take(&mut self.seen.lock().ownerships);
        assert_eq!(ownerships.len(), before, "no section gets an owner after the last call");
        (ownerships, events, ceilings)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.stopped.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl SetStores {
    /// Notes the records of the set again and again, until the run ends.
    fn read(&self, stopped: &AtomicBool, seen: &Mutex<Seen>) {
        let runtime = runtime();
        let channels: Vec<Channel> = runtime.block_on(async { self.addrs.iter().map(|addr| lazy(addr)).collect() });
        while !stopped.load(SeqCst) {
            if let Some(records) = runtime.block_on(sections(&channels)) {
                let mut seen = seen.lock();
                records.iter().for_each(|info| seen.note(self.set, info));
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

impl Seen {
    /// Notes the record of a section, and with it an ownership that began since the last one.
    fn note(&mut self, set: &'static str, info: &SectionInfo) {
        let section = info.range.unwrap().first_section;
        let (epoch, before) = self.last.get(&(set, section)).cloned().unwrap_or_default();
        assert!(
            epoch <= info.epoch,
            "a store responds with a record from before the last one of epoch {epoch}: {info:?}"
        );
        let is_new = info.state() == SectionState::Resident && !info.owner.is_empty() && info.epoch > epoch;
        if is_new {
            let by = Beginning::parse(&info.began_by).unwrap_or_else(|| panic!("{info:?}"));
            let from = if by.names_owner_before() { before } else { String::new() };
            self.ownerships.push(Ownership {
                set: set.to_owned(),
                section,
                epoch: info.epoch,
                by,
                from,
                owner: info.owner.clone(),
                ceiling: info.began_ceiling.unwrap(),
                at_ms: info.began_at_unix_ms,
            });
        }
        self.last.insert((set, section), (info.epoch, info.owner.clone()));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn lazy(addr: &str) -> Channel {
    Endpoint::from_shared(addr.to_owned()).unwrap().timeout(TIMEOUT).connect_timeout(TIMEOUT).connect_lazy()
}

/// Returns the records of all sections from the store that leads; `None` if none leads.
async fn sections(channels: &[Channel]) -> Option<Vec<SectionInfo>> {
    for channel in channels {
        let mut store = SetAdminServiceClient::new(channel.clone());
        if let Ok(response) = store.list_sections(ListSectionsRequest::default()).await {
            let response = response.into_inner();
            assert_eq!(response.next_section, 0, "one page has all sections");
            return Some(response.sections);
        }
    }
    None
}

/// Returns all events of a set from one of its stores.
async fn set_events(channel: &Channel) -> Option<Vec<SetEvent>> {
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let request = ListSetEventsRequest { after, ..ListSetEventsRequest::default() };
        let page = EventServiceClient::new(channel.clone()).list_set_events(request).await.ok()?.into_inner();
        events.extend(page.events);
        if !page.more {
            return Some(events);
        }
        after = page.next;
    }
}

/// Converts an event about ownerships; `None` for other events.
fn event(set: &str, event: &SetEvent) -> Option<OwnershipEvent> {
    assert_ne!(event.kind, "unknown_owners", "{event:?}");
    let by = Beginning::parse(&event.kind)?;
    Some(OwnershipEvent {
        set: set.to_owned(),
        index: event.index,
        by,
        from: event.node.clone(),
        to: event.moved_to.iter().map(|one| (one.node.clone(), one.sections)).collect(),
        others: event.others,
        sections: event.sections,
        range: (event.first_section, event.last_section),
        most_skipped: event.most_skipped,
        times_ms: (event.at_unix_ms, event.until_unix_ms),
    })
}

/// Returns the sum of the distances of the raises whose responses allocators have, by set and section.
async fn responded<'a>(nodes: &[(&'a str, String)], sections: &[u32]) -> BTreeMap<(&'a str, u32), u64> {
    let mut sums = BTreeMap::new();
    for (set, addr) in nodes {
        let mut node = StatusServiceClient::new(lazy(addr));
        for section in sections {
            let described = loop {
                let which = Some(Which::Section(*section));
                match node.describe_section(DescribeSectionRequest { which }).await {
                    Ok(described) => break Some(described.into_inner()),
                    // A node makes ten of these responses a second.
                    Err(status) if status.code() == Code::ResourceExhausted => tokio::time::sleep(PAUSE).await,
                    Err(_) => break None,
                }
            };
            let raises = described.into_iter().flat_map(|described| described.raises);
            *sums.entry((*set, *section)).or_insert(0) += raises.map(|raise| raise.to - raise.from).sum::<u64>();
        }
    }
    sums
}
