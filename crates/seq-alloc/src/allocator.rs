//! Handle of an AllocSvr. A call through the handle allocates a number from memory with one atomic load and one
//! compare-and-swap.

use std::sync::Arc;
use std::time::Duration;

use seq_api::batch_clock::BatchClock;
use seq_api::ids::IdSeries;
use seq_api::keys::{KeyedItems, Keyspace};
use seq_api::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, SequenceService, Via};
use seq_channel::{Dial, ExpectedServer, Pool};
use seq_core::calls::UnknownAttempts;
use seq_core::owner::Owner;
use seq_core::route::{Route, RouteUpdate};
use seq_core::set_spec::SpecError;
use seq_core::{Count, Epoch, Layout, Refusal, RouteVersion, SectionId, Seq, Step, Target, Uid, limits};
use seq_kit::http::Checks;
use seq_kit::nonce::draw_nonce;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1;
use tokio::sync::watch;
use tonic::Status;

use crate::activity::NodeActivity;
use crate::clock_ahead::ClockAhead;
use crate::config::{AllocConfig, NodeConfig, OptionsError};
use crate::counters::Counters;
use crate::halt::{Halt, HaltLatch};
use crate::other_sets::{OtherSets, probe_loop};
use crate::ownership::{OwnedSection, Ownership, Serving};
use crate::peers::Peers;
use crate::pending_item::PendingItem;
use crate::raise_queue::RaiseInbox;
use crate::shared::{HandoverState, PendingCalls, Reachability, Registration, Shared};
use crate::store_link::StoreLink;
use crate::work::{Advance, AdvanceKeys, Read, ReadKeys, Take, TakeInLane, TakeOfKeys, Work};
use crate::{activity_loop, control_loop, eviction, loss_report, metrics_loop};

/// Handle of an AllocSvr. All clones of a handle refer to the same AllocSvr. Its methods may be called on any thread
/// and in any runtime.
#[derive(Clone, Debug)]
pub struct Allocator {
    pub(crate) shared: Arc<Shared>,
    link: Arc<StoreLink>,
    /// Clock of the thread on which all calls through this handle arrive; `None` if calls may arrive on different
    /// threads.
    arrivals: Option<Arc<BatchClock>>,
}

/// Error of [`Allocator::start`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Invalid definition of the set.
    #[error("the set {set} is not sound: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Spec {
        /// The set.
        set: String,
        /// All problems of the definition.
        problems: Vec<SpecError>,
    },
    /// Name that the set has no AllocSvr of.
    #[error("the set {set} has no AllocSvr {name:?}")]
    UnknownName {
        /// The set.
        set: String,
        /// Name from the configuration.
        name: String,
    },
    /// Invalid interval, timeout or limit.
    #[error(transparent)]
    Tuning(#[from] OptionsError),
}

