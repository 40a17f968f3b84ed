//! An AllocSvr: its lease, the ownership updates and peer routes that it applies, its ceiling.

use crate::bounds::{Bug, Setting};
use crate::events::Event;
use crate::protocol::Protocol;
use crate::world::{
    AllocSvr, Call, Copied, HOLD, Kind, LEASE, Message, Record, Reply, SECOND, STEP, Section, Session, World,
};

/// The version of a node whose session is over: no record is newer.
const OVER: u8 = u8::MAX;

impl Protocol {
    /// Lets the arbiter's clock tick, and the clock of every owner except the owner whose clock stops.
    pub(crate) fn tick(&self, world: &mut World, still: Option<Session>) {
        let ticks = |session: Session| still != Some(session);
        for (session, node) in world.nodes.iter_mut().enumerate().filter(|(session, _)| ticks(*session)) {
            node.lease = (node.lease - 1).max(0);
            for call in &mut world.calls {
                if let Call::Arrived { op, at, in_lease: false, age, .. } = call
                    && *at == session
                {
                    *age += 1;
                    if *age > HOLD {
                        *call = Call::Unsent { op: *op };
                    }
                }
            }
        }
        for message in &mut world.network {
            if let Message::Renew { session, sent, .. }
            | Message::Raise { session, sent, .. }
            | Message::Transfer { session, sent, .. }
            | Message::Response { session, sent, .. } = message
                && ticks(*session)
            {
                // With a lower value, the response could not even serve a call that is pending now.
                *sent = (*sent - 1).max(-HOLD);
            }
        }
        for observed in &mut world.arbiter {
            observed.wait = (observed.wait - 1).max(0);
        }
        if let Some(stalled) = world.stalled.as_mut().filter(|_| self.bounds.has(Bug::ClockBeforeState)) {
            stalled.observed.wait = (stalled.observed.wait - 1).max(0);
        }
    }

    /// Ends the process of a session, and its calls with it, whose callers try again. Its parent reaps it and reports
    /// its death; messages that it sent before may still arrive. With the bug the process runs on.
    pub(crate) fn die(&self, world: &mut World, session: Session) {
        world.left.deaths -= 1;
        world.network.push(Message::Died { session });
        if self.bounds.has(Bug::DeathNotReaped) {
            return;
        }
        world.nodes[session] = AllocSvr { is_dead: true, ..AllocSvr::default() };
        let World { calls, sections, .. } = world;
        for call in calls {
            match *call {
                Call::Arrived { op, at, .. } if at == session => *call = Call::Unsent { op },
                Call::Admitted { op, section, .. } if sections[section].session == session => {
                    *call = Call::Unsent { op };
                }
                _ => {}
            }
        }
    }

    /// Reads the clock, then sends a renewal.
    pub(crate) fn renew(&self, world: &mut World, session: Session) {
        world.left.renewals[session] -= 1;
        self.send_renewal(world, session);
    }

    /// Sends a renewal in addition to the renewals that a session sends periodically.
    pub(crate) fn send_renewal(&self, world: &mut World, session: Session) {
        let node = &world.nodes[session];
        let (version, released) = (node.known_version(), node.released);
        world.network.push(Message::Renew { session, sent: LEASE, version, released });
    }

    /// Returns whether the owner should raise its ceiling: half a step is left, and no raise is in flight.
    pub(crate) fn can_raise(&self, world: &World, session: Session) -> bool {
        let asks = |message: &Message| match message {
            Message::Raise { session: asker, .. } => *asker == session,
            Message::Response { session: asker, reply: Reply::Raise { .. }, .. } => *asker == session,
            _ => false,
        };
        let is_near = |section: &Section| section.ceiling - section.cur <= STEP / 2;
        world.left.raises > 0 && world.owned(session).is_some_and(is_near) && !world.network.iter().any(asks)
    }

