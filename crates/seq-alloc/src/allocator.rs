//! The handle: numbers from memory, at the price of one atomic load and one compare-and-swap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use seq_client::pool::{Dial, Pool};
use seq_core::route::RouteUpdate;
use seq_core::set_spec::SpecError;
use seq_core::{Count, Epoch, Layout, Refusal, RouteVersion, SectionId, SlotIndex, Step, Uid};
use seq_kit::frontend::{Allocation, Ask, Call, Current, Frontend};
use seq_kit::http::Checks;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1;
use tokio::sync::Notify;

use crate::config::{AllocConfig, TuningError};
use crate::counters::Counters;
use crate::line::Line;
use crate::owned::{OwnedSection, OwnedTable};
use crate::settle::Item;
use crate::shared::Shared;
use crate::store_link::StoreLink;
use crate::{ceiling, session, shared};

/// An AllocSvr's numbers. Clones are handles on the same one; calls may come from any thread and any runtime.
#[derive(Clone, Debug)]
pub struct Allocator {
    pub(crate) shared: Arc<Shared>,
}

/// Why an allocator cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The set's definition does not hold.
    #[error("the set {set} is not sound: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Spec {
        /// The set.
        set: String,
        /// Everything that is wrong with it.
        problems: Vec<SpecError>,
    },
    /// The set has no AllocSvr of this name.
    #[error("the set {set} has no AllocSvr {name:?}")]
    UnknownName {
        /// The set.
        set: String,
        /// The name.
        name: String,
    },
    /// A pace or bound cannot work.
    #[error(transparent)]
    Tuning(#[from] TuningError),
}

impl Allocator {
    /// Starts an allocator, with its keepers in `group` on the current runtime. It answers from when it has registered and
    /// been granted sections; see [`Allocator::add_checks`].
    ///
    /// # Errors
    /// When the configuration does not hold. Nothing was started then.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(config: AllocConfig, group: &TaskGroup) -> Result<Allocator, StartError> {
        Allocator::start_with(config, &Dial::tcp(), group)
    }

    /// Starts an allocator that reaches the store and the other nodes by `dial`.
    ///
    /// # Errors
    /// As [`Allocator::start`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_with(config: AllocConfig, dial: &Dial, group: &TaskGroup) -> Result<Allocator, StartError> {
        let AllocConfig { spec, name, advertise, tuning } = config;
        tuning.validate()?;
        let set = spec.name.clone();
        let layout: Layout = spec.validate().map_err(|problems| StartError::Spec { set: set.clone(), problems })?;
        if !spec.allocs.iter().any(|alloc| alloc.name == name) {
            return Err(StartError::UnknownName { set, name });
        }
        let members = spec.stores.into_iter().map(|store| store.addr).collect();
        let link = Arc::new(StoreLink::new(Pool::with_dial(1, dial.clone()), members, tuning.store_timeout));
        let shared = Arc::new(Shared {
            counters: Counters::new(&set, &name),
            owned: OwnedTable::new(layout.sections()),
            routes: ArcSwapOption::empty(),
            node: AtomicU32::new(0),
            life: Mutex::new(None),
            fault: Mutex::new(None),
            line: Line::default(),
            renew_now: Notify::new(),
            peers: Pool::with_dial(tuning.connections, dial.clone()),
            shutdown: group.token(),
            step: Step(spec.step),
            set,
            name,
            advertise,
            layout,
            tuning,
        });
        group.spawn("session keeper", Kind::Critical, session::run(shared.clone(), link.clone()));
        group.spawn("ceiling keeper", Kind::Critical, ceiling::keep(shared.clone(), link));
        group.spawn("allocator books", Kind::Disposable, shared::publish(shared.clone()));
        Ok(Allocator { shared })
    }

    /// What this node knows of itself.
    #[must_use]
    pub fn status(&self) -> v1::AllocStatus {
        let shared = &self.shared;
        let life = *shared.life.lock();
        let (raises, raises_refused) = shared.counters.raises();
        let owned = shared.owned.load();
        v1::AllocStatus {
            id: shared.node.load(Relaxed),
            incarnation: life.map_or(0, |life| life.incarnation.0),
            sections: owned.iter().count() as u32,
            route_version: self.route_version().0,
            allocations: shared.counters.allocations(),
            forwarded: shared.counters.forwards(),
            raises,
            raises_refused,
            slot_bytes: shared.slot_bytes(),
            store_addrs: Vec::new(),
        }
    }

    /// Adds what must hold before traffic is sent here: the node is registered, knows who owns what, and agrees with the
    /// store on what the set is.
    pub fn add_checks(&self, checks: &mut Checks) {
        let shared = self.shared.clone();
        checks.add("registered", move || {
            let reason = || shared.fault.lock().clone().unwrap_or_else(|| "not registered yet".to_owned());
            if shared.life.lock().is_some() { Ok(()) } else { Err(reason()) }
        });
        let shared = self.shared.clone();
        checks.add("routes", move || {
            let reason = || shared.fault.lock().clone().unwrap_or_else(|| "no routes yet".to_owned());
            let routes = shared.routes();
            let owners = routes.as_ref().is_some_and(|routes| {
                // One section with an owner is enough: which uids are asked for is not known here.
                (0..routes.layout().sections()).any(|id| routes.get(SectionId(id)).is_some_and(|at| at.owner.is_some()))
            });
            if owners { Ok(()) } else { Err(reason()) }
        });
    }

    /// Whether every check of [`Allocator::add_checks`] holds.
    ///
    /// # Errors
    /// The checks that do not hold, with their reasons.
    pub fn ready(&self) -> Result<(), Vec<(String, String)>> {
        let mut checks = Checks::new();
        self.add_checks(&mut checks);
        checks.ask()
    }

    /// Brings the process' metrics up to date; happens once a second by itself.
    pub fn publish(&self) {
        self.shared.publish();
    }

    /// Reads a uid's last number in a section that this node owns.
    pub(crate) fn read(&self, owned: &OwnedSection, slot: SlotIndex, epoch: Epoch) -> Result<Current, Refusal> {
        if epoch > owned.epoch {
            return Err(self.shared.stale(owned, epoch));
        }
        let reading = owned.section.current(slot).ok_or(Refusal::Unserved { section: owned.id })?;
        Ok(Current { reading, epoch: owned.epoch })
    }
}