impl Allocator {
    /// Starts an allocator. Its loops run in `group` on the current runtime. The allocator serves numbers once it is
    /// registered with the store and the store has granted sections to it; see [`Allocator::add_checks`].
    ///
    /// # Errors
    /// [`StartError`] if the configuration is invalid. In that case nothing was started.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(config: AllocConfig, group: &TaskGroup) -> Result<Allocator, StartError> {
        Allocator::start_with(config, &Dial::tcp(), group)
    }

    /// Starts an allocator that connects to the store and to other nodes with `dial`. At the addresses of its own set,
    /// the allocator accepts a connection only if the server is a member of that set's store or an AllocSvr of that
    /// set. At an address of another set, it accepts only an AllocSvr of that other set.
    ///
    /// # Errors
    /// As [`Allocator::start`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_with(config: AllocConfig, dial: &Dial, group: &TaskGroup) -> Result<Allocator, StartError> {
        let AllocConfig { spec, name, advertise, advertise_to_peers, replace, process, options, clock, events } =
            config;
        options.validate()?;
        let set = spec.name.clone();
        let layout: Layout = spec.validate().map_err(|problems| StartError::Spec { set: set.clone(), problems })?;
        if !spec.allocs.iter().any(|alloc| alloc.name == name) {
            return Err(StartError::UnknownName { set, name });
        }
        let members = spec.stores.into_iter().map(|store| store.addr).collect();
        let to_store = dial.expecting(ExpectedServer::store().of_set(&set));
        let to_peers = dial.expecting(ExpectedServer::alloc().of_set(&set));
        let link = Arc::new(StoreLink::new(Pool::with_dial(1, to_store), members, options.store_timeout));
        let machine = Owner::new(&set, layout.clone(), options.terms()).with_secret(draw_nonce());
        let shared = Arc::new(Shared {
            counters: Counters::new(&set, &name),
            ownership: Ownership::new(machine, Step(spec.step), options.terms().served(), clock.clone()),
            activity: NodeActivity::new(clock.now()),
            clock,
            registration: Registration::default(),
            raises: RaiseInbox::default(),
            clock_ahead: ClockAhead::default(),
            pending: PendingCalls::default(),
            handovers: HandoverState::default(),
            reachability: Reachability::new(),
            peers: Peers::new(options.connections, to_peers),
            other_sets: Arc::new(OtherSets::new(&set, &name, options.connections, dial.clone())),
            halt: HaltLatch::new(group.token(), events.clone()),
            events,
            config: NodeConfig { set, name, advertise, advertise_to_peers, replace, process, layout, options },
        });
        group.spawn("control loop", Kind::Critical, control_loop::run(shared.clone(), link.clone()));
        group.spawn("report of a loss", Kind::Disposable, loss_report::run(shared.clone(), link.clone()));
        group.spawn(
            "probes of other sets",
            Kind::Disposable,
            probe_loop(shared.other_sets.clone(), shared.config.layout.clone(), group.token()),
        );
        group.spawn("metrics loop", Kind::Disposable, metrics_loop::run(shared.clone()));
        group.spawn("eviction of keys", Kind::Disposable, eviction::run(shared.clone()));
        group.spawn("activity reader", Kind::Disposable, activity_loop::run(shared.clone()));
        Ok(Allocator { shared, link, arrivals: None })
    }

    /// Returns a handle for the endpoints of the current thread. The handle reads the clock only once for all calls
    /// that arrived together. Every call through this handle or its clones must have arrived over a connection of the
    /// current runtime.
    ///
    /// # Panics
    /// Outside of a current-thread runtime.
    #[must_use]
    pub fn for_endpoints_of_this_thread(&self) -> Allocator {
        let clock = BatchClock::new(self.shared.clock.clone());
        Allocator { shared: self.shared.clone(), link: self.link.clone(), arrivals: Some(Arc::new(clock)) }
    }

    /// Returns access to the served sections if the lease holds, otherwise `None`. The lease is checked with a reading
    /// of the clock that was made after the current calls arrived.
    #[inline]
    fn serve(&self) -> Option<Serving<'_>> {
        match &self.arrivals {
            Some(clock) => self.shared.ownership.serve(clock.now()),
            None => self.shared.serve(),
        }
    }

    /// Returns the cause for which this process may no longer serve, or `None` while it may serve. The cause can be
    /// read even after the shutdown. An allocator that was evicted by another process shuts down by itself.
    #[must_use]
    pub fn halt(&self) -> Option<Halt> {
        self.shared.halt.get()
    }

    /// Returns the status of this node.
    #[must_use]
    pub fn status(&self) -> v1::AllocStatus {
        let shared = &self.shared;
        let session = shared.ownership.machine().session();
        let (raises, raises_refused) = shared.counters.raises();
        let owned = shared.ownership.owned();
        let now = shared.clock.now();
        let lease = shared.ownership.lease_left(now);
        let confirmed = shared.ownership.confirmed();
        let served = u64::try_from(shared.config.options.terms().served().as_nanos()).unwrap_or(u64::MAX);
        let over = confirmed > 0 && lease.is_zero();
        let ended = now.boottime.saturating_sub(confirmed.saturating_add(served));
        v1::AllocStatus {
            id: shared.registration.node().0,
            incarnation: session.map_or(0, |session| session.incarnation.0),
            sections: owned.iter().count() as u32,
            route_version: self.route_version().0,
            allocations: shared.counters.allocations(),
            forwarded: shared.counters.forwards(),
            raises,
            raises_refused,
            slot_bytes: shared.activity.slot_bytes(),
            store_addrs: self.link.reported_members(),
            // The value is at least 1 while the lease holds. In the same way, `lease_ended_ms` is at least 1 once the
            // lease has expired.
            lease_remaining_ms: (lease.as_millis() as u64).max(u64::from(!lease.is_zero())),
            lease_ended_ms: if over { (ended / 1_000_000).max(1) } else { 0 },
            halted: self.halt().map_or_else(String::new, |halt| halt.to_string()),
            seen_revision: self.link.seen().revision.0,
            last_incarnation: shared.registration.last_incarnation().0,
            leases_expired: shared.counters.leases_expired(now.boottime),
            withdrawn: shared.reachability.withdrawn().unwrap_or_default(),
            unreached: shared.reachability.unreached(),
            lease_ms: served / 1_000_000,
        }
    }

    /// Returns the ceilings of the sections that this node owns and whose ids are `first` or higher. Returns them even
    /// while the node's lease is expired. The node has allocated no number above a section's ceiling.
    #[must_use]
    pub fn ceilings(&self, first: SectionId) -> v1::ListCeilingsResponse {
        let owned = self.shared.ownership.owned();
        let mut from = owned.iter().filter(|section| section.id >= first);
        let ceiling = |section: &Arc<OwnedSection>| v1::SectionCeiling {
            section: section.id.0,
            epoch: section.epoch.0,
            ceiling: section.ceiling().0,
        };
        let ceilings = from.by_ref().take(limits::MAX_CEILINGS).map(ceiling).collect();
        let next_section = from.next().map_or(0, |section| section.id.0);
        v1::ListCeilingsResponse { set: self.shared.config.set.clone(), ceilings, next_section }
    }

    /// Begins the response to `ListActivity`. Returns a closure that completes the response, because this work takes
    /// milliseconds.
    ///
    /// # Errors
    /// The refusal of a request that exceeds this node's limits on reports.
    pub fn activity(
        &self,
        request: v1::ListActivityRequest,
    ) -> Result<Box<dyn FnOnce() -> v1::ListActivityResponse + Send>, Status> {
        self.shared.list_activity(request)
    }

    /// Begins the response to `DescribeSection`. Returns a closure that completes the response, because this work takes
    /// milliseconds.
    ///
    /// # Errors
    /// The refusal of a request for a section that this node does not own, or of a request that exceeds this node's
    /// limits on reports.
    pub fn describe_section(
        &self,
        request: v1::DescribeSectionRequest,
    ) -> Result<Box<dyn FnOnce() -> v1::DescribeSectionResponse + Send>, Status> {
        self.shared.describe_section(request)
    }

    /// Adds the conditions that must hold before this node is sent calls. The conditions are that the node is
    /// registered, holds a lease, knows owners of sections, agrees with the store on the definition of the set, and is
    /// not withdrawn because callers cannot reach it.
    pub fn add_checks(&self, checks: &mut Checks) {
        let shared = self.shared.clone();
        checks.add("registered", move || {
            let reason = || shared.registration.fault().unwrap_or_else(|| "not registered yet".to_owned());
            if shared.ownership.machine().session().is_some() { Ok(()) } else { Err(reason()) }
        });
        let shared = self.shared.clone();
        checks.add("lease", move || {
            let reason = || shared.registration.fault().unwrap_or_else(|| "the store does not respond".to_owned());
            if shared.is_leased() { Ok(()) } else { Err(reason()) }
        });
        let shared = self.shared.clone();
        checks.add("reachable", move || shared.reachability.withdrawn().map_or(Ok(()), Err));
        let shared = self.shared.clone();
        checks.add("routes", move || {
            let reason = || shared.registration.fault().unwrap_or_else(|| "no routes yet".to_owned());
            let routes = shared.routes();
            let routed = routes.as_ref().is_some_and(|routes| {
                // The uids of future calls are unknown, so it is enough that one section has an owner or is in another
                // set. A new set has no section of its own, and its nodes forward every call.
                let is_routed = |at: Route| at.owner.is_some() || at.other_set().is_some();
                (0..routes.layout().sections()).any(|id| routes.get(SectionId(id)).is_some_and(is_routed))
            });
            if routed { Ok(()) } else { Err(reason()) }
        });
    }

    /// Changes the number of seqs by which a raise moves a ceiling. The next raise of each section already uses the new
    /// step.
    ///
    /// # Panics
    /// If the step is 0.
    pub fn set_step(&self, step: Step) {
        self.shared.ownership.set_raise_step(step);
    }

    /// Checks every condition of [`Allocator::add_checks`].
    ///
    /// # Errors
    /// Names and causes of the conditions that do not hold.
    pub fn ready(&self) -> Result<(), Vec<(String, String)>> {
        let mut checks = Checks::new();
        self.add_checks(&mut checks);
        checks.ask()
    }

    /// Returns a receiver for the cause for which this process may no longer serve. The receiver's value is `None`
    /// while the process may serve.
    #[must_use]
    pub fn halted(&self) -> watch::Receiver<Option<Halt>> {
        self.shared.halt.subscribe()
    }

    /// Updates the process' metrics from the allocator's counts. The allocator also does this by itself once a second.
    pub fn publish(&self) {
        self.shared.publish();
    }

    /// Hands all sections of this node over to other nodes of the set, with their exact values. In the meantime the
    /// node continues to serve calls. If no other node can take the sections, the node releases them to the store
    /// instead. Returns `true` once this node owns no section and no step of a handover is in progress. Returns `false`
    /// if `timeout` passes first, or if the node's certificate has expired, because then no node accepts a handover
    /// from this node any more. Cancel safe: handovers that have begun continue.
    pub async fn drain(&self, timeout: Duration) -> bool {
        let shared = &*self.shared;
        shared.step(|owner, _| owner.leave());
        shared.registration.request_renewal();
        let drained = async {
            loop {
                let changed = shared.pending.ownership_changed();
                if shared.ownership.machine().is_empty() && shared.handovers.queue.are_done() {
                    return true;
                }
                if shared.reachability.is_stopped() {
                    return false;
                }
                tokio::select! {
                    () = changed => {}
                    // The store's release of sections changes nothing in this process, so there is no notification to
                    // wait for.
                    () = tokio::time::sleep(shared.config.options.min_renew_interval) => {}
                }
            }
        };
        tokio::time::timeout(timeout, drained).await.unwrap_or(false)
    }
}

