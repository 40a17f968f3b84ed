//! A cluster of ten sets with 100 allocators each, of which this process plays all nodes, so that the pages of a
//! console can be measured at the size of a large cluster. The console and its observations are real.
//!
//! A node has a port of its own and responds to the requests of an observer: status, routes, activity and events. The
//! values follow from the number of the section or the node and from the time.

use std::net::TcpListener;
use std::sync::Arc;

use seq_core::activity::Resolution;
use seq_proto::v1::event_service_server::{EventService, EventServiceServer};
use seq_proto::v1::sequence_service_server::{SequenceService, SequenceServiceServer};
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_server::{StatusService, StatusServiceServer};
use seq_proto::v1::*;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use super::now_ms;

const SETS: usize = 10;
const ALLOCS: usize = 100;
const STORES: usize = 3;
const SECTION_SIZE: u32 = 100_000;

/// Sections of a set; together 42,950, as 2^32 uids have.
const SECTIONS: u32 = 4_295;

/// Events of a set.
const EVENTS: u64 = 60;

/// The addresses of all nodes, and the time at which they began.
struct Layout {
    stores: Vec<[String; STORES]>,
    allocs: Vec<Vec<String>>,
    began_ms: u64,
}

/// A node.
#[derive(Clone)]
struct Node {
    layout: Arc<Layout>,
    set: usize,
    /// Number of the store or the allocator in its set.
    place: usize,
    is_store: bool,
}

/// The nodes, which respond until this value is dropped.
pub(super) struct LargeCluster {
    _runtime: Runtime,
    /// URL of an allocator.
    pub(super) addr: String,
}

impl LargeCluster {
    /// Opens the ports of all nodes.
    pub(super) fn start() -> LargeCluster {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut listeners = Vec::new();
        let mut bind = |set, place, is_store| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let addr = listener.local_addr().unwrap().to_string();
            listeners.push((listener, set, place, is_store));
            addr
        };
        let stores = (0..SETS).map(|set| std::array::from_fn(|place| bind(set, place, true))).collect();
        let allocs: Vec<Vec<String>> =
            (0..SETS).map(|set| (0..ALLOCS).map(|place| bind(set, place, false)).collect()).collect();
        let addr = format!("http://{}", allocs[0][0]);
        let layout = Arc::new(Layout { stores, allocs, began_ms: now_ms() });
        for (listener, set, place, is_store) in listeners {
            let node = Node { layout: Arc::clone(&layout), set, place, is_store };
            let server = tonic::transport::Server::builder()
                .add_service(StatusServiceServer::new(node.clone()))
                .add_service(SequenceServiceServer::new(node.clone()))
                .add_service(EventServiceServer::new(node));
            runtime.spawn(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                server.serve_with_incoming(TcpListenerStream::new(listener)).await
            });
        }
        LargeCluster { _runtime: runtime, addr }
    }
}

fn set_name(set: usize) -> String {
    format!("im-{}", char::from(b'a' + set as u8))
}

/// Returns a number that looks random for any other number.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
}

/// Returns the level of a section in the period with this number. A part of the sections rests, and some are busy for
/// a time.
fn level(section: u32, period: u64) -> u8 {
    let base = mixed(section.into());
    let busy = (base.is_multiple_of(97) && (period / 8 + base).is_multiple_of(5)) as u64;
    if base % 10 < 3 { 0 } else { (1 + base % 14 + mixed(base ^ period) % 4 + 20 * busy) as u8 }
}

/// Returns the number of the allocator that owns a section, within its set. Owners are scattered, as by their hashes.
fn owner(section: u32) -> usize {
    mixed(u64::from(section) + 7_919) as usize % ALLOCS
}

impl Node {
    fn name(&self) -> String {
        format!("{}{}", if self.is_store { 's' } else { 'a' }, self.place + 1)
    }

    fn uptime_ms(&self) -> u64 {
        90_000_000 + now_ms() - self.layout.began_ms
    }

    /// Returns the sections that the node records.
    fn sections(&self) -> Vec<u32> {
        let all = self.set as u32 * SECTIONS..(self.set as u32 + 1) * SECTIONS;
        all.filter(|section| self.is_store || owner(*section) == self.place).collect()
    }

    /// Returns the numbers that the node allocates in a second.
    fn rate(&self) -> u64 {
        300 + mixed((self.set * ALLOCS + self.place) as u64) % 500
    }

