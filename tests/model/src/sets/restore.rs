//! Restore of a store from its backup: a newer lineage, quarantine until the other set has committed a fence.
//!
//! A backup is made at any time. Everything that its store committed since is lost, and the other set continues.

use crate::sets::bounds::{Bug, Setting};
use crate::sets::events::Event;
use crate::sets::protocol::Protocol;
use crate::sets::world::{EPOCHS, MARGIN, Message, Record, Residence, Set, Tombstone, World};

/// A home that a record of the other set proves.
#[derive(Clone, Copy, Debug)]
struct Home {
    since: u8,
    max_seq: u8,
    /// The lineage in which that ceiling was committed.
    lineage: u8,
}

impl Protocol {
    /// Restores a store: the next lineage, no session, every migration stopped, and resident sections in quarantine.
    pub(crate) fn restore(&self, world: &mut World, set: Set) {
        world.left.restores[set] -= 1;
        let lineage = world.stores[set].lineage + 1;
        let backup = world.backups[set].expect("only a backup is restored");
        let mut store = backup;
        (store.lineage, store.incarnation, store.quarantined) = (lineage, 0, true);
        (store.moving, store.paused) = (false, false);
        store.stopped |= 1 << store.migration;
        world.stores[set] = store;
        if let Record::Resident(Residence { since, epoch, max_seq, .. }) = backup.record {
            world.stores[set].record = Record::Quarantined { since, epoch, max_seq, lineage: backup.lineage };
            if self.bounds.has(Bug::RestoredSourceContinues) {
                world.stores[set].quarantined = false;
                self.come_home(world, set);
            }
        }
        if world.stores[set.other()].quarantined {
            self.events.mark(Event::BothQuarantined);
        }
    }

    /// Applies a Fence: nothing of an older lineage of its sender is accepted any more. The response has the record.
    pub(crate) fn fence(&self, world: &mut World, from: Set, lineage: u8) {
        let store = &mut world.stores[from.other()];
        if lineage < store.accepts {
            return;
        }
        if !self.bounds.has(Bug::QuarantineEndsOnARead) {
            store.accepts = lineage;
        }
        if let Record::Departed(tombstone) = &mut store.record
            && self.bounds.has(Bug::TombstoneNotTakenFromResponse)
        {
            tombstone.arrived = false;
        }
        let (from_lineage, record) = (store.lineage, store.record);
        world.send(Message::Fenced { to: from, lineage, from_lineage, record });
    }

    /// Returns whether a store in quarantine may use the response to its Fence: only when the leases of its own older
    /// lineages have ended, and the leases of the other set's lineages before the lineage that responds. An owner there
    /// may serve a section that its restored store has forgotten.
    pub(crate) fn can_end_quarantine(&self, world: &World, set: Set, from_lineage: u8) -> bool {
        let own = world.is_live_before(set, world.stores[set].lineage);
        let other = world.is_live_before(set.other(), from_lineage) && !self.bounds.has(Bug::WaitForOwnLeasesOnly);
        self.bounds.setting != Setting::Ordered || !(own || other) || self.bounds.has(Bug::QuarantineWithoutWait)
    }

    /// Ends the quarantine with the response to the Fence. The response must be of the newest lineage known of the
    /// other set, because that set may have been restored since.
    pub(crate) fn on_fenced(&self, world: &mut World, set: Set, lineage: u8, from_lineage: u8, record: Record) {
        let store = &mut world.stores[set];
        if !store.quarantined || store.lineage != lineage {
            return;
        }
        if from_lineage < store.accepts && !self.bounds.has(Bug::OldResponseTaken) {
            self.events.mark(Event::OldResponseDropped);
            return;
        }
        store.quarantined = false;
        let known = match store.record {
            Record::Never => 0,
            Record::Resident(Residence { epoch, .. })
            | Record::Departed(Tombstone { epoch, .. })
            | Record::Quarantined { epoch, .. } => epoch,
        };
        match (record, self.home_of(record, from_lineage)) {
            (Record::Departed(tombstone), _) if tombstone.epoch > known && !self.is_lost(&tombstone) => {
                self.events.mark(Event::TombstoneInResponse);
                if self.bounds.has(Bug::TombstoneNotTakenFromResponse) {
                    let Tombstone { epoch, max_seq, to_lineage: lineage, .. } = tombstone;
                    world.stores[set].record = Record::Quarantined { since: epoch, epoch, max_seq, lineage };
                } else {
                    self.take_in(world, set, tombstone);
                }
            }
            (_, Some(home)) if home.since > known => {
                self.events.mark(Event::Gone);
                self.record_home(world, set, home);
            }
            _ => self.come_home(world, set),
        }
    }

    /// Returns whether the bug has made a tombstone useless.
    pub(crate) fn is_lost(&self, tombstone: &Tombstone) -> bool {
        tombstone.completed && self.bounds.has(Bug::CompletedTombstoneShrinks)
    }

    /// Returns the home that a record of the other set, in a response of that lineage, proves.
    fn home_of(&self, record: Record, from_lineage: u8) -> Option<Home> {
        match record {
            Record::Resident(Residence { since, max_seq, .. }) => Some(Home { since, max_seq, lineage: from_lineage }),
            Record::Quarantined { since, max_seq, lineage, .. } => Some(Home { since, max_seq, lineage }),
            Record::Never | Record::Departed(_) => None,
        }
    }

    /// Records that the section is resident in the other set, with everything that brings it back there after a
    /// restore.
    fn record_home(&self, world: &mut World, set: Set, home: Home) {
        let tombstone = Tombstone {
            epoch: home.since,
            to_lineage: home.lineage,
            max_seq: home.max_seq,
            handover_id: 0,
            node: None,
            migration: 0,
            arrived: true,
            completed: false,
        };
        world.write(set, Record::Departed(tombstone));
    }

    /// Makes a quarantined section resident, with margins for every restore since its ceiling was committed.
    fn come_home(&self, world: &mut World, set: Set) {
        let store = &world.stores[set];
        let Record::Quarantined { epoch, max_seq, lineage, .. } = store.record else { return };
        let restores = self.margins(store.lineage - lineage);
        let since = epoch + restores * EPOCHS;
        self.events.mark(Event::Home);
        let max_seq = max_seq + restores * MARGIN;
        world.write(
            set,
            Record::Resident(Residence { since, epoch: since, owner: None, max_seq, handover_id: 0, came_by: 0 }),
        );
    }
}