impl SequenceService for Allocator {
    async fn next(&self, call: Call, item: Item) -> Result<Allocation, Refusal> {
        let answer = self.one(&Take, call, item).await;
        if let Err(refusal) = &answer {
            self.shared.counters.refused(call.via, refusal, 1);
        }
        answer
    }

    fn try_next_batch(&self, via: Via, items: &[DecodedItem], answers: &mut Vec<ItemReply<Allocation>>) {
        let before = answers.len();
        self.shared.first_pass(&Take, via, self.serve().as_ref(), items, answers);
        self.shared.count_refused(via, &answers[before..]);
    }

    async fn complete_batch(&self, call: Call, items: &[DecodedItem], answers: &mut [ItemReply<Allocation>]) {
        // Boxed, because the future of the common call must not have the size of this rare one.
        Box::pin(self.shared.complete_batch(call, items, answers)).await;
    }

    async fn current(&self, call: Call, uid: Uid, epoch: Epoch) -> Result<Current, Refusal> {
        self.one(&Read, call, Item { uid, count: Count::ONE, epoch }).await
    }

    async fn current_many(&self, call: Call, uids: Vec<(Uid, Epoch)>) -> Vec<Result<Current, Refusal>> {
        self.shared.read_many(call, uids).await
    }

    async fn advance(&self, call: Call, uid: Uid, to: Target, epoch: Epoch) -> Result<Epoch, Refusal> {
        let answer = self.one(&Advance::new(to), call, Item { uid, count: Count::ONE, epoch }).await;
        if let Err(refusal) = &answer {
            self.shared.counters.refused(call.via, refusal, 1);
        }
        answer
    }