    /// Reads the clock, then requests an absolute ceiling.
    pub(crate) fn request_raise(&self, world: &mut World, session: Session) {
        world.left.raises -= 1;
        let Section { epoch, ceiling, .. } = *world.owned(session).expect("an owner raises");
        let to = ceiling + STEP;
        world.history.requested = world.history.requested.max(to);
        let version = world.nodes[session].known_version();
        world.network.push(Message::Raise { session, sent: LEASE, version, epoch, to });
    }

    /// Drops the section from the table, because its raises fail for too long; the next renewal releases it.
    pub(crate) fn release(&self, world: &mut World, session: Session) {
        world.left.releases -= 1;
        let epoch = world.owned(session).expect("an owner gives up").epoch;
        world.nodes[session].released = epoch;
        drop_section(world, session);
    }

    /// Applies a response of the store: the update is adopted first, then the lease is extended to LEASE after the
    /// request was sent, if the store counted the request, and then the reply to the request itself is applied.
    pub(crate) fn on_response(&self, world: &mut World, response: Message) {
        let Message::Response { session, sent, counted, over, update, reply } = response else {
            unreachable!("not a response: {response:?}")
        };
        if over {
            drop_section(world, session);
            world.nodes[session].version = OVER;
            world.nodes[session].ungranted = false;
            world.nodes[session].lease = 0;
            return;
        }
        if self.bounds.has(Bug::LeaseBeforeUpdate) || self.bounds.has(Bug::ThawBeforeUpdate) {
            world.nodes[session].pending_update = update;
        } else if let Some(record) = update {
            if record.owner == Some(session)
                && world.nodes[session].staged.is_some_and(|copy| copy.handover_id == record.handover_id)
            {
                self.events.mark(Event::Granted);
            }
            self.adopt(world, session, record);
        }
        if counted {
            let sent = if self.bounds.has(Bug::ExpiryFromResponse) { LEASE } else { sent };
            self.extend(world, session, sent);
        }
        match reply {
            Reply::Renewal => {}
            Reply::Raise { epoch, ceiling } => raised(world, session, epoch, ceiling),
            Reply::Transfer { to, epoch, handover_id, applied } => {
                self.on_transfer_response(world, session, to, epoch, handover_id, applied);
            }
        }
    }

    /// Extends the lease, which may now cover an earlier reading of the clock.
    fn extend(&self, world: &mut World, session: Session, sent: i8) {
        if self.bounds.setting != Setting::Timed {
            return;
        }
        world.nodes[session].lease = world.nodes[session].lease.max(sent);
        for call in &mut world.calls {
            if let Call::Arrived { at, in_lease, age, .. } = call
                && *at == session
                && !*in_lease
                && sent + *age > 0
            {
                (*in_lease, *age) = (true, 0);
                self.events.mark(Event::ExtendedForHeldCall);
            }
        }
    }

    /// Adopts a route that is newer than the node's: a section of another owner leaves the table at once, a grant
    /// enters it.
    pub(crate) fn adopt(&self, world: &mut World, session: Session, record: Record) {
        let node = &mut world.nodes[session];
        let owned = node.table.map(|index| world.sections[index].epoch);
        let old = !node.is_update(record);
        if old && !(self.bounds.has(Bug::OldUpdateAdopted) && node.version != OVER && owned != Some(record.epoch)) {
            self.events.mark(Event::OldUpdateIgnored);
            return;
        }
        if node.ungranted && record.epoch == node.version {
            self.events.mark(Event::GrantedAfterPeerRoutes);
        }
        node.ungranted = false;
        node.version = record.epoch;
        node.route = record.owner;
        node.released = 0;
        if record.owner == Some(session) {
            self.enter(world, session, record);
        } else if !self.bounds.has(Bug::LostSectionKept) {
            drop_section(world, session);
        }
    }

