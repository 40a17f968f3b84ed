//! Groups the pending items of a call by the node that they are forwarded to.
//!
//! The route of a section decides alone on most items, so that no state machine is made for each of their sections: all
//! sections of a request have the same state, and share the machine of one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use seq_api::service::Call;
use seq_core::calls::{Destination, PendingCall};
use seq_core::route::RouteTable;
use seq_core::{Epoch, NodeId, SectionId};
use tokio::time::Instant;

use super::{Arrived, SectionItems};
use crate::pending_item::PendingItem;
use crate::shared::Shared;

/// Items for which a new group has room. More are usual only in a call for few owners, and the groups of all owners
/// together must not have room for many times the items of the call.
const ROOM: usize = 64;

/// Items of a call that are forwarded to the same destination, or items of one section that have to wait.
#[derive(Debug)]
pub(crate) struct PendingGroup {
    /// Destination; `None` if the items are of one section and have to wait.
    pub(crate) to: Option<Destination>,
    /// Items in the order of the call.
    pub(crate) items: Vec<PendingItem>,
    /// State machines of the items' sections, in the order of the sections. If `routes` is `Some`, it is a single
    /// machine, which the sections share.
    machines: Vec<PendingCall>,
    /// Routes by which the items are forwarded, if these decided alone.
    routes: Option<Arc<RouteTable>>,
    /// Time at which the items became pending.
    pub(crate) since: Instant,
}

/// Items that are sent in one request to another node.
pub(super) struct Request<'a> {
    /// Items in the order of the call. Invariants: no item is removed before an earlier item of the same uid, and at
    /// least one item remains while the request is in flight.
    pub(super) items: &'a mut Vec<PendingItem>,
    /// State machines of the items' sections.
    pub(super) machines: Machines<'a>,
    /// Time at which the items became pending.
    pub(super) since: Instant,
}

/// State machines of the sections of a request.
pub(super) enum Machines<'a> {
    /// One machine for each section, in the order of the sections.
    Each(&'a mut [PendingCall]),
    /// The machine of one of the sections. The machines of the others are made from it and the routes by which the
    /// items are forwarded.
    Shared(&'a mut PendingCall, &'a RouteTable),
}

impl Machines<'_> {
    /// Returns the machine of a section. `epoch` is the newest epoch that the items of the section name.
    pub(super) fn of(&mut self, section: SectionId, epoch: Epoch) -> &mut PendingCall {
        match self {
            Machines::Each(machines) => {
                let place = machines.binary_search_by_key(&section, PendingCall::section);
                &mut machines[place.expect("each item has the machine of its section")]
            }
            Machines::Shared(shared, routes) => {
                **shared = in_same_request(shared, routes, section, epoch);
                shared
            }
        }
    }

    /// Continues each section after their common request was dropped or not sent.
    pub(super) fn on_abandoned(&mut self) {
        match self {
            Machines::Each(machines) => machines.iter_mut().for_each(PendingCall::on_abandoned),
            Machines::Shared(shared, _) => shared.on_abandoned(),
        }
    }
}

impl PendingGroup {
    /// Returns the request for the group's items.
    pub(super) fn request(&mut self) -> Request<'_> {
        let machines = match (&self.routes, &mut self.machines[..]) {
            (Some(routes), [shared]) => Machines::Shared(shared, routes),
            (_, machines) => Machines::Each(machines),
        };
        Request { items: &mut self.items, machines, since: self.since }
    }

    /// Splits the group by section. Sections without items are left out.
    pub(super) fn into_sections(mut self) -> BTreeMap<SectionId, SectionItems> {
        let mut sections: BTreeMap<SectionId, Vec<PendingItem>> = BTreeMap::new();
        for item in std::mem::take(&mut self.items) {
            sections.entry(item.section).or_default().push(item);
        }
        let Request { mut machines, since, .. } = self.request();
        let mut with_machine = |(section, items): (SectionId, Vec<PendingItem>)| {
            let newest = items.iter().map(|item| item.item.epoch).max().unwrap_or_default();
            (section, SectionItems { machine: *machines.of(section, newest), since, items })
        };
        sections.into_iter().map(&mut with_machine).collect()
    }
}