impl Frontend for Allocator {
    async fn next(&self, call: Call, ask: Ask) -> Result<Allocation, Refusal> {
        let shared = &*self.shared;
        let (section, slot) = match shared.layout.locate(ask.uid) {
            Ok(place) => place,
            Err(refusal) => {
                shared.counters.refused(call.via, &refusal, 1);
                return Err(refusal);
            }
        };
        // The guard of the table ends with the block: nothing is held over a wait.
        let answer = {
            let table = shared.owned.load();
            table.get(section).and_then(|owned| shared.take(owned, &ask, slot))
        };
        match answer {
            Some(result) => {
                shared.count(&call, &ask, &result);
                result
            }
            // Boxed, so that the usual call does not carry the size of the rare one.
            None => Box::pin(shared.next_later(call, Item { index: 0, ask, section, slot })).await,
        }
    }

    async fn next_many(&self, call: Call, asks: Vec<Result<Ask, Refusal>>) -> Vec<Result<Allocation, Refusal>> {
        self.take_many(call, asks).await
    }

    async fn current(&self, call: Call, uid: Uid, epoch: Epoch) -> Result<Current, Refusal> {
        let shared = &*self.shared;
        let (section, slot) = shared.layout.locate(uid)?;
        if let Some(owned) = shared.owned.load().get(section) {
            return self.read(owned, slot, epoch);
        }
        let owner = shared.owners().elsewhere(&call, section)?;
        let item = Item { index: 0, ask: Ask { uid, count: Count::ONE, epoch }, section, slot };
        Box::pin(shared.forward_current(call, owner, &item)).await
    }

    async fn current_many(&self, call: Call, uids: Vec<Uid>) -> Vec<Result<Current, Refusal>> {
        self.read_many(call, uids).await
    }

    #[inline]
    fn route_version(&self) -> RouteVersion {
        self.shared.routes().as_ref().map_or(RouteVersion(0), |routes| routes.version())
    }

    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        self.shared.routes().as_ref()?.since(since)
    }
}

impl Shared {
    /// A call that is not answered at once: the section is at its ceiling, or another node's.
    async fn next_later(&self, call: Call, item: Item) -> Result<Allocation, Refusal> {
        if self.owned.load().get(item.section).is_none() {
            let owner = self.owners().elsewhere(&call, item.section);
            let result = match owner {
                Ok(owner) => self.forward_next(call, owner, &item).await,
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = &result {
                self.counters.refused(call.via, refusal, 1);
            }
            return result;
        }
        let (_, result) = self.settle(call, vec![item]).await.pop().expect("one answer for one item");
        result
    }
}