    /// Returns whether a session may request the routes of a peer: its lease is over, and it has routes that name the
    /// peer.
    pub(crate) fn can_fetch(&self, world: &World, session: Session, peer: Session) -> bool {
        let node = &world.nodes[session];
        let is_expired = match self.bounds.setting {
            Setting::Timed => node.lease == 0,
            Setting::Clockless => true,
            Setting::Calm => false,
        };
        let has_routes = node.version > 0 && node.version != OVER;
        let same_node = |one, other| self.bounds.reregistered == Some(one) && other == SECOND;
        let is_peer = session != peer && !same_node(session, peer) && !same_node(peer, session);
        world.left.fetches > 0 && is_expired && has_routes && is_peer && world.exists(peer)
    }

    /// Requests the routes of a peer.
    pub(crate) fn fetch_routes(&self, world: &mut World, session: Session, peer: Session) {
        world.left.fetches -= 1;
        world.network.push(Message::GetRoutes { from: session, to: peer });
    }

    /// Responds with the routes of this session. A session that is over does not respond.
    pub(crate) fn on_get_routes(&self, world: &mut World, from: Session, to: Session) {
        let node = &world.nodes[to];
        if node.version != OVER {
            world.network.push(Message::PeerRoutes { to: from, epoch: node.version, owner: node.route });
        }
    }

    /// Applies the routes of a peer: a section with a newer epoch leaves the table. They grant nothing and extend no
    /// lease, and the next request names version 0, so that a grant among them is in the response. They are ignored
    /// during a handover of the session's own, whose outcome only the store may report.
    pub(crate) fn on_peer_routes(&self, world: &mut World, session: Session, epoch: u8, owner: Option<Session>) {
        if self.bounds.has(Bug::PeerRoutesExtendLease) {
            self.extend(world, session, LEASE);
        }
        let node = &mut world.nodes[session];
        if epoch <= node.version {
            return;
        }
        if node.outgoing.is_some() {
            self.events.mark(Event::PeerRoutesIgnored);
            return;
        }
        (node.version, node.route, node.released) = (epoch, owner, 0);
        if owner == Some(session) && self.bounds.has(Bug::PeerRoutesGrant) {
            // Routes carry no ceiling.
            self.enter(world, session, Record { epoch, owner, max_seq: 0, handover_id: 0 });
            return;
        }
        node.ungranted = owner == Some(session);
        if node.table.is_some() {
            self.events.mark(Event::RevokedByPeerRoutes);
        }
        drop_section(world, session);
    }

    /// Enters a section that was granted: from the copy that belongs to the grant, or at the ceiling.
    fn enter(&self, world: &mut World, session: Session, record: Record) {
        drop_section(world, session);
        let by_epoch = self.bounds.has(Bug::StaleCopy);
        let belongs =
            |copy: &Copied| copy.epoch == record.epoch && (copy.handover_id == record.handover_id || by_epoch);
        let staged = world.nodes[session].staged;
        if staged.is_some_and(|copy| copy.epoch == record.epoch && copy.handover_id != record.handover_id) {
            self.events.mark(Event::StaleCopySkipped);
        }
        let start = if self.bounds.has(Bug::StartBelowCeiling) { record.max_seq - 1 } else { record.max_seq };
        let copy = staged.filter(belongs);
        let known = if self.bounds.has(Bug::ExactAlways) { Kind::Number } else { Kind::Bound };
        let (cur, kind) = copy.map_or((start, known), |copy| (copy.cur, copy.kind));
        let (epoch, ceiling) = (record.epoch, record.max_seq);
        world.put(Section { session, epoch, cur, kind, frozen: false, ceiling, handed_over: copy.is_some() });
    }
}

/// Adopts a higher ceiling, even if the section has left the table and only admitted calls still have it.
fn raised(world: &mut World, session: Session, epoch: u8, ceiling: Option<u8>) {
    let Some(ceiling) = ceiling else { return };
    for section in world.sections.iter_mut().filter(|section| section.session == session && section.epoch == epoch) {
        section.ceiling = section.ceiling.max(ceiling);
    }
}

/// Takes the section out of the table. Calls that were admitted keep it.
fn drop_section(world: &mut World, session: Session) {
    world.nodes[session].table = None;
    world.nodes[session].outgoing = None;
}