    fn status_of_store(&self) -> StoreStatus {
        let layout = &self.layout;
        let member = |(place, addr): (usize, &String)| StoreMember {
            id: place as u64 + 1,
            name: format!("s{}", place + 1),
            addr: addr.clone(),
            voter: true,
            live: true,
            round_trip_us: if self.place == 0 { 400 + place as u64 } else { 0 },
            ..StoreMember::default()
        };
        let alloc = |(place, addr): (usize, &String)| AllocMember {
            id: place as u32 + 1,
            name: format!("a{}", place + 1),
            addr: addr.clone(),
            incarnation: 1,
            renew_seq: 7,
            sections: SECTIONS / ALLOCS as u32,
            ..AllocMember::default()
        };
        let other = |set: usize| SetInfo {
            id: set as u64 + 1,
            name: set_name(set),
            sections: SECTIONS,
            stores: layout.stores[set].to_vec(),
            allocs: layout.allocs[set].clone(),
            state: SetState::Open.into(),
            uid_end: u64::from(SECTIONS) * SETS as u64 * u64::from(SECTION_SIZE),
            section_size: SECTION_SIZE,
            ..SetInfo::default()
        };
        StoreStatus {
            id: self.place as u64 + 1,
            leader: 1,
            term: 3,
            last_log_index: self.uptime_ms() / 20,
            applied_index: self.uptime_ms() / 20,
            members: layout.stores[self.set].iter().enumerate().map(member).collect(),
            allocs: layout.allocs[self.set].iter().enumerate().map(alloc).collect(),
            uid_end: u64::from(SECTIONS) * SETS as u64 * u64::from(SECTION_SIZE),
            section_size: SECTION_SIZE,
            sections: SECTIONS,
            route_version: 881,
            raises_applied: self.uptime_ms() / 20,
            quorum: true,
            max_round_trip_ms: 90,
            layout_sections: SECTIONS * SETS as u32,
            open_sets: SETS as u32,
            set_id: self.set as u64 + 1,
            sets: (0..SETS).filter(|set| *set != self.set).map(other).collect(),
            ..StoreStatus::default()
        }
    }

    fn status_of_alloc(&self) -> AllocStatus {
        AllocStatus {
            id: self.place as u32 + 1,
            incarnation: 1,
            sections: self.sections().len() as u32,
            route_version: 881,
            allocations: self.rate() * self.uptime_ms() / 1_000,
            raises: self.uptime_ms() / 2_000,
            forwarded: self.uptime_ms() / 100,
            slot_bytes: 14_000_000,
            store_addrs: self.layout.stores[self.set].to_vec(),
            lease_remaining_ms: 1_200 + mixed(now_ms() + self.place as u64) % 700,
            lease_ms: 2_000,
            ..AllocStatus::default()
        }
    }

    /// Returns the table of the set, in which each section has a run of its own.
    fn routes(&self) -> Routes {
        let layout = &self.layout;
        let node = |(place, addr): (usize, &String)| RouteNode {
            id: place as u32 + 1,
            name: format!("a{}", place + 1),
            addr: addr.clone(),
        };
        let run = |section: u32| RouteRun {
            first_section: section,
            sections: 1,
            owner: owner(section) as u32 + 1,
            epoch: 1,
            ..RouteRun::default()
        };
        let first = self.set as u32 * SECTIONS;
        Routes {
            set: set_name(self.set),
            version: 881,
            section_size: SECTION_SIZE,
            set_id: self.set as u64 + 1,
            nodes: layout.allocs[self.set].iter().enumerate().map(node).collect(),
            runs: (first..first + SECTIONS).map(run).collect(),
            ..Routes::default()
        }
    }
}