    async fn next_in_lane(&self, call: Call, item: Item, above: Seq) -> Result<Allocation, Refusal> {
        let work = TakeInLane { above, arrivals: self.arrivals.clone() };
        let answer = match self.unleased(&work, call, &item) {
            Some(answer) => answer,
            None => self.one(&work, call, item).await,
        };
        if let Err(refusal) = &answer {
            self.shared.counters.refused(call.via, refusal, 1);
        }
        answer
    }

    fn series(&self, name: &str) -> Option<Arc<IdSeries>> {
        self.shared.ownership.series().get(name).cloned()
    }

    fn all_series(&self) -> Vec<Arc<IdSeries>> {
        self.shared.ownership.series().all().to_vec()
    }

    fn choose_lane(&self, series: &IdSeries, attempt: u32) -> Option<u32> {
        let now = self.arrivals.as_ref().map_or_else(|| self.shared.clock.now(), |arrivals| arrivals.now());
        self.shared.choose_lane(series, attempt, now)
    }

    fn keyspace(&self, name: &str) -> Option<Arc<Keyspace>> {
        self.shared.ownership.series().keyspace(name).cloned()
    }

    async fn next_keys(&self, call: Call, items: KeyedItems) -> Vec<Result<Allocation, Refusal>> {
        let results = self.keys(&TakeOfKeys(&items), call, &items).await;
        self.count_refused_keys(call, &results);
        results
    }