impl Shared {
    /// Groups pending items by their destination. Within each group the items keep the order that they have in the
    /// call, and all items of a section are in one group.
    pub(crate) fn groups(&self, call: &Call, pending: Vec<PendingItem>) -> Vec<PendingGroup> {
        let arrived = self.arrived();
        let mut groups = Vec::new();
        let rest = self.groups_by_route(call, arrived, pending, &mut groups);
        if !rest.is_empty() {
            self.groups_by_machine(call, arrived, rest, &mut groups);
        }
        groups
    }

    /// Groups the items whose destination the route of their section decides alone. Returns the other items.
    fn groups_by_route(
        &self,
        call: &Call,
        arrived: Arrived,
        pending: Vec<PendingItem>,
        groups: &mut Vec<PendingGroup>,
    ) -> Vec<PendingItem> {
        let (owned, routes, me) = (self.ownership.owned(), self.routes(), self.registration.node());
        let Some(routes) = routes.as_ref() else { return pending };
        let new = arrived.machine(call, SectionId(0), Epoch(0));
        let mut of_owner: BTreeMap<NodeId, usize> = BTreeMap::new();
        let room = pending.len().min(ROOM);
        let mut rest = Vec::new();
        for item in pending {
            let route = routes.get(item.section).filter(|_| owned.get(item.section).is_none());
            let Some(owner) = route.and_then(|route| new.owner_by_route(route, me)) else {
                rest.push(item);
                continue;
            };
            let index = *of_owner.entry(owner).or_insert_with(|| {
                let to = Some(Destination::Node(owner));
                let machine = in_same_request(&new.forwarded(owner, Epoch(0)), routes, item.section, item.item.epoch);
                let (machines, routes, since) = (vec![machine], Some(routes.clone()), arrived.since);
                groups.push(PendingGroup { to, items: Vec::with_capacity(room), machines, routes, since });
                groups.len() - 1
            });
            groups[index].items.push(item);
        }
        rest
    }

    /// Groups items by the first decisions of their sections' machines.
    fn groups_by_machine(
        &self,
        call: &Call,
        arrived: Arrived,
        pending: Vec<PendingItem>,
        groups: &mut Vec<PendingGroup>,
    ) {
        let mut sections: BTreeMap<SectionId, (Epoch, usize)> = BTreeMap::new();
        for item in &pending {
            let (epoch, _) = sections.entry(item.section).or_default();
            *epoch = item.item.epoch.max(*epoch);
        }
        // If the routes of another set are known, the items for that set are also grouped by owner.
        let mut forwarded: BTreeMap<(Destination, Option<Arc<str>>), usize> = BTreeMap::new();
        for (section, (epoch, group)) in &mut sections {
            let mut machine = arrived.machine(call, *section, *epoch);
            let to = self.first_step(call, &mut machine);
            let new = groups.len();
            *group = to.map_or(new, |to| {
                let owner = match to {
                    Destination::Set(set) => self.other_set(set).and_then(|set| set.owner_of(*section)),
                    Destination::Node(_) => None,
                };
                *forwarded.entry((to, owner)).or_insert(new)
            });
            if *group == new {
                let (items, machines, routes, since) = (Vec::new(), Vec::new(), None, arrived.since);
                groups.push(PendingGroup { to, items, machines, routes, since });
            }
            groups[*group].machines.push(machine);
        }
        for item in pending {
            groups[sections[&item.section].1].items.push(item);
        }
    }
}

/// Returns the machine of a section whose items were forwarded by `routes`, in the same request as those of `shared`.
fn in_same_request(shared: &PendingCall, routes: &RouteTable, section: SectionId, epoch: Epoch) -> PendingCall {
    let used = routes.get(section).map(|route| route.epoch).unwrap_or_default();
    shared.in_same_request(section, epoch, used)
}