#[tonic::async_trait]
impl StatusService for Node {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let role = match self.is_store {
            true => Role::Store(self.status_of_store()),
            false => Role::Alloc(self.status_of_alloc()),
        };
        Ok(Response::new(StatusResponse {
            version: "0.1.0".to_owned(),
            revision: "3f1c2aa".to_owned(),
            set: set_name(self.set),
            node: self.name(),
            uptime_ms: self.uptime_ms(),
            admin_addrs: vec![self.layout.stores[self.set][if self.is_store { self.place } else { 0 }].clone()],
            instance: 1 + (self.set * 1_000 + self.place * 2 + usize::from(self.is_store)) as u64,
            clock_ms: now_ms(),
            role: Some(role),
            ..StatusResponse::default()
        }))
    }

    async fn list_activity(
        &self,
        request: Request<ListActivityRequest>,
    ) -> Result<Response<ListActivityResponse>, Status> {
        let (request, now, sections) = (request.into_inner(), now_ms(), self.sections());
        let column_ms = Resolution::reaching(now.saturating_sub(request.since_ms)).period_ms();
        let response = ListActivityResponse {
            set: set_name(self.set),
            node: self.name(),
            clock_ms: now,
            period_ms: 1_000,
            column_ms,
            ..ListActivityResponse::default()
        };
        let open = now / u64::from(column_ms);
        if request.top > 0 {
            let figures = |section: &u32| {
                let level = u64::from(level(*section, open));
                SectionFigures {
                    section: *section,
                    numbers: 40 * level,
                    writes: level / 4,
                    raised: 10_000 * (level / 4),
                    ms: 5_000,
                }
            };
            let mut top: Vec<SectionFigures> = sections.iter().map(figures).collect();
            top.sort_by_key(|figures| std::cmp::Reverse(figures.numbers));
            top.truncate(request.top as usize);
            return Ok(Response::new(ListActivityResponse { top, ..response }));
        }
        let first = request.since_ms / u64::from(column_ms);
        let column = |period: u64| ActivityColumn {
            since_ms: period * u64::from(column_ms),
            levels: sections.iter().map(|section| level(*section, period)).collect(),
        };
        let columns = (first..open).map(column).collect();
        Ok(Response::new(ListActivityResponse { sections: sections.clone(), columns, ..response }))
    }

    async fn list_node_events(
        &self,
        _: Request<ListNodeEventsRequest>,
    ) -> Result<Response<ListNodeEventsResponse>, Status> {
        Ok(Response::new(ListNodeEventsResponse::default()))
    }

    async fn list_ceilings(&self, _: Request<ListCeilingsRequest>) -> Result<Response<ListCeilingsResponse>, Status> {
        Err(unused())
    }

    async fn describe_section(
        &self,
        _: Request<DescribeSectionRequest>,
    ) -> Result<Response<DescribeSectionResponse>, Status> {
        Err(unused())
    }

    async fn get_config(&self, _: Request<GetConfigRequest>) -> Result<Response<GetConfigResponse>, Status> {
        Err(unused())
    }
}

/// Returns the error of a request that no measured page causes.
fn unused() -> Status {
    Status::unimplemented("the cluster is made for the pages that are measured")
}

#[tonic::async_trait]
impl SequenceService for Node {
    type NextStreamStream = tokio_stream::Empty<Result<NextStreamResponse, Status>>;

    async fn get_routes(&self, _: Request<GetRoutesRequest>) -> Result<Response<GetRoutesResponse>, Status> {
        Ok(Response::new(GetRoutesResponse { routes: Some(self.routes()) }))
    }

    async fn next(&self, _: Request<NextRequest>) -> Result<Response<NextResponse>, Status> {
        Err(unused())
    }

    async fn next_many(&self, _: Request<NextManyRequest>) -> Result<Response<NextManyResponse>, Status> {
        Err(unused())
    }

    async fn next_stream(
        &self,
        _: Request<Streaming<NextStreamRequest>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        Err(unused())
    }

    async fn current(&self, _: Request<CurrentRequest>) -> Result<Response<CurrentResponse>, Status> {
        Err(unused())
    }

    async fn current_many(&self, _: Request<CurrentManyRequest>) -> Result<Response<CurrentManyResponse>, Status> {
        Err(unused())
    }

    async fn advance(&self, _: Request<AdvanceRequest>) -> Result<Response<AdvanceResponse>, Status> {
        Err(unused())
    }
}

#[tonic::async_trait]
impl EventService for Node {
    type WatchSetEventsStream = tokio_stream::Pending<Result<WatchSetEventsResponse, Status>>;

    async fn list_set_events(
        &self,
        request: Request<ListSetEventsRequest>,
    ) -> Result<Response<ListSetEventsResponse>, Status> {
        let first_section = self.set as u32 * SECTIONS;
        let event = |index: u64| SetEvent {
            index,
            change: index,
            at_unix_ms: self.layout.began_ms - (EVENTS - index) * 60_000 - self.set as u64 * 1_000,
            kind: if index.is_multiple_of(10) { "takeover" } else { "handover" }.to_owned(),
            node: format!("a{}", index % ALLOCS as u64 + 1),
            incarnation: 1,
            sections: 43,
            first_section,
            last_section: first_section + SECTIONS - 1,
            moved_to: vec![NodeSections { node: "a7".to_owned(), sections: 43 }],
            most_skipped: Some(if index.is_multiple_of(10) { 10_000 } else { 0 }),
            lasted_ms: 2_500,
            severity: EventSeverity::Info.into(),
            ..SetEvent::default()
        };
        let after = request.into_inner().after;
        let events = (after + 1..=EVENTS).map(event).collect();
        Ok(Response::new(ListSetEventsResponse { events, next: EVENTS, recorded: true, ..Default::default() }))
    }

    async fn watch_set_events(
        &self,
        _: Request<WatchSetEventsRequest>,
    ) -> Result<Response<Self::WatchSetEventsStream>, Status> {
        Ok(Response::new(tokio_stream::pending()))
    }
}