    fn try_next_keys(&self, via: Via, items: &KeyedItems) -> Vec<ItemReply<Allocation>> {
        let shared = &*self.shared;
        let mut replies = Vec::with_capacity(items.items.len());
        shared.first_pass_of_keys(&TakeOfKeys(items), via, self.serve().as_ref(), items, &mut replies);
        for refusal in replies.iter().flatten().filter_map(|reply| reply.as_ref().err()) {
            shared.counters.refused(via, refusal, 1);
        }
        replies
    }

    async fn current_keys(&self, call: Call, items: KeyedItems) -> Vec<Result<Current, Refusal>> {
        self.keys(&ReadKeys(&items), call, &items).await
    }

    async fn advance_keys(&self, call: Call, items: KeyedItems, to: Target) -> Vec<Result<Epoch, Refusal>> {
        let results = self.keys(&AdvanceKeys { keys: &items, to }, call, &items).await;
        self.count_refused_keys(call, &results);
        results
    }

    #[inline]
    fn route_version(&self) -> RouteVersion {
        self.shared.ownership.route_version()
    }

    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        self.shared.routes().as_ref()?.since(since)
    }
}

impl Allocator {
    /// Completes an item of a lane that may be served without a lease, in case this node holds no lease. Returns `None`
    /// if the node holds a lease, if the item's lane may not be served without a lease, if the item has to wait, or if
    /// the process may no longer serve.
    fn unleased(&self, work: &TakeInLane, call: Call, item: &Item) -> Option<Result<Allocation, Refusal>> {
        let shared = &*self.shared;
        if self.serve().is_some() || shared.halt.get().is_some() {
            return None;
        }
        let (section, slot) = shared.locate(item.uid, call.via).ok()?;
        let item = PendingItem { index: 0, item: *item, section, slot, unknown: UnknownAttempts::default() };
        let result = work.here(shared, shared.ownership.serve_unleased().get(section)?, &item)?;
        if result.is_ok() {
            shared.counters.given(call.via, TakeInLane::numbers(&item));
        }
        Some(result)
    }

    /// Completes the items of a call for keys. In the common case this node owns the items' buckets and completes the
    /// items without waiting.
    async fn keys<W: Work>(&self, work: &W, call: Call, items: &KeyedItems) -> Vec<Result<W::Output, Refusal>> {
        let shared = &*self.shared;
        let mut replies = Vec::with_capacity(items.items.len());
        shared.first_pass_of_keys(work, call.via, self.serve().as_ref(), items, &mut replies);
        // Boxed, because the future of the common call must not have the size of this rare one.
        Box::pin(shared.complete_keys(work, call, items, replies)).await
    }

    fn count_refused_keys<T>(&self, call: Call, results: &[Result<T, Refusal>]) {
        for refusal in results.iter().filter_map(|result| result.as_ref().err()) {
            self.shared.counters.refused(call.via, refusal, 1);
        }
    }

    /// Completes one item. In the common case this node owns the item's section and completes the item without waiting.
    #[inline]
    async fn one<W: Work>(&self, work: &W, call: Call, item: Item) -> Result<W::Output, Refusal> {
        let shared = &*self.shared;
        let (section, slot) = shared.locate(item.uid, call.via)?;
        let item = PendingItem { index: 0, item, section, slot, unknown: UnknownAttempts::default() };
        // The guard is dropped at the end of the statement, before any await.
        let result = self.serve().and_then(|serving| work.here(shared, serving.get(section)?, &item));
        let Some(result) = result else {
            let pending = shared.pend(&call, item);
            // Boxed, because the future of the common call must not have the size of this rare one.
            let results = Box::pin(shared.complete(work, call, pending)).await;
            return results.into_iter().next().expect("one result for one item").1;
        };
        if result.is_ok() {
            shared.counters.given(call.via, W::numbers(&item));
        }
        result
    }
}
